//! Checks out the submodules of a new worktree from the objects that the main working tree has already.
//!
//! git keeps a submodule's repository per worktree, so it is cloned once more. If the main tree has the
//! submodule, the clone is made from there, without the network.

use std::path::{Path, PathBuf};

use crate::git::{Git, GitError, Repository};

/// How deep submodules may be nested.
const MAX_DEPTH: usize = 16;

/// Checks out all submodules. Returns what could not be checked out, a sentence each.
pub(super) fn check_out(
    git: &Git,
    repository: &Repository,
    top: &Path,
) -> Result<Vec<String>, GitError> {
    let mut failures = Vec::new();
    // Each working tree with the directory that holds the repositories of the main tree's submodules.
    let mut trees: Vec<(PathBuf, PathBuf, usize)> =
        vec![(top.to_owned(), repository.common.join("modules"), 0)];
    while let Some((tree, modules, depth)) = trees.pop() {
        if tree.join(".gitmodules").symlink_metadata().is_err() || depth > MAX_DEPTH {
            continue;
        }
        for module in configured(git, &tree)? {
            let local = modules.join(&module.name);
            match check_out_one(git, &tree, &module, &local) {
                Ok(()) => trees.push((tree.join(&module.path), local.join("modules"), depth + 1)),
                Err(error) => {
                    let words =
                        format!("the submodule {} was not checked out: {error}", module.path);
                    failures.push(words);
                }
            }
        }
    }
    Ok(failures)
}

/// A submodule as `.gitmodules` describes it.
struct Module {
    name: String,
    path: String,
}

/// Checks out one submodule: from the main tree's own copy, if it has one with the commit, else from its URL.
fn check_out_one(git: &Git, tree: &Path, module: &Module, local: &Path) -> Result<(), GitError> {
    let update = ["submodule", "--quiet", "update", "--init", "--", &module.path];
    if local.join("HEAD").is_file() {
        // Writes the URL into the repository's configuration, where it is not there yet.
        git.change(tree).args(["submodule", "--quiet", "init", "--", &module.path]).ok()?;
        let key = format!("submodule.{}.url", module.name);
        let url = git.read(tree).args(["config", "--get", &key]).text()?;
        // Only the URL of this submodule is replaced, by a repository of the same user's main tree; so the
        // file protocol is allowed for this call.
        let call = git.change(tree).setting("protocol.file.allow=always");
        let copied = call.setting(format!("{key}={}", local.display())).args(update).ok();
        let copy = tree.join(&module.path);
        if copy.join(".git").symlink_metadata().is_ok() {
            git.change(&copy).args(["config", "remote.origin.url", &url]).ok()?;
        }
        if copied.is_ok() {
            return Ok(());
        }
    }
    git.change(tree).args(update).ok().map(drop)
}

/// Lists the submodules that the checked-out commit has.
fn configured(git: &Git, tree: &Path) -> Result<Vec<Module>, GitError> {
    let args = ["config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
    let output = git.read(tree).args(args).run()?;
    let links = git.gitlinks(tree)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let entries = text.split('\0').filter_map(|entry| entry.split_once('\n'));
    let module = |(key, path): (&str, &str)| {
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        // git refuses these names too: they would lead out of the directory of modules.
        let safe = !name.split('/').any(|part| part == "..") && !name.starts_with('/');
        (safe && links.iter().any(|link| link == Path::new(path)))
            .then(|| Module { name: name.to_owned(), path: path.to_owned() })
    };
    Ok(entries.filter_map(module).collect())
}
