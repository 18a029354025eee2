//! How a Codex session is ended, and what it marks.
//!
//! SIGINT is its orderly end: `exec` writes down that the turn was aborted. SIGTERM ends it at once and
//! leaves nothing. A thread in a shared server is ended there: the server is asked, never signalled.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{CodexStore, server};
use crate::adapters::control::{Mark, Stop};
use crate::adapters::{Look, Root, Store};
use crate::model::Session;
use crate::native::{file, jsonl};
use crate::talk::{RpcSocket, TalkError};

const LADDER: &[(Signal, Duration)] =
    &[(Signal::INT, Duration::from_secs(3)), (Signal::TERM, Duration::from_secs(1))];

/// Returns how to stop this session.
pub(in crate::adapters) fn plan(look: &Look, root: &Root, session: &Session) -> Stop {
    if !session.hosted {
        return Stop::Signals(LADDER);
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

/// Asks the server to abort the running turn and to end the terminals it has left in the background.
pub(in crate::adapters) fn interrupt(
    look: &Look,
    root: &Root,
    session: &Session,
) -> Result<String, String> {
    let id = session.id.as_deref().ok_or("it has no thread")?;
    let path = server::socket_of_host(look, root, session).ok_or("its server has no socket")?;
    let turn = running_turn(look, root, id);
    let told = |error: TalkError| format!("its server did not do it: {error}");
    let mut socket = server::hello(look, &path, true).map_err(told)?;
    let answer = match &turn {
        Some(turn) => abort(&mut socket, id, turn).map_err(told)?,
        None => "no turn was running",
    };
    // Not every server knows this; what it leaves is swept by its mark.
    let _unknown = socket.ask("thread/backgroundTerminals/clean", &json!({ "threadId": id }));
    Ok(answer.to_owned())
}

fn abort(socket: &mut RpcSocket, id: &str, turn: &str) -> Result<&'static str, TalkError> {
    match socket.ask("turn/interrupt", &json!({ "threadId": id, "turnId": turn })) {
        Ok(_) => Ok("the turn was interrupted"),
        // It may have ended by itself a moment ago: the next look tells.
        Err(TalkError::Refused(_)) => Ok("the turn could not be interrupted"),
        Err(error) => Err(error),
    }
}

/// Returns the turn that its record says is open.
fn running_turn(look: &Look, root: &Root, id: &str) -> Option<String> {
    let store = CodexStore::open(look, root);
    let locator = store.find(id).rows.into_iter().find(|l| l.id == id)?;
    let opened = file::open(&locator.path?, look.host.kernel.uid()).ok()?;
    let mut turn = None;
    let read = jsonl::tail(&opened.file, opened.size, 64 << 10, &mut |line| {
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            return ControlFlow::Continue(());
        };
        match line["payload"]["type"].as_str() {
            Some("task_started") => {
                turn = line["payload"]["turn_id"].as_str().map(str::to_owned);
                ControlFlow::Break(())
            }
            Some("task_complete" | "turn_aborted") => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    read.ok().and(turn)
}
