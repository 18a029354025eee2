//! Stop of an OpenCode session, and the variable that marks its children.
//!
//! `run` has no signal handler: SIGTERM ends it in the middle of its turn, and its tools continue in
//! kernel sessions of their own; they carry its pid. A terminal aborts its turn and exits. A session in
//! a server is aborted by a request to the server, which is never signalled.

use std::time::Duration;

use rustix::process::Signal;

use super::server::{self, escape};
use crate::adapters::Look;
use crate::adapters::control::{Mark, Stop};
use crate::kernel::Process;
use crate::model::Session;
use crate::talk::http::Http;

const LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(3))];
/// Time limit of an abort: it waits until the tool has ended.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns how to stop this session.
pub(super) fn plan(look: &Look, session: &Session) -> Stop {
    if !session.hosted {
        return Stop::Signals(LADDER);
    }
    match server_of(look, session) {
        Some(_) => Stop::Ask,
        None => Stop::Refuse(
            "a server that cannot be asked hosts it, among others; only its own program can end it"
                .into(),
        ),
    }
}

fn server_of(look: &Look, session: &Session) -> Option<Http> {
    let id = &session.processes.first()?.id;
    let process: Process = look.host.kernel.process(id.pid).ok().flatten()?;
    server::of(look, &process).ok().flatten().filter(|_| process.id == *id)
}

/// Asks the server to abort the turn.
pub(super) fn interrupt(look: &Look, session: &Session) -> Result<String, String> {
    let id = session.id.as_deref().ok_or("it has no session")?;
    let server = server_of(look, session).ok_or("its server does not listen")?;
    let folder = session.cwd.as_deref().map(|cwd| format!("?directory={}", escape(cwd)));
    let path = format!("/session/{}/abort{}", escape(id), folder.unwrap_or_default());
    let answer = server.post(&path, ABORT_TIMEOUT);
    answer.map_err(|error| format!("its server did not do it: {error}"))?;
    Ok("the turn was aborted".into())
}

/// Returns the variable that its tools carry: the pid of their process, which a server's sessions share.
pub(super) fn marks(session: &Session) -> Vec<Mark> {
    if session.hosted {
        return Vec::new();
    }
    let mark = |pid: u32| Mark { name: "OPENCODE_PID", value: pid.to_string() };
    session.processes.iter().map(|p| mark(p.id.pid)).collect()
}
