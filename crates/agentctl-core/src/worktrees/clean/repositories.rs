//! Repositories inside a worktree: its submodules, and repositories that were made or cloned in it. All their
//! commits and tags must be on a remote that stays or in the main tree's copy of the same submodule, and their files
//! committed.
//! No program that their own configuration names is run.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::check::{Checker, Finding, files, operations_in};
use super::commits::excluded;
use super::leftovers::{self, Place};
use super::named::{self, NamedObject};
use super::remotes::{Remotes, lacking, named_objects, without_tree};
use super::select::worktree_of;
use super::stores::{self, OnlyHere};
use crate::git::{Git, GitError, WorkTree, git_dir_of};
use crate::text::counted;
use crate::worktrees::facts::REMOTE_REFS;

/// How deep repositories may be nested.
const MAX_DEPTH: usize = 16;
/// How many remotes are named in a reason.
const NAMED_REMOTES: usize = 3;

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
        check_git_dir_once(checker, (&module, &place.label), outer.removed, finding)?;
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
        check_git_dir_once(checker, (&git_dir, &label), outer.removed, finding)?;
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
            check_git_dir_once(checker, (&module, &label), removed, finding)?;
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

/// Checks a repository without its working tree, unless that was looked at: its commits, and that its index has
/// nothing else.
fn check_git_dir_once(
    checker: &Checker<'_>,
    (git_dir, label): (&Path, &str),
    removed: &[PathBuf],
    finding: &mut Finding,
) -> Result<(), GitError> {
    if !check_commits(checker, (git_dir, label), removed, finding)? {
        return Ok(());
    }
    let git = checker.site.git;
    if git.has_conflicts(git_dir)? {
        finding.keep(format!("{label}its index has unresolved conflicts"));
        return Ok(());
    }
    let Some(staged) = git.staged_tree(git_dir, &git_dir.join("objects"))? else { return Ok(()) };
    let head = ["rev-parse", "--verify", "--quiet", "HEAD^{tree}"];
    let head = without_tree(git, git_dir).args(head).run()?;
    let head = if head.code == 0 { head.text() } else { git.empty_tree(git_dir)? };
    if staged != head {
        finding.keep(format!("{label}its index has content that is not committed"));
    }
    Ok(())
}

/// Checks that every commit of a repository, also of its reflogs and stashes, and every other object that a ref or a file
/// of its git directory names, is on a remote that stays or in the main tree's copy of the submodule; that no operation is
/// in progress in it, and that it has no worktrees of its own. Says whether it was not looked at before.
fn check_commits(
    checker: &Checker<'_>,
    (git_dir, label): (&Path, &str),
    removed: &[PathBuf],
    finding: &mut Finding,
) -> Result<bool, GitError> {
    // A submodule is found in the working tree, and among the data of the worktree.
    let real = std::fs::canonicalize(git_dir).unwrap_or_else(|_| git_dir.to_owned());
    if !finding.repositories.insert(real) {
        return Ok(false);
    }
    for tree in linked_worktrees(git_dir) {
        finding.keep(format!("{label}it has the worktree {}", tree.display()));
    }
    for operation in operations_in(git_dir) {
        finding.keep(format!("{label}{operation} is in progress in it"));
    }
    let git = checker.site.git;
    let remotes = Remotes::read(checker, git_dir, removed)?;
    let named = named::by_files(git, git_dir, git_dir)?;
    let mut own = unpushed(git, git_dir, &named, &remotes)?;
    let mut others = others(git, git_dir, named)?;
    let mut unfit = remotes.unfit;
    let twin = twin_of(&checker.site.repository.common, git_dir);
    let twin = twin.map(|twin| ("the main tree's copy".to_owned(), twin));
    let places: Vec<(String, PathBuf)> = twin.into_iter().chain(remotes.near).collect();
    check_stores((git_dir, label), &places, finding);
    for (called, place) in places {
        if own.is_empty() && others.is_empty() {
            break;
        }
        match (lacking(git, &place, own.clone()), named_objects(git, &place)) {
            (Ok(left), Ok(named)) => {
                let them = if left.len() == 1 { "it" } else { "them" };
                unfit.extend((!left.is_empty()).then(|| format!("{called} does not have {them}")));
                own = left;
                others.retain(|(_, id, _)| !named.iter().any(|(_, other, _)| other == id));
            }
            (Err(error), _) | (_, Err(error)) => {
                unfit.push(format!("{called} cannot be asked: {error}"));
            }
        }
    }
    for (_, _, name) in others {
        finding.keep(format!("{label}{name} is nowhere else"));
    }
    if let Some(first) = own.first() {
        let first: String = first.chars().take(7).collect();
        let count = own.len();
        let commits =
            if count == 1 { "1 commit is".into() } else { format!("{count} commits are") };
        unfit.truncate(NAMED_REMOTES);
        let why = if unfit.is_empty() { String::new() } else { format!(": {}", unfit.join(", ")) };
        finding.keep(format!("{label}{commits} nowhere else ({first}){why}"));
    }
    Ok(true)
}

/// Returns the tags, and other objects that are no commits, of the refs and files of a repository, each with its kind and
/// the ref or file. A remote on another machine has no refs here that name its tags.
fn others(
    git: &Git,
    git_dir: &Path,
    named: Vec<NamedObject>,
) -> Result<Vec<(String, String, String)>, GitError> {
    let mut others = named_objects(git, git_dir)?;
    let known: HashSet<String> = others.iter().map(|(_, id, _)| id.clone()).collect();
    let named = named.into_iter().filter(|object| !known.contains(&object.id));
    others.extend(named.map(|object| (object.kind, object.id, object.place)));
    others.retain(|(kind, ..)| kind != "commit");
    Ok(others)
}

/// Checks that contents which other tools keep in a git directory are in another one that stays.
fn check_stores(
    (git_dir, label): (&Path, &str),
    places: &[(String, PathBuf)],
    finding: &mut Finding,
) {
    let places: Vec<&Path> = places.iter().map(|(_, place)| place.as_path()).collect();
    match stores::only_here(git_dir, &places) {
        Ok(found) => {
            for OnlyHere { store, first, count } in found {
                let (files, first) = (counted(count, "file"), first.display());
                let are = if count == 1 { "is" } else { "are" };
                finding.keep(format!("{label}{files} of {store} {are} nowhere else ({first})"));
            }
        }
        Err(error) => {
            finding.keep(format!("{label}not all of its git directory can be read: {error}"));
        }
    }
}

/// Returns the commits of a repository, also of its reflogs and stashes and of the files of its git directory, that are
/// not on a branch of a distant remote.
fn unpushed(
    git: &Git,
    git_dir: &Path,
    named: &[NamedObject],
    remotes: &Remotes,
) -> Result<Vec<String>, GitError> {
    let symbolic = Git::symbolic_refs(without_tree(git, git_dir))?;
    let mut args = Vec::new();
    for name in &remotes.distant {
        args.extend(excluded(&symbolic, REMOTE_REFS));
        // A remote may be called `a/b` beside `a`.
        let others = remotes.others.iter().map(|other| format!("--exclude={}/*", literal(other)));
        args.extend(others);
        args.push(format!("--remotes={}/*", literal(name)));
    }
    let named = named.iter().filter(|object| object.leads_to_commit());
    let named: String = named.flat_map(|object| [object.id.as_str(), "\n"]).collect();
    let call = without_tree(git, git_dir).args(["rev-list", "--all", "--reflog", "--stdin"]);
    let call = call.arg("--not").args(args).stdin(named);
    Ok(call.text()?.lines().map(str::to_owned).collect())
}

/// Returns a pattern of git that matches only this text.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if "*?[\\".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// Returns the worktrees of a repository. Without the repository they are none, and have indexes of their own.
fn linked_worktrees(git_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(git_dir.join("worktrees")).into_iter().flatten().flatten();
    let data = entries.map(|entry| entry.path());
    data.map(|data| worktree_of(&data).unwrap_or(data)).collect()
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
