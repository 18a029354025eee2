//! The remotes of a repository inside a worktree. Its remote-tracking branches go with it, so a remote on this machine
//! is asked itself: it proves something only if it stays and a ref of it leads to the commits. Of a remote on another
//! machine the last known state counts.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::check::Checker;
use crate::git::{Git, GitCall, GitError, git_dir_of, path_of};
use crate::locks::real_path;

/// The ways to another machine that git itself knows. Any other one is a program that the remote names.
const DISTANT_SCHEMES: [&str; 8] =
    ["ssh", "git", "http", "https", "ftp", "ftps", "git+ssh", "ssh+git"];
/// The settings of a repository that has not all of its objects.
const PARTIAL: &str = r"^(extensions\.partialclone|remote\..*\.promisor)$";

/// The remotes of a repository.
#[derive(Debug, Default)]
pub(super) struct Remotes {
    /// The names of those on other machines.
    pub distant: Vec<String>,
    /// The names of all others.
    pub others: Vec<String>,
    /// Those on this machine that stay: how they are called, and their git directories.
    pub near: Vec<(String, PathBuf)>,
    /// Why the others prove nothing, a sentence each.
    pub unfit: Vec<String>,
}

impl Remotes {
    /// Reads the remotes of a repository that would be removed together with these directories.
    pub(super) fn read(
        checker: &Checker<'_>,
        git_dir: &Path,
        removed: &[PathBuf],
    ) -> Result<Self, GitError> {
        let listed =
            without_tree(checker.site.git, git_dir).args(["remote", "--verbose"]).text()?;
        // A relative path counts from the working tree; a bare repository is its own.
        let is_inside_tree = git_dir.file_name().is_some_and(|name| name == ".git");
        let from = git_dir.parent().filter(|_| is_inside_tree).unwrap_or(git_dir);
        let mut remotes = Self::default();
        for line in listed.lines() {
            let Some((name, rest)) = line.split_once('\t') else { continue };
            let Some((url, _)) = rest.split_once(" (fetch)") else { continue };
            let address = Address::of(url);
            if address != Address::Distant {
                remotes.others.push(name.to_owned());
            }
            match address {
                Address::Distant => remotes.distant.push(name.to_owned()),
                Address::Program => {
                    remotes.unfit.push(format!("the remote {name} names a program"));
                }
                Address::Path(path) => {
                    let path = real_path(&checker.site.fleet.host, &from.join(path));
                    let called = format!("the remote {name} ({})", path.display());
                    match fit(checker, &path, removed) {
                        Ok(git_dir) => remotes.near.push((called, git_dir)),
                        Err(why) => remotes.unfit.push(format!("{called} {why}")),
                    }
                }
            }
        }
        Ok(remotes)
    }
}

/// The place of a remote.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    /// A path on this machine.
    Path(PathBuf),
    /// Another machine.
    Distant,
    /// A program, which may lead anywhere.
    Program,
}

impl Address {
    /// Reads a URL as git does.
    fn of(url: &str) -> Self {
        if let Some(rest) = url.strip_prefix("file://") {
            // git ignores the name of the host.
            let path = decoded(rest);
            let path = path.iter().position(|byte| *byte == b'/').map(|at| path_of(&path[at..]));
            return path.map_or(Self::Program, Self::Path);
        }
        if let Some((scheme, _)) = url.split_once("://") {
            let is_known = DISTANT_SCHEMES.contains(&scheme);
            return if is_known { Self::Distant } else { Self::Program };
        }
        match url.split('/').next().and_then(|first| first.split_once(':')) {
            None => Self::Path(url.into()),
            Some((_, rest)) if rest.starts_with(':') => Self::Program,
            Some(_) => Self::Distant,
        }
    }
}

/// Replaces `%XX` by the byte that it stands for.
fn decoded(text: &str) -> Vec<u8> {
    let (bytes, mut found) = (text.as_bytes(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        found.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    found
}

/// Returns the git directory of a remote on this machine. Otherwise says why the remote proves nothing.
fn fit(checker: &Checker<'_>, path: &Path, removed: &[PathBuf]) -> Result<PathBuf, String> {
    let git_dir = repository_at(path).ok_or("is not a repository")?;
    let objects = std::fs::canonicalize(git_dir.join("objects")).unwrap_or_default();
    let linked = || checker.reader.entries.iter().skip(1).map(|entry| &entry.path);
    let is_in = |place: &Path| {
        removed.iter().chain(linked()).any(|directory| place.starts_with(directory))
            || place.ancestors().any(is_linked_worktree)
    };
    if is_in(path) || is_in(&git_dir) || is_in(&objects) {
        return Err("is in a worktree, which can be removed too".to_owned());
    }
    let uid = checker.site.fleet.host.kernel.uid();
    if !git_dir.metadata().is_ok_and(|meta| meta.uid() == uid) {
        return Err("belongs to another user".to_owned());
    }
    let unasked = |error: GitError| format!("cannot be asked: {error}");
    crate::git::check_git_dir(&git_dir).map_err(unasked)?;
    if objects.join("info/alternates").symlink_metadata().is_ok() {
        return Err("borrows objects of another repository".to_owned());
    }
    let call = without_tree(checker.site.git, &git_dir).args(["config", "--get-regexp", PARTIAL]);
    match call.run().map_err(unasked)?.code {
        0 => Err("is a partial clone".to_owned()),
        _ => Ok(git_dir),
    }
}

/// Finds the repository that git means by a path.
fn repository_at(path: &Path) -> Option<PathBuf> {
    let is_git_dir = |path: &Path| {
        path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
    };
    let mut bare = path.as_os_str().to_owned();
    bare.push(".git");
    let bare = PathBuf::from(bare);
    let found = [git_dir_of(path), Some(path.to_owned()), git_dir_of(&bare), Some(bare)];
    let found = found.into_iter().flatten().find(|git_dir| is_git_dir(git_dir))?;
    std::fs::canonicalize(found).ok()
}

/// Says whether a directory is a linked worktree, or the data of one.
fn is_linked_worktree(directory: &Path) -> bool {
    let is_data = |git_dir: &Path| git_dir.join("commondir").exists();
    is_data(directory) || git_dir_of(directory).is_some_and(|git_dir| is_data(&git_dir))
}

/// Returns those of these commits to which no ref of a repository leads.
pub(super) fn lacking(
    git: &Git,
    git_dir: &Path,
    commits: Vec<String>,
) -> Result<Vec<String>, GitError> {
    let input = |ids: &[&str]| ids.iter().flat_map(|id| [*id, "\n"]).collect::<String>();
    let all: Vec<&str> = commits.iter().map(String::as_str).collect();
    let call = without_tree(git, git_dir).args(["cat-file", "--batch-check=%(objecttype)"]);
    let kinds = call.stdin(input(&all)).text()?;
    let pairs = || all.iter().zip(kinds.lines().chain(std::iter::repeat("missing")));
    let there: Vec<&str> =
        pairs().filter(|(_, kind)| *kind == "commit").map(|(id, _)| *id).collect();
    if there.is_empty() {
        return Ok(commits);
    }
    let call = without_tree(git, git_dir).args(["rev-list", "--stdin", "--not", "--all"]);
    let unnamed = call.stdin(input(&there)).text()?;
    let unnamed: HashSet<&str> = unnamed.lines().collect();
    let there: HashSet<&str> = there.into_iter().filter(|id| !unnamed.contains(id)).collect();
    Ok(commits.iter().filter(|id| !there.contains(id.as_str())).cloned().collect())
}

/// Returns the objects that refs of a repository name, each with its kind and the ref.
pub(super) fn named_objects(
    git: &Git,
    git_dir: &Path,
) -> Result<Vec<(String, String, String)>, GitError> {
    let format = "--format=%(objecttype) %(objectname) %(refname)";
    let listed = without_tree(git, git_dir).args(["for-each-ref", format]).text()?;
    let parse = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?))
    };
    Ok(listed.lines().filter_map(parse).collect())
}

/// Prepares a question about commits only: the working tree that a submodule's configuration names may have been
/// renamed.
pub(super) fn without_tree<'a>(git: &'a Git, git_dir: &Path) -> GitCall<'a> {
    git.read(git_dir).env("GIT_DIR", git_dir).env("GIT_WORK_TREE", git_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_git_reads_it() {
        let path = |text: &str| Address::Path(text.into());
        for (url, address) in [
            ("/srv/lib.git", path("/srv/lib.git")),
            ("../lib:x", path("../lib:x")),
            ("lib/a:b", path("lib/a:b")),
            ("file:///srv/%6cib%20x%2", path("/srv/lib x%2")),
            ("file://localhost/srv/lib", path("/srv/lib")),
            ("file://nothing", Address::Program),
            ("https://example.org/lib", Address::Distant),
            ("git@example.org:lib.git", Address::Distant),
            ("ext::git %s lib", Address::Program),
            ("FILE:///srv/lib", Address::Program),
        ] {
            assert_eq!(Address::of(url), address, "{url}");
        }
    }
}
