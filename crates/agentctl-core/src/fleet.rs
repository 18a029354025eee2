//! Asks every adapter at once, joins what their files say with what the kernel says, and decides.
//!
//! Every face gets its verdicts from [`list`] and [`inspect`], which end in the same [`join`]; so they
//! cannot disagree. An adapter that errs, panics or hangs costs its own rows and becomes a fault. No
//! agent is named here.

mod given_up;
mod join;
mod launched;
mod observe;
mod survey;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use given_up::Ticket;
pub use join::{View, join};
pub use launched::{Launch, Launches, add as add_launches, session_of};
pub use observe::{Observation, Observed, Signs, forgotten, observe};
pub use survey::{Survey, survey};

use crate::adapters::{Adapter, Depth, Found, Look, Record, Root, Served, Store, Turn};
use crate::host::Host;
use crate::model::{
    Fault, Listing, Locator, ReasonKind, SCHEMA_VERSION, Session, Status, Target, shorten,
};
use crate::native::deadline;

/// The adapters a question is put to.
pub type Adapters = &'static [&'static dyn Adapter];

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Add ended sessions written since then (milliseconds); `Some(None)` for all history.
    pub history: Option<Option<i64>>,
    /// Only this adapter.
    pub adapter: Option<String>,
    /// Only these statuses.
    pub statuses: Vec<Status>,
    /// Only this group.
    pub group: Option<String>,
    /// Only this directory, links resolved.
    pub cwd: Option<String>,
    /// Add subagents, each after its parent.
    pub children: bool,
    /// Count what rests in a shared server as living.
    pub resting: bool,
    /// Leave out what a table does not show: of a hundred thousand sessions that is most of the memory.
    pub for_table: bool,
}

impl Query {
    fn admits(&self, session: &Session) -> bool {
        let rests = !self.resting && rests(session);
        (self.history.is_some() || (session.status.is_live() && !rests))
            && (self.statuses.is_empty() || self.statuses.contains(&session.status))
            && self.group.as_ref().is_none_or(|g| session.group.as_ref() == Some(g))
            && self.cwd.as_ref().is_none_or(|c| session.cwd.as_ref() == Some(c))
    }
}

/// Says whether a session rests in a shared server: it is history until somebody moves it.
#[must_use]
pub fn rests(session: &Session) -> bool {
    let at_work = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
    session.status == Status::Idle && session.hosted && !at_work
}

/// Says whether one of these adapters wants a closer look at a process. One that cannot tell gets it: a
/// process too many in the table does no harm.
pub(crate) fn is_candidate(adapters: Adapters, brief: crate::kernel::Brief<'_>) -> bool {
    let claims = |a: &&dyn Adapter| catch_unwind(AssertUnwindSafe(|| a.is_candidate(brief)));
    adapters.iter().any(|a| claims(a).unwrap_or(true))
}

/// Takes one look at the process table for these adapters.
#[must_use]
pub fn look(host: &Arc<Host>, adapters: Adapters, limit: Duration) -> Look {
    let deadline = Instant::now() + limit;
    let wanted = move |brief: crate::kernel::Brief<'_>| is_candidate(adapters, brief);
    Look {
        host: Arc::clone(host),
        // The adapters need the other half.
        table: Arc::new(host.kernel.table(Instant::now() + limit / 2, wanted)),
        deadline,
        now: host.now(),
    }
}

/// Lists sessions: what lives, and on request what has ended.
#[must_use]
pub fn list(host: &Arc<Host>, adapters: Adapters, query: &Query) -> Listing {
    let limit = if query.history.is_some() { host.deadlines.all } else { host.deadlines.live };
    let query = Arc::new(query.clone());
    let wanted = Arc::clone(&query);
    let found = each_adapter(host, adapters, limit, move |adapter, look| {
        if query.adapter.as_deref().is_some_and(|only| only != adapter.name()) {
            return Found::default();
        }
        list_adapter(adapter, look, &query)
    });
    let mut sessions = found.rows;
    sort(&mut sessions);
    add_launches(host, adapters, &mut sessions);
    sessions.retain(|s| s.parent.is_some() || wanted.admits(s));
    let mut faults = found.faults;
    faults.sort();
    faults.dedup();
    Listing { schema_version: SCHEMA_VERSION, sessions, faults }
}

/// Orders rows as the contract says, subagents right after their parent. Rows are large and may be a hundred
/// thousand, so their places are ordered first, and then each row is moved once.
fn sort(sessions: &mut [Session]) {
    let mut places: Vec<usize> = (0..sessions.len()).collect();
    places.sort_by(|a, b| order(&sessions[*a], &sessions[*b]));
    if sessions.iter().any(|s| s.parent.is_some()) {
        places = below_their_parents(sessions, &places);
    }
    put_in_order(sessions, places);
}

/// Puts the places of subagents right behind the place of their parent.
fn below_their_parents(sessions: &[Session], places: &[usize]) -> Vec<usize> {
    // Subagents by their parent, last first: they are taken from the end.
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut pending = Vec::new();
    for place in places.iter().rev() {
        match &sessions[*place].parent {
            Some(parent) => below.entry(parent).or_default().push(*place),
            None => pending.push(*place),
        }
    }
    // Subagents of subagents may be many generations: they are walked, never recursed into.
    let mut ordered = Vec::with_capacity(places.len());
    while let Some(place) = pending.pop() {
        ordered.push(place);
        let children = sessions[place].id.as_deref().and_then(|id| below.remove(id));
        pending.extend(children.into_iter().flatten());
    }
    // A subagent whose parent is not shown is shown all the same.
    let mut rest: Vec<usize> = below.into_values().flatten().collect();
    rest.sort_by(|a, b| order(&sessions[*a], &sessions[*b]));
    ordered.extend(rest);
    ordered
}

/// Moves each row to its place: the first place in the list is that of the row which is to be first.
fn put_in_order(sessions: &mut [Session], mut places: Vec<usize>) {
    for first in 0..places.len() {
        let mut at = first;
        while places[at] != first {
            let from = places[at];
            sessions.swap(at, from);
            places[at] = at;
            at = from;
        }
        places[at] = at;
    }
}

/// The order of the contract: what needs a person first, then the newest.
fn order(a: &Session, b: &Session) -> std::cmp::Ordering {
    let newest = |s: &Session| std::cmp::Reverse(s.last_activity_at.or(s.started_at));
    (a.status, newest(a), &a.id, a.pid).cmp(&(b.status, newest(b), &b.id, b.pid))
}

/// One session in full, and what went wrong on the way.
#[derive(Debug)]
pub struct Inspected {
    /// The session; `None` when no source knows it (any more).
    pub session: Option<Session>,
    /// What failed.
    pub faults: Vec<Fault>,
}

/// Looks at one session in full, subagents' tokens included.
#[must_use]
pub fn inspect(host: &Arc<Host>, adapters: Adapters, target: &Target) -> Inspected {
    let wanted = target.clone();
    let mut found = each_adapter(host, adapters, host.deadlines.all, move |adapter, look| {
        let mut found = Found::default();
        if adapter.name() != wanted.adapter {
            return found;
        }
        let mut roots = adapter.roots(look);
        roots.retain(|r| r.label() == wanted.root);
        if roots.is_empty() {
            // A home that only a live process named is where it was when that process has gone.
            roots.push(Root::named_only_by(wanted.root.clone().into(), Vec::new()));
        }
        for root in &roots {
            let store = adapter.store(look, root);
            let live = store.live();
            let mut question = Question::new(adapter, look, root, store.as_ref(), live);
            match &wanted.session {
                Some(locator) => question.add_one(locator, Depth::Whole),
                None => {
                    let locators = question.possibly_served();
                    question.add(locators, Depth::Outline);
                    question.add_unjoined(|s| s.by.iter().any(|p| Some(p.pid) == wanted.pid));
                    question.rows.retain(|row| row.session.id.is_none());
                }
            }
            question.finish(&mut found);
        }
        found
    });
    let mut session = found.rows.pop();
    add_launches(host, adapters, session.as_mut().map_or(&mut [], std::slice::from_mut));
    Inspected { session, faults: found.faults }
}

/// So many threads of one adapter may hang in reads that cannot be cancelled; then it is not asked any
/// more.
const GIVEN_UP_MOST: usize = 8;

/// Puts a question to every adapter on a thread of its own; the late, the broken and the panicking
/// become faults.
pub fn each_adapter<T: Send + 'static>(
    host: &Arc<Host>,
    adapters: Adapters,
    limit: Duration,
    question: impl Fn(&'static dyn Adapter, &Look) -> Found<T> + Send + Sync + 'static,
) -> Found<T> {
    let look = look(host, adapters, limit);
    let deadline = look.deadline;
    let question = Arc::new(question);
    let (sender, answers) = channel();
    let mut all = Found::default();
    all.faults.extend(unread(&look));
    let mut pending: Vec<(&'static str, Ticket)> = Vec::new();
    for &adapter in adapters {
        let count = given_up::count_of(adapter.name());
        if count.load(Ordering::SeqCst) >= GIVEN_UP_MOST {
            let why = "too many earlier questions still hang";
            all.faults.push(whole_fault(adapter.name(), "was not asked", why));
            continue;
        }
        let (sender, question, look) = (sender.clone(), Arc::clone(&question), look.clone());
        let ticket = Ticket::new(count);
        let ending = ticket.clone();
        let thread = std::thread::Builder::new().name(adapter.name().to_owned());
        let spawned = thread.spawn(move || {
            deadline::set(look.deadline);
            let answer = catch_unwind(AssertUnwindSafe(|| question(adapter, &look)));
            // Nobody listens any more when the answer comes too late.
            let _too_late = sender.send((adapter.name(), answer));
            ending.end();
        });
        match spawned {
            Ok(_) => pending.push((adapter.name(), ticket)),
            Err(error) => {
                all.faults.push(whole_fault(adapter.name(), "failed", &error.to_string()));
            }
        }
    }
    drop(sender);
    while !pending.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((name, answer)) = answers.recv_timeout(left) else { break };
        pending.retain(|(asked, _)| *asked != name);
        match answer {
            Ok(found) => {
                append(&mut all.rows, found.rows);
                all.faults.extend(found.faults);
                all.whole &= found.whole;
            }
            Err(panic) => {
                all.faults.push(whole_fault(name, "panicked", &panic_text(panic.as_ref())));
            }
        }
    }
    for (name, ticket) in pending {
        ticket.give_up();
        let message =
            format!("it did not answer within {} ms; its sessions are missing", limit.as_millis());
        all.faults.push(Fault { adapter: name, root: None, code: "timeout", message });
    }
    all.whole &= all.faults.is_empty();
    all
}

/// Says which processes could not be read in time: what they serve is missing, whoever asks.
fn unread(look: &Look) -> Option<Fault> {
    let gaps = look.table.gaps.join("; ");
    let message = format!("not every process could be looked at: {}", shorten(&gaps, 300));
    let root = Some("/proc".to_owned());
    let fault = Fault { adapter: crate::locks::SOURCE, root, code: "timeout", message };
    look.table.late.then_some(fault)
}

fn whole_fault(adapter: &'static str, code: &'static str, why: &str) -> Fault {
    let message = format!("it {code}: {why}; its sessions are missing");
    let code = if code.contains(' ') { "failed" } else { code };
    Fault { adapter, root: None, code, message }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into())
}

/// Does something that ends by itself when the deadline of the look has passed.
fn limited<T>(look: &Look, work: impl FnOnce() -> T) -> T {
    deadline::set(look.deadline);
    work()
}

/// Puts a question to every home of an adapter at once: one that is slow costs the others nothing.
pub(crate) fn each_root<T: Send>(
    adapter: &'static dyn Adapter,
    look: &Look,
    question: impl Fn(&Root) -> Found<T> + Sync,
) -> Found<T> {
    let (roots, left_out) = bounded_roots(adapter, look);
    let answers: Vec<Found<T>> = match roots.as_slice() {
        [] => Vec::new(),
        [only] => vec![question(only)],
        several => std::thread::scope(|scope| {
            let question = &question;
            let asked: Vec<_> = several
                .iter()
                .map(|root| scope.spawn(move || limited(look, || question(root))))
                .collect();
            let heard = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
            heard.map(|h| h.unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
        }),
    };
    let mut all = Found::default();
    if let Some(fault) = left_out {
        all.faults.push(fault);
        all.whole = false;
    }
    for found in answers {
        append(&mut all.rows, found.rows);
        all.faults.extend(found.faults);
        all.whole &= found.whole;
    }
    all
}

/// More homes that only processes name are not looked at: each costs a look at every process.
const NAMED_HOMES_MOST: usize = 64;

/// Returns the homes of an adapter. Of those that only processes name, the ones with the oldest processes
/// are kept, so that a crowd of new processes hides none that was there before.
fn bounded_roots(adapter: &'static dyn Adapter, look: &Look) -> (Vec<Root>, Option<Fault>) {
    let (mut roots, mut named): (Vec<Root>, Vec<Root>) =
        adapter.roots(look).into_iter().partition(Root::is_known);
    if named.len() <= NAMED_HOMES_MOST {
        roots.append(&mut named);
        return (roots, None);
    }
    named.sort_by_key(|root| root.named_by.iter().map(|id| (id.start_ticks, id.pid)).min());
    let many = named.len();
    named.truncate(NAMED_HOMES_MOST);
    roots.append(&mut named);
    let message = format!(
        "its processes name {many} homes that are not configured; only {NAMED_HOMES_MOST} of them were \
         looked at (add the others to [roots])"
    );
    (roots, Some(Fault { adapter: adapter.name(), root: None, code: "skipped", message }))
}

/// Asks one adapter for its homes, on a thread that is given up when it does not answer.
pub fn roots_of(
    host: &Arc<Host>,
    adapters: Adapters,
    adapter: &str,
    limit: Duration,
) -> Found<Root> {
    let Some(at) = adapters.iter().position(|a| a.name() == adapter) else {
        return Found::default();
    };
    each_adapter(host, &adapters[at..=at], limit, |adapter, look| Found {
        rows: adapter.roots(look),
        ..Found::default()
    })
}

fn list_adapter(adapter: &'static dyn Adapter, look: &Look, query: &Query) -> Found<Session> {
    each_root(adapter, look, |root| {
        let mut found = Found::default();
        let store = adapter.store(look, root);
        let history = query.history.map(|since| store.history(since));
        let live = store.live();
        let mut question = Question::new(adapter, look, root, store.as_ref(), live);
        (question.children, question.for_table) = (query.children, query.for_table);
        question.add_living(history);
        if let Some(Some(since)) = query.history {
            question.rows.retain(|row| {
                row.session.status.is_live()
                    || row.session.last_activity_at.is_none_or(|t| t.millis() >= since)
            });
        }
        question.add_unjoined(|_| true);
        question.finish(&mut found);
        found
    })
}

/// One home under question: who lives, what was read, what was decided.
struct Question<'a> {
    adapter: &'static dyn Adapter,
    look: &'a Look,
    root: &'a Root,
    store: &'a dyn Store,
    view: View,
    children: bool,
    for_table: bool,
    rows: Vec<Row>,
    /// How many records are kept until they are confirmed.
    kept: usize,
    /// Sessions whose record may lie where we could not look.
    hidden: Vec<String>,
    faults: Vec<Fault>,
}

struct Row {
    locator: Locator,
    session: Session,
    confirm: Confirm,
}

/// Whether a row is looked at again: its record says that a turn is open, and nobody serves it.
enum Confirm {
    No,
    /// With the record that was read.
    With(Box<Record>),
    /// The record is read again.
    Again,
}

/// So many records are kept until they are confirmed; the others are read again.
const KEPT_MOST: usize = 4096;
/// So many records are read before any of them is decided about: records are larger than rows.
const READ_AT_ONCE: usize = 4096;

impl<'a> Question<'a> {
    fn new(
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
            rows: Vec::new(),
            kept: 0,
            hidden: Vec::new(),
            faults,
        }
    }

    /// Reads what lives, and the history that is given.
    fn add_living(&mut self, history: Option<Found<Locator>>) {
        let locators = match history {
            Some(history) => self.take_history(history),
            None => self.possibly_served(),
        };
        let served = self.served_elsewhere_in_list(&locators);
        self.add(served, Depth::Outline);
        self.add(locators, Depth::Outline);
    }

    fn take_history(&mut self, history: Found<Locator>) -> Vec<Locator> {
        self.faults.extend(history.faults);
        history.rows
    }

    /// Sessions that a process without a record of its own may be serving.
    fn possibly_served(&mut self) -> Vec<Locator> {
        let Some(since) = self.view.oldest_unjoined_ms() else { return Vec::new() };
        let recent = self.store.history(Some(since));
        self.take_history(recent)
    }

    /// Sessions a live source names that are not among these.
    fn served_elsewhere_in_list(&mut self, listed: &[Locator]) -> Vec<Locator> {
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

    /// Finds where a record lies; where we could not look everywhere, it may be hidden there.
    fn written(&mut self, locator: &Locator) -> Locator {
        let found = written(self.store, locator);
        if found.rows.is_empty() && !found.whole {
            self.hidden.push(locator.id.clone());
        }
        self.faults.extend(found.faults);
        found.rows.into_iter().next().unwrap_or_else(|| locator.clone())
    }

    fn admit_hidden(&self, locator: &Locator, mut record: Record) -> Record {
        if self.hidden.contains(&locator.id) {
            record.turn = Turn::Unreadable("its record may lie where we could not look".into());
        }
        record
    }

    /// Reads one session; a subagent is judged by its parent's process.
    fn add_one(&mut self, locator: &Locator, depth: Depth) {
        let locator = self.written(locator);
        let record = self.store.record(&locator, depth);
        if record.absent {
            return;
        }
        let Some(parent) = record.parent.clone() else {
            return self.push(locator, record);
        };
        let parent = self.written(&Locator { id: parent, path: None, parent: None });
        let above = join(&self.view, &parent, self.store.record(&parent, Depth::Outline), None);
        let session = join::child(&self.view, &above, &locator, record);
        self.rows.push(Row { locator, session, confirm: Confirm::No });
    }

    /// Reads these records and decides about each.
    fn add(&mut self, locators: Vec<Locator>, depth: Depth) {
        self.rows.reserve(locators.len());
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

    /// Says that the deadline passed before everything was read. Whoever asked waits no longer, so the
    /// thread has nothing more to do than to end.
    fn out_of_time(&mut self) {
        let message = "not every session could be read in time; some are missing".to_owned();
        let fault = crate::adapters::fault(self.adapter.name(), self.root, "timeout", message);
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.look.deadline
    }

    fn push(&mut self, locator: Locator, record: Record) {
        // A subagent belongs under its parent, wherever its own record lies.
        if record.parent.is_some() || record.absent {
            return;
        }
        let record = self.admit_hidden(&locator, record);
        if let Turn::Unreadable(why) = &record.turn {
            let message = format!("the record of {} could not be read: {why}", locator.id);
            self.faults.push(crate::adapters::fault(
                self.adapter.name(),
                self.root,
                "unreadable",
                message,
            ));
        }
        let open = matches!(record.turn, Turn::Open { .. });
        let served = self.view.serves(&locator.id);
        let child = if served { self.store.open_child(&locator) } else { None };
        let doubtful = match open && !served {
            true if self.kept < KEPT_MOST => Confirm::With(Box::new(record.clone())),
            true => Confirm::Again,
            false => Confirm::No,
        };
        let mut session = join(&self.view, &locator, record, child.as_ref());
        let confirm = if session.status.is_live() { Confirm::No } else { doubtful };
        self.kept += usize::from(matches!(confirm, Confirm::With(_)));
        let mut locator = locator;
        if self.for_table {
            leave_for_table(&mut session);
            if matches!(confirm, Confirm::No) && !self.children {
                locator = Locator { id: String::new(), path: None, parent: None };
            }
        }
        self.rows.push(Row { locator, session, confirm });
    }

    /// Adds the processes without a session; one that may serve a session read above is unknown.
    fn add_unjoined(&mut self, wanted: impl Fn(&Served) -> bool) {
        let mut rows = Vec::new();
        for served in self.view.unjoined().filter(|s| wanted(s)) {
            let read = self.rows.iter().map(|row| &row.session);
            let may_serve: Vec<&str> = read
                .filter(|s| self.view.may_serve(served, s))
                .filter_map(|s| s.id.as_deref())
                .collect();
            let session = self.view.process_row(served, &may_serve);
            let locator = Locator { id: String::new(), path: None, parent: None };
            rows.push(Row { locator, session, confirm: Confirm::No });
        }
        self.rows.extend(rows);
    }

    /// "Nobody serves it, yet its turn is open" may only mean that it ended, or began, while we
    /// looked. So look once more: at the living first, then at the record.
    fn confirm(&mut self) {
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
                // What was said first rests on a look that was not taken again.
                join::changed_under_us(&mut row.session);
                continue;
            }
            let depth = if row.session.tokens.is_some() { Depth::Whole } else { Depth::Outline };
            let record = match before.filter(|before| before.is_unchanged(&row.locator)) {
                Some(before) => *before,
                None => store.record(&row.locator, depth),
            };
            let open = matches!(record.turn, Turn::Open { .. });
            let changed = record.last_activity_at != row.session.last_activity_at;
            row.session = join(&view, &row.locator, record, None);
            if self.for_table {
                leave_for_table(&mut row.session);
            }
            if open && changed && !row.session.status.is_live() {
                join::changed_under_us(&mut row.session);
            }
        }
        self.view = view;
    }

    fn finish(mut self, found: &mut Found<Session>) {
        self.confirm();
        if self.children {
            self.add_children();
        }
        // Collected in the memory of the rows themselves; nothing stands twice.
        let sessions: Vec<Session> = self.rows.into_iter().map(|row| row.session).collect();
        append(&mut found.rows, sessions);
        found.faults.extend(self.faults);
    }

    fn add_children(&mut self) {
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
                    join::child(&self.view, &self.rows[index].session, &child, record);
                if self.for_table {
                    leave_for_table(&mut session);
                }
                self.rows.push(Row { locator: child, session, confirm: Confirm::No });
            }
            index += 1;
        }
    }
}

/// Leaves of a session what a table shows, and what decides whether it is shown.
fn leave_for_table(session: &mut Session) {
    (session.evidence, session.notes) = (Vec::new(), Vec::new());
    (session.prompt, session.model, session.native_key) = (None, None, None);
}

/// Adds rows to others; where there are none yet nothing is moved. Many rows are moved piece by piece, and
/// their old memory is given back piece by piece.
fn append<T>(all: &mut Vec<T>, mut more: Vec<T>) {
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

/// Finds where a session's record lies, if a live source named it before it was written.
pub(crate) fn written(store: &dyn Store, locator: &Locator) -> Found<Locator> {
    if locator.path.is_some() {
        return Found { rows: vec![locator.clone()], ..Found::default() };
    }
    let mut found = store.find(&locator.id);
    found.rows.retain(|l| l.id == locator.id);
    found
}

/// Reads many records on as many threads as there are cores; order is kept, thread after thread. What has
/// not been read when the deadline passes is `None`, and nothing after it is read.
fn read_all(
    store: &dyn Store,
    locators: &[Locator],
    depth: Depth,
    deadline: Instant,
) -> Vec<Vec<Option<Record>>> {
    let read = |chunk: &[Locator]| -> Vec<Option<Record>> {
        let record = |l| (Instant::now() < deadline).then(|| store.record(l, depth));
        chunk.iter().map(record).collect()
    };
    // Asking how many cores there are means reading a dozen files: only for many records.
    let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let threads = if locators.len() < 64 { 1 } else { cores() };
    if threads == 1 {
        return vec![read(locators)];
    }
    let share = locators.len().div_ceil(threads);
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
    use super::*;

    fn session(view: &View, id: usize, parent: Option<usize>) -> Session {
        let parent = parent.map(|n| n.to_string());
        let locator = Locator { id: id.to_string(), path: None, parent };
        join(view, &locator, Record::default(), None)
    }

    fn view() -> View {
        let host = Host {
            home: "/".into(),
            cwd: "/".into(),
            program: "/".into(),
            env: std::collections::BTreeMap::new(),
            roots: std::collections::BTreeMap::new(),
            settings: std::collections::BTreeMap::new(),
            gateways: std::collections::BTreeMap::new(),
            kernel: crate::kernel::Kernel::open().expect("a kernel"),
            clock: || crate::model::Time::from_millis(0).expect("a time"),
            deadlines: crate::host::Deadlines::default(),
            memo: None,
        };
        let look = look(&Arc::new(host), &[], Duration::from_secs(1));
        View::new("any", &Root::known("/".into()), &look, Found::default())
    }

    /// S12: a chain of any length is put in order, on a thread with a small stack.
    #[test]
    fn a_chain_of_a_hundred_thousand_subagents_is_ordered() {
        const LENGTH: usize = 100_000;
        let view = view();
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let ordered = small.spawn(move || {
            // The last first, so that every row has to be moved.
            let chain = (0..LENGTH).rev().map(|n| session(&view, n, n.checked_sub(1)));
            let mut sessions: Vec<Session> = chain.collect();
            sort(&mut sessions);
            sessions.into_iter().filter_map(|s| s.id?.parse().ok()).collect::<Vec<usize>>()
        });
        let ordered = ordered.expect("started").join().expect("no overflow");
        assert_eq!(ordered, (0..LENGTH).collect::<Vec<_>>());
    }

    #[test]
    fn subagents_stand_below_their_parent_and_a_circle_is_shown_once() {
        let view = view();
        let families =
            [(1, None), (2, Some(1)), (3, None), (4, Some(2)), (5, Some(1)), (6, Some(9))];
        let circle = [(7, Some(8)), (8, Some(7))];
        let all = families.into_iter().chain(circle).rev();
        let mut sessions: Vec<Session> =
            all.map(|(id, parent)| session(&view, id, parent)).collect();
        sort(&mut sessions);
        let ids: Vec<&str> = sessions.iter().filter_map(|s| s.id.as_deref()).collect();
        assert_eq!(ids, ["1", "2", "4", "5", "3", "6", "7", "8"]);
    }

    #[test]
    fn rows_are_appended_in_their_order() {
        let mut all = vec![0; 3];
        append(&mut all, (1..10_001).collect());
        assert_eq!(all[3..], (1..10_001).collect::<Vec<i32>>());
    }
}
