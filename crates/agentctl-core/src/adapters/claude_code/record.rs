//! Reads a transcript: the head for its beginning, the tail for the state of the last turn.
//!
//! The windows are the same for every question, so a row of `list` equals `status`. Bulk lines
//! (attachments, recorded requests) are skipped without parsing.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use super::NAME;
use super::ends::{self, Ending, Money, Outputs, Traces};
use super::lines::{Body, Line, is_prompt};
use super::messages::result_text;
use super::tokens;
use crate::adapters::{Found, Look, Record, Turn};
use crate::model::{Locator, Reason, ReasonKind, ToolCall, shorten};
use crate::native::{file, jsonl};

/// Bytes read at once from either end; most transcripts need no more.
const HEAD_CHUNK: usize = 4 << 10;
const TAIL_CHUNK: usize = 8 << 10;
/// Bytes to search backwards for the model's name once the state is known.
const MODEL_BYTES: u64 = 256 << 10;
/// Longer lines are parsed only if their kind is one that is read here.
const BULK_BYTES: usize = 2 << 10;

/// Reads one transcript; with its subagents given, also the tokens of them all.
pub(super) fn read(look: &Look, locator: &Locator, children: Option<&Found<Locator>>) -> Record {
    let mut record = match (&locator.path, children) {
        (None, _) => Record::default(),
        (Some(path), None) => look.outline(path, 0, || read_file(look, path, None)),
        (Some(path), children) => read_file(look, path, children),
    };
    record.parent.clone_from(&locator.parent);
    record
}

fn read_file(look: &Look, path: &Path, children: Option<&Found<Locator>>) -> Record {
    let mut record = Record::default();
    let source = format!("{NAME}:{}", id_or_pid(path));
    let uid = look.host.kernel.uid();
    let opened = match file::open(path, uid) {
        Ok(opened) => opened,
        Err(skip) => {
            record.turn = Turn::Unreadable(skip.to_string());
            record.evidence.push(look.evidence(source, skip.to_string()));
            return record;
        }
    };
    record.stamp = Some(opened.stamp);
    let is_subagent = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"agent-"));
    let mut tail = Tail { is_subagent, ..Tail::default() };
    let read = head(&opened, &mut record).and_then(|()| tail.read(&opened));
    record.turn = match read {
        Ok(()) => tail.turn(),
        Err(error) => Turn::Unreadable(error.to_string()),
    };
    tail.describe(&mut record);
    if let Some(children) = children {
        tokens::count(&opened, uid, children, &mut record);
    }
    record.evidence.push(look.evidence(source, record.turn.says()));
    record
}

/// Returns `projects/<slug>/<id>.jsonl`, the name shown to users.
fn id_or_pid(path: &Path) -> String {
    let mut parts: Vec<_> = path.iter().rev().take(2).map(|p| p.to_string_lossy()).collect();
    parts.reverse();
    format!("projects/{}", parts.join("/"))
}

/// Reads the first prompt, the directory and the start time.
fn head(opened: &file::Opened, record: &mut Record) -> io::Result<()> {
    jsonl::head(&opened.file, HEAD_CHUNK, &mut |bytes| {
        if is_bulk(bytes) {
            return ControlFlow::Continue(());
        }
        let Some(line) = Line::parse(bytes) else { return ControlFlow::Continue(()) };
        record.started_at = record.started_at.or(line.at());
        if record.cwd.is_none() {
            record.cwd = line.cwd.as_deref().map(str::to_owned);
        }
        let body = line.message.as_ref().filter(|_| line.kind == "user" && !line.is_meta);
        let text = body.and_then(|b| b.blocks().into_iter().find_map(|block| block.text));
        match text.filter(|t| is_prompt(t)) {
            Some(text) => {
                record.prompt = Some(shorten(&text, 200));
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    })?;
    Ok(())
}

/// Says whether a long line holds nothing that is read here.
fn is_bulk(line: &[u8]) -> bool {
    static KINDS: LazyLock<[Finder<'static>; 3]> = LazyLock::new(|| {
        ["\"type\":\"user\"", "\"type\":\"assistant\"", "\"type\":\"system\""].map(Finder::new)
    });
    line.len() > BULK_BYTES
        && !KINDS.iter().any(|kind| kind.find(line).is_some())
        && !ends::may_be_ending(line)
}

/// Says whether a line is a note that is not read.
fn says_nothing(line: &[u8]) -> bool {
    const NOTES: [&[u8]; 4] = [b"atis-latch", b"last-prompt", b"permission-mode", b"tools-used"];
    jsonl::own_type(line).is_some_and(|kind| NOTES.contains(&kind))
}

/// Says whether a line may contain a refused tool call: most decisions are to accept.
fn may_be_refusal(line: &[u8]) -> bool {
    const ACCEPTED: &[u8] = b"\"permissionDecision\":{\"decision\":\"accept\"";
    static DECISION: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new("\"permissionDecision\""));
    DECISION.find(line).is_some_and(|at| !line[at..].starts_with(ACCEPTED))
}

/// Says whether a line may be a title: such lines begin with their type.
fn may_be_title(line: &[u8]) -> bool {
    memmem::find(&line[..line.len().min(64)], b"-title\"").is_some()
}

/// Says whether a line is an attachment, by the first object that it holds.
fn is_attachment(line: &[u8]) -> bool {
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"attachment\":{"));
    jsonl::behind(line, &KEY).is_some()
}

/// The content of the end of a transcript, collected newest first.
#[derive(Default)]
struct Tail {
    decided: Option<Turn>,
    answered: HashSet<String>,
    /// The model message whose tool calls are being collected.
    calling: Option<String>,
    open_call: Option<ToolCall>,
    /// The id of the call that the open turn waits for.
    waits_for: Option<String>,
    retrying: Option<String>,
    /// The newest model call and how often it was tried.
    attempts: Option<(String, u32)>,
    model: Option<String>,
    cwd: Option<String>,
    custom_title: Option<String>,
    ai_title: Option<String>,
    /// The file is a subagent's: all its lines are.
    is_subagent: bool,
    /// The process wrote its exit lines behind the last message: it was not killed by SIGKILL.
    goodbye: bool,
    /// The exit lines of versions before 2.1.280, behind the last message.
    farewell: bool,
    money: Money,
    outputs: Outputs,
    /// The newest message was written by a process that has a terminal: it has no budget.
    has_terminal: Option<bool>,
    /// The version that wrote the newest message.
    version: Option<[u32; 3]>,
    /// A prompt was taken from the queue behind the last message.
    took_prompt: bool,
    /// Notes about the end for the user.
    notes: Vec<String>,
    /// Tools that a rule refused without asking the user, newest first.
    refused: Vec<String>,
    last: Option<crate::model::Time>,
    over_budget: bool,
    /// The transcript was read back to its first line.
    whole: bool,
}

impl Tail {
    /// Reads the last window completely, since titles count only there; reads further back only for
    /// facts that are still missing.
    fn read(&mut self, opened: &file::Opened) -> io::Result<()> {
        let (size, window) = (opened.size, TAIL_CHUNK as u64);
        let mut begin = size;
        let mut ended =
            jsonl::tail_from(&opened.file, size, TAIL_CHUNK, window, &mut |at, line| {
                begin = at;
                self.line(line);
                ControlFlow::Continue(())
            })?;
        if ended == jsonl::ReadEnd::Budget && !self.is_settled() {
            let budget = jsonl::TAIL_BYTES.saturating_sub(size - begin);
            let chunk = 4 * TAIL_CHUNK;
            ended = jsonl::tail_from(&opened.file, begin, chunk, budget, &mut |at, line| {
                self.line(line);
                let far = size - at >= MODEL_BYTES;
                let is_decided = self.decided.is_some() && !self.seeks_explanation();
                let enough = self.is_settled() || (is_decided && far);
                if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        self.over_budget = ended == jsonl::ReadEnd::Budget;
        self.whole = ended == jsonl::ReadEnd::Whole;
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.decided.is_some() && self.model.is_some() && !self.seeks_explanation()
    }

    /// Says whether a used-up budget would explain the state of the last turn: it leaves a call without
    /// an answer, a result without a next call, or a last answer that looks like any other.
    fn may_be_out_of_budget(&self) -> bool {
        match &self.decided {
            _ if self.has_terminal == Some(true) || self.is_subagent => false,
            Some(Turn::Finished) => true,
            Some(Turn::Open { .. }) => self.has_left() || ends::tells_no_signals(self.version),
            _ => false,
        }
    }

    /// Says whether the process exited although it had the result of its last call.
    fn may_be_out_of_retries(&self) -> bool {
        self.has_left() && matches!(&self.decided, Some(Turn::Open { tool: None, .. }))
    }

    fn has_left(&self) -> bool {
        self.goodbye || self.farewell
    }

    fn seeks_explanation(&self) -> bool {
        (self.may_be_out_of_budget() && self.money.is_open())
            || (self.may_be_out_of_retries() && self.outputs.is_open())
    }

    fn line(&mut self, bytes: &[u8]) {
        if self.nothing_since() && jsonl::own_type(bytes) == Some(b"last-prompt") {
            self.farewell = true;
        }
        // Once the state is known, older lines can only add a title or a refusal.
        let needed = !self.is_settled()
            || self.cwd.is_none()
            || may_be_title(bytes)
            || may_be_refusal(bytes);
        if needed
            && !self.is_beside_the_budget(bytes)
            && !says_nothing(bytes)
            && !is_bulk(bytes)
            && let Some(line) = Line::parse(bytes)
        {
            self.visit(&line);
        }
    }

    /// Says whether a line cannot contain the budget of the last call, where only that is still sought.
    /// Most lines are recognised by their beginning, without parsing.
    fn is_beside_the_budget(&mut self, bytes: &[u8]) -> bool {
        let only_budget = matches!(self.decided, Some(Turn::Finished))
            && self.model.is_some()
            && self.cwd.is_some()
            && self.money.seeks_budget();
        if !only_budget || may_be_title(bytes) || may_be_refusal(bytes) {
            return false;
        }
        let holds = |text: &[u8]| memmem::find(bytes, text).is_some();
        match jsonl::own_type(bytes) {
            Some(b"user") => holds(b"\"tool_use_id\""),
            Some(b"api-request" | b"api-request-blob" | b"queue-operation" | b"system") => true,
            Some(_) => false,
            // In attachments and in lines of the model the content comes before the type.
            None if is_attachment(bytes) => !ends::may_be_ending(bytes),
            None => match tokens::message_id(bytes) {
                Some(id) if !holds(b"<synthetic>") && !holds(b"\"isSidechain\":true") => {
                    self.money.add_message(id);
                    true
                }
                _ => false,
            },
        }
    }

    fn visit(&mut self, line: &Line<'_>) {
        self.last = self.last.max(line.at());
        // Versions before 2.0 wrote the lines of subagents into their parent's transcript.
        if line.is_sidechain && !self.is_subagent {
            return;
        }
        self.version = self.version.or(line.version());
        let owned = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
        if self.cwd.is_none() {
            self.cwd = owned(&line.cwd);
        }
        if self.custom_title.is_none() {
            self.custom_title = owned(&line.custom_title);
        }
        if self.ai_title.is_none() {
            self.ai_title = owned(&line.ai_title);
        }
        if line.was_refused_by_rule() {
            let blocks = line.message.as_ref().map(Body::blocks).unwrap_or_default();
            self.refused.extend(blocks.iter().map(|b| shorten(&result_text(&b.content), 120)));
        }
        match line.kind.as_ref() {
            "cost-state" => {
                let is_last = self.nothing_since();
                self.goodbye |= is_last;
                self.money.add_cost(line.total_cost_usd, is_last);
            }
            "attachment" => self.attachment(line),
            "assistant" => {
                self.count(line);
                self.assistant(line);
            }
            "user" if self.decided.is_some() => self.earlier_prompt(line),
            "user" if !line.is_meta && !line.is_compact_summary => {
                self.user(line);
            }
            "system" if self.nothing_since() => self.system(line),
            "api-request" if self.nothing_since() => self.attempt(line),
            "queue-operation" if self.nothing_since() => {
                self.took_prompt |= line.operation.as_deref() == Some("dequeue");
            }
            _ => {}
        }
    }

    /// Counts facts that may explain the end of the turn.
    fn count(&mut self, line: &Line<'_>) {
        let Some(body) = line.message.as_ref().filter(|body| !body.is_synthetic()) else { return };
        self.has_terminal = self.has_terminal.or(Some(line.has_terminal()));
        self.money.add_message(body.id.as_deref().unwrap_or_default());
        let blocks = body.blocks();
        self.outputs.add_calls(blocks.iter().filter_map(|block| block.name.as_deref()));
    }

    fn earlier_prompt(&mut self, line: &Line<'_>) {
        let blocks = line.message.as_ref().map(Body::blocks).unwrap_or_default();
        let is_result = blocks.iter().any(|block| block.tool_use_id.is_some());
        let mut texts = blocks.iter().filter_map(|block| block.text.as_deref());
        if !line.is_meta && !is_result && texts.any(is_prompt) {
            self.money.add_prompt();
            self.outputs.add_prompt();
        }
    }

    fn attachment(&mut self, line: &Line<'_>) {
        match ends::of_attachment(line.attachment) {
            Some(Ending::Budget(total)) => self.money.add_budget(total),
            _ if self.decided.is_some() || self.calling.is_some() => {}
            Some(Ending::Output) if self.goodbye || self.farewell => self.end(Turn::Finished, None),
            Some(Ending::Ended(turn, note)) => self.end(turn, note),
            Some(Ending::Output) | None => {}
        }
    }

    fn end(&mut self, turn: Turn, note: Option<String>) {
        self.decided = Some(turn);
        self.notes.extend(note);
    }

    fn assistant(&mut self, line: &Line<'_>) {
        let Some(body) = &line.message else { return };
        if !body.is_synthetic() && self.model.is_none() {
            self.model = body.model.as_deref().map(str::to_owned);
        }
        if self.decided.is_some() {
            return;
        }
        if line.is_api_error_message {
            let said = body.blocks().into_iter().find_map(|b| b.text);
            self.decided =
                Some(Turn::Failed(said.unwrap_or_else(|| "the model call failed".into())));
            return;
        }
        // Filler that a resume writes in the model's name says nothing about the turn.
        if body.is_synthetic() {
            return;
        }
        let id = body.id.as_deref().unwrap_or_default();
        if self.calling.as_deref().is_some_and(|calling| calling != id) {
            self.decide_open();
            return;
        }
        let calls = body.blocks().into_iter().filter(|b| b.kind == "tool_use");
        let open = calls.filter(|b| b.id.as_ref().is_none_or(|id| !self.answered.contains(id)));
        for block in open {
            self.open_call = Some(ToolCall {
                id: block.id,
                name: block.name.unwrap_or_default(),
                input: block.input,
            });
        }
        match body.stop_reason.as_deref() {
            // Parallel calls are on lines of their own, before their results: read them all.
            Some("tool_use") => self.calling = Some(id.to_owned()),
            Some(_) if self.calling.is_none() && self.answered.is_empty() => {
                self.decided = Some(Turn::Finished);
            }
            _ => self.decide_open(),
        }
    }

    fn user(&mut self, line: &Line<'_>) {
        let blocks = line.message.as_ref().map(Body::blocks).unwrap_or_default();
        let results: Vec<String> = blocks.iter().filter_map(|b| b.tool_use_id.clone()).collect();
        if !results.is_empty() {
            if self.calling.is_some() {
                // Results of an earlier message: this message's calls have all been seen.
                return self.decide_open();
            }
            self.answered.extend(results);
            return;
        }
        let Some(text) = blocks.into_iter().find_map(|b| b.text) else { return };
        if text.starts_with("[Request interrupted by user") {
            self.decided = Some(Turn::Interrupted);
        } else if let Some(Ending::Ended(turn, note)) = ends::of_user(&text) {
            self.end(turn, note);
        } else if is_prompt(&text) {
            self.money.add_prompt();
            self.outputs.add_prompt();
            self.decide_open();
            // Escape before the first answer leaves no trace but an orderly exit; so does SIGTERM.
            if self.goodbye && line.has_terminal() {
                let why =
                    "its last prompt has no answer and it left in order: interrupted or terminated";
                self.decided = Some(Turn::Undecided(why.into()));
            }
        }
    }

    /// Says whether no message follows the line that is being read.
    fn nothing_since(&self) -> bool {
        self.decided.is_none() && self.calling.is_none() && self.answered.is_empty()
    }

    /// Counts attempts of a model call. Without a terminal every retry is written; with one only the
    /// repeated request shows it.
    fn attempt(&mut self, line: &Line<'_>) {
        let Some(digest) = line.request_digest.as_deref() else { return };
        match &mut self.attempts {
            Some((newest, count)) if newest == digest => *count += 1,
            Some(_) => {}
            None => self.attempts = Some((digest.to_owned(), 1)),
        }
    }

    fn system(&mut self, line: &Line<'_>) {
        if let Some(Ending::Ended(turn, note)) = ends::of_system(line) {
            return self.end(turn, note);
        }
        if line.subtype.as_deref() == Some("api_error") && self.retrying.is_none() {
            let said = line.error.and_then(|raw| {
                let error: serde_json::Value = serde_json::from_str(raw.get()).ok()?;
                let text =
                    error.get("formatted").or_else(|| error.get("message"))?.as_str()?.to_owned();
                Some(text)
            });
            let attempt = match (line.retry_attempt, line.max_retries) {
                (Some(attempt), Some(most)) => format!("attempt {attempt} of {most}: "),
                _ => String::new(),
            };
            let said = said.unwrap_or_else(|| "the model call failed".into());
            self.retrying = Some(shorten(&format!("{attempt}{said}"), 160));
        }
    }

    fn decide_open(&mut self) {
        if self.decided.is_some() {
            return;
        }
        let call = self.open_call.take();
        self.waits_for = call.as_ref().and_then(|call| call.id.clone());
        let repeated = self.attempts.take().filter(|(_, count)| *count > 1);
        let retrying =
            self.retrying.take().or(repeated.map(|(_, count)| format!("attempt {count}")));
        self.decided = Some(Turn::Open {
            asks: call.as_ref().and_then(asks),
            tool: call.map(|c| c.gist()),
            retrying,
            doubt: None,
        });
    }

    fn turn(&mut self) -> Turn {
        if self.calling.is_some() || !self.answered.is_empty() {
            self.decide_open();
        }
        let (spends, retries) = (self.may_be_out_of_budget(), self.may_be_out_of_retries());
        let traces = Traces {
            version: self.version,
            took_prompt: self.took_prompt,
            left_without_cost: self.farewell && !self.goodbye,
        };
        match self.decided.take() {
            Some(mut turn) => {
                if spends {
                    turn = self.money.decide(turn, self.whole);
                }
                if retries && matches!(turn, Turn::Open { .. }) {
                    turn = self.outputs.decide(turn);
                }
                traces.explain(turn)
            }
            None if self.over_budget => {
                Turn::Undecided("the last MiB of its transcript holds no message".into())
            }
            None => Turn::None,
        }
    }

    fn describe(self, record: &mut Record) {
        if let Some(why) = self.refused.first() {
            let count = self.refused.len();
            let calls =
                if count == 1 { "1 tool call was" } else { &format!("{count} tool calls were") };
            record.notes.push(format!("{calls} refused without anyone being asked: {why}"));
        }
        record.notes.extend(self.notes);
        record.model = self.model;
        record.open_call = self.waits_for;
        record.last_activity_at = self.last;
        // A tool may have changed to a directory below; a resume may have changed to another one.
        record.cwd = match (record.cwd.take(), self.cwd) {
            (Some(first), Some(last)) if !Path::new(&last).starts_with(&first) => Some(last),
            (first, last) => first.or(last),
        };
        record.name.clone_from(&self.custom_title);
        record.title = self.custom_title.or(self.ai_title).map(|t| shorten(&t, 200));
    }
}

/// Returns the question of a call that only a human can answer.
fn asks(call: &ToolCall) -> Option<Reason> {
    match call.name.as_str() {
        "AskUserQuestion" => {
            let question = call.input["questions"][0]["question"].as_str();
            let question = question.or(call.input["question"].as_str()).map(|q| shorten(q, 160));
            Some(Reason { kind: ReasonKind::Question, detail: question, until: None })
        }
        "ExitPlanMode" => {
            let plan = call.input["plan"].as_str().map(|p| shorten(p, 160));
            Some(Reason { kind: ReasonKind::Plan, detail: plan, until: None })
        }
        _ => None,
    }
}

/// Takes a name from `<id>/custom-title.json`, which `/rename` also writes, where the tail does not
/// contain it.
pub(super) fn rename(path: &Path, uid: u32, record: &mut Record) {
    if record.name.is_none()
        && let Some(given) = renamed(path, uid)
    {
        record.title = Some(shorten(&given, 200));
        record.name = Some(given);
    }
}

fn renamed(path: &Path, uid: u32) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Title {
        custom_title: String,
    }
    let bytes =
        file::read_small(&path.with_extension("").join("custom-title.json"), uid, 64 << 10).ok()?;
    serde_json::from_slice::<Title>(&bytes).ok().map(|t| t.custom_title)
}
