//! RPC mode: a Pi that was launched to stay reads one command per line from its standard input, and writes
//! responses and events as lines to its standard output.
//!
//! It names its session only when it is asked, so a launch asks before it sends the prompt: the first line of the
//! output then names the session, as it does in JSON mode.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::control::{FIRST_EVENT_GRACE, begins_other};
use super::output::{self, Mode};
use crate::adapters::Look;
use crate::adapters::control::{FirstWords, Handshake, Order};
use crate::model::{ProcId, Session};
use crate::native::jsonl;

/// The id of the request for the session, which a launch sends first.
const STATE_REQUEST: &str = "agentctl-state";
/// The id of the prompt of a launch.
const PROMPT_REQUEST: &str = "agentctl-prompt";
/// Bytes read at once from the end of the output.
const CHUNK: usize = 32 << 10;
/// Most bytes of the output that are searched for a response.
const BUDGET: u64 = 4 << 20;
/// Time for Pi to respond to a command.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two looks at the output.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The response to a command.
#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    success: bool,
    error: Option<String>,
    data: Option<ResponseData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseData {
    session_id: Option<String>,
}

impl Response {
    /// Returns the session that this response to our request names.
    fn session(self) -> Option<String> {
        let is_ours = self.kind == "response" && self.id.as_deref() == Some(STATE_REQUEST);
        let data = self.data.filter(|_| is_ours && self.command == "get_state" && self.success)?;
        data.session_id
    }
}

/// Returns the commands that begin a launch: the request for the session, and the prompt.
pub(super) fn first_lines(prompt: &str) -> Vec<u8> {
    let mut lines = line(&json!({"id": STATE_REQUEST, "type": "get_state"}));
    lines.extend(message(PROMPT_REQUEST, prompt));
    lines
}

/// Returns the command that gives a message to a session: a turn at rest, an addition to a running turn.
pub(super) fn message(id: &str, text: &str) -> Vec<u8> {
    line(&json!({"id": id, "type": "prompt", "message": text, "streamingBehavior": "steer"}))
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Returns the session that a line of the output names, if it is the response to our request.
pub(super) fn session_named_by(line: &[u8]) -> Option<String> {
    jsonl::parse::<Response>(line)?.session()
}

/// Interprets the first output of a Pi that was launched to stay.
pub(super) fn handshake(order: &Order, words: &FirstWords<'_>) -> Handshake {
    let lines: Vec<Value> = words.json_lines().take(64).collect();
    let response = |line: &Value| Response::deserialize(line).ok();
    let Some(id) = lines.iter().find_map(|line| response(line)?.session()) else {
        return Handshake::Wait;
    };
    if let Some(failure) = begins_other(order, &id) {
        return failure;
    }
    let mut responses = lines.iter().filter_map(response);
    let refused = responses.find(|response| {
        response.id.as_deref() == Some(PROMPT_REQUEST)
            && response.kind == "response"
            && !response.success
    });
    if let Some(refused) = refused {
        return Handshake::Failed(refused.error.unwrap_or_else(|| "it was refused".into()));
    }
    if lines.iter().any(|line| line["type"] == "agent_start") {
        Handshake::Up(id)
    } else {
        Handshake::Nearly(id, FIRST_EVENT_GRACE)
    }
}

/// Returns the process of a session that was launched to stay, if this is one: it takes commands.
pub(super) fn kept<'a>(look: &Look, session: &'a Session) -> Option<&'a ProcId> {
    let id = session.id.as_deref()?;
    session.processes.iter().map(|serving| &serving.id).find(|process| {
        let first = output::first_of(look, process);
        first.is_some_and(|first| first.mode == Mode::Kept && first.session == id)
    })
}

/// Cancels a dialog of an extension. Pi does not respond to that.
pub(super) fn cancel(look: &Look, process: &ProcId, dialog: &str) -> Result<(), String> {
    let response = json!({"type": "extension_ui_response", "id": dialog, "cancelled": true});
    let written = look.host.kernel.write_to_stdin(process, &line(&response), REPLY_TIMEOUT);
    written.map_err(|error| error.to_string())
}

/// Sends a command without arguments and waits for its response.
pub(super) fn request(look: &Look, process: &ProcId, command: &str) -> Result<(), String> {
    let id = uuid::Uuid::new_v4().to_string();
    let command = line(&json!({"id": id, "type": command}));
    let written = look.host.kernel.write_to_stdin(process, &command, REPLY_TIMEOUT);
    written.map_err(|error| error.to_string())?;
    let until = Instant::now() + REPLY_TIMEOUT;
    loop {
        match response(look, process, &id) {
            Some(Response { success: true, .. }) => return Ok(()),
            Some(refused) => return Err(refused.error.unwrap_or_else(|| "it refused".into())),
            None if Instant::now() >= until => return Err("it did not respond in time".into()),
            None => std::thread::park_timeout(LOOK_PAUSE),
        }
    }
}

/// Looks for the response to a command in the output of a process.
fn response(look: &Look, process: &ProcId, id: &str) -> Option<Response> {
    let file = look.host.kernel.stdout_file(process).ok()??;
    let size = file.metadata().ok()?.len();
    let mut found = None;
    // Lines that were read before an error count: they are the newest.
    let _read = jsonl::tail_from(&file, size, CHUNK, BUDGET, &mut |_, line| {
        if memchr::memmem::find(line, id.as_bytes()).is_none() {
            return ControlFlow::Continue(());
        }
        let response = jsonl::parse::<Response>(line);
        found = response.filter(|r| r.kind == "response" && r.id.as_deref() == Some(id));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::adapters::RootPlace;
    use crate::adapters::control::Begin;

    const STATE: &str = r#"{"id":"agentctl-state","type":"response","command":"get_state","success":true,"data":{"isStreaming":false,"sessionId":"s1"}}"#;

    fn shake(lines: &[&str], begin: Begin) -> Handshake {
        let place = RootPlace::Directory(PathBuf::from("/h"));
        let order = Order { begin, ..Order::resume("s1".into(), "/w".into(), place) };
        let stdout = lines.join("\n") + "\n";
        handshake(&order, &FirstWords { stdout: stdout.as_bytes(), stderr: b"" })
    }

    #[test]
    fn a_launch_is_up_when_its_turn_began_in_the_wanted_session() {
        let taken =
            r#"{"id":"agentctl-prompt","type":"response","command":"prompt","success":true}"#;
        let refused = r#"{"id":"agentctl-prompt","type":"response","command":"prompt","success":false,"error":"No API key found"}"#;
        let began = r#"{"type":"agent_start"}"#;
        let up = Handshake::Up("s1".into());
        let nearly = Handshake::Nearly("s1".into(), FIRST_EVENT_GRACE);
        assert_eq!(shake(&[], Begin::New), Handshake::Wait);
        assert_eq!(shake(&[taken, began], Begin::New), Handshake::Wait, "no session is named");
        assert_eq!(shake(&[STATE, taken], Begin::New), nearly);
        assert_eq!(shake(&[STATE, taken, began], Begin::New), up);
        assert_eq!(shake(&[STATE, began], Begin::Resume("s1".into())), up);
        let other = shake(&[STATE, began], Begin::Resume("s2".into()));
        assert!(matches!(other, Handshake::Failed(_)), "{other:?}");
        let failed = Handshake::Failed("No API key found".into());
        assert_eq!(shake(&[STATE, refused], Begin::New), failed);
    }

    #[test]
    fn only_the_response_to_our_request_names_the_session() {
        assert_eq!(session_named_by(STATE.as_bytes()).as_deref(), Some("s1"));
        for other in [
            STATE.replace("agentctl-state", "r-1"),
            STATE.replace("\"success\":true", "\"success\":false"),
            STATE.replace("\"response\"", "\"event\""),
            "no JSON".to_owned(),
        ] {
            assert_eq!(session_named_by(other.as_bytes()), None, "{other}");
        }
    }
}
