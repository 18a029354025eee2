//! The output of `git worktree list --porcelain -z`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One working tree of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeEntry {
    /// Its directory.
    pub path: PathBuf,
    /// The repository is bare: this entry is the repository itself.
    pub bare: bool,
    /// Its commit; `None` for a bare repository and before the first commit.
    pub commit: Option<String>,
    /// Its branch, or none.
    pub head: WorktreeHead,
    /// The reason of its lock; empty if the lock has none.
    pub locked: Option<String>,
    /// Why git would forget it, for example because its directory is missing.
    pub prunable: Option<String>,
}

/// The branch of a working tree, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeHead {
    /// A branch, by its full name.
    Branch(String),
    /// A commit without a branch, or nothing.
    Detached,
}

impl WorktreeEntry {
    /// Returns the full name of its branch.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        match &self.head {
            WorktreeHead::Branch(name) => Some(name),
            WorktreeHead::Detached => None,
        }
    }
}

/// Parses the output. Unknown lines are skipped: later versions of git may add some.
#[must_use]
pub fn worktree_entries(output: &[u8]) -> Vec<WorktreeEntry> {
    let mut entries: Vec<WorktreeEntry> = Vec::new();
    for line in output.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let space = line.iter().position(|byte| *byte == b' ');
        let (key, value) = match space {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        if key == b"worktree" {
            entries.push(WorktreeEntry {
                path: PathBuf::from(OsString::from_vec(value.to_vec())),
                bare: false,
                commit: None,
                head: WorktreeHead::Detached,
                locked: None,
                prunable: None,
            });
            continue;
        }
        let Some(entry) = entries.last_mut() else { continue };
        match key {
            b"bare" => entry.bare = true,
            // An unborn branch has a commit of zeros.
            b"HEAD" => entry.commit = Some(text()).filter(|id| id.bytes().any(|b| b != b'0')),
            b"branch" => entry.head = WorktreeHead::Branch(text()),
            b"locked" => entry.locked = Some(text()),
            b"prunable" => entry.prunable = Some(text()),
            _ => {}
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_read_and_unknown_ones_are_skipped() {
        let text = b"worktree /r\0HEAD 12ab\0branch refs/heads/main\0\0\
            worktree /w/a b\n\xff\0HEAD 0000\0branch refs/heads/x\0locked why not\0shiny new\0\0\
            worktree /gone\0HEAD 34cd\0detached\0locked\0prunable gitdir file points nowhere\0\0\
            worktree /bare\0bare\0\0";
        let entries = worktree_entries(text);
        assert_eq!(entries.len(), 4);
        assert_eq!(entries[0].branch(), Some("refs/heads/main"));
        assert_eq!(entries[0].commit.as_deref(), Some("12ab"));
        assert_eq!(entries[1].path.to_string_lossy(), "/w/a b\n\u{fffd}");
        assert_eq!(
            (entries[1].commit.as_deref(), entries[1].locked.as_deref()),
            (None, Some("why not"))
        );
        assert_eq!((entries[2].branch(), entries[2].locked.as_deref()), (None, Some("")));
        assert_eq!(entries[2].prunable.as_deref(), Some("gitdir file points nowhere"));
        assert!(entries[3].bare);
    }
}
