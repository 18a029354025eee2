//! The stream protocol of a session that was kept: asks are frames on its standard output, answers are lines on
//! its standard input, and the answer that was taken is echoed.
//!
//! The output is found through the process that writes it, so a deleted run folder hides nothing.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asks::PLAN_TOOL;
use super::{answers, arguments};
use crate::adapters::Look;
use crate::adapters::answering::Echo;
use crate::adapters::describe_ask::describe_call;
use crate::kernel::Process;
use crate::marks;
use crate::model::{Ask, AskChannel, ProcId, Reply, Session, Time, ToolCall};
use crate::native::jsonl;

/// Bytes read at once from the end of the output.
const CHUNK: usize = 32 << 10;
/// Most bytes of the output that are read.
const BUDGET: u64 = 4 << 20;
/// Most asks that one session is shown with.
const MAX_ASKS: usize = 64;
/// Time for the agent to reply to a control request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two looks at the output.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// The field of ours in an answer, by which its echo is recognised.
const MARK: &str = "agentctl";

/// Returns the process of a session that was launched to stay, if this is one: it takes lines.
pub(super) fn kept<'a>(look: &Look, session: &'a Session) -> Option<&'a ProcId> {
    session.processes.iter().map(|serving| &serving.id).find(|id| {
        let process = look.host.kernel.process(id.pid).ok().flatten();
        process.is_some_and(|process| {
            process.id == **id
                && arguments::takes_a_stream(&process.argv)
                && marks::marker_of(&look.host, &process).is_some_and(|marker| marker.names(id))
        })
    })
}

/// Says whether a process that was launched to stay has not finished a turn: it was launched with a prompt, which may
/// be in its input or in no record yet. Its output has one line for each finished turn.
pub(super) fn awaits_first_turn(look: &Look, process: &Process) -> bool {
    let is_ours = arguments::takes_a_stream(&process.argv)
        && marks::marker_of(&look.host, process).is_some_and(|marker| marker.names(&process.id));
    if !is_ours {
        return false;
    }
    let Ok(Some(file)) = look.host.kernel.stdout_file(&process.id) else { return false };
    let Ok(size) = file.metadata().map(|meta| meta.len()) else { return false };
    let mut has_finished = false;
    let read = jsonl::tail_from(&file, size, CHUNK, BUDGET, &mut |_, line| {
        let is_result = memchr::memmem::find(line, b"\"result\"").is_some()
            && jsonl::parse::<Value>(line).is_some_and(|line| line["type"] == "result");
        if is_result {
            has_finished = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    read.is_ok() && !has_finished && size < BUDGET
}

/// Says whether this process asks on its standard output.
fn asks_on_stdio(look: &Look, id: &ProcId) -> bool {
    let process = look.host.kernel.process(id.pid).ok().flatten();
    process.is_some_and(|process| process.id == *id && arguments::asks_on_stdio(&process.argv))
}

/// Returns the file in which a process asks, where it asks in one.
pub(super) fn output(look: &Look, id: &ProcId) -> Option<PathBuf> {
    if !asks_on_stdio(look, id) {
        return None;
    }
    look.host.kernel.stdout_path(id).ok()?
}

/// Returns the asks that a process has written on its standard output and that are open.
pub(super) fn asks(look: &Look, session: &Session, id: &ProcId) -> Vec<Ask> {
    if !asks_on_stdio(look, id) {
        return Vec::new();
    }
    let mut output = Output::default();
    output.read(look, id);
    let is_ours = kept(look, session) == Some(id);
    let frames = output.open.iter().enumerate().rev();
    let ask = |(at, frame)| {
        let mut ask = ask_of(session, frame, is_ours)?;
        // A frame has no time of its own. The newest one, if it is the last line, was written when the file was.
        if at == 0 && output.ends_with_open_frame {
            ask.since = output.written_at.or(ask.since);
        }
        Some(ask)
    };
    let mut asks: Vec<Ask> = frames.filter_map(ask).collect();
    let evidence = look.evidence("kernel:fd/1", format!("pid {} asks in its output", id.pid));
    for ask in &mut asks {
        ask.evidence.push(evidence.clone());
    }
    asks
}

/// The asks in the output of a process.
pub(super) enum Asked {
    /// One is open: its call.
    Open(ToolCall),
    /// Every ask of the last output is settled.
    Settled,
    /// The output shows none.
    Nothing,
}

/// Reads whether a process has an open ask in its output.
pub(super) fn asked(look: &Look, id: &ProcId) -> Asked {
    let mut output = Output::default();
    output.read(look, id);
    match output.open.last().and_then(call_of) {
        Some(call) => Asked::Open(call),
        None if output.has_settled_request => Asked::Settled,
        None => Asked::Nothing,
    }
}

/// Returns the tool call of a frame.
fn call_of(frame: &Value) -> Option<ToolCall> {
    let request = &frame["request"];
    Some(ToolCall {
        id: request["tool_use_id"].as_str().map(str::to_owned),
        name: request["tool_name"].as_str()?.to_owned(),
        input: request["input"].clone(),
    })
}

/// Makes the ask of a frame.
fn ask_of(session: &Session, frame: &Value, is_ours: bool) -> Option<Ask> {
    let request = &frame["request"];
    let native = frame["request_id"].as_str()?;
    let mut ask = Ask::of(session);
    describe_call(&mut ask, call_of(frame)?);
    if is_ours {
        ask.via = Some(AskChannel::Stdin);
        ask.choices = answers::choices(ask.kind, &request["permission_suggestions"]);
    } else {
        ask.why_not = Some("only the program that started it can answer".into());
    }
    ask.identify(session, native);
    Some(ask)
}

/// Says whether a frame is the request that was shown as this ask. The id of a request is not enough: the output is
/// a file, and a further frame with the same id may ask for something else.
fn is_shown_as(session: &Session, frame: &Value, ask: &Ask) -> bool {
    let Some(now) = ask_of(session, frame, true) else { return false };
    // The plan of a call may be shown from the transcript, so the call of such a frame has no plan.
    let has_plan_elsewhere =
        |call: &ToolCall| call.name == PLAN_TOOL && call.input.get("plan").is_none();
    let is_same_call = match (&now.tool, &ask.tool) {
        (Some(now), Some(shown)) => now == shown || (has_plan_elsewhere(now) && now.id == shown.id),
        _ => false,
    };
    is_same_call && now.native == ask.native && now.choices == ask.choices
}

/// Returns the line that answers an open ask; `None` if the ask is not open any more.
pub(super) fn answer(
    look: &Look,
    session: &Session,
    ask: &Ask,
    reply: &Reply,
) -> Option<Result<Vec<u8>, String>> {
    let mut output = Output::default();
    output.read(look, kept(look, session)?);
    let frame = output.open.iter().find(|frame| is_shown_as(session, frame, ask))?;
    let request = &frame["request"];
    let decision = answers::decision(&request["input"], &request["permission_suggestions"], reply);
    Some(decision.map(|decision| {
        let mark = uuid::Uuid::new_v4().to_string();
        let response = json!({"subtype": "success", "request_id": ask.native, "response": decision, MARK: mark});
        line(&json!({"type": "control_response", "response": response}))
    }))
}

/// Looks for the echo of an answer: Claude Code repeats the one that it has taken.
pub(super) fn echo(look: &Look, session: &Session, ask: &Ask, line: &[u8]) -> Echo {
    let Some(id) = kept(look, session) else { return Echo::Awaited };
    let mark = serde_json::from_slice::<Value>(line).map(|line| line["response"][MARK].clone());
    let mut output = Output::default();
    output.read(look, id);
    match output.settled.iter().find(|(request, _)| *request == ask.native) {
        None => Echo::Awaited,
        Some((_, Settling::Answer(taken))) if mark.is_ok_and(|mark| mark == *taken) => Echo::Taken,
        Some((_, Settling::Answer(_))) => Echo::Settled("another answer was taken".into()),
        Some((_, Settling::Cancelled)) => {
            Echo::Settled("the turn was interrupted, or a hook decided".into())
        }
    }
}

/// Returns the line that gives a message to the session.
pub(super) fn message(id: uuid::Uuid, text: &str) -> Vec<u8> {
    let content = json!({"role": "user", "content": text});
    line(&json!({"type": "user", "message": content, "uuid": id.to_string()}))
}

/// Sends a control request without arguments and waits for the agent's reply.
pub(super) fn request(look: &Look, id: &ProcId, subtype: &str) -> Result<(), String> {
    let native = uuid::Uuid::new_v4().to_string();
    let request =
        json!({"type": "control_request", "request_id": native, "request": {"subtype": subtype}});
    let written = look.host.kernel.write_to_stdin(id, &line(&request), REPLY_TIMEOUT);
    written.map_err(|error| error.to_string())?;
    let until = Instant::now() + REPLY_TIMEOUT;
    loop {
        let mut output = Output::default();
        output.read(look, id);
        if output.settled.iter().any(|(request, _)| *request == native) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err("it did not reply in time".into());
        }
        std::thread::park_timeout(LOOK_PAUSE);
    }
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// How a request was settled.
enum Settling {
    /// By an answer with this mark.
    Answer(Value),
    /// By something else.
    Cancelled,
}

/// The end of the output, newest first.
#[derive(Default)]
struct Output {
    settled: Vec<(String, Settling)>,
    results: Vec<String>,
    open: Vec<Value>,
    /// A request and its settlement were both seen.
    has_settled_request: bool,
    /// The last line is an open request.
    ends_with_open_frame: bool,
    /// When the last line was written.
    written_at: Option<Time>,
}

impl Output {
    fn read(&mut self, look: &Look, id: &ProcId) {
        let Ok(Some(file)) = look.host.kernel.stdout_file(id) else { return };
        let Ok(meta) = file.metadata() else { return };
        let written_ms = meta.mtime().saturating_mul(1000) + meta.mtime_nsec() / 1_000_000;
        self.written_at = Time::from_millis(written_ms);
        let mut is_last = true;
        // Lines that were read before an error count: they are the newest.
        let _read = jsonl::tail_from(&file, meta.len(), CHUNK, BUDGET, &mut |_, line| {
            self.line(line);
            if std::mem::take(&mut is_last) {
                self.ends_with_open_frame = !self.open.is_empty();
            }
            ControlFlow::Continue(())
        });
    }

    fn line(&mut self, bytes: &[u8]) {
        let holds = |text: &[u8]| memchr::memmem::find(bytes, text).is_some();
        if !holds(b"\"control_") && !holds(b"\"tool_result\"") {
            return;
        }
        let Some(value) = jsonl::parse::<Value>(bytes) else { return };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match value["type"].as_str() {
            Some("control_response") => {
                let response = &value["response"];
                let settling = Settling::Answer(response[MARK].clone());
                self.settled.extend(text(&response["request_id"]).map(|id| (id, settling)));
            }
            Some("control_cancel_request") => {
                let id = text(&value["request_id"]);
                self.settled.extend(id.map(|id| (id, Settling::Cancelled)));
            }
            Some("user") => {
                let blocks = value["message"]["content"].as_array().into_iter().flatten();
                self.results.extend(blocks.filter_map(|block| text(&block["tool_use_id"])));
            }
            Some("control_request") => self.request(value),
            _ => {}
        }
    }

    fn request(&mut self, frame: Value) {
        let request = &frame["request"];
        let is_settled = self.settled.iter().any(|(id, _)| frame["request_id"] == id.as_str());
        let has_result = self.results.iter().any(|id| request["tool_use_id"] == id.as_str());
        if request["subtype"] != "can_use_tool" {
            return;
        }
        if is_settled || has_result {
            self.has_settled_request = true;
        } else if self.open.len() < MAX_ASKS {
            self.open.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Output {
        let mut output = Output::default();
        for line in lines.iter().rev() {
            output.line(line.as_bytes());
        }
        output
    }

    fn open(lines: &[&str]) -> Vec<String> {
        let ids = read(lines).open.into_iter().map(|frame| frame["request_id"].to_string());
        ids.collect()
    }

    const ASKED: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"touch x"},"tool_use_id":"t1"}}"#;

    #[test]
    fn only_the_frame_that_was_shown_is_answered() {
        let mut session = crate::fleet::blank_session("claude-code", "/home/ada/.claude".into());
        session.id = Some("s".into());
        let asked: Value = serde_json::from_str(ASKED).expect("JSON");
        let ask = ask_of(&session, &asked, true).expect("an ask");
        assert!(is_shown_as(&session, &asked, &ask));
        let mut forged = asked.clone();
        forged["request"]["input"]["command"] = "rm -r x".into();
        assert!(!is_shown_as(&session, &forged, &ask), "another command with the same id");
        let mut forged = asked.clone();
        forged["request"]["permission_suggestions"] =
            json!([{"type": "setMode", "mode": "bypassPermissions"}]);
        assert!(!is_shown_as(&session, &forged, &ask), "another rule with the same id");
        let mut plan = asked;
        plan["request"]["tool_name"] = PLAN_TOOL.into();
        plan["request"]["input"] = json!({});
        let mut ask = ask_of(&session, &plan, true).expect("an ask");
        if let Some(tool) = &mut ask.tool {
            tool.input = json!({"plan": "from the transcript"});
        }
        assert!(is_shown_as(&session, &plan, &ask));
    }

    #[test]
    fn a_frame_is_open_until_it_is_answered_cancelled_or_its_call_has_a_result() {
        assert_eq!(open(&[ASKED]), ["\"r1\""]);
        for settled in [
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"deny"}}}"#,
            r#"{"type":"control_cancel_request","request_id":"r1"}"#,
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#,
        ] {
            assert!(open(&[ASKED, settled]).is_empty(), "{settled}");
        }
        let other =
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"i1"}}"#;
        assert_eq!(open(&[ASKED, other, "no JSON \"control_"]), ["\"r1\""]);
    }
}
