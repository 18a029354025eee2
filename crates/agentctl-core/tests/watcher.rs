//! The watcher beside adapters that fail, hang and recover: a failing adapter ends no session, and does
//! not affect the others.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::{
    Adapter, Capabilities, Depth, Found, Installation, Look, Record, Root, Served, State, Store,
    Turn,
};
use agentctl_core::events::{Event, Watcher};
use agentctl_core::fleet::{self, Adapters, Fleet, Query};
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::{Brief, Kernel};
use agentctl_core::model::{Fault, FaultCode, Locator, Message, Outcome, Status, Time};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use testkit::{Dice, TestHome, sandboxed};

/// An adapter of one session, whose answers a test sets.
struct Fake {
    name: &'static str,
    live: fn() -> Found<Served>,
    record: fn() -> Record,
}

impl Adapter for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        Demo.capabilities()
    }

    fn is_candidate(&self, _: Brief<'_>) -> bool {
        false
    }

    fn roots(&self, _: &Look) -> Vec<Root> {
        vec![Root::known("/nowhere".into())]
    }

    fn installation(&self, _: &Host) -> Installation {
        Installation::default()
    }

    fn store<'a>(&'a self, _: &'a Look, _: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(FakeStore(self))
    }

    fn messages(&self, _: &[u8]) -> Vec<Message> {
        Vec::new()
    }
}

struct FakeStore<'a>(&'a Fake);

impl Store for FakeStore<'_> {
    fn live(&self) -> Found<Served> {
        (self.0.live)()
    }

    fn history(&self, _: Option<i64>) -> Found<Locator> {
        Found::default()
    }

    fn find(&self, id: &str) -> Found<Locator> {
        let path = Some("/nowhere".into());
        let rows = vec![Locator { id: id.to_owned(), path, parent: None }];
        Found { rows, ..Found::default() }
    }

    fn record(&self, _: &Locator, _: Depth) -> Record {
        (self.0.record)()
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        PLACES.lock().expect("sound").clone()
    }
}

/// Where a fake adapter's changes show.
static PLACES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn host(home: &TestHome, limit: Duration) -> Arc<Host> {
    Arc::new(Host {
        deadlines: Deadlines { live: limit, all: limit, ..Deadlines::default() },
        ..Host::new(home.path(), Kernel::open().expect("a kernel"), || Time(jiff::Timestamp::now()))
    })
}

/// How fast a machine is, is no test's business.
const LONG: Duration = Duration::from_mins(2);

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.word()).collect()
}

/// Never answers, and counts the calls.
static ASKED: AtomicUsize = AtomicUsize::new(0);

fn hang() -> Found<Served> {
    static NEVER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    ASKED.fetch_add(1, Ordering::SeqCst);
    let guard = NEVER.0.lock().expect("sound");
    let _for_ever = NEVER.1.wait_while(guard, |()| true);
    Found::default()
}

static HANGS: Adapters = &[&Fake { name: "hanging", live: hang, record: Record::default }, &Demo];

/// Counts how often a directory was opened since the last call.
fn opens(watch: &OwnedFd) -> usize {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let mut opens = 0;
    while let Ok(event) = reader.next() {
        opens += usize::from(event.events().contains(ReadFlags::OPEN));
    }
    opens
}

#[test]
fn the_runs_folder_is_read_once_per_look() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        let host = host(&home, LONG);
        let runs = host.state().join("runs");
        std::fs::create_dir_all(&runs).expect("made");
        let mut watcher = Watcher::new(Fleet::new(host, &[&Demo])).expect("a watcher");
        watcher.look();
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        // The kernel merges equal events that follow each other: each close keeps two opens apart.
        let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
        inotify::add_watch(&watch, &runs, flags).expect("watched");
        for _ in 0..2 {
            watcher.look();
            assert_eq!(opens(&watch), 1);
        }
    });
}

#[test]
fn a_hanging_source_delays_no_event_of_others() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        // Long enough for adapters that do not hang.
        let limit = Duration::from_secs(5);
        let mut watcher = Watcher::new(Fleet::new(host(&home, limit), HANGS)).expect("a watcher");
        let began = Instant::now();
        let seen = watcher.look();
        assert_eq!((seen.faults.len(), ASKED.load(Ordering::SeqCst)), (1, 1));
        // It is not waited for again so soon: its fault stays, and events of the others are reported.
        let root = ".local/share/agentctl-demo";
        let session = r#"{"type":"session","cwd":"/work","model":"demo-1"}"#;
        home.write(&format!("{root}/sessions/alive.jsonl"), format!("{session}\n"));
        let live = r#"{"start_ticks":{start},"boot_id":"{boot}","machine_id":null,"pid_namespace":{ns},"session":"alive","cwd":"/work","status":"idle","detail":null,"started_ms":0}"#;
        let record = home.at(&format!("{root}/live/{{pid}}.json"));
        let words = ["demo-agent", "write", record.to_str().expect("utf-8"), live];
        let mut agent = home.agent("agentctl", "work", &words);
        agent.ready();
        let seen = watcher.look();
        let told: Vec<_> =
            kinds(&seen.events).into_iter().filter(|k| k.starts_with("session")).collect();
        assert_eq!(told, ["session.started", "session.idle"]);
        // Its pause begins when the wait for it timed out, and lasts two seconds.
        if began.elapsed() < limit + Duration::from_secs(2) {
            assert_eq!(ASKED.load(Ordering::SeqCst), 1, "it is left alone");
        }
        assert_eq!((seen.faults[0].adapter, seen.faults[0].code), ("hanging", FaultCode::Timeout));
        // The wait for its next turn is bounded.
        let until = Instant::now() + LONG;
        while ASKED.load(Ordering::SeqCst) == 1 {
            assert!(Instant::now() < until, "it is asked again some day");
            watcher.wait(LONG).expect("waited");
            watcher.look();
        }
    });
}

#[test]
fn a_source_that_hangs_for_ever_is_not_asked_again() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        let brief = host(&home, Duration::from_millis(20));
        for _ in 0..40 {
            let _late = fleet::list(&Fleet::new(Arc::clone(&brief), HANGS), &Query::default());
        }
        assert!(ASKED.load(Ordering::SeqCst) <= 8, "threads that hang are not piled up");
        // It is not waited for any more: a wait would take long.
        let listing = fleet::list(&Fleet::new(host(&home, LONG), HANGS), &Query::default());
        let faults: Vec<_> = listing.faults.iter().map(|f| (f.adapter, f.code)).collect();
        assert_eq!(
            faults,
            [("hanging", FaultCode::Failed)],
            "the demo adapter answers to the last"
        );
    });
}

/// The state of the flapping adapter's one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Works,
    Over,
    /// The source cannot be asked.
    Broken,
    /// It panics.
    Panics,
    /// It lists no session, and panics when it is asked for one.
    Hides,
}

static DOING: Mutex<Doing> = Mutex::new(Doing::Over);

fn doing() -> Doing {
    *DOING.lock().expect("sound")
}

fn live() -> Found<Served> {
    match doing() {
        Doing::Works => {
            let state = State { status: Status::Running, reason: None };
            let rows = vec![Served::kept("a".into(), state, None)];
            Found { rows, ..Found::default() }
        }
        Doing::Over | Doing::Hides => Found::default(),
        Doing::Broken => {
            let root = Some("/nowhere".into());
            let message = "it is broken".into();
            Found::fault(Fault { adapter: "flapping", root, code: FaultCode::Unreachable, message })
        }
        Doing::Panics => panic!("no answer"),
    }
}

fn record() -> Record {
    match doing() {
        Doing::Works | Doing::Over => Record { turn: Turn::Finished, ..Record::default() },
        Doing::Hides => panic!("no answer"),
        _ => Record { turn: Turn::Unreadable("it is broken".into()), ..Record::default() },
    }
}

static FLAPS: Adapters = &[&Fake { name: "flapping", live, record }];

/// Waits and looks until an event is reported: long before the look that comes once a minute.
fn next(watcher: &mut Watcher) -> Vec<&'static str> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        watcher.wait(until.saturating_duration_since(Instant::now())).expect("waited");
        assert!(Instant::now() < until, "nothing was told");
        let told = kinds(&watcher.look().events);
        if !told.is_empty() {
            return told;
        }
    }
}

#[test]
fn a_change_in_a_journal_is_reported_once_it_is_readable() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        PLACES.lock().expect("sound").push(home.at("db-wal"));
        *DOING.lock().expect("sound") = Doing::Works;
        let mut watcher = Watcher::new(Fleet::new(host(&home, Duration::from_secs(10)), FLAPS))
            .expect("a watcher");
        // Each newly watched object causes another look.
        for _ in 0..2 {
            watcher.look();
            watcher.wait(Duration::from_millis(200)).expect("waited");
        }
        watcher.look();
        // A writer has written, and the data is not readable yet.
        home.write("db-wal", "x");
        watcher.wait(Duration::from_secs(30)).expect("waited");
        assert_eq!(kinds(&watcher.look().events), [""; 0]);
        // Now it can, and no event says so.
        *DOING.lock().expect("sound") = Doing::Over;
        assert_eq!(next(&mut watcher), ["session.stopped"]);
    });
}

#[test]
fn the_end_of_an_unknown_status_is_noticed_without_an_event() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        *DOING.lock().expect("sound") = Doing::Works;
        let mut watcher = Watcher::new(Fleet::new(host(&home, Duration::from_secs(10)), FLAPS))
            .expect("a watcher");
        watcher.look();
        *DOING.lock().expect("sound") = Doing::Broken;
        assert_eq!(kinds(&watcher.look().events), [""; 0]);
        assert_eq!(next(&mut watcher), ["session.unknown"]);
        assert_eq!(kinds(&watcher.look().events), [""; 0]);
        *DOING.lock().expect("sound") = Doing::Works;
        assert_eq!(next(&mut watcher), ["session.running"]);
    });
}

#[test]
fn a_flapping_source_ends_no_session() {
    sandboxed(|| {
        let home = TestHome::new("unused");
        let mut dice = Dice::new();
        let mut watcher = Watcher::new(Fleet::new(host(&home, LONG), FLAPS)).expect("a watcher");
        watcher.look();
        let (mut works, mut ends) = (false, 0);
        for round in 0..400 {
            let next = [Doing::Works, Doing::Over, Doing::Broken, Doing::Panics, Doing::Hides]
                [usize::try_from(dice.below(5)).expect("small")];
            *DOING.lock().expect("sound") = next;
            let seen = watcher.look();
            for event in &seen.events {
                let session = event.session.as_ref().expect("a session");
                match event.kind.word() {
                    "session.started" | "session.running" => {
                        assert_eq!(next, Doing::Works, "round {round}");
                        works = true;
                    }
                    "session.stopped" => {
                        assert_eq!(next, Doing::Over, "round {round}: {event:?}");
                        assert_eq!(session.outcome, Some(Outcome::Finished));
                        (works, ends) = (false, ends + 1);
                    }
                    "session.unknown" => {
                        assert!(!matches!(next, Doing::Works | Doing::Over), "round {round}");
                    }
                    other => panic!("round {round}: {other}"),
                }
            }
            match next {
                Doing::Works => assert!(works, "round {round}: it works and nobody was told"),
                Doing::Over => assert!(!works, "round {round}: it is over and nobody was told"),
                _ => {}
            }
        }
        println!("{ends} ends, seed {}", dice.seed);
        assert!(ends > 10, "it did end now and then");
    });
}
