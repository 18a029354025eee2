//! Two trees compared, without programs of the repository's configuration.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Git, GitError, TreeSnapshot};
use crate::model::Time;

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct DiffFile {
    /// Its path below the top of the working tree.
    pub path: String,
    /// Its path before, if it was moved.
    pub moved_from: Option<String>,
    /// The kind of change.
    pub kind: DiffKind,
    /// How many lines were added; null for a binary file.
    pub added: Option<u64>,
    /// How many lines were removed; null for a binary file.
    pub removed: Option<u64>,
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffKind {
    /// It is new.
    Added,
    /// Its content, type or mode differs.
    Changed,
    /// It is gone.
    Deleted,
    /// It has another path.
    Moved,
}

/// The differences between a base and a snapshot.
#[derive(Debug)]
pub struct Comparison {
    /// The files that differ.
    pub files: Vec<DiffFile>,
    /// The patch, if it was asked for.
    pub patch: Option<Vec<u8>>,
}

impl Git {
    /// Compares a commit or tree with a snapshot.
    pub fn compare(
        &self,
        top: &Path,
        base: &str,
        snapshot: &TreeSnapshot,
        with_patch: bool,
    ) -> Result<Comparison, GitError> {
        let call = |form: &[&str]| {
            let call =
                snapshot.see(self.read(top)).args(["diff-tree", "-r", "-M", "--no-ext-diff"]);
            let call = call.args(["--no-textconv", "--no-color", "--full-index"]);
            let call = call.arg("--ignore-submodules=none");
            call.args(form.iter().copied()).args([base, &snapshot.tree, "--"])
        };
        let kinds = call(&["-z", "--name-status"]).ok()?.stdout;
        let counts = call(&["-z", "--numstat"]).ok()?.stdout;
        let mut files = changed_files(&kinds);
        add_counts(&mut files, &counts);
        let patch = if with_patch { Some(call(&["-p", "--binary"]).ok()?.stdout) } else { None };
        Ok(Comparison { files, patch })
    }

    /// Returns how many commits a revision has beyond a base; `None` if the base is no commit.
    pub fn count_commits(
        &self,
        directory: &Path,
        base: &str,
        revision: &str,
    ) -> Result<Option<usize>, GitError> {
        if self.commit(directory, base)?.is_none() {
            return Ok(None);
        }
        let args = ["rev-list", "--count", revision, &format!("^{base}"), "--"];
        Ok(self.read(directory).args(args).text()?.parse().ok())
    }

    /// Returns the commit that HEAD was at some time, by its reflog; `None` if it has none.
    pub fn head_at(&self, directory: &Path, at: Time) -> Result<Option<String>, GitError> {
        let output = self.read(directory).args(["reflog", "exists", "HEAD"]).run()?;
        if output.code != 0 {
            return Ok(None);
        }
        let seconds = at.millis().div_euclid(1000);
        let Some(at) = Time::from_millis(seconds * 1000) else { return Ok(None) };
        // The whole form of a date: git guesses the meaning of shorter ones.
        let date = at.0.strftime("%Y-%m-%d %H:%M:%S +0000").to_string();
        self.ref_value(directory, &format!("HEAD@{{{date}}}^{{commit}}"))
    }

    /// Returns the id of the empty tree of a repository.
    pub fn empty_tree(&self, directory: &Path) -> Result<String, GitError> {
        self.read(directory).args(["hash-object", "-t", "tree", "--stdin"]).text()
    }

    /// Returns the paths of submodules that have changed or untracked files, and of those that are not checked out and
    /// have files in their folder: git shows neither these files nor a change.
    pub fn dirty_submodules(&self, top: &Path) -> Result<Vec<String>, GitError> {
        let hidden = self.files_in_place_of_submodules(top)?.into_iter();
        let mut found: Vec<String> =
            hidden.map(|path| path.to_string_lossy().into_owned()).collect();
        if self.gitlinks(top)?.is_empty() {
            return Ok(found);
        }
        let args = ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=none"];
        let output = self.read(top).args(args).ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let dirty = |line: &str| {
            let mut fields = line.splitn(9, ' ');
            let state = fields.nth(2)?;
            let is_dirty = state.starts_with('S') && (state.contains('M') || state.contains('U'));
            is_dirty.then(|| fields.nth(5).map(str::to_owned)).flatten()
        };
        found.extend(text.split('\0').filter(|line| line.starts_with("1 ")).filter_map(dirty));
        Ok(found)
    }

    /// Returns the paths at which the index of a working tree has a repository, and the disk a folder with files that is
    /// none. git passes over everything in such a folder.
    pub fn files_in_place_of_submodules(&self, top: &Path) -> Result<Vec<PathBuf>, GitError> {
        let mut paths = self.gitlinks_without_settings(top)?;
        // A conflict has several entries of one path.
        paths.dedup();
        paths.retain(|path| has_files_in_place(top, path));
        Ok(paths)
    }
}

/// Says whether the folder of a submodule has files and is no repository.
#[must_use]
pub fn has_files_in_place(top: &Path, submodule: &Path) -> bool {
    let folder = top.join(submodule);
    let is_folder = folder.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    is_folder && folder.join(".git").symlink_metadata().is_err() && has_file(folder)
}

/// Says whether a file is below a folder. Links are not followed; a folder that cannot be read may have some.
fn has_file(folder: PathBuf) -> bool {
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { return true };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
                Ok((kind, path)) if kind.is_dir() => folders.push(path),
                _ => return true,
            }
        }
    }
    false
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses `--name-status -z`: a letter, then one path, or two of a file that was moved.
fn changed_files(output: &[u8]) -> Vec<DiffFile> {
    let mut fields = output.split(|byte| *byte == 0);
    let mut files = Vec::new();
    while let Some(letter) = fields.next().and_then(|field| field.first().copied()) {
        let Some(first) = fields.next() else { break };
        let (path, moved_from, kind) = match letter {
            b'R' | b'C' => {
                let Some(second) = fields.next() else { break };
                (text(second), Some(text(first)), DiffKind::Moved)
            }
            b'A' => (text(first), None, DiffKind::Added),
            b'D' => (text(first), None, DiffKind::Deleted),
            _ => (text(first), None, DiffKind::Changed),
        };
        files.push(DiffFile { path, moved_from, kind, added: None, removed: None });
    }
    files
}

/// Adds the counts of `--numstat -z`: `added TAB removed TAB path`, or an empty path and two more fields for a
/// file that was moved. The files come in the same order.
fn add_counts(files: &mut [DiffFile], output: &[u8]) {
    let mut fields = output.split(|byte| *byte == 0);
    for file in files {
        let Some(line) = fields.next() else { return };
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let mut count = || parts.next().and_then(|part| text(part).parse().ok());
        (file.added, file.removed) = (count(), count());
        if parts.next().is_some_and(<[u8]>::is_empty) {
            let _paths = (fields.next(), fields.next());
        }
    }
}
