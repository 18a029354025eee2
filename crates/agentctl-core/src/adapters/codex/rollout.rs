//! Reads a rollout: its tail for the state of the last turn, its head only where no index describes it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use memchr::memmem;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::NAME;
use super::index::Row;
use super::messages::is_prompt;
use crate::adapters::{Found, Look, PromptCounter, Record, Turn};
use crate::model::{Locator, Reason, ReasonKind, Time, Tokens, ToolCall, shorten};
use crate::native::{file, jsonl};

/// Bytes read at once from the head: the first line is about 22 KB; the prompt ends at 32 to 43 KB.
const HEAD_CHUNK: usize = 48 << 10;
const META_CHUNK: usize = 24 << 10;
const TAIL_CHUNK: usize = 4 << 10;
/// Bytes behind a call without an end of the turn that make the turn count as open: the end follows its
/// calls, except for a few lines written out of order.
const OPEN_BYTES: u64 = 64 << 10;
/// Bytes to search backwards for the model's name once the state is known.
const MODEL_BYTES: u64 = 256 << 10;
/// Longer lines are parsed only if their kind is one that is read here.
const BULK_BYTES: usize = 2 << 10;

/// One line of a rollout.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    timestamp: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl<'a> Line<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        jsonl::parse(bytes)
    }

    pub(super) fn at(&self) -> Option<Time> {
        self.timestamp.as_deref().and_then(Time::parse)
    }

    pub(super) fn payload<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.payload.get()).ok()
    }
}

/// The fields of a payload that show the state of a turn.
#[derive(Deserialize)]
struct Step<'a> {
    #[serde(rename = "type", borrow, default, deserialize_with = "jsonl::optional_text")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    arguments: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "jsonl::optional_text")]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    /// `task_complete`: present and null if the turn ended without an answer.
    #[serde(borrow, default, deserialize_with = "even_null")]
    last_agent_message: Option<&'a RawValue>,
    /// `task_complete`: written only by versions that also write the `error` of a turn.
    #[serde(borrow)]
    started_at: Option<&'a RawValue>,
}

/// Reads a field that is present, also if it is null.
fn even_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Step<'_> {
    /// Says whether this `task_complete` may be the end of a turn that the model refused: up to 0.142
    /// such an end has no `error`, and no message either.
    fn hides_failure(&self) -> bool {
        self.started_at.is_none() && self.last_agent_message.is_some_and(|m| m.get() == "null")
    }

    /// Says whether this line shows that the turn succeeded: an answer, even an empty one, a command
    /// that the user typed, a summary.
    fn is_answer(&self) -> bool {
        let says = |word: &str| self.content.is_some_and(|c| c.get().contains(word));
        match self.kind.as_deref() {
            Some("message") => match self.role.as_deref() {
                Some("assistant") => true,
                Some("user") => says("<user_shell_command>"),
                _ => false,
            },
            Some("agent_message" | "context_compacted") => true,
            _ => false,
        }
    }
}

/// Line 0.
#[derive(Deserialize)]
struct Meta {
    cwd: Option<String>,
    timestamp: Option<String>,
    parent_thread_id: Option<String>,
    #[serde(default)]
    source: serde_json::Value,
}

impl Meta {
    fn parent(&self) -> Option<String> {
        let spawned = self.source["subagent"]["thread_spawn"]["parent_thread_id"].as_str();
        self.parent_thread_id.clone().or_else(|| spawned.map(str::to_owned))
    }
}

/// Reads one rollout's record; facts that the index row does not have come from its head.
pub(super) fn read(look: &Look, locator: &Locator, row: Option<Row>) -> Record {
    let indexed = row.is_some();
    let mut record = described(row.unwrap_or_default());
    record.parent = record.parent.or_else(|| locator.parent.clone());
    let Some(path) = &locator.path else { return record };
    let told = look.outline(path, u8::from(indexed), || read_file(look, path, indexed));
    Record {
        parent: told.parent.or(record.parent),
        model: told.model.or(record.model),
        started_at: told.started_at.or(record.started_at),
        cwd: told.cwd.or(record.cwd),
        prompt: told.prompt.or(record.prompt),
        turn: told.turn,
        turn_ended_at: told.turn_ended_at,
        open_call: told.open_call,
        last_activity_at: told.last_activity_at,
        stamp: told.stamp,
        evidence: told.evidence,
        ..record
    }
}

/// Reads the record from the file alone: its tail, and its head where no index describes it.
fn read_file(look: &Look, path: &Path, indexed: bool) -> Record {
    let mut record = Record::default();
    let source = format!("{NAME}:{}", path.file_name().unwrap_or_default().to_string_lossy());
    let opened = match file::open(path, look.host.kernel.uid()) {
        Ok(opened) => opened,
        Err(skip) => {
            record.turn = Turn::Unreadable(skip.to_string());
            record.evidence.push(look.evidence(source, skip.to_string()));
            return record;
        }
    };
    record.stamp = Some(opened.stamp);
    let mut tail = Tail::default();
    let read = if indexed { Ok(()) } else { head(&opened, &mut record) };
    record.turn = match read.and_then(|()| tail.read(&opened, indexed)) {
        Ok(()) => tail.turn(),
        Err(error) => Turn::Unreadable(error.to_string()),
    };
    record.open_call = tail.waits_for;
    record.model = tail.model.or(record.model);
    record.last_activity_at = tail.last;
    record.turn_ended_at = tail.ended_at;
    record.evidence.push(look.evidence(source, record.turn.says()));
    record
}

fn described(row: Row) -> Record {
    Record {
        cwd: row.cwd,
        model: row.model,
        title: row.title.map(|t| shorten(&t, 200)),
        name: row.name,
        prompt: row.prompt.map(|p| shorten(&p, 200)),
        started_at: row.started_at,
        parent: row.parent,
        ..Record::default()
    }
}

fn head(opened: &file::Opened, record: &mut Record) -> io::Result<()> {
    jsonl::head(&opened.file, HEAD_CHUNK, &mut |bytes| {
        let Some(line) = Line::parse(bytes) else { return ControlFlow::Continue(()) };
        match line.kind.as_ref() {
            "session_meta" => {
                if let Some(meta) = line.payload::<Meta>() {
                    record.parent = meta.parent().or(record.parent.take());
                    record.started_at = meta.timestamp.as_deref().and_then(Time::parse);
                    record.cwd = meta.cwd;
                }
            }
            "turn_context" => {
                let step = line.payload::<Step<'_>>();
                record.model = step.and_then(|s| s.model.map(Cow::into_owned));
            }
            "event_msg" => {
                if let Some(text) = super::messages::prompt(&line) {
                    record.prompt = Some(shorten(&text, 200));
                    return ControlFlow::Break(());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// Returns the parent a rollout's first line names.
pub(super) fn parent_of(path: &Path, uid: u32) -> Option<String> {
    let opened = file::open(path, uid).ok()?;
    let mut parent = None;
    let read = jsonl::head(&opened.file, META_CHUNK, &mut |bytes| {
        parent = Line::parse(bytes).and_then(|l| l.payload::<Meta>()).and_then(|m| m.parent());
        ControlFlow::Break(())
    });
    read.ok().and(parent)
}

/// The content of the end of a rollout, collected newest first.
#[derive(Default)]
struct Tail {
    decided: Option<Turn>,
    /// The last turn ended with neither an answer nor an error in its last line: the lines before that show
    /// whether there was an answer.
    ended_without_answer: bool,
    /// The first line was reached and describes the thread.
    whole: bool,
    answered: HashSet<String>,
    open_call: Option<ToolCall>,
    /// The id of the call that the open turn waits for.
    waits_for: Option<String>,
    at_work: bool,
    model: Option<String>,
    last: Option<Time>,
    /// The end of the last turn. A process that begins the next turn may write settings behind it.
    ended_at: Option<Time>,
    seen_bytes: u64,
    over_budget: bool,
}

impl Tail {
    fn read(&mut self, opened: &file::Opened, model_known: bool) -> io::Result<()> {
        let ended = jsonl::tail(&opened.file, opened.size, TAIL_CHUNK, &mut |bytes| {
            if !is_bulk(bytes) {
                match Line::parse(bytes) {
                    Some(line) => self.take(&line),
                    // Codex writes complete lines: this file was cut inside a line and written to
                    // again.
                    None if self.decided.is_none() && !is_json(bytes) => {
                        let why = "a line of its rollout is damaged";
                        self.decided = Some(Turn::Undecided(why.into()));
                    }
                    None => {}
                }
            }
            self.seen_bytes += bytes.len() as u64 + 1;
            let open = self.at_work && !self.ended_without_answer && self.seen_bytes >= OPEN_BYTES;
            if self.decided.is_none() && open {
                self.decided = Some(self.open());
            }
            // The model is written at the beginning of a turn; with an index row that need not be
            // reached.
            let enough = self.decided.is_some()
                && (self.model.is_some() || model_known || self.seen_bytes >= MODEL_BYTES);
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.over_budget = ended == jsonl::ReadEnd::Budget;
        Ok(())
    }

    fn take(&mut self, line: &Line<'_>) {
        self.last = self.last.max(line.at());
        self.whole |= line.kind == "session_meta";
        if matches!(line.kind.as_ref(), "event_msg" | "response_item" | "turn_context")
            && let Some(step) = line.payload::<Step<'_>>()
        {
            let ends = matches!(step.kind.as_deref(), Some("task_complete" | "turn_aborted"));
            if ends && self.decided.is_none() && self.ended_at.is_none() {
                self.ended_at = line.at();
            }
            self.visit(&line.kind, step);
        }
    }

    fn visit(&mut self, line_kind: &str, step: Step<'_>) {
        if line_kind == "turn_context" {
            if self.model.is_none() {
                self.model = step.model.map(Cow::into_owned);
            }
            return;
        }
        if self.decided.is_some() {
            return;
        }
        if self.ended_without_answer {
            return self.look_for_answer(&step);
        }
        let call = step.call_id.as_deref().unwrap_or_default();
        match step.kind.as_deref().unwrap_or_default() {
            "task_started" => self.decided = Some(self.open()),
            "task_complete" => match step.error {
                Some(error) if error.get() != "null" => {
                    self.decided = Some(Turn::Failed(error_text(error)));
                }
                _ if step.hides_failure() => self.ended_without_answer = true,
                _ => self.decided = Some(Turn::Finished),
            },
            "turn_aborted" => self.decided = Some(Turn::Interrupted),
            "function_call_output" | "custom_tool_call_output" => {
                self.at_work = true;
                self.answered.insert(call.to_owned());
            }
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                self.at_work = true;
                if self.open_call.is_none() && !self.answered.contains(call) {
                    let input =
                        step.arguments.as_deref().and_then(|a| serde_json::from_str(a).ok());
                    self.open_call = Some(ToolCall {
                        id: Some(call.to_owned()),
                        name: step.name.map(Cow::into_owned).unwrap_or_default(),
                        input: input.unwrap_or_default(),
                    });
                }
            }
            _ => {}
        }
    }

    /// Searches a line before the end of the turn for the answer.
    fn look_for_answer(&mut self, step: &Step<'_>) {
        let other = matches!(
            step.kind.as_deref().unwrap_or_default(),
            "message"
                | "task_started"
                | "function_call"
                | "function_call_output"
                | "custom_tool_call"
                | "custom_tool_call_output"
                | "local_shell_call"
                | "user_message"
        );
        if step.is_answer() {
            self.decided = Some(Turn::Finished);
        } else if other {
            self.decided = Some(over_without_answer());
        }
    }

    fn open(&mut self) -> Turn {
        let call = self.open_call.take();
        self.waits_for = call.as_ref().and_then(|call| call.id.clone());
        let asks = call.as_ref().filter(|c| c.name == "request_user_input").map(|c| {
            let question = c.input["questions"][0]["question"].as_str().map(|q| shorten(q, 160));
            Reason { kind: ReasonKind::Question, detail: question, until: None }
        });
        let escalates = |c: &ToolCall| c.input["sandbox_permissions"] == "require_escalated";
        let doubt = call.as_ref().is_some_and(escalates).then_some(
            "its open command needs approval; only its terminal shows whether that was given",
        );
        Turn::Open { tool: call.map(|c| c.gist()), retrying: None, asks, doubt }
    }

    fn turn(&mut self) -> Turn {
        let lost_beginning = !self.whole && self.seen_bytes > 0;
        match self.decided.take() {
            Some(turn) => turn,
            None if self.ended_without_answer => over_without_answer(),
            // Calls without an end of the turn behind them; the turn began before the part that was
            // read.
            None if self.at_work && (self.over_budget || lost_beginning) => self.open(),
            None if self.over_budget => {
                Turn::Undecided("the last MiB of its rollout holds no turn".into())
            }
            None if lost_beginning => Turn::Undecided("its rollout has lost its beginning".into()),
            None => Turn::None,
        }
    }
}

fn over_without_answer() -> Turn {
    Turn::Over("it ended without an answer, and this version does not write an error".into())
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Says whether a long line holds nothing that the tail needs.
fn is_bulk(line: &[u8]) -> bool {
    const KINDS: [&[u8]; 7] = [
        b"\"task_",
        b"\"turn_aborted\"",
        b"tool_call",
        b"function_call",
        b"<user_shell_command>",
        b"\"session_meta\"",
        b"\"turn_context\"",
    ];
    line.len() > BULK_BYTES && !KINDS.iter().any(|kind| memmem::find(line, kind).is_some())
}

fn error_text(error: &RawValue) -> String {
    let value: serde_json::Value = serde_json::from_str(error.get()).unwrap_or_default();
    let text = value["message"].as_str().or(value.as_str()).unwrap_or("the turn failed");
    // The model's server may have answered in JSON, which Codex repeats unchanged.
    let inner: Option<serde_json::Value> =
        text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok());
    let said =
        inner.as_ref().and_then(|v| v["error"]["message"].as_str().or(v["message"].as_str()));
    said.unwrap_or(text).to_owned()
}

/// A line with the tokens of one response.
#[derive(Deserialize)]
struct UsageLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    payload: UsageRecord,
}

#[derive(Deserialize)]
struct UsageRecord {
    response_id: Option<String>,
    usage: Usage,
}

/// Tokens as Codex writes them: tokens from a cache are part of the input.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names)] // the names are the format
pub(super) struct Usage {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(u: Usage) -> Self {
        let cached = u.cached_input_tokens + u.cache_write_input_tokens;
        Self {
            input: u.input_tokens.saturating_sub(cached),
            output: u.output_tokens,
            cache_read: u.cached_input_tokens,
            cache_write: u.cache_write_input_tokens,
        }
    }
}

/// The counters over a rollout and those of its subagents.
#[derive(Default)]
struct Count {
    /// The ids of the responses whose tokens were added.
    responses: HashSet<String>,
    tokens: Tokens,
    /// A message of the model was seen.
    answered: bool,
}

impl Count {
    /// Adds the tokens of every response in one file, and shows each line that may be an `event_msg`.
    fn add(
        &mut self,
        path: &Path,
        uid: u32,
        see_event: &mut dyn FnMut(&[u8]),
    ) -> io::Result<jsonl::Pass> {
        let spoken = memmem::Finder::new(b"\"role\":\"assistant\"");
        let usage = memmem::Finder::new(b"\"token_usage_record\"");
        let opened = file::open(path, uid).map_err(|s| io::Error::other(s.to_string()))?;
        jsonl::lines(&opened.file, 0, &mut |line| {
            self.answered |= !self.answered && spoken.find(line).is_some();
            // Most bytes are the output of commands; such a line is recognised by its beginning.
            let kind = jsonl::own_type(line);
            let counts = match kind {
                Some(kind) => kind == b"token_usage_record",
                None => usage.find(line).is_some(),
            };
            if counts {
                self.line(line);
            }
            if kind.is_none_or(|kind| kind == b"event_msg") {
                see_event(line);
            }
        })
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(UsageLine { kind, payload }) = jsonl::parse(line)
            && kind == "token_usage_record"
            && let UsageRecord { response_id: Some(id), usage } = payload
            && self.responses.insert(id)
        {
            self.tokens.add(usage.into());
        }
    }
}

/// Counts the prompts of this rollout, and every distinct response of it and its subagents'. Of a fork, only
/// its own records count.
pub(super) fn count(path: &Path, uid: u32, children: &Found<Locator>, record: &mut Record) {
    let (mut count, mut prompts) = (Count::default(), PromptCounter::default());
    let own = count.add(path, uid, &mut |line| {
        if is_prompt(line) {
            prompts.add(None);
        }
    });
    record.turns = own.is_ok().then(|| prompts.count());
    let is_whole = |pass: io::Result<jsonl::Pass>| pass.is_ok_and(|pass| pass.oversized == 0);
    let mut whole = is_whole(own) && children.whole;
    for path in children.rows.iter().filter_map(|child| child.path.as_deref()) {
        whole &= is_whole(count.add(path, uid, &mut |_| ()));
    }
    if whole && count.answered && count.responses.is_empty() {
        record.notes.push("tokens are not known: this version writes no usage records".into());
    } else if whole {
        record.tokens = Some(count.tokens);
    } else {
        record.notes.push("tokens are not known: part of the rollout could not be read".into());
    }
}
