//! The question `diff`: what git says about the work of a session or a group.
//!
//! The working tree as it is, with uncommitted and untracked files, is compared with the commit that the work
//! began at. Nothing is written into the repository.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::worktrees::{own_fault, session_in};
use super::{Fleet, NotOne, TextOrBytes};
use crate::fleet::Query;
use crate::git::{Comparison, DiffFile, Git, GitError, Head, TreeChange};
use crate::host::Host;
use crate::locks::real_path;
use crate::model::{Fault, SCHEMA_VERSION, Session, Target, Time};
use crate::runs::Runs;
use crate::worktrees::{
    BASE_REFS, CalledWorktree, DEFAULT_PREFIX, RESCUE_REFS, called::worktree_folders, left_aside,
    name_at, name_of, ref_part, short_branch, worktrees_here,
};

/// A request for the work of a session or a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffRequest {
    /// A text that names a session as a user types it, or a group, or a worktree of the current repository.
    pub of: String,
    /// The revision to compare with; the recorded base if null.
    #[serde(default)]
    pub base: Option<String>,
    /// Return the patch.
    #[serde(default)]
    pub patch: bool,
    /// The prefix of our branches, with its `/`.
    #[serde(default = "default_prefix")]
    pub prefix: String,
}

fn default_prefix() -> String {
    DEFAULT_PREFIX.to_owned()
}

/// The answer to `diff --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DiffDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// One entry for each session or worktree.
    pub diffs: Vec<WorkDiff>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// The work in one working tree.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WorkDiff {
    /// The session; null for a worktree in which no session is known.
    pub session: Option<String>,
    /// The adapter of the session.
    pub adapter: Option<String>,
    /// The top of the working tree.
    pub directory: String,
    /// Its branch; null for a detached HEAD.
    pub branch: Option<String>,
    /// The commit, or the empty tree, that the working tree is compared with.
    pub base: String,
    /// How the base is known.
    pub base_from: DiffBase,
    /// How many commits HEAD has beyond the base; null if the base is no commit.
    pub commits: Option<usize>,
    /// The files that differ.
    pub files: Vec<DiffFile>,
    /// How many lines were added in all text files.
    pub added: u64,
    /// How many lines were removed in all text files.
    pub removed: u64,
    /// Other sessions that worked in the same working tree: their changes are part of this.
    pub shared_with: Vec<String>,
    /// Submodules with changes of their own, which are not part of this.
    pub dirty_submodules: Vec<String>,
    /// Why files are missing here, for example because they cannot be read.
    pub gaps: Vec<String>,
    /// The patch, as `git apply` accepts it; null if it was not asked for.
    pub patch: Option<TextOrBytes>,
}

/// How the base of a comparison is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffBase {
    /// The request names it.
    Given,
    /// `refs/agentctl/base/NAME`, from when the worktree was made.
    WorktreeRef,
    /// The run of the session recorded it.
    Run,
    /// The reflog of HEAD says which commit was checked out when the session started.
    Reflog,
    /// No source says it: HEAD, so commits of the session are not part of this.
    Head,
}

/// A directory that does not exist any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The rescue refs of worktrees of this name in the repository of the current directory.
    pub rescued: Vec<String>,
    /// The branch of the worktree that git still lists there, without `refs/heads/`.
    pub branch: Option<String>,
    /// The directory was below a folder that has the worktrees of that repository, so the refs are of this one.
    pub is_of_repository: bool,
}

impl GoneDirectory {
    /// Finds out what is left of a directory.
    pub(super) fn look(git: &Git, host: &Host, path: PathBuf) -> Self {
        let repository = git.repository(&host.cwd);
        let folders = repository.and_then(|repository| worktree_folders(git, &repository));
        let folders = folders.unwrap_or_default();
        let gone = || path.ancestors().take_while(|part| !part.exists());
        let in_folder = |part: &&Path| part.parent().is_some_and(|parent| folders.contains(parent));
        let top = gone().find(in_folder);
        let is_of_repository = top.is_some();
        let parts: Vec<&Path> = top.map_or_else(|| gone().collect(), |top| vec![top]);
        let name = |part: &&Path| Some(ref_part(&part.file_name()?.to_string_lossy()));
        let names: Vec<String> = parts.iter().filter_map(name).collect();
        let is_of_it = |rescued: &String| names.iter().any(|name| rescued_name(rescued) == *name);
        let rescued = rescue_refs(git, &host.cwd).into_iter().filter(is_of_it).collect();
        let entries = git.worktrees(&host.cwd).unwrap_or_default();
        let mut missing = entries.iter().filter(|entry| entry.path.symlink_metadata().is_err());
        let entry = missing.find(|entry| path.starts_with(&entry.path));
        let branch = entry.and_then(|entry| entry.branch());
        let branch = branch.map(|name| short_branch(name).to_owned());
        Self { path, rescued, branch, is_of_repository }
    }
}

/// Returns the name of a worktree in its rescue ref `TIME-NAME`.
fn rescued_name(name: &str) -> &str {
    let name = name.strip_prefix(RESCUE_REFS).and_then(|rest| rest.split_once('-'));
    name.map_or("", |(_, name)| name)
}

fn rescue_refs(git: &Git, directory: &Path) -> Vec<String> {
    let args = ["for-each-ref", "--format=%(refname)", RESCUE_REFS];
    let listed = git.read(directory).args(args).text().unwrap_or_default();
    listed.lines().map(str::to_owned).collect()
}

/// Why there is no comparison.
#[derive(Debug)]
pub enum NoDiff {
    /// The text names no single session, no group and no worktree.
    NotOne(NotOne),
    /// The directory of the session is unknown.
    UnknownDirectory,
    /// The directory of the session does not exist any more.
    DirectoryGone(GoneDirectory),
    /// The text names a group, and no directory of its sessions exists any more.
    WorktreesGone {
        /// The rescue refs of its worktrees in the repository of the current directory.
        rescued: Vec<String>,
    },
    /// The base names no commit.
    NoSuchBase(String),
    /// The comparison was called off.
    CalledOff,
    /// git gave no answer.
    Git(GitError),
}

impl From<GitError> for NoDiff {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

/// Returns the rescue refs of the worktrees of a group.
fn rescued(git: &Git, directory: &Path, group: &str) -> Vec<String> {
    let start = format!("{}-", ref_part(group));
    let is_of_group = |name: &String| rescued_name(name).starts_with(&start);
    rescue_refs(git, directory).into_iter().filter(is_of_group).collect()
}

/// A working tree with the session in it.
struct Work {
    directory: PathBuf,
    session: Option<Session>,
}

impl Fleet {
    /// Compares the working tree of a session, or of each session of a group, with its base.
    pub fn diff(&self, request: &DiffRequest) -> Result<DiffDocument, NoDiff> {
        let _order = self.cancellation.open();
        let git = Git::find(&self.host)?.cancelled_by(&self.cancellation);
        let mut faults = Vec::new();
        let works = self.works(&git, request, &mut faults)?;
        let mut diffs = Vec::new();
        for work in works {
            diffs.push(self.work_diff(&git, request, work, &mut faults)?);
        }
        faults.sort();
        faults.dedup();
        Ok(DiffDocument { schema_version: SCHEMA_VERSION, diffs, faults })
    }

    /// Finds the working trees that a text names: of a session, of a group's sessions, of a worktree of ours.
    fn works(
        &self,
        git: &Git,
        request: &DiffRequest,
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<Work>, NoDiff> {
        let not_one = match self.target(&request.of) {
            Ok(found) => {
                faults.extend(found.faults);
                return Ok(vec![self.work_of(git, &found.target, faults)?]);
            }
            Err(not_one) => not_one,
        };
        let named = self.works_of_branches(git, request, faults);
        let query = Query { all: true, group: Some(request.of.clone()), ..Query::default() };
        let listing = self.list(&query);
        let has_sessions = !listing.sessions.is_empty();
        let mut works: Vec<Work> = Vec::new();
        for session in listing.sessions {
            let Some(cwd) = session.cwd.clone() else { continue };
            works.push(Work { directory: PathBuf::from(cwd), session: Some(session) });
        }
        for work in named {
            if !works
                .iter()
                .any(|known| real_path(&self.host, &known.directory).starts_with(&work.directory))
            {
                works.push(work);
            }
        }
        let is_there = |work: &Work| work.directory.is_dir();
        let (mut works, missing): (Vec<Work>, Vec<Work>) = works.into_iter().partition(is_there);
        works.sort_by(|one, other| one.directory.cmp(&other.directory));
        if works.is_empty() && has_sessions {
            let rescued = rescued(git, &self.host.cwd, &request.of);
            return Err(NoDiff::WorktreesGone { rescued });
        }
        if works.is_empty() {
            let look = |path| GoneDirectory::look(git, &self.host, path);
            let gone = |work: Work| NoDiff::DirectoryGone(look(work.directory));
            let gone = missing.into_iter().next().map(gone);
            return Err(gone.unwrap_or(NoDiff::NotOne(not_one)));
        }
        for work in &missing {
            let Some(aside) = left_aside(&work.directory) else { continue };
            let (path, aside) = (work.directory.display(), aside.display());
            let why = format!("a clean removes it, or was killed: it is in {aside}");
            faults.push(own_fault(format!("{path} is not compared: {why}")));
        }
        faults.extend(listing.faults);
        Ok(works)
    }

    fn work_of(&self, git: &Git, target: &Target, faults: &mut Vec<Fault>) -> Result<Work, NoDiff> {
        let inspected = self.inspect(target);
        faults.extend(inspected.faults);
        let session = inspected.session.ok_or(NoDiff::UnknownDirectory)?;
        let directory = PathBuf::from(session.cwd.clone().ok_or(NoDiff::UnknownDirectory)?);
        if !directory.is_dir() {
            let gone = GoneDirectory::look(git, &self.host, directory);
            return Err(NoDiff::DirectoryGone(gone));
        }
        Ok(Work { directory, session: Some(session) })
    }

    /// Finds worktrees of the current repository by their branch: `NAME`, or all of `GROUP/…`.
    fn works_of_branches(
        &self,
        git: &Git,
        request: &DiffRequest,
        faults: &mut Vec<Fault>,
    ) -> Vec<Work> {
        let wanted = request.of.strip_prefix(&request.prefix).unwrap_or(&request.of);
        let is_named = |worktree: &CalledWorktree| {
            worktree.is_called(&request.of)
                || worktree.is_called(wanted)
                || worktree.is_of_group(wanted)
        };
        let mut worktrees = worktrees_here(&self.host, git, &request.prefix).unwrap_or_default();
        worktrees.retain(is_named);
        if worktrees.is_empty() {
            return Vec::new();
        }
        let sessions = self.sessions_since(Time::EPOCH, faults);
        let work = |worktree: CalledWorktree| Work {
            session: session_in(&sessions, &worktree.path).cloned(),
            directory: worktree.path,
        };
        worktrees.into_iter().map(work).collect()
    }

    fn work_diff(
        &self,
        git: &Git,
        request: &DiffRequest,
        work: Work,
        faults: &mut Vec<Fault>,
    ) -> Result<WorkDiff, NoDiff> {
        let repository = git.repository(&work.directory)?;
        let top = repository
            .top
            .ok_or_else(|| GitError::NotARepository { path: work.directory.clone() })?;
        let head = git.head(&top)?;
        let (base, base_from) = self.base(git, request, (&top, &head), work.session.as_ref())?;
        let snapshot = git.snapshot(&top)?;
        let mut gaps = snapshot.gaps.clone();
        let trees = (base.as_str(), snapshot.tree.as_str());
        for path in git.embedded_repositories(snapshot.see(git.read(&top)), &top, trees)? {
            let path = path.display();
            gaps.push(format!(
                "{path} is a repository of its own: the files in it are not part of this"
            ));
        }
        if !git.gitlinks(&top)?.is_empty() {
            let changes = git.tree_changes(snapshot.see(git.read(&top)), trees.0, trees.1)?;
            let moved = |change: &&TreeChange| change.is_repository() && change.was_repository();
            gaps.extend(changes.iter().filter(moved).map(|change| {
                let path = change.path.display();
                format!(
                    "the submodule {path} is at another commit: its changes are not part of this"
                )
            }));
        }
        let Comparison { files, patch } = git.compare(&top, &base, &snapshot, request.patch)?;
        let commits = match &head.commit {
            Some(_) => git.count_commits(&top, &base, "HEAD")?,
            None => None,
        };
        let shared_with = self.sharing(&top, work.session.as_ref(), faults);
        Ok(WorkDiff {
            session: work.session.as_ref().and_then(|session| session.id.clone()),
            adapter: work.session.as_ref().map(|session| session.adapter.to_owned()),
            directory: top.to_string_lossy().into_owned(),
            branch: head.branch.map(|name| short_branch(&name).to_owned()),
            base,
            base_from,
            commits,
            added: files.iter().filter_map(|file| file.added).sum(),
            removed: files.iter().filter_map(|file| file.removed).sum(),
            files,
            shared_with,
            dirty_submodules: git.dirty_submodules(&top)?,
            gaps,
            patch: patch.map(TextOrBytes::from),
        })
    }

    /// Finds the commit that the work began at.
    fn base(
        &self,
        git: &Git,
        request: &DiffRequest,
        (top, head): (&Path, &Head),
        session: Option<&Session>,
    ) -> Result<(String, DiffBase), NoDiff> {
        if let Some(revision) = &request.base {
            let commit = git.commit(top, revision)?;
            let commit = commit.ok_or_else(|| NoDiff::NoSuchBase(revision.clone()))?;
            return Ok((commit, DiffBase::Given));
        }
        let base_of = |name: &str| git.commit(top, &format!("{BASE_REFS}{name}"));
        let name = head.branch.as_deref().and_then(|branch| name_of(branch, &request.prefix));
        let mut base = name.map(base_of).transpose()?.flatten();
        if base.is_none() {
            let name = name_at(&self.host, git, top, &request.prefix)?;
            base = name.as_deref().map(base_of).transpose()?.flatten();
        }
        if let Some(base) = base {
            return Ok((base, DiffBase::WorktreeRef));
        }
        let run = session.and_then(|session| session.run.as_ref());
        let spec = run.and_then(|run| Runs::of(&self.host).run(run).spec());
        if let Some(base) = spec.and_then(|spec| spec.base)
            && let Some(base) = git.commit(top, &base)?
        {
            return Ok((base, DiffBase::Run));
        }
        if let Some(at) = session.and_then(|session| session.started_at)
            && let Some(base) = git.head_at(top, at)?
        {
            return Ok((base, DiffBase::Reflog));
        }
        let base = match &head.commit {
            Some(commit) => commit.clone(),
            None => git.empty_tree(top)?,
        };
        Ok((base, DiffBase::Head))
    }

    /// Finds other sessions that worked in the same working tree since this one started.
    fn sharing(
        &self,
        top: &Path,
        session: Option<&Session>,
        faults: &mut Vec<Fault>,
    ) -> Vec<String> {
        let Some(since) = session.and_then(|session| session.started_at) else { return Vec::new() };
        let sessions = self.sessions_since(since, faults);
        let own = session.map(|session| (session.adapter, session.id.as_deref()));
        let others = sessions.iter().filter(|(cwd, other)| {
            let is_own = own == Some((other.adapter, other.id.as_deref()));
            !is_own && other.parent.is_none() && cwd.starts_with(top)
        });
        let name = |(_, other): &(PathBuf, Session)| match &other.id {
            Some(id) => format!("{}:{id}", other.adapter),
            None => format!("{} pid {}", other.adapter, other.pid.unwrap_or_default()),
        };
        others.map(name).collect()
    }
}
