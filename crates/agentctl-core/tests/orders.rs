//! Orders beside an adapter that believes every record: a stop verifies by itself which processes it
//! signals, and never acts on a join by directory and start time only.
//!
//! Every test runs in a private pid namespace and a process of its own, so the switches below affect no
//! other test.
#![cfg(target_os = "linux")]
// Tests build their own host; helpers of tests panic like the tests themselves.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentctl_core::adapters::control::{
    Abilities, Control, FirstWords, Handshake, Order, Refusal, Start, Stop,
};
use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::{
    Adapter, Capabilities, Depth, Found, Installation, Look, Record, Root, Served, Store, Turn,
};
use agentctl_core::fleet::{Adapters, Fleet};
use agentctl_core::host::{Deadlines, Host};
use agentctl_core::kernel::{Brief, Kernel, Process};
use agentctl_core::model::{Join, Locator, Message, ProcId, Session, Target, Time};
use agentctl_core::stop::{self, Report, StopOptions, StopVerdict};
use rustix::process::Signal;
use testkit::{Echo, sandboxed};

const HOME: &str = "/nowhere";
const LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(5))];

/// The pid that the record names.
static NAMED: AtomicU32 = AtomicU32::new(0);
/// The process is the agent's own program.
static OWN: AtomicBool = AtomicBool::new(true);
/// The process uses the home of the record.
static AT_HOME: AtomicBool = AtomicBool::new(true);
/// The user's own settings name the home.
static KNOWN: AtomicBool = AtomicBool::new(true);
/// Only directory and start time join the process.
static GUESSED: AtomicBool = AtomicBool::new(false);
/// Number of reads after which the live record names nothing any more.
static READS: AtomicU32 = AtomicU32::new(u32::MAX);
/// The processes that name the home, where no setting does.
static NAMED_BY: Mutex<Vec<ProcId>> = Mutex::new(Vec::new());

struct Credulous;
static ALL: Adapters = &[&Credulous];

impl Adapter for Credulous {
    fn name(&self) -> &'static str {
        "credulous"
    }

    fn capabilities(&self) -> Capabilities {
        Demo.capabilities()
    }

    fn is_candidate(&self, _: Brief<'_>) -> bool {
        false
    }

    fn is_own_program(&self, _: &Look, _: &Process) -> bool {
        OWN.load(Ordering::SeqCst)
    }

    fn home_of(&self, _: &Look, _: &Process) -> Option<PathBuf> {
        let at_home = AT_HOME.load(Ordering::SeqCst);
        Some(PathBuf::from(if at_home { HOME } else { "/elsewhere" }))
    }

    fn roots(&self, _: &Look) -> Vec<Root> {
        let named_by = NAMED_BY.lock().expect("unpoisoned").clone();
        vec![if KNOWN.load(Ordering::SeqCst) {
            Root::known(HOME.into())
        } else {
            Root::named_only_by(HOME.into(), named_by)
        }]
    }

    fn installation(&self, _: &Host) -> Installation {
        Installation::default()
    }

    fn store<'a>(&'a self, look: &'a Look, _: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(Believing(look))
    }

    fn messages(&self, _: &[u8]) -> Vec<Message> {
        Vec::new()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

impl Control for Credulous {
    fn abilities(&self) -> Abilities {
        Abilities { fork: false, edits: "", bypass: "", stop: "" }
    }

    fn start(&self, _: &Host, _: &Order) -> Result<Start, Refusal> {
        Err(Refusal::new("it cannot", "do not"))
    }

    fn handshake(&self, _: &Host, _: &Order, _: &FirstWords<'_>) -> Handshake {
        Handshake::Wait
    }

    fn stop(&self, _: &Look, _: &Root, _: &Session) -> Stop {
        Stop::Signals(LADDER)
    }
}

struct Believing<'a>(&'a Look);

impl Store for Believing<'_> {
    fn live(&self) -> Found<Served> {
        let mut found = Found::default();
        let left = READS.load(Ordering::SeqCst);
        if left == 0 {
            return found;
        }
        if left != u32::MAX {
            READS.store(left - 1, Ordering::SeqCst);
        }
        let pid = NAMED.load(Ordering::SeqCst);
        if let Ok(Some(process)) = self.0.host.kernel.process(pid) {
            let mut served = Served::by(Some("forged".into()), &process);
            if GUESSED.load(Ordering::SeqCst) {
                served.join = Join::Inferred;
            }
            found.rows.push(served);
        }
        found
    }

    fn history(&self, _: Option<i64>) -> Found<Locator> {
        let entry = Locator { id: "forged".into(), path: Some(HOME.into()), parent: None };
        Found { rows: vec![entry], ..Found::default() }
    }

    fn record(&self, _: &Locator, _: Depth) -> Record {
        Record { turn: Turn::Finished, ..Record::default() }
    }
}

fn stop(pid: Option<u32>, force: bool) -> Report {
    let deadline = Duration::from_mins(1);
    let host = Arc::new(Host {
        program: PathBuf::from("/nowhere/agentctl"),
        deadlines: Deadlines { live: deadline, all: deadline, ..Deadlines::default() },
        ..Host::new("/", Kernel::open().expect("a kernel"), || Time(jiff::Timestamp::now()))
    });
    let locator = Locator { id: "forged".into(), path: None, parent: None };
    let target = Target { adapter: "credulous", root: HOME.into(), session: Some(locator), pid };
    stop::stop(
        &Fleet::new(Arc::clone(&host), ALL),
        &target,
        StopOptions { force, timeout_ms: None },
    )
}

fn named() -> Echo {
    let victim = Echo::start("cat", None);
    NAMED.store(victim.pid(), Ordering::SeqCst);
    victim
}

/// Stops with and without force: both refuse, with these words, and the process lives on.
fn assert_refused(victim: &mut Echo, words: &str) {
    for force in [false, true] {
        let report = stop(None, force);
        assert!(victim.answers(), "{report:?}");
        let StopVerdict::Refused(why, hint) = &report.verdict else { panic!("{report:?}") };
        assert!(why.contains(words) && hint.is_some(), "{report:?}");
    }
}

#[test]
fn a_process_that_is_proved_is_stopped() {
    sandboxed(|| {
        let mut agent = named();
        let report = stop(None, false);
        assert_eq!(report.verdict, StopVerdict::Stopped, "{report:?}");
        assert!(!agent.answers());
    });
}

#[test]
fn a_stop_checks_the_program_again() {
    sandboxed(|| {
        OWN.store(false, Ordering::SeqCst);
        assert_refused(&mut named(), "is not the agent's program");
    });
}

#[test]
fn a_stop_checks_the_home_again() {
    sandboxed(|| {
        AT_HOME.store(false, Ordering::SeqCst);
        assert_refused(&mut named(), "names the home /elsewhere");
    });
}

#[test]
fn a_stop_checks_the_pid_namespace_again() {
    sandboxed(|| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut outer = Echo { child: command.spawn().expect("`unshare` of util-linux") };
        assert!(outer.answers());
        let below = format!("/proc/{0}/task/{0}/children", outer.pid());
        let below = std::fs::read_to_string(below).expect("its child");
        NAMED.store(below.trim().parse().expect("a pid"), Ordering::SeqCst);
        assert_refused(&mut outer, "another pid namespace");
    });
}

#[test]
#[ignore = "needs root: it plays another user"]
fn a_stop_checks_the_user_again() {
    sandboxed(|| {
        let other = testkit::another_user();
        let mut command = other.command("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut victim = Echo { child: command.spawn().expect("started") };
        assert!(victim.answers());
        NAMED.store(victim.pid(), Ordering::SeqCst);
        assert_refused(&mut victim, "belongs to user 65534");
    });
}

#[test]
fn a_stop_checks_the_record_again() {
    sandboxed(|| {
        let mut victim = named();
        // `stop` reads it when it looks at the session and when it looks at all others; then it is gone.
        READS.store(2, Ordering::SeqCst);
        let report = stop(None, true);
        assert!(victim.answers(), "{report:?}");
        assert!(matches!(report.verdict, StopVerdict::Refused(..)), "{report:?}");
    });
}

#[test]
fn an_inferred_join_is_never_signalled_and_names_the_pid() {
    sandboxed(|| {
        GUESSED.store(true, Ordering::SeqCst);
        let mut victim = named();
        let hint = format!("agentctl stop {}", victim.pid());
        let StopVerdict::Refused(_, Some(said)) = stop(None, true).verdict else {
            panic!("refused")
        };
        assert!(said.contains(&hint), "{said}");
        assert_refused(&mut victim, "only its directory and start time");
    });
}

#[test]
fn a_pid_that_was_typed_names_the_process_itself() {
    sandboxed(|| {
        GUESSED.store(true, Ordering::SeqCst);
        AT_HOME.store(false, Ordering::SeqCst);
        let mut agent = named();
        let report = stop(Some(agent.pid()), false);
        assert_eq!(report.verdict, StopVerdict::Stopped, "{report:?}");
        assert!(!agent.answers());
    });
}

#[test]
fn a_pid_that_was_typed_must_still_be_the_agents_own() {
    sandboxed(|| {
        GUESSED.store(true, Ordering::SeqCst);
        OWN.store(false, Ordering::SeqCst);
        let mut victim = named();
        let report = stop(Some(victim.pid()), true);
        assert!(victim.answers(), "{report:?}");
        assert!(matches!(report.verdict, StopVerdict::Refused(..)), "{report:?}");
    });
}

#[test]
fn in_a_foreign_home_only_the_process_that_names_it_is_signalled() {
    sandboxed(|| {
        KNOWN.store(false, Ordering::SeqCst);
        let mut victim = named();
        let decoy = Echo::start("cat", None);
        let kernel = Kernel::open().expect("a kernel");
        let id = |echo: &Echo| kernel.process(echo.pid()).expect("read").expect("there").id;
        *NAMED_BY.lock().expect("unpoisoned") = vec![id(&decoy)];
        let report = stop(None, true);
        assert!(victim.answers(), "{report:?}");
        let StopVerdict::Refused(_, Some(hint)) = &report.verdict else { panic!("{report:?}") };
        assert!(hint.contains("[roots]"), "{hint}");
        *NAMED_BY.lock().expect("unpoisoned") = vec![id(&decoy), id(&victim)];
        let report = stop(None, false);
        assert_eq!(report.verdict, StopVerdict::Stopped, "{report:?}");
        assert!(!victim.answers());
    });
}
