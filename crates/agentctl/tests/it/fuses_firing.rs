//! Fuses fired by the daemon's code: real sessions, real commands, and a daemon that is killed in the
//! middle. The clock is the real one, or one that is hours ahead.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentctl::daemon::fuses::{Fuses, Outlets, Weight, fire};
use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, EventKind, about_fuse};
use agentctl_core::fleet::{self, Fleet, Query};
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{Listing, Time};
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code;
use crate::daemon::started;
use crate::launched::{folder, kill, launch, script, status, until_stopped};
use crate::locks::ByHand;

const ROLE: &str = "AGENTCTL_TEST_FUSES_HOME";
/// A timeout that no machine reaches: the tests do not depend on speed.
const LIMIT: Duration = Duration::from_mins(5);

fn now() -> Time {
    Time(jiff::Timestamp::now())
}

fn hours_later() -> Time {
    Time::from_millis(now().millis() + 3 * 3_600_000).expect("a time")
}

pub(crate) fn host(home: PathBuf, clock: fn() -> Time) -> Arc<Host> {
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let env = BTreeMap::from([
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
        ("PATH".to_owned(), path),
    ]);
    Arc::new(Host {
        program: PathBuf::from(env!("CARGO_BIN_EXE_agentctl")),
        env,
        deadlines: Deadlines { live: LIMIT, all: LIMIT, launch: LIMIT, gateway: LIMIT },
        ..Host::new(home, Kernel::open().expect("a kernel"), clock)
    })
}

/// All events that were reported.
#[derive(Default)]
struct Heard {
    events: Mutex<Vec<Event>>,
    posts: Mutex<Vec<(String, String)>>,
    log: Mutex<Vec<(Weight, String)>>,
}

impl Outlets for Heard {
    fn tell(&self, event: Event) {
        self.events.lock().expect("whole").push(event);
    }

    fn post(&self, url: &str, event: &Event) -> Result<(), String> {
        self.posts.lock().expect("whole").push((url.to_owned(), event.id.clone()));
        if url.contains("refused") { Err("it is not taken".into()) } else { Ok(()) }
    }

    fn log(&self, weight: Weight, text: &str) {
        self.log.lock().expect("whole").push((weight, text.to_owned()));
    }
}

/// The part of the daemon that fires fuses.
struct Awake {
    fuses: Fuses,
    heard: Arc<Heard>,
    host: Arc<Host>,
}

impl Awake {
    fn start(home: &TestHome, clock: fn() -> Time) -> Self {
        let host = host(home.path(), clock);
        let heard = Arc::new(Heard::default());
        let outlets: Arc<dyn Outlets> = Arc::clone(&heard) as _;
        let fuses = Fuses::start(Fleet::new(Arc::clone(&host), ALL), outlets).expect("started");
        Self { fuses, heard, host }
    }

    /// Passes a new look to the fuses, as the daemon does.
    fn look(&self) {
        self.fuses.looked(Arc::new(self.listing()));
    }

    fn listing(&self) -> Listing {
        let query = Query { resting: true, ..Query::default() };
        fleet::list(&Fleet::new(Arc::clone(&self.host), ALL), &query)
    }

    fn events(&self) -> Vec<Event> {
        self.heard.events.lock().expect("whole").clone()
    }

    fn log(&self) -> Vec<(Weight, String)> {
        self.heard.log.lock().expect("whole").clone()
    }

    fn until_said(&self, words: &str) -> String {
        eventually(words, || {
            let log = self.log();
            log.into_iter().map(|(_, text)| text).find(|text| text.contains(words))
        })
    }

    /// Lets it check every fuse, then ends it. Returns what it did except firing the fuse that was set for
    /// this purpose.
    fn look_and_end(self, home: &TestHome) -> Vec<Event> {
        let listing = Arc::new(self.listing());
        self.hand_over_and_end(home, &listing)
    }

    /// As before, with this look, which may be outdated.
    fn hand_over_and_end(self, home: &TestHome, listing: &Arc<Listing>) -> Vec<Event> {
        let id = set(home, &["sentinel", "--ttl", "1ms"]);
        eventually("it has looked at all of them", || {
            self.fuses.looked(Arc::clone(listing));
            self.events().iter().any(|e| fired(e) == id).then_some(())
        });
        assert!(self.fuses.stop(LIMIT));
        let others = |e: &Event| fired(e) != id;
        self.events().into_iter().filter(others).collect()
    }

    /// Waits until no fuse is burning, firing or interrupted.
    fn until_through(&self, home: &TestHome) {
        eventually("all fuses are through", || fuses(home).is_empty().then_some(()));
        assert!(self.fuses.stop(LIMIT), "none is at it any more");
    }
}

fn set(home: &TestHome, args: &[&str]) -> String {
    let answer = home.run(&[&["fuse", "set"], args].concat());
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    answer.stdout.trim().to_owned()
}

fn fuses(home: &TestHome) -> Vec<Value> {
    home.run(&["fuses", "--json"]).json()["fuses"].as_array().cloned().expect("a list")
}

/// Returns the id of the fuse that was fired.
fn fired(event: &Event) -> String {
    assert_eq!(event.kind, EventKind::FuseExpired);
    let fuse = event.fuse.as_ref().expect("the fuse");
    assert_eq!(event.id, about_fuse(EventKind::FuseExpired, fuse, event.at).id);
    fuse.id.clone()
}

/// A home in which only the test runs daemon code.
fn home() -> TestHome {
    let mut home = crate::home();
    home.set("AGENTCTL_NO_DAEMON", "1");
    home
}

fn lives(home: &TestHome, id: &str) -> bool {
    let status = status(home, id)["status"].clone();
    status != "stopped" && status != "error"
}

#[test]
fn a_stop_ends_exactly_the_sessions_in_that_directory() {
    sandboxed(|| {
        let home = home();
        let launched = launch(&home, "w", "x [[tool:sleep 1000]] [[hang]]", &[]);
        let by_hand = ByHand::start(&home, "w", "by-hand");
        let below = launch(&home, "w/below", "x [[hang]]", &[]);
        let neighbour = launch(&home, "w2", "x [[hang]]", &[]);
        symlink("w", home.path().join("link")).expect("linked");
        let id = set(&home, &["link", "--ttl", "2h", "--on-expire", "stop", "--label", "night"]);

        // Nothing happens before its time, however often the fuses are checked.
        assert_eq!(Awake::start(&home, now).look_and_end(&home), []);
        assert!(lives(&home, &launched) && lives(&home, "by-hand"));
        assert_eq!(fuses(&home)[0]["state"], "burning");

        let late = Awake::start(&home, hours_later);
        late.until_through(&home);
        for ended in [launched.as_str(), "by-hand"] {
            until_stopped(&home, ended);
        }
        assert!(lives(&home, &below) && lives(&home, &neighbour), "others are left alone");
        let events = late.events();
        assert_eq!(events.iter().map(fired).collect::<Vec<_>>(), [id]);
        assert!(events[0].late, "nobody was awake when its time came");
        let fuse = events[0].fuse.as_ref().expect("the fuse");
        assert_eq!(Some(events[0].at), fuse.due_at);
        assert_eq!(fuse.label.as_deref(), Some("night"));
        let said = late.until_said("stop: ");
        for id in [&launched, "by-hand"] {
            assert!(said.contains(&format!("stopped demo {id}")), "{said}");
        }
        assert!(late.log().iter().all(|(weight, _)| *weight == Weight::Note), "{:?}", late.log());
        drop(by_hand);
    });
}

#[test]
fn a_short_fuse_fires_by_its_timer_and_not_before() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let awake = Awake::start(&home, now);
        let id = set(&home, &["w", "--ttl", "1h"]);
        awake.look();
        assert_eq!(home.run(&["fuse", "extend", "w", "--ttl", "200ms"]).code, Some(0));
        awake.look();
        // No look follows: the timer fires the fuse.
        let event = eventually("it burnt down", || awake.events().pop());
        assert_eq!((fired(&event), event.late), (id, false));
        assert!(event.at <= now(), "never early");
        awake.until_through(&home);
        assert_eq!(awake.events(), [event]);
    });
}

#[test]
fn the_daemon_is_woken_by_a_fuse_and_fires_it() {
    sandboxed(|| {
        let home = crate::home();
        // The daemon must be awake before the fuse is due; otherwise its start would fire the fuse.
        started(&home);
        script(&home, "note", "cat > \"${0%/bin/*}/told\"");
        let session = launch(&home, "w", "x [[hang]]", &[]);
        let neighbour = launch(&home, "v", "x [[hang]]", &[]);
        let actions = ["--on-expire", "stop", "--on-expire", "run:note"];
        let id = set(&home, &[&["w", "--ttl", "300ms"], &actions[..]].concat());
        until_stopped(&home, &session);
        eventually("it is through", || fuses(&home).is_empty().then_some(()));
        let told = fs::read_to_string(home.path().join("told")).expect("it was told");
        let event: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&event["type"], &event["fuse"]["id"]), (&"fuse.expired".into(), &json!(id)));
        assert_eq!(event["late"], false);
        assert!(lives(&home, &neighbour));
        // A fuse without a time is checked at every change.
        let busy = launch(&home, "w", "x [[delay:1]] [[say:done]]", &[]);
        set(&home, &["--session", &neighbour, "--max-runtime", "1ms", "--on-expire", "stop"]);
        until_stopped(&home, &neighbour);
        until_stopped(&home, &busy);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    });
}

#[test]
fn a_command_runs_in_the_directory_with_the_facts_of_the_fuse() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        let note = "cd \"${0%/bin/*}\"; env > \"$1\"; echo \"$OLDPWD\" >> \"$1\"; cat > \"$1.json\"; echo told $1";
        script(&home, "note", note);
        script(&home, "fails", "echo oh no; exit 3");
        script(&home, "chatters", "yes | head -c 1000000");
        set(
            &home,
            &[
                "w",
                "--label",
                "l 1",
                "--on-expire",
                "run:fails",
                "--on-expire",
                "run:note 'first one'",
                "--on-expire",
                "webhook:https://refused.org/x",
                "--on-expire",
                "webhook:https://example.org/y?z",
                "--on-expire",
                "run:chatters",
            ],
        );
        let gone = folder(&home, "gone");
        set(&home, &["gone", "--on-expire", "run:note second"]);
        fs::remove_dir(&gone).expect("removed");
        let ids: Vec<Value> = fuses(&home).iter().map(|f| f["id"].clone()).collect();
        let awake = Awake::start(&home, hours_later);
        awake.until_through(&home);
        let told = fs::read_to_string(home.path().join("first one")).expect("written");
        crate::hook_page::assert_documented("Fuse commands", &told);
        for line in [
            format!("AGENTCTL_FUSE_ID={}", ids[0].as_str().expect("an id")),
            "AGENTCTL_FUSE_CAUSE=ttl".into(),
            "AGENTCTL_FUSE_LABEL=l 1".into(),
            format!("AGENTCTL_FUSE_DIRECTORY={w}"),
            "AGENTCTL_FUSE_SESSION=".into(),
            w.clone(),
        ] {
            assert!(told.lines().any(|l| l == line), "{line} in\n{told}");
        }
        let event = fs::read_to_string(home.path().join("first one.json")).expect("written");
        let event: Value = serde_json::from_str(&event).expect("JSON");
        assert_eq!((&event["type"], &event["fuse"]["id"]), (&"fuse.expired".into(), &ids[0]));
        assert_eq!(event["fuse"]["cause"], "ttl");
        // Its directory is gone, so the command runs in the home directory.
        let told = fs::read_to_string(home.path().join("second")).expect("written");
        assert!(told.lines().any(|l| l == home.path().to_string_lossy()), "{told}");
        let id = event["id"].as_str().expect("an id").to_owned();
        let posts = awake.heard.posts.lock().expect("whole").clone();
        let expected = ["https://refused.org/x", "https://example.org/y?z"];
        assert_eq!(posts, expected.map(|url| (url.to_owned(), id.clone())));
        let log = awake.log();
        let about = |words: &str| {
            let found = log.iter().find(|(_, text)| text.contains(words));
            found.unwrap_or_else(|| panic!("nothing about {words} in {log:?}"))
        };
        assert_eq!(about("it exited with 3; output: oh no").0, Weight::Warning);
        assert_eq!(about("told first one").0, Weight::Note);
        assert_eq!(about("it is not taken").0, Weight::Warning);
        assert!(log.iter().all(|(_, text)| text.len() < 5000), "what it says is capped");
    });
}

#[test]
fn a_slow_action_delays_no_other_fuse() {
    sandboxed(|| {
        let home = home();
        let fifo = home.at("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
        script(&home, "slow", "read line < \"${0%/bin/*}/fifo\"");
        for n in 0..12 {
            set(&home, &["w", "--label", &format!("slow {n}"), "--on-expire", "run:slow"]);
        }
        let awake = Awake::start(&home, hours_later);
        eventually("some are at it", || {
            (fuses(&home).iter().filter(|f| f["state"] == "firing").count() >= 8).then_some(())
        });
        // The thread that reports a look is not blocked, and no fuse is claimed twice.
        awake.look();
        let other = Awake::start(&home, hours_later);
        eventually("the rest are at it", || {
            (fuses(&home).iter().filter(|f| f["state"] == "firing").count() == 12).then_some(())
        });
        let firing = home.run(&["fuse", "cancel", "w", "--label", "slow 3"]);
        assert_eq!(firing.code, Some(5), "{}", firing.stderr);
        let feed = fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("opened");
        for _ in 0..12 {
            std::io::Write::write_all(&mut &feed, b"go\n").expect("written");
        }
        awake.until_through(&home);
        assert!(other.fuses.stop(LIMIT));
        let mut ids: Vec<String> =
            [awake.events(), other.events()].concat().into_iter().map(|e| e.id).collect();
        ids.sort();
        ids.dedup();
        let told = awake.events().len() + other.events().len();
        assert_eq!((ids.len(), told), (12, 12), "each was fired once");
    });
}

#[test]
fn idle_time_comes_from_the_agents_own_record() {
    sandboxed(|| {
        let home = home();
        let _idle = ByHand::start(&home, "idle", "rests");
        let asks = launch(&home, "asks", "x [[ask:Which?]]", &[]);
        let busy = launch(&home, "busy", "x [[hang]]", &[]);
        for name in ["idle", "asks", "busy"] {
            set(&home, &[name, "--idle", "2h", "--on-expire", "stop"]);
        }
        let session = set(&home, &["--session", "rests", "--idle", "9h"]);
        assert_eq!(Awake::start(&home, now).look_and_end(&home), []);
        // An outdated look says idle, the session is not: nothing is fired without a fresh look.
        let old = Arc::new(Awake::start(&home, now).listing());
        let tell = |words: &str| {
            let told = home.run(&["demo-agent", "--tell", "rests", "-p", words]);
            assert_eq!(told.code, Some(0), "{}", told.stderr);
        };
        tell("x [[ask:Really?]] [[say:ok]]");
        eventually("it is busy", || (status(&home, "rests")["status"] == "waiting").then_some(()));
        assert_eq!(Awake::start(&home, hours_later).hand_over_and_end(&home, &old), []);
        tell("yes");
        eventually("it rests", || (status(&home, "rests")["status"] == "idle").then_some(()));
        let late = Awake::start(&home, hours_later);
        late.look();
        until_stopped(&home, "rests");
        eventually("it is through", || (fuses(&home).len() == 3).then_some(()));
        assert!(late.fuses.stop(LIMIT));
        assert!(lives(&home, &asks), "one that waits for a human is not idle");
        assert!(lives(&home, &busy));
        let event = late.events().pop().expect("told");
        let fuse = event.fuse.expect("the fuse");
        assert_eq!(fuse.cause.map(agentctl_core::fuses::Cause::word), Some("idle"));
        assert!(fuses(&home).iter().any(|f| f["id"] == session.as_str()), "nine hours are longer");
    });
}

#[test]
fn runtime_and_cost_are_those_of_the_session() {
    sandboxed(|| {
        let mut claude = claude_code::Claude::new();
        claude.home.set("AGENTCTL_NO_DAEMON", "1");
        let home = &claude.home;
        let cost = |tokens: u64| {
            json!({"type": "cost-state", "totalCostUSD": 6.5, "modelUsage": {"claude-opus-5-5":
                {"inputTokens": tokens, "outputTokens": 3, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}}})
        };
        // The figure does not cover every token, so the cost is unknown.
        claude.transcript(
            claude_code::A,
            &[claude_code::prompt("x"), claude_code::said("y"), cost(6)],
        );
        let _agent = claude.live(claude_code::A, &json!({"status": "busy"}));
        let run = set(home, &["--session", claude_code::A, "--max-runtime", "2h"]);
        let spent = set(home, &["--session", claude_code::A, "--max-cost", "5", "--label", "cost"]);
        assert_eq!(Awake::start(home, now).look_and_end(home), []);
        assert_eq!(status(home, claude_code::A)["cost_usd"], Value::Null);
        let late = Awake::start(home, hours_later);
        let told = eventually("it ran for too long", || late.events().pop());
        assert_eq!(fired(&told), run);
        assert_eq!(told.session_id.as_deref(), Some(claude_code::A));
        assert_eq!(told.adapter, Some("claude-code"));
        assert_eq!(told.session.and_then(|s| s.cwd), Some(claude.cwd.clone()));
        assert!(late.fuses.stop(LIMIT));
        assert_eq!(fuses(home).len(), 1, "an unknown cost never counts");

        claude.transcript(
            claude_code::A,
            &[claude_code::prompt("x"), claude_code::said("y"), cost(7)],
        );
        assert_eq!(status(home, claude_code::A)["cost_usd"], 6.5);
        let awake = Awake::start(home, now);
        awake.look();
        let told = eventually("it cost too much", || awake.events().pop());
        assert_eq!(fired(&told), spent);
        awake.until_through(home);
        assert!(lives(home, claude_code::A), "nobody asked for a stop");
    });
}

/// Not a test of its own: the process that is killed in the middle, when a test starts this program for
/// that.
#[test]
fn the_process_that_is_killed() {
    let Some(home) = std::env::var_os(ROLE) else { return };
    let heard: Arc<dyn Outlets> = Arc::new(Heard::default());
    let fuses = Fuses::start(Fleet::new(host(PathBuf::from(home), hours_later), ALL), heard)
        .expect("started");
    fuses.looked(Arc::new(Listing { schema_version: 1, sessions: Vec::new(), faults: Vec::new() }));
    std::thread::park();
}

fn victim(home: &TestHome) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let name = "fuses_firing::the_process_that_is_killed";
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ROLE, home.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("started")
}

#[test]
fn an_interrupted_fuse_is_resumed_and_its_command_is_not_repeated() {
    sandboxed(|| {
        let home = home();
        let fifo = home.at("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
        script(&home, "slow", "cd \"${0%/bin/*}\"; echo begun >> runs; read line < fifo");
        script(&home, "after", "cd \"${0%/bin/*}\"; echo after >> runs");
        let session = launch(&home, "w", "x [[hang]]", &[]);
        let id = set(
            &home,
            &["w", "--on-expire", "run:slow", "--on-expire", "stop", "--on-expire", "run:after"],
        );
        let mut first = victim(&home);
        let runs = || fs::read_to_string(home.path().join("runs")).unwrap_or_default();
        eventually("its command has begun", || (runs() == "begun\n").then_some(()));
        assert_eq!(fuses(&home)[0]["state"], "firing");
        kill(first.id());
        first.wait().expect("reaped");
        let row = fuses(&home).remove(0);
        assert_eq!((&row["state"], &row["cause"]), (&"interrupted".into(), &"ttl".into()));
        assert!(row["note"].as_str().is_some_and(|n| n.contains("not run again")), "{row}");
        assert!(lives(&home, &session), "it had not come to that");

        let next = Awake::start(&home, hours_later);
        until_stopped(&home, &session);
        next.until_said("was interrupted and continues");
        next.until_said("it is not run again");
        eventually("it has done the rest", || (runs() == "begun\nafter\n").then_some(()));
        assert!(next.fuses.stop(LIMIT));
        assert_eq!(fired(&next.events().pop().expect("told again")), id);
        // It is shown until the user cancels it, and is not fired again.
        let shown = home.run(&["fuses"]);
        assert!(shown.stdout.contains("interrupted"), "{}", shown.stdout);
        assert!(shown.stderr.contains("slow` was interrupted"), "{}", shown.stderr);
        assert_eq!(Awake::start(&home, hours_later).look_and_end(&home), []);
        assert_eq!(home.run(&["fuse", "cancel", "w"]).code, Some(0));
        assert!(fuses(&home).is_empty());
        assert_eq!(runs(), "begun\nafter\n");
    });
}

/// Leaves the only fuse as a daemon leaves it that was killed after it had claimed the fuse and before its first action.
fn interrupt(home: &TestHome) {
    let folder = home.path().join(".local/state/agentctl/fuses");
    let id = fuses(home)[0]["id"].as_str().expect("an id").to_owned();
    let files = fs::read_dir(&folder).expect("listed").flatten().map(|entry| entry.path());
    let mut files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let name = format!("{id}~idle~{}~0~-~-.firing", now().millis());
    fs::rename(files.next().expect("its file"), folder.join(name)).expect("renamed");
    assert_eq!(fuses(home)[0]["state"], "interrupted");
}

fn pid(home: &TestHome, id: &str) -> u32 {
    let pid = status(home, id)["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("a pid")
}

#[test]
fn the_end_of_a_kept_session_spares_a_person_who_has_continued_it() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:one]]", &["--keep=30m"]);
        let run = status(&home, &id)["run"].clone();
        interrupt(&home);
        kill(pid(&home, &id));
        until_stopped(&home, &id);
        let by_hand = ByHand::resume(&home, "w", &id);
        assert_eq!(
            status(&home, &id)["run"],
            run,
            "the newest launch is not the one that serves it"
        );
        let next = Awake::start(&home, now);
        assert!(next.until_said("stop: ").ends_with("stop: its run has ended"));
        next.until_through(&home);
        assert!(lives(&home, &id), "it is in the hands of a person");
        drop(by_hand);
    });
}

#[test]
fn a_kept_session_that_cannot_be_looked_at_is_not_said_to_have_ended() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:one]]", &["--keep=30m"]);
        let stopped = |words: &str| {
            let host = host(home.path(), now);
            let firing = agentctl_core::fuses::unfinished(&host).expect("read").remove(0);
            let heard = Heard::default();
            fire(&Fleet::new(host, ALL), &heard, firing, false);
            let log = heard.log.lock().expect("whole").clone();
            let found = log.iter().find(|(_, text)| text.contains(words));
            found.unwrap_or_else(|| panic!("`{words}` in {log:?}")).0
        };
        interrupt(&home);
        // A file in place of the directory of live records: the session is not found, and the source has a fault.
        let live = home.path().join(".local/share/agentctl-demo/live");
        fs::rename(&live, live.with_extension("aside")).expect("renamed");
        fs::write(&live, "").expect("written");
        let words = "stop failed: its session cannot be looked at";
        assert_eq!(stopped(words), Weight::Warning);
        fs::remove_file(&live).expect("removed");
        fs::rename(live.with_extension("aside"), &live).expect("renamed");
        assert!(lives(&home, &id));

        let other = launch(&home, "v", "x [[say:one]]", &["--keep=30m"]);
        interrupt(&home);
        assert_eq!(stopped("stop: stopped demo"), Weight::Note);
        until_stopped(&home, &other);
    });
}
