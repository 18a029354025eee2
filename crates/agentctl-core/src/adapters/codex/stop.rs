//! Stop of a Codex session, and the variable that marks its children.
//!
//! On SIGINT `exec` writes that the turn was aborted, and exits. SIGTERM ends it at once without a
//! trace. A thread in a shared server is ended by a request to the server, which is never signalled.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::server;
use crate::adapters::answering::NotSaid;
use crate::adapters::control::{Mark, Stop};
use crate::adapters::{Look, Root};
use crate::model::Session;
use crate::talk::{RpcSocket, TalkError};

const LADDER: &[(Signal, Duration)] =
    &[(Signal::INT, Duration::from_secs(3)), (Signal::TERM, Duration::from_secs(1))];

/// The server of a run leaves on SIGTERM.
const SERVER_LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(4))];

/// Returns how to stop this session.
pub(in crate::adapters) fn plan(look: &Look, root: &Root, session: &Session) -> Stop {
    if !session.hosted {
        let is_server = server::socket_of_host(look, root, session).is_some();
        return Stop::Signals(if is_server { SERVER_LADDER } else { LADDER });
    }
    match server::socket_of_host(look, root, session) {
        Some(_) => Stop::Ask,
        None => Stop::Refuse(
            "a server without a socket hosts it, among others; only its own program can end it"
                .into(),
        ),
    }
}

/// Returns the variable that its tools carry.
pub(in crate::adapters) fn marks(session: &Session) -> Vec<Mark> {
    let id = session.id.iter();
    id.map(|id| Mark { name: "CODEX_THREAD_ID", value: id.clone() }).collect()
}

/// Asks the server to abort the current turn, and then to end the background terminals of the thread.
///
/// No turn is named: a request for a turn that has just ended is never answered, and a turn that has
/// just begun must be aborted too. An idle thread answers at once.
pub(in crate::adapters) fn interrupt(
    look: &Look,
    root: &Root,
    session: &Session,
) -> Result<String, String> {
    end_turn(look, root, session).map_err(|why| match why {
        NotSaid::Refused(why) | NotSaid::Unclear(why) => why,
    })?;
    Ok("the turn was interrupted".into())
}

/// Does the same, and says whether the request was sent where the server did not do it.
pub(in crate::adapters) fn end_turn(
    look: &Look,
    root: &Root,
    session: &Session,
) -> Result<(), NotSaid> {
    let refused = |why: &str| NotSaid::Refused(why.to_owned());
    let id = session.id.as_deref().ok_or_else(|| refused("it has no thread"))?;
    let to = server::socket_of_host(look, root, session);
    let to = to.ok_or_else(|| refused("its server has no socket"))?;
    let words = |error: TalkError| format!("its server did not do it: {error}");
    let unsent = |error: TalkError| NotSaid::Refused(words(error));
    let mut socket = server::hello(look, &to, server::Purpose::Act).map_err(unsent)?;
    let told = |error: TalkError| NotSaid::Unclear(words(error));
    match socket.ask("turn/interrupt", &json!({ "threadId": id, "turnId": "" })) {
        // A server that needs the id of the turn.
        Err(TalkError::Refused(_)) => name_and_abort(&mut socket, id).map_err(told)?,
        answer => drop(answer.map_err(told)?),
    }
    // Cleaning up before the turn is aborted would only make its tool fail. Not every server knows this
    // request; processes that remain are found by their mark.
    let _unknown = socket.ask("thread/backgroundTerminals/clean", &json!({ "threadId": id }));
    Ok(())
}

fn name_and_abort(socket: &mut RpcSocket, id: &str) -> Result<(), TalkError> {
    let turns = socket.ask("thread/turns/list", &json!({ "threadId": id, "limit": 1 }))?;
    let newest = &turns["data"][0];
    if newest["status"] == "inProgress" {
        let turn = &newest["id"];
        socket.ask("turn/interrupt", &json!({ "threadId": id, "turnId": turn }))?;
    }
    Ok(())
}
