//! Stop of an OpenCode session, and the variable that marks its children.
//!
//! `run` has no signal handler: SIGTERM ends it in the middle of its turn, and its tools continue in
//! kernel sessions of their own; they carry its pid. A terminal aborts its turn and exits. A session in
//! a server is aborted by a request to the server, which is never signalled.

use std::time::Duration;

use rustix::process::Signal;

use serde_json::json;

use super::Backend;
use super::server::{self, Request, RequestKind, escape};
use crate::adapters::answering::NotSaid;
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
    end_turn(look, root, session).map_err(|why| match why {
        NotSaid::Refused(why) | NotSaid::Unclear(why) => why,
    })?;
    Ok("the turn was aborted".into())
}

/// Does the same, and says whether the request was sent where the server did not do it.
pub(super) fn end_turn(look: &Look, root: &Root, session: &Session) -> Result<(), NotSaid> {
    let refused = |why: &str| NotSaid::Refused(why.to_owned());
    let id = session.id.as_deref().ok_or_else(|| refused("it has no session"))?;
    let server = server::of_session(look, root, session);
    let server = server.ok_or_else(|| refused("its server does not listen"))?;
    let folder = session.cwd.as_deref().map(|cwd| format!("?directory={}", escape(cwd)));
    let folder = folder.unwrap_or_default();
    let backend = Backend::open(look, root);
    // As in the list of its asks: the requests of a subagent are those of the session that it works for.
    let is_its_own =
        |request: &Request| request.session() == id || backend.top(request.session()) == id;
    reject_requests(&server, session, &is_its_own);
    let path = format!("/session/{}/abort{folder}", escape(id));
    let answer = server.post(&path, ABORT_TIMEOUT);
    answer.map(drop).map_err(|error| {
        let why = format!("its server did not do it: {error}");
        if error.is_unsent() { NotSaid::Refused(why) } else { NotSaid::Unclear(why) }
    })
}

/// Rejects the open requests of a session and of its subagents before its turn is aborted: a request that stays open
/// could be allowed later, and its tool would then run in a session without a turn.
fn reject_requests(server: &Http, session: &Session, is_its_own: &dyn Fn(&Request) -> bool) {
    let Some(cwd) = session.cwd.as_deref() else { return };
    let open = server::requests(server, cwd, ABORT_TIMEOUT).unwrap_or_default();
    for request in open.iter().filter(|request| is_its_own(request)) {
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
