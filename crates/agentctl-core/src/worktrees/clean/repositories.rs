//! Repositories inside a worktree: its submodules, and repositories that were made or cloned in it. All their
//! commits must be on a remote that stays or in the main tree's copy of the same submodule, and their files committed.
//! No program that their own configuration names is run.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::check::{Checker, Finding, files};
use super::leftovers::{self, Place};
use crate::git::{Git, GitCall, GitError, WorkTree, git_dir_of};
use crate::locks::real_path;
use crate::text::counted;

/// How deep repositories may be nested.
const MAX_DEPTH: usize = 16;

/// Checks a repository inside a working tree, by its path below the tree and its own path.
pub(super) fn check(
    checker: &Checker<'_>,
    outer: &Place<'_>,
    (below, top): (&Path, &Path),
    finding: &mut Finding,
) -> Result<(), GitError> {
    let label = format!("{}repository {}: ", outer.label, below.display());
    let Some(git_dir) = git_dir_of(top).filter(|git_dir| git_dir.join("HEAD").is_file()) else {
        finding.keep(format!("{label}its .git leads to no repository"));
        return Ok(());
    };
    if outer.depth >= MAX_DEPTH {
        finding.keep(format!("{label}repositories are nested too deeply"));
        return Ok(());
    }
    if git_dir.join("commondir").exists() {
        finding.keep(format!("{label}it is a worktree of another repository"));
        return Ok(());
    }
    // git asks the owner only of repositories that it finds by itself.
    let uid = checker.site.fleet.host.kernel.uid();
    if !git_dir.metadata().is_ok_and(|meta| meta.uid() == uid) {
        finding.keep(format!("{label}it belongs to another user"));
        return Ok(());
    }
    if !is_readable(&git_dir, &label, finding) {
        return Ok(());
    }
    check_commits(checker, (&git_dir, &label), outer.removed, finding)?;
    // The user's own settings decide which programs run, not those of a repository that an agent made.
    if let Some(setting) = checker.site.git.program_settings(&git_dir)?.first() {
        finding
            .keep(format!("{label}its configuration names a program or another file ({setting})"));
        return Ok(());
    }
    let tree = WorkTree { git_dir: git_dir.clone(), top: top.to_owned() };
    let contents = checker.site.git.contents(&tree, &git_dir.join("objects"), false)?;
    if let Some(gap) = contents.gaps.first() {
        finding.keep(format!("{label}not all of its files can be read: {gap}"));
    }
    let changed = checker.site.git.changed_files(&tree, &contents)?.len();
    let staged = contents.staged.as_ref();
    if changed > 0 {
        finding.keep(format!("{label}{} not committed", files(changed)));
    } else if let count @ 1.. = checker.site.git.modified_files(&tree)? {
        finding.keep(format!("{label}`git status` shows {} as modified", counted(count, "file")));
    } else if staged != contents.committed.as_ref() && staged != Some(&contents.on_disk) {
        finding.keep(format!("{label}its index has content that is not committed"));
    }
    let place = Place { tree: &tree, label, depth: outer.depth + 1, removed: outer.removed };
    leftovers::check(checker, &place, &contents, finding)?;
    for module in modules(&git_dir.join("modules")) {
        check_commits(checker, (&module, &place.label), outer.removed, finding)?;
    }
    Ok(())
}

/// Checks the commits of a repository that has no working tree around it, by its path below the outer tree.
pub(super) fn check_git_dir(
    checker: &Checker<'_>,
    outer: &Place<'_>,
    below: &Path,
    finding: &mut Finding,
) -> Result<(), GitError> {
    let label = format!("{}repository {}: ", outer.label, below.display());
    let git_dir = outer.tree.top.join(below);
    if is_readable(&git_dir, &label, finding) {
        check_commits(checker, (&git_dir, &label), outer.removed, finding)?;
    }
    Ok(())
}

/// Says whether git can read a repository without waiting for another program.
fn is_readable(git_dir: &Path, label: &str, finding: &mut Finding) -> bool {
    match crate::git::check_git_dir(git_dir) {
        Ok(()) => true,
        Err(error) => {
            finding.keep(format!("{label}{error}"));
            false
        }
    }
}

/// Checks the commits of all submodules of a worktree: their repositories are in the worktree's own data, also
/// where the submodule is not checked out any more.
pub(super) fn check_unused_modules(
    checker: &Checker<'_>,
    admin: &Path,
    removed: &[PathBuf],
    finding: &mut Finding,
) -> Result<(), GitError> {
    let folder = admin.join("modules");
    for module in modules(&folder) {
        let name = module.strip_prefix(&folder).unwrap_or(&module);
        let label = format!("submodule {}: ", name.display());
        if is_readable(&module, &label, finding) {
            check_commits(checker, (&module, &label), removed, finding)?;
        }
    }
    Ok(())
}

/// Finds the repositories of submodules in a directory `modules`, those of their submodules too.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if depth > MAX_DEPTH || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if path.join("HEAD").is_file() && path.join("objects").is_dir() {
                folders.push((path.join("modules"), depth + 1));
                found.push(path);
            } else {
                folders.push((path, depth + 1));
            }
        }
    }
    found
}

/// Checks that every commit of a repository, also of its reflogs and stashes, is on a branch of a remote that stays,
/// or in the main tree's copy of the submodule.
fn check_commits(
    checker: &Checker<'_>,
    (git_dir, label): (&Path, &str),
    removed: &[PathBuf],
    finding: &mut Finding,
) -> Result<(), GitError> {
    let git = checker.site.git;
    let remotes = remotes_that_stay(checker, git_dir, removed)?;
    let call = without_tree(git, git_dir).args(["rev-list", "--all", "--reflog", "--not"]);
    let own = call.args(remotes.iter().map(|name| format!("--remotes={name}"))).text()?;
    if own.is_empty() {
        return Ok(());
    }
    let common = &checker.site.repository.common;
    if let Some(twin) = twin_of(common, git_dir) {
        let call = without_tree(git, &twin);
        let args = ["rev-list", "--stdin", "--not", "--all"];
        let missing = call.args(args).stdin(format!("{own}\n")).run()?;
        if missing.code == 0 && missing.stdout.is_empty() {
            return Ok(());
        }
    }
    let count = own.lines().count();
    let first: String = own.chars().take(7).collect();
    let commits = if count == 1 { "1 commit is".into() } else { format!("{count} commits are") };
    let text = format!("{label}{commits} nowhere else ({first})");
    if !finding.doubts.iter().any(|doubt| doubt.text.ends_with(&text)) {
        finding.keep(text);
    }
    Ok(())
}

/// Returns the names of the remotes of a repository that are not in a directory that would be removed. A
/// remote-tracking branch without a remote can be written by any program, and proves nothing.
fn remotes_that_stay(
    checker: &Checker<'_>,
    git_dir: &Path,
    removed: &[PathBuf],
) -> Result<Vec<String>, GitError> {
    let listed = without_tree(checker.site.git, git_dir).args(["remote", "--verbose"]).text()?;
    let host = &checker.site.fleet.host;
    // A relative path counts from the working tree; a bare repository is its own.
    let is_inside_tree = git_dir.file_name().is_some_and(|name| name == ".git");
    let from = git_dir.parent().filter(|_| is_inside_tree).unwrap_or(git_dir);
    let is_removed = |url: &str| {
        let text = url.strip_prefix("file://").unwrap_or(url);
        let names_host = text.split('/').next().is_some_and(|first| first.contains(':'));
        let path = real_path(host, &from.join(text));
        !names_host && removed.iter().any(|directory| path.starts_with(directory))
    };
    let mut names = Vec::new();
    for line in listed.lines() {
        let Some((name, rest)) = line.split_once('\t') else { continue };
        let Some((url, _)) = rest.split_once(" (fetch)") else { continue };
        if !url.is_empty() && !is_removed(url) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Prepares a question about commits only: the working tree that a submodule's configuration names may have been
/// renamed.
fn without_tree<'a>(git: &'a Git, git_dir: &Path) -> GitCall<'a> {
    git.read(git_dir).env("GIT_DIR", git_dir).env("GIT_WORK_TREE", git_dir)
}

/// Returns the main tree's repository of the same submodule.
fn twin_of(common: &Path, git_dir: &Path) -> Option<PathBuf> {
    let worktrees = std::fs::canonicalize(common.join("worktrees")).ok()?;
    let below = std::fs::canonicalize(git_dir).ok()?;
    let below = below.strip_prefix(worktrees).ok()?;
    let inside: PathBuf = below.components().skip(1).collect();
    let twin = common.join(inside);
    twin.join("HEAD").is_file().then_some(twin)
}
