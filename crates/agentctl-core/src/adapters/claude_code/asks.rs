//! The open asks of a waiting session: held by our askers, written on its standard output, or, where only its
//! own terminal takes the answer, read from the open call in its transcript.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::frames::{self, Asked};
use super::lines::{Body, Line};
use super::{NAME, answers, arguments, subagents};
use crate::adapters::asker::{ASKS_FOLDER, Asker, askers_of};
use crate::adapters::describe_ask::{describe_call, kind_and_title};
use crate::adapters::{Found, Look, Root, Served, State};
use crate::host::Host;
use crate::kernel::Process;
use crate::model::{
    Ask, AskChannel, AskKind, Evidence, Locator, Reason, ReasonKind, Session, Status, Time,
    ToolCall, shorten,
};
use crate::native::{file, jsonl};

/// The tool by which the agent asks for the approval of a plan.
pub(super) const PLAN_TOOL: &str = "ExitPlanMode";
/// Longest detail of the reason for which a session waits, in characters.
const MAX_REASON_CHARS: usize = 120;
/// Bytes read at once from the end of a transcript.
const CHUNK: usize = 32 << 10;

/// Returns the folder in which askers have their sockets: it changes when an ask is opened or settled.
pub(super) fn folder(host: &Host) -> PathBuf {
    host.runtime().join(ASKS_FOLDER)
}

/// Sets `waiting` for a process without a terminal that has an open ask which its live record does not show: the
/// record says `busy` while a hook decides, and versions before 2.1.280 write no status.
pub(super) fn count_open_asks(look: &Look, process: &Process, served: &mut Served) {
    let status = served.state.as_ref().map(|state| state.status);
    if arguments::asks_on_stdio(&process.argv) {
        return count_frames(look, process, status, served);
    }
    if status != Some(Status::Running) {
        return;
    }
    let Some(asker) = askers_of(look, &process.id).into_iter().next() else { return };
    let reason = match call_of(&asker.held.input) {
        Some(call) => reason_of(&call),
        None => Reason { kind: ReasonKind::Permission, detail: None, until: None },
    };
    served.state = Some(State { status: Status::Waiting, reason: Some(reason) });
    served.evidence.push(held_by(look, &asker));
}

/// The output of a session that asks there is ahead of its live record: an answer is echoed before the record
/// changes, and versions before 2.1.280 write no status.
fn count_frames(look: &Look, process: &Process, status: Option<Status>, served: &mut Served) {
    if !matches!(status, None | Some(Status::Waiting)) {
        return;
    }
    let (state, says) = match (frames::asked(look, &process.id), status) {
        (Asked::Open(call), None) => {
            let reason = Some(reason_of(&call));
            (State { status: Status::Waiting, reason }, "asks in its output")
        }
        (Asked::Settled, Some(_)) => {
            (State { status: Status::Running, reason: None }, "has the answers to its asks")
        }
        _ => return,
    };
    served.evidence.push(look.evidence("kernel:fd/1", format!("pid {} {says}", process.id.pid)));
    served.state = Some(state);
}

/// Returns the reason of a session that waits for the answer to this call: the kind and the title of its ask.
fn reason_of(call: &ToolCall) -> Reason {
    let (kind, title) = kind_and_title(call);
    let kind = match kind {
        AskKind::Question => ReasonKind::Question,
        AskKind::Plan => ReasonKind::Plan,
        _ => ReasonKind::Permission,
    };
    Reason::with(kind, shorten(&title, MAX_REASON_CHARS))
}

fn held_by(look: &Look, asker: &Asker) -> Evidence {
    let (pid, agent) = (asker.process.pid, asker.held.agent_pid);
    look.evidence("kernel:memfd", format!("pid {pid} (asker) holds this ask for pid {agent}"))
}

/// Returns the asks of a session that waits for a human.
pub(super) fn of(
    look: &Look,
    root: &Root,
    session: &Session,
    locator: Option<&Locator>,
) -> Found<Ask> {
    let mut found = Found::default();
    for serving in &session.processes {
        let mut framed = frames::asks(look, session, &serving.id);
        if !framed.is_empty() {
            let path = locator.and_then(|locator| locator.path.as_deref());
            for ask in &mut framed {
                add_plan(look, session, path, ask);
            }
            found.rows.append(&mut framed);
            continue;
        }
        let askers = askers_of(look, &serving.id);
        found.rows.extend(askers.iter().filter_map(|asker| held(look, session, asker)));
    }
    if found.rows.is_empty() {
        let call = locator.and_then(|locator| open_call(look, root, session, locator));
        found.rows.extend(call.map(|call| in_terminal(look, session, call)));
    }
    found
}

/// Adds the plan to an ask whose frame does not have it: the model passed it as an argument, which only the
/// transcript holds.
fn add_plan(look: &Look, session: &Session, path: Option<&Path>, ask: &mut Ask) {
    let Some(call) = ask.tool.as_ref().filter(|call| call.name == PLAN_TOOL) else { return };
    if call.input.get("plan").is_some() {
        return;
    }
    let calls = path.map(|path| open_calls(look, path)).unwrap_or_default();
    let Some(whole) = calls.into_iter().find(|other| other.id == call.id) else { return };
    let native = ask.native.clone();
    describe_call(ask, whole);
    ask.identify(session, &native);
}

/// Makes the ask that an asker holds.
fn held(look: &Look, session: &Session, asker: &Asker) -> Option<Ask> {
    let held = &asker.held;
    if session.id.as_ref() != Some(&held.session_id) || held.adapter != NAME {
        return None;
    }
    let mut ask = Ask::of(session);
    describe_call(&mut ask, call_of(&held.input)?);
    ask.choices = answers::choices(ask.kind, &held.input["permission_suggestions"]);
    ask.via = Some(AskChannel::Asker);
    ask.cwd = held.input["cwd"].as_str().map(str::to_owned).or(ask.cwd);
    ask.since = Time::from_millis(held.since_ms).or(ask.since);
    ask.until = held.until_ms.and_then(Time::from_millis);
    let without_us = if is_headless(look, session) { "denied" } else { "only its terminal asks" };
    ask.then = ask.until.map(|_| without_us.to_owned());
    let evidence = held_by(look, asker);
    if !ask.evidence.contains(&evidence) {
        ask.evidence.push(evidence);
    }
    ask.identify(session, &asker.ask);
    Some(ask)
}

/// Says whether the session runs without a terminal: then a hook that ends without a decision is a denial.
pub(super) fn is_headless(look: &Look, session: &Session) -> bool {
    let mut processes = session.processes.iter().filter_map(|serving| {
        let process = look.host.kernel.process(serving.id.pid).ok().flatten();
        process.filter(|process| process.id == serving.id)
    });
    processes.any(|process| arguments::is_headless(&process.argv))
}

/// Returns the tool call in the input of a hook.
fn call_of(input: &Value) -> Option<ToolCall> {
    let name = input["tool_name"].as_str()?.to_owned();
    Some(ToolCall { id: None, name, input: input["tool_input"].clone() })
}

/// Makes an ask that only the agent's own terminal, or the program that started it, takes an answer to.
fn in_terminal(look: &Look, session: &Session, call: ToolCall) -> Ask {
    let mut ask = Ask::of(session);
    let native = call.id.clone().unwrap_or_default();
    describe_call(&mut ask, call);
    ask.why_not = why_not(look, session);
    ask.identify(session, &native);
    ask
}

/// Says why a session that has no asker cannot be answered from here, and where it can be.
fn why_not(look: &Look, session: &Session) -> Option<String> {
    const HOOK: &str =
        "`agentctl asks --hook` prints the hook with which the next ones can be answered from here";
    let kernel = &look.host.kernel;
    let process = session.processes.iter().find_map(|serving| {
        let process = kernel.process(serving.id.pid).ok().flatten()?;
        (process.id == serving.id).then_some(process)
    })?;
    Some(match kernel.terminal(&process) {
        Some(terminal) => {
            format!("it takes answers only in its own terminal ({}); {HOOK}", terminal.display())
        }
        None => format!("only the program that started it can answer; {HOOK}"),
    })
}

/// Finds the open call that the session waits for: in its transcript, or in that of a subagent.
fn open_call(look: &Look, root: &Root, session: &Session, locator: &Locator) -> Option<ToolCall> {
    let path = locator.path.as_deref()?;
    let wanted = session.open_call.as_deref();
    let mut calls = open_calls(look, path);
    if let Some(at) = calls.iter().position(|call| call.id.as_deref() == wanted) {
        return Some(calls.swap_remove(at));
    }
    let children = subagents::below(root, path, &locator.id, look.host.kernel.uid()).rows;
    let paths = children.iter().filter_map(|child| child.path.as_deref());
    let mut theirs = paths.flat_map(|path| open_calls(look, path));
    calls.into_iter().next().or_else(|| theirs.next())
}

/// Returns the calls of the last model message in a transcript that have no result, in their order.
fn open_calls(look: &Look, path: &Path) -> Vec<ToolCall> {
    let Ok(opened) = file::open(path, look.host.kernel.uid()) else { return Vec::new() };
    let mut reading = OpenCalls::default();
    let visit = &mut |_: u64, line: &[u8]| reading.line(line);
    let read = jsonl::tail_from(&opened.file, opened.size, CHUNK, jsonl::TAIL_BYTES, visit);
    if read.is_err() {
        return Vec::new();
    }
    reading.calls.reverse();
    reading.calls
}

#[derive(Default)]
struct OpenCalls {
    answered: Vec<String>,
    message: Option<String>,
    calls: Vec<ToolCall>,
}

impl OpenCalls {
    /// Reads a line, newest first; ends before the model message whose calls were collected.
    fn line(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let Some(line) = Line::parse(bytes) else { return ControlFlow::Continue(()) };
        let Some(body) = &line.message else { return ControlFlow::Continue(()) };
        match line.kind.as_ref() {
            "user" => {
                let blocks = body.blocks();
                let results = blocks.into_iter().filter_map(|block| block.tool_use_id);
                let before = self.answered.len();
                self.answered.extend(results);
                // A prompt begins the turn: no call of it stands before.
                let is_prompt = self.answered.len() == before && !line.is_meta;
                if is_prompt { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            "assistant" => self.assistant(body),
            _ => ControlFlow::Continue(()),
        }
    }

    fn assistant(&mut self, body: &Body<'_>) -> ControlFlow<()> {
        let id = body.id.as_deref().unwrap_or_default();
        if self.message.as_deref().is_some_and(|message| message != id) {
            return ControlFlow::Break(());
        }
        let mut blocks = body.blocks();
        blocks.retain(|block| block.kind == "tool_use");
        for block in blocks.into_iter().rev() {
            if block.id.as_ref().is_some_and(|id| self.answered.contains(id)) {
                continue;
            }
            self.message = Some(id.to_owned());
            let name = block.name.unwrap_or_default();
            self.calls.push(ToolCall { id: block.id, name, input: block.input });
        }
        ControlFlow::Continue(())
    }
}
