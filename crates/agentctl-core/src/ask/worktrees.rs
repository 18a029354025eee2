//! The question `worktree list`: the worktrees of a repository, as git tells them, with the sessions in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::fleet::{Query, list};
use crate::git::{Git, GitError, Repository};
use crate::locks::real_path;
use crate::model::{Fault, FaultCode, OWN_SOURCE, SCHEMA_VERSION, Session, Status, Time};
use crate::names::SETTINGS;
use crate::worktrees::{
    DEFAULT_PREFIX, Merged, Sizes, WorktreeFacts, WorktreeState, facts, short_branch,
    worktrees_here,
};

/// A request for the worktrees of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorktreesRequest {
    /// A directory of the repository; the current directory if null.
    pub directory: Option<PathBuf>,
    /// Instead of one repository, those of all sessions.
    pub repositories_of_sessions: bool,
    /// The prefix of our branches, with its `/`.
    pub prefix: String,
    /// `size` and `ignored_bytes` stay null: to add them up, every file is looked at.
    pub omits_sizes: bool,
}

impl Default for WorktreesRequest {
    fn default() -> Self {
        Self {
            directory: None,
            repositories_of_sessions: false,
            prefix: DEFAULT_PREFIX.to_owned(),
            omits_sizes: false,
        }
    }
}

/// The answer to `worktree list --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WorktreesDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The worktrees but the main ones, by repository and in the order of git.
    pub worktrees: Vec<WorktreeRow>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// One worktree.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct WorktreeRow {
    /// The main working tree of its repository, or the bare repository.
    pub repository: String,
    /// Its directory; null for a branch of ours without a worktree.
    pub path: Option<String>,
    /// Its branch; null for a detached HEAD.
    pub branch: Option<String>,
    /// The branch without the prefix; null if it is not ours.
    pub name: Option<String>,
    /// Its commit; null before the first commit.
    pub commit: Option<String>,
    /// The commit that it is based on; null if it is not ours.
    pub base: Option<String>,
    /// The branch that it began from.
    pub base_branch: Option<String>,
    /// The session that works in it, or worked in it last.
    pub session: Option<String>,
    /// The adapter of that session.
    pub adapter: Option<String>,
    /// The status of that session.
    pub status: Option<Status>,
    /// How many tracked files are changed.
    pub dirty: Option<usize>,
    /// How many files are neither tracked nor ignored.
    pub untracked: Option<usize>,
    /// The size of all ignored files.
    pub ignored_bytes: Option<u64>,
    /// How many of its own commits are on no remote-tracking branch.
    pub unpushed: Option<usize>,
    /// How many of its submodules are checked out.
    pub submodules: Option<usize>,
    /// Whether its commits are in the branch that it began from: `yes`, `by content` or `no`; null if it has none of
    /// its own.
    pub merged: Option<Merged>,
    /// The reason of its lock; empty if the lock has none; null if it is not locked.
    pub locked: Option<String>,
    /// The size of all its files in bytes.
    pub size: Option<u64>,
    /// When it was made.
    pub made_at: Option<Time>,
    /// Its condition: `ok`, `half-made`, `missing` or `foreign`.
    pub state: WorktreeState,
}

/// The session of a worktree that a text may name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionOfWorktree {
    /// The text names no worktree.
    NoWorktree,
    /// No session is known in the worktree.
    NoSession,
    /// The id of the session.
    Session(String),
}

impl Fleet {
    /// Lists the worktrees of a repository, or of the repositories of all sessions.
    pub fn worktrees(&self, request: &WorktreesRequest) -> Result<WorktreesDocument, GitError> {
        let git = Git::find(&self.host)?;
        let mut faults = Vec::new();
        let repositories = if request.repositories_of_sessions {
            self.repositories_of_sessions(&git, &mut faults)
        } else {
            let cwd = &self.host.cwd;
            let directory = request.directory.as_ref().map_or_else(|| cwd.clone(), |d| cwd.join(d));
            vec![git.repository(&directory)?]
        };
        let sizes = if request.omits_sizes { Sizes::Omitted } else { Sizes::Read };
        let mut found = Vec::new();
        for repository in &repositories {
            match facts::of_all(&self.host, &git, repository, &request.prefix, sizes) {
                Ok(facts) => found.extend(facts.into_iter().map(|facts| (repository, facts))),
                Err(error) if request.repositories_of_sessions => faults.push(fault(&error)),
                Err(error) => return Err(error),
            }
        }
        for gap in found.iter().flat_map(|(_, facts)| &facts.gaps) {
            faults.push(own_fault(gap.clone()));
        }
        let oldest = found.iter().filter_map(|(_, facts)| facts.made_at).min();
        let sessions = match oldest {
            Some(since) => self.sessions_since(since, &mut faults),
            None => Vec::new(),
        };
        // A worktree that was brought back is younger than the session that worked in it.
        let is_unknown = |facts: &WorktreeFacts| {
            let path = facts.path.as_ref().filter(|_| facts.name.is_some());
            path.is_some_and(|path| session_in(&sessions, path).is_none())
        };
        let sessions = if found.iter().any(|(_, facts)| is_unknown(facts)) {
            self.sessions_since(Time::EPOCH, &mut faults)
        } else {
            sessions
        };
        let row = |(repository, facts): (&Repository, WorktreeFacts)| {
            let in_it = facts.path.as_ref().and_then(|path| session_in(&sessions, path));
            row(repository, facts, in_it)
        };
        let worktrees = found.into_iter().map(row).collect();
        faults.sort();
        faults.dedup();
        Ok(WorktreesDocument { schema_version: SCHEMA_VERSION, worktrees, faults })
    }

    /// Finds the repositories of the directories of all sessions.
    fn repositories_of_sessions(&self, git: &Git, faults: &mut Vec<Fault>) -> Vec<Repository> {
        let listing = list(self, &Query { all: true, ..Query::default() });
        faults.extend(listing.faults);
        let directories: BTreeSet<PathBuf> = listing
            .sessions
            .iter()
            .filter_map(|session| session.cwd.as_ref())
            .map(PathBuf::from)
            .collect();
        let (mut seen, mut repositories) = (BTreeSet::new(), Vec::new());
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            match git.repository(directory) {
                Ok(repository) if seen.insert(repository.common.clone()) => {
                    repositories.push(repository);
                }
                Ok(_) | Err(GitError::NotARepository { .. }) => {}
                Err(error) => faults.push(fault(&error)),
            }
        }
        repositories
    }

    /// Returns the session that works in the worktree of this name in the current repository, or worked in it last.
    #[must_use]
    pub fn session_of_worktree(&self, name: &str) -> SessionOfWorktree {
        let prefix = self.host.setting(SETTINGS, "prefix").unwrap_or(DEFAULT_PREFIX);
        let worktrees =
            Git::find(&self.host).and_then(|git| worktrees_here(&self.host, &git, prefix));
        let mut worktrees = worktrees.unwrap_or_default().into_iter();
        let Some(worktree) = worktrees.find(|worktree| worktree.is_called(name)) else {
            return SessionOfWorktree::NoWorktree;
        };
        let sessions = self.sessions_since(Time::EPOCH, &mut Vec::new());
        let id = session_in(&sessions, &worktree.path).and_then(|session| session.id.clone());
        id.map_or(SessionOfWorktree::NoSession, SessionOfWorktree::Session)
    }

    /// Lists the sessions that were active since then, their directories resolved.
    pub(super) fn sessions_since(
        &self,
        since: Time,
        faults: &mut Vec<Fault>,
    ) -> Vec<(PathBuf, Session)> {
        let query = Query { all: true, since_ms: Some(since.millis()), ..Query::default() };
        let listing = list(self, &query);
        faults.extend(listing.faults);
        let with_directory = |session: Session| {
            let directory = real_path(&self.host, Path::new(session.cwd.as_ref()?));
            Some((directory, session))
        };
        listing.sessions.into_iter().filter_map(with_directory).collect()
    }
}

/// Returns the session that works below a directory: a live one first, else the one that was active last.
pub(super) fn session_in<'a>(
    sessions: &'a [(PathBuf, Session)],
    directory: &Path,
) -> Option<&'a Session> {
    let inside = sessions.iter().filter(|(cwd, _)| cwd.starts_with(directory));
    let best =
        |(_, session): &&(PathBuf, Session)| (session.pid.is_some(), session.last_activity_at);
    inside.max_by_key(best).map(|(_, session)| session)
}

fn row(repository: &Repository, facts: WorktreeFacts, session: Option<&Session>) -> WorktreeRow {
    let short = |name: String| short_branch(&name).to_owned();
    WorktreeRow {
        repository: repository.main.to_string_lossy().into_owned(),
        path: facts.path.map(|path| path.to_string_lossy().into_owned()),
        branch: facts.branch.map(short),
        name: facts.name,
        commit: facts.commit,
        base: facts.base,
        base_branch: facts.base_branch.map(short),
        session: session.and_then(|session| session.id.clone()),
        adapter: session.map(|session| session.adapter.to_owned()),
        status: session.map(|session| session.status),
        dirty: facts.dirty,
        untracked: facts.untracked,
        ignored_bytes: facts.ignored_bytes,
        unpushed: facts.unpushed,
        submodules: facts.submodules,
        merged: facts.merged,
        locked: facts.locked,
        size: facts.size_bytes,
        made_at: facts.made_at,
        state: facts.state,
    }
}

pub(super) fn fault(error: &GitError) -> Fault {
    own_fault(error.to_string())
}

pub(super) fn own_fault(message: String) -> Fault {
    Fault { adapter: OWN_SOURCE, root: None, code: FaultCode::Failed, message }
}
