//! Answers and messages to the threads of an app-server with a socket.
//!
//! A thread of `codex exec` never asks, and one of a terminal without a server is answered there only.

use std::time::Duration;

use serde_json::{Value, json};

use super::process::{Role, role};
use super::visit::{self, Answered};
use super::{Codex, CodexStore, asks, server};
use crate::adapters::answering::{
    Answering, AnsweringAbilities, Delivered, NotDelivered, NotSaid, Saying, Speech, SpokenMessage,
};
use crate::adapters::{Look, Root, Store};
use crate::model::{Ask, Reply, Session, Status};
use crate::talk::{RpcSocket, TalkError};

/// Time of one whole conversation with the server.
const VISIT_TIMEOUT: Duration = Duration::from_secs(12);

impl Answering for Codex {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities {
            asks: "with --ask or --keep, or where an app-server hosts it",
            messages: "with --keep, or where an app-server hosts it",
            no_ask: None,
            no_keep: None,
        }
    }

    fn limits_asks(&self) -> bool {
        // Its server waits without a limit.
        false
    }

    fn deliver(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        let thread = session.id.as_deref().ok_or(NotDelivered::Gone)?;
        let to = server::socket_of_host(look, root, session);
        let to = to.ok_or_else(|| {
            NotDelivered::without_channel(look, session, "its server has no socket any more")
        })?;
        let not_sent =
            |error: TalkError| NotDelivered::Refused(format!("nothing was sent: {error}"));
        let mut socket = server::visit(look, &to, VISIT_TIMEOUT).map_err(not_sent)?;
        // Subscribing would load a thread that is not loaded, and one that does not wait has no request.
        if status(&mut socket, thread).map_err(not_sent)? != Some(Status::Waiting) {
            return Err(NotDelivered::Gone);
        }
        let resume = json!({ "threadId": thread, "excludeTurns": true });
        socket.ask("thread/resume", &resume).map_err(not_sent)?;
        let store = CodexStore::open(look, root);
        let path = store.expected(thread).and_then(|locator| locator.path);
        let outcome = || asks::outcome(path.as_deref()?, look.host.kernel.uid(), &ask.native);
        let asked = Answered { ask, reply, outcome: &outcome };
        let answered = visit::answer(&mut socket, thread, &asked);
        // The end of the connection does the same.
        let _left = socket.ask("thread/unsubscribe", &json!({ "threadId": thread }));
        answered
    }

    fn speech(&self, look: &Look, root: &Root, session: &Session) -> Speech {
        if server::socket_of_host(look, root, session).is_some() {
            return Speech::Now;
        }
        let pid = session.processes.first().map(|serving| serving.id.pid);
        let process = pid.and_then(|pid| look.host.kernel.process(pid).ok().flatten());
        match process.as_ref().map(role) {
            Some(Role::Terminal | Role::RemoteTerminal) => Speech::Not {
                why: "it takes messages only in its own terminal: no app-server hosts it".into(),
                hint: None,
            },
            Some(Role::Server) => Speech::Not {
                why: "its server has no socket: only its own client can speak to it".into(),
                hint: None,
            },
            _ => Speech::one_shot(),
        }
    }

    fn say(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        message: &SpokenMessage<'_>,
    ) -> Result<Saying, NotSaid> {
        let refused = |why: &str| NotSaid::Refused(why.to_owned());
        let thread = session.id.as_deref().ok_or_else(|| refused("it has no thread"))?;
        let to = server::socket_of_host(look, root, session);
        let to = to.ok_or_else(|| refused("its server has no socket"))?;
        let mut socket = server::visit(look, &to, VISIT_TIMEOUT).map_err(said)?;
        match status(&mut socket, thread).map_err(said)? {
            Some(Status::Waiting) => return Err(refused("it waits for a human")),
            Some(Status::Running) => {
                let turn = running_turn(&mut socket, thread).map_err(said)?;
                match turn.map(|turn| steer(&mut socket, thread, &turn, message)) {
                    Some(Ok(_)) => return Ok(Saying::Taken),
                    // The turn has just ended.
                    None | Some(Err(TalkError::Refused(_))) => {}
                    Some(Err(error)) => return Err(said(error)),
                }
                if status(&mut socket, thread).map_err(said)? != Some(Status::Idle) {
                    return Err(refused("its server did not take the message into the turn"));
                }
            }
            Some(_) => {}
            None => return Err(refused("its server has not loaded the thread")),
        }
        let start = json!({
            "threadId": thread,
            "clientUserMessageId": message.id.to_string(),
            "input": text(message.text),
        });
        socket.ask("turn/start", &start).map(|_| Saying::Taken).map_err(said)
    }

    fn end_turn(&self, look: &Look, root: &Root, session: &Session) -> Result<(), NotSaid> {
        if server::socket_of_host(look, root, session).is_none() {
            let why = "no app-server hosts it: only the end of its process ends its turn";
            return Err(NotSaid::Refused(why.into()));
        }
        super::stop::end_turn(look, root, session)
    }
}

fn said(error: TalkError) -> NotSaid {
    match error {
        TalkError::Late | TalkError::HungUp(_) | TalkError::Protocol(_) => {
            NotSaid::Unclear(error.to_string())
        }
        other => NotSaid::Refused(other.to_string()),
    }
}

/// Returns the status of a thread; `None` if it is not loaded.
fn status(socket: &mut RpcSocket, thread: &str) -> Result<Option<Status>, TalkError> {
    let reply = socket.ask("thread/read", &json!({ "threadId": thread }))?;
    Ok(server::state(&reply["thread"]["status"]).map(|state| state.status))
}

/// Returns the id of the running turn.
fn running_turn(socket: &mut RpcSocket, thread: &str) -> Result<Option<String>, TalkError> {
    let turns = socket.ask("thread/turns/list", &json!({ "threadId": thread, "limit": 1 }))?;
    let newest = &turns["data"][0];
    let id = newest["id"].as_str().filter(|_| newest["status"] == "inProgress");
    Ok(id.map(str::to_owned))
}

/// Gives a message to the running turn; refused if that has ended.
fn steer(
    socket: &mut RpcSocket,
    thread: &str,
    turn: &str,
    message: &SpokenMessage<'_>,
) -> Result<Value, TalkError> {
    let steer = json!({
        "threadId": thread,
        "expectedTurnId": turn,
        "clientUserMessageId": message.id.to_string(),
        "input": text(message.text),
    });
    socket.ask("turn/steer", &steer)
}

fn text(words: &str) -> Value {
    json!([{ "type": "text", "text": words, "text_elements": [] }])
}
