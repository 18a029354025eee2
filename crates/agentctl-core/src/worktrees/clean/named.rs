//! The objects that the files of a git directory name: its refs and root refs (`ORIG_HEAD`, and any that `git update-ref`
//! made), its reflogs, and the state of unfinished operations. git lists no root refs, and reads no reflog of HEAD
//! before the first commit of its branch, so every file is read here. A file that cannot be read is an error.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::remotes::without_tree;
use crate::git::{Git, GitError};
use crate::worktrees::regular_file;

/// The refs that each worktree has for itself.
const PRIVATE_REFS: [&str; 3] = ["refs/worktree/", "refs/bisect/", "refs/rewritten/"];
/// Folders whose files name nothing: objects, other git directories, programs, contents of other tools. git is asked
/// for the names in `reftable`.
const OTHER_FOLDERS: [&str; 9] =
    ["objects", "modules", "worktrees", "hooks", "info", "lfs", "annex", "rr-cache", "reftable"];
/// Files whose words are no names of objects, or old ones: git lists packed refs itself, and `AUTO_MERGE` is the tree of
/// a merge with the marks of its conflicts.
const OTHER_FILES: [&str; 5] =
    ["config", "config.worktree", "description", "packed-refs", "AUTO_MERGE"];
/// Limit of a file: the reflog of a repository with a million changes is larger.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// How many words at the beginning of a line may be ids: a reflog has the old and the new one.
const IDS_IN_LINE: usize = 2;

/// An object that exists.
#[derive(Clone, Debug)]
pub(super) struct NamedObject {
    pub id: String,
    /// `commit`, `tag`, `tree` or `blob`.
    pub kind: String,
    /// The first file that names it, below the git directory; or the ref.
    pub place: String,
}

impl NamedObject {
    /// Says whether it is a commit, or a tag that may lead to one.
    pub(super) fn leads_to_commit(&self) -> bool {
        matches!(self.kind.as_str(), "commit" | "tag")
    }
}

/// Returns the objects that the files of a git directory name. `repository` has the objects: the git directory itself,
/// or that of which it is a worktree's. In a repository with `reftable` these are the root refs and those of one worktree
/// alone.
pub(super) fn by_files(
    git: &Git,
    repository: &Path,
    git_dir: &Path,
) -> Result<Vec<NamedObject>, GitError> {
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for file in files(git_dir)? {
        let below = file.strip_prefix(git_dir).unwrap_or(&file).display().to_string();
        for id in ids_in(&file)? {
            places.entry(id).or_insert_with(|| below.clone());
        }
    }
    if has_tables(git_dir) {
        for (id, name) in by_tables(git, git_dir)? {
            places.entry(id).or_insert(name);
        }
    }
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let input = places.keys().flat_map(|id| [id.as_str(), "\n"]).collect::<String>();
    let call = without_tree(git, repository).args(["cat-file", "--batch-check=%(objecttype)"]);
    let kinds = call.stdin(input).text()?;
    let named = places.into_iter().zip(kinds.lines());
    let objects = named.filter(|(_, kind)| ["commit", "tag", "tree", "blob"].contains(kind));
    let object = |((id, place), kind): ((String, String), &str)| {
        let kind = kind.to_owned();
        NamedObject { id, kind, place }
    };
    Ok(objects.map(object).collect())
}

/// Returns the ids in the reflog of a ref, the oldest first. They may be of objects that are gone.
pub(super) fn by_reflog(git: &Git, git_dir: &Path, name: &str) -> Result<Vec<String>, GitError> {
    if !has_tables(git_dir) {
        return ids_in(&git_dir.join("logs").join(name));
    }
    if !logs_of_tables(git, git_dir)?.iter().any(|log| log == name) {
        return Ok(Vec::new());
    }
    let mut ids = walked(git, git_dir, name)?;
    ids.reverse();
    Ok(ids)
}

/// Returns the files of a git directory that may name objects.
fn files(git_dir: &Path) -> Result<Vec<PathBuf>, GitError> {
    let (mut found, mut folders) = (Vec::new(), vec![git_dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        let is_top = folder == git_dir;
        for entry in std::fs::read_dir(&folder).map_err(|error| unread(&folder, error))? {
            let entry = entry.map_err(|error| unread(&folder, error))?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let kind = entry.file_type().map_err(|error| unread(&path, error))?;
            // A link has no content of its own, and git follows it. A socket has none.
            if kind.is_symlink() || kind.is_socket() {
                continue;
            }
            if kind.is_dir() {
                if !(is_top && OTHER_FOLDERS.contains(&&*name)) {
                    folders.push(path);
                }
            } else if !(is_top && is_other_file(&name)) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Says whether a file at the top of a git directory names no objects: settings, an index, or a message.
fn is_other_file(name: &str) -> bool {
    let is_index = name == "index" || name.starts_with("index.") || name.starts_with("sharedindex");
    is_index || name.ends_with("MSG") || OTHER_FILES.contains(&name)
}

/// Returns the ids at the beginnings of the lines of a file; none if there is no such file.
fn ids_in(path: &Path) -> Result<Vec<String>, GitError> {
    // Below the logs of `a/b` the one of `a` is a directory.
    if path.is_dir() {
        return Ok(Vec::new());
    }
    let text = match regular_file::read(path, MAX_FILE_BYTES) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        other => other.map_err(|error| unread(path, error))?,
    };
    let words = text.split(|byte| *byte == b'\n').flat_map(|line| {
        line.split(u8::is_ascii_whitespace).take(IDS_IN_LINE).filter(|word| is_id(word))
    });
    let mut ids: Vec<String> = words.map(|id| String::from_utf8_lossy(id).into_owned()).collect();
    ids.dedup();
    Ok(ids)
}

/// Says whether a word is the id of an object. The one of zeros means none.
fn is_id(word: &[u8]) -> bool {
    matches!(word.len(), 40 | 64)
        && word.iter().all(u8::is_ascii_hexdigit)
        && word.iter().any(|byte| *byte != b'0')
}

fn unread(path: &Path, source: io::Error) -> GitError {
    GitError::UnreadState { path: path.to_owned(), source }
}

/// Says whether the refs and reflogs of a git directory are in tables that only git reads.
fn has_tables(git_dir: &Path) -> bool {
    git_dir.join("reftable").is_dir()
}

/// Returns the ids that the root refs and the refs of one worktree alone name, and those of their reflogs, each with the
/// name of the ref. An unborn HEAD with a reflog is an error.
fn by_tables(git: &Git, git_dir: &Path) -> Result<Vec<(String, String)>, GitError> {
    let call = without_tree(git, git_dir).args(["for-each-ref", "--include-root-refs"]);
    let listed = call.arg("--format=%(objectname) %(refname)").text()?;
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    let own = pairs.filter(|(_, name)| is_of_one_worktree(name));
    let mut found: Vec<_> = own.map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
    for name in logs_of_tables(git, git_dir)?.into_iter().filter(|name| is_of_one_worktree(name)) {
        found.extend(walked(git, git_dir, &name)?.into_iter().map(|id| (id, name.clone())));
    }
    Ok(found)
}

fn is_of_one_worktree(name: &str) -> bool {
    !name.starts_with("refs/") || PRIVATE_REFS.iter().any(|below| name.starts_with(below))
}

/// Returns the refs that have a reflog in the tables.
fn logs_of_tables(git: &Git, git_dir: &Path) -> Result<Vec<String>, GitError> {
    let listed = without_tree(git, git_dir).args(["reflog", "list"]).text()?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Returns the ids in a reflog as git walks it, the newest first.
fn walked(git: &Git, git_dir: &Path, name: &str) -> Result<Vec<String>, GitError> {
    let call = without_tree(git, git_dir).args(["log", "--walk-reflogs", "--format=%H", name]);
    Ok(call.arg("--").text()?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stand_at_the_beginnings_of_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let (one, two, zeros) = ("1".repeat(40), "a".repeat(64), "0".repeat(40));
        let text = format!(
            "{zeros} {one} T <t@e> 1 +0000\tcommit {two}\n{two}\tnot-for-merge\tbranch\n\
             ref: refs/heads/main\npick {one} subject\nshort 123abc\n"
        );
        std::fs::write(&path, text).expect("written");
        assert_eq!(ids_in(&path).expect("read"), [one.clone(), two, one]);
        assert!(ids_in(&directory.path().join("none")).expect("none").is_empty());
        assert!(ids_in(directory.path()).expect("a directory").is_empty());
    }

    #[test]
    fn settings_messages_and_indexes_are_not_read() {
        for name in ["config", "index", "sharedindex.1", "COMMIT_EDITMSG", "SQUASH_MSG"] {
            assert!(is_other_file(name), "{name}");
        }
        for name in ["HEAD", "ORIG_HEAD", "saved", "NOTES_MERGE_PARTIAL"] {
            assert!(!is_other_file(name), "{name}");
        }
    }
}
