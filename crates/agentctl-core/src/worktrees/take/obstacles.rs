//! Files of a working tree that a merge would overwrite or remove although git does not track them. git itself spares
//! untracked files only, and overwrites ignored ones.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::git::{Git, GitError, TreeChange, path_of};

/// How many files are looked for.
const MAX_FOUND: usize = 1000;

/// Returns the files that are not tracked and stand where these changes would write.
pub(super) fn obstacles(
    git: &Git,
    top: &Path,
    changes: &[TreeChange],
) -> Result<Vec<PathBuf>, GitError> {
    let looker = Looker { git, top, tracked: OnceCell::new() };
    let mut found = Vec::new();
    for change in changes.iter().filter(|change| !change.is_deleted()) {
        looker.look(change, &mut found)?;
        if found.len() >= MAX_FOUND {
            break;
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

struct Looker<'a> {
    git: &'a Git,
    top: &'a Path,
    /// The files of the index, read when they are needed.
    tracked: OnceCell<HashSet<PathBuf>>,
}

impl Looker<'_> {
    fn is_tracked(&self, path: &Path) -> Result<bool, GitError> {
        if let Some(tracked) = self.tracked.get() {
            return Ok(tracked.contains(path));
        }
        let listed = self.git.read(self.top).args(["ls-files", "-z"]).ok()?.stdout;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let tracked = self.tracked.get_or_init(|| names.map(path_of).collect());
        Ok(tracked.contains(path))
    }

    fn look(&self, change: &TreeChange, found: &mut Vec<PathBuf>) -> Result<(), GitError> {
        let mut folders: Vec<&Path> = change.path.ancestors().skip(1).collect();
        folders.retain(|folder| !folder.as_os_str().is_empty());
        for folder in folders.into_iter().rev() {
            let Ok(meta) = self.top.join(folder).symlink_metadata() else { return Ok(()) };
            if !meta.is_dir() {
                // Below a file or a link there is nothing of this working tree.
                if !self.is_tracked(folder)? {
                    found.push(folder.to_owned());
                }
                return Ok(());
            }
        }
        let Ok(meta) = self.top.join(&change.path).symlink_metadata() else { return Ok(()) };
        if meta.is_dir() && !(change.is_repository() && change.was_repository()) {
            return self.look_in(&change.path, found);
        }
        if !meta.is_dir() && change.is_added() {
            found.push(change.path.clone());
        }
        Ok(())
    }

    /// Looks for a file that is not tracked in a folder that would become a file. The first one is enough.
    fn look_in(&self, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), GitError> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            // A folder that cannot be read to its end may have files that are not tracked.
            let listed = std::fs::read_dir(self.top.join(&folder));
            let Ok(entries) = listed.and_then(Iterator::collect::<std::io::Result<Vec<_>>>) else {
                found.push(folder);
                return Ok(());
            };
            for entry in entries {
                let path = folder.join(entry.file_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if !self.is_tracked(&path)? {
                    found.push(path);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
