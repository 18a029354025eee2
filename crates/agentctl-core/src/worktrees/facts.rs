//! The facts that git and the file system tell about the worktrees of a repository. Nothing is read from our own
//! directories.

mod former;
mod naming;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BASE_REFS, BRANCH_REFS, LockReason, RESCUE_REFS, left_aside, short_branch};
use crate::git::{Git, GitError, MergePlace, Repository, WorktreeEntry, has_files_in_place};
use crate::host::Host;
use crate::model::Time;

/// How many worktrees are read at the same time.
const AT_ONCE: usize = 4;
/// The reason of git's own lock while it adds a worktree.
pub(super) const INITIALIZING: &str = "initializing";
/// The refs of branches of remotes.
pub(super) const REMOTE_REFS: &str = "refs/remotes/";
/// The beginning of the first line in the reflog of a branch.
const CREATED_FROM: &str = "branch: Created from ";

/// The condition of a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorktreeState {
    /// It is complete.
    Ok,
    /// Its launcher was killed before it was complete.
    HalfMade,
    /// Its directory does not exist.
    Missing,
    /// Its branch is not below the prefix of our branches.
    Foreign,
}

impl WorktreeState {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HalfMade => "half-made",
            Self::Missing => "missing",
            Self::Foreign => "foreign",
        }
    }
}

/// Whether the commits of a worktree are in the branch that it began from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Merged {
    /// All of its commits are there.
    #[serde(rename = "yes")]
    Yes,
    /// Merging it would change nothing, for example after a squash.
    #[serde(rename = "by content")]
    ByContent,
    /// It has something that the branch does not have.
    #[serde(rename = "no")]
    No,
}

impl Merged {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::ByContent => "by content",
            Self::No => "no",
        }
    }
}

/// The facts of one worktree. `None` means unknown: the directory is missing, or git failed there.
#[derive(Clone, Debug)]
pub struct WorktreeFacts {
    /// Its directory; `None` for a branch of ours without a worktree.
    pub path: Option<PathBuf>,
    /// The full name of its branch; `None` for a detached HEAD.
    pub branch: Option<String>,
    /// The branch without the prefix; `None` if it is not ours.
    pub name: Option<String>,
    /// It is on the branch of its name, which agentctl made.
    pub is_on_own_branch: bool,
    /// Its commit.
    pub commit: Option<String>,
    /// The commit that it is based on: `refs/agentctl/base/NAME`.
    pub base: Option<String>,
    /// The full name of the branch that it began from.
    pub base_branch: Option<String>,
    /// Its condition.
    pub state: WorktreeState,
    /// The reason of its lock; empty if the lock has none.
    pub locked: Option<String>,
    /// How many tracked files are changed.
    pub dirty: Option<usize>,
    /// How many files are neither tracked nor ignored.
    pub untracked: Option<usize>,
    /// The size of all ignored files; `None` also if sizes are omitted.
    pub ignored_bytes: Option<u64>,
    /// How many of its own commits are on no remote-tracking branch.
    pub unpushed: Option<usize>,
    /// How many of its submodules are checked out.
    pub submodules: Option<usize>,
    /// Whether its commits are in the branch that it began from; `None` also if it has none of its own.
    pub merged: Option<Merged>,
    /// The size of all its files; `None` also if sizes are omitted.
    pub size_bytes: Option<u64>,
    /// When it was made.
    pub made_at: Option<Time>,
    /// Why facts are unknown, a sentence each.
    pub gaps: Vec<String>,
}

/// Whether sizes are among the facts: to add them up, every file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The sizes of all files and of the ignored ones are read.
    Read,
    /// Both sizes stay unknown.
    Omitted,
}

/// Reads the facts of all worktrees of a repository but the main one, in the order of git; then the branches of ours
/// without a worktree.
pub fn of_all(
    host: &Host,
    git: &Git,
    repository: &Repository,
    prefix: &str,
    sizes: Sizes,
) -> Result<Vec<WorktreeFacts>, GitError> {
    let mut reader = Reader::new(host, git, repository, prefix)?;
    reader.sizes = sizes;
    reader.read_reflogs();
    let linked: Vec<&WorktreeEntry> = reader.entries.iter().skip(1).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(linked.len()) {
            scope.spawn(|| {
                while let Some((number, entry)) = numbered(&linked, &next) {
                    let facts = reader.of(entry);
                    found
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((number, facts));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    let mut facts: Vec<WorktreeFacts> = found.into_iter().map(|(_, facts)| facts).collect();
    let mut unused = reader.without_worktrees();
    for facts in &mut unused {
        if let Err(error) = reader.read_commits(facts) {
            facts.gaps.push(error.to_string());
        }
    }
    facts.extend(unused);
    Ok(facts)
}

fn numbered<'a>(
    entries: &[&'a WorktreeEntry],
    next: &AtomicUsize,
) -> Option<(usize, &'a WorktreeEntry)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    entries.get(number).map(|entry| (number, *entry))
}

/// Reads the facts of worktrees of one repository.
pub struct Reader<'a> {
    host: &'a Host,
    git: &'a Git,
    repository: &'a Repository,
    prefix: &'a str,
    /// The values of all branches and base refs.
    pub(super) refs: HashMap<String, String>,
    /// The symbolic ones of them, with the refs that they lead to. They are never ours: a launch makes none.
    symbolic: HashMap<String, String>,
    /// The branches of ours whose prefix the settings do not name, with their names.
    other_prefixes: HashMap<String, String>,
    /// All working trees, the main one first.
    pub entries: Vec<WorktreeEntry>,
    /// The branch of the main working tree.
    main_branch: Option<String>,
    /// The oldest line in the reflog of branches, as far as they were read in advance.
    oldest_lines: HashMap<String, String>,
    sizes: Sizes,
}

impl<'a> Reader<'a> {
    /// Reads the refs of a repository.
    pub fn new(
        host: &'a Host,
        git: &'a Git,
        repository: &'a Repository,
        prefix: &'a str,
    ) -> Result<Self, GitError> {
        let format = "--format=%(refname) %(objectname) %(symref)";
        let args = ["for-each-ref", format, BRANCH_REFS, BASE_REFS];
        let text = git.read(&repository.common).args(args).text()?;
        let (mut refs, mut symbolic) = (HashMap::new(), HashMap::new());
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            refs.insert(name.to_owned(), value.to_owned());
            if let Some(target) = words.next().filter(|target| !target.is_empty()) {
                symbolic.insert(name.to_owned(), target.to_owned());
            }
        }
        let main_branch = git.head_branch(&repository.common)?;
        let entries = git.worktrees(&repository.common)?;
        let (oldest_lines, sizes) = (HashMap::new(), Sizes::Read);
        let mut reader = Self {
            host,
            git,
            repository,
            prefix,
            refs,
            symbolic,
            other_prefixes: HashMap::new(),
            entries,
            main_branch,
            oldest_lines,
            sizes,
        };
        reader.other_prefixes = naming::with_other_prefixes(&reader);
        Ok(reader)
    }

    /// Reads the reflogs of the branches of all worktrees by one call. Without it each is read by a call of its own.
    fn read_reflogs(&mut self) {
        let branches = self.entries.iter().skip(1).filter_map(WorktreeEntry::branch);
        let names = branches.fold(String::new(), |names, branch| names + branch + "\n");
        if names.is_empty() {
            return;
        }
        let args = ["reflog", "show", "--stdin", "--format=%gD %gs"];
        let call = self.git.read(&self.repository.common).args(args);
        // One broken branch makes the whole call fail.
        let Some(said) = call.stdin(names).ok().ok().map(|output| output.text()) else { return };
        // The newest line comes first, so that the oldest one stays.
        for (name, line) in said.lines().filter_map(|line| line.split_once(' ')) {
            if let Some((branch, _)) = name.rsplit_once("@{") {
                self.oldest_lines.insert(branch.to_owned(), line.to_owned());
            }
        }
    }

    /// Returns the value of a ref that is no symbolic one.
    pub(super) fn plain(&self, name: &str) -> Option<&String> {
        self.refs.get(name).filter(|_| !self.symbolic.contains_key(name))
    }

    /// Returns the value of the base ref of a worktree.
    fn base(&self, name: &str) -> Option<&String> {
        self.plain(&format!("{BASE_REFS}{name}"))
    }

    /// Says whether HEAD of the repository itself is a symbolic ref: a branch is checked out there.
    pub(super) fn is_on_branch(&self) -> bool {
        self.main_branch.is_some()
    }

    /// Returns the facts of one worktree.
    #[must_use]
    pub fn of(&self, entry: &WorktreeEntry) -> WorktreeFacts {
        let mut facts = self.known(entry);
        if facts.state == WorktreeState::Missing {
            if let Some(aside) = left_aside(&entry.path) {
                let (path, aside) = (entry.path.display(), aside.display());
                let text = format!("{path}: a clean removes it, or was killed: it is in {aside}");
                facts.gaps.push(text);
            }
            return facts;
        }
        let path = entry.path.as_path();
        facts.made_at = made_at(path);
        self.read_status(path, &mut facts);
        if let Err(error) = self.read_commits(&mut facts) {
            facts.gaps.push(error.to_string());
        }
        if self.sizes == Sizes::Read {
            facts.size_bytes = Some(size_below(path));
        }
        facts
    }

    /// Returns the facts that need no look into the directory.
    pub(super) fn known(&self, entry: &WorktreeEntry) -> WorktreeFacts {
        let branch = entry.branch().map(str::to_owned);
        let name = self.name(entry).map(str::to_owned);
        let base = name.as_ref().and_then(|name| self.base(name));
        let named = branch.as_deref().and_then(|branch| self.name_of(branch));
        WorktreeFacts {
            is_on_own_branch: named.is_some() && named == name.as_deref(),
            state: self.state(entry, name.is_some()),
            base: base.cloned(),
            path: Some(entry.path.clone()),
            branch,
            name,
            commit: entry.commit.clone(),
            base_branch: None,
            locked: entry.locked.clone(),
            dirty: None,
            untracked: None,
            ignored_bytes: None,
            unpushed: None,
            submodules: None,
            merged: None,
            size_bytes: None,
            made_at: None,
            gaps: Vec::new(),
        }
    }

    fn state(&self, entry: &WorktreeEntry, ours: bool) -> WorktreeState {
        let lock = entry.locked.as_deref();
        let gone = lock.and_then(LockReason::parse).is_some_and(|reason| reason.is_gone(self.host));
        if gone || (ours && lock == Some(INITIALIZING)) {
            return WorktreeState::HalfMade;
        }
        if !entry.path.is_dir() {
            return WorktreeState::Missing;
        }
        if ours { WorktreeState::Ok } else { WorktreeState::Foreign }
    }

    /// Returns the branches of ours that none of these worktrees has checked out, without their commits' facts.
    pub(super) fn without_worktrees(&self) -> Vec<WorktreeFacts> {
        let used: Vec<&str> = self.entries.iter().filter_map(|entry| self.name(entry)).collect();
        let is_used = |branch: &str| self.name_of(branch).is_some_and(|name| used.contains(&name));
        let mut unused: Vec<&String> = self.refs.keys().filter(|name| !is_used(name)).collect();
        unused.sort();
        unused.into_iter().filter_map(|branch| self.without_worktree(branch)).collect()
    }

    /// Returns the facts of a branch of ours that no worktree has checked out: a launcher was killed before the
    /// worktree was added, or a person removed the worktree.
    fn without_worktree(&self, branch: &str) -> Option<WorktreeFacts> {
        let name = self.name_of(branch)?;
        let base = self.base(name)?;
        let entry = WorktreeEntry {
            path: PathBuf::new(),
            bare: false,
            commit: Some(self.plain(branch)?.clone()),
            head: crate::git::WorktreeHead::Branch(branch.to_owned()),
            locked: None,
            prunable: None,
        };
        let mut facts = self.known(&entry);
        (facts.path, facts.base, facts.state) = (None, Some(base.clone()), WorktreeState::Missing);
        Some(facts)
    }

    /// Counts changed, untracked and ignored files.
    fn read_status(&self, path: &Path, facts: &mut WorktreeFacts) {
        let args = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignored=matching",
        ];
        let readable = self.git.check_rule_files(path);
        let status = match readable.and_then(|()| self.git.read(path).args(args).ok()) {
            Ok(output) => output.stdout,
            Err(error) => {
                return facts.gaps.push(format!("{}: {error}", path.display()));
            }
        };
        let (mut dirty, mut untracked, mut ignored) = (0, 0, Vec::<PathBuf>::new());
        for line in status.split(|byte| *byte == 0).filter(|line| line.len() > 3) {
            match &line[..2] {
                b"??" => untracked += 1,
                b"!!" => ignored.push(crate::git::path_of(&line[3..])),
                _ => dirty += 1,
            }
        }
        if self.sizes == Sizes::Read {
            let bytes = ignored.iter().map(|below| size_below(&path.join(below))).sum();
            facts.ignored_bytes = Some(bytes);
        }
        facts.submodules = match self.gitlinks(path) {
            Ok(links) => {
                // git shows a change inside a submodule as one of the submodule, and nothing of this kind.
                dirty += links.iter().filter(|link| has_files_in_place(path, link)).count();
                Some(links.iter().filter(|link| path.join(link).join(".git").exists()).count())
            }
            Err(error) => {
                facts.gaps.push(format!("{}: {error}", path.display()));
                None
            }
        };
        (facts.dirty, facts.untracked) = (Some(dirty), Some(untracked));
    }

    /// Returns the submodules of a worktree. A repository that never had one is not asked: git would read the whole index
    /// of each worktree.
    fn gitlinks(&self, path: &Path) -> Result<Vec<PathBuf>, GitError> {
        let places = [path.join(".gitmodules"), self.repository.common.join("modules")];
        if places.iter().all(|place| place.symlink_metadata().is_err()) {
            return Ok(Vec::new());
        }
        self.git.gitlinks_without_settings(path)
    }

    /// Compares the commits with those of the base branch and of the remotes.
    fn read_commits(&self, facts: &mut WorktreeFacts) -> Result<(), GitError> {
        let Some(commit) = facts.commit.clone() else { return Ok(()) };
        let origin = self.origin(facts.name.as_deref(), facts.branch.as_deref());
        facts.base_branch = self.base_branch(origin.as_deref())?;
        let tip = facts.base_branch.as_ref().and_then(|name| self.refs.get(name));
        let base = facts.base.as_ref().or(tip);
        facts.unpushed = Some(self.unpushed(&commit, base)?);
        let has_own_commits = facts.base.as_ref() != Some(&commit);
        if let Some(tip) = tip.filter(|_| has_own_commits) {
            facts.merged = Some(self.git.merged(&self.repository.common, &commit, tip)?);
        }
        Ok(())
    }

    fn unpushed(&self, commit: &str, base: Option<&String>) -> Result<usize, GitError> {
        if base.is_some_and(|base| base == commit) {
            return Ok(0);
        }
        let mut args = vec!["rev-list".to_owned(), "--count".to_owned(), commit.to_owned()];
        args.extend(base.map(|base| format!("^{base}")));
        args.extend(["--not".to_owned(), "--remotes".to_owned()]);
        let count = self.git.read(&self.repository.common).args(args).text()?;
        Ok(count.parse().unwrap_or_default())
    }

    /// Returns the branch whose beginning is that of a worktree: the one that it was made with, if it has a name and is
    /// on another branch now; else its own.
    #[must_use]
    pub fn origin(&self, name: Option<&str>, branch: Option<&str>) -> Option<String> {
        let branch = branch?;
        let name = name.filter(|name| self.name_of(branch) != Some(name));
        let first = name.and_then(|name| self.made_branch(name));
        Some(first.unwrap_or_else(|| branch.to_owned()))
    }

    /// Returns the oldest line in the reflog of a branch.
    fn oldest_line(&self, branch: &str) -> Result<Option<String>, GitError> {
        let args = ["reflog", "show", "--format=%gs", branch, "--"];
        let said = self.git.read(&self.repository.common).args(args).run()?;
        Ok(said.text().lines().last().map(str::to_owned))
    }

    /// Makes a place to try merges into a commit of the repository.
    pub fn merge_place(&self, into: &str) -> Result<MergePlace, GitError> {
        self.git.merge_place(&self.repository.common, into)
    }

    /// Returns the branch that a branch began from, by its reflog; for a branch of a remote the local branch of the same
    /// name. Without a reflog it is the branch of the main working tree. `None` if it began at something else. It is
    /// never a symbolic ref, but the branch that this leads to.
    pub fn base_branch(&self, branch: Option<&str>) -> Result<Option<String>, GitError> {
        let Some(branch) = branch else { return Ok(self.main_branch.clone()) };
        let oldest = match self.oldest_lines.get(branch) {
            Some(line) => Some(line.clone()),
            None => self.oldest_line(branch)?,
        };
        let from = oldest.as_deref().and_then(|line| line.strip_prefix(CREATED_FROM));
        let main = || self.main_branch.clone().filter(|main| main != branch);
        // A worktree that was brought back begins at its rescue ref, which is no branch.
        let is_named = |from: &&str| *from != "HEAD" && !from.starts_with(RESCUE_REFS);
        let Some(from) = from.filter(is_named) else { return Ok(main()) };
        let local = match from.strip_prefix(REMOTE_REFS).and_then(|name| name.split_once('/')) {
            Some((_, name)) => format!("{BRANCH_REFS}{name}"),
            None => format!("{BRANCH_REFS}{}", short_branch(from)),
        };
        let local = self.symbolic.get(&local).cloned().unwrap_or(local);
        Ok(Some(local).filter(|local| self.plain(local).is_some()))
    }
}

impl Git {
    /// Says whether a branch with this tip has everything of a commit.
    pub fn merged(&self, directory: &Path, commit: &str, tip: &str) -> Result<Merged, GitError> {
        let ancestor = ["merge-base", "--is-ancestor", commit, tip];
        if commit == tip || self.read(directory).args(ancestor).says_yes()? {
            return Ok(Merged::Yes);
        }
        let merge = ["merge-tree", "--write-tree", "--no-messages", tip, commit];
        let store = self.scratch_objects(directory)?;
        let call = store.see(self.read(directory)).without_merge_drivers()?;
        let merged = call.args(merge).run()?;
        let same = merged.code == 0 && Some(merged.text()) == self.tree(directory, tip)?;
        Ok(if same { Merged::ByContent } else { Merged::No })
    }
}

/// Returns when a worktree was made: git writes its `.git` file once.
fn made_at(path: &Path) -> Option<Time> {
    let modified = path.join(".git").symlink_metadata().ok()?.mtime();
    Time::from_millis(modified.checked_mul(1000)?)
}

/// Returns the size of a file, or of all files below a directory. Links are not followed.
#[must_use]
pub fn size_below(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let (mut bytes, mut folders) = (0, vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => bytes += entry.metadata().map_or(0, |meta| meta.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}
