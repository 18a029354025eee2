//! The built-in demo agent, read like any other agent: from its own files and the kernel.
//!
//! Its home is `$XDG_DATA_HOME/agentctl-demo/`:
//! `live/<pid>.json` holds the state of a process (rewritten by rename, removed on a clean exit, left
//! behind by SIGKILL); `sessions/<id>.jsonl` is the conversation, append-only. This adapter is the
//! example CONTRIBUTING.md walks through.

mod answering;
mod changes;
mod control;
mod format;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub use self::format::{
    ASK_NOT_OPEN, Line, Live, LiveAsk, SocketAnswer, SocketOrder, SocketReply, Usage, Wrote,
};
use super::answering::Answering;
use super::changes::{ChangeNote, ChangesTold};
use super::control::Control;
use super::{
    Adapter, Capabilities, Depth, Found, Installation, Look, PromptCounter, Record, Root, Served,
    State, Store, Turn, existing_roots, not_regular, pid_of, proof::prove, skipped,
};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::{
    Ask, Exit, Locator, Message, Reason, ReasonKind, Role, Session, Status, Time, Tokens, ToolCall,
    ToolResult, is_session_id, shorten,
};
use crate::native::{file, jsonl};

/// Largest live record: it may hold the whole command of an ask.
const MAX_LIVE_BYTES: u64 = 16 << 20;

/// The hidden subcommand that is the agent.
pub const SUBCOMMAND: &str = "demo-agent";

/// The name that the agent gives its process before it removes its live record, at its end.
pub const LEAVING_COMM: &str = "demo-leaving";

/// Returns the demo agent's home.
#[must_use]
pub fn home(host: &Host) -> PathBuf {
    host.xdg("XDG_DATA_HOME", ".local/share").join("agentctl-demo")
}

/// The adapter.
pub struct Demo;

impl Adapter for Demo {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "questions, permissions",
            tokens: true,
            cost: false,
            subagents: false,
            changes: ChangesTold::Hunks,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        brief.comm == "agentctl" || brief.exe_name == "agentctl"
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        let configured = host.roots.get(self.name()).cloned().unwrap_or_default();
        std::iter::once(home(host)).chain(configured).collect()
    }

    fn is_own_program(&self, look: &Look, process: &Process) -> bool {
        let Some(exe) = process.exe.as_deref() else { return false };
        let name = exe.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (*exe == look.host.program || name == "agentctl")
            && process.argv.get(1).is_some_and(|word| word == SUBCOMMAND)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        let names = ["XDG_DATA_HOME", "HOME"];
        let values = look.environ(process, &names).ok()?;
        let data = match values.as_slice() {
            [Some(data), _] if data.starts_with('/') => PathBuf::from(data),
            [_, Some(home)] => PathBuf::from(home).join(".local/share"),
            _ => return None,
        };
        look.home(&data.join("agentctl-demo"))
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        existing_roots(self.homes(&look.host))
    }

    fn installation(&self, host: &Host) -> Installation {
        Installation {
            program: Some(host.program.clone()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(DemoStore { look, root })
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { return Vec::new() };
        let at = line.at();
        let mut message = Message::of(Role::System);
        message.at = at;
        match line {
            Line::Prompt { id, text, .. }
            | Line::Message { id, text, .. }
            | Line::Answer { id, text, .. } => {
                (message.id, message.role, message.text) = (Some(id), Role::User, Some(text));
            }
            Line::Say { id, text, model, usage, .. } => {
                (message.id, message.role, message.text) = (Some(id), Role::Assistant, Some(text));
                (message.model, message.usage) = (Some(model), Some(usage.into()));
            }
            Line::Tool { id, call, command, model, usage, .. } => {
                (message.id, message.role) = (Some(id), Role::Assistant);
                (message.model, message.usage) = (Some(model), Some(usage.into()));
                let input = serde_json::json!({ "command": command });
                message.tool_calls.push(ToolCall { id: Some(call), name: "shell".into(), input });
            }
            Line::Write { id, call, path, content, model, usage, .. } => {
                (message.id, message.role) = (Some(id), Role::Assistant);
                (message.model, message.usage) = (Some(model), Some(usage.into()));
                let input = serde_json::json!({ "path": path, "content": content });
                message.tool_calls.push(ToolCall { id: Some(call), name: "write".into(), input });
            }
            Line::Result { call, text, is_error, .. } => {
                message.role = Role::Tool;
                let id = Some(call);
                message.tool_results.push(ToolResult {
                    id,
                    text,
                    is_error,
                    ..ToolResult::default()
                });
            }
            Line::Ask { id, question, .. } => {
                (message.id, message.role, message.text) =
                    (Some(id), Role::Assistant, Some(question));
            }
            Line::End { error: Some(error), .. } => message.text = Some(format!("error: {error}")),
            Line::End { state, .. } if state == "interrupted" => {
                message.text = Some("interrupted".into());
            }
            Line::Session { .. } | Line::Turn { .. } | Line::End { .. } | Line::Exit { .. } => {
                return Vec::new();
            }
        }
        vec![message]
    }

    fn changes(&self, line: &[u8]) -> Vec<ChangeNote> {
        changes::read(line)
    }

    fn is_built_in(&self) -> bool {
        true
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }
}

struct DemoStore<'a> {
    look: &'a Look,
    root: &'a Root,
}

impl DemoStore<'_> {
    fn uid(&self) -> u32 {
        self.look.host.kernel.uid()
    }

    /// Says whether a process uses this home, or may use it: a process whose environment cannot be read
    /// must not be ignored.
    fn may_use_home(&self, process: &Process) -> bool {
        let home = Demo.home_of(self.look, process);
        home.is_none_or(|home| home == self.root.path())
    }

    /// Says whether a process without a live record has ended or is about to. It is read now: the table of processes
    /// is older than the list of live records.
    fn is_leaving(&self, process: &Process) -> bool {
        let now = self.look.host.kernel.process(process.id.pid).ok().flatten();
        now.is_some_and(|now| now.id == process.id && now.comm == LEAVING_COMM)
            || self.look.has_ended(process)
    }

    /// Adds the fault for an unreadable live record: the process it names may be alive.
    fn unread(&self, entry: &file::DirectoryEntry, skip: &file::Skip, found: &mut Found<Served>) {
        found.faults.push(skipped("demo", self.root, &entry.path, skip));
        found.whole = false;
    }

    /// Reads one live record and verifies that the process it names is the one that wrote it.
    fn served(&self, entry: &file::DirectoryEntry, pid: u32, found: &mut Found<Served>) {
        let kernel = &self.look.host.kernel;
        let source = format!("demo:live/{}", entry.name);
        let live: Live = match file::read_small(&entry.path, self.uid(), MAX_LIVE_BYTES) {
            Err(file::Skip::Missing) => return,
            Err(skip) => return self.unread(entry, &skip, found),
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(live) => live,
                Err(error) => {
                    return self.unread(entry, &file::Skip::Other(error.to_string()), found);
                }
            },
        };
        if !is_session_id(&live.session) {
            return;
        }
        // A machine id that one of the two does not know proves nothing; the boot id is compared next.
        let machines = live.machine_id.as_deref().zip(kernel.machine_id());
        if machines.is_some_and(|(recorded, own)| recorded != own) {
            let why = "it was recorded on another machine";
            return found.rows.push(Served::unseen(live.session, why));
        }
        if live.boot_id != kernel.boot_id() {
            return;
        }
        let started_at = Time::from_millis(live.started_ms);
        let mut served = if live.pid_namespace == kernel.pid_namespace() {
            match kernel.process(pid) {
                Ok(Some(process)) if process.id.start_ticks == live.start_ticks => {
                    match prove(&Demo, self.look, self.root, &process) {
                        Ok(()) => Served::by(Some(live.session), &process),
                        Err(unproved) => Served::unseen(
                            live.session,
                            format!("its live record names pid {pid}, but {unproved}"),
                        ),
                    }
                }
                Ok(_) => return, // stale: left behind by SIGKILL
                Err(error) => Served::unseen(
                    live.session,
                    format!("process {pid} could not be read: {error}"),
                ),
            }
        } else {
            Served::unseen(live.session, "its process lives in another pid namespace".to_owned())
        };
        if served.state.is_none() {
            let asks_permission = live.ask.as_ref().is_some_and(|ask| ask.kind == "permission");
            let kind = if asks_permission { ReasonKind::Permission } else { ReasonKind::Question };
            let (status, reason) = match (live.status.as_str(), live.detail) {
                ("waiting", detail) => {
                    (Status::Waiting, Some(Reason { kind, detail, until: None }))
                }
                ("idle", _) => (Status::Idle, None),
                ("tool", detail) => {
                    (Status::Running, Some(Reason { kind: ReasonKind::Tool, detail, until: None }))
                }
                _ => (Status::Running, None),
            };
            served.state = Some(State { status, reason });
        }
        served.cwd = Some(live.cwd);
        served.started_at = started_at;
        served.evidence.push(self.look.evidence(source, format!("status {}", live.status)));
        found.rows.push(served);
    }
}

impl Store for DemoStore<'_> {
    fn live(&self) -> Found<Served> {
        let mut found = Found::default();
        let directory = self.root.path().join("live");
        match file::list(&directory, self.uid()) {
            Ok(entries) => {
                for entry in entries {
                    if let Some(pid) = pid_of(&entry.name, ".json") {
                        self.served(&entry, pid, &mut found);
                    }
                }
            }
            Err(skip) => return Found::fault(skipped("demo", self.root, &directory, &skip)),
        }
        for process in &self.look.table.processes {
            let is_agent = Demo.is_own_program(self.look, process)
                && !process.argv.iter().any(|a| a == "--tell")
                && self.may_use_home(process);
            let joined = found.rows.iter().any(|s| s.by.contains(&process.id));
            let mere = self.look.table.is_mere_fork(process);
            if is_agent && !joined && !mere && !process.elsewhere && !self.is_leaving(process) {
                let mut served = Served::by(None, process);
                served.may_serve = true;
                served.state = Some(State {
                    status: Status::Running,
                    reason: Some(Reason::of(ReasonKind::Starting)),
                });
                let says = format!("pid {} has no live record yet", process.id.pid);
                served.evidence.push(self.look.evidence("kernel:process table", says));
                found.rows.push(served);
            }
        }
        found
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        let mut found = Found::default();
        let directory = self.root.path().join("sessions");
        match file::list(&directory, self.uid()) {
            Ok(entries) => {
                for entry in entries {
                    let Some(id) = entry.name.strip_suffix(".jsonl").filter(|id| is_session_id(id))
                    else {
                        continue;
                    };
                    if !entry.kind.is_file() {
                        found.faults.push(not_regular("demo", self.root, &entry, self.uid()));
                        continue;
                    }
                    if entry.is_since(since_ms) {
                        let path = Some(entry.path.clone());
                        found.rows.push(Locator { id: id.to_owned(), path, parent: None });
                    }
                }
            }
            Err(skip) => return Found::fault(skipped("demo", self.root, &directory, &skip)),
        }
        found
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let mut record = Record::default();
        let Some(path) = &locator.path else { return record };
        let source = format!("demo:sessions/{}.jsonl", locator.id);
        let opened = match file::open(path, self.uid()) {
            Ok(opened) => opened,
            Err(skip) => {
                record.turn = Turn::Unreadable(skip.to_string());
                record.evidence.push(self.look.evidence(source, skip.to_string()));
                return record;
            }
        };
        let read = read_head(&opened, &mut record)
            .and_then(|()| read_tail(&opened, &mut record))
            .and_then(
                |()| if depth == Depth::Whole { count(&opened, &mut record) } else { Ok(()) },
            );
        if let Err(error) = read {
            record.turn = Turn::Unreadable(error.to_string());
        }
        let says = record.turn.says();
        record.evidence.push(self.look.evidence(source, says));
        record
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        answering::asks(self.look, self.root, session)
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        vec![self.root.path().join("live")]
    }

    fn watched(&self, locator: &Locator) -> Vec<PathBuf> {
        let conversation = format!("sessions/{}.jsonl", locator.id);
        vec![self.root.path().join("live"), self.root.path().join(conversation)]
    }
}

fn read_head(opened: &file::Opened, record: &mut Record) -> std::io::Result<()> {
    jsonl::head(&opened.file, 4 << 10, &mut |line| {
        match serde_json::from_slice(line) {
            Ok(Line::Session { cwd, model }) => {
                (record.cwd, record.model) = (Some(cwd), Some(model));
            }
            Ok(Line::Prompt { text, at, .. } | Line::Message { text, at, .. }) => {
                record.started_at = Time::parse(&at);
                record.prompt = Some(shorten(&text, 200));
                // The directives are the demo's script, not part of the title.
                let gist = text.split("[[").next().filter(|g| !g.trim().is_empty());
                record.title = Some(shorten(gist.unwrap_or(&text), 80));
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Reads backwards to the line that shows the state of the last turn.
fn read_tail(opened: &file::Opened, record: &mut Record) -> std::io::Result<()> {
    let mut answered = HashSet::new();
    let mut open_tool = None;
    let mut decided = None;
    let ended = jsonl::tail(&opened.file, opened.size, 8 << 10, &mut |line| {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            return ControlFlow::Continue(());
        };
        record.last_activity_at = record.last_activity_at.max(line.at());
        match line {
            Line::Exit { code, at } => {
                record.exit = Some(Exit { code: Some(code), signal: None });
                record.ended_at = Time::parse(&at);
            }
            Line::Result { call, .. } => drop(answered.insert(call)),
            Line::Tool { call, command, .. } if !answered.contains(&call) => {
                open_tool.get_or_insert(format!("shell: {}", shorten(&command, 80)));
            }
            Line::Write { call, path, .. } if !answered.contains(&call) => {
                open_tool.get_or_insert(format!("write: {}", shorten(&path, 80)));
            }
            Line::End { state, error, .. } => {
                decided = Some(match state.as_str() {
                    "finished" => Turn::Finished,
                    "interrupted" => Turn::Interrupted,
                    _ => Turn::Failed(error.unwrap_or(state)),
                });
            }
            Line::Prompt { .. } | Line::Turn { .. } => {
                decided = Some(Turn::Open {
                    tool: open_tool.take(),
                    retrying: None,
                    asks: None,
                    doubt: None,
                });
            }
            _ => {}
        }
        if decided.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    record.turn = match (decided, ended) {
        (Some(turn), _) => turn,
        (None, jsonl::ReadEnd::Budget) => {
            Turn::Undecided("the last MiB holds no end of a turn".into())
        }
        (None, _) => Turn::None,
    };
    // A session that was continued after an earlier exit has not exited.
    if !matches!(record.turn, Turn::Finished | Turn::Failed(_) | Turn::Interrupted) {
        (record.exit, record.ended_at) = (None, None);
    }
    Ok(())
}

fn count(opened: &file::Opened, record: &mut Record) -> std::io::Result<()> {
    let mut seen = HashSet::new();
    let mut tokens = Tokens::default();
    let mut prompts = PromptCounter::default();
    let pass = jsonl::lines(&opened.file, 0, &mut |line| match serde_json::from_slice(line) {
        Ok(
            Line::Say { id, usage, .. }
            | Line::Tool { id, usage, .. }
            | Line::Write { id, usage, .. },
        ) => {
            let is_new = seen.insert(id);
            if is_new {
                tokens.add(usage.into());
            }
        }
        Ok(Line::Prompt { id, .. } | Line::Message { id, .. } | Line::Answer { id, .. }) => {
            prompts.add(Some(id));
        }
        _ => {}
    })?;
    record.turns = Some(prompts.count());
    record.tokens = (pass.oversized == 0).then_some(tokens);
    Ok(())
}
