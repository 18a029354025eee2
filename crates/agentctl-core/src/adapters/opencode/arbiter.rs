//! Whether a reply that a server said yes to is the one that counted.
//!
//! 1.18.33 refuses a reply to a request that is settled. 1.14.41 says yes to every reply, also to one that came too
//! late; there the state of the tool call decides. Versions are told apart by their replies, not by their number.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::{Request, RequestKind, escape};
use crate::adapters::answering::{Delivered, NotDelivered};
use crate::model::Reply;
use crate::talk::TalkError;
use crate::talk::http::Http;

/// Time for one request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a denied call to be recorded as denied.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Time for a sign that a denial came first, after an answer that lets a tool run: the tool may run for long.
const CONTRADICTION_TIMEOUT: Duration = Duration::from_millis(300);
/// Pause between two looks at the call.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The state of a tool call whose request is settled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ran,
    Denied,
}

/// Confirms a reply that the server said yes to. The same reply is sent once more: a server that refuses it has taken
/// the first one. A reply to a settled request changes nothing in any version.
pub(super) fn confirm(
    server: &Http,
    folder: &str,
    request: &Request,
    (path, body): (&str, &Value),
    reply: &Reply,
) -> Result<Delivered, NotDelivered> {
    match server.post_json(path, body, REQUEST_TIMEOUT) {
        Ok(_) => {}
        Err(TalkError::NotFound) => return Ok(Delivered::Taken),
        // The first reply was taken, or it came too late; the server did not say.
        Err(error) => return Err(NotDelivered::Unclear(error.to_string())),
    }
    let unclear = |why: &str| Err(NotDelivered::Unclear(why.to_owned()));
    if request.kind == RequestKind::Question {
        return unclear("this version of its server says yes to every answer");
    }
    let is_allowed = matches!(reply, Reply::Allow | Reply::Always(_));
    let limit = if is_allowed { CONTRADICTION_TIMEOUT } else { DENIAL_TIMEOUT };
    match (outcome(server, folder, request, limit), is_allowed) {
        (Some(Outcome::Ran) | None, true) | (Some(Outcome::Denied), false) => Ok(Delivered::Taken),
        (Some(Outcome::Denied), true) => {
            Err(NotDelivered::Refused("another answer came first and denied it".into()))
        }
        (Some(Outcome::Ran), false) => {
            Err(NotDelivered::Refused("another answer came first and allowed it".into()))
        }
        (None, false) => {
            unclear("the request is settled, but its call is not denied: it may have been allowed")
        }
    }
}

/// Waits for the outcome of the tool call of a request.
fn outcome(server: &Http, folder: &str, request: &Request, limit: Duration) -> Option<Outcome> {
    let tool = &request.body["tool"];
    let (message, call) = (tool["messageID"].as_str()?, tool["callID"].as_str()?);
    let (session, message) = (escape(request.session()), escape(message));
    let path = format!("/session/{session}/message/{message}?directory={}", escape(folder));
    let until = Instant::now() + limit;
    loop {
        if let Ok(answer) = server.get(&path, REQUEST_TIMEOUT)
            && let Some(outcome) = outcome_of(&answer, call)
        {
            return Some(outcome);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::park_timeout(LOOK_INTERVAL);
    }
}

/// Reads the outcome of a call from its message; `None` while it is running.
fn outcome_of(message: &Value, call: &str) -> Option<Outcome> {
    let parts = message["parts"].as_array()?;
    let state = &parts.iter().find(|part| part["callID"] == call)?["state"];
    match state["status"].as_str()? {
        "completed" => Some(Outcome::Ran),
        "error" => {
            let why = state["error"].as_str().unwrap_or_default();
            Some(if why.contains("rejected permission") { Outcome::Denied } else { Outcome::Ran })
        }
        _ => None,
    }
}
