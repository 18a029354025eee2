//! Stop of an OpenCode session, and the variable that marks its children.
//!
//! `run` has no signal handler: SIGTERM ends it in the middle of its turn, and its tools continue in
//! kernel sessions of their own; they carry its pid. A terminal aborts its turn and exits. A session in
//! a server is aborted by a request to the server, which is never signalled.

use std::time::Duration;

use rustix::process::Signal;

use serde_json::json;

use super::server::{self, RequestKind, escape};
use crate::adapters::control::{Mark, Stop};
use crate::adapters::{Look, Root};
use crate::model::Session;
use crate::talk::http::Http;

const LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(3))];
/// Time limit of an abort: it waits until the tool has ended.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns how to stop this session.
pub(super) fn plan(look: &Look, root: &Root, session: &Session) -> Stop {
    if !session.hosted {
        return Stop::Signals(LADDER);
    }
    match server::of_session(look, root, session) {
        Some(_) => Stop::Ask,
        None => Stop::Refuse(
            "a server that cannot be asked hosts it, among others; only its own program can end it"
                .into(),
        ),
    }
}

/// Asks the server to abort the turn.
pub(super) fn interrupt(look: &Look, root: &Root, session: &Session) -> Result<String, String> {
    let id = session.id.as_deref().ok_or("it has no session")?;
    let server = server::of_session(look, root, session).ok_or("its server does not listen")?;
    let folder = session.cwd.as_deref().map(|cwd| format!("?directory={}", escape(cwd)));
    let folder = folder.unwrap_or_default();
    reject_requests(&server, session, id);
    let path = format!("/session/{}/abort{folder}", escape(id));
    let answer = server.post(&path, ABORT_TIMEOUT);
    answer.map_err(|error| format!("its server did not do it: {error}"))?;
    Ok("the turn was aborted".into())
}

/// Rejects the open requests of a session before its turn is aborted: a request that stays open could be
/// allowed later, and its tool would then run in a session without a turn.
fn reject_requests(server: &Http, session: &Session, id: &str) {
    let Some(cwd) = session.cwd.as_deref() else { return };
    let open = server::requests(server, cwd, ABORT_TIMEOUT).unwrap_or_default();
    for request in open.iter().filter(|request| request.session() == id) {
        let request_id = escape(request.id());
        let folder = format!("directory={}", escape(cwd));
        // A request that was settled meanwhile is not there any more.
        let _settled = match request.kind {
            RequestKind::Permission => {
                let path = format!("/permission/{request_id}/reply?{folder}");
                server.post_json(&path, &json!({ "reply": "reject" }), ABORT_TIMEOUT)
            }
            RequestKind::Question => {
                server.post(&format!("/question/{request_id}/reject?{folder}"), ABORT_TIMEOUT)
            }
        };
    }
}

/// Returns the variable that its tools carry: the pid of their process, which a server's sessions share.
pub(super) fn marks(session: &Session) -> Vec<Mark> {
    if session.hosted {
        return Vec::new();
    }
    let mark = |pid: u32| Mark { name: "OPENCODE_PID", value: pid.to_string() };
    session.processes.iter().map(|p| mark(p.id.pid)).collect()
}
