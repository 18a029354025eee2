//! Two trees compared, without programs of the repository's configuration.

use std::path::Path;

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

    /// Returns the paths of submodules that have changed or untracked files, also of those that are not checked out.
    pub fn dirty_submodules(&self, top: &Path) -> Result<Vec<String>, GitError> {
        let links = self.gitlinks(top)?;
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let unseen = links.iter().filter(|link| has_unseen_files(top, link));
        let unseen: Vec<String> = unseen.map(|link| link.to_string_lossy().into_owned()).collect();
        let args = ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=none"];
        let output = self.read(top).args(args).ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let dirty = |line: &str| {
            let mut fields = line.splitn(9, ' ');
            let state = fields.nth(2)?;
            let is_dirty = state.starts_with('S') && (state.contains('M') || state.contains('U'));
            is_dirty.then(|| fields.nth(5).map(str::to_owned)).flatten()
        };
        let seen = text.split('\0').filter(|line| line.starts_with("1 ")).filter_map(dirty);
        Ok(seen.chain(unseen).collect())
    }
}

/// Says whether there are files in the folder of a submodule that is not checked out: git sees none of them.
#[must_use]
pub fn has_unseen_files(top: &Path, link: &Path) -> bool {
    let folder = top.join(link);
    if folder.join(".git").symlink_metadata().is_ok() {
        return false;
    }
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop().filter(|folder| is_folder(folder)) {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                return true;
            }
            folders.push(entry.path());
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
