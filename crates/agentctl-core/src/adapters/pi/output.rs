//! The standard output of a Pi process: its first lines name the session, its last event says what it does.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;

use serde::Deserialize;

use super::lines::Header;
use super::rpc;
use crate::adapters::Look;
use crate::kernel::Process;
use crate::marks;
use crate::model::{Ask, AskPart, ProcId, Reason, ReasonKind, Session, Time, shorten};
use crate::native::jsonl;

/// Tolerance between a start time and other clocks: start times have a grain of 10 ms.
pub(super) const GRAIN_MS: i64 = 20;
/// Bytes read at once from the end of the output.
const CHUNK: usize = 32 << 10;
/// Most characters of a dialog in the reason of a status.
const MAX_DETAIL_CHARS: usize = 200;
/// Most bytes of the output that are searched for an event.
const BUDGET: u64 = 8 << 20;

/// How a process that names its session in its output was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// For one prompt.
    SinglePrompt {
        /// Its turn has begun.
        begun: bool,
    },
    /// To stay: it takes commands on its standard input.
    Kept,
}

/// The first output of a process.
pub(super) struct FirstOutput {
    /// The session that it names.
    pub(super) session: String,
    /// A launch of ours opened the output for this process.
    pub(super) launched: bool,
    /// How the process was started.
    pub(super) mode: Mode,
}

/// Returns the session that a process named in the first line of its output.
///
/// The output file must belong to this process alone: a launch of ours opened it, or it is no older
/// than the process. A file that is appended to may begin with the output of another process.
pub(super) fn first(look: &Look, process: &Process) -> Option<FirstOutput> {
    let output = look.host.kernel.stdout_file(&process.id).ok()??;
    let launched = marks::marker_of(&look.host, process).is_some_and(|m| m.names(&process.id));
    if !launched {
        let made = output.metadata().ok()?.created().ok()?;
        let made = made.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
        let began = process.started_at?.millis() - GRAIN_MS;
        if i64::try_from(made).ok()? < began {
            return None;
        }
    }
    let mut found: Option<(String, Mode)> = None;
    let read = jsonl::head(&output, 1 << 10, &mut |line| {
        if let Some((_, mode)) = &mut found {
            let begun = jsonl::own_type(line) == Some(b"agent_start");
            *mode = Mode::SinglePrompt { begun };
            return ControlFlow::Break(());
        }
        if let Some(header) = Header::parse(line) {
            found = Some((header.id, Mode::SinglePrompt { begun: false }));
            return ControlFlow::Continue(());
        }
        // Another program that started Pi in this mode may have changed its session since.
        let session = rpc::session_named_by(line).filter(|_| launched);
        found = session.map(|session| (session, Mode::Kept));
        ControlFlow::Break(())
    });
    let (session, mode) = read.ok().and(found)?;
    Some(FirstOutput { session, launched, mode })
}

/// Returns the same of the process with this id, if that lives.
pub(super) fn first_of(look: &Look, id: &ProcId) -> Option<FirstOutput> {
    let process = look.host.kernel.process(id.pid).ok()??;
    if process.id == *id { first(look, &process) } else { None }
}

/// The methods of an extension's requests that wait for a human. The others only show something.
const DIALOGS: [&str; 4] = ["select", "confirm", "input", "editor"];
/// Why a dialog cannot be answered from here.
const DIALOG_WHY_NOT: &str = "agentctl does not answer the dialogs of Pi's extensions; `agentctl stop --turn ID` cancels the dialog and ends the turn";

/// A dialog of an extension, which waits for a human.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Dialog {
    /// The id of its request.
    pub(super) id: String,
    method: String,
    title: String,
    message: String,
    options: Vec<String>,
    /// How long it waits, in milliseconds.
    timeout: Option<u64>,
    /// When it ends by itself.
    #[serde(skip)]
    until: Option<Time>,
}

impl Dialog {
    /// Parses the request of an extension; `None` if it waits for nobody.
    fn parse(line: &[u8]) -> Option<Self> {
        jsonl::parse::<Self>(line).filter(|dialog| DIALOGS.contains(&dialog.method.as_str()))
    }

    fn text(&self) -> String {
        let words = [&self.title, &self.message].map(|text| text.trim());
        let words: Vec<&str> = words.into_iter().filter(|text| !text.is_empty()).collect();
        if words.is_empty() { self.method.clone() } else { words.join(": ") }
    }

    /// Returns the reason of a session that waits for it.
    pub(super) fn reason(&self) -> Reason {
        let detail = shorten(&self.text(), MAX_DETAIL_CHARS);
        Reason { until: self.until, ..Reason::with(ReasonKind::Dialog, detail) }
    }

    /// Returns the ask of the session that waits for it.
    pub(super) fn ask(&self, session: &Session) -> Ask {
        let mut ask = Ask::of(session);
        ask.set_title(&self.text());
        let options = self.options.iter().enumerate();
        let options = options.map(|(at, option)| format!("\n{}. {option}", at + 1));
        ask.parts = vec![AskPart::text(&(self.text() + &options.collect::<String>()))];
        ask.until = self.until;
        ask.then = self.until.map(|_| "cancelled".to_owned());
        ask.why_not = Some(DIALOG_WHY_NOT.to_owned());
        ask.identify(session, &self.id);
        ask
    }
}

/// The state of a process by the last event in its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LastEvent {
    /// A turn is running.
    Working,
    /// A failed model call will be tried again.
    Retrying,
    /// The turn is over.
    AtRest,
    /// An extension waits for a human.
    Asking(Dialog),
}

/// Returns the state of a process that was launched to stay, by the last event in its output.
pub(super) fn last_event(look: &Look, id: &ProcId) -> Option<LastEvent> {
    let file = look.host.kernel.stdout_file(id).ok()??;
    let meta = file.metadata().ok()?;
    let mut found = None;
    // Lines that were read before an error count: they are the newest.
    let _read = jsonl::tail_from(&file, meta.len(), CHUNK, BUDGET, &mut |_, line| {
        found = event(line);
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let Some(LastEvent::Asking(mut dialog)) = found else { return found };
    // A request has no time of its own: the file was written then, or later.
    let written_ms =
        meta.mtime().saturating_mul(1000).saturating_add(meta.mtime_nsec() / 1_000_000);
    let until = |timeout| written_ms.checked_add(i64::try_from(timeout).ok()?);
    dialog.until = dialog.timeout.and_then(until).and_then(Time::from_millis);
    // Nothing tells that it was settled before the agent does its next step.
    let is_over = dialog.until.is_some_and(|until| until <= look.now);
    Some(if is_over { LastEvent::Working } else { LastEvent::Asking(dialog) })
}

/// Returns the dialog for which a process that was launched to stay waits.
pub(super) fn dialog(look: &Look, id: &ProcId) -> Option<Dialog> {
    match last_event(look, id)? {
        LastEvent::Asking(dialog) => Some(dialog),
        _ => None,
    }
}

/// Returns the state that an event leaves a process in; `None` for a line that says nothing about it.
fn event(line: &[u8]) -> Option<LastEvent> {
    let kind = std::str::from_utf8(jsonl::own_type(line)?).ok()?;
    match kind {
        "agent_end" | "agent_settled" => Some(LastEvent::AtRest),
        "auto_retry_start" => Some(LastEvent::Retrying),
        "agent_start" | "turn_start" | "turn_end" => Some(LastEvent::Working),
        "extension_ui_request" => Dialog::parse(line).map(LastEvent::Asking),
        _ if kind.starts_with("message_") || kind.starts_with("tool_execution_") => {
            Some(LastEvent::Working)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_and_queues_say_nothing_about_the_turn() {
        let of = |kind: &str| event(format!(r#"{{"type":"{kind}","x":1}}"#).as_bytes());
        for (kind, state) in [
            ("agent_start", Some(LastEvent::Working)),
            ("message_update", Some(LastEvent::Working)),
            ("tool_execution_end", Some(LastEvent::Working)),
            ("auto_retry_start", Some(LastEvent::Retrying)),
            ("agent_end", Some(LastEvent::AtRest)),
            ("agent_settled", Some(LastEvent::AtRest)),
            ("response", None),
            ("queue_update", None),
            ("auto_retry_end", None),
            ("extension_ui_request", None),
        ] {
            assert_eq!(of(kind), state, "{kind}");
        }
    }

    #[test]
    fn only_a_request_that_an_extension_waits_for_is_a_dialog() {
        let of = |method: &str| {
            let request = format!(
                r#"{{"type":"extension_ui_request","id":"d1","method":"{method}","title":"Allow?","message":"Run touch x"}}"#
            );
            event(request.as_bytes())
        };
        for method in DIALOGS {
            let Some(LastEvent::Asking(dialog)) = of(method) else { panic!("{method}") };
            assert_eq!((dialog.id.as_str(), dialog.text().as_str()), ("d1", "Allow?: Run touch x"));
        }
        for method in ["notify", "setStatus", "setWidget", "setTitle", "set_editor_text", ""] {
            assert_eq!(of(method), None, "{method}");
        }
    }
}
