#![expect(clippy::disallowed_methods, reason = "a test starts a process with marks")]

use std::process::{Child, Command};
use std::sync::Arc;

use super::*;
use crate::adapters::ALL;
use crate::fleet::blank_session;
use crate::host::Host;
use crate::kernel::Kernel;
use crate::model::{Join, ServingProcess};

struct Sleeping(Child);

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn fleet() -> Fleet {
    let kernel = Kernel::open().expect("a kernel");
    let clock = || Time::from_millis(0).expect("a time");
    Fleet::new(Arc::new(Host::new("/nowhere", kernel, clock)), ALL)
}

fn session(adapter: &'static str, id: &str, process: &Process) -> Session {
    let mut session = blank_session(adapter, "/nowhere".into());
    session.id = Some(id.to_owned());
    session.pid = Some(process.id.pid);
    session.processes = vec![ServingProcess { id: process.id.clone(), join: Join::Proved }];
    session
}

fn seen(fleet: &Fleet, sessions: Vec<Session>) -> Seen<'_> {
    Seen { fleet, sessions, look: fleet::look(fleet, fleet.host.deadlines.live) }
}

fn ids(links: &[AnswererAbove]) -> Vec<&str> {
    links.iter().filter_map(|link| Some(link.session.as_ref()?.id.as_str())).collect()
}

#[test]
fn every_session_of_a_server_is_above_its_children() {
    let fleet = fleet();
    let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
    let sessions = ["1", "2"].map(|id| session("opencode", id, &us)).to_vec();
    let seen = seen(&fleet, sessions);
    assert_eq!(ids(&seen.sessions_served_by(&us)), ["1", "2"]);
}

/// Starts a process with this launch mark.
fn launched(fleet: &Fleet, mark: &LaunchMark) -> (Sleeping, AnswererAbove) {
    let mut command = Command::new("sleep");
    command.arg("600").env(LAUNCHED_BY, mark.to_string());
    let child = Sleeping(command.spawn().expect("started"));
    let process = fleet.host.kernel.process(child.0.id()).expect("readable").expect("alive");
    let above = link(&process, None, AnswererLink::Agent);
    (child, above)
}

#[test]
fn a_launcher_without_a_session_in_the_mark_is_every_session_that_it_serves() {
    let fleet = fleet();
    let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
    let process = Some((us.id.pid, us.id.start_ticks));
    let mark = LaunchMark { depth: 1, limits: (2, 8), session: None, process };
    let (_child, above) = launched(&fleet, &mark);
    let sessions = ["1", "2"].map(|id| session("opencode", id, &us)).to_vec();
    let launchers = seen(&fleet, sessions).launchers(&[above]);
    assert_eq!(ids(&launchers), ["1", "2"]);
}

#[test]
fn a_launcher_of_which_no_session_is_known_may_be_any_agent() {
    let fleet = fleet();
    let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
    for process in [None, Some((us.id.pid, us.id.start_ticks)), Some((us.id.pid, 1))] {
        let mark = LaunchMark { depth: 1, limits: (2, 8), session: None, process };
        let (_child, above) = launched(&fleet, &mark);
        let launchers = seen(&fleet, Vec::new()).launchers(&[above]);
        let sessions: Vec<_> = launchers.iter().map(|link| link.session.as_ref()).collect();
        assert_eq!(sessions, [None], "{process:?}");
    }
}

/// Another process can get the pid of a launcher that has ended.
#[test]
fn a_process_with_the_pid_of_an_ended_launcher_shares_no_configuration() {
    let fleet = fleet();
    let us = fleet.host.kernel.process(std::process::id()).expect("readable").expect("alive");
    for (start_ticks, expected) in [(us.id.start_ticks, true), (us.id.start_ticks + 1, false)] {
        let session = Some(("demo".to_owned(), "1".to_owned()));
        let process = Some((us.id.pid, start_ticks));
        let mark = LaunchMark { depth: 1, limits: (2, 8), session, process };
        let (_child, agent) = launched(&fleet, &mark);
        let above = seen(&fleet, Vec::new()).launchers(&[agent]);
        assert_eq!(ids(&above), ["1"]);
        let (left_behind, oldest_agent_began) = (Vec::new(), None);
        let caller = Answerer { pid: 1, above, left_behind, oldest_agent_began, unseen: None };
        assert_eq!(caller.launchers_share_configuration(&fleet), expected);
    }
}

#[test]
fn every_mark_of_a_process_counts() {
    let fleet = fleet();
    let kernel = &fleet.host.kernel;
    let us = kernel.process(std::process::id()).expect("readable").expect("alive");
    let run = uuid::Uuid::new_v4().to_string();
    let marker = Marker { run, pid: us.id.pid, start_ticks: us.id.start_ticks };
    let outer = session("demo", "outer", &us);
    let inner = session("claude-code", "inner", &us);
    let control = fleet.adapter("claude-code").and_then(|adapter| adapter.control());
    let marks = control.expect("it can be controlled").marks(&inner);
    let mut command = Command::new("sleep");
    command.arg("600").env(MARKER, marker.to_string());
    command.envs(marks.iter().map(|mark| (mark.name, &mark.value)));
    let child = Sleeping(command.spawn().expect("started"));
    let child = kernel.process(child.0.id()).expect("readable").map(|process| (process, child));
    let (process, _child) = child.expect("alive");
    let seen = seen(&fleet, vec![outer, inner]);
    assert_eq!(ids(&seen.marked(&process)), ["outer", "inner"]);
}

/// The process that connects to the page may be an agent itself; a command line is this program.
#[test]
fn a_caller_that_calls_itself_an_agent_is_one() {
    let fleet = fleet();
    let directory = std::env::temp_dir().join(format!("agentctl-caller-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&directory).expect("made");
    let program = directory.join("openclaw-gateway");
    std::os::unix::fs::symlink("/usr/bin/sleep", &program).expect("linked");
    let child = Sleeping(Command::new(&program).arg("600").spawn().expect("started"));
    let caller = Answerer::of(&fleet, child.0.id());
    std::fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(caller.above[0].pid, child.0.id(), "{caller:?}");
}
