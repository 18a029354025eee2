//! The join over generated worlds: any set of live claims, any set of records, any gaps.
//!
//! It never invents or loses a row, never ends a session that a live process serves, and never reports
//! `stopped` where absence was not proved. The oracle is the generated world, not the code.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::{
    Adapter, Capabilities, Depth, Found, Installation, Look, Record, Root, Served, State, Store,
    Turn,
};
use agentctl_core::fleet::{self, Adapters, Fleet, Query, View};
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::{Brief, Kernel, Table};
use agentctl_core::model::{Fault, FaultCode, Locator, Message, ProcId, Session, Status, Time};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use testkit::sandboxed;

const TOP: [&str; 4] = ["a", "b", "c", "d"];
const CHILDREN: [&str; 4] = ["a-1", "b-1", "c-1", "d-1"];
const DIRECTORIES: [&str; 2] = ["/x", "/y"];

/// The claim of a live source.
#[derive(Clone, Debug)]
struct Claim {
    id: Option<&'static str>,
    pids: BTreeSet<u32>,
    paused: bool,
    state: Option<Status>,
    may_serve: bool,
    cwd: Option<&'static str>,
    started_ms: Option<i64>,
}

/// The content of a session's record.
#[derive(Clone, Debug)]
struct Written {
    turn: Turn,
    cwd: Option<&'static str>,
    last_ms: Option<i64>,
    child: Option<Turn>,
}

#[derive(Clone, Debug)]
struct World {
    claims: Vec<Claim>,
    records: BTreeMap<&'static str, Written>,
    /// The live sources were all read; if not, whether a fault says so.
    whole: Result<(), bool>,
}

fn turns() -> impl Strategy<Value = Turn> {
    let open = |tool: Option<&str>| {
        let tool = tool.map(str::to_owned);
        Turn::Open { tool, retrying: None, asks: None, doubt: None }
    };
    select(vec![
        Turn::None,
        open(None),
        open(Some("shell: make")),
        Turn::Finished,
        Turn::Failed("no luck".into()),
        Turn::Interrupted,
        Turn::Over("no word of it".into()),
        Turn::Undecided("too long".into()),
        Turn::Unreadable("denied".into()),
    ])
}

fn claims() -> impl Strategy<Value = Claim> {
    let id = prop_oneof![
        4 => select(&TOP[..]).prop_map(Some),
        1 => select(&CHILDREN[..]).prop_map(Some),
        2 => Just(None),
    ];
    let pids = prop::collection::btree_set(100u32..104, 0..3);
    let state = prop::option::of(select(&Status::ALL[..]));
    let cwd = prop::option::of(select(&DIRECTORIES[..]));
    let started = prop::option::of(0i64..200);
    (id, pids, any::<bool>(), state, any::<bool>(), cwd, started).prop_map(
        |(id, mut pids, paused, state, may_serve, cwd, started_ms)| {
            // A claim without a known session has at least a process.
            if id.is_none() && pids.is_empty() {
                pids.insert(104);
            }
            Claim { id, pids, paused, state, may_serve, cwd, started_ms }
        },
    )
}

fn worlds() -> impl Strategy<Value = World> {
    let written = (
        turns(),
        prop::option::of(select(&DIRECTORIES[..])),
        prop::option::of(0i64..200),
        prop::option::of(turns()),
    )
        .prop_map(|(turn, cwd, last_ms, child)| Written { turn, cwd, last_ms, child });
    let records = prop::collection::btree_map(select(&TOP[..]), written, 0..=TOP.len());
    let whole = prop_oneof![3 => Just(Ok(())), 1 => any::<bool>().prop_map(Err)];
    (prop::collection::vec(claims(), 0..5), records, whole)
        .prop_map(|(claims, records, whole)| World { claims, records, whole })
}

fn at(ms: i64) -> Time {
    Time::from_millis(ms).expect("a time")
}

impl World {
    fn live(&self) -> Found<Served> {
        let served = |claim: &Claim| {
            let id = claim.id.map(str::to_owned);
            let mut served = Served::unseen(id.clone().unwrap_or_default(), "");
            served.id = id;
            served.by = claim.pids.iter().map(|pid| process(*pid)).collect();
            served.paused = claim.paused;
            served.state = claim.state.map(|status| State { status, reason: None });
            served.may_serve = claim.may_serve;
            served.cwd = claim.cwd.map(str::to_owned);
            served.started_at = claim.started_ms.map(at);
            served
        };
        let message = "a live record could not be read".to_owned();
        let fault = Fault { adapter: "play", root: None, code: FaultCode::Failed, message };
        Found {
            rows: self.claims.iter().map(served).collect(),
            faults: if self.whole == Err(true) { vec![fault] } else { Vec::new() },
            whole: self.whole.is_ok(),
        }
    }

    fn record(&self, id: &str) -> Record {
        let (top, is_child) = id.strip_suffix("-1").map_or((id, false), |top| (top, true));
        let Some(written) = self.records.get(top) else { return Record::default() };
        let turn = if is_child { written.child.clone() } else { Some(written.turn.clone()) };
        Record {
            parent: (is_child && turn.is_some()).then(|| top.to_owned()),
            turn: turn.unwrap_or_default(),
            cwd: written.cwd.map(str::to_owned),
            last_activity_at: written.last_ms.map(at),
            ..Record::default()
        }
    }

    fn children(&self) -> BTreeSet<String> {
        let having = self.records.iter().filter(|(_, written)| written.child.is_some());
        having.map(|(top, _)| format!("{top}-1")).collect()
    }

    /// Every session there is: recorded or claimed.
    fn sessions(&self) -> BTreeSet<String> {
        let recorded = self.records.keys().map(|id| (*id).to_owned());
        let claimed = self.claims.iter().filter_map(|c| c.id.map(str::to_owned));
        recorded.chain(claimed).chain(self.children()).collect()
    }

    fn pids(&self, id: &str) -> BTreeSet<u32> {
        let of = self.claims.iter().filter(|c| c.id == Some(id));
        of.flat_map(|c| c.pids.iter().copied()).collect()
    }

    fn is_claimed(&self, id: &str) -> bool {
        self.claims.iter().any(|c| c.id == Some(id))
    }

    /// Says whether a process without a record may serve this session, by directory and time.
    fn has_suspects(&self, id: &str) -> bool {
        let record = self.record(id);
        let (cwd, last) = (record.cwd.as_deref(), record.last_activity_at.map(Time::millis));
        self.claims.iter().any(|c| {
            let here = c.cwd.is_none() || cwd.is_none() || c.cwd == cwd;
            // It may have written the last entry itself.
            let then = c.started_ms.zip(last).is_none_or(|(start, last)| last >= start);
            c.id.is_none() && c.may_serve && here && then
        })
    }
}

fn process(pid: u32) -> ProcId {
    ProcId { pid, start_ticks: 1, inode: None, boot_id: String::new() }
}

/// Checks the properties of every single row.
fn check_row(world: &World, row: &Session, gaps: bool) -> Result<(), TestCaseError> {
    let id = row.id.as_deref().expect("a session");
    let pids: BTreeSet<u32> = row.processes.iter().map(|p| p.id.pid).collect();
    if world.is_claimed(id) {
        prop_assert_eq!(&pids, &world.pids(id), "all who serve it, and no other: {:?}", row);
        prop_assert!(pids.is_empty() || row.status.is_live(), "a live process serves {:?}", row);
        return Ok(());
    }
    let over = !row.status.is_live();
    prop_assert_eq!(row.outcome.is_some(), over, "an outcome, and only of what is over: {:?}", row);
    if row.parent.is_some() {
        return Ok(());
    }
    prop_assert!(pids.is_empty() && row.pid.is_none(), "nobody serves {:?}", row);
    prop_assert!(over || row.status == Status::Unknown, "nobody serves {:?}", row);
    if gaps || world.whole.is_err() || world.has_suspects(id) {
        prop_assert!(!over, "absence was not proved: {:?}", row);
    } else if !world.claims.iter().any(|c| c.id.is_none() && c.may_serve) {
        let unreadable = matches!(world.record(id).turn, Turn::Unreadable(_));
        prop_assert_eq!(over, !unreadable, "absence was proved: {:?}", row);
    }
    Ok(())
}

/// A subagent lives in its parent: it is over when its record says so or its parent is.
fn check_child(world: &World, row: &Session, rows: &[Session]) -> Result<(), TestCaseError> {
    let (Some(id), Some(parent)) = (row.id.as_deref(), row.parent.as_deref()) else {
        return Ok(());
    };
    if world.is_claimed(id) {
        return Ok(());
    }
    let parent = rows.iter().find(|r| r.id.as_deref() == Some(parent)).expect("its parent");
    let over = match world.record(id).turn {
        Turn::Finished | Turn::Failed(_) | Turn::Interrupted | Turn::Over(_) => true,
        Turn::Unreadable(_) => false,
        Turn::Open { .. } | Turn::None | Turn::Undecided(_) => !parent.status.is_live(),
    };
    prop_assert_eq!(over, !row.status.is_live(), "{:?} of {:?}", row, parent);
    let runs = row.status == Status::Running;
    prop_assert!(!runs || row.processes == parent.processes, "{:?} of {:?}", row, parent);
    Ok(())
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn world() -> World {
    WORLD.lock().expect("sound").clone().expect("set")
}

/// An adapter for the generated world that is set.
struct Play;

impl Adapter for Play {
    fn name(&self) -> &'static str {
        "play"
    }

    fn capabilities(&self) -> Capabilities {
        Demo.capabilities()
    }

    fn is_candidate(&self, _: Brief<'_>) -> bool {
        false
    }

    fn roots(&self, _: &Look) -> Vec<Root> {
        vec![Root::known("/play".into())]
    }

    fn installation(&self, _: &Host) -> Installation {
        Installation::default()
    }

    fn store<'a>(&'a self, _: &'a Look, _: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(PlayStore(world()))
    }

    fn messages(&self, _: &[u8]) -> Vec<Message> {
        Vec::new()
    }
}

struct PlayStore(World);

fn locator(id: &str) -> Locator {
    Locator { id: id.to_owned(), path: Some("/play".into()), parent: None }
}

impl Store for PlayStore {
    fn live(&self) -> Found<Served> {
        self.0.live()
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        let recent = self.0.records.iter().filter_map(|(id, written)| {
            let modified_ms = written.last_ms.unwrap_or(i64::MAX);
            since_ms.is_none_or(|since| modified_ms >= since).then(|| locator(id))
        });
        Found { rows: recent.collect(), ..Found::default() }
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        let known = self.0.records.keys().map(|id| (*id).to_owned()).chain(self.0.children());
        let found = known.filter(|id| id.starts_with(prefix)).map(|id| locator(&id));
        Found { rows: found.collect(), ..Found::default() }
    }

    fn record(&self, locator: &Locator, _: Depth) -> Record {
        self.0.record(&locator.id)
    }

    fn children(&self, of: &Locator) -> Found<Locator> {
        let child = format!("{}-1", of.id);
        let rows = self.0.children().contains(&child).then(|| locator(&child));
        Found { rows: rows.into_iter().collect(), ..Found::default() }
    }
}

fn host() -> Arc<Host> {
    let limit = Duration::from_mins(1);
    Arc::new(Host {
        deadlines: Deadlines { live: limit, all: limit, ..Deadlines::default() },
        ..Host::new("/play", Kernel::open().expect("a kernel"), || at(1000))
    })
}

fn check_listings(host: &Arc<Host>, world: &World) -> Result<(), TestCaseError> {
    static ADAPTERS: Adapters = &[&Play];
    *WORLD.lock().expect("sound") = Some(world.clone());
    let unjoined: Vec<&Claim> = world.claims.iter().filter(|c| c.id.is_none()).collect();
    for children in [false, true] {
        let query = Query { all: true, children, ..Query::default() };
        let listing = fleet::list(&Fleet::new(Arc::clone(host), ADAPTERS), &query);
        let mut expected = world.sessions();
        if !children {
            expected.retain(|id| !world.children().contains(id));
        }
        let ids: Vec<&String> = listing.sessions.iter().filter_map(|s| s.id.as_ref()).collect();
        let shown: BTreeSet<String> = ids.iter().map(|id| (*id).clone()).collect();
        prop_assert_eq!(&shown, &expected, "neither invented nor lost");
        prop_assert_eq!(ids.len(), shown.len(), "each once: {:?}", ids);
        for row in listing.sessions.iter().filter(|s| s.id.is_some()) {
            check_row(world, row, false)?;
            check_child(world, row, &listing.sessions)?;
        }
        let nameless: Vec<&Session> = listing.sessions.iter().filter(|s| s.id.is_none()).collect();
        prop_assert_eq!(nameless.len(), unjoined.len(), "each process without a session once");
        for row in nameless {
            prop_assert!(row.status.is_live() && row.pid.is_some(), "it lives: {:?}", row);
        }
    }
    let living = fleet::list(
        &Fleet::new(Arc::clone(host), ADAPTERS),
        &Query { resting: true, ..Query::default() },
    );
    for row in &living.sessions {
        prop_assert!(row.status.is_live(), "asked for what lives: {:?}", row);
    }
    for id in TOP.iter().filter(|id| !world.pids(id).is_empty()) {
        let shown = living.sessions.iter().any(|s| s.id.as_deref() == Some(*id));
        prop_assert!(shown, "{} lives and is not listed", id);
    }
    Ok(())
}

fn play(cases: u32, mut check: impl FnMut(World) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let check = std::cell::RefCell::new(&mut check);
    let result = TestRunner::new(config).run(&worlds(), |world| (check.borrow_mut())(world));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn no_row_is_invented_or_lost_and_no_live_session_is_stopped() {
    sandboxed(|| {
        let host = host();
        play(500, |world| check_listings(&host, &world));
    });
}

#[test]
fn a_table_with_gaps_proves_no_absence() {
    let host = host();
    let root = Root::known("/play".into());
    play(2000, |world| {
        for gaps in [false, true] {
            let mut table = Table::default();
            table.gaps.extend(gaps.then(|| "process 7 could not be read".to_owned()));
            let look = Look {
                host: Arc::clone(&host),
                table: Arc::new(table),
                deadline: Instant::now(),
                now: at(1000),
            };
            let view = View::new("play", &root, &look, world.live());
            for id in world.sessions().into_iter().filter(|id| !world.children().contains(id)) {
                let row = fleet::join(&view, &locator(&id), world.record(&id), None);
                check_row(&world, &row, gaps)?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_record_without_a_turn_means_idle_only_where_the_adapter_says_so() {
    let host = host();
    let look = Look { host, table: Arc::default(), deadline: Instant::now(), now: at(1000) };
    for (unprompted, expected) in [(false, Status::Unknown), (true, Status::Idle)] {
        let mut served = Served::unseen("a".into(), "");
        (served.by, served.state) = (vec![process(100)], None);
        served.unprompted = unprompted;
        let live = Found { rows: vec![served], ..Found::default() };
        let view = View::new("play", &Root::known("/play".into()), &look, live);
        let row = fleet::join(&view, &locator("a"), Record::default(), None);
        assert_eq!(row.status, expected, "{row:?}");
        for turn in [Turn::Finished, Turn::Over("no word of it".into())] {
            let ended = Record { turn, ..Record::default() };
            assert_eq!(fleet::join(&view, &locator("a"), ended, None).status, Status::Idle);
        }
    }
}
