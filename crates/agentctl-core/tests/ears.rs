//! Listening to a gateway for as long as somebody wants to know: any session of it, and through its
//! absences.
#![cfg(target_os = "linux")]
// Tests build their own world; helpers of tests panic as the tests themselves do.
#![allow(clippy::disallowed_methods, clippy::expect_used)]

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::demo::Demo;
use agentctl_core::adapters::openclaw::OpenClaw;
use agentctl_core::fleet::{self, Adapters};
use agentctl_core::host::{Deadlines, Gateway as Configured, Host, Secret};
use agentctl_core::kernel::Kernel;
use agentctl_core::model::Time;
use agentctl_core::talk::Ear;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use testkit::gateway::{Gateway, Manner, TOKEN};
use testkit::{TestHome, eventually, sandboxed};

static BOTH: Adapters = &[&OpenClaw, &Demo];

fn host(home: &TestHome, gateways: &[&Gateway]) -> Arc<Host> {
    let known = |gateway: &&Gateway| Configured {
        url: gateway.url(),
        token: Some(Secret::Text(TOKEN.into())),
        ..Configured::default()
    };
    Arc::new(Host {
        home: home.path(),
        cwd: home.path(),
        program: PathBuf::from("agentctl"),
        env: BTreeMap::new(),
        roots: BTreeMap::new(),
        settings: BTreeMap::new(),
        gateways: BTreeMap::from([("openclaw".into(), gateways.iter().map(known).collect())]),
        kernel: Kernel::open().expect("a kernel"),
        clock: || Time(jiff::Timestamp::now()),
        deadlines: Deadlines::default(),
    })
}

/// Blocks until it rings, and forgets that it did.
fn rings(ear: &mut Ear) {
    let limit = Timespec::try_from(Duration::from_secs(60)).expect("a limit");
    let mut fds = [PollFd::new(&*ear, PollFlags::IN)];
    assert!(poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready == 1), "it never rang");
    assert!(ear.quiet());
}

fn subscribed(gateway: &Gateway) -> usize {
    gateway.world().asked.iter().filter(|(method, _)| method == "sessions.subscribe").count()
}

#[test]
fn an_ear_rings_for_any_session_and_when_its_server_goes_and_comes() {
    sandboxed(|| {
        let home = TestHome::new("agentctl");
        let (gateway, other) = (Gateway::start(), Gateway::start());
        let host = host(&home, &[&gateway, &other]);
        let look = fleet::look(&host, BOTH, Duration::from_secs(5));
        let all = fleet::announcing(&look, BOTH);
        let names: Vec<&str> = all.iter().map(|pushing| pushing.name.as_str()).collect();
        assert_eq!(names, [gateway.url(), other.url()]);
        let mut all = all.into_iter();
        let mut ear = Ear::open(all.next().expect("one")).expect("an ear");
        rings(&mut ear);
        // No session is named: whatever changes is a reason to look.
        gateway
            .push(&json!({"type": "event", "event": "sessions.changed", "payload": {}, "seq": 4}));
        rings(&mut ear);
        gateway.push(&json!({"type": "event", "event": "tick", "payload": {}, "seq": 9}));
        rings(&mut ear);
        // It is lost, which is a reason to look; it is there again, which is one too.
        gateway.hang_up();
        rings(&mut ear);
        eventually("it has come back", || (subscribed(&gateway) == 2).then_some(()));
        eventually("and rings", || ear.quiet().then_some(()));
        gateway.end();
        gateway.hang_up();
        rings(&mut ear);
        let again = gateway.again();
        eventually("it has come back", || (subscribed(&again) == 3).then_some(()));
        eventually("and rings", || ear.quiet().then_some(()));
        again.push(&json!({"type": "event", "event": "sessions.changed", "payload": {}}));
        rings(&mut ear);
        // Nobody wants to know any more: it hangs up.
        drop(ear);
        drop(other);
    });
}

#[test]
fn one_that_hangs_up_at_once_is_not_hurried_back_to() {
    sandboxed(|| {
        let home = TestHome::new("agentctl");
        let gateway = Gateway::start();
        gateway.behaves(Manner::HangUp);
        let host = host(&home, &[&gateway]);
        let look = fleet::look(&host, BOTH, Duration::from_secs(5));
        let pushing = fleet::announcing(&look, BOTH).remove(0);
        let mut ear = Ear::open(pushing).expect("an ear");
        eventually("it was tried again", || (gateway.world().connections >= 3).then_some(()));
        // It was never let in: there is nothing new to look at.
        assert!(!ear.quiet());
        let _polled = ear.as_fd();
        gateway.behaves(Manner::Well);
        rings(&mut ear);
    });
}
