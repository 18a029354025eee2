//! Asks a process on its port: only the process knows whether a session waits for a permission or an
//! answer, or is about to retry a failed model call.
//!
//! A question about a folder that the server has not opened would open it, so only folders are asked
//! about in which it has worked. The password is read from the environment of that very process and
//! sent to no other.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::OpenCode;
use crate::adapters::proof::prove;
use crate::adapters::{Look, Root, State};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Session, Status, Time, shorten};
use crate::talk::TalkError;
use crate::talk::http::Http;

/// Most folders that are asked about.
const MAX_FOLDERS: usize = 16;

/// Time for one look at a session that was just prompted.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two such looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(30);

/// Returns the server of a process; `None` if it does not listen on the loopback.
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

/// Returns the server of the process that serves a session, proved to be OpenCode of this home; `None` if it
/// does not listen.
pub(super) fn of_session(look: &Look, root: &Root, session: &Session) -> Option<Http> {
    session.processes.iter().find_map(|serving| {
        let process = look.host.kernel.process(serving.id.pid).ok().flatten()?;
        if process.id != serving.id || prove(&OpenCode, look, root, &process).is_err() {
            return None;
        }
        of(look, &process).ok().flatten()
    })
}

/// The kind of a request to a human.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tool needs permission.
    Permission,
    /// The model asks questions.
    Question,
}

/// A request to a human that is open in a server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Its kind.
    pub(super) kind: RequestKind,
    /// The request, as the server lists it.
    pub(super) body: Value,
}

impl Request {
    /// Returns its id.
    pub(super) fn id(&self) -> &str {
        self.body["id"].as_str().unwrap_or_default()
    }

    /// Returns its session: a subagent has one of its own.
    pub(super) fn session(&self) -> &str {
        self.body["sessionID"].as_str().unwrap_or_default()
    }
}

/// Returns the open requests of the sessions of a folder that are at work: after an abort a request stays in
/// the list, and an answer to it could still run its tool.
pub(super) fn requests(
    server: &Http,
    folder: &str,
    limit: Duration,
) -> Result<Vec<Request>, TalkError> {
    let until = Instant::now() + limit;
    let get = |route: &str| {
        let path = format!("{route}?directory={}", escape(folder));
        server.get(&path, until.saturating_duration_since(Instant::now()))
    };
    let permissions = get("/permission")?;
    // Older versions have no such route and never ask questions.
    let questions = match get("/question") {
        Err(TalkError::NotFound) => Value::Null,
        answer => answer?,
    };
    let at_work = get("/session/status")?;
    let list = |kind, answer: Value| match answer {
        Value::Array(bodies) => {
            bodies.into_iter().map(|body| Request { kind, body }).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    };
    let mut open = list(RequestKind::Permission, permissions);
    open.extend(list(RequestKind::Question, questions));
    open.retain(|request| !request.id().is_empty() && at_work.get(request.session()).is_some());
    Ok(open)
}

/// A session that is about to be prompted through its server.
pub(super) struct PromptedSession<'a> {
    server: &'a Http,
    /// The path of its newest message.
    newest: String,
    /// The path of the sessions at work.
    at_work: String,
    id: &'a str,
    /// The id of its newest message before the prompt.
    before: Option<String>,
}

impl<'a> PromptedSession<'a> {
    /// Notes the newest message of a session, before the prompt.
    pub(super) fn before_prompt(server: &'a Http, folder: &str, id: &'a str) -> Self {
        let folder = escape(folder);
        let newest = format!("/session/{}/message?limit=1&directory={folder}", escape(id));
        let at_work = format!("/session/status?directory={folder}");
        let mut session = Self { server, newest, at_work, id, before: None };
        session.before = session.newest(LOOK_TIMEOUT).map(|(id, _)| id);
        session
    }

    /// Waits until the turn of the prompt has begun: the server says that it works on the session, or the
    /// session has a new message of the assistant. A server that has just started takes seconds from the prompt
    /// to the turn, and calls the session idle meanwhile.
    pub(super) fn until_turn_begins(&self, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.turn_has_begun(left.min(LOOK_TIMEOUT)) {
                return;
            }
            std::thread::park_timeout(LOOK_INTERVAL);
        }
    }

    fn turn_has_begun(&self, limit: Duration) -> bool {
        let status = self.server.get(&self.at_work, limit);
        status.is_ok_and(|status| status.get(self.id).is_some())
            || self
                .newest(limit)
                .is_some_and(|(id, role)| role == "assistant" && self.before.as_ref() != Some(&id))
    }

    /// Returns the id and the role of the newest message.
    fn newest(&self, limit: Duration) -> Option<(String, String)> {
        let messages = self.server.get(&self.newest, limit).ok()?;
        let info = &messages.as_array()?.last()?["info"];
        Some((info["id"].as_str()?.to_owned(), info["role"].as_str()?.to_owned()))
    }
}

/// A server's answer about the sessions of some folders. Sessions that it does not name are idle.
#[derive(Debug, Default)]
pub(super) struct ServerAnswer {
    /// Its active sessions, subagents included.
    pub(super) at_work: HashMap<String, State>,
    /// The folders that were asked about.
    pub(super) folders: Vec<String>,
}

/// Asks a server about these folders.
pub(super) fn ask(
    look: &Look,
    server: &Http,
    folders: &[String],
) -> Result<ServerAnswer, TalkError> {
    let left = look.deadline.saturating_duration_since(Instant::now());
    // A shorter limit than the look's deadline: other servers and the answer itself need time too.
    let until = Instant::now() + left.min(look.host.deadlines.live / 4);
    let mut word = ServerAnswer::default();
    for folder in folders.iter().take(MAX_FOLDERS) {
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
        // Older versions have no such route and never ask questions.
        let questions = get("/question").unwrap_or_default();
        for request in questions.as_array().into_iter().flatten() {
            let text = request["questions"][0]["question"].as_str().map(|q| shorten(q, 160));
            word.needed(request, Reason { kind: ReasonKind::Question, detail: text, until: None });
        }
        word.folders.push(folder.clone());
    }
    Ok(word)
}

impl ServerAnswer {
    /// Counts a request only if its session is active: after an abort the request stays in the list.
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
