//! The contents of a working tree, compared by content: as committed, as staged, and as it lies on the disk.
//!
//! Every file is read again, whatever times the index has, so a change that kept size and time is found. The
//! git directory and the working tree are named, not looked for: the tree may have been renamed. Nothing is
//! written into the repository.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::io;
use super::repository::listed_gitlinks;
use super::snapshot::{PrivateStore, reveal_hidden};
use super::{Git, GitCall, GitError, path_of};

/// Timeout of reading a whole working tree.
const CONTENTS_TIMEOUT: Duration = Duration::from_mins(5);

/// Limit of a `.git` file.
const MAX_GIT_FILE_BYTES: u64 = 16 << 10;

/// A working tree and its git directory.
#[derive(Clone, Debug)]
pub struct WorkTree {
    /// The git directory: that of the worktree, not the one that all worktrees share.
    pub git_dir: PathBuf,
    /// The top of the working tree.
    pub top: PathBuf,
}

/// The contents of a working tree. Trees are compared by their ids.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The commit of HEAD; `None` before the first commit.
    pub commit: Option<String>,
    /// The tree of HEAD; `None` before the first commit.
    pub committed: Option<String>,
    /// The tree of the index; `None` with unresolved conflicts.
    pub staged: Option<String>,
    /// The tree of all files that are not ignored.
    pub on_disk: String,
    /// Why files are missing in `on_disk`.
    pub gaps: Vec<String>,
    /// The store of the trees that are not committed.
    pub store: Arc<PrivateStore>,
}

impl WorkTree {
    /// Prepares a question about this working tree.
    #[must_use]
    pub fn read<'a>(&self, git: &'a Git) -> GitCall<'a> {
        let call = git.read(&self.top).limit(CONTENTS_TIMEOUT);
        call.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.top)
    }
}

impl Git {
    /// Reads what a working tree holds. `objects` is the object directory of its repository. With `keep_objects`
    /// the trees are written into the repository, else nothing is.
    pub fn contents(
        &self,
        tree: &WorkTree,
        objects: &Path,
        keep_objects: bool,
    ) -> Result<Contents, GitError> {
        self.check_rule_files(&tree.top)?;
        let store = Arc::new(self.private_store(objects.to_owned())?);
        let index = store.directory.join("index");
        copy_index(&tree.git_dir.join("index"), &index)?;
        let call = || {
            let mut call = tree.read(self).env("GIT_INDEX_FILE", &index);
            if !keep_objects {
                call = store.see(call);
                for setting in store.settings() {
                    call = call.setting(setting);
                }
            }
            call.setting("advice.addEmbeddedRepo=false")
        };
        let head = call().args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).run()?;
        let commit = (head.code == 0).then(|| head.text());
        let committed = match &commit {
            Some(commit) => Some(call().arg("rev-parse").arg(format!("{commit}^{{tree}}")).text()?),
            None => None,
        };
        if let Some(committed) = committed.as_ref().filter(|_| !index.exists()) {
            call().args(["read-tree", committed]).ok()?;
        }
        let staged = call().args(["write-tree"]).run()?;
        let staged = (staged.code == 0).then(|| staged.text());
        reveal_hidden(&tree.top, &call)?;
        let submodules = checked_out_submodules(&tree.top, &call)?;
        let mut add = call().args(["add", "--all", "--sparse", "--ignore-errors", "--", ":/"]);
        for path in &submodules {
            // git would run itself in the submodule, whose own settings name the working tree before a rename.
            let mut exclude = OsString::from(":(exclude,top,literal)");
            exclude.push(path);
            add = add.arg(exclude);
        }
        let added = add.run()?;
        let mut gaps = Vec::new();
        for path in &submodules {
            gaps.extend(self.add_submodule(&tree.top, path, &call)?);
        }
        if added.code != 0 {
            let lines = added.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
            gaps.extend(lines.map(str::to_owned));
            gaps.push(format!("`git add` ended with exit code {}", added.code));
        }
        let on_disk = call().args(["write-tree"]).text()?;
        Ok(Contents { commit, committed, staged, on_disk, gaps, store })
    }
}

/// Returns the submodules of the copied index that are checked out.
fn checked_out_submodules<'a>(
    top: &Path,
    call: &dyn Fn() -> GitCall<'a>,
) -> Result<Vec<PathBuf>, GitError> {
    if top.join(".gitmodules").symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let is_there = |path: &PathBuf| top.join(path).join(".git").symlink_metadata().is_ok();
    Ok(listed_gitlinks(call())?.into_iter().filter(is_there).collect())
}

/// Returns the git directory that a working tree names, links resolved; `None` if it names none.
#[must_use]
pub fn git_dir_of(top: &Path) -> Option<PathBuf> {
    let link = top.join(".git");
    let meta = link.symlink_metadata().ok()?;
    if meta.is_dir() {
        return std::fs::canonicalize(link).ok();
    }
    if !meta.is_file() || meta.len() > MAX_GIT_FILE_BYTES {
        return None;
    }
    let text = std::fs::read(&link).ok()?;
    let path = text.strip_prefix(b"gitdir: ")?;
    let path = path.strip_suffix(b"\n").unwrap_or(path);
    std::fs::canonicalize(top.join(path_of(path))).ok()
}

/// A file that differs between HEAD and the disk.
#[derive(Clone, Debug)]
pub struct ChangedFile {
    /// Its path below the top of the working tree.
    pub path: PathBuf,
    /// HEAD has it and the disk does not.
    pub is_deletion: bool,
}

impl Git {
    /// Writes the commit of a submodule into the copied index. Returns why it is not known, if it is not.
    fn add_submodule<'a>(
        &self,
        top: &Path,
        path: &Path,
        call: &dyn Fn() -> GitCall<'a>,
    ) -> Result<Option<String>, GitError> {
        let unknown = || Ok(Some(format!("the commit of {} is not known", path.display())));
        let Some(git_dir) = git_dir_of(&top.join(path)) else { return unknown() };
        let head = self.read(&git_dir).env("GIT_DIR", &git_dir).env("GIT_WORK_TREE", &git_dir);
        let head = head.args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).run()?;
        if head.code != 0 {
            return unknown();
        }
        let mut line = format!("160000 {}\t", head.text()).into_bytes();
        line.extend(path.as_os_str().as_bytes());
        line.push(0);
        call().args(["update-index", "-z", "--index-info"]).stdin(line).ok()?;
        Ok(None)
    }

    /// Returns the files that differ between HEAD and the disk.
    pub fn changed_files(
        &self,
        tree: &WorkTree,
        contents: &Contents,
    ) -> Result<Vec<ChangedFile>, GitError> {
        if contents.committed.as_ref() == Some(&contents.on_disk) {
            return Ok(Vec::new());
        }
        let call = contents.store.see(tree.read(self));
        let Some(committed) = &contents.committed else {
            let args = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", &contents.on_disk];
            let listed = call.args(args).ok()?.stdout;
            let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            let file = |name| ChangedFile { path: path_of(name), is_deletion: false };
            return Ok(names.map(file).collect());
        };
        let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", "--no-ext-diff"];
        let args = [&args[..], &["--ignore-submodules=none"]].concat();
        let listed = call.args(args).args([committed, &contents.on_disk, "--"]).ok()?.stdout;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut files = Vec::new();
        while let (Some(kind), Some(name)) = (fields.next(), fields.next()) {
            files.push(ChangedFile { path: path_of(name), is_deletion: kind == b"D" });
        }
        Ok(files)
    }

    /// Counts the tracked files that `git status` shows as modified on the disk.
    pub fn modified_files(&self, tree: &WorkTree) -> Result<usize, GitError> {
        let args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
        let call = tree.read(self).args(args).arg("--ignore-submodules=all");
        let listed = call.ok()?.stdout;
        let lines = listed.split(|byte| *byte == 0);
        Ok(lines.filter(|line| line.get(1).is_some_and(|kind| b"MT".contains(kind))).count())
    }

    /// Says whether the index of a worktree whose directory is missing has unresolved conflicts.
    pub fn has_conflicts(&self, git_dir: &Path) -> Result<bool, GitError> {
        let call = self.read(git_dir).env("GIT_DIR", git_dir).env("GIT_WORK_TREE", git_dir);
        Ok(!call.args(["ls-files", "--unmerged", "-z"]).ok()?.stdout.is_empty())
    }

    /// Returns the tree of the index of a git directory without its working tree; `None` without an index. An index
    /// with unresolved conflicts is an error.
    pub fn staged_tree(&self, git_dir: &Path, objects: &Path) -> Result<Option<String>, GitError> {
        let store = self.private_store(objects.to_owned())?;
        let index = store.directory.join("index");
        copy_index(&git_dir.join("index"), &index)?;
        if !index.exists() {
            return Ok(None);
        }
        let call = store.see(self.read(git_dir)).env("GIT_DIR", git_dir);
        // The working tree that the settings of a submodule name may be gone.
        let call = call.env("GIT_WORK_TREE", git_dir);
        call.env("GIT_INDEX_FILE", &index).args(["write-tree"]).text().map(Some)
    }
}

/// Copies an index and gives the copy a time before that of every file. git then compares each file by its
/// content instead of its times.
fn copy_index(from: &Path, to: &Path) -> Result<(), GitError> {
    match std::fs::copy(from, to) {
        Ok(_) => {
            let early = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
            let copy = std::fs::File::options().write(true).open(to);
            copy.and_then(|copy| copy.set_modified(early))
                .map_err(io("the copy of the index has no time"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(GitError::Io { what: "the index cannot be copied", source }),
    }
}
