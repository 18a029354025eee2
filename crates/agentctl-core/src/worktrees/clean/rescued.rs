//! Old rescue refs: they are deleted only by an order of their own.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CleanOrder;
use crate::fleet::Fleet;
use crate::git::{Git, GitError};
use crate::model::Time;
use crate::worktrees::RESCUE_REFS;
use crate::worktrees::rescue::bookkeeping;

/// Younger rescue refs are kept.
const MIN_AGE: Duration = Duration::from_hours(90 * 24);

/// A rescue ref of an order to delete old ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RescuedRef {
    /// The full name of the ref.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit that it names, or named.
    pub commit: String,
    /// The time of the rescue.
    pub rescued_at: Time,
    /// It is deleted; with `dry_run` it would be.
    pub deleted: bool,
    /// Why it is not deleted.
    pub error: Option<String>,
}

/// Deletes the rescue refs that are older than 90 days, each only if it still names the commit that was read.
pub(super) fn delete_old(
    fleet: &Fleet,
    git: &Git,
    order: &CleanOrder,
) -> Result<Vec<RescuedRef>, GitError> {
    let common = git.repository(&order.from)?.common;
    let format = "--format=%(committerdate:unix) %(objectname) %(refname)";
    let listed = git.read(&common).args(["for-each-ref", format, RESCUE_REFS]).text()?;
    let age = i64::try_from(MIN_AGE.as_millis()).unwrap_or(i64::MAX);
    let newest = fleet.host.now().millis().saturating_sub(age);
    let mut old: Vec<RescuedRef> = listed.lines().filter_map(parse).collect();
    old.retain(|rescued| rescued.rescued_at.millis() < newest);
    old.sort_by_key(|rescued| rescued.rescued_at.millis());
    for rescued in &mut old {
        let RescuedRef { reference, commit, .. } = &*rescued;
        let delete = || Git::delete_ref(bookkeeping(git, &common), reference, commit);
        let result = if order.dry_run { Ok(()) } else { delete() };
        rescued.deleted = result.is_ok();
        rescued.error = result.err().map(|error| error.to_string());
    }
    Ok(old)
}

/// Reads a line of git. A ref that names no commit has no time, and stays.
fn parse(line: &str) -> Option<RescuedRef> {
    let mut words = line.splitn(3, ' ');
    let seconds: i64 = words.next()?.parse().ok()?;
    Some(RescuedRef {
        commit: words.next()?.to_owned(),
        reference: words.next()?.to_owned(),
        rescued_at: Time::from_millis(seconds.checked_mul(1000)?)?,
        deleted: false,
        error: None,
    })
}
