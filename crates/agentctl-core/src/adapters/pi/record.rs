//! Reads a Pi session file: its head for the beginning, its tail for the state of the last turn.
//!
//! Entries are a tree. The current branch is the path from the last line up the `parentId`s; a turn
//! outside that path is not part of the conversation any more.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use memchr::memmem::Finder;

use super::exclusion::Trace;
use super::lines::{Entry, Header, Step, stamped, text_of};
use super::messages::{self, call};
use crate::adapters::{Look, PromptCounter, Record, Turn};
use crate::model::{Locator, Time, Tokens, ToolCall, shorten};
use crate::native::{file, jsonl};

/// Bytes read at once from the head: header, settings and, in newer versions, some 6 KB of Pi's own
/// prompt precede the first message.
const HEAD_CHUNK: usize = 12 << 10;
/// Bytes read at once from the tail: they decide nearly every session, and a later name is searched no
/// further.
const TAIL_CHUNK: usize = 16 << 10;
/// Bytes read at once for the newest time.
const LAST_CHUNK: usize = 4 << 10;
/// Error messages that an interrupted model call may leave.
const ABORTED: [&str; 2] = ["operation was aborted", "Request was aborted"];

/// Reads one session's file.
pub(super) fn read(look: &Look, adapter: &'static str, locator: &Locator, whole: bool) -> Record {
    let Some(path) = &locator.path else { return Record::default() };
    let read = || read_file(look, adapter, locator, path, whole);
    if whole { read() } else { look.outline(path, u8::from(adapter == "pi"), read) }
}

fn read_file(
    look: &Look,
    adapter: &'static str,
    locator: &Locator,
    path: &Path,
    whole: bool,
) -> Record {
    let mut record = Record::default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{adapter}:{name}");
    let opened = match file::open(path, look.host.kernel.uid()) {
        Ok(opened) => opened,
        Err(skip) => {
            record.turn = Turn::Unreadable(skip.to_string());
            record.evidence.push(look.evidence(source, skip.to_string()));
            return record;
        }
    };
    record.stamp = Some(opened.stamp);
    let mut head = Head::default();
    let mut tail = Tail::default();
    let read = head.read(&opened).and_then(|()| tail.read(&opened));
    record.turn = match (read, &head.header) {
        (Err(error), _) => Turn::Unreadable(error.to_string()),
        (Ok(()), None) => Turn::Undecided("its first line is no header".into()),
        (Ok(()), Some(header)) if header.id != locator.id => {
            Turn::Unreadable(format!("its header names another session, {}", header.id))
        }
        (Ok(()), Some(_)) => tail.turn(),
    };
    let name = tail.name.or(head.name);
    record.title.clone_from(&name);
    record.name = name;
    record.prompt = head.prompt;
    record.model = tail.model.or(tail.chosen_model).or(head.model);
    record.last_activity_at = tail.last;
    if let Some(header) = &head.header {
        record.started_at = header.at();
        record.cwd.clone_from(&header.cwd);
        record.notes.extend(lineage(header));
    }
    if tail.cut_short {
        record.notes.push("the last answer was cut off at the model's output limit".into());
    }
    let says = record.turn.says();
    record.evidence.push(look.evidence(source, says));
    if whole {
        count(&opened, head.header.as_ref(), &mut record);
    }
    record
}

fn lineage(header: &Header) -> Option<String> {
    let from = Path::new(header.parent_session.as_deref()?).file_name()?.to_str()?;
    let id = stamped(from).unwrap_or(from);
    Some(format!("forked from {}", shorten(id, 128)))
}

/// Reads the newest time in a file: enough to tell whether a process may have written it.
pub(super) fn last_activity(opened: &file::Opened) -> io::Result<Option<Time>> {
    let mut last = None;
    jsonl::tail(&opened.file, opened.size, LAST_CHUNK, &mut |line| {
        last = Entry::parse(line).and_then(|entry| entry.at());
        if last.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(last)
}

/// Returns the failure at the end of a file whose version writes no retries.
pub(super) fn silent_failure(path: &Path, uid: u32) -> Option<String> {
    let opened = file::open(path, uid).ok()?;
    let (mut head, mut tail) = (Head::default(), Tail::default());
    head.read(&opened).and_then(|()| tail.read(&opened)).ok()?;
    // Versions that write their own prompt also write their retries.
    match tail.turn() {
        Turn::Failed(why) if !head.prompted && !tail.prompted => Some(shorten(&why, 160)),
        _ => None,
    }
}

/// Returns the state of the last turn of a session file; `None` where it cannot be read.
pub(super) fn turn(path: &Path, uid: u32) -> Option<Turn> {
    let opened = file::open(path, uid).ok()?;
    let mut tail = Tail::default();
    tail.read(&opened).ok()?;
    Some(tail.turn())
}

/// Reads the facts of a session file about the process that wrote it: from the whole file, or from the
/// entries since that time, in milliseconds.
pub(super) fn trace(path: &Path, uid: u32, since: Option<i64>) -> Option<Trace> {
    let opened = file::open(path, uid).ok()?;
    let (mut head, mut tail) = (Head::default(), Tail::default());
    head.read(&opened).and_then(|()| tail.read(&opened)).ok()?;
    let bytes = match since {
        None => opened.size,
        Some(since) => bytes_since(&opened, since).ok()?,
    };
    let began = head.header.as_ref().and_then(Header::at).filter(|_| since.is_none());
    let start = began.zip(head.prompted_at).map(|(began, prompted)| {
        let started = head.started_at.unwrap_or(began).max(began);
        (started.millis() - began.millis(), prompted.millis() - started.millis())
    });
    let (turn, system_bytes) = (tail.turn(), head.system_bytes);
    Some(Trace { turn, bytes, system_bytes, last: tail.last, start })
}

/// Counts the bytes of the entries that were added since that time.
fn bytes_since(opened: &file::Opened, since: i64) -> io::Result<u64> {
    let mut bytes = 0;
    jsonl::tail(&opened.file, opened.size, TAIL_CHUNK, &mut |line| {
        let at = Entry::parse(line).and_then(|entry| entry.at());
        if at.is_some_and(|at| at.millis() < since) {
            return ControlFlow::Break(());
        }
        bytes += line.len() as u64 + 1;
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

#[derive(Default)]
struct Head {
    /// Pi's own prompt is in the file.
    prompted: bool,
    /// The size of that prompt.
    system_bytes: u64,
    /// When the last entry before the first message was made.
    started_at: Option<Time>,
    /// When the user's first message was made.
    prompted_at: Option<Time>,
    header: Option<Header>,
    name: Option<String>,
    prompt: Option<String>,
    model: Option<String>,
}

impl Head {
    fn read(&mut self, opened: &file::Opened) -> io::Result<()> {
        let mut first = true;
        jsonl::head(&opened.file, HEAD_CHUNK, &mut |line| {
            if std::mem::take(&mut first) {
                self.header = Header::parse(line);
                // Without a header it is not a Pi session, no matter what follows.
                return if self.header.is_some() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                };
            }
            let Some(entry) = Entry::parse(line) else { return ControlFlow::Continue(()) };
            if !matches!(entry.kind.as_ref(), "message" | "session") {
                self.started_at = entry.at();
            }
            match entry.kind.as_ref() {
                "session_info" => self.name = named(&entry),
                "model_change" => self.model = entry.model_id.map(Cow::into_owned),
                "message" => {
                    let step = entry.message::<Step<'_>>();
                    if step.as_ref().is_some_and(|s| s.role == "system") {
                        (self.prompted, self.system_bytes) = (true, line.len() as u64);
                    }
                    if let Some(step) = step.filter(|s| s.role == "user") {
                        self.prompted_at = entry.at();
                        self.prompt = Some(shorten(&text_of(&step.content), 200));
                        return ControlFlow::Break(());
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}

fn named(entry: &Entry<'_>) -> Option<String> {
    entry.name.as_deref().map(|n| shorten(n, 200)).filter(|n| !n.is_empty())
}

/// The next entry of the path.
#[derive(Default)]
enum Next {
    /// The last line, of any kind.
    #[default]
    Last,
    /// The parent of the previous entry.
    Parent(String),
    /// None: the path has passed the root.
    Nothing,
}

/// The content of the end of a file, collected newest first along the current branch.
#[derive(Default)]
struct Tail {
    /// The entry with which the path continues.
    next: Next,
    decided: Option<Turn>,
    answered: HashSet<String>,
    /// Entries removed from the conversation: a failed answer that is retried.
    withdrawn: HashSet<String>,
    at_work: bool,
    /// Pi's own prompt was read.
    prompted: bool,
    model: Option<String>,
    chosen_model: Option<String>,
    /// The newest name, on any branch.
    name: Option<String>,
    named: bool,
    last: Option<Time>,
    cut_short: bool,
    over_budget: bool,
}

impl Tail {
    fn read(&mut self, opened: &file::Opened) -> io::Result<()> {
        let window = TAIL_CHUNK as u64;
        jsonl::tail_from(&opened.file, opened.size, TAIL_CHUNK, window, &mut |_, line| {
            let known = self.decided.is_some() && self.model.is_some();
            // Only a name can still be missing.
            if (!known || is_naming(line))
                && let Some(entry) = Entry::parse(line)
            {
                self.visit(&entry);
            }
            let enough = self.decided.is_some() && self.model.is_some() && self.named;
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if self.decided.is_some() || opened.size <= window {
            return Ok(());
        }
        // The second pass reads everything again and decides alone.
        let (name, named) = (self.name.take(), true);
        *self = Self { name, named, ..Self::default() };
        let ended = jsonl::tail(&opened.file, opened.size, 4 * TAIL_CHUNK, &mut |line| {
            if let Some(entry) = Entry::parse(line) {
                self.visit(&entry);
            }
            if self.decided.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.over_budget = ended == jsonl::ReadEnd::Budget;
        Ok(())
    }

    fn visit(&mut self, entry: &Entry<'_>) {
        // A header may be there twice: an older Pi writes its own behind one it was given.
        if entry.kind == "session" {
            return;
        }
        self.last = self.last.max(entry.at());
        if entry.kind == "session_info" && !self.named {
            (self.name, self.named) = (named(entry), true);
        }
        if !self.is_on_path(entry) {
            return;
        }
        match entry.kind.as_ref() {
            "model_change" if self.chosen_model.is_none() => {
                self.chosen_model = entry.model_id.as_deref().map(str::to_owned);
            }
            "context_edit" if entry.replacement.is_none_or(|r| r.get() == "null") => {
                self.withdrawn.extend(entry.target_id.as_deref().map(str::to_owned));
            }
            "message" => {
                if let Some(step) = entry.message::<Step<'_>>() {
                    self.step(entry, &step);
                }
            }
            _ => {}
        }
    }

    /// Follows the parents from the last line on; files of format 1 have none and are a list.
    fn is_on_path(&mut self, entry: &Entry<'_>) -> bool {
        let on_path = match (&self.next, entry.id.as_deref()) {
            (Next::Last, None) => return true,
            (Next::Last, Some(_)) => true,
            (Next::Parent(next), id) => id == Some(next.as_str()),
            (Next::Nothing, _) => false,
        };
        if on_path {
            let parent = entry.parent_id.as_deref();
            self.next = parent.map_or(Next::Nothing, |parent| Next::Parent(parent.to_owned()));
        }
        on_path
    }

    fn step(&mut self, entry: &Entry<'_>, step: &Step<'_>) {
        if step.role == "assistant" && self.model.is_none() {
            self.model = step.model.as_deref().map(str::to_owned);
        }
        self.prompted |= step.role == "system";
        if self.decided.is_some() {
            return;
        }
        match step.role.as_ref() {
            "user" => self.decided = Some(open(None)),
            "toolResult" => {
                self.at_work = true;
                self.answered.extend(step.tool_call_id.as_deref().map(str::to_owned));
            }
            "assistant" => {
                let withdrawn = entry.id.as_deref().is_some_and(|id| self.withdrawn.contains(id));
                self.decided = Some(self.answer(step, withdrawn));
            }
            // Pi's own prompt, commands that the user ran directly, entries of extensions.
            _ => {}
        }
    }

    fn answer(&mut self, step: &Step<'_>, withdrawn: bool) -> Turn {
        let why = || step.error_message.clone().unwrap_or_else(|| "the model call failed".into());
        match step.stop_reason.as_deref().unwrap_or_default() {
            "error" if withdrawn => Turn::Open {
                tool: None,
                retrying: Some(shorten(&why(), 160)),
                asks: None,
                doubt: None,
            },
            "error" if ABORTED.iter().any(|text| why().contains(text)) => Turn::Interrupted,
            "error" => Turn::Failed(why()),
            "aborted" => Turn::Interrupted,
            "toolUse" => {
                let calls = step.content.as_array().into_iter().flatten().filter_map(call);
                let is_open =
                    |c: &ToolCall| c.id.as_ref().is_none_or(|id| !self.answered.contains(id));
                open(calls.into_iter().find(is_open).map(|c| c.gist()))
            }
            // Tools ran after this answer, so the turn is open.
            _ if self.at_work => open(None),
            "stop" => Turn::Finished,
            "length" => {
                self.cut_short = true;
                Turn::Finished
            }
            other => Turn::Undecided(format!("its last answer ended by `{}`", shorten(other, 40))),
        }
    }

    fn turn(&mut self) -> Turn {
        match self.decided.take() {
            Some(turn) => turn,
            None if self.at_work => open(None),
            None if self.over_budget => {
                Turn::Undecided("the last MiB of its file holds no turn of its branch".into())
            }
            None => Turn::None,
        }
    }
}

fn open(tool: Option<String>) -> Turn {
    Turn::Open { tool, retrying: None, asks: None, doubt: None }
}

fn is_naming(line: &[u8]) -> bool {
    jsonl::own_type(line).map_or_else(
        || Finder::new(b"\"session_info\"").find(line).is_some(),
        |kind| kind == b"session_info",
    )
}

/// Counts the prompts, and every distinct entry with tokens. Entries that a fork copied belong to its parent.
fn count(opened: &file::Opened, header: Option<&Header>, record: &mut Record) {
    let born = header.filter(|h| h.parent_session.is_some()).and_then(Header::at);
    let mut seen = HashSet::new();
    let mut tokens = Tokens::default();
    let mut cost = Some(0.0);
    let mark = Finder::new(b"\"usage\"");
    let user = Finder::new(b"\"user\"");
    let mut prompts = PromptCounter::default();
    let pass = jsonl::lines(&opened.file, 0, &mut |line| {
        if user.find(line).is_some() {
            prompts.add_messages(messages::read(line));
        }
        if mark.find(line).is_none() {
            return;
        }
        let Some(entry) = Entry::parse(line) else { return };
        let copied = born.is_some_and(|born| entry.at().is_some_and(|at| at < born));
        let Some(usage) = entry.usage().filter(|_| !copied) else { return };
        if entry.id.as_deref().is_none_or(|id| seen.insert(id.to_owned())) {
            tokens.add(usage.into());
            cost = cost.zip(usage.cost_usd()).map(|(sum, more)| sum + more);
        }
    });
    record.turns = pass.is_ok().then(|| prompts.count());
    if pass.is_ok_and(|pass| pass.oversized == 0) {
        record.tokens = Some(tokens);
        record.cost_usd = cost;
    } else {
        record.notes.push("tokens are not known: part of the file could not be read".into());
    }
}
