//! Adds up the changes per file, in the order of time, and makes a patch of each.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::Patches;
use super::disk::Expected;
use super::git_patch::{self, Patched};
use crate::adapters::changes::{
    EditBody, EditKind, LineHunk, RecordedEdit, Replacement, applied, counted, difference,
};
use crate::model::{ChangeKind, ChangeTold, FileChanges, FileNow, FilePatch};

/// Most bytes of the contents of all files that are kept.
const MAX_CONTENT_BYTES: usize = 64 << 20;
/// Most bytes of all patches.
const MAX_PATCH_BYTES: usize = 64 << 20;

/// The result.
#[derive(Default)]
pub(super) struct Folded {
    /// Each file with its path and its expected state.
    pub(super) files: Vec<(PathBuf, FileChanges, Expected)>,
    pub(super) patches: Vec<FilePatch>,
}

/// The change as lines, where they are known.
enum Lines {
    Known(Vec<LineHunk>),
    /// Lines without their places.
    Placeless(Vec<Replacement>),
    Unknown,
}

struct Folder<'a> {
    cwd: Option<&'a Path>,
    rows: Vec<(PathBuf, FileChanges, Expected)>,
    at: HashMap<PathBuf, usize>,
    patches: Vec<FilePatch>,
    wants: Patches,
    content_bytes: usize,
    patch_bytes: usize,
}

/// Adds up the changes.
pub(super) fn fold(edits: Vec<RecordedEdit>, cwd: Option<&Path>, wants: Patches) -> Folded {
    let mut folder = Folder {
        cwd,
        rows: Vec::new(),
        at: HashMap::new(),
        patches: Vec::new(),
        wants,
        content_bytes: 0,
        patch_bytes: 0,
    };
    for edit in edits {
        folder.add(edit);
    }
    Folded { files: folder.rows, patches: folder.patches }
}

impl Folder<'_> {
    fn add(&mut self, mut edit: RecordedEdit) {
        let path = absolute(self.cwd, &edit.path);
        let from = edit.from.take().map(|from| absolute(self.cwd, &from));
        let from = from.filter(|from| *from != path);
        let expected = self.expected_before(from.as_ref().unwrap_or(&path), &mut edit);
        let (lines, after) = changed(&edit, &expected);
        let is_new = match edit.kind {
            EditKind::Added => true,
            EditKind::Written => !matches!(expected, Expected::Content(_)),
            EditKind::Changed => expected == Expected::Absent,
            EditKind::Deleted => false,
        };
        if self.wants == Patches::Yes && edit.body != EditBody::InTurn {
            self.add_patch(&edit, (&path, from.as_deref()), &lines, is_new);
        }
        let after = self.kept(after);
        self.add_row(&edit, (path, from), &lines, after);
    }

    /// Returns the state of the file before a change, as far as the records tell it.
    fn expected_before(&mut self, path: &Path, edit: &mut RecordedEdit) -> Expected {
        if let Some(before) = edit.before.take() {
            return Expected::Content(before);
        }
        if edit.kind == EditKind::Added {
            return Expected::Absent;
        }
        let known = self.at.get(path).map(|at| self.rows[*at].2.clone());
        known.unwrap_or(Expected::Unknown)
    }

    /// Keeps a content if there is room for it.
    fn kept(&mut self, expected: Expected) -> Expected {
        match expected {
            Expected::Content(content)
                if self.content_bytes + content.len() > MAX_CONTENT_BYTES =>
            {
                Expected::Unknown
            }
            other => other,
        }
    }

    fn add_row(
        &mut self,
        edit: &RecordedEdit,
        (path, from): (PathBuf, Option<PathBuf>),
        lines: &Lines,
        after: Expected,
    ) {
        let counts = match lines {
            Lines::Known(hunks) => Some(counted(hunks)),
            Lines::Placeless(texts) => Some(replaced_lines(texts)),
            Lines::Unknown => None,
        };
        let at = self.row_of(edit, path, from);
        let (_, row, expected) = &mut self.rows[at];
        row.edits += 1;
        row.by = edit.by;
        row.told = row.told.min(edit.told);
        row.first_at = row.first_at.or(edit.at);
        row.last_at = edit.at.or(row.last_at);
        if let Some((added, removed)) = counts {
            row.added = Some(row.added.unwrap_or_default() + added);
            row.removed = Some(row.removed.unwrap_or_default() + removed);
        }
        row.kind = match (row.kind, edit.kind) {
            (_, EditKind::Deleted) => ChangeKind::Deleted,
            (ChangeKind::Deleted, _) => ChangeKind::Changed,
            (kind, _) => kind,
        };
        let size = |expected: &Expected| match expected {
            Expected::Content(content) => content.len(),
            _ => 0,
        };
        self.content_bytes = self.content_bytes - size(expected) + size(&after);
        *expected = after;
    }

    /// Returns the row of a file. A moved file takes its row along.
    fn row_of(&mut self, edit: &RecordedEdit, path: PathBuf, from: Option<PathBuf>) -> usize {
        let moved = from.as_ref().and_then(|from| self.at.remove(from));
        if let Some(at) = moved {
            let (own, row, _) = &mut self.rows[at];
            if row.kind != ChangeKind::Added {
                row.kind = ChangeKind::Moved;
                let first = std::mem::take(&mut row.path);
                row.from.get_or_insert(first);
            }
            row.path = shown(self.cwd, &path);
            own.clone_from(&path);
            self.at.insert(path, at);
            return at;
        }
        if let Some(at) = self.at.get(&path) {
            return *at;
        }
        let kind = match (from.is_some(), edit.kind) {
            (true, _) => ChangeKind::Moved,
            (_, EditKind::Added) => ChangeKind::Added,
            (_, EditKind::Deleted) => ChangeKind::Deleted,
            (_, EditKind::Changed | EditKind::Written) => ChangeKind::Changed,
        };
        let row = FileChanges {
            path: shown(self.cwd, &path),
            from: from.map(|from| shown(self.cwd, &from)),
            kind,
            edits: 0,
            added: None,
            removed: None,
            by: edit.by,
            first_at: edit.at,
            last_at: edit.at,
            told: ChangeTold::Hunks,
            now: FileNow::Unknown,
        };
        self.rows.push((path.clone(), row, Expected::Unknown));
        self.at.insert(path, self.rows.len() - 1);
        self.rows.len() - 1
    }

    fn add_patch(
        &mut self,
        edit: &RecordedEdit,
        (path, from): (&Path, Option<&Path>),
        lines: &Lines,
        is_new: bool,
    ) {
        let shown_path = shown(self.cwd, path);
        let shown_from = from.map(|from| shown(self.cwd, from));
        let is_outside = |path: &str| path.starts_with('/');
        let refused = |why: &str| (None, Some(why.to_owned()));
        let (patch, remark) = match lines {
            _ if is_outside(&shown_path) || shown_from.as_deref().is_some_and(is_outside) => {
                refused("it lies outside the session's directory")
            }
            _ if edit.kind == EditKind::Deleted && edit.body == EditBody::Path => {
                refused("it was deleted, and its content is not recorded")
            }
            Lines::Unknown => refused("its lines are not recorded"),
            Lines::Placeless(_) => refused("the record tells texts without their places"),
            Lines::Known(hunks) => {
                let is_deleted = edit.kind == EditKind::Deleted;
                let patched =
                    Patched { path: &shown_path, from: shown_from.as_deref(), is_new, is_deleted };
                let text = git_patch::text(&patched, hunks);
                let guessed = is_new && edit.kind == EditKind::Written;
                let remark = "whether it was there before is not recorded: the patch creates it";
                (Some(text), guessed.then(|| remark.to_owned()))
            }
        };
        let size = patch.as_ref().map_or(0, String::len);
        let (patch, remark) = if self.patch_bytes + size > MAX_PATCH_BYTES {
            refused("the patches exceed 64 MiB")
        } else {
            (patch, remark)
        };
        self.patch_bytes += patch.as_ref().map_or(0, String::len);
        let (at, by, told) = (edit.at, edit.by, edit.told);
        self.patches.push(FilePatch { path: shown_path, at, by, told, patch, remark });
    }
}

/// Returns the lines of a change, and the state of the file after it.
fn changed(edit: &RecordedEdit, before: &Expected) -> (Lines, Expected) {
    if edit.body == EditBody::InTurn {
        return (Lines::Known(Vec::new()), before.clone());
    }
    if edit.kind == EditKind::Deleted {
        let lines = match (&edit.body, before) {
            (EditBody::Hunks(hunks), _) => Lines::Known(hunks.clone()),
            (EditBody::Content(content), _) | (_, Expected::Content(content)) => {
                Lines::Known(difference(content, ""))
            }
            _ => Lines::Unknown,
        };
        return (lines, Expected::Absent);
    }
    let known = match before {
        Expected::Content(content) => Some(content.as_str()),
        Expected::Absent => Some(""),
        _ => None,
    };
    match &edit.body {
        EditBody::Hunks(hunks) => {
            let after = known.and_then(|content| applied(content, hunks));
            let lines = Lines::Known(hunks.clone());
            (lines, after.map_or_else(|| Expected::Lines(hunks.clone()), Expected::Content))
        }
        EditBody::Content(content) => {
            let hunks = difference(known.unwrap_or_default(), content);
            let lines = match edit.kind {
                EditKind::Changed if known.is_none() => Lines::Unknown,
                _ => Lines::Known(hunks),
            };
            (lines, Expected::Content(content.clone()))
        }
        EditBody::Replaced(texts) => match known.and_then(|content| replaced(content, texts)) {
            Some(after) => {
                let hunks = difference(known.unwrap_or_default(), &after);
                (Lines::Known(hunks), Expected::Content(after))
            }
            None => (Lines::Placeless(texts.clone()), Expected::Unknown),
        },
        EditBody::Path | EditBody::InTurn => (Lines::Unknown, Expected::Unknown),
    }
}

/// Replaces texts; `None` if one of them does not stand in the content exactly once.
fn replaced(content: &str, texts: &[Replacement]) -> Option<String> {
    let mut content = content.to_owned();
    for text in texts {
        let count = content.matches(text.old.as_str()).take(2).count();
        if text.old.is_empty() || count == 0 || (count > 1 && !text.everywhere) {
            return None;
        }
        content = content.replace(&text.old, &text.new);
    }
    Some(content)
}

/// Returns the number of added and removed lines of texts without their places.
fn replaced_lines(texts: &[Replacement]) -> (u64, u64) {
    let hunks = texts.iter().flat_map(|text| difference(&text.old, &text.new));
    counted(&hunks.collect::<Vec<_>>())
}

/// Returns a path without `.` and `..`, absolute if the session's directory is known. Links are not resolved.
fn absolute(cwd: Option<&Path>, path: &str) -> PathBuf {
    let joined = cwd.unwrap_or(Path::new("")).join(path);
    let mut plain = PathBuf::from(if joined.has_root() { "/" } else { "" });
    for component in joined.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Returns a path as it is shown: relative to the session's directory if it is below it.
fn shown(cwd: Option<&Path>, path: &Path) -> String {
    let below = cwd.and_then(|cwd| path.strip_prefix(cwd).ok());
    let below = below.filter(|below| !below.as_os_str().is_empty());
    below.unwrap_or(path).to_string_lossy().into_owned()
}
