//! Repositories inside a working tree that are no submodules: git records their commit only, and nobody else has it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Git, GitCall, GitError, TreeChange, path_of};

/// The settings of `.gitmodules` that name the directories of submodules.
const SUBMODULE_PATHS: &str = r"^submodule\..*\.path$";

/// A submodule as `.gitmodules` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSubmodule {
    /// Its name, which is part of its directory in the git directory.
    pub name: String,
    /// Its directory below the top.
    pub path: PathBuf,
}

impl Git {
    /// Returns the paths at which a tree has a repository and an older tree has none. Those that the `.gitmodules` of
    /// the working tree with this top names are submodules and do not count. The call must see both trees.
    pub fn embedded_repositories(
        &self,
        call: GitCall<'_>,
        top: &Path,
        (older, tree): (&str, &str),
    ) -> Result<Vec<PathBuf>, GitError> {
        let changes = self.tree_changes(call, older, tree)?;
        let mut found = new_repositories(&changes);
        if !found.is_empty() {
            let submodules = self.named_submodules(top)?;
            found.retain(|path| submodules.iter().all(|submodule| submodule.path != *path));
        }
        Ok(found)
    }

    /// Returns a tree without its repositories at these paths: at each there is what the older tree has there. The tree is
    /// written into the repository of the working tree with this top.
    pub fn without_repositories(
        &self,
        top: &Path,
        (older, tree): (&str, &str),
        paths: &[PathBuf],
    ) -> Result<String, GitError> {
        if paths.is_empty() {
            return Ok(tree.to_owned());
        }
        let directory = self.private_directory()?;
        let index = directory.path.join("index");
        let call = || self.read(top).env("GIT_INDEX_FILE", &index);
        call().args(["read-tree", tree]).ok()?;
        let names: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
        let remove = call().args(["update-index", "-z", "--force-remove", "--stdin"]);
        remove.stdin(names.join(&0)).ok()?;
        let before = call().args(["ls-tree", "-r", "-z", "--full-tree", older, "--"]).args(paths);
        let restore = call().args(["update-index", "-z", "--index-info"]);
        restore.stdin(before.ok()?.stdout).ok()?;
        call().args(["write-tree"]).text()
    }

    /// Returns the repositories that a tree has and an older one has not, and that the `.gitmodules` of that tree does not
    /// name. The calls must see the tree.
    pub fn committed_repositories<'a>(
        &self,
        call: &dyn Fn() -> GitCall<'a>,
        tree: &str,
        changes: &[TreeChange],
    ) -> Result<Vec<PathBuf>, GitError> {
        let mut found = new_repositories(changes);
        let file = format!("{tree}:.gitmodules");
        let has_file = || Ok(call().args(["cat-file", "-e", &file]).run()?.code == 0);
        if !found.is_empty() && has_file()? {
            let named = call().args(["config", "--no-includes", "-z", "--blob", &file]);
            let submodules = submodules_of(named)?;
            found.retain(|path| submodules.iter().all(|submodule| submodule.path != *path));
        }
        Ok(found)
    }

    /// Returns the submodules that the `.gitmodules` of a working tree names.
    pub fn named_submodules(&self, top: &Path) -> Result<Vec<NamedSubmodule>, GitError> {
        let file = top.join(".gitmodules");
        if !file.is_file() {
            return Ok(Vec::new());
        }
        let call = self.read(Path::new("/")).args(["config", "--no-includes", "-z"]);
        submodules_of(call.arg("--file").arg(&file))
    }
}

fn new_repositories(changes: &[TreeChange]) -> Vec<PathBuf> {
    let new = changes.iter().filter(|change| change.is_repository() && !change.was_repository());
    new.map(|change| change.path.clone()).collect()
}

/// Returns the submodules that a `.gitmodules` names, by a call of `git config -z` for that file.
fn submodules_of(call: GitCall<'_>) -> Result<Vec<NamedSubmodule>, GitError> {
    let output = call.args(["--get-regexp", SUBMODULE_PATHS]).run()?;
    // The exit code is 1 if it names none.
    if output.code > 1 {
        return Err(GitError::of("config".to_owned(), PathBuf::new(), &output));
    }
    // `submodule.NAME.path`, a line end, the path.
    let submodule = |entry: &[u8]| {
        let end = entry.iter().position(|byte| *byte == b'\n')?;
        let key = String::from_utf8_lossy(&entry[..end]);
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?.to_owned();
        Some(NamedSubmodule { name, path: path_of(&entry[end + 1..]) })
    };
    Ok(output.stdout.split(|byte| *byte == 0).filter_map(submodule).collect())
}
