//! Adapters that panic, hang, are slow or cannot read their sources, beside one that works.
//!
//! Each loses at most its own rows and becomes a fault; the rows of others are unchanged; and a session
//! that a failed source hides is `unknown`, never `stopped`. Every test runs in a private pid namespace
//! and a process of its own, so the switches below affect no other test.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::{
    ALL, Adapter, Capabilities, Depth, Found, Installation, Look, Record, Root, Served, State,
    Store, Turn,
};
use agentctl_core::fleet::{self, Adapters, Fleet, Query};
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::{Brief, Kernel};
use agentctl_core::model::{
    Fault, FaultCode, Listing, Locator, Message, Outcome, Session, Status, Time,
};
use testkit::{Agent, TestHome, eventually, sandboxed};

/// An adapter whose every answer is a function of the test.
struct Fake {
    name: &'static str,
    is_candidate: fn() -> bool,
    roots: fn() -> Vec<Root>,
    live: fn() -> Found<Served>,
    history: fn() -> Found<Locator>,
    record: fn(&Locator) -> Record,
}

/// An adapter that works: a finished session, and no live one.
const SOUND: Fake = Fake {
    name: "sound",
    is_candidate: || false,
    roots: || vec![Root::known("/nowhere".into())],
    live: Found::default,
    history: || entries(&["finished"]),
    record: |locator| Record { turn: turn(&locator.id), ..Record::default() },
};

impl Adapter for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        Demo.capabilities()
    }

    fn is_candidate(&self, _: Brief<'_>) -> bool {
        (self.is_candidate)()
    }

    fn roots(&self, _: &Look) -> Vec<Root> {
        (self.roots)()
    }

    fn installation(&self, _: &Host) -> Installation {
        Installation::default()
    }

    fn store<'a>(&'a self, _: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(FakeStore(self, root))
    }

    fn messages(&self, _: &[u8]) -> Vec<Message> {
        Vec::new()
    }
}

struct FakeStore<'a>(&'a Fake, &'a Root);

impl Store for FakeStore<'_> {
    fn live(&self) -> Found<Served> {
        if self.1.path().ends_with("hanging") {
            HANGING_HOME.pass();
        }
        assert!(!self.1.path().ends_with("panicking"), "no life in this home");
        (self.0.live)()
    }

    fn history(&self, _: Option<i64>) -> Found<Locator> {
        (self.0.history)()
    }

    fn record(&self, locator: &Locator, _: Depth) -> Record {
        (self.0.record)(locator)
    }
}

fn entries(ids: &[&str]) -> Found<Locator> {
    let path = std::path::PathBuf::from("/nowhere");
    let entry =
        |id: &&str| Locator { id: (*id).to_owned(), path: Some(path.clone()), parent: None };
    Found { rows: ids.iter().map(entry).collect(), ..Found::default() }
}

fn turn(id: &str) -> Turn {
    match id {
        "open" => Turn::Open { tool: None, retrying: None, asks: None, doubt: None },
        "failed" => Turn::Failed("no luck".into()),
        "none" => Turn::None,
        _ => Turn::Finished,
    }
}

fn broken<T>(adapter: &'static str) -> Found<T> {
    Found::fault(Fault {
        adapter,
        root: None,
        code: FaultCode::Other("broken"),
        message: "it is broken".into(),
    })
}

/// The home `hanging` of every adapter answers when this is open.
static HANGING_HOME: Door = Door::shut();

/// A world with three demo sessions: one finished, one killed, one alive.
struct World {
    home: TestHome,
    _agent: Agent,
}

const LIVE: &str = r#"{"start_ticks":{start},"boot_id":"{boot}","machine_id":null,"pid_namespace":{ns},"session":"alive","cwd":"/work","status":"idle","detail":null,"started_ms":0}"#;

impl World {
    fn new() -> Self {
        let home = TestHome::new("unused");
        let root = ".local/share/agentctl-demo";
        let session = r#"{"type":"session","cwd":"/work","model":"demo-1"}"#;
        let prompt = r#"{"type":"prompt","id":"1","text":"x","at":"2026-01-01T00:00:00Z"}"#;
        let end = r#"{"type":"end","state":"finished","error":null,"at":"2026-01-01T00:00:01Z"}"#;
        home.write(&format!("{root}/sessions/done.jsonl"), format!("{session}\n{prompt}\n{end}\n"));
        home.write(&format!("{root}/sessions/killed.jsonl"), format!("{session}\n{prompt}\n"));
        home.write(&format!("{root}/sessions/alive.jsonl"), format!("{session}\n{prompt}\n"));
        let record = home.at(&format!("{root}/live/{{pid}}.json"));
        let words = ["demo-agent", "write", record.to_str().expect("utf-8"), LIVE];
        let mut agent = home.agent("agentctl", "work", &words);
        agent.ready();
        Self { home, _agent: agent }
    }

    fn host(&self, limit: Duration) -> Arc<Host> {
        Arc::new(Host {
            deadlines: Deadlines { live: limit, all: limit, ..Deadlines::default() },
            ..Host::new(self.home.path(), Kernel::open().expect("a kernel"), || {
                Time(jiff::Timestamp::now())
            })
        })
    }

    fn list(&self, adapters: Adapters) -> Listing {
        // Generous: only a test of its own waits for the end of it.
        let host = self.host(Duration::from_mins(1));
        fleet::list(&Fleet::new(Arc::clone(&host), adapters), &everything())
    }

    /// Returns the answer of the demo adapter alone.
    fn alone(&self) -> Vec<Session> {
        static ALONE: Adapters = &[&Demo];
        let listing = self.list(ALONE);
        assert_eq!(listing.faults, []);
        let rows = of("demo", &listing);
        let told: Vec<_> = rows.iter().map(|s| (s.id.as_deref(), s.status, s.outcome)).collect();
        let truth = [
            (Some("alive"), Status::Idle, None),
            (Some("done"), Status::Stopped, Some(Outcome::Finished)),
            (Some("killed"), Status::Stopped, Some(Outcome::Killed)),
        ];
        assert_eq!(told, truth);
        rows
    }
}

fn everything() -> Query {
    Query { all: true, children: true, ..Query::default() }
}

/// The rows of one adapter, without the moment of the look.
fn of(adapter: &str, listing: &Listing) -> Vec<Session> {
    let mut rows: Vec<Session> =
        listing.sessions.iter().filter(|s| s.adapter == adapter).cloned().collect();
    for row in &mut rows {
        row.evidence
            .iter_mut()
            .for_each(|e| e.at = Time::parse("2026-01-01T00:00:00Z").expect("a time"));
    }
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows
}

fn faults(listing: &Listing) -> Vec<(&str, &str)> {
    listing.faults.iter().map(|f| (f.adapter, f.code.word())).collect()
}

#[test]
fn a_panicking_adapter_loses_only_its_own_rows() {
    sandboxed(|| {
        static ADAPTERS: Adapters = &[
            &Fake { name: "a-roots", roots: || panic!("no roots"), ..SOUND },
            &Fake { name: "b-live", live: || panic!("no life"), ..SOUND },
            &Fake { name: "c-history", history: || panic!("no past"), ..SOUND },
            &Fake { name: "d-record", record: |l| panic!("no record of {}", l.id), ..SOUND },
            // This many records are read on several threads.
            &Fake {
                name: "e-records",
                history: || entries(&["finished"; 500]),
                record: |_| panic!("no records"),
                ..SOUND
            },
            &Demo,
            &SOUND,
        ];
        let world = World::new();
        let listing = world.list(ADAPTERS);
        assert_eq!(of("demo", &listing), world.alone());
        assert_eq!(of("sound", &listing).len(), 1);
        assert_eq!(listing.sessions.len(), 4, "nothing of the others");
        let codes = [
            ("a-roots", "panicked"),
            ("b-live", "panicked"),
            ("c-history", "panicked"),
            ("d-record", "panicked"),
            ("e-records", "panicked"),
        ];
        assert_eq!(faults(&listing), codes);
        assert!(
            listing.faults[3].message.contains("no record of finished"),
            "{:?}",
            listing.faults
        );
    });
}

#[test]
fn a_panic_in_is_candidate_keeps_the_process() {
    sandboxed(|| {
        static ADAPTERS: Adapters =
            &[&Fake { name: "jumpy", is_candidate: || panic!("a process!"), ..SOUND }, &Demo];
        let world = World::new();
        let listing = world.list(ADAPTERS);
        assert_eq!(of("demo", &listing), world.alone());
        assert_eq!(of("jumpy", &listing).len(), 1);
    });
}

/// A gate that stays shut until it is opened, and knows whether a thread waits for it.
struct Door {
    open: Mutex<bool>,
    opened: Condvar,
    somebody_came: AtomicBool,
    somebody_left: AtomicBool,
}

impl Door {
    const fn shut() -> Self {
        Self {
            open: Mutex::new(false),
            opened: Condvar::new(),
            somebody_came: AtomicBool::new(false),
            somebody_left: AtomicBool::new(false),
        }
    }

    fn pass(&self) {
        self.somebody_came.store(true, Ordering::SeqCst);
        let open = self.open.lock().expect("sound");
        let _open = self.opened.wait_while(open, |open| !*open).expect("sound");
        self.somebody_left.store(true, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.open.lock().expect("sound") = true;
        self.opened.notify_all();
    }
}

#[test]
fn a_hanging_adapter_is_abandoned_at_the_deadline() {
    sandboxed(|| {
        static SHUT: Door = Door::shut();
        static LATE: Door = Door::shut();
        static ADAPTERS: Adapters = &[
            &Fake {
                name: "hanging",
                live: || {
                    SHUT.pass();
                    Found::default()
                },
                ..SOUND
            },
            &Fake {
                name: "slow",
                live: || {
                    LATE.pass();
                    Found::default()
                },
                ..SOUND
            },
            &Demo,
        ];
        let world = World::new();
        let host = world.host(Duration::from_secs(10));
        let (answer, answered) = mpsc::channel();
        std::thread::spawn(move || {
            answer.send(fleet::list(&Fleet::new(Arc::clone(&host), ADAPTERS), &everything()))
        });
        eventually("both are at it", || {
            let came = |door: &Door| door.somebody_came.load(Ordering::SeqCst);
            (came(&SHUT) && came(&LATE)).then_some(())
        });
        LATE.open();
        let listing = answered.recv_timeout(Duration::from_mins(1)).expect("it is left behind");
        assert!(
            !SHUT.somebody_left.load(Ordering::SeqCst),
            "nobody opened: it hangs to this moment"
        );
        assert_eq!(of("demo", &listing), world.alone());
        assert_eq!(of("slow", &listing).len(), 1, "slow is not late");
        assert_eq!(of("hanging", &listing), [], "no row is invented, none is stopped");
        assert_eq!(faults(&listing), [("hanging", "timeout")]);
        SHUT.open();
        eventually("the late one ends unheard", || {
            SHUT.somebody_left.load(Ordering::SeqCst).then_some(())
        });
    });
}

/// N2: a home that hangs or panics costs its own rows; the rows of the other homes are kept, the faults name
/// the home, and a home that still hangs is not asked again and again.
#[test]
fn a_hanging_home_loses_only_its_own_rows() {
    sandboxed(|| {
        static ADAPTERS: Adapters = &[&Fake {
            name: "several",
            roots: || {
                let homes = ["/hanging", "/nowhere", "/panicking"];
                homes.map(|home| Root::known(home.into())).to_vec()
            },
            ..SOUND
        }];
        let world = World::new();
        let host = world.host(Duration::from_secs(3));
        for _ in 0..4 {
            let listing = fleet::list(&Fleet::new(Arc::clone(&host), ADAPTERS), &everything());
            let rows: Vec<_> = listing.sessions.iter().map(|s| s.root.as_str()).collect();
            assert_eq!(rows, ["/nowhere"], "{:?}", listing.faults);
            let told: Vec<_> =
                listing.faults.iter().map(|f| (f.root.as_deref(), f.code.word())).collect();
            assert_eq!(told, [(Some("/hanging"), "timeout"), (Some("/panicking"), "panicked")]);
        }
        let threads = std::fs::read_dir("/proc/self/task").expect("listed").count();
        assert!(threads < 8, "{threads} threads: hanging threads pile up");
        HANGING_HOME.open();
        eventually("the home answers again", || {
            let listing = fleet::list(&Fleet::new(Arc::clone(&host), ADAPTERS), &everything());
            (listing.sessions.len() == 2).then_some(())
        });
    });
}

#[test]
fn a_failed_source_never_says_stopped() {
    sandboxed(|| {
        const ENDS: [&str; 4] = ["failed", "finished", "none", "open"];
        static ADAPTERS: Adapters = &[
            &Fake {
                name: "erring",
                live: || broken("erring"),
                history: || entries(&ENDS),
                ..SOUND
            },
            // It knows that its answer is incomplete, but not why.
            &Fake {
                name: "silent",
                live: || Found { whole: false, ..Found::default() },
                history: || entries(&ENDS),
                ..SOUND
            },
            &Fake { name: "forgetful", history: || broken("forgetful"), live: served, ..SOUND },
            &Fake { name: "lost", history: || broken("lost"), ..SOUND },
            &Demo,
        ];
        let world = World::new();
        let listing = world.list(ADAPTERS);
        for name in ["erring", "silent"] {
            let rows = of(name, &listing);
            assert_eq!(rows.len(), ENDS.len(), "{name} keeps its rows");
            for row in rows {
                let told = (row.status, row.outcome, row.reason.is_some());
                assert_eq!(told, (Status::Unknown, None, true), "{name}: {row:?}");
            }
        }
        let kept: Vec<_> =
            of("forgetful", &listing).iter().map(|s| (s.id.clone(), s.status)).collect();
        assert_eq!(
            kept,
            [(Some("served".into()), Status::Waiting)],
            "what lives is seen all the same"
        );
        assert_eq!(of("demo", &listing), world.alone());
        // The place of the served session's record could not be read.
        let told = [
            ("erring", "broken"),
            ("forgetful", "broken"),
            ("forgetful", "unreadable"),
            ("lost", "broken"),
        ];
        assert_eq!(faults(&listing), told);
        assert_eq!(of("lost", &listing), [], "what cannot be enumerated is not invented");
    });
}

fn served() -> Found<Served> {
    let mut claim = Served::unseen("served".into(), "");
    claim.state = Some(State { status: Status::Waiting, reason: None });
    Found { rows: vec![claim], ..Found::default() }
}

/// A session that comes and goes while it is looked at: it is served while its turn is open, and every
/// question put to its sources takes one step of time.
mod restless {
    use super::*;

    /// The steps at which it comes or goes, and whether it was there before the first.
    static LIFE: Mutex<(Vec<i64>, bool)> = Mutex::new((Vec::new(), false));
    static STEP: AtomicI64 = AtomicI64::new(0);
    pub(super) static ADAPTERS: Adapters = &[&Fake {
        name: "restless",
        live: || if step().0 { claim() } else { Found::default() },
        history: || entries(&["it"]),
        record: |_| {
            let (served, since) = step();
            let turn = turn(if served { "open" } else { "finished" });
            Record { turn, last_activity_at: Time::from_millis(since), ..Record::default() }
        },
        ..SOUND
    }];

    pub(super) fn begin(changes: Vec<i64>, served: bool) {
        *LIFE.lock().expect("sound") = (changes, served);
        STEP.store(0, Ordering::SeqCst);
    }

    /// Says whether it is there now, and since when.
    fn step() -> (bool, i64) {
        let now = STEP.fetch_add(1, Ordering::SeqCst);
        let life = LIFE.lock().expect("sound");
        let past: Vec<i64> = life.0.iter().copied().filter(|at| *at <= now).collect();
        (life.1 != (past.len() % 2 == 1), past.last().copied().unwrap_or(-1))
    }

    fn claim() -> Found<Served> {
        let mut claim = Served::unseen("it".into(), "");
        claim.state = None;
        Found { rows: vec![claim], ..Found::default() }
    }
}

#[test]
fn a_session_that_starts_or_ends_during_a_look_was_not_killed() {
    sandboxed(|| {
        // At most four questions are asked: the live sessions, the record, and both once more.
        const STEPS: i64 = 5;
        let world = World::new();
        for (life, served) in (0..1 << STEPS).flat_map(|life| [(life, false), (life, true)]) {
            let changes: Vec<i64> = (0..STEPS).filter(|at| life >> at & 1 == 1).collect();
            restless::begin(changes.clone(), served);
            let listing = world.list(restless::ADAPTERS);
            let rows = of("restless", &listing);
            assert_eq!(rows.len(), 1);
            let told = (rows[0].status, rows[0].outcome);
            let truth: &[_] = match (changes.as_slice(), served) {
                ([], true) => &[(Status::Running, None)],
                ([], false) => &[(Status::Stopped, Some(Outcome::Finished))],
                // Any moment of the look will do, and so will that it moved; its end was orderly.
                _ => &[
                    (Status::Running, None),
                    (Status::Idle, None),
                    (Status::Unknown, None),
                    (Status::Stopped, Some(Outcome::Finished)),
                ],
            };
            assert!(truth.contains(&told), "{told:?} of {changes:?}, at first {served}");
        }
    });
}

#[test]
fn a_source_that_fails_at_the_second_look_is_reported_and_gives_unknown() {
    sandboxed(|| {
        static LOOKED: AtomicBool = AtomicBool::new(false);
        static ADAPTERS: Adapters = &[&Fake {
            name: "fading",
            live: || {
                let again = LOOKED.swap(true, Ordering::SeqCst);
                if again { broken("fading") } else { Found::default() }
            },
            history: || entries(&["open"]),
            ..SOUND
        }];
        let listing = World::new().list(ADAPTERS);
        let told: Vec<_> = listing.sessions.iter().map(|s| (s.status, s.outcome)).collect();
        assert_eq!(told, [(Status::Unknown, None)]);
        assert_eq!(faults(&listing), [("fading", "broken")]);
    });
}

#[test]
fn an_ask_that_is_settled_during_a_look_leaves_no_ask_behind() {
    sandboxed(|| {
        static LOOKED: AtomicBool = AtomicBool::new(false);
        static ADAPTERS: Adapters = &[&Fake {
            name: "answered",
            live: || {
                let again = LOOKED.swap(true, Ordering::SeqCst);
                let status = if again { Status::Running } else { Status::Waiting };
                let claim = Served::kept("open".into(), State { status, reason: None }, None);
                Found { rows: vec![claim], ..Found::default() }
            },
            history: || entries(&["open"]),
            ..SOUND
        }];
        let host = World::new().host(Duration::from_mins(1));
        let fleet = Fleet::new(host, ADAPTERS);
        let asks = fleet::asks(&fleet, &Query::default());
        assert!(asks.rows.is_empty(), "{asks:?}");
        LOOKED.store(false, Ordering::SeqCst);
        let list = fleet::list_watched(&fleet, &[]);
        assert!(list.asks.is_empty(), "{list:?}");
        assert_eq!(list.listing.sessions[0].status, Status::Running);
    });
}

#[test]
fn a_process_that_ended_after_the_table_was_read_is_ignored() {
    sandboxed(|| {
        for (adapter, name, argument, place) in [
            ("claude-code", "claude", "hello", ".claude"),
            ("codex", "codex", "exec", ".codex"),
            ("demo", "agentctl", "demo-agent", ".local/share/agentctl-demo"),
        ] {
            let world = World::new();
            let mut agent = world.home.agent(name, "work", &[argument]);
            agent.ready();
            let host = world.host(Duration::from_mins(1));
            let look = fleet::look(&Fleet::new(Arc::clone(&host), ALL), Duration::from_mins(1));
            let adapter = ALL.iter().find(|a| a.name() == adapter).expect("known");
            let root = Root::known(world.home.path().join(place));
            std::fs::create_dir_all(root.path()).expect("made");
            let without_session = || {
                let rows = adapter.store(&look, &root).live().rows;
                rows.iter().filter(|s| s.id.is_none()).count()
            };
            assert_eq!(without_session(), 1, "{name} has no session yet");
            agent.kill();
            assert_eq!(without_session(), 0, "{name} has ended");
        }
    });
}

#[test]
fn a_live_record_that_cannot_be_read_proves_no_absence() {
    sandboxed(|| {
        static ADAPTERS: Adapters = &[&Demo];
        for garbage in ["", "{", "[]"] {
            let world = World::new();
            world.home.write(".local/share/agentctl-demo/live/4242.json", garbage);
            let listing = world.list(ADAPTERS);
            assert_eq!(faults(&listing), [("demo", "skipped")]);
            let told: Vec<_> = of("demo", &listing).into_iter().map(|s| (s.id, s.status)).collect();
            let truth = [
                (Some("alive".into()), Status::Idle),
                (Some("done".into()), Status::Unknown),
                (Some("killed".into()), Status::Unknown),
            ];
            assert_eq!(told, truth);
        }
    });
}
