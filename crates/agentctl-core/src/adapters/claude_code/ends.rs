//! Orderly ends that no message of the model shows: limits, hooks, structured output, commands.
//!
//! Claude Code writes them as attachments or notes behind the last message. Without them the transcript
//! looks as if the process had been killed.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lines::Line;
use crate::adapters::Turn;
use crate::model::shorten;

/// The kinds of attachment that are read here; they stand near the beginning of their line.
const KINDS: [&str; 5] = [
    "max_turns_reached",
    "hook_stopped_continuation",
    "hook_deferred_tool",
    "structured_output",
    "budget_usd",
];
/// The number of bytes at the beginning of a line in which the kind of an attachment is looked for.
const KIND_BYTES: usize = 512;
/// The text that older versions write in place of a prompt that a hook stopped.
const STOPPED_BY_HOOK: &str = "Operation stopped by hook";

/// Says whether a long line may be an attachment that is read here.
pub(super) fn may_be_ending(line: &[u8]) -> bool {
    static FINDERS: LazyLock<[Finder<'static>; KINDS.len()]> =
        LazyLock::new(|| KINDS.map(Finder::new));
    let beginning = &line[..line.len().min(KIND_BYTES)];
    FINDERS.iter().any(|kind| kind.find(beginning).is_some())
}

/// The end of a turn that a line behind the last message reports.
pub(super) enum Ending {
    /// The turn ended like this; the text is a note for the user.
    Ended(Turn, Option<String>),
    /// The structured output was given. The turn ended, provided the process wrote its exit lines.
    Output,
    /// The process has a budget of this many dollars.
    Budget(f64),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    #[serde(rename = "type")]
    kind: String,
    max_turns: Option<u64>,
    total: Option<f64>,
    message: Option<serde_json::Value>,
    hook_name: Option<String>,
    tool_name: Option<String>,
}

/// Reads an attachment; `None` if it says nothing about an end.
pub(super) fn of_attachment(raw: Option<&RawValue>) -> Option<Ending> {
    let attachment: Attachment = serde_json::from_str(raw?.get()).ok()?;
    let hook = attachment.hook_name.as_deref().unwrap_or("a hook");
    match attachment.kind.as_str() {
        "max_turns_reached" => {
            let why = match attachment.max_turns {
                Some(1) => "it reached its limit of 1 turn".to_owned(),
                Some(most) => format!("it reached its limit of {most} turns"),
                None => "it reached its limit of turns".to_owned(),
            };
            Some(Ending::Ended(Turn::Failed(why), None))
        }
        "hook_stopped_continuation" => {
            let said = attachment.message.as_ref().and_then(|m| m.as_str()).unwrap_or_default();
            Some(Ending::Ended(Turn::Finished, Some(stopped_by(hook, said))))
        }
        "hook_deferred_tool" => {
            let tool = attachment.tool_name.as_deref().unwrap_or("a tool");
            let note = format!("the hook {hook} deferred the call of {tool} until a resume");
            Some(Ending::Ended(Turn::Finished, Some(note)))
        }
        "structured_output" => Some(Ending::Output),
        "budget_usd" => attachment.total.map(Ending::Budget),
        _ => None,
    }
}

/// Reads a `system` line; `None` if it says nothing about an end.
pub(super) fn of_system(line: &Line<'_>) -> Option<Ending> {
    match line.subtype.as_deref() {
        // The last command of a terminal does not change how its last turn ended.
        Some("local_command") if !line.has_terminal() => Some(Ending::Ended(Turn::Finished, None)),
        Some("informational")
            if line.prevent_continuation || line.prompt_submit_ending.is_some() =>
        {
            let said = line.content.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
            let note = stopped_by("of the prompt", &said.unwrap_or_default());
            Some(Ending::Ended(Turn::Finished, Some(note)))
        }
        _ => None,
    }
}

/// Reads the text of a `user` line; `None` if it says nothing about an end.
pub(super) fn of_user(text: &str) -> Option<Ending> {
    let rest = text.strip_prefix(STOPPED_BY_HOOK)?;
    (rest.is_empty() || rest.starts_with(": "))
        .then(|| Ending::Ended(Turn::Finished, Some(stopped_by("of the prompt", text))))
}

fn stopped_by(hook: &str, said: &str) -> String {
    let said = shorten(said, 160);
    if said.is_empty() {
        format!("the hook {hook} ended the turn")
    } else {
        format!("the hook {hook} ended the turn: {said}")
    }
}

/// The first version that is known to write limits, hooks and its exit lines behind the last message.
const ENDS_SINCE: [u32; 3] = [2, 1, 100];
/// The first version that is known to leave different files after SIGINT and after SIGTERM.
const SIGNALS_SINCE: [u32; 3] = [2, 1, 280];

/// Says whether a version leaves the same files after several ends of a turn.
pub(super) fn tells_no_signals(version: Option<[u32; 3]>) -> bool {
    version.is_some_and(|own| own < SIGNALS_SINCE)
}

/// The traces that a version leaves behind a turn without an end of its own.
pub(super) struct Traces {
    /// The version that wrote the newest message.
    pub(super) version: Option<[u32; 3]>,
    /// A prompt was taken from the queue behind the last message.
    pub(super) took_prompt: bool,
    /// The process wrote its exit lines behind the last message, and no cost.
    pub(super) left_without_cost: bool,
}

impl Traces {
    /// Decides about the last turn where the files of this version do not tell how it ended. An open turn of
    /// a version that writes every end was killed.
    pub(super) fn explain(&self, turn: Turn) -> Turn {
        let is_open = matches!(turn, Turn::Open { .. });
        let is_before = |version| self.version.is_some_and(|own| own < version);
        if is_before(ENDS_SINCE) {
            // The prompt of these versions is written with the first answer to it.
            return match turn {
                Turn::Unreadable(_) | Turn::Undecided(_) => turn,
                _ if is_open => Turn::Undecided(
                    "this version of Claude Code does not write why a turn was left open".into(),
                ),
                _ if self.took_prompt => Turn::Undecided(
                    "a prompt was taken up behind the last answer, and nothing is written about it"
                        .into(),
                ),
                _ => turn,
            };
        }
        if is_open && self.left_without_cost && tells_no_signals(self.version) {
            let why = "its process left with a turn open: interrupted or terminated, this version \
                       writes the same";
            return Turn::Over(why.into());
        }
        turn
    }
}

/// Budget and cost of the process that wrote last, collected newest first.
#[derive(Default)]
pub(super) struct Money {
    /// The cost of the session when the process exited.
    last: Option<f64>,
    /// The cost of the session when an earlier process exited.
    earlier: Option<f64>,
    /// The budget of the process.
    budget: Option<f64>,
    /// The newest message of the model.
    message: Option<String>,
    /// Every line that may hold the budget of the last model call was read.
    is_past_last_call: bool,
}

impl Money {
    /// Adds a cost figure; the first counts as the last one only if no message follows it.
    pub(super) fn add_cost(&mut self, total: Option<f64>, is_last: bool) {
        if self.last.is_none() && is_last {
            self.last = total;
        } else {
            self.earlier = self.earlier.or(total);
            self.is_past_last_call = true;
        }
    }

    /// Adds the budget, which is written before every model call of a process that has one.
    pub(super) fn add_budget(&mut self, total: f64) {
        if !self.is_past_last_call {
            self.budget = self.budget.or(Some(total));
        }
    }

    /// Notes a message of the model: the budget of the last call is written after the previous message.
    pub(super) fn add_message(&mut self, id: &str) {
        match &self.message {
            Some(newest) if newest != id => self.is_past_last_call = true,
            Some(_) => {}
            None => self.message = Some(id.to_owned()),
        }
    }

    /// Notes a prompt: earlier calls belong to an earlier turn.
    pub(super) fn add_prompt(&mut self) {
        self.is_past_last_call = true;
    }

    /// Says whether no budget was seen and an earlier line may still contain one.
    pub(super) fn seeks_budget(&self) -> bool {
        self.budget.is_none() && !self.is_past_last_call
    }

    /// Says whether an earlier line may still change the answer.
    pub(super) fn is_open(&self) -> bool {
        match (self.budget, self.last) {
            (None, _) => !self.is_past_last_call,
            // The figure includes all earlier processes, so a figure below the budget proves that it
            // was not spent.
            (Some(budget), Some(last)) => last >= budget && self.earlier.is_none(),
            (Some(_), None) => false,
        }
    }

    /// Decides about a last turn that the end of a budget explains as well. A budget that the last answer
    /// used up is a failure, also where nothing was left to do. `whole` says that everything was read back to
    /// the beginning of the session.
    pub(super) fn decide(&self, turn: Turn, whole: bool) -> Turn {
        let Some(budget) = self.budget else { return turn };
        let spent = self.last.map(|last| last - self.earlier.unwrap_or(0.0));
        match spent {
            Some(spent) if (whole || self.earlier.is_some()) && spent >= budget => {
                Turn::Failed(format!("it reached its budget of ${budget}"))
            }
            Some(spent) if spent < budget => turn,
            _ => Turn::Over(format!(
                "it had a budget of ${budget}, and what it spent is not written"
            )),
        }
    }
}

/// The name of the tool by which the model gives the output that `--json-schema` asks for.
const OUTPUT_TOOL: &str = "StructuredOutput";
/// The number of outputs not matching the schema that ends a turn, unless the environment changes it.
const MAX_OUTPUTS: u32 = 5;

/// The structured outputs that the last turn gave, collected newest first.
#[derive(Default)]
pub(super) struct Outputs {
    count: u32,
    /// The newest message of the model calls the tool; `None` before a message was seen.
    is_last: Option<bool>,
    is_past_prompt: bool,
}

impl Outputs {
    /// Takes the names of the tools that one line of the model calls.
    pub(super) fn add_calls<'a>(&mut self, mut names: impl Iterator<Item = &'a str>) {
        let calls = names.any(|name| name == OUTPUT_TOOL);
        self.is_last = self.is_last.or(Some(calls));
        self.count += u32::from(calls && !self.is_past_prompt);
    }

    pub(super) fn add_prompt(&mut self) {
        self.is_past_prompt = true;
    }

    /// Says whether an earlier line may still change the answer.
    pub(super) fn is_open(&self) -> bool {
        self.is_last == Some(true) && self.count < MAX_OUTPUTS && !self.is_past_prompt
    }

    /// Decides about an open turn without an open call whose process exited in order: an output that
    /// matched its schema would have ended the turn.
    pub(super) fn decide(&self, open: Turn) -> Turn {
        if self.is_last != Some(true) {
            return open;
        }
        if self.count >= MAX_OUTPUTS {
            return Turn::Failed(format!(
                "its output did not match the schema {} times",
                self.count
            ));
        }
        let why = "its output did not match the schema: out of retries or terminated";
        Turn::Over(why.into())
    }
}
