//! A snapshot of a working tree as git would commit it: changed, staged and untracked files, without ignored ones.
//!
//! The index is a copy and new objects go to a private temporary directory, so nothing is written into the
//! repository. Files that `assume-unchanged` or `skip-worktree` hide from git are read as well.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::io;
use super::private_directory::PrivateDirectory;
use super::repository::as_path;
use super::{Git, GitCall, GitError, path_of};

/// Timeout of a snapshot: large untracked files are read whole.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(5);

/// A working tree as a tree object.
#[derive(Clone, Debug)]
pub struct TreeSnapshot {
    /// The id of the tree.
    pub tree: String,
    /// Why files are missing in it, for example because they cannot be read. A snapshot with gaps proves
    /// nothing about what may be removed.
    pub gaps: Vec<String>,
    /// The store of its objects. Commands that use the tree must see it: [`TreeSnapshot::see`].
    pub store: SnapshotStore,
}

/// The place of a snapshot's objects.
#[derive(Clone, Debug)]
pub enum SnapshotStore {
    /// In the repository.
    Repository,
    /// In a private directory, which is removed with the last copy of this value.
    Private(Arc<PrivateStore>),
}

/// A private directory with objects, and the object directory that it extends.
#[derive(Debug)]
pub struct PrivateStore {
    pub(super) directory: PathBuf,
    extends: PathBuf,
    _removed_with_it: PrivateDirectory,
}

impl TreeSnapshot {
    /// Lets a call see the objects of the snapshot. Objects that the call writes go to the private store.
    #[must_use]
    pub fn see<'a>(&self, call: GitCall<'a>) -> GitCall<'a> {
        match &self.store {
            SnapshotStore::Repository => call,
            SnapshotStore::Private(store) => store.see(call),
        }
    }
}

impl PrivateStore {
    /// Lets a call see the objects, and write its own here.
    #[must_use]
    pub fn see<'a>(&self, call: GitCall<'a>) -> GitCall<'a> {
        call.env("GIT_OBJECT_DIRECTORY", self.directory.join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.extends))
    }

    /// Returns the settings of calls that write objects: they are temporary, so speed counts.
    pub(super) fn settings(&self) -> [OsString; 3] {
        // The filter of git-lfs stores contents in the repository unless it is told another place.
        let mut lfs = OsString::from("lfs.storage=");
        lfs.push(self.directory.join("lfs"));
        ["core.looseCompression=0".into(), "core.fsync=none".into(), lfs]
    }
}

impl Git {
    /// Takes a snapshot of the working tree with this top. Writes nothing into the repository.
    pub fn snapshot(&self, top: &Path) -> Result<TreeSnapshot, GitError> {
        let store = Arc::new(self.scratch_objects(top)?);
        let directory = store.directory.clone();
        self.snapshot_into(top, &directory, SnapshotStore::Private(store))
    }

    /// Makes a private store for objects that a question writes, such as the result of `git merge-tree`.
    pub fn scratch_objects(&self, directory: &Path) -> Result<PrivateStore, GitError> {
        let extends = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
        let extends = as_path(self.read(directory).args(extends).ok()?.stdout);
        self.private_store(extends)
    }

    /// Makes a private store that extends an object directory.
    pub(super) fn private_store(&self, extends: PathBuf) -> Result<PrivateStore, GitError> {
        let private = self.private_directory()?;
        let directory = private.path.clone();
        let store = PrivateStore { directory, extends, _removed_with_it: private };
        let made = std::fs::create_dir(store.directory.join("objects"));
        made.map_err(io("the temporary object store cannot be made"))?;
        Ok(store)
    }

    /// Takes a snapshot of the working tree with this top, and writes its objects into the repository. The index
    /// stays as it is.
    pub fn snapshot_into_repository(&self, top: &Path) -> Result<TreeSnapshot, GitError> {
        let directory = self.private_directory()?;
        self.snapshot_into(top, &directory.path, SnapshotStore::Repository)
    }

    fn snapshot_into(
        &self,
        top: &Path,
        directory: &Path,
        store: SnapshotStore,
    ) -> Result<TreeSnapshot, GitError> {
        self.check_rule_files(top)?;
        let index = directory.join("index");
        self.copy_index(top, &index)?;
        let mut snapshot = TreeSnapshot { tree: String::new(), gaps: Vec::new(), store };
        let call = || {
            let mut call = self.read(top).limit(SNAPSHOT_TIMEOUT).env("GIT_INDEX_FILE", &index);
            if let SnapshotStore::Private(store) = &snapshot.store {
                for setting in store.settings() {
                    call = call.setting(setting);
                }
                call = store.see(call);
            }
            call.setting("advice.addEmbeddedRepo=false")
        };
        reveal_hidden(top, &call)?;
        // Without `--sparse` git leaves out what is outside of the directories of a sparse working tree, and fails.
        let added =
            call().args(["add", "--all", "--sparse", "--ignore-errors", "--", ":/"]).run()?;
        let mut gaps = Vec::new();
        if added.code != 0 {
            let said = added.stderr.lines().map(str::trim);
            gaps = said.filter(|line| !line.is_empty()).map(str::to_owned).collect();
            if gaps.is_empty() {
                gaps.push(format!("`git add` ended with exit code {}", added.code));
            }
        }
        let tree = call().args(["write-tree"]).text()?;
        snapshot.tree = tree;
        snapshot.gaps = gaps;
        Ok(snapshot)
    }

    /// Returns the tracked files of a working tree that `git status` shows as changed.
    pub fn changed_tracked_files(&self, top: &Path) -> Result<Vec<PathBuf>, GitError> {
        status_files(self.read(top))
    }

    /// Returns the changed tracked files of a working tree, also those that `assume-unchanged` or `skip-worktree` hide
    /// from `git status`.
    pub fn changed_or_hidden_files(&self, top: &Path) -> Result<Vec<PathBuf>, GitError> {
        let directory = self.private_directory()?;
        let index = directory.path.join("index");
        self.copy_index(top, &index)?;
        let call = || self.read(top).limit(SNAPSHOT_TIMEOUT).env("GIT_INDEX_FILE", &index);
        reveal_hidden(top, &call)?;
        status_files(call())
    }

    /// Copies the index of a working tree. Its times let git skip files that did not change.
    fn copy_index(&self, top: &Path, to: &Path) -> Result<(), GitError> {
        let path =
            self.read(top).args(["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        let from = as_path(path.ok()?.stdout);
        match std::fs::copy(&from, to) {
            Ok(_) => keep_modified_time(&from, to).map_err(io("the copy of the index has no time")),
            // There is no index before the first `git add`.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(GitError::Io { what: "the index cannot be copied", source }),
        }
    }
}

/// Returns the tracked files that `git status` shows as changed.
pub(super) fn status_files(call: GitCall<'_>) -> Result<Vec<PathBuf>, GitError> {
    let args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no"];
    let listed = call.args(args).ok()?.stdout;
    let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    // Two letters and a space stand before each name.
    Ok(lines.map(|line| path_of(line.get(3..).unwrap_or_default())).collect())
}

/// Gives the copy of an index the time of the original. git compares times of files with that of the index to
/// find files that changed in the same moment; a newer index would hide such a change.
fn keep_modified_time(from: &Path, to: &Path) -> std::io::Result<()> {
    let modified = std::fs::metadata(from)?.modified()?;
    std::fs::File::options().write(true).open(to)?.set_modified(modified)
}

/// Clears the marks by which the copied index hides changed files: `assume-unchanged`, and `skip-worktree` of
/// files that are there.
pub(super) fn reveal_hidden<'a>(
    top: &Path,
    call: &dyn Fn() -> GitCall<'a>,
) -> Result<(), GitError> {
    let listed = call().args(["ls-files", "-v", "-z"]).ok()?.stdout;
    let entries = listed.split(|byte| *byte == 0).filter(|entry| entry.len() > 2);
    let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
    for entry in entries {
        let (mark, name) = (entry[0], &entry[2..]);
        if mark.is_ascii_lowercase() {
            assumed.extend_from_slice(name);
            assumed.push(0);
        }
        let path = || top.join(OsString::from_vec(name.to_vec()));
        if mark.eq_ignore_ascii_case(&b'S') && path().symlink_metadata().is_ok() {
            skipped.extend_from_slice(name);
            skipped.push(0);
        }
    }
    for (names, option) in [(assumed, "--no-assume-unchanged"), (skipped, "--no-skip-worktree")] {
        if !names.is_empty() {
            call().args(["update-index", option, "-z", "--stdin"]).stdin(names).ok()?;
        }
    }
    Ok(())
}

/// Quotes a path for a list of object directories, where `:` separates and a quoted entry is C-style.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}
