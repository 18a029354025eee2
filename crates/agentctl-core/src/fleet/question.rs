//! One adapter's part of a list: which sessions are read, how many at once, and what is kept of each.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::join::View;
use super::launched::add_branch_group;
use super::packed::{Packed, Packer};
use super::verdict::{self, join};
use super::{Query, each_root};
use crate::adapters::{Adapter, Depth, Found, Look, Record, Root, Served, Store, Turn};
use crate::kernel::{deadline, home_limit};
use crate::model::{Fault, FaultCode, Locator, Session, Status};
use crate::names::BranchGroups;

/// Ids that a table shortens its own ids against, besides those of its rows.
pub(super) type OtherIds = Arc<Mutex<Vec<Box<str>>>>;

pub(super) fn list_adapter(
    adapter: &'static dyn Adapter,
    look: &Look,
    query: &Query,
    ids: &OtherIds,
) -> Found<Packed> {
    let (query, ids) = (query.clone(), Arc::clone(ids));
    each_root(adapter, look, move |look, root| {
        let mut found = Found::default();
        let store = adapter.store(look, root);
        let since = query.since_ms.filter(|_| query.all);
        let history = history(&query, root, store.as_ref(), &ids);
        let live = store.live();
        let mut question = Question::new(adapter, look, root, store.as_ref(), live);
        (question.children, question.for_table) = (query.children, query.for_table);
        question.since = since;
        question.packs = !query.children;
        question.add_living(history);
        question.rows.retain(|row| is_since(&row.session, since));
        question.add_unjoined(|_| true);
        question.finish(&mut found);
        found
    })
}

/// Adds the ids of an adapter that a list leaves out: of its live sessions, and of its history if the list has
/// ended sessions.
pub(super) fn add_other_ids(
    adapter: &'static dyn Adapter,
    look: &Look,
    query: &Query,
    ids: &OtherIds,
) {
    let needs_all = query.needs_all_ids();
    let ids = Arc::clone(ids);
    let _none: Found<()> = each_root(adapter, look, move |look, root| {
        let store = adapter.store(look, root);
        if needs_all && root.is_known() {
            let _listed = history_seeing(None, store.as_ref(), &ids);
        }
        let served = store.live().rows.into_iter().filter_map(|served| served.id);
        ids.lock().unwrap_or_else(PoisonError::into_inner).extend(served.map(String::into));
        Found::default()
    });
}

/// Returns the history that a list asks for, and adds the ids that its own ids are shortened against. The names that
/// are read of a home that only a process names are limited, so only the listed ones count there.
fn history(
    query: &Query,
    root: &Root,
    store: &dyn Store,
    ids: &OtherIds,
) -> Option<Found<Locator>> {
    let since = query.since_ms.filter(|_| query.all);
    if query.needs_all_ids() && root.is_known() {
        let listed = history_seeing(since, store, ids);
        return query.all.then_some(listed);
    }
    query.all.then(|| store.history(since))
}

/// Lists the history of a home, and adds the ids of all of it; no file is opened for them.
fn history_seeing(since: Option<i64>, store: &dyn Store, ids: &OtherIds) -> Found<Locator> {
    let mut seen: Vec<Box<str>> = Vec::new();
    let listed = store.history_seeing(since, &mut |id| seen.push(id.into()));
    ids.lock().unwrap_or_else(PoisonError::into_inner).append(&mut seen);
    listed
}

/// One home that is asked: its live claims, the records that were read, and the rows.
pub(super) struct Question<'a> {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) look: &'a Look,
    pub(super) root: &'a Root,
    pub(super) store: &'a dyn Store,
    pub(super) view: View,
    pub(super) children: bool,
    pub(super) for_table: bool,
    /// Ended sessions that were active before that (milliseconds) are left out of a list.
    pub(super) since: Option<i64>,
    /// Rows that nothing will change any more are packed at once.
    pub(super) packs: bool,
    pub(super) rows: Vec<Row>,
    packed: Vec<(usize, Packed)>,
    packer: Packer,
    branches: BranchGroups,
    /// How many rows were pushed: their numbers are their order.
    pushed: usize,
    /// How many records are kept until they are confirmed.
    pub(super) kept: usize,
    /// The number of prompts of the one session that was read in full.
    pub(super) turns: Option<u64>,
    /// Sessions whose record may lie where we could not look.
    pub(super) hidden: Vec<String>,
    pub(super) faults: Vec<Fault>,
}

pub(super) struct Row {
    pub(super) locator: Locator,
    pub(super) session: Session,
    confirm: Confirm,
    number: usize,
}

impl Row {
    pub(super) fn is_waiting(&self) -> bool {
        self.session.status == Status::Waiting
    }
}

/// Whether a row is looked at again: its record says that a turn is open, and no process serves it.
enum Confirm {
    No,
    /// With the record that was read.
    With(Box<Record>),
    /// The record is read again.
    Again,
}

/// Number of records that are kept until they are confirmed; the others are read again.
const MAX_KEPT_RECORDS: usize = 4096;
/// Number of records that are read before they become rows: records are larger than rows.
const READ_AT_ONCE: usize = 1024;

impl<'a> Question<'a> {
    pub(super) fn new(
        adapter: &'static dyn Adapter,
        look: &'a Look,
        root: &'a Root,
        store: &'a dyn Store,
        live: Found<Served>,
    ) -> Self {
        let faults = live.faults.clone();
        let view = View::new(adapter.name(), root, look, live);
        Self {
            adapter,
            look,
            root,
            store,
            view,
            children: false,
            for_table: false,
            since: None,
            packs: false,
            rows: Vec::new(),
            packed: Vec::new(),
            packer: Packer::default(),
            branches: BranchGroups::of(&look.host),
            pushed: 0,
            kept: 0,
            turns: None,
            hidden: Vec::new(),
            faults,
        }
    }

    /// Reads the live sessions and the given history.
    pub(super) fn add_living(&mut self, history: Option<Found<Locator>>) {
        let locators = match history {
            Some(history) => self.take_history(history),
            None => self.possibly_served(),
        };
        let served = self.served_elsewhere_in_list(&locators);
        let depth = if self.for_table { Depth::Table } else { Depth::Outline };
        self.add(served, depth);
        self.add(locators, depth);
    }

    pub(super) fn take_history(&mut self, history: Found<Locator>) -> Vec<Locator> {
        self.faults.extend(history.faults);
        history.rows
    }

    /// Returns the sessions that a process without a live record may serve.
    pub(super) fn possibly_served(&mut self) -> Vec<Locator> {
        let Some(since) = self.view.oldest_unjoined_ms() else { return Vec::new() };
        let recent = self.store.history(Some(since));
        self.take_history(recent)
    }

    /// Returns the sessions that a live source names and that are not listed.
    pub(super) fn served_elsewhere_in_list(&mut self, listed: &[Locator]) -> Vec<Locator> {
        let served = self.view.served_ids();
        if served.is_empty() {
            return Vec::new();
        }
        let listed: HashSet<&str> = listed.iter().map(|l| l.id.as_str()).collect();
        let mut missing = Vec::new();
        for id in served {
            if !listed.contains(id.as_str()) {
                missing.push(self.written(&Locator { id, path: None, parent: None }));
            }
        }
        missing
    }

    /// Finds the record of a session. After an incomplete search a missing record may be hidden.
    pub(super) fn written(&mut self, locator: &Locator) -> Locator {
        let found = written(self.store, locator);
        if found.rows.is_empty() && !found.whole {
            self.hidden.push(locator.id.clone());
        }
        self.faults.extend(found.faults);
        found.rows.into_iter().next().unwrap_or_else(|| locator.clone())
    }

    pub(super) fn admit_hidden(&self, locator: &Locator, mut record: Record) -> Record {
        if self.hidden.contains(&locator.id) {
            record.turn =
                Turn::Unreadable("its record may be in a place that could not be read".into());
        }
        record
    }

    /// Reads one session. The status of a subagent depends on the process of its parent.
    pub(super) fn add_one(&mut self, locator: &Locator, depth: Depth) {
        let locator = self.written(locator);
        let record = self.store.record(&locator, depth);
        if record.absent {
            return;
        }
        self.turns = record.turns;
        let Some(parent) = record.parent.clone() else {
            return self.push(locator, record);
        };
        let parent = self.written(&Locator { id: parent, path: None, parent: None });
        let above = join(&self.view, &parent, self.store.record(&parent, Depth::Outline), None);
        let session = verdict::child(&self.view, &above, &locator, record);
        self.push_row(locator, session, Confirm::No);
    }

    fn push_row(&mut self, locator: Locator, mut session: Session, confirm: Confirm) {
        add_branch_group(&mut session, &mut self.branches);
        let number = self.pushed;
        self.pushed += 1;
        if !self.packs || !matches!(confirm, Confirm::No) {
            self.rows.push(Row { locator, session, confirm, number });
        } else if is_since(&session, self.since) {
            self.packed.push((number, self.packer.pack(&session)));
        }
    }

    /// Reads these records and decides about each.
    pub(super) fn add(&mut self, locators: Vec<Locator>, depth: Depth) {
        if self.packs {
            self.packed.reserve_exact(locators.len());
        } else {
            self.rows.reserve(locators.len());
        }
        let mut locators = locators.into_iter();
        while !locators.as_slice().is_empty() {
            let some = &locators.as_slice()[..locators.len().min(READ_AT_ONCE)];
            let records = read_all(self.store, some, depth, self.look.deadline);
            for record in records.into_iter().flatten() {
                match (locators.next(), record) {
                    (Some(locator), Some(record)) => self.push(locator, record),
                    _ => return self.out_of_time(),
                }
            }
        }
    }

    /// Records that the deadline passed before everything was read. The caller waits no longer, so the
    /// thread ends.
    pub(super) fn out_of_time(&mut self) {
        let message = "not every session could be read in time; some are missing".to_owned();
        let fault =
            crate::adapters::fault(self.adapter.name(), self.root, FaultCode::Timeout, message);
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.look.deadline
    }

    pub(super) fn push(&mut self, locator: Locator, record: Record) {
        // A subagent is listed below its parent, wherever its record lies.
        if record.parent.is_some() || record.absent {
            return;
        }
        let record = self.admit_hidden(&locator, record);
        if let Turn::Unreadable(why) = &record.turn {
            let message = format!("the record of {} could not be read: {why}", locator.id);
            self.faults.push(crate::adapters::fault(
                self.adapter.name(),
                self.root,
                FaultCode::Unreadable,
                message,
            ));
        }
        let open = matches!(record.turn, Turn::Open { .. });
        let served = self.view.serves(&locator.id);
        let child = if served { self.store.open_child(&locator) } else { None };
        let doubtful = match open && !served {
            true if self.kept < MAX_KEPT_RECORDS => Confirm::With(Box::new(record.clone())),
            true => Confirm::Again,
            false => Confirm::No,
        };
        let mut session = join(&self.view, &locator, record, child.as_ref());
        let confirm = if session.status.is_live() { Confirm::No } else { doubtful };
        self.kept += usize::from(matches!(confirm, Confirm::With(_)));
        if self.for_table {
            leave_for_table(&mut session);
        }
        self.push_row(locator, session, confirm);
    }

    /// Adds the processes without a session. A process that may serve a listed session is unknown.
    pub(super) fn add_unjoined(&mut self, wanted: impl Fn(&Served) -> bool) {
        let unjoined: Vec<&Served> = self.view.unjoined().filter(|s| wanted(s)).collect();
        let mut may_serve: Vec<Vec<(usize, String)>> = vec![Vec::new(); unjoined.len()];
        let mut consider = |number: usize, session: &Session| {
            for (served, ids) in unjoined.iter().zip(&mut may_serve) {
                if self.view.may_serve(served, session) {
                    ids.extend(session.id.clone().map(|id| (number, id)));
                }
            }
        };
        if unjoined.iter().any(|served| served.may_serve) {
            self.rows.iter().for_each(|row| consider(row.number, &row.session));
            self.packed.iter().for_each(|(number, row)| consider(*number, &row.unpack()));
        }
        let mut sessions = Vec::new();
        for (served, mut ids) in unjoined.into_iter().zip(may_serve) {
            ids.sort_unstable();
            let ids: Vec<&str> = ids.iter().map(|(_, id)| id.as_str()).collect();
            sessions.push(verdict::process_row(&self.view, served, &ids));
        }
        for session in sessions {
            let (locator, number) =
                (Locator { id: String::new(), path: None, parent: None }, self.pushed);
            self.pushed += 1;
            self.rows.push(Row { locator, session, confirm: Confirm::No, number });
        }
    }

    /// Looks again at sessions with an open turn and no process: the process may have started or exited
    /// during the look. The processes are read first, then the record.
    pub(super) fn confirm(&mut self) {
        if self.rows.iter().all(|row| matches!(row.confirm, Confirm::No)) {
            return;
        }
        let adapter = self.adapter;
        let left = self.look.deadline.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / 2;
        let table = self.look.host.kernel.table(until, move |brief| adapter.is_candidate(brief));
        let look = Look { table: Arc::new(table), now: self.look.host.now(), ..self.look.clone() };
        let store = self.adapter.store(&look, self.root);
        let live = store.live();
        self.faults.extend(live.faults.iter().cloned());
        let view = View::new(self.adapter.name(), self.root, &look, live);
        for row in &mut self.rows {
            let before = match std::mem::replace(&mut row.confirm, Confirm::No) {
                Confirm::No => continue,
                Confirm::With(record) => Some(record),
                Confirm::Again => None,
            };
            if Instant::now() >= look.deadline {
                // There is no time for the second look, so the first verdict is not confirmed.
                verdict::changed_during_look(&mut row.session);
                continue;
            }
            let depth = if row.session.tokens.is_some() { Depth::Whole } else { Depth::Outline };
            let record = match before.filter(|before| before.is_unchanged(&row.locator)) {
                Some(before) => *before,
                None => store.record(&row.locator, depth),
            };
            let open = matches!(record.turn, Turn::Open { .. });
            let changed = record.last_activity_at != row.session.last_activity_at;
            let group = row.session.group.take();
            let served = view.serves(&row.locator.id);
            let child = if served { store.open_child(&row.locator) } else { None };
            row.session = Session { group, ..join(&view, &row.locator, record, child.as_ref()) };
            if self.for_table {
                leave_for_table(&mut row.session);
            }
            if open && changed && !row.session.status.is_live() {
                verdict::changed_during_look(&mut row.session);
            }
        }
        self.view = view;
    }

    /// Looks at these rows again. The row of a process without a session stays as it is.
    pub(super) fn confirm_these(&mut self, wanted: &[bool]) {
        for (row, _) in self.rows.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted) {
            if !row.locator.id.is_empty() {
                row.confirm = Confirm::Again;
            }
        }
        self.confirm();
    }

    pub(super) fn finish(mut self, found: &mut Found<Packed>) {
        self.confirm();
        if self.children {
            self.add_children();
        }
        let mut packed = self.packed;
        for row in self.rows {
            packed.push((row.number, self.packer.pack(&row.session)));
        }
        packed.sort_by_key(|(number, _)| *number);
        // `collect` reuses the memory of the rows.
        append(&mut found.rows, packed.into_iter().map(|(_, row)| row).collect());
        found.faults.extend(self.faults);
    }

    pub(super) fn add_children(&mut self) {
        let mut known: HashSet<String> = self.rows.iter().map(|r| r.locator.id.clone()).collect();
        let mut index = 0;
        while index < self.rows.len() {
            if self.is_late() {
                return self.out_of_time();
            }
            let parent = self.rows[index].locator.clone();
            let children = self.store.children(&parent);
            self.faults.extend(children.faults);
            for child in children.rows {
                if !known.insert(child.id.clone()) {
                    continue;
                }
                let mut record = self.store.record(&child, Depth::Outline);
                record.parent = Some(parent.id.clone());
                let mut session =
                    verdict::child(&self.view, &self.rows[index].session, &child, record);
                if self.for_table {
                    leave_for_table(&mut session);
                }
                self.push_row(child, session, Confirm::No);
            }
            index += 1;
        }
    }
}

/// Says whether a list that begins at this time (milliseconds) shows a session.
fn is_since(session: &Session, since: Option<i64>) -> bool {
    let Some(since) = since else { return true };
    session.status.is_live() || session.last_activity_at.is_none_or(|t| t.millis() >= since)
}

/// Clears the fields that neither a table nor its filters use.
fn leave_for_table(session: &mut Session) {
    (session.evidence, session.notes) = (Vec::new(), Vec::new());
    (session.prompt, session.model, session.native_key) = (None, None, None);
}

/// Appends rows. An empty list takes the rows without a copy; many rows are moved in pieces, and their old
/// memory is freed piece by piece.
pub(super) fn append<T>(all: &mut Vec<T>, mut more: Vec<T>) {
    const PIECE: usize = 4096;
    if all.is_empty() {
        *all = more;
        return;
    }
    all.reserve_exact(more.len());
    let from = all.len();
    while more.len() > PIECE {
        all.extend(more.drain(more.len() - PIECE..).rev());
        more.shrink_to_fit();
    }
    all.extend(more.into_iter().rev());
    all[from..].reverse();
}

/// Finds the record of a session that a live source named.
pub(crate) fn written(store: &dyn Store, locator: &Locator) -> Found<Locator> {
    if locator.path.is_some() {
        return Found { rows: vec![locator.clone()], ..Found::default() };
    }
    let mut found = store.find(&locator.id);
    found.rows.retain(|l| l.id == locator.id);
    found
}

/// Reads many records on as many threads as there are cores; order is kept, thread after thread. A record
/// that has not been read when the deadline passes is `None`, and no later one is read.
fn read_all(
    store: &dyn Store,
    locators: &[Locator],
    depth: Depth,
    until: Instant,
) -> Vec<Vec<Option<Record>>> {
    let read = |chunk: &[Locator]| -> Vec<Option<Record>> {
        let record = |l| (Instant::now() < until).then(|| store.record(l, depth));
        chunk.iter().map(record).collect()
    };
    // The number of cores is read from a dozen files, which pays only for many records.
    let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let threads = if locators.len() < 64 { 1 } else { cores() };
    if threads == 1 {
        return vec![read(locators)];
    }
    let share = locators.len().div_ceil(threads);
    let left = home_limit::left();
    let read = |chunk: &[Locator]| {
        deadline::set(until);
        let _limit = home_limit::set(left);
        read(chunk)
    };
    std::thread::scope(|scope| {
        let read = &read;
        let workers: Vec<_> =
            locators.chunks(share).map(|chunk| scope.spawn(move || read(chunk))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn rows_are_appended_in_their_order() {
        let mut all = vec![0; 3];
        append(&mut all, (1..10_001).collect());
        assert_eq!(all[3..], (1..10_001).collect::<Vec<i32>>());
    }
}
