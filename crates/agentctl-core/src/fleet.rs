//! Asks all adapters at once, joins the records in their files with the processes of the kernel, and decides
//! the status of each session.
//!
//! [`list`] and [`inspect`] end in the same [`join`], so no two commands can disagree. An adapter that
//! fails, panics or hangs loses its own rows and becomes a fault. No agent is named here.

mod abandoned_threads;
mod asks;
mod homes;
mod inspect_watched;
mod join;
mod launched;
mod list_watched;
mod order;
mod packed;
mod question;
mod short_ids;
mod tree;
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use abandoned_threads::Ticket;
pub use asks::{WaitingSession, asks, sort_asks};
pub(crate) use homes::{each_root, limited};
pub use inspect_watched::{NamedHome, Observation, Observed, WatchTargets, inspect_watched};
pub use join::View;
pub(crate) use launched::recorded_session;
pub use launched::{Launch, Launches, add as add_launches, session_of};
pub use list_watched::{WatchedList, list_watched};
use order::sort;
pub use packed::Rows;
pub(crate) use question::written;
use question::{OtherIds, Question, add_other_ids, append, list_adapter};
use short_ids::Typed;
pub use short_ids::unique_prefixes;
pub use verdict::{
    as_launched, as_run_ended, blank_session, exited, forgotten, join, unasked, undecided,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::adapters::{Adapter, Depth, Found, Look, Root, adapter_called};
use crate::host::Host;
use crate::kernel::{Cancellation, deadline};
use crate::model::{
    Fault, FaultCode, Listing, OWN_SOURCE, ReasonKind, Session, Status, Target, shorten,
};
use crate::names::Names;

/// The adapters that are asked.
pub type Adapters = &'static [&'static dyn Adapter];

/// The agents of one host: the host that is looked at, and the adapters that are asked.
#[derive(Clone)]
pub struct Fleet {
    /// The host that is looked at.
    pub host: Arc<Host>,
    /// The adapters that are asked.
    pub adapters: Adapters,
    /// Calls off what this fleet is making.
    pub cancellation: Cancellation,
}

impl Fleet {
    /// Asks these adapters about this host.
    #[must_use]
    pub fn new(host: Arc<Host>, adapters: Adapters) -> Self {
        Self { host, adapters, cancellation: Cancellation::default() }
    }

    /// Returns the adapter of this name or alias.
    #[must_use]
    pub fn adapter(&self, name: &str) -> Option<&'static dyn Adapter> {
        adapter_called(self.adapters, name)
    }

    /// Returns the same fleet with the adapter of this name only: no other agent's processes are read.
    #[must_use]
    pub fn only(&self, name: &str) -> Option<Self> {
        let at = self.adapters.iter().position(|adapter| adapter.name() == name)?;
        Some(Self::new(Arc::clone(&self.host), &self.adapters[at..=at]))
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let adapters: Vec<&str> = self.adapters.iter().map(|adapter| adapter.name()).collect();
        f.debug_struct("Fleet")
            .field("host", &self.host)
            .field("adapters", &adapters)
            .finish_non_exhaustive()
    }
}

/// The filter of a list; also the parameters of `session.list` on the daemon's socket.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// Add ended sessions.
    pub all: bool,
    /// With `all`: only those written since then, in milliseconds since 1970; `None` for all history.
    pub since_ms: Option<i64>,
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
    /// Add sessions that rest in a shared server.
    #[serde(skip)]
    pub resting: bool,
    /// Leave out fields that a table does not show: they are most of the memory of 100 000 sessions.
    pub for_table: bool,
    /// Decide how much of each id a table shows, which needs the ids of all history.
    pub short_ids: bool,
}

impl Query {
    /// Returns the sessions of a look at everything that lives that this query admits. The look has read neither
    /// history nor subagents, so a query for these needs a list of its own.
    #[must_use]
    pub fn select(&self, listing: Listing) -> Rows {
        let asks = |adapter: &str| self.adapter.as_deref().is_none_or(|only| only == adapter);
        let Listing { sessions, mut faults, .. } = listing;
        faults.retain(|fault| asks(fault.adapter) || fault.adapter == OWN_SOURCE);
        // Ids are shortened against all sessions of the look.
        let mut rows = Rows::of(&sessions);
        let admits = |s: Session| asks(s.adapter) && (s.parent.is_some() || self.admits(&s));
        rows.packed.retain(|row| admits(row.unpack()));
        rows.faults = faults;
        rows
    }

    /// Says whether the ids of a table must be unique over all history: it shows ended sessions or subagents.
    fn needs_all_ids(&self) -> bool {
        self.short_ids && (self.all || self.children)
    }

    /// Says whether every session of the history is wanted.
    fn admits_all(&self) -> bool {
        self.all && self.statuses.is_empty() && self.group.is_none() && self.cwd.is_none()
    }

    fn admits(&self, session: &Session) -> bool {
        let rests = !self.resting && rests(session);
        (self.all || (session.status.is_live() && !rests))
            && (self.statuses.is_empty() || self.statuses.contains(&session.status))
            && self.group.as_ref().is_none_or(|g| session.group.as_ref() == Some(g))
            && self.cwd.as_ref().is_none_or(|c| session.cwd.as_ref() == Some(c))
    }
}

/// Says whether a session rests in a shared server: it is history until it is continued.
#[must_use]
pub fn rests(session: &Session) -> bool {
    let at_work = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
    session.status == Status::Idle && session.hosted && !at_work
}

/// Says whether one of these adapters wants the details of a process. An adapter that panics gets them: an
/// additional process in the table does no harm.
pub(crate) fn is_candidate(adapters: Adapters, brief: crate::kernel::Brief<'_>) -> bool {
    let claims = |a: &&dyn Adapter| catch_unwind(AssertUnwindSafe(|| a.is_candidate(brief)));
    adapters.iter().any(|a| claims(a).unwrap_or(true))
}

/// Takes one look at the process table for these adapters.
#[must_use]
pub fn look(fleet: &Fleet, limit: Duration) -> Look {
    let deadline = Instant::now() + limit;
    let adapters = fleet.adapters;
    let wanted = move |brief: crate::kernel::Brief<'_>| is_candidate(adapters, brief);
    Look {
        host: Arc::clone(&fleet.host),
        // The other half of the time is for the adapters.
        table: Arc::new(fleet.host.kernel.table(Instant::now() + limit / 2, wanted)),
        deadline,
        now: fleet.host.now(),
    }
}

/// Lists the live sessions, and on request ended ones.
#[must_use]
pub fn list(fleet: &Fleet, query: &Query) -> Listing {
    rows(fleet, query).into_listing()
}

/// Lists the same as [`list`] with packed rows: the history may have 100 000 of them.
#[must_use]
pub fn rows(fleet: &Fleet, query: &Query) -> Rows {
    let limit = if query.all { fleet.host.deadlines.all } else { fleet.host.deadlines.live };
    let query = Arc::new(query.clone());
    let wanted = Arc::clone(&query);
    let other_ids = OtherIds::default();
    let sink = Arc::clone(&other_ids);
    let found =
        each_adapter_until(fleet, limit, wanted.adapter.as_deref(), move |adapter, look| {
            if query.adapter.as_deref().is_none_or(|only| only == adapter.name()) {
                return list_adapter(adapter, look, &query, &sink);
            }
            if query.short_ids {
                add_other_ids(adapter, look, &query, &sink);
            }
            Found::default()
        });
    let mut rows = Rows { packed: found.rows, faults: found.faults };
    sort(&mut rows.packed);
    launched::add_to_rows(fleet, &mut rows);
    if wanted.short_ids {
        let others = other_ids.lock().unwrap_or_else(PoisonError::into_inner);
        rows.shorten_ids(&others, &names_in_use(fleet, &rows));
    }
    if !wanted.admits_all() {
        let admits = |s: Session| s.parent.is_some() || wanted.admits(&s);
        rows.packed.retain(|row| admits(row.unpack()));
    }
    rows.faults.sort();
    rows.faults.dedup();
    if wanted.children { rows.in_tree() } else { rows }
}

/// Shortens session ids for a table, so that every command accepts them: they are compared with all history.
#[must_use]
pub fn shortened(fleet: &Fleet, ids: &[&str]) -> Vec<String> {
    let others = all_ids(fleet);
    let names = Names::of(&fleet.host);
    let all = others.iter().map(|id| &**id).chain(ids.iter().copied());
    let typed = Typed::new(all, names.all().collect());
    let short = |id: &&str| id.get(..typed.length(id)).unwrap_or(id).to_owned();
    ids.iter().map(short).collect()
}

/// Packs sessions for a table whose ids every command accepts.
#[must_use]
pub fn rows_of(fleet: &Fleet, sessions: &[Session]) -> Rows {
    let mut rows = Rows::of(sessions);
    let names = names_in_use(fleet, &rows);
    rows.shorten_ids(&all_ids(fleet), &names);
    rows
}

/// Returns the ids of all history and of all live sessions.
fn all_ids(fleet: &Fleet) -> Vec<Box<str>> {
    let ids = OtherIds::default();
    let sink = Arc::clone(&ids);
    let query = Query { all: true, short_ids: true, ..Query::default() };
    let _none: Found<()> = each_adapter(fleet, fleet.host.deadlines.all, move |adapter, look| {
        add_other_ids(adapter, look, &query, &sink);
        Found::default()
    });
    std::mem::take(&mut *ids.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the names that win over a prefix of an id: those that people gave, and those of live sessions.
fn names_in_use(fleet: &Fleet, rows: &Rows) -> Vec<String> {
    let live = rows.packed.iter().filter(|row| row.status.is_live());
    let mut names: Vec<String> = live.filter_map(|row| row.unpack().name).collect();
    names.extend(Names::of(&fleet.host).all().map(str::to_owned));
    names
}

/// One session in full, and the faults of the look.
#[derive(Debug)]
pub struct Inspected {
    /// The session; `None` when no source knows it (any more).
    pub session: Option<Session>,
    /// The number of prompts in its file; `None` where it is not known, or no file has its conversation.
    pub turns: Option<u64>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// Looks at one session in full, subagents' tokens included.
#[must_use]
pub fn inspect(fleet: &Fleet, target: &Target) -> Inspected {
    let Some(only) = fleet.only(target.adapter) else {
        return Inspected { session: None, turns: None, faults: Vec::new() };
    };
    let wanted = target.clone();
    let mut found = each_adapter(&only, fleet.host.deadlines.all, move |adapter, look| {
        let mut found: Found<packed::Packed> = Found::default();
        let root = Root::find(&adapter.roots(look), &wanted.root);
        let _limit = limited(&root);
        let store = adapter.store(look, &root);
        let live = store.live();
        let mut question = Question::new(adapter, look, &root, store.as_ref(), live);
        match &wanted.session {
            Some(locator) => question.add_one(locator, Depth::Whole),
            None => {
                let locators = question.possibly_served();
                question.add(locators, Depth::Outline);
                question.add_unjoined(|s| s.by.iter().any(|p| Some(p.pid) == wanted.pid));
                question.rows.retain(|row| row.session.id.is_none());
            }
        }
        let turns = question.turns;
        question.finish(&mut found);
        let rows = found.rows.into_iter().map(|row| (row, turns)).collect();
        Found { rows, faults: found.faults, whole: found.whole }
    });
    let (mut session, turns) = match found.rows.pop() {
        Some((row, turns)) => (Some(row.unpack()), turns),
        None => (None, None),
    };
    let unread = add_launches(fleet, session.as_mut().map_or(&mut [], std::slice::from_mut));
    found.faults.extend(unread);
    Inspected { session, turns, faults: found.faults }
}

/// Number of threads of one adapter that may hang in reads which cannot be cancelled. An adapter with more is
/// not asked.
const MAX_ABANDONED_THREADS: usize = 8;

/// How long the adapters that a list leaves out are awaited once the wanted adapter has answered. They only say
/// which ids clash with those of the list.
const OTHERS_GRACE: Duration = Duration::from_millis(200);

/// Asks every adapter on a thread of its own. An adapter that is late, fails or panics becomes a fault.
pub fn each_adapter<T: Send + 'static>(
    fleet: &Fleet,
    limit: Duration,
    question: impl Fn(&'static dyn Adapter, &Look) -> Found<T> + Send + Sync + 'static,
) -> Found<T> {
    each_adapter_until(fleet, limit, None, question)
}

/// Asks like [`each_adapter`]. If one adapter is wanted, the others are awaited only a short time longer, and
/// their failures are not told.
fn each_adapter_until<T: Send + 'static>(
    fleet: &Fleet,
    limit: Duration,
    wanted: Option<&str>,
    question: impl Fn(&'static dyn Adapter, &Look) -> Found<T> + Send + Sync + 'static,
) -> Found<T> {
    let tells = |adapter: &str| wanted.is_none_or(|wanted| wanted == adapter);
    let look = look(fleet, limit);
    let deadline = look.deadline;
    let question = Arc::new(question);
    let (sender, answers) = channel();
    let mut all = Found::default();
    all.faults.extend(unread(&look));
    let mut pending: Vec<(&'static str, Ticket)> = Vec::new();
    for &adapter in fleet.adapters {
        let count = abandoned_threads::count_of(adapter.name(), None);
        if count.load(Ordering::SeqCst) >= MAX_ABANDONED_THREADS {
            let why = "it was not read: too many earlier requests still hang";
            if tells(adapter.name()) {
                all.faults.push(whole_fault(adapter.name(), FaultCode::Failed, why));
            }
            continue;
        }
        let (sender, question, look) = (sender.clone(), Arc::clone(&question), look.clone());
        let ticket = Ticket::new(count);
        let ending = ticket.clone();
        let thread = std::thread::Builder::new().name(adapter.name().to_owned());
        let spawned = thread.spawn(move || {
            deadline::set(look.deadline);
            let answer = catch_unwind(AssertUnwindSafe(|| question(adapter, &look)));
            // The receiver is gone when the answer is late.
            let _too_late = sender.send((adapter.name(), answer));
            ending.end();
        });
        match spawned {
            Ok(_) => pending.push((adapter.name(), ticket)),
            Err(_) if !tells(adapter.name()) => {}
            Err(error) => {
                let why = format!("it failed: {error}");
                all.faults.push(whole_fault(adapter.name(), FaultCode::Failed, &why));
            }
        }
    }
    drop(sender);
    let mut deadline = deadline;
    while !pending.is_empty() {
        if !pending.iter().any(|(name, _)| tells(name)) {
            deadline = deadline.min(Instant::now() + OTHERS_GRACE);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((name, answer)) = answers.recv_timeout(left) else { break };
        pending.retain(|(asked, _)| *asked != name);
        match answer {
            Ok(found) => {
                append(&mut all.rows, found.rows);
                all.faults.extend(found.faults);
                all.whole &= found.whole;
            }
            Err(_) if !tells(name) => {}
            Err(panic) => {
                let why = format!("it panicked: {}", panic_text(panic.as_ref()));
                all.faults.push(whole_fault(name, FaultCode::Panicked, &why));
            }
        }
    }
    for (name, ticket) in pending {
        ticket.give_up();
        if !tells(name) {
            continue;
        }
        let why = format!("it did not answer within {} ms", limit.as_millis());
        all.faults.push(whole_fault(name, FaultCode::Timeout, &why));
    }
    all.whole &= all.faults.is_empty();
    all
}

/// Returns the fault of a process table that could not be read in time. Sessions of the unread processes may
/// be missing from the answers of all adapters.
fn unread(look: &Look) -> Option<Fault> {
    let gaps = look.table.gaps.join("; ");
    let message = format!("not every process could be looked at: {}", shorten(&gaps, 300));
    let root = Some("/proc".to_owned());
    let fault = Fault { adapter: OWN_SOURCE, root, code: FaultCode::Timeout, message };
    look.table.late.then_some(fault)
}

/// Makes the fault of an adapter that gave no answer at all.
fn whole_fault(adapter: &'static str, code: FaultCode, why: &str) -> Fault {
    Fault { adapter, root: None, code, message: format!("{why}; its sessions are missing") }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into())
}

/// Asks one adapter for its homes, on a thread that is given up when it does not answer.
#[must_use]
pub fn roots_of(fleet: &Fleet, adapter: &str, limit: Duration) -> Found<Root> {
    let Some(only) = fleet.only(adapter) else { return Found::default() };
    each_adapter(&only, limit, |adapter, look| Found {
        rows: adapter.roots(look),
        ..Found::default()
    })
}
