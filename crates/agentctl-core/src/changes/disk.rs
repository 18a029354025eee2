//! Compares files with the state that the records leave them in.
//!
//! Only regular files of this user below the session's directory are read, and no link is followed out of it.

use std::path::{Path, PathBuf};

use crate::adapters::changes::LineHunk;
use crate::model::{FileChanges, FileNow};
use crate::native::file::{self, Skip};
use crate::native::real_path::real_path;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most files that are read.
const MAX_FILES: usize = 10_000;

/// The state of a file after its last recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Its whole content.
    Content(String),
    /// These places of it.
    Lines(Vec<LineHunk>),
    /// It does not exist.
    Absent,
    /// It is not recorded.
    Unknown,
}

/// Returns the rows with the state of their files.
pub(super) fn compared(
    files: Vec<(PathBuf, FileChanges, Expected)>,
    cwd: Option<&Path>,
    uid: u32,
) -> Vec<FileChanges> {
    let real = cwd.and_then(|cwd| real_path(cwd).ok());
    let mut left = MAX_FILES;
    let mut rows = Vec::with_capacity(files.len());
    for (path, mut row, expected) in files {
        if let (Some(real), Some(cwd), true) = (&real, cwd, left > 0)
            && path.starts_with(cwd)
        {
            left -= 1;
            row.now = now(&path, real, &expected, uid);
        }
        rows.push(row);
    }
    rows
}

fn now(path: &Path, directory: &Path, expected: &Expected, uid: u32) -> FileNow {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return FileNow::Unknown;
    };
    let absent = if *expected == Expected::Absent { FileNow::Same } else { FileNow::Gone };
    let parent = match real_path(parent) {
        Ok(real) if real.starts_with(directory) => real,
        Err(_) if is_missing(parent, directory) => return absent,
        _ => return FileNow::Unknown,
    };
    let bytes = match file::read_small(&parent.join(name), uid, MAX_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(Skip::Missing) => return absent,
        Err(Skip::NotRegular(_)) if *expected != Expected::Unknown => return FileNow::Different,
        Err(_) => return FileNow::Unknown,
    };
    match expected {
        Expected::Absent => FileNow::Different,
        Expected::Unknown => FileNow::Unknown,
        Expected::Content(content) => {
            if is_same(&bytes, content) {
                FileNow::Same
            } else {
                FileNow::Different
            }
        }
        Expected::Lines(hunks) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let stand = hunks.iter().all(|hunk| hunk.stands_in(&lines));
            // The rest of the file is not recorded.
            if stand { FileNow::Unknown } else { FileNow::Different }
        }
    }
}

/// Says whether a folder of a session's directory is missing, and no link hides where it would be.
fn is_missing(folder: &Path, directory: &Path) -> bool {
    let nearest = folder.ancestors().find(|path| path.symlink_metadata().is_ok());
    let real = nearest.and_then(|path| real_path(path).ok());
    nearest != Some(folder) && real.is_some_and(|real| real.starts_with(directory))
}

/// Compares a file with a recorded content. Some agents record a file without its carriage returns.
fn is_same(bytes: &[u8], content: &str) -> bool {
    if bytes == content.as_bytes() {
        return true;
    }
    let text = String::from_utf8_lossy(bytes);
    text.contains("\r\n") && !content.contains('\r') && text.replace("\r\n", "\n") == content
}
