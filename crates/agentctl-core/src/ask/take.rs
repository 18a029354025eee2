//! The order `worktree take`: takes the work of a worktree into a branch.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, GoneDirectory, NotOne};
use crate::git::{Git, GitError};
use crate::locks::real_path;
use crate::model::SCHEMA_VERSION;
use crate::worktrees::take::{TakeError, TakeOrder, TakeWay, Taken, take};
use crate::worktrees::{
    CalledWorktree, WorktreeSettings, left_aside, short_branch, worktrees_here,
};

/// The order to take the work of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeRequest {
    /// The name, branch or directory of a worktree, or a text that names a session as a user types it.
    pub of: String,
    /// The branch that gets the work; the branch that the worktree began from if null.
    #[serde(default)]
    pub into: Option<String>,
    /// How it is taken.
    #[serde(default)]
    pub way: TakeWay,
    /// Take files that are not committed as well.
    #[serde(default)]
    pub with_uncommitted: bool,
    /// The user's settings of worktrees.
    #[serde(default)]
    pub settings: WorktreeSettings,
}

/// The answer to `worktree take --json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct TakeDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The work that was taken.
    #[serde(flatten)]
    pub taken: Taken,
}

/// Why work was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// The text names neither a worktree nor a single session.
    NotOne(NotOne),
    /// The text names a group.
    Group {
        /// The names of its worktrees.
        worktrees: Vec<String>,
    },
    /// The session works in no worktree.
    NoWorktree {
        /// The directory of the session.
        directory: PathBuf,
    },
    /// The directory of the session is unknown.
    UnknownDirectory,
    /// The directory of the session does not exist any more.
    DirectoryGone(GoneDirectory),
    /// The work cannot be taken.
    Refused(TakeError),
}

impl From<GitError> for NotTaken {
    fn from(error: GitError) -> Self {
        Self::Refused(error.into())
    }
}

impl Fleet {
    /// Takes the work of a worktree into a branch. The worktree stays.
    pub fn take_worktree(&self, request: &TakeRequest) -> Result<TakeDocument, NotTaken> {
        let order = TakeOrder {
            path: self.worktree_called(&request.of, &request.settings.prefix)?,
            into: request.into.clone(),
            way: request.way,
            with_uncommitted: request.with_uncommitted,
            settings: request.settings.clone(),
        };
        let taken = take(self, &order).map_err(NotTaken::Refused)?;
        Ok(TakeDocument { schema_version: SCHEMA_VERSION, taken })
    }

    /// Finds the directory of a worktree: by its name, branch or directory, or by a session in it.
    fn worktree_called(&self, text: &str, prefix: &str) -> Result<PathBuf, NotTaken> {
        let git = Git::find(&self.host)?;
        let path = real_path(&self.host, Path::new(text));
        let worktrees = worktrees_here(&self.host, &git, prefix).unwrap_or_default();
        let is_it = |worktree: &&CalledWorktree| worktree.is_called(text) || worktree.path == path;
        if let Some(worktree) = worktrees.iter().find(is_it) {
            let path = worktree.path.clone();
            if path.symlink_metadata().is_err() && left_aside(&path).is_none() {
                let branch = worktree.branch.as_deref().map(|name| short_branch(name).to_owned());
                return Err(NotTaken::Refused(TakeError::WorktreeGone { path, branch }));
            }
            return Ok(path);
        }
        let found = self.target(text).map_err(|why| {
            let of_group = worktrees.into_iter().filter(|worktree| worktree.is_of_group(text));
            let worktrees: Vec<String> = of_group.filter_map(|worktree| worktree.name).collect();
            match why {
                why if worktrees.is_empty() => NotTaken::NotOne(why),
                _ => NotTaken::Group { worktrees },
            }
        })?;
        let session = self.inspect(&found.target).session.ok_or(NotTaken::UnknownDirectory)?;
        let cwd = session.cwd.ok_or(NotTaken::UnknownDirectory)?;
        let directory = real_path(&self.host, Path::new(&cwd));
        if !directory.is_dir() {
            let gone = GoneDirectory::look(&git, &self.host, directory);
            return Err(NotTaken::DirectoryGone(gone));
        }
        let repository = git.repository(&directory)?;
        match repository.top {
            Some(top) if repository.git_dir != repository.common => Ok(top),
            _ => Err(NotTaken::NoWorktree { directory }),
        }
    }
}
