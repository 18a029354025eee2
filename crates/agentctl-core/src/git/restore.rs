//! Takes a merge in a working tree back, without touching anything else that is changed or staged there.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::io;
use super::merge::is_below;
use super::snapshot::status_files;
use super::{Git, GitCall, GitError, PrivateStore, TreeChange, path_of};

/// The change of a working tree from one tree to another, such as that of a merge.
#[derive(Debug)]
pub struct TreeStep<'a> {
    /// The commit or tree before.
    pub before: &'a str,
    /// The commit or tree after.
    pub after: &'a str,
    /// The differences.
    pub changes: &'a [TreeChange],
    /// The store of the objects.
    pub store: &'a PrivateStore,
}

impl Git {
    /// Takes a step back in the index and the files of a working tree. Other staged and changed files stay as they are; a
    /// file of the step that has neither the content before nor that after it is an error, and nothing is changed.
    pub fn take_back(&self, top: &Path, step: &TreeStep<'_>) -> Result<(), GitError> {
        let args =
            ["diff-index", "-z", "--cached", "--name-only", "--no-renames", step.before, "--"];
        let staged = names(&self.read(top).args(args).ok()?.stdout);
        // git may have ended before it wrote the index.
        if step.changes.iter().any(|change| staged.contains(&change.path)) {
            let args = ["read-tree", "-m", "-u", step.after, step.before];
            step.store.see(self.change(top)).args(args).ok()?;
        }
        if self.is_before(top, step)? {
            return Ok(());
        }
        self.take_back_files(top, step)?;
        if self.is_before(top, step)? {
            return Ok(());
        }
        let source = std::io::Error::other("a file of the merge has other content");
        Err(GitError::Io { what: "the files cannot be restored", source })
    }

    /// Takes the files with conflicts of a merge back to this commit, in the index and in the working tree, and returns
    /// them. A file that was edited since the merge is an error, and nothing is changed.
    pub fn take_back_conflicts(&self, top: &Path, before: &str) -> Result<Vec<PathBuf>, GitError> {
        let listed = self.read(top).args(["ls-files", "-z", "--unmerged"]).ok()?.stdout;
        // `MODE OBJECT STAGE`, a tab, the path; once for each stage.
        let paths = listed.split(|byte| *byte == 0).filter_map(|entry| {
            let tab = memchr::memchr(b'\t', entry)?;
            Some(path_of(&entry[tab + 1..]))
        });
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.dedup();
        if paths.is_empty() {
            return Ok(paths);
        }
        let directory = self.private_directory()?;
        let index = directory.path.join("index");
        let edited = self
            .differing_files_from(top, "AUTO_MERGE", &|call| call.env("GIT_INDEX_FILE", &index))?;
        if paths.iter().any(|path| edited.contains(path)) {
            let source = std::io::Error::other("a file with a conflict was edited");
            return Err(GitError::Io { what: "the files cannot be restored", source });
        }
        let listed = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
        let source = format!("--source={before}");
        let call = self.change(top).setting("core.hooksPath=/dev/null");
        let call = call.env("GIT_LITERAL_PATHSPECS", "1").stdin(listed.collect::<Vec<u8>>());
        let call = call.args(["restore", "--staged", "--worktree", &source]);
        call.args(["--pathspec-from-file=-", "--pathspec-file-nul"]).ok()?;
        Ok(paths)
    }

    /// Returns the files of a working tree that differ from this tree, in calls with an index of their own.
    fn differing_files_from(
        &self,
        top: &Path,
        tree: &str,
        with_index: &dyn for<'a> Fn(GitCall<'a>) -> GitCall<'a>,
    ) -> Result<HashSet<PathBuf>, GitError> {
        with_index(self.read(top)).args(["read-tree", tree]).ok()?;
        // Its exit code is 1 if files differ.
        with_index(self.read(top)).args(["update-index", "-q", "--refresh"]).run()?;
        let differing =
            with_index(self.read(top)).args(["diff-files", "-z", "--name-only"]).ok()?;
        Ok(names(&differing.stdout))
    }

    /// Says whether the files of a step are as before it.
    fn is_before(&self, top: &Path, step: &TreeStep<'_>) -> Result<bool, GitError> {
        Ok(self.not_taken_back(top, step.changes)?.is_empty())
    }

    /// Returns the files of a step that are not as before it.
    pub fn not_taken_back(
        &self,
        top: &Path,
        changes: &[TreeChange],
    ) -> Result<Vec<PathBuf>, GitError> {
        let is_file =
            |path: &Path| top.join(path).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        let changed: HashSet<PathBuf> = status_files(self.read(top))?.into_iter().collect();
        let differs = |change: &&TreeChange| {
            (change.is_added() && is_file(&change.path)) || changed.contains(&change.path)
        };
        Ok(changes.iter().filter(differs).map(|change| change.path.clone()).collect())
    }

    /// Removes the files that a step has begun to write: a full disk, or the end of git, cut them off.
    fn remove_cut_off(
        &self,
        top: &Path,
        step: &TreeStep<'_>,
        differing: Option<&HashSet<PathBuf>>,
    ) -> Result<(), GitError> {
        let differs = |path: &PathBuf| differing.is_none_or(|differing| differing.contains(path));
        for change in step.changes.iter().filter(|change| differs(&change.path)) {
            if change.is_deleted() || change.is_repository() {
                continue;
            }
            let call = step.store.see(self.read(top));
            if is_cut_off(call, (top, &change.path), &change.object_after)? {
                std::fs::remove_file(top.join(&change.path))
                    .map_err(io("a file that was cut off cannot be removed"))?;
                let folders = change.path.ancestors().skip(1).take_while(|_| change.is_added());
                for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
                    let _not_empty = std::fs::remove_dir(top.join(folder));
                }
            }
        }
        Ok(())
    }

    /// Takes back the files of a step that ended before it wrote the index. A second index tells which files were written.
    fn take_back_files(&self, top: &Path, step: &TreeStep<'_>) -> Result<(), GitError> {
        let directory = self.private_directory()?;
        let index = directory.path.join("index");
        let call = |call| with_index(step, &index, call);
        let differing =
            || self.differing_files_from(top, step.after, &|call| with_index(step, &index, call));
        // On a full disk there is no second index before the files that were cut off are removed.
        self.remove_cut_off(top, step, differing().ok().as_ref())?;
        let differing = differing()?;
        let mut lines = Vec::new();
        for change in step.changes {
            // A file that is missing was removed by the step.
            let is_there = top.join(&change.path).symlink_metadata().is_ok();
            if is_there && (change.is_deleted() || differing.contains(&change.path)) {
                lines.extend(format!("{} {}\t", change.mode_before, change.object_before).bytes());
                lines.extend(change.path.as_os_str().as_bytes());
                lines.push(0);
            }
        }
        if !lines.is_empty() {
            let args = ["update-index", "-z", "--index-info"];
            call(self.read(top)).args(args).stdin(lines).ok()?;
        }
        let args = ["read-tree", "-m", "-u", step.after, step.before];
        call(self.change(top)).args(args).ok().map(|_| ())
    }
}

/// Says whether a regular file holds the beginning of a blob, as a checkout writes it into this path: git was ended, or
/// the disk was full, while it wrote the file. The call must see the blob and run in the working tree.
pub fn is_cut_off(
    call: GitCall<'_>,
    (top, path): (&Path, &Path),
    object: &str,
) -> Result<bool, GitError> {
    let file = top.join(path);
    // No link is followed, no FIFO is waited for, and no file outside of the working tree is looked at.
    if !is_below(path) || !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(false);
    }
    let mut named = std::ffi::OsString::from("--path=");
    named.push(path);
    let whole = call.args(["cat-file", "--filters"]).arg(named).arg(object).ok()?.stdout;
    let begun = std::fs::read(&file).map_err(io("a file of a checkout cannot be read"))?;
    Ok(whole.starts_with(&begun))
}

/// Lets a call use this index and see the objects of a step.
fn with_index<'a>(step: &TreeStep<'_>, index: &Path, call: GitCall<'a>) -> GitCall<'a> {
    step.store.see(call).env("GIT_INDEX_FILE", index)
}

fn names(listed: &[u8]) -> HashSet<PathBuf> {
    listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(path_of).collect()
}
