//! Edges over generated worlds: sessions that begin, work, ask, idle, end and begin again, seen by
//! looks that may fail.
//!
//! The oracle is the generated world: in order, the edges lead from the first look to the last; no edge
//! is reported twice, and no session ends that could not be looked at.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

#[path = "edges/prompts.rs"]
mod prompts;
#[path = "edges/servers.rs"]
mod servers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use agentctl_core::events::edges::{
    Edges, EndedLaunch, Key, LaunchInfo, LocksAndFuses, LookupResult, Snapshot,
};
use agentctl_core::events::{Event, EventKind};
use agentctl_core::fleet;
use agentctl_core::locks::{Holder, Kind, Lock};
use agentctl_core::model::{
    Callback, Exit, Fault, FaultCode, Outcome, ProcId, Reason, ReasonKind, ServingProcess, Session,
    Status, Time,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Each has its own adapter, so that it can fail alone.
const SESSIONS: [(&str, &str, bool); 5] = [
    ("one", "a", false),
    ("one", "b", false),
    ("two", "c", false),
    ("far", "d", true),
    // It lives in a server of this machine.
    ("near", "e", true),
];

fn time(second: i64) -> Time {
    Time::from_millis(1_794_700_000_000 + second * 1000).expect("a time")
}

fn process(pid: u32, start_ticks: u64) -> ProcId {
    ProcId { pid, start_ticks, inode: Some(start_ticks), boot_id: "boot".into() }
}

fn session(adapter: &'static str, id: Option<&str>, status: Status) -> Session {
    Session { id: id.map(str::to_owned), status, ..fleet::blank_session(adapter, "/home".into()) }
}

fn look(at: i64, start: Instant, sessions: Vec<Session>) -> Snapshot {
    let moment = start + Duration::from_secs(u64::try_from(at).expect("later"));
    Snapshot {
        at: time(at),
        until: time(at),
        moment,
        sessions,
        unasked: Vec::new(),
        named: HashMap::new(),
        launches: HashMap::new(),
        ended_launches: Vec::new(),
        asks: Vec::new(),
        locks_and_fuses: LocksAndFuses::default(),
    }
}

/// The state of a session in a generated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Running,
    Asking(&'static str),
    Idle,
    /// The source itself does not know.
    Puzzling,
    Stopped,
    Failed,
    /// Its server does not have it any more.
    Forgotten,
}

impl Doing {
    fn status(self) -> Status {
        match self {
            Self::Running => Status::Running,
            Self::Asking(_) => Status::Waiting,
            Self::Idle => Status::Idle,
            Self::Puzzling => Status::Unknown,
            Self::Failed => Status::Error,
            Self::Nothing | Self::Stopped | Self::Forgotten => Status::Stopped,
        }
    }

    fn lives(self) -> bool {
        matches!(self, Self::Running | Self::Asking(_) | Self::Idle | Self::Puzzling)
    }
}

#[derive(Clone, Debug)]
struct Moment {
    doing: [Doing; 5],
    /// Entries were written.
    written: [bool; 5],
    /// Adapters that fail: in the listing already, or only when asked by name.
    fails: BTreeSet<&'static str>,
    /// Adapters that are left alone.
    rests: BTreeSet<&'static str>,
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        Just(Doing::Nothing),
        Just(Doing::Running),
        select(vec!["Bash: ls", "Edit: a.rs"]).prop_map(Doing::Asking),
        Just(Doing::Idle),
        Just(Doing::Puzzling),
        Just(Doing::Stopped),
        Just(Doing::Failed),
        Just(Doing::Forgotten),
    ]
}

fn moments() -> impl Strategy<Value = Vec<Moment>> {
    let adapters = || {
        let some = proptest::collection::btree_set(select(vec!["one", "two", "far", "near"]), 0..2);
        prop_oneof![3 => Just(BTreeSet::new()), 1 => some]
    };
    let moment =
        ([doing(), doing(), doing(), doing(), doing()], any::<[bool; 5]>(), adapters(), adapters())
            .prop_map(|(doing, written, fails, rests)| Moment { doing, written, fails, rests });
    proptest::collection::vec(moment, 1..12)
}

/// The world over time, with the counters that distinguish one life from the next.
#[derive(Default)]
struct World {
    launches: [u32; 5],
    was_alive: [bool; 5],
    entry: [i64; 5],
}

impl World {
    fn row(&self, which: usize, doing: Doing) -> Session {
        let (adapter, id, hosted) = SESSIONS[which];
        let mut row = session(adapter, Some(id), doing.status());
        row.hosted = hosted;
        row.started_at = Some(time(0));
        row.last_activity_at = Some(time(self.entry[which]));
        if let Doing::Asking(what) = doing {
            row.reason = Some(Reason::with(ReasonKind::Permission, what));
        }
        if doing.lives() && adapter != "far" {
            let launch = self.launches[which];
            let pid = 100 * launch + u32::try_from(which).expect("small");
            row.processes = vec![ServingProcess::proved(process(pid, launch.into()))];
        }
        row.outcome = (!doing.lives()).then_some(Outcome::Finished);
        row
    }

    /// Goes on to the next moment and looks.
    fn next(&mut self, edges: &Edges, start: Instant, at: i64, moment: &Moment) -> Snapshot {
        let mut rows = Vec::new();
        for (which, (adapter, ..)) in SESSIONS.into_iter().enumerate() {
            let doing = moment.doing[which];
            let alive = doing.lives();
            let woke = alive && !self.was_alive[which];
            if woke {
                self.launches[which] += 1;
            }
            // A session of a server gets an entry with every change.
            if moment.written[which] || adapter == "far" {
                self.entry[which] = at;
            }
            self.was_alive[which] = alive;
            let rests = adapter == "far" && doing == Doing::Idle;
            let hidden = moment.fails.contains(adapter) || moment.rests.contains(adapter);
            if alive && !rests && !hidden {
                rows.push(self.row(which, doing));
            }
        }
        let mut look = look(at, start, rows);
        look.unasked = moment.rests.iter().copied().collect();
        look.locks_and_fuses.faults = moment
            .fails
            .iter()
            .chain(&moment.rests)
            .map(|adapter| Fault {
                adapter,
                root: None,
                code: FaultCode::Timeout,
                message: "it did not answer".into(),
            })
            .collect();
        for key in edges.missing(&look.sessions) {
            let which = SESSIONS.iter().position(|(_, id, _)| Some(*id) == key.id());
            let which = which.expect("one of ours");
            let named = match moment.doing[which] {
                _ if moment.fails.contains(key.adapter()) => {
                    LookupResult::Failed("no answer".into())
                }
                Doing::Forgotten | Doing::Nothing => LookupResult::Gone,
                doing => LookupResult::Seen(Box::new(self.row(which, doing))),
            };
            if !moment.rests.contains(key.adapter()) {
                look.named.insert(key, named);
            }
        }
        look
    }
}

/// The state that a receiver of every edge would believe.
fn believe(belief: &mut BTreeMap<String, (EventKind, Option<String>)>, event: &Event) {
    let id = event.session_id.clone().expect("a session");
    let detail = event.session.as_ref().and_then(|s| s.reason.as_ref()?.detail.clone());
    let remote = event.session.as_ref().is_some_and(|s| s.hosted && s.processes.is_empty());
    match event.kind {
        EventKind::Stopped | EventKind::Error => {
            belief.remove(&id);
        }
        EventKind::Idle if remote => {
            belief.remove(&id);
        }
        EventKind::Started => {
            belief.insert(id, (EventKind::Running, None));
        }
        EventKind::Waiting => {
            belief.insert(id, (EventKind::Waiting, detail));
        }
        kind => {
            belief.insert(id, (kind, None));
        }
    }
}

fn truth(rows: &[Session]) -> BTreeMap<String, (EventKind, Option<String>)> {
    let of = |s: &Session| {
        let kind = match s.status {
            Status::Running => EventKind::Running,
            Status::Waiting => EventKind::Waiting,
            Status::Idle => EventKind::Idle,
            _ => EventKind::Unknown,
        };
        let detail = s.reason.as_ref().and_then(|r| r.detail.clone());
        let detail = detail.filter(|_| kind == EventKind::Waiting);
        (s.id.clone().expect("a session"), (kind, detail))
    };
    rows.iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edges_lead_from_the_first_look_to_the_last(moments in moments()) {
        let (mut edges, mut world) = (Edges::default(), World::default());
        let start = Instant::now();
        let mut calm = moments.last().expect("one").clone();
        calm.fails.clear();
        calm.rests.clear();
        calm.written = [false; 5];
        // Two equal looks without a fault: all doubts are over, and every edge was reported.
        let all: Vec<Moment> = moments.iter().cloned().chain([calm.clone(), calm.clone()]).collect();
        let (mut belief, mut ids) = (BTreeMap::new(), BTreeSet::new());
        let mut latest: Option<Time> = None;
        let (mut rows, mut puzzled): (_, BTreeSet<String>) = (Vec::new(), BTreeSet::new());
        for (at, moment) in all.iter().enumerate() {
            let at = i64::try_from(at).expect("small");
            let look = world.next(&edges, start, at, moment);
            rows.clone_from(&look.sessions);
            let named = look.named.clone();
            let first = !edges.has_begun();
            let events = edges.step(look);
            if first {
                prop_assert!(events.is_empty(), "the first look tells nothing");
                belief = truth(&rows);
            }
            for event in &events {
                prop_assert!(latest.is_none_or(|latest| latest <= event.at), "back in time");
                latest = Some(event.at);
                prop_assert!(ids.insert(event.id.clone()), "{} was told twice: {event:?}", event.id);
                let adapter = event.adapter.expect("a session's");
                let id = event.session_id.clone().expect("a session's");
                if matches!(event.kind, EventKind::Stopped | EventKind::Error) {
                    prop_assert!(!moment.fails.contains(adapter), "it could not be looked at");
                    prop_assert!(!moment.rests.contains(adapter), "it was not looked at");
                    prop_assert!(named.keys().any(|key| key.id() == Some(id.as_str())));
                }
                if event.kind == EventKind::Unknown {
                    prop_assert!(puzzled.insert(id), "unknown is told once");
                } else {
                    puzzled.remove(&id);
                }
                believe(&mut belief, event);
            }
        }
        prop_assert_eq!(&belief, &truth(&rows));
        let look = world.next(&edges, start, 100, &calm);
        // An entry more or less is no edge.
        prop_assert_eq!(edges.step(look), []);
    }
}

/// Looks twice and returns the events of the second look.
fn between(before: Vec<Session>, now: impl FnOnce(&Edges) -> Snapshot) -> Vec<Event> {
    let mut edges = Edges::default();
    assert_eq!(edges.step(look(0, Instant::now(), before)), []);
    let look = now(&edges);
    edges.step(look)
}

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.word()).collect()
}

#[test]
fn a_short_unknown_is_not_reported() {
    let start = Instant::now();
    let mut edges = Edges::default();
    let alive = || vec![session("one", Some("a"), Status::Running)];
    let puzzling = || vec![session("one", Some("a"), Status::Unknown)];
    let step = |edges: &mut Edges, ms: u64, rows: Vec<Session>| {
        let mut look = look(1, start, rows);
        look.moment = start + Duration::from_millis(ms);
        kinds(&edges.step(look))
    };
    assert!(step(&mut edges, 0, alive()).is_empty());
    assert!(step(&mut edges, 100, puzzling()).is_empty());
    let since = |ms| Some(start + Duration::from_millis(ms));
    assert_eq!(edges.doubtful_since(), since(100));
    assert!(step(&mut edges, 349, puzzling()).is_empty());
    assert!(step(&mut edges, 349, alive()).is_empty(), "it was nothing");
    assert_eq!(edges.doubtful_since(), None);
    assert!(step(&mut edges, 400, puzzling()).is_empty());
    assert_eq!(step(&mut edges, 650, puzzling()), ["session.unknown"]);
    assert!(step(&mut edges, 5000, puzzling()).is_empty(), "once");
    assert_eq!(edges.doubtful_since(), since(400), "it is looked at again, less and less often");
    assert_eq!(step(&mut edges, 5001, alive()), ["session.running"]);
}

#[test]
fn a_process_that_finds_its_session_starts_once() {
    let starting = |id: Option<&str>, status| {
        let mut row = session("one", id, status);
        (row.pid, row.processes) = (Some(7), vec![ServingProcess::proved(process(7, 70))]);
        row
    };
    let nameless = starting(None, Status::Running);
    let events = between(vec![], |_| look(1, Instant::now(), vec![nameless.clone()]));
    assert_eq!(kinds(&events), [""; 0], "a process is no session yet");
    let named = starting(Some("a"), Status::Running);
    let events = between(vec![nameless.clone()], |_| look(1, Instant::now(), vec![named]));
    assert_eq!(kinds(&events), ["session.started"]);
    let events = between(vec![nameless], |edges| {
        assert!(edges.missing(&[]).is_empty(), "nobody looks for it by name");
        look(1, Instant::now(), vec![])
    });
    assert_eq!(kinds(&events), [""; 0]);
    // It needs a human before it can have a session: that is reported.
    let mut asking = starting(None, Status::Waiting);
    asking.reason = Some(Reason::of(ReasonKind::Trust));
    let events = between(vec![], |_| look(1, Instant::now(), vec![asking]));
    assert_eq!(kinds(&events), ["session.waiting"]);
    assert_eq!(events[0].session_id, None);
}

#[test]
fn a_hidden_session_is_not_reported_as_started() {
    let begun = |second| {
        let mut row = session("one", Some("a"), Status::Waiting);
        row.started_at = Some(time(second));
        row
    };
    let mut edges = Edges::default();
    let mut blind = look(10, Instant::now(), vec![]);
    let fault = |code| Fault { adapter: "one", root: None, code, message: "no".into() };
    blind.locks_and_fuses.faults = vec![fault(FaultCode::Timeout)];
    edges.step(blind);
    let events = edges.step(look(12, Instant::now(), vec![begun(3)]));
    assert_eq!(kinds(&events), ["session.waiting"], "it was there all the time");
    let mut edges = Edges::default();
    let mut blind = look(10, Instant::now(), vec![]);
    blind.locks_and_fuses.faults = vec![fault(FaultCode::Timeout)];
    edges.step(blind);
    let events = edges.step(look(12, Instant::now(), vec![begun(11)]));
    assert_eq!(kinds(&events), ["session.started", "session.waiting"]);
    let mut edges = Edges::default();
    let mut less = look(10, Instant::now(), vec![]);
    less.locks_and_fuses.faults = vec![fault(FaultCode::Skipped)];
    edges.step(less);
    let events = edges.step(look(12, Instant::now(), vec![begun(3)]));
    assert_eq!(kinds(&events), ["session.started", "session.waiting"], "a file hides nobody");
}

fn launch(run: &str, began: i64) -> LaunchInfo {
    let callback = Some(Callback { session: Some("boss".into()), agent: None });
    LaunchInfo { run: run.into(), began: time(began), callback }
}

fn ended_launch(run: &str, began: i64, ended: i64) -> EndedLaunch {
    let begun = session("one", Some("a"), Status::Running);
    let mut over = session("one", Some("a"), Status::Stopped);
    over.exit = Some(Exit { code: Some(0), signal: None });
    EndedLaunch { launch: launch(run, began), begun, over, ended: time(ended) }
}

#[test]
fn a_launch_is_reported_from_its_run_even_if_no_look_saw_it() {
    // Born and gone between two looks.
    let events = between(vec![], |_| {
        let mut look = look(10, Instant::now(), vec![]);
        look.ended_launches = vec![ended_launch("r1", 3, 4)];
        look
    });
    assert_eq!(kinds(&events), ["session.started", "session.stopped"]);
    let told: Vec<_> = events.iter().map(|e| (e.id.as_str(), e.at)).collect();
    assert_eq!(told, [("r1-started", time(3)), ("r1-stopped", time(4))]);
    assert!(events.iter().all(|e| e.callback.is_some() && !e.late));

    // Seen alive, then over; and no event is repeated.
    let mut edges = Edges::default();
    let row = session("one", Some("a"), Status::Running);
    let key = Key::of(&row).expect("a key");
    edges.step(look(0, Instant::now(), vec![]));
    let mut alive = look(5, Instant::now(), vec![row.clone()]);
    alive.launches.insert(key.clone(), launch("r1", 4));
    let events = edges.step(alive);
    assert_eq!((kinds(&events), events[0].id.as_str()), (vec!["session.started"], "r1-started"));
    let mut leaving = look(6, Instant::now(), vec![]);
    leaving.named.insert(key.clone(), LookupResult::Leaving);
    assert_eq!(edges.step(leaving), [], "how it ended is not written yet");
    let mut over = look(7, Instant::now(), vec![]);
    let mut ended = session("one", Some("a"), Status::Error);
    (ended.ended_at, ended.exit) = (Some(time(6)), Some(Exit { code: Some(3), signal: None }));
    over.named.insert(key.clone(), LookupResult::Seen(Box::new(ended)));
    over.ended_launches = vec![ended_launch("r1", 4, 6)];
    let events = edges.step(over);
    assert_eq!((kinds(&events), events[0].id.as_str()), (vec!["session.error"], "r1-stopped"));
    assert_eq!((events[0].at, events[0].callback.is_some()), (time(6), true));
    assert!(edges.is_over("r1"));

    // Ended and continued by another launch between two looks.
    let mut edges = Edges::default();
    let mut first = look(0, Instant::now(), vec![row.clone()]);
    first.launches.insert(key.clone(), launch("r1", 0));
    edges.step(first);
    let mut second = look(9, Instant::now(), vec![row]);
    second.launches.insert(key, launch("r2", 8));
    second.ended_launches = vec![ended_launch("r1", 0, 5)];
    let ids: Vec<String> = edges.step(second).into_iter().map(|e| e.id).collect();
    assert_eq!(ids, ["r1-stopped", "r2-started"]);
}

#[test]
fn a_directory_is_reported_free_only_when_that_is_known() {
    let lock = |kind, session: Option<&str>, pid, since| {
        let holder = Holder {
            kind,
            session: session.map(str::to_owned),
            adapter: (kind == Kind::Occupied).then_some("one"),
            pid,
            by: None,
            reason: None,
            since: Some(time(since)),
            until: None,
            what: String::new(),
        };
        Lock { directory: "/work".into(), holder }
    };
    let mut edges = Edges::default();
    let start = Instant::now();
    let step = |edges: &mut Edges, at, rows, locks, fails: Option<&'static str>| {
        let mut look = look(at, start, rows);
        look.locks_and_fuses.locks = locks;
        let fault =
            |adapter| Fault { adapter, root: None, code: FaultCode::Timeout, message: "no".into() };
        look.locks_and_fuses.faults = fails.map(fault).into_iter().collect();
        for key in edges.missing(&look.sessions) {
            let named = match fails {
                Some(_) => LookupResult::Failed("no".into()),
                None => LookupResult::Gone,
            };
            look.named.insert(key, named);
        }
        kinds(&edges.step(look)).join(" ")
    };
    let row = || session("one", Some("a"), Status::Running);
    assert_eq!(step(&mut edges, 0, vec![], vec![], None), "");
    let process = lock(Kind::Occupied, None, Some(7), 1);
    assert_eq!(step(&mut edges, 1, vec![], vec![process], None), "lock.acquired");
    let occupied = lock(Kind::Occupied, Some("a"), Some(7), 1);
    let told = step(&mut edges, 2, vec![row()], vec![occupied.clone()], None);
    assert_eq!(told, "session.started", "the same process keeps it");
    assert_eq!(step(&mut edges, 3, vec![], vec![], Some("one")), "", "who keeps it is hidden");
    assert_eq!(step(&mut edges, 4, vec![row()], vec![occupied], None), "");
    assert_eq!(step(&mut edges, 5, vec![], vec![], None), "session.stopped lock.released");
    let manual = || vec![lock(Kind::Manual, None, None, 6)];
    assert_eq!(step(&mut edges, 6, vec![], manual(), None), "lock.acquired");
    assert_eq!(step(&mut edges, 7, vec![], vec![], Some("agentctl")), "");
    assert_eq!(step(&mut edges, 8, vec![], manual(), None), "");
    assert_eq!(step(&mut edges, 9, vec![], vec![], None), "lock.released");
}
