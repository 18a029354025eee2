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

use std::borrow::Borrow;
use std::collections::HashSet;
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
use crate::kernel::Table;
use crate::model::{Fault, Listing, Locator, ReasonKind, SCHEMA_VERSION, Session, Status, Target};

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
    let wanted = |brief: crate::kernel::Brief<'_>| is_candidate(adapters, brief);
    Look {
        host: Arc::clone(host),
        table: Arc::new(host.kernel.table(&wanted)),
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
    let mut sessions: Vec<Session> = sessions.into_iter().map(|session| *session).collect();
    add_launches(host, adapters, &mut sessions);
    sessions.retain(|s| s.parent.is_some() || wanted.admits(s));
    let mut faults = found.faults;
    faults.sort();
    faults.dedup();
    Listing { schema_version: SCHEMA_VERSION, sessions, faults }
}

/// Orders rows as the contract says, subagents right after their parent.
fn sort<S: Borrow<Session>>(sessions: &mut Vec<S>) {
    let newest = |s: &Session| std::cmp::Reverse(s.last_activity_at.or(s.started_at));
    sessions.sort_by(|a, b| {
        let (a, b) = (a.borrow(), b.borrow());
        (a.status, newest(a), &a.id, a.pid).cmp(&(b.status, newest(b), &b.id, b.pid))
    });
    if sessions.iter().all(|s| s.borrow().parent.is_none()) {
        return;
    }
    let (children, top): (Vec<_>, Vec<_>) =
        std::mem::take(sessions).into_iter().partition(|s| s.borrow().parent.is_some());
    let mut children: Vec<Option<S>> = children.into_iter().map(Some).collect();
    for parent in top {
        let id = parent.borrow().id.clone();
        sessions.push(parent);
        append_children(id.as_deref(), &mut children, sessions);
    }
    // A subagent whose parent is not shown is shown all the same.
    sessions.extend(children.into_iter().flatten());
}

fn append_children<S: Borrow<Session>>(
    parent: Option<&str>,
    pool: &mut [Option<S>],
    out: &mut Vec<S>,
) {
    for index in 0..pool.len() {
        let is_child = pool[index].as_ref().is_some_and(|s| s.borrow().parent.as_deref() == parent);
        if let Some(child) = is_child.then(|| pool[index].take()).flatten() {
            let id = child.borrow().id.clone();
            out.push(child);
            append_children(id.as_deref(), pool, out);
        }
    }
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
    add_launches(host, adapters, session.as_deref_mut().map_or(&mut [], std::slice::from_mut));
    Inspected { session: session.map(|session| *session), faults: found.faults }
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
                if all.rows.is_empty() {
                    all.rows = found.rows;
                } else {
                    all.rows.extend(found.rows);
                }
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

/// Puts a question to every home of an adapter at once: one that is slow costs the others nothing.
pub(crate) fn each_root<T: Send>(
    adapter: &'static dyn Adapter,
    look: &Look,
    question: impl Fn(&Root) -> Found<T> + Sync,
) -> Found<T> {
    let roots = adapter.roots(look);
    let answers: Vec<Found<T>> = match roots.as_slice() {
        [] => Vec::new(),
        [only] => vec![question(only)],
        several => std::thread::scope(|scope| {
            let question = &question;
            let asked: Vec<_> =
                several.iter().map(|root| scope.spawn(move || question(root))).collect();
            let heard = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
            heard.map(|h| h.unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
        }),
    };
    let mut all = Found::default();
    for found in answers {
        all.rows.extend(found.rows);
        all.faults.extend(found.faults);
        all.whole &= found.whole;
    }
    all
}

fn list_adapter(adapter: &'static dyn Adapter, look: &Look, query: &Query) -> Found<Box<Session>> {
    each_root(adapter, look, |root| {
        let mut found = Found::default();
        let store = adapter.store(look, root);
        let history = query.history.map(|since| store.history(since));
        let live = store.live();
        let mut question = Question::new(adapter, look, root, store.as_ref(), live);
        question.children = query.children;
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
    rows: Vec<Row>,
    /// Sessions whose record may lie where we could not look.
    hidden: Vec<String>,
    faults: Vec<Fault>,
}

struct Row {
    locator: Locator,
    /// There may be ten thousand, and they are large: what is moved is the place where it stands.
    session: Box<Session>,
    /// The record says a turn is open and nobody serves it: look again before saying so.
    confirm: Option<Box<Record>>,
}

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
            rows: Vec::new(),
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
        let session = join::child(&self.view, &above, &locator, record).into();
        self.rows.push(Row { locator, session, confirm: None });
    }

    /// Reads these records and decides about each.
    fn add(&mut self, locators: Vec<Locator>, depth: Depth) {
        let records = read_all(self.store, &locators, depth);
        self.rows.reserve(locators.len());
        for (locator, record) in locators.into_iter().zip(records.into_iter().flatten()) {
            self.push(locator, record);
        }
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
        let doubtful = (open && !served).then(|| Box::new(record.clone()));
        let session = Box::new(join(&self.view, &locator, record, child.as_ref()));
        let confirm = doubtful.filter(|_| !session.status.is_live());
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
            let session = self.view.process_row(served, &may_serve).into();
            let locator = Locator { id: String::new(), path: None, parent: None };
            rows.push(Row { locator, session, confirm: None });
        }
        self.rows.extend(rows);
    }

    /// "Nobody serves it, yet its turn is open" may only mean that it ended, or began, while we
    /// looked. So look once more: at the living first, then at the record.
    fn confirm(&mut self) {
        if self.rows.iter().all(|row| row.confirm.is_none()) {
            return;
        }
        let wanted = |brief: crate::kernel::Brief<'_>| self.adapter.is_candidate(brief);
        let table: Table = self.look.host.kernel.table(&wanted);
        let look = Look { table: Arc::new(table), now: self.look.host.now(), ..self.look.clone() };
        let store = self.adapter.store(&look, self.root);
        let live = store.live();
        self.faults.extend(live.faults.iter().cloned());
        let view = View::new(self.adapter.name(), self.root, &look, live);
        for row in &mut self.rows {
            let Some(before) = row.confirm.take() else { continue };
            let depth = if row.session.tokens.is_some() { Depth::Whole } else { Depth::Outline };
            let record = if before.is_unchanged(&row.locator) {
                *before
            } else {
                store.record(&row.locator, depth)
            };
            let open = matches!(record.turn, Turn::Open { .. });
            let changed = record.last_activity_at != row.session.last_activity_at;
            *row.session = join(&view, &row.locator, record, None);
            if open && changed && !row.session.status.is_live() {
                join::changed_under_us(&mut row.session);
            }
        }
        self.view = view;
    }

    fn finish(mut self, found: &mut Found<Box<Session>>) {
        self.confirm();
        if self.children {
            self.add_children();
        }
        found.rows.extend(self.rows.into_iter().map(|row| row.session));
        found.faults.extend(self.faults);
    }

    fn add_children(&mut self) {
        let mut known: HashSet<String> = self.rows.iter().map(|r| r.locator.id.clone()).collect();
        let mut index = 0;
        while index < self.rows.len() {
            let parent = self.rows[index].locator.clone();
            let children = self.store.children(&parent);
            self.faults.extend(children.faults);
            for child in children.rows {
                if !known.insert(child.id.clone()) {
                    continue;
                }
                let mut record = self.store.record(&child, Depth::Outline);
                record.parent = Some(parent.id.clone());
                let session = join::child(&self.view, &self.rows[index].session, &child, record);
                let session = session.into();
                self.rows.push(Row { locator: child, session, confirm: None });
            }
            index += 1;
        }
    }
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

/// Reads many records on as many threads as there are cores; order is kept, thread after thread.
fn read_all(store: &dyn Store, locators: &[Locator], depth: Depth) -> Vec<Vec<Record>> {
    // Asking how many cores there are means reading a dozen files: only for many records.
    let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let threads = if locators.len() < 64 { 1 } else { cores() };
    if threads == 1 {
        return vec![locators.iter().map(|l| store.record(l, depth)).collect()];
    }
    let share = locators.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = locators
            .chunks(share)
            .map(|chunk| {
                scope
                    .spawn(move || chunk.iter().map(|l| store.record(l, depth)).collect::<Vec<_>>())
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    })
}
