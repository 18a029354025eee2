//! The plan of a call: repository, base, names, directories. Everything that can be refused is refused here,
//! before anything exists.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, access};

use super::super::clean::{FailedWorktree, MAX_WORKTREE_FOLDER_BYTES, Stage, remove_failed};
use super::super::{BASE_REFS, BRANCH_REFS, MakeOrder, Wanted, WorktreeSettings, short_branch};
use super::{KeptWorktree, MakeError, NameHolder, Prepared, Remains, undo};
use crate::git::{Git, GitError, RefEdit, RefTransactionError, Repository};
use crate::host::Host;

/// git's words after a hook `reference-transaction` refused the change of refs.
const ABORTED_BY_HOOK: &str = "aborted by hook";

/// One worktree that will be made.
#[derive(Debug)]
pub(super) struct Place {
    pub name: String,
    /// The branch without `refs/heads/`.
    pub branch: String,
    pub path: PathBuf,
    pub base: String,
    /// The commit that the branch begins at.
    pub start: String,
    /// The branch or revision that the base was taken from, for the reflog.
    pub from: String,
    /// Set when its files and submodules are checked out.
    pub checked_out: OnceLock<()>,
    /// Its state when it was complete.
    pub prepared: OnceLock<Prepared>,
}

/// Everything that a call makes.
pub(super) struct Plan<'a> {
    pub(super) git: &'a Git,
    pub repository: Repository,
    pub places: Vec<Place>,
    /// The directory that holds the worktrees.
    pub(super) parent: PathBuf,
    parent_is_new: bool,
    pub left_behind: usize,
    /// The commit of the present working tree, if `git status` shows no changed file of it.
    pub(super) unchanged_head: Option<String>,
    /// The repositories whose files the uncommitted changes do not bring along, a sentence each.
    pub warnings: Vec<String>,
    /// The changes that create all branches and base refs: a transaction for each text of the reflog.
    transactions: Vec<RefTransaction>,
}

/// Refs that are created together.
struct RefTransaction {
    /// The branch or revision that their base was taken from.
    from: String,
    edits: Vec<RefEdit>,
}

/// Says why a name cannot be that of a worktree. The rest is left to git.
pub fn check_names(names: &[&str]) -> Result<(), MakeError> {
    for name in names {
        let bad = |why: &str| MakeError::BadName { name: (*name).to_owned(), why: why.to_owned() };
        let folder = folder_name(name);
        if name.is_empty() || name.starts_with('-') || name.starts_with('/') || name.ends_with('/')
        {
            return Err(bad("it is empty, or begins with `-` or `/`, or ends with `/`"));
        }
        if folder.len() > MAX_WORKTREE_FOLDER_BYTES {
            return Err(bad(&format!("it is longer than {MAX_WORKTREE_FOLDER_BYTES} bytes")));
        }
        if folder == "@" {
            // `git worktree add` cannot make a worktree whose directory is called so.
            return Err(bad("`@` alone means HEAD in git"));
        }
        if folder == "." || folder == ".." || name.chars().any(char::is_control) {
            return Err(bad("it has a character that a branch cannot have"));
        }
        if let Some(twin) = names.iter().find(|n| *n != name && folder_name(n) == folder) {
            return Err(bad(&format!("`{twin}` would have the same folder")));
        }
        let is_below =
            |other: &&&str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        if let Some(other) = names.iter().find(is_below) {
            return Err(bad(&format!("git cannot keep both its branch and that of `{other}`")));
        }
        if names.iter().filter(|n| *n == name).count() > 1 {
            return Err(bad("two worktrees of this launch have it"));
        }
    }
    Ok(())
}

fn folder_name(name: &str) -> String {
    name.replace('/', "-")
}

/// Returns the directory that holds the worktrees of a repository: the given one, the configured one, or
/// `<repository>.worktrees` beside it. For a submodule, beside the outermost repository that it is part of.
pub fn worktrees_directory(
    git: &Git,
    repository: &Repository,
    order: &MakeOrder,
) -> Result<PathBuf, MakeError> {
    if let Some(given) = &order.options.directory {
        return Ok(clean(&order.from.join(given)));
    }
    if let Some(configured) = &order.settings.directory {
        return Ok(clean(&repository.main.join(configured)));
    }
    let mut outermost = repository.main.clone();
    while let Some(outer) = superproject(git, &outermost)? {
        outermost = outer;
    }
    let beside = outermost.parent().unwrap_or(Path::new("/"));
    let name = repository.main.file_name().unwrap_or(OsStr::new("repository"));
    let mut name = name.to_owned();
    if repository.bare && name.to_string_lossy().ends_with(".git") && name.len() > 4 {
        name = name.to_string_lossy().trim_end_matches(".git").into();
    }
    name.push(".worktrees");
    Ok(beside.join(name))
}

fn superproject(git: &Git, tree: &Path) -> Result<Option<PathBuf>, GitError> {
    // The working tree of a superproject is above, with a `.git` of its own. Without one git need not be asked.
    let has_git = |path: &Path| path.join(".git").symlink_metadata().is_ok();
    if !tree.ancestors().skip(1).any(has_git) {
        return Ok(None);
    }
    let call = git.read(tree).args(["rev-parse", "--show-superproject-working-tree"]);
    let output = call.run()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned();
    Ok((output.code == 0 && !text.is_empty()).then(|| PathBuf::from(text)))
}

/// Removes `.` and `..` from a path and resolves the links of its existing part.
pub(super) fn clean(path: &Path) -> PathBuf {
    let existing =
        path.ancestors().find(|p| p.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    let real = std::fs::canonicalize(existing).unwrap_or_else(|_| existing.to_owned());
    let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
    let mut clean = real;
    for part in rest.components() {
        match part {
            std::path::Component::ParentDir => drop(clean.pop()),
            std::path::Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

impl<'a> Plan<'a> {
    /// Plans a call that can begin. If uncommitted changes are taken along, their commit is made.
    pub(super) fn new(
        host: &Host,
        git: &'a Git,
        order: &MakeOrder,
        wanted: &[Wanted],
    ) -> Result<Self, MakeError> {
        let mut plan = Self::checked(host, git, order, wanted)?;
        plan.take_changes(order)?;
        plan.transactions = plan.wanted_refs()?;
        Ok(plan)
    }

    /// Plans a call and refuses what can be refused without writing anything.
    pub(super) fn checked(
        host: &Host,
        git: &'a Git,
        order: &MakeOrder,
        wanted: &[Wanted],
    ) -> Result<Self, MakeError> {
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        check_names(&names)?;
        let repository = git.repository(&order.from)?;
        let parent = worktrees_directory(git, &repository, order)?;
        check_directory(host, &repository, &parent)?;
        let (mut places, mut bases) = (Vec::new(), HashMap::new());
        for Wanted { name, base: own, .. } in wanted {
            if !bases.contains_key(own) {
                bases.insert(own, base(git, &repository, order, own.as_deref())?);
            }
            let (base, from) = bases[own].clone();
            places.push(Place {
                name: name.clone(),
                branch: format!("{}{name}", order.settings.prefix),
                path: parent.join(folder_name(name)),
                start: base.clone(),
                base,
                from,
                checked_out: OnceLock::new(),
                prepared: OnceLock::new(),
            });
        }
        let mut plan = Self {
            git,
            repository,
            places,
            parent_is_new: parent.symlink_metadata().is_err(),
            parent,
            left_behind: 0,
            unchanged_head: None,
            warnings: Vec::new(),
            transactions: Vec::new(),
        };
        plan.check_free()?;
        plan.check_sparse(order)?;
        plan.count_changes(order)?;
        plan.check_space(order)?;
        Ok(plan)
    }

    /// Refuses names that are taken and directories that exist.
    fn check_free(&self) -> Result<(), MakeError> {
        for place in &self.places {
            if place.path.symlink_metadata().is_ok() {
                if let Some(holder) = self.holder(place)? {
                    return Err(MakeError::Taken { name: place.name.clone(), holder });
                }
                return Err(MakeError::DirectoryExists { path: place.path.clone() });
            }
        }
        Ok(())
    }

    fn check_sparse(&self, order: &MakeOrder) -> Result<(), MakeError> {
        let bases: BTreeSet<&str> = self.places.iter().map(|place| place.base.as_str()).collect();
        let directories = order.options.sparse.iter();
        for (directory, base) in directories.flat_map(|d| bases.iter().map(move |base| (d, base))) {
            // With the slash it is a directory and no file.
            let tree = format!("{base}:{}/", directory.trim_matches('/'));
            if self.git.ref_value(&self.repository.common, &tree)?.is_none() {
                return Err(MakeError::NoSuchDirectory { directory: directory.clone() });
            }
        }
        if order.options.sparse.is_empty() || order.options.force {
            return Ok(());
        }
        let key = ["config", "--type=bool", "--get", "extensions.worktreeConfig"];
        let output = self.git.read(&self.repository.common).args(key).run()?;
        if output.text() == "true" {
            return Ok(());
        }
        Err(MakeError::SparseConsent { repository: self.repository.main.clone() })
    }

    /// Returns the changes that create all branches and base refs. A base ref whose branch is gone is replaced.
    fn wanted_refs(&self) -> Result<Vec<RefTransaction>, MakeError> {
        let mut transactions: Vec<RefTransaction> = Vec::new();
        let format = "--format=%(refname) %(objectname)";
        let call = self.git.read(&self.repository.common).args(["for-each-ref", format, BASE_REFS]);
        let listed = call.text()?;
        let bases: HashMap<&str, &str> =
            listed.lines().filter_map(|line| line.split_once(' ')).collect();
        for place in &self.places {
            let branch = format!("{BRANCH_REFS}{}", place.branch);
            let base = format!("{BASE_REFS}{}", place.name);
            let stale = bases.get(base.as_str()).map(|value| (*value).to_owned());
            let new = place.base.clone();
            let edits = [
                RefEdit::Create { name: branch, new: place.start.clone() },
                match stale {
                    Some(old) => RefEdit::Update { name: base, new, old },
                    None => RefEdit::Create { name: base, new },
                },
            ];
            match transactions.iter_mut().find(|other| other.from == place.from) {
                Some(other) => other.edits.extend(edits),
                None => {
                    let (from, edits) = (place.from.clone(), edits.into());
                    transactions.push(RefTransaction { from, edits });
                }
            }
        }
        Ok(transactions)
    }

    /// Creates the directory that holds the worktrees.
    pub(super) fn make_parent(&self) -> Result<(), MakeError> {
        std::fs::create_dir_all(&self.parent).map_err(|error| self.no_parent(&error))
    }

    /// Says that the directory for the worktrees cannot be created.
    pub(super) fn no_parent(&self, error: &std::io::Error) -> MakeError {
        MakeError::Io { what: format!("{} cannot be created: {error}", self.parent.display()) }
    }

    /// Removes the directory that holds the worktrees, if this call created it and it is empty.
    pub(super) fn remove_parent(&self) {
        if self.parent_is_new {
            let _kept = std::fs::remove_dir(&self.parent);
        }
    }

    /// Creates all branches and base refs, or none.
    pub(super) fn create_refs(&self) -> Result<(), MakeError> {
        for (done, transaction) in self.transactions.iter().enumerate() {
            if let Err(error) = self.create(transaction) {
                self.delete(&self.transactions[..done]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Deletes the refs of these transactions that still have their first value.
    fn delete(&self, transactions: &[RefTransaction]) {
        for edit in transactions.iter().flat_map(|transaction| &transaction.edits) {
            let (RefEdit::Create { name, new } | RefEdit::Update { name, new, .. }) = edit else {
                continue;
            };
            let delete = [RefEdit::Delete { name: name.clone(), old: new.clone() }];
            let reason = "a worktree of the same launch cannot be made";
            let _moved = self.git.change_refs(&self.repository.common, reason, &delete);
        }
    }

    /// Creates the refs of one transaction, or none.
    fn create(&self, transaction: &RefTransaction) -> Result<(), MakeError> {
        let reason = format!("branch: Created from {}", transaction.from);
        let common = &self.repository.common;
        match self.git.change_refs(common, &reason, &transaction.edits) {
            Ok(()) => Ok(()),
            Err(RefTransactionError::Git(error)) => Err(error.into()),
            Err(RefTransactionError::BadName { name }) => {
                Err(MakeError::bad_branch(short_branch(&name)))
            }
            Err(RefTransactionError::Conflict { words }) if words.contains(ABORTED_BY_HOOK) => {
                Err(MakeError::Hook { hook: "reference-transaction", words })
            }
            Err(RefTransactionError::Conflict { words }) => {
                for place in &self.places {
                    if let Some(holder) = self.holder(place)? {
                        return Err(MakeError::Taken { name: place.name.clone(), holder });
                    }
                }
                if access(self.repository.common.join("refs/heads"), Access::WRITE_OK).is_err() {
                    let repository = self.repository.main.clone();
                    return Err(MakeError::ReadOnly { repository, words });
                }
                let name = self.places.first().map(|place| place.name.clone()).unwrap_or_default();
                Err(MakeError::Taken { name, holder: NameHolder::Other(words) })
            }
        }
    }

    /// Finds what has the name of a worktree.
    pub(super) fn holder(&self, place: &Place) -> Result<Option<NameHolder>, MakeError> {
        let directory = &self.repository.common;
        let branch = format!("{BRANCH_REFS}{}", place.branch);
        let entries = self.git.worktrees(directory)?;
        if let Some(entry) = entries.into_iter().find(|entry| entry.branch() == Some(&branch)) {
            return Ok(Some(NameHolder::Worktree(entry.path)));
        }
        let above = place.branch.match_indices('/').map(|(at, _)| &place.branch[..at]);
        let names = above.chain([place.branch.as_str()]).map(|name| format!("{BRANCH_REFS}{name}"));
        for name in names {
            if self.git.ref_value(directory, &name)?.is_some() {
                let same = name == branch;
                let short = short_branch(&name).to_owned();
                return Ok(Some(if same {
                    NameHolder::Branch(short)
                } else {
                    NameHolder::Collision(short)
                }));
            }
        }
        let below = ["for-each-ref", "--count=1", "--format=%(refname)", &format!("{branch}/")];
        let below = self.git.read(directory).args(below).text()?;
        Ok((!below.is_empty()).then(|| NameHolder::Collision(short_branch(&below).to_owned())))
    }

    /// Removes everything of a failed call, except worktrees with contents that may be of others. `lock` is the reason of
    /// the locks of this call. Returns what is left.
    pub(super) fn undo_all(&self, host: &Host, settings: &WorktreeSettings, lock: &str) -> Remains {
        let mut remains = Remains::default();
        for place in &self.places {
            let stage = match (place.prepared.get(), place.checked_out.get()) {
                (Some(prepared), _) => Stage::Complete(prepared),
                (None, Some(())) => Stage::SetUp,
                (None, None) => Stage::CheckOut,
            };
            let failed = FailedWorktree {
                path: &place.path,
                branch: &place.branch,
                beginnings: [&place.base, &place.start],
                lock: Some(lock),
                stage,
            };
            match remove_failed(host, (self.git, &self.repository), settings, &failed) {
                Ok(removed) => {
                    let refs = undo::Refs {
                        branch: &place.branch,
                        name: &place.name,
                        base: &place.base,
                        start: removed.commit.as_deref().unwrap_or(&place.start),
                    };
                    let common = &self.repository.common;
                    remains.saved.extend(removed.rescue);
                    remains.left.extend(removed.left);
                    remains.left.extend(undo::delete_refs(host, self.git, common, &refs));
                }
                Err(why) => {
                    let (name, path) = (place.name.clone(), place.path.clone());
                    remains.kept.push(KeptWorktree { name, path, why });
                }
            }
        }
        remains
    }
}

/// Returns the commit that a worktree begins at, and the branch or revision that names it. `own` is the revision of
/// this worktree, if it has one of its own.
fn base(
    git: &Git,
    repository: &Repository,
    order: &MakeOrder,
    own: Option<&str>,
) -> Result<(String, String), MakeError> {
    let directory = &order.from;
    if let Some(revision) = own.or(order.options.base.as_deref()) {
        let missing = || MakeError::NoSuchBase {
            revision: revision.to_owned(),
            repository: repository.main.clone(),
        };
        let commit = git.commit(directory, revision)?.ok_or_else(missing)?;
        let full =
            git.read(directory).args(["rev-parse", "--symbolic-full-name", "--end-of-options"]);
        let full = full.arg(revision).run()?.text();
        let named = full.lines().last().filter(|name| name.starts_with("refs/"));
        return Ok((commit, named.unwrap_or(revision).to_owned()));
    }
    let head = git.head(directory)?;
    let commit =
        head.commit.ok_or_else(|| MakeError::Unborn { repository: repository.main.clone() })?;
    let from = head.branch.unwrap_or_else(|| commit.clone());
    Ok((commit, from))
}

/// Returns the directories whose files the system may delete at any time.
fn temporary_directories(host: &Host) -> impl Iterator<Item = PathBuf> {
    let named = host.var("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let places = ["/tmp", "/var/tmp"].map(PathBuf::from).into_iter().chain(named);
    places.map(|place| clean(&place)).filter(|place| place.parent().is_some())
}

/// Refuses directories in which worktrees would be found again by every search, or would be lost.
fn check_directory(host: &Host, repository: &Repository, parent: &Path) -> Result<(), MakeError> {
    let bad = |why: String| MakeError::BadDirectory { path: parent.to_owned(), why };
    if parent.symlink_metadata().is_ok() && !parent.is_dir() {
        return Err(bad("not a directory".into()));
    }
    if parent.starts_with(clean(&host.state())) {
        return Err(bad("in our own state directory, which may be deleted".into()));
    }
    if parent.starts_with(clean(&repository.common)) {
        return Err(bad("inside the repository".into()));
    }
    if !repository.bare && parent.starts_with(clean(&repository.main)) {
        return Err(bad("inside the repository".into()));
    }
    let temporary = temporary_directories(host)
        .find(|place| parent.starts_with(place) && !clean(&repository.main).starts_with(place));
    if let Some(place) = temporary {
        let place = place.display();
        return Err(bad(format!("in the temporary directory {place}, which may be emptied")));
    }
    let inside = |path: &Path| !path.as_os_str().is_empty() && parent.starts_with(clean(path));
    match repository.trees.iter().find(|entry| !entry.bare && inside(&entry.path)) {
        Some(entry) => Err(bad(format!("inside the worktree {}", entry.path.display()))),
        None => Ok(()),
    }
}
