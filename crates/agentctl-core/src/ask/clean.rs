//! The order `worktree clean`: removes worktrees of which everything is elsewhere.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::model::{Fault, SCHEMA_VERSION};
use crate::worktrees::{
    CleanError, CleanNews, CleanOrder, CleanSelection, CleanedWorktree, RescuedRef,
    WorktreeSettings, clean,
};

/// The order to clean worktrees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CleanRequest {
    /// A directory of the repository; the current directory if null.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// The worktrees that are meant.
    pub which: CleanSelection,
    /// Remove nothing, and return what would be removed.
    #[serde(default)]
    pub dry_run: bool,
    /// Leave the branches.
    #[serde(default)]
    pub keep_branch: bool,
    /// Remove named worktrees with work in them, after a rescue ref was made.
    #[serde(default)]
    pub force: bool,
    /// Remove ignored files that are nowhere else.
    #[serde(default)]
    pub ignored: bool,
    /// The user's settings of worktrees.
    #[serde(default)]
    pub settings: WorktreeSettings,
}

/// The answer to `worktree clean --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CleanDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// Nothing was removed; `removed` says what would be.
    pub dry_run: bool,
    /// The worktrees and branches that were looked at.
    pub worktrees: Vec<CleanedWorktree>,
    /// The rescue refs that are older than 90 days, if the order was for them.
    pub rescued: Vec<RescuedRef>,
    /// Directories that earlier, interrupted cleans did not delete completely, and that are deleted now; with `dry_run`
    /// they would be.
    #[serde(default)]
    pub finished: Vec<PathBuf>,
    /// Remains of earlier, interrupted cleans that are not deleted.
    pub warnings: Vec<String>,
    /// The sources that could not be asked for sessions.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Removes worktrees of which everything is elsewhere.
    pub fn clean_worktrees(
        &self,
        request: &CleanRequest,
        tell: &mut dyn FnMut(CleanNews),
    ) -> Result<CleanDocument, CleanError> {
        let directory = request.directory.as_deref();
        let order = CleanOrder {
            from: directory
                .map_or_else(|| self.host.cwd.clone(), |below| self.host.cwd.join(below)),
            which: request.which.clone(),
            dry_run: request.dry_run,
            keep_branch: request.keep_branch,
            force: request.force,
            ignored: request.ignored,
            settings: request.settings.clone(),
        };
        let cleaned = clean(self, &order, tell)?;
        Ok(CleanDocument {
            schema_version: SCHEMA_VERSION,
            dry_run: request.dry_run,
            worktrees: cleaned.worktrees,
            rescued: cleaned.rescued,
            finished: cleaned.finished,
            warnings: cleaned.warnings,
            faults: cleaned.faults,
        })
    }
}
