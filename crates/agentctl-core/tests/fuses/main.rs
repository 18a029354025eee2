//! Fuses with a clock of the test: never early, fired once, also when a process is killed in the middle.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::expect_used)]

mod firing;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use agentctl_core::events::edges::{Edges, Snapshot};
use agentctl_core::events::{EventKind, LocksAndFuses, about_fuse};
use agentctl_core::fleet;
use agentctl_core::fuses::{
    Action, Bound, Cause, Conditions, Due, Fuse, FuseError, FuseOrder, all, cancel, claim, clear,
    due, extend, folder, next_due, seen, set, unfinished,
};
use agentctl_core::host::Host;
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{
    Fault, FaultCode, Listing, ProcId, Reason, ReasonKind, SCHEMA_VERSION, ServingProcess, Session,
    Status, Time,
};
use proptest::prelude::*;

/// The time at which every test begins.
const BEGIN: i64 = 1_794_728_785_156;
const HOUR: i64 = 3_600_000;
const ID: &str = "s-1";

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(BEGIN) };
}

fn time(ms: i64) -> Time {
    Time::from_millis(ms).expect("a time")
}

fn now() -> Time {
    time(NOW.get())
}

struct World {
    dir: tempfile::TempDir,
    host: Host,
}

impl World {
    fn new() -> Self {
        NOW.set(BEGIN);
        let dir = tempfile::tempdir().expect("a directory");
        let home = std::fs::canonicalize(dir.path()).expect("resolved");
        let host = Host::new(home, Kernel::open().expect("a kernel"), now);
        Self { dir, host }
    }

    fn path(&self) -> String {
        std::fs::canonicalize(self.dir.path()).expect("resolved").to_string_lossy().into_owned()
    }

    fn set(&self, when: Conditions, on_expire: Vec<Action>) -> Fuse {
        let wish = FuseOrder {
            bound: Bound::Directory(self.path()),
            run: None,
            label: None,
            when,
            on_expire,
        };
        set(&self.host, wish).expect("set").0
    }

    fn on_session(&self, when: Conditions) -> Fuse {
        let bound = Bound::Session { adapter: "demo".into(), root: "/r".into(), id: ID.into() };
        let wish =
            FuseOrder { bound, run: None, label: None, when, on_expire: vec![Action::Event] };
        set(&self.host, wish).expect("set").0
    }

    /// Makes a run, for which this process was started.
    fn run(&self, run: &str, process: &ProcId) -> PathBuf {
        let place = self.host.state().join("runs").join(run);
        std::fs::create_dir_all(&place).expect("made");
        let spec = serde_json::json!({
            "run": run, "adapter": "demo", "begin": {"kind": "new"}, "cwd": "/", "permissions": "default",
            "env": [], "at": time(BEGIN),
        });
        let pid_namespace = self.host.kernel.pid_namespace();
        let started = serde_json::json!({
            "process": process, "shim": null, "pid_namespace": pid_namespace, "machine": null, "at": time(BEGIN),
        });
        for (name, facts) in [("spec.json", spec), ("started.json", started)] {
            std::fs::write(place.join(name), facts.to_string()).expect("written");
        }
        place
    }

    fn fuses(&self) -> Vec<Fuse> {
        let (fuses, faults) = all(&self.host);
        assert!(faults.is_empty(), "{faults:?}");
        fuses
    }

    /// Returns the fuses that are due at this time, with all costs unknown.
    fn due(&self, listing: &Listing, at: i64) -> Vec<Due> {
        due(&self.host, &self.fuses(), listing, &mut |_| None, time(at))
    }

    fn next(&self, listing: &Listing, at: i64) -> Option<i64> {
        next_due(&self.host, &self.fuses(), listing, time(at)).map(Time::millis)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(folder(&self.host)).expect("listed").flatten();
        let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|n| !n.starts_with('.')).collect()
    }

    /// Removes finished fuses, as a daemon does this long after now.
    fn sweep(&self, later: i64) {
        NOW.set(jiff::Timestamp::now().as_millisecond() + later);
        assert!(unfinished(&self.host).expect("looked").is_empty());
    }

    /// Returns the path of the only burning fuse.
    fn place(&self) -> PathBuf {
        let name = self.names().into_iter().find(|n| !n.contains('~')).expect("a file");
        folder(&self.host).join(name)
    }
}

fn ttl(ms: i64) -> Conditions {
    Conditions { ttl_ms: u64::try_from(ms).ok(), ..Conditions::default() }
}

fn idle(ms: i64) -> Conditions {
    Conditions { idle_ms: u64::try_from(ms).ok(), ..Conditions::default() }
}

fn runtime(ms: i64) -> Conditions {
    Conditions { max_runtime_ms: u64::try_from(ms).ok(), ..Conditions::default() }
}

fn session(status: Status, cwd: &str, last: Option<i64>) -> Session {
    Session {
        id: Some(ID.into()),
        status,
        cwd: Some(cwd.to_owned()),
        started_at: Some(time(BEGIN - HOUR)),
        last_activity_at: last.map(time),
        ..fleet::blank_session("demo", "/r".into())
    }
}

fn listing(sessions: Vec<Session>) -> Listing {
    Listing { schema_version: SCHEMA_VERSION, sessions, faults: Vec::new() }
}

fn nobody() -> Listing {
    listing(Vec::new())
}

#[test]
fn a_ttl_is_a_wall_clock_time_and_no_timer() {
    let world = World::new();
    for days in [1, 24, 25, 30, 365, 36_500] {
        let end = BEGIN + days * 24 * HOUR;
        let fuse = world.set(ttl(days * 24 * HOUR), vec![]);
        assert_eq!(fuse.due_at.map(Time::millis), Some(end));
        assert_eq!(world.next(&nobody(), BEGIN), Some(end), "{days} days");
        assert!(world.due(&nobody(), BEGIN).is_empty(), "{days} days: it fired at once");
        assert!(world.due(&nobody(), end - 1).is_empty());
        // A clock that is set back delays it; a clock that is set forward fires it.
        assert!(world.due(&nobody(), BEGIN - 400 * 24 * HOUR).is_empty());
        for at in [end, end + 1, end + 90 * 24 * HOUR] {
            let due = world.due(&nobody(), at);
            assert_eq!((due[0].cause, due[0].at.millis()), (Cause::Ttl, end));
        }
        assert_eq!(world.next(&nobody(), end), None);
    }
    assert_eq!(world.fuses().len(), 1, "one for a target and label");
    let far = FuseOrder {
        bound: Bound::Directory(world.path()),
        run: None,
        label: None,
        when: Conditions { ttl_ms: Some(u64::MAX), ..Conditions::default() },
        on_expire: vec![],
    };
    assert!(matches!(set(&world.host, far), Err(FuseError::TooFar)));
    assert_eq!(world.fuses().len(), 1, "what could not be set changed nothing");
}

#[test]
fn a_fuse_that_is_limited_to_a_run_counts_while_that_run_serves_the_session() {
    let world = World::new();
    let run = "01a1de32-0000-7000-8000-00000000000a";
    let kernel = &world.host.kernel;
    let me = kernel.process(std::process::id()).expect("read").expect("me");
    let place = world.run(run, &me.id);
    let bound = Bound::Session { adapter: "demo".into(), root: "/r".into(), id: ID.into() };
    let order = |label: &str| FuseOrder {
        bound: bound.clone(),
        run: Some(run.into()),
        label: Some(label.into()),
        when: idle(HOUR),
        on_expire: vec![Action::Stop],
    };
    set(&world.host, order("keep")).expect("set");
    let looks = |process: &ProcId| {
        let mut one = session(Status::Idle, "/", None);
        // The newest launch of a session, also after a person has continued it.
        one.run = Some(run.into());
        one.last_activity_at = me.started_at;
        one.processes = vec![ServingProcess::proved(process.clone())];
        let at = me.started_at.expect("a time").millis() + HOUR;
        world.due(&listing(vec![one]), at).len()
    };
    let above = kernel.process(me.parent_pid).expect("read").expect("a parent").id;
    assert_eq!(looks(&me.id), 1);
    assert_eq!(looks(&above), 0, "another process serves it: a person has continued it");
    world.run(run, &above);
    assert_eq!(looks(&me.id), 1, "a script was started, and the agent is below it");
    std::fs::remove_dir_all(place).expect("removed");
    assert!(world.fuses().is_empty(), "the run is over");
    set(&world.host, order("other")).expect("set");
    assert_eq!(world.names().len(), 1, "the file of the first one is removed");
}

#[test]
fn a_fuse_whose_run_cannot_be_read_is_kept() {
    let world = World::new();
    let run = "01a1de32-0000-7000-8000-00000000000a";
    let me = world.host.kernel.process(std::process::id()).expect("read").expect("me");
    let place = world.run(run, &me.id);
    let order = |label: &str, run: Option<&str>| FuseOrder {
        bound: Bound::Session { adapter: "demo".into(), root: "/r".into(), id: ID.into() },
        run: run.map(str::to_owned),
        label: Some(label.into()),
        when: idle(HOUR),
        on_expire: vec![Action::Stop],
    };
    set(&world.host, order("keep", Some(run))).expect("set");
    let is_kept = |name: &str| {
        let (path, aside) = (place.join(name), place.join("aside"));
        std::fs::rename(&path, &aside).expect("moved");
        // No regular file: it cannot be read, like any file while no descriptor is left.
        std::fs::create_dir(&path).expect("made");
        NOW.set(jiff::Timestamp::now().as_millisecond() + 2 * HOUR);
        assert_eq!(world.fuses().len(), 1, "{name}");
        set(&world.host, order(name, None)).expect("set");
        let labels = world.fuses().into_iter().map(|fuse| fuse.label.expect("a label"));
        assert!(labels.into_iter().any(|label| label == "keep"), "{name}: its file was removed");
        std::fs::remove_dir(&path).expect("removed");
        std::fs::rename(&aside, &path).expect("moved back");
        let fuse = world.fuses().into_iter().find(|fuse| fuse.label.as_deref() == Some(name));
        cancel(&world.host, &fuse.expect("it is there").id).expect("cancelled");
    };
    is_kept("spec.json");
    is_kept("started.json");
    std::fs::write(place.join("spec.json"), "{").expect("written");
    assert_eq!(world.fuses().len(), 1, "an incomplete file");
}

#[test]
fn idle_time_comes_from_the_record_and_the_unknown_never_counts() {
    let world = World::new();
    world.set(idle(HOUR), vec![]);
    let here = world.path();
    let one = |status, last| session(status, &here, last);
    let looks = |sessions: Vec<Session>, at| world.due(&listing(sessions), at).len();
    let late = BEGIN + 9 * HOUR;
    assert_eq!(looks(vec![], late), 0, "nobody is there who could be idle");
    let rests = one(Status::Idle, Some(BEGIN));
    assert_eq!(looks(vec![rests.clone()], BEGIN + HOUR - 1), 0);
    assert_eq!(looks(vec![rests.clone()], BEGIN + HOUR), 1);
    assert_eq!(world.next(&listing(vec![rests.clone()]), BEGIN), Some(BEGIN + HOUR));
    for status in [Status::Running, Status::Waiting, Status::Unknown] {
        assert_eq!(looks(vec![one(status, Some(BEGIN))], late), 0, "{status:?}");
        assert_eq!(looks(vec![rests.clone(), one(status, Some(BEGIN))], late), 0, "{status:?}");
    }
    // The later activity decides; a session in another directory and an ended one do not count.
    let both = vec![rests.clone(), one(Status::Idle, Some(BEGIN + HOUR))];
    assert_eq!(looks(both.clone(), BEGIN + 2 * HOUR - 1), 0);
    assert_eq!(looks(both, BEGIN + 2 * HOUR), 1);
    let elsewhere = session(Status::Running, "/", Some(BEGIN));
    let ended = one(Status::Stopped, Some(BEGIN));
    assert_eq!(looks(vec![rests.clone(), elsewhere, ended.clone()], late), 1);
    assert_eq!(looks(vec![ended], late), 0);
    let mut shell = rests.clone();
    shell.reason = Some(Reason::of(ReasonKind::Background));
    assert_eq!(looks(vec![shell], late), 0, "a background shell is at work");
    assert_eq!(looks(vec![one(Status::Idle, None)], late), 0, "nobody knows since when");
    // An old session that was just opened again: the start of its process counts.
    let mut opened = one(Status::Idle, Some(BEGIN - 99 * HOUR));
    let me = world.host.kernel.process(std::process::id()).expect("read").expect("me");
    let began = me.started_at.expect("a time").millis();
    opened.processes = vec![ServingProcess::proved(me.id)];
    assert_eq!(looks(vec![opened.clone()], began + HOUR - 1), 0);
    assert_eq!(looks(vec![opened], began + HOUR), 1);
    // A fault may hide a session that is at work there.
    let mut blind = listing(vec![rests]);
    let (root, message) = (None, "late".into());
    blind.faults.push(Fault { adapter: "codex", root, code: FaultCode::Timeout, message });
    assert!(world.due(&blind, late).is_empty());
    // For a fuse of one session that does not matter.
    let fuse = world.on_session(idle(HOUR));
    let due = world.due(&blind, late);
    assert_eq!(due.iter().map(|d| d.fuse.id.clone()).collect::<Vec<_>>(), [fuse.id]);
}

#[test]
fn an_idle_session_in_a_shared_server_occupies_no_directory() {
    let world = World::new();
    let mut thread = session(Status::Idle, &world.path(), Some(BEGIN));
    thread.hosted = true;
    let look = listing(vec![thread]);
    world.set(idle(HOUR), vec![]);
    assert!(world.due(&look, BEGIN + HOUR).is_empty());
    world.on_session(idle(HOUR));
    assert_eq!(world.due(&look, BEGIN + HOUR).len(), 1);
}

#[test]
fn runtime_is_that_of_its_process_and_an_unknown_cost_never_counts() {
    let world = World::new();
    let fuse = world.on_session(runtime(HOUR));
    let me = world.host.kernel.process(std::process::id()).expect("read").expect("me");
    let began = me.started_at.expect("a time").millis();
    let mut live = session(Status::Running, "/", Some(BEGIN));
    live.processes = vec![ServingProcess::proved(me.id.clone())];
    let look = listing(vec![live.clone()]);
    assert!(world.due(&look, began + HOUR - 1).is_empty());
    assert_eq!(world.due(&look, began + HOUR)[0].cause, Cause::MaxRuntime);
    assert_eq!(world.next(&look, began), Some(began + HOUR));
    // A process with the recycled pid does not count; nor does a server with many sessions.
    let mut recycled = live.clone();
    recycled.processes[0].id.start_ticks += 1;
    assert!(world.due(&listing(vec![recycled]), began + 99 * HOUR).is_empty());
    live.hosted = true;
    let hosted = listing(vec![live.clone()]);
    assert!(world.due(&hosted, BEGIN - 1).is_empty());
    assert_eq!(world.due(&hosted, BEGIN)[0].at.millis(), BEGIN, "an hour after it began");

    cancel(&world.host, &fuse.id).expect("cancelled");
    world.on_session(Conditions { max_cost_usd: Some(5.0), ..Conditions::default() });
    let costs =
        |usd: Option<f64>| due(&world.host, &world.fuses(), &look, &mut |_| usd, time(BEGIN)).len();
    assert_eq!((costs(None), costs(Some(4.99)), costs(Some(5.0))), (0, 0, 1));
    let other = listing(vec![Session { id: Some("s-2".into()), ..live }]);
    let due = due(&world.host, &world.fuses(), &other, &mut |_| Some(9.0), time(BEGIN));
    assert!(due.is_empty(), "another session's cost");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// With any conditions and any order of looks, a fuse is due exactly from its time on.
    #[test]
    fn no_fuse_is_ever_early(
        ttl_ms in proptest::option::of(1_u64..1 << 42),
        idle_ms in proptest::option::of(1_u64..1 << 42),
        runtime_ms in proptest::option::of(1_u64..1 << 42),
        last in proptest::option::of(-(1_i64 << 41)..1 << 41),
        begun in -(1_i64 << 41)..1 << 41,
        is_idle in any::<bool>(),
        looks in proptest::collection::vec(-(1_i64 << 43)..1 << 43, 1..12),
    ) {
        let world = World::new();
        let when = Conditions { ttl_ms, idle_ms, max_runtime_ms: runtime_ms, max_cost_usd: None };
        let fuse = world.on_session(when);
        let status = if is_idle { Status::Idle } else { Status::Running };
        let mut live = session(status, "/", last.map(|l| BEGIN + l));
        live.started_at = Some(time(BEGIN + begun));
        let look = listing(vec![live]);
        let fuses = [fuse];
        let sum = |from: i64, ms: Option<u64>| ms.map(|ms| from + i64::try_from(ms).expect("fits"));
        let moments = [
            sum(BEGIN, ttl_ms),
            last.filter(|_| is_idle).and_then(|l| sum(BEGIN + l, idle_ms)),
            sum(BEGIN + begun, runtime_ms),
        ];
        let first = moments.into_iter().flatten().min();
        let about = moments.into_iter().flatten().flat_map(|m| [m - 1, m, m + 1]);
        for at in looks.into_iter().map(|l| BEGIN + l).chain(about) {
            let is_due = due(&world.host, &fuses, &look, &mut |_| None, time(at));
            prop_assert_eq!(!is_due.is_empty(), first.is_some_and(|first| at >= first));
            if let Some(due) = is_due.first() {
                prop_assert_eq!(Some(due.at.millis()), first);
            }
            let next = next_due(&world.host, &fuses, &look, time(at)).map(Time::millis);
            let expected = moments.into_iter().flatten().filter(|m| *m > at).min();
            prop_assert_eq!(next, expected);
        }
    }
}

#[test]
fn a_fuse_changed_since_it_was_judged_is_not_fired() {
    let world = World::new();
    let fuse = world.set(ttl(HOUR), vec![]);
    let due = world.due(&nobody(), BEGIN + HOUR).pop().expect("due");
    NOW.set(BEGIN + HOUR);
    let longer = extend(&world.host, &fuse.id, Conditions::default()).expect("extended");
    assert_eq!(longer.due_at.map(Time::millis), Some(BEGIN + 2 * HOUR), "its old time again");
    assert!(matches!(claim(&world.host, &due), Ok(None)));
    assert!(world.due(&nobody(), BEGIN + 2 * HOUR - 1).is_empty());
    let due = world.due(&nobody(), BEGIN + 2 * HOUR).pop().expect("due");
    let other = world.set(ttl(HOUR), vec![]);
    assert_ne!(other.id, fuse.id);
    assert!(matches!(claim(&world.host, &due), Ok(None)), "replaced");
    let due = world.due(&nobody(), BEGIN + 2 * HOUR).pop().expect("due");
    cancel(&world.host, &other.id).expect("cancelled");
    assert!(matches!(claim(&world.host, &due), Ok(None)), "cancelled");
    assert!(matches!(cancel(&world.host, &other.id), Err(FuseError::Missing)));
}

#[test]
fn extend_changes_what_is_given_and_nothing_else() {
    let world = World::new();
    let fuse = world.set(idle(HOUR), vec![]);
    let none = extend(&world.host, &fuse.id, Conditions::default());
    assert!(matches!(none, Err(FuseError::Timeless)), "there is no time to start again");
    NOW.set(BEGIN + 5);
    let change = Conditions { max_cost_usd: Some(2.5), ..idle(2 * HOUR) };
    let now = extend(&world.host, &fuse.id, change).expect("extended");
    let expected = Fuse {
        idle_ms: Some(7_200_000),
        max_cost_usd: Some(2.5),
        extended_at: Some(time(BEGIN + 5)),
        ..fuse
    };
    assert_eq!(now, expected);
    assert_eq!(world.fuses(), [expected]);
}

#[test]
fn a_change_is_reported_once_and_a_fired_fuse_is_not_a_cancelled_one() {
    let world = World::new();
    let mut edges = Edges::default();
    let mut told = |world: &World| {
        let (fuses, faults) = seen(&world.host);
        let fuses_hidden = !faults.is_empty();
        let things = LocksAndFuses { fuses, fuses_hidden, ..LocksAndFuses::default() };
        let events = edges.step(Snapshot {
            at: now(),
            until: now(),
            moment: Instant::now(),
            sessions: Vec::new(),
            unasked: Vec::new(),
            named: HashMap::new(),
            launches: HashMap::new(),
            ended_launches: Vec::new(),
            asks: Vec::new(),
            locks_and_fuses: things,
        });
        events.into_iter().map(|e| (e.kind, e.id)).collect::<Vec<_>>()
    };
    let secret = "https://a:b@x.org/secret?k";
    let of = |kind, fuse: &Fuse| (kind, about_fuse(kind, fuse, now()).id);
    assert_eq!(told(&world), []);
    let fuse = world.set(ttl(HOUR), vec![Action::Webhook { url: secret.into() }]);
    assert_eq!(told(&world), [of(EventKind::FuseSet, &fuse)]);
    assert_eq!(told(&world), []);
    let mut ids = Vec::new();
    for later in 1..4 {
        NOW.set(BEGIN + later);
        let fuse = extend(&world.host, &fuse.id, idle(HOUR)).expect("extended");
        let event = of(EventKind::FuseExtended, &fuse);
        assert_eq!(told(&world), std::slice::from_ref(&event));
        assert!(!ids.contains(&event.1), "each time is another");
        ids.push(event.1);
    }
    cancel(&world.host, &fuse.id).expect("cancelled");
    assert_eq!(told(&world), [of(EventKind::FuseCancelled, &fuse)]);
    // A fuse that was fired between two looks was not cancelled.
    for cause in [Cause::Ttl, Cause::Idle] {
        let fuse = world.set(ttl(HOUR), vec![]);
        assert_eq!(told(&world).len(), 1);
        let due = Due { fuse, cause, at: now() };
        let firing = claim(&world.host, &due).expect("claimed").expect("ours");
        firing.finish().expect("finished");
        assert_eq!(told(&world), [], "{cause:?}");
        assert!(world.fuses().is_empty(), "and it burns no more");
    }
    // An unreadable fuse may still exist.
    let fuse = world.set(ttl(HOUR), vec![Action::Webhook { url: secret.into() }]);
    assert_eq!(told(&world).len(), 1);
    let place = world.place();
    let kept = std::fs::read_to_string(&place).expect("read");
    std::fs::write(&place, "{").expect("written");
    assert_eq!(told(&world), []);
    std::fs::write(&place, &kept).expect("written");
    assert_eq!(told(&world), []);
    // Events hold no secret; the file does.
    let event = about_fuse(EventKind::FuseSet, &fuse, now());
    let text = serde_json::to_string(&event).expect("JSON");
    assert!(text.contains("https://x.org\"") && !text.contains("secret") && !text.contains("a:b"));
    assert!(kept.contains(secret));
    let due = world.due(&nobody(), BEGIN + 9 * HOUR).pop().expect("due");
    let firing = claim(&world.host, &due).expect("claimed").expect("ours");
    assert_eq!(firing.action(), Some(&Action::Webhook { url: secret.into() }));
    let event = about_fuse(EventKind::FuseExpired, &firing.fuse, now());
    assert!(!serde_json::to_string(&event).expect("JSON").contains("secret"));
}

#[test]
fn a_file_that_is_no_fuse_is_a_fault_and_hides_no_other() {
    let world = World::new();
    let fuse = world.set(ttl(HOUR), vec![]);
    let place = world.place();
    let text = std::fs::read_to_string(&place).expect("read");
    let here = world.path();
    let rubbish = [
        ("a.json", "{".to_owned()),
        ("b.json", text.replace(&here, "not/absolute")),
        ("c.json", text.replace("\"directory\"", "\"director\"")),
        ("d.json", text.replace(&fuse.id, "../../x")),
        ("other~ttl~1~0~-~-.firing", text.clone()),
    ];
    for (name, text) in &rubbish {
        std::fs::write(folder(&world.host).join(name), text).expect("written");
    }
    let (found, faults) = all(&world.host);
    assert_eq!((found.len(), faults.len()), (1, rubbish.len()), "{faults:?}");
    assert!(
        faults.iter().all(
            |f| f.code == FaultCode::Unreadable && f.message.contains("is not a readable fuse")
        )
    );
    // A broken fuse can be set again and removed.
    std::fs::write(&place, "{").expect("written");
    let bound = Bound::Directory(here);
    assert!(clear(&world.host, &bound, None).expect("cleared"));
    assert!(!clear(&world.host, &bound, None).expect("nothing is there"));
    assert!(!Path::new(&place).exists());
    std::fs::write(&place, "{").expect("written");
    let fuse = world.set(ttl(HOUR), vec![]);
    assert!(!clear(&world.host, &bound, None).expect("it can be read"));
    assert_eq!(all(&world.host).0, [fuse]);
}
