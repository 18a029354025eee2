//! The question `compare`: the work of the sessions of a group, side by side.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiffRequest, Fleet, NoDiff, WorkDiff};
use crate::git::{Git, GitError, MergeResult};
use crate::hooks;
use crate::marks::{hook as variables, setup};
use crate::model::{
    Fault, FaultCode, OWN_SOURCE, Outcome, SCHEMA_VERSION, Session, Status, Tokens,
};
use crate::text::last_lines;
use crate::worktrees::facts::Reader;
use crate::worktrees::{DEFAULT_PREFIX, short_branch, slot_in};

/// Timeout of the verification in one worktree.
const VERIFY_TIMEOUT: Duration = Duration::from_hours(1);

/// A request to compare the work of a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// The group.
    pub group: String,
    /// A program with its arguments that is run in each working tree; none if empty.
    #[serde(default)]
    pub verify: Vec<String>,
    /// The prefix of our branches, with its `/`.
    #[serde(default = "default_prefix")]
    pub prefix: String,
}

fn default_prefix() -> String {
    DEFAULT_PREFIX.to_owned()
}

/// The answer to `compare --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CompareDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The group.
    pub group: String,
    /// One row for each session or worktree of the group.
    pub slots: Vec<CompareRow>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The work of one slot.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CompareRow {
    /// Its name in the group: that of the worktree without the group, else the session's.
    pub slot: String,
    /// The top of its working tree.
    pub path: String,
    /// Its branch; null for a detached HEAD.
    pub branch: Option<String>,
    /// Its session.
    pub session: Option<String>,
    /// The adapter of its session.
    pub adapter: Option<String>,
    /// The status of its session.
    pub status: Option<Status>,
    /// How its session ended.
    pub outcome: Option<Outcome>,
    /// The time from the start of its session to its end, or to its last activity, in milliseconds; to now if it is
    /// live.
    pub duration_ms: Option<u64>,
    /// The tokens, as `status` counts them.
    pub tokens: Option<Tokens>,
    /// The cost in US dollars, as `status` has it.
    pub cost_usd: Option<f64>,
    /// How many commits it has beyond its base.
    pub commits: Option<usize>,
    /// How many files differ from its base.
    pub files: usize,
    /// How many lines were added.
    pub added: u64,
    /// How many lines were removed.
    pub removed: u64,
    /// How many files are not committed.
    pub dirty: usize,
    /// The verification; null if none was asked for.
    pub verify: Option<Verification>,
    /// Whether it merges with the branch that it began from; null if that branch is not known, or has no commit in common
    /// with it.
    pub merges: Option<Merges>,
}

/// The end of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Verification {
    /// Its exit code; null if a signal or the timeout ended it, or if it was not started.
    pub exit: Option<i32>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it has no exit code.
    pub error: Option<String>,
    /// The last lines of its output, at most 10, in one line; null if it succeeded or was not started.
    #[serde(default)]
    pub output: Option<String>,
}

/// Whether a merge would work today, with files that are not committed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Merges {
    /// The branch that it began from.
    pub into: String,
    /// It merges without conflicts.
    pub clean: bool,
    /// The files with conflicts.
    pub conflicts: Vec<String>,
}

impl Fleet {
    /// Compares the work of the sessions and worktrees of a group. The verification runs in one working tree after the
    /// other; `tell` gets the name of the slot whose verification begins.
    ///
    /// It is one order from its first question to its last verification: called off at any moment in between, it starts
    /// nothing more.
    pub fn compare(
        &self,
        request: &CompareRequest,
        tell: &mut dyn FnMut(&str),
    ) -> Result<CompareDocument, NoDiff> {
        let mut order = self.cancellation.open();
        let document = self.compare_in_order(request, tell);
        if order.close() { document } else { Err(NoDiff::CalledOff) }
    }

    fn compare_in_order(
        &self,
        request: &CompareRequest,
        tell: &mut dyn FnMut(&str),
    ) -> Result<CompareDocument, NoDiff> {
        let diffs = DiffRequest {
            of: request.group.clone(),
            base: None,
            patch: false,
            prefix: request.prefix.clone(),
        };
        let document = self.diff(&diffs)?;
        let git = Git::find(&self.host)?.cancelled_by(&self.cancellation);
        let (mut slots, mut faults) = (Vec::new(), document.faults);
        let fault = |message: String| Fault {
            adapter: OWN_SOURCE,
            root: None,
            code: FaultCode::Failed,
            message,
        };
        for mut diff in document.diffs {
            self.check_order()?;
            let gaps = std::mem::take(&mut diff.gaps);
            let submodules = diff.dirty_submodules.clone();
            let mut row = self.compare_row(&git, request, diff)?;
            let unread = |gap| fault(format!("{}: not everything could be read: {gap}", row.slot));
            faults.extend(gaps.into_iter().map(unread));
            faults.extend(submodules.iter().map(|submodule| {
                let slot = &row.slot;
                fault(format!("{slot}: the submodule {submodule} has changes of its own, which are not compared"))
            }));
            if !request.verify.is_empty() {
                self.check_order()?;
                tell(&row.slot);
                row.verify = Some(self.verify(request, &row));
            }
            slots.push(row);
        }
        let failed = slots.iter().filter_map(|row| row.verify.as_ref()?.error.clone());
        faults.extend(failed.map(fault));
        faults.sort();
        faults.dedup();
        let group = request.group.clone();
        Ok(CompareDocument { schema_version: SCHEMA_VERSION, group, slots, faults })
    }

    /// Fails if the comparison was called off.
    fn check_order(&self) -> Result<(), NoDiff> {
        if self.cancellation.is_cancelled() { Err(NoDiff::CalledOff) } else { Ok(()) }
    }

    fn compare_row(
        &self,
        git: &Git,
        request: &CompareRequest,
        diff: WorkDiff,
    ) -> Result<CompareRow, GitError> {
        let top = PathBuf::from(&diff.directory);
        let session = self.session_of_diff(&diff);
        let snapshot = git.snapshot(&top)?;
        let head = git.commit(&top, "HEAD")?;
        let dirty = match &head {
            Some(head) => git.count_changed(snapshot.see(git.read(&top)), head, &snapshot.tree)?,
            None => diff.files.len(),
        };
        let dirty = dirty + diff.dirty_submodules.len();
        let repository = git.repository(&top)?;
        let reader = Reader::new(&self.host, git, &repository, &request.prefix)?;
        let entry = reader.entries.iter().find(|entry| entry.path == top);
        let name = entry.and_then(|entry| reader.name(entry));
        let merges = match &head {
            Some(head) => merges(git, &reader, (&top, head, name), &snapshot)?,
            None => None,
        };
        let named = session.as_ref().and_then(|s| s.name.clone().or_else(|| s.id.clone()));
        let slot = name.map(|name| slot_in(name, &request.group).unwrap_or(name).to_owned());
        Ok(CompareRow {
            slot: slot.or(named).unwrap_or_else(|| diff.directory.clone()),
            path: diff.directory,
            branch: diff.branch,
            session: diff.session,
            adapter: diff.adapter,
            status: session.as_ref().map(|s| s.status),
            outcome: session.as_ref().and_then(|s| s.outcome),
            duration_ms: session.as_ref().and_then(|s| s.lifetime_ms(self.host.now())),
            tokens: session.as_ref().and_then(|s| s.tokens),
            cost_usd: session.as_ref().and_then(|s| s.cost_usd),
            commits: diff.commits,
            files: diff.files.len(),
            added: diff.added,
            removed: diff.removed,
            dirty,
            verify: None,
            merges,
        })
    }

    /// Looks at the session of a slot in full, so that its tokens are counted.
    fn session_of_diff(&self, diff: &WorkDiff) -> Option<Session> {
        let (adapter, id) = (diff.adapter.as_ref()?, diff.session.as_ref()?);
        let found = self.target(&format!("{adapter}:{id}")).ok()?;
        self.inspect(&found.target).session
    }

    /// Runs the verification in the working tree of a slot. Its processes are ended if the comparison is called off.
    fn verify(&self, request: &CompareRequest, row: &CompareRow) -> Verification {
        let cwd = Path::new(&row.path);
        let call = hooks::Call {
            argv: &request.verify,
            variables: vec![
                (setup::WORKTREE, row.path.clone()),
                (variables::GROUP, request.group.clone()),
                (variables::BRANCH, row.branch.clone().unwrap_or_default()),
            ],
            cwd,
            stdin: None,
            limit: VERIFY_TIMEOUT,
        };
        let start = Instant::now();
        let end = call.run_in_order(&self.host, &self.cancellation);
        let duration_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said = end.as_ref().ok().map(|end| last_lines(&end.said));
        let (exit, error) = match end.map(|end| end.exit) {
            Ok(Some(exit)) => match (exit.code, exit.signal) {
                (Some(code), _) => (Some(code), None),
                (None, signal) => {
                    let signal = signal.unwrap_or_default();
                    (None, Some(format!("the verification of {}: signal {signal}", row.slot)))
                }
            },
            Ok(None) => {
                let limit = VERIFY_TIMEOUT.as_secs() / 60;
                (None, Some(format!("the verification of {} took over {limit} min", row.slot)))
            }
            Err(why) => (None, Some(format!("the verification was not started: {why}"))),
        };
        let output = said.filter(|_| exit != Some(0));
        Verification { exit, duration_ms, error, output }
    }
}

/// Tries to merge a snapshot with the branch that it began from. No merge driver runs.
fn merges(
    git: &Git,
    reader: &Reader<'_>,
    (top, head, name): (&Path, &str, Option<&str>),
    snapshot: &crate::git::TreeSnapshot,
) -> Result<Option<Merges>, GitError> {
    let branch = git.head(top)?.branch;
    let origin = reader.origin(name, branch.as_deref());
    let base = reader.base_branch(origin.as_deref())?;
    let Some(into) = base.filter(|base| Some(base) != branch.as_ref()) else { return Ok(None) };
    let Some(tip) = git.commit(top, &into)? else { return Ok(None) };
    // git refuses to merge work that began without a commit (`git switch --orphan`).
    if !git.read(top).args(["merge-base", &tip, head]).says_yes()? {
        return Ok(None);
    }
    let commit = snapshot.see(git.read(top)).setting("user.name=agentctl");
    let commit = commit.setting("user.email=agentctl@localhost");
    let args = ["commit-tree", &snapshot.tree, "-p", head, "-m", "compare"];
    let commit = commit.args(args).text()?;
    let place = reader.merge_place(&tip)?;
    let call = place.enter(snapshot.see(git.read(top)))?;
    let conflicts = match git.merge_trees(call, &tip, &commit)? {
        MergeResult::Clean(_) => Vec::new(),
        MergeResult::Conflicts(files) => files,
    };
    let into = short_branch(&into).to_owned();
    Ok(Some(Merges { into, clean: conflicts.is_empty(), conflicts }))
}
