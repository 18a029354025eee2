//! Checks out the submodules of a new worktree from the objects that this machine has already.
//!
//! git keeps a submodule's repository per worktree, so it is cloned once more. If the working tree of the launch or the
//! main one has the submodule, the clone is made from there, without the network.

use std::path::{Path, PathBuf};

use crate::git::{Git, GitCall, GitError, NamedSubmodule, Repository, git_dir_of};

/// How deep submodules may be nested.
const MAX_DEPTH: usize = 16;

/// A working tree whose submodules are checked out.
struct Tree {
    path: PathBuf,
    /// The directories that hold the same submodules of other working trees.
    sources: Vec<PathBuf>,
    depth: usize,
}

/// Checks out all submodules. Returns what could not be checked out, a sentence each.
pub(super) fn check_out(git: &Git, repository: &Repository, top: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    // An agent commits in a submodule of its worktree; these commits are in no other one.
    let mut sources = vec![repository.git_dir.join("modules"), repository.common.join("modules")];
    sources.dedup();
    let mut trees = vec![Tree { path: top.to_owned(), sources, depth: 0 }];
    while let Some(tree) = trees.pop() {
        if tree.path.join(".gitmodules").symlink_metadata().is_err() || tree.depth > MAX_DEPTH {
            continue;
        }
        let modules = match configured(git, &tree.path) {
            Ok(modules) => modules,
            Err(error) => {
                let file = tree.path.join(".gitmodules");
                let file = file.strip_prefix(top).unwrap_or(&file).display();
                failures.push(format!("the submodules of {file} were not checked out: {error}"));
                continue;
            }
        };
        for module in modules {
            let copies = tree.sources.iter().map(|source| source.join(&module.name));
            let copies: Vec<PathBuf> = copies.filter(|copy| copy.join("HEAD").is_file()).collect();
            match check_out_or_remove(git, &tree.path, &module, &copies) {
                Ok(()) => trees.push(Tree {
                    path: tree.path.join(&module.path),
                    sources: copies.iter().map(|copy| copy.join("modules")).collect(),
                    depth: tree.depth + 1,
                }),
                Err(error) => {
                    let words = format!(
                        "the submodule {} was not checked out: {error}",
                        module.path.display()
                    );
                    failures.push(words);
                }
            }
        }
    }
    failures
}

/// Checks out one submodule. If that fails, a clone that it made and that holds nothing else is removed: it would look
/// like a repository with work of its own.
fn check_out_or_remove(
    git: &Git,
    tree: &Path,
    module: &NamedSubmodule,
    copies: &[PathBuf],
) -> Result<(), GitError> {
    let git_dir = git_dir_of(tree);
    let clone = git_dir.as_ref().map(|git_dir| git_dir.join("modules").join(&module.name));
    let clone = clone.filter(|clone| clone.symlink_metadata().is_err());
    let result = check_out_one(git, tree, module, copies);
    if let (Err(_), Some(clone), Some(git_dir)) = (&result, clone, git_dir) {
        remove_clone(&tree.join(&module.path), &clone, &git_dir);
    }
    result
}

/// Checks out one submodule: from a copy on this machine, if one has the commit, else from its URL.
fn check_out_one(
    git: &Git,
    tree: &Path,
    module: &NamedSubmodule,
    copies: &[PathBuf],
) -> Result<(), GitError> {
    let update = |call: GitCall<'_>| {
        let args = ["submodule", "--quiet", "update", "--init", "--"];
        call.args(args).arg(&module.path).ok().map(drop)
    };
    // A copy without the commit has most of the objects.
    if let Some(copy) = copy_with_commit(git, tree, module, copies)?.or(copies.first()) {
        // Writes the URL into the repository's configuration, where it is not there yet.
        git.change(tree).args(["submodule", "--quiet", "init", "--"]).arg(&module.path).ok()?;
        let key = format!("submodule.{}.url", module.name);
        let url = git.read(tree).args(["config", "--get", &key]).text()?;
        // Only the URL of this submodule is replaced, by a repository of the same user's working tree; so the
        // file protocol is allowed for this call.
        let call = git.change(tree).setting("protocol.file.allow=always");
        let copied = update(call.setting(format!("{key}={}", copy.display())));
        let here = tree.join(&module.path);
        if here.join(".git").symlink_metadata().is_ok() {
            git.change(&here).args(["config", "remote.origin.url", &url]).ok()?;
        }
        if copied.is_ok() {
            return Ok(());
        }
    }
    update(git.change(tree))
}

/// Returns the first copy of a submodule that has the commit which the working tree wants.
fn copy_with_commit<'a>(
    git: &Git,
    tree: &Path,
    module: &NamedSubmodule,
    copies: &'a [PathBuf],
) -> Result<Option<&'a PathBuf>, GitError> {
    let Some(commit) = git.ref_value(tree, &format!(":0:{}", module.path.display()))? else {
        return Ok(None);
    };
    for copy in copies {
        // The working tree that its configuration names may be gone.
        let call = git.read(copy).env("GIT_DIR", copy).env("GIT_WORK_TREE", copy);
        if call.args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).run()?.code == 0 {
            return Ok(Some(copy));
        }
    }
    Ok(None)
}

/// Removes a clone whose commit was not checked out. A file in its working tree keeps it.
fn remove_clone(here: &Path, clone: &Path, git_dir: &Path) {
    let entries = std::fs::read_dir(here).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    let is_empty = names.all(|name| name == ".git");
    let link = here.join(".git");
    let is_its_own = || git_dir_of(here).is_some_and(|found| found == clone);
    if !is_empty || (link.symlink_metadata().is_ok() && !is_its_own()) {
        return;
    }
    let _none = std::fs::remove_file(&link);
    let _none = std::fs::remove_dir_all(clone);
    for above in clone.ancestors().skip(1).take_while(|above| *above != git_dir) {
        // Other submodules are below it, and it stays.
        if std::fs::remove_dir(above).is_err() {
            break;
        }
    }
}

/// Lists the submodules that the checked-out commit has.
fn configured(git: &Git, tree: &Path) -> Result<Vec<NamedSubmodule>, GitError> {
    let links = git.gitlinks(tree)?;
    let mut modules = git.named_submodules(tree)?;
    modules.retain(|module| {
        // git refuses these names too: they would lead out of the directory of modules.
        let name = &module.name;
        let safe = !name.split('/').any(|part| part == "..") && !name.starts_with('/');
        safe && links.contains(&module.path)
    });
    Ok(modules)
}
