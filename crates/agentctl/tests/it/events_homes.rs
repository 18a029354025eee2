//! `events` of sessions in a home that only their own environment names: nothing there is watched, and
//! no other change causes a look (W17).

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::receiver::{Manner, Receiver};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::claude_code::{self, Claude, prompt};
use crate::daemon::started;
use crate::events::Stream;
use crate::opencode::works_on;
use crate::{codex, configure, home, opencode, pi};

/// Half of the time after which everything is looked at in any case.
const IN_TIME: Duration = Duration::from_secs(30);

/// Says of a session in another home that it began, and after it was killed that it ended.
#[track_caller]
fn begins_and_ends(stream: &Stream, id: &str, begin: impl FnOnce() -> Agent) -> Value {
    let began = Instant::now();
    let mut agent = begin();
    eventually("its beginning is told", || stream.kinds(id).first().cloned());
    assert!(began.elapsed() < IN_TIME, "{id} was told by the look that comes once a minute");
    assert_eq!(stream.kinds(id)[0], "started");
    let killed = Instant::now();
    agent.kill();
    let over = stream.last(id, "stopped");
    assert!(killed.elapsed() < IN_TIME, "the end of {id} came too late");
    over
}

/// Each agent's home is moved by a variable of its own process, and is not there when that begins.
#[test]
fn sessions_of_every_agent_in_homes_of_their_own_are_reported() {
    sandboxed(|| {
        let watching = home();
        let stream = Stream::of(&watching, &[]);
        let claude = Claude::new();
        let over = begins_and_ends(&stream, claude_code::A, || {
            claude.transcript(claude_code::A, &[prompt("fix it")]);
            claude.live(claude_code::A, &json!({"status": "busy"}))
        });
        assert_eq!(over["session"]["root"], json!(claude.home.path().join(".claude")));
        let other = home();
        begins_and_ends(&stream, codex::A, || {
            codex::rollout(&other, codex::A, &[codex::started()]);
            codex::exec(&other, &[codex::A], &[])
        });
        let (other, store, directory) = opencode::world();
        begins_and_ends(&stream, opencode::A, || {
            store.session(opencode::A, &directory, None);
            opencode::agent(&other, &[], &[works_on("aaaa0001", opencode::A)])
        });
        let other = home();
        let file = pi::place(&other, "ws", pi::A);
        begins_and_ends(&stream, pi::A, || {
            pi::start(&other, "ws", &[], &format!("f='{}'; begin {} \"$f\"", file.display(), pi::A))
        });
        assert_eq!(stream.said(), "");
    });
}

/// A session that begins and ends before a look is not reported; a later one is.
#[test]
fn a_home_that_was_left_is_noticed_again() {
    sandboxed(|| {
        let watching = home();
        let stream = Stream::of(&watching, &[]);
        let claude = Claude::new();
        let live = || claude.live(claude_code::A, &json!({"status": "busy"}));
        claude.transcript(claude_code::A, &[prompt("fix it")]);
        // Whether it was seen depends on the kernel; the reported events are in order.
        live().kill();
        eventually("it is seen", || {
            let mut agent = live();
            let told = stream.kinds(claude_code::A).len();
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until && stream.kinds(claude_code::A).len() == told {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            agent.kill();
            (stream.kinds(claude_code::A).len() > told).then_some(())
        });
        stream.last(claude_code::A, "stopped");
        let told = stream.kinds(claude_code::A);
        for (index, kind) in told.iter().enumerate() {
            let expected = if index % 2 == 0 { "started" } else { "stopped" };
            assert_eq!(kind, expected, "{told:?}");
        }
    });
}

/// Returns the inodes of the directories that a process watches by file events.
pub(crate) fn watched_inodes(pid: u32) -> Vec<u64> {
    let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("it lives");
    let texts = infos.flatten().filter_map(|info| std::fs::read_to_string(info.path()).ok());
    let inode = |line: &str| {
        let field = line.strip_prefix("inotify ")?.split(' ').find_map(|f| f.strip_prefix("ino:"));
        u64::from_str_radix(field?, 16).ok()
    };
    texts.flat_map(|text| text.lines().filter_map(inode).collect::<Vec<_>>()).collect()
}

/// W17: the next session there may be shorter than the second between two counts of processes.
#[test]
fn a_home_is_watched_on_after_the_process_that_named_it_has_ended() {
    sandboxed(|| {
        let watching = home();
        let stream = Stream::of(&watching, &[]);
        let claude = Claude::new();
        begins_and_ends(&stream, claude_code::A, || {
            claude.transcript(claude_code::A, &[prompt("fix it")]);
            claude.live(claude_code::A, &json!({"status": "busy"}))
        });
        let sessions = claude.home.path().join(".claude/sessions");
        let inode = std::fs::metadata(&sessions).expect("there").ino();
        // A later look arms the watches before it reports.
        let other = Claude::new();
        begins_and_ends(&stream, claude_code::B, || {
            other.transcript(claude_code::B, &[prompt("fix it")]);
            other.live(claude_code::B, &json!({"status": "busy"}))
        });
        assert!(watched_inodes(stream.pid()).contains(&inode));
    });
}

fn webhook(home: &TestHome, receiver: &Receiver) {
    let url = format!("http://127.0.0.1:{}/", receiver.port);
    let config = format!("[[webhooks]]\nurl = \"{url}\"\nallow_private = true\nname = \"ops\"\n");
    configure(home, &[], &config);
}

#[test]
fn the_daemon_reports_them_too_and_calls_its_webhooks() {
    sandboxed(|| {
        let receiver = Receiver::always(Manner::Status(204));
        let watching = home();
        webhook(&watching, &receiver);
        started(&watching);
        let stream = Stream::of_daemon(&watching, &[]);
        let claude = Claude::new();
        begins_and_ends(&stream, claude_code::A, || {
            claude.transcript(claude_code::A, &[prompt("fix it")]);
            claude.live(claude_code::A, &json!({"status": "busy"}))
        });
        for kind in ["session.started", "session.stopped"] {
            eventually("it is posted", || {
                let about = |r: &Value| r["session_id"] == claude_code::A && r["hook_type"] == kind;
                receiver.requests().iter().any(|request| about(&request.json())).then_some(())
            });
        }
    });
}
