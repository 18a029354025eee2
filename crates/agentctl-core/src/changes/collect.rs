//! Matches calls with their results: only changes that were carried out count.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::adapters::changes::{CallEnd, ChangeNote, EditBody, EditKind, RecordedEdit};
use crate::model::{ChangeTold, ChangedBy, Time};

/// Most changes that are kept.
const MAX_EDITS: usize = 100_000;
/// Most bytes of the texts of all changes that are kept.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Most calls that may be without a result at the same time.
const MAX_OPEN_CALLS: usize = 10_000;

/// A call without a result so far.
enum Open {
    Command,
    Edits(Vec<RecordedEdit>),
}

/// Reads notes, source by source.
#[derive(Default)]
pub(super) struct Collector {
    edits: Vec<RecordedEdit>,
    /// The times by which the changes are sorted. They never decrease within a source, so its order is kept.
    order: Vec<Option<Time>>,
    /// The newest time of the current source.
    newest: Option<Time>,
    /// The calls of the current source that have no result.
    open: HashMap<String, Open>,
    /// The calls of the current source whose changes were recorded.
    recorded: HashSet<u64>,
    /// The shell commands of the current source without a record of changes.
    unrecorded: HashSet<u64>,
    /// The turn that is read: its id, its first change, and its differences.
    turn: Option<(String, usize, Vec<RecordedEdit>)>,
    /// The change of each path that holds the content before it.
    before: HashMap<String, usize>,
    commands: u64,
    unanswered: u64,
    text_bytes: usize,
    left_out_edits: u64,
    left_out_texts: u64,
    /// The number of lines that were too long to read.
    pub(super) skipped_lines: u64,
}

/// The changes of all sources.
pub(super) struct Collected {
    pub(super) edits: Vec<RecordedEdit>,
    pub(super) commands: u64,
    pub(super) unanswered: u64,
    pub(super) left_out: Vec<String>,
}

impl Collector {
    /// Begins with another source: its calls have ids of their own.
    pub(super) fn begin(&mut self) {
        self.end_turn();
        // They may have been carried out, be at work, or wait for a permission.
        self.unanswered += self.open.len() as u64;
        self.open.clear();
        self.commands += self.unrecorded.len() as u64;
        self.unrecorded.clear();
        self.recorded.clear();
        self.newest = None;
    }

    /// Takes one note.
    pub(super) fn take(&mut self, note: ChangeNote) {
        match note {
            ChangeNote::Command { call } => self.call(call, Open::Command),
            ChangeNote::Called { call, edits } => self.call(call, Open::Edits(edits)),
            ChangeNote::Ended { call, end, edits } => self.end(&call, end, edits),
            ChangeNote::Turn { id, net } => {
                if self.turn.as_ref().is_none_or(|(turn, _, _)| *turn != id) {
                    self.end_turn();
                    self.turn = Some((id, self.edits.len(), net));
                }
            }
        }
    }

    fn call(&mut self, call: String, open: Open) {
        let known = hashed(&call);
        if self.recorded.contains(&known) || self.unrecorded.contains(&known) {
            return;
        }
        if self.open.len() >= MAX_OPEN_CALLS && !self.open.contains_key(&call) {
            self.unanswered += 1;
            return;
        }
        self.open.insert(call, open);
    }

    fn end(&mut self, call: &str, end: CallEnd, edits: Vec<RecordedEdit>) {
        let id = hashed(&call);
        let open = self.open.remove(call);
        if end == CallEnd::Done && !edits.is_empty() {
            if self.recorded.insert(id) {
                self.unrecorded.remove(&id);
                for edit in edits {
                    self.keep(edit);
                }
            }
            return;
        }
        match (open, end) {
            (Some(Open::Command), CallEnd::Done | CallEnd::Failed) => {
                self.unrecorded.insert(id);
            }
            (Some(Open::Edits(edits)), CallEnd::Done) => {
                self.recorded.insert(id);
                for edit in edits {
                    self.keep(edit);
                }
            }
            (Some(Open::Edits(_)), CallEnd::Failed) | (_, CallEnd::Refused) | (None, _) => {}
        }
    }

    /// Keeps a change, and only the newest content before a change of each file.
    fn keep(&mut self, mut edit: RecordedEdit) {
        if self.edits.len() >= MAX_EDITS {
            self.left_out_edits += 1;
            return;
        }
        if edit.before.is_some()
            && let Some(at) = self.before.insert(edit.path.clone(), self.edits.len())
            && let Some(before) = self.edits[at].before.take()
        {
            self.text_bytes -= before.len();
        }
        if self.text_bytes + edit.bytes() > MAX_TEXT_BYTES {
            self.left_out_texts += 1;
            (edit.body, edit.told, edit.before) = (EditBody::Path, ChangeTold::Path, None);
        }
        self.text_bytes += edit.bytes();
        self.newest = self.newest.max(edit.at);
        self.order.push(self.newest);
        self.edits.push(edit);
    }

    /// Replaces changes by the difference of the turn, for files of which a change is known by its path only.
    fn end_turn(&mut self) {
        let Some((_, first, net)) = self.turn.take() else { return };
        for mut difference in net {
            let own =
                |edit: &RecordedEdit| std::path::Path::new(&edit.path).ends_with(&difference.path);
            let ours = self.edits.iter_mut().skip(first).filter(|edit| own(edit));
            let mut ours: Vec<&mut RecordedEdit> = ours.collect();
            let is_weak = |edit: &&mut RecordedEdit| match edit.body {
                EditBody::Path => edit.by == ChangedBy::Shell,
                EditBody::Content(_) => edit.kind == EditKind::Changed,
                _ => false,
            };
            let is_needed = ours.iter().any(is_weak);
            let Some(last) = ours.pop().filter(|_| is_needed) else { continue };
            for edit in ours {
                (edit.body, edit.told, edit.before) = (EditBody::InTurn, ChangeTold::Hunks, None);
            }
            difference.path.clone_from(&last.path);
            (difference.by, difference.at) = (last.by, last.at);
            self.text_bytes += difference.bytes();
            *last = difference;
        }
    }

    /// Returns the changes in the order of time.
    pub(super) fn finish(mut self) -> Collected {
        self.begin();
        let mut keyed: Vec<_> = self.order.into_iter().zip(self.edits).collect();
        keyed.sort_by_key(|(at, _)| *at);
        let mut left_out = Vec::new();
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                left_out.push(format!("{count} {what}"));
            }
        };
        note(self.skipped_lines, "lines of its record are too long to read and may hold changes");
        note(self.left_out_edits, "changes are left out: only the first 100,000 are read");
        note(self.left_out_texts, "changes are told by their path only: the texts exceed 64 MiB");
        Collected {
            edits: keyed.into_iter().map(|(_, edit)| edit).collect(),
            commands: self.commands,
            unanswered: self.unanswered,
            left_out,
        }
    }
}

fn hashed(text: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_beyond_the_limit_are_counted_and_left_out() {
        let mut collector = Collector::default();
        collector.begin();
        for at in 0..=MAX_EDITS {
            let edit = RecordedEdit::of("many.txt", EditKind::Changed, ChangedBy::Edit);
            let (call, edits) = (at.to_string(), vec![edit]);
            collector.take(ChangeNote::Ended { call, end: CallEnd::Done, edits });
        }
        let collected = collector.finish();
        assert_eq!(collected.edits.len(), MAX_EDITS);
        assert_eq!(collected.left_out, ["1 changes are left out: only the first 100,000 are read"]);
    }
}
