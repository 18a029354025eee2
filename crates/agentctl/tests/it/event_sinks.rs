//! Helpers for tests of the daemon's event sinks: a host, events, and a recorder of log lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agentctl::daemon::Say;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::fleet::blank_session;
use agentctl_core::host::Host;
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{Session, Status, Time};
use testkit::TestHome;

pub(crate) fn at(ms: i64) -> Time {
    Time::from_millis(1_800_000_000_000 + ms).expect("a time")
}

/// Returns the host of the program in this home, with the clock of the test.
pub(crate) fn host(home: &TestHome, clock: fn() -> Time) -> Arc<Host> {
    let path = format!("{}/bin:/usr/bin:/bin", home.path().display());
    Arc::new(Host {
        env: BTreeMap::from([("PATH".into(), path), ("HOOK_KEY".into(), SECRET.into())]),
        ..Host::new(home.path(), Kernel::open().expect("a kernel"), clock)
    })
}

/// The value of `HOOK_KEY` in that host.
pub(crate) const SECRET: &str = "hush-hush-0123456789";

/// Returns a session as an adapter would.
pub(crate) fn session() -> Session {
    Session {
        id: Some("s-1".into()),
        status: Status::Stopped,
        cwd: Some("/w/shop".into()),
        started_at: Some(at(0)),
        ..blank_session("demo", "/r".into())
    }
}

/// Returns an event about a session.
pub(crate) fn event(kind: EventKind, id: &str, session: Session) -> Arc<Event> {
    let mut event = Event::new(kind, id.to_owned(), at(62_500));
    event.adapter = Some(session.adapter);
    event.session_id.clone_from(&session.id);
    event.session = Some(session);
    Arc::new(event)
}

/// Records log lines or settled events, in order.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }

    pub(crate) fn add(&self, what: &str) {
        self.0.lock().expect("not poisoned").push(what.to_owned());
    }

    pub(crate) fn say(&self) -> Say {
        let heard = self.clone();
        Arc::new(move |what| heard.add(what))
    }
}
