//! Asking a process that listens: only it knows whether a session waits for a permission or an answer,
//! or is about to try a failed model call again.
//!
//! A question concerns one folder, and one about a folder the server has not opened would open it. So
//! only folders are asked about in which it has worked. The password is read from the environment of
//! that very process and sent to no other.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use serde_json::Value;

use crate::adapters::{Look, State};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Status, Time, shorten};
use crate::talk::TalkError;
use crate::talk::http::Http;

/// More folders than that are not asked about.
const MOST_FOLDERS: usize = 16;

/// Returns the server that a process is; `None` if it does not listen on the loopback.
pub(super) fn of(look: &Look, process: &Process) -> io::Result<Option<Http>> {
    let kernel = &look.host.kernel;
    let Some(at) = kernel.listening(&process.id)?.into_iter().next() else { return Ok(None) };
    let names = ["OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"];
    let values = kernel.environ(&process.id, &names)?;
    let filled = |at: usize| values.get(at).cloned().flatten().filter(|v| !v.is_empty());
    let user = filled(1).unwrap_or_else(|| "opencode".into());
    let login = filled(0).map(|password| (user, password));
    Ok(Some(Http { at, login, kernel: kernel.clone() }))
}

/// What a server says of the sessions in some folders. Those it does not name are at rest.
#[derive(Debug, Default)]
pub(super) struct Word {
    /// Its sessions at work, subagents among them.
    pub(super) at_work: HashMap<String, State>,
    /// The folders that were asked about.
    pub(super) folders: Vec<String>,
}

/// Asks a server about these folders.
pub(super) fn ask(look: &Look, server: &Http, folders: &[String]) -> Result<Word, TalkError> {
    let left = look.deadline.saturating_duration_since(Instant::now());
    // A server that takes longer is not waited for: there may be others, and the rest is to be said.
    let until = Instant::now() + left.min(look.host.deadlines.live / 4);
    let mut word = Word::default();
    for folder in folders.iter().take(MOST_FOLDERS) {
        let get = |route: &str| {
            let path = format!("{route}?directory={}", escape(folder));
            server.get(&path, until.saturating_duration_since(Instant::now()))
        };
        for (id, status) in get("/session/status")?.as_object().into_iter().flatten() {
            word.at_work.extend(state(status).map(|state| (id.clone(), state)));
        }
        for request in get("/permission")?.as_array().into_iter().flatten() {
            word.needed(request, Reason::with(ReasonKind::Permission, permission(request)));
        }
        // A version without questions asks none.
        let questions = get("/question").unwrap_or_default();
        for request in questions.as_array().into_iter().flatten() {
            let text = request["questions"][0]["question"].as_str().map(|q| shorten(q, 160));
            word.needed(request, Reason { kind: ReasonKind::Question, detail: text, until: None });
        }
        word.folders.push(folder.clone());
    }
    Ok(word)
}

impl Word {
    /// Counts a request of a session at work: after an abort it stays in the list, and nobody waits.
    fn needed(&mut self, request: &Value, reason: Reason) {
        let state = request["sessionID"].as_str().and_then(|id| self.at_work.get_mut(id));
        if let Some(state) = state {
            *state = State { status: Status::Waiting, reason: Some(reason) };
        }
    }
}

fn permission(request: &Value) -> String {
    let what = request["permission"].as_str().unwrap_or("something");
    let patterns = request["patterns"].as_array().into_iter().flatten();
    let patterns: Vec<&str> = patterns.filter_map(Value::as_str).collect();
    if patterns.is_empty() {
        shorten(what, 160)
    } else {
        shorten(&format!("{what}: {}", patterns.join(", ")), 160)
    }
}

fn state(status: &Value) -> Option<State> {
    let reason = match status["type"].as_str()? {
        "busy" => None,
        "retry" => Some(Reason {
            kind: ReasonKind::Retrying,
            detail: status["message"].as_str().map(|m| shorten(m, 160)),
            until: status["next"].as_i64().and_then(Time::from_millis),
        }),
        _ => return None,
    };
    Some(State { status: Status::Running, reason })
}

/// Writes a text as a part of a query.
pub(super) fn escape(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}
