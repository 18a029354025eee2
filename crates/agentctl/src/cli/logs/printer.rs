//! Prints the messages of one conversation in the form that was asked for.

use agentctl_core::model::{Message, Time, ToolCall};
use agentctl_core::transcript::{Earlier, Selection, Transcript};
use serde::Serialize;

use crate::face::{Conversation, SessionLabel, View, local_date, unread_conversation};
use crate::failure::Failure;
use crate::text::{clean, columns};
use crate::ui::Ui;

/// How messages are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Form {
    /// As people read them.
    Human,
    /// One JSON object each.
    Json,
    /// The agent's own lines.
    Raw,
}

/// Prints one conversation.
pub(in crate::cli) struct Printer {
    form: Form,
    view: View,
    conversation: Conversation,
    /// The session in front of each line, if there are several, and its whole id.
    label: Option<SessionLabel>,
    selection: Option<Selection>,
}

/// A message with the session that it belongs to.
#[derive(Serialize)]
struct Labelled<'a> {
    session_id: &'a str,
    #[serde(flatten)]
    message: &'a Message,
}

impl Printer {
    /// Makes a printer for `logs`.
    pub(super) fn new(ui: &Ui, form: Form, now: Time) -> Self {
        Self::with_hint(ui, form, now, "--full")
    }

    /// Makes a printer for a command without the flags of `logs`.
    pub(in crate::cli) fn beside_another_command(ui: &Ui, form: Form, now: Time) -> Self {
        Self::with_hint(ui, form, now, "agentctl logs --full")
    }

    fn with_hint(ui: &Ui, form: Form, now: Time, unfold: &'static str) -> Self {
        let view = View {
            width: ui.width(),
            is_full: false,
            has_styles: ui.canvas().colour,
            unfold,
            today: Some(local_date(now)),
        };
        let conversation = Conversation::new(view.clone());
        Self { form, view, conversation, label: None, selection: None }
    }

    pub(super) fn in_full(mut self) -> Self {
        self.view.is_full = true;
        self.conversation = Conversation::new(self.view.clone());
        self
    }

    pub(super) fn labelled(mut self, label: Option<SessionLabel>) -> Self {
        let taken = label.as_ref().map_or(0, |label| columns(&label.short) + 3);
        self.view.width = self.view.width.map(|width| width.saturating_sub(taken));
        self.conversation = Conversation::new(self.view.clone());
        self.label = label;
        self
    }

    /// Sets which of the new messages are shown.
    pub(super) fn select(&mut self, selection: Selection) {
        self.selection = Some(selection);
    }

    /// Returns the line about the messages before the first one.
    pub(super) fn begin(
        &mut self,
        ui: &Ui,
        calls: Vec<ToolCall>,
        earlier: Option<Earlier>,
    ) -> Option<String> {
        self.conversation.expect(calls);
        let line = self.conversation.earlier_line(earlier?, "--turns N, -n N")?;
        Some(self.behind_label(&line.painted(ui.canvas())))
    }

    /// Returns messages as lines to be drawn; JSON is written at once.
    pub(super) fn lines(
        &mut self,
        ui: &mut Ui,
        messages: &[Message],
    ) -> Result<Vec<String>, Failure> {
        if self.form == Form::Human {
            let lines = self.conversation.lines(messages);
            let canvas = ui.canvas();
            return Ok(lines.iter().map(|l| self.behind_label(&l.painted(canvas))).collect());
        }
        for message in messages {
            match &self.label {
                Some(label) => ui.json_line(&Labelled { session_id: &label.id, message })?,
                None => ui.json_line(message)?,
            }
        }
        Ok(Vec::new())
    }

    /// Prints the messages that were appended since the last call.
    pub(in crate::cli) fn more(
        &mut self,
        ui: &mut Ui,
        transcript: &mut Transcript,
    ) -> Result<(), Failure> {
        if self.form == Form::Raw {
            raw_lines(ui, &transcript.more_raw().map_err(|error| unread_conversation(&error))?)?;
        } else {
            let mut messages = transcript.more().map_err(|error| unread_conversation(&error))?;
            if let Some(selection) = &self.selection {
                messages = messages.into_iter().filter_map(|m| selection.admitted(m)).collect();
            }
            return self.print(ui, &messages);
        }
        Ok(ui.flush()?)
    }

    /// Prints messages.
    pub(in crate::cli) fn print(
        &mut self,
        ui: &mut Ui,
        messages: &[Message],
    ) -> Result<(), Failure> {
        for line in self.lines(ui, messages)? {
            ui.line(&line)?;
        }
        Ok(ui.flush()?)
    }

    fn behind_label(&self, line: &str) -> String {
        match &self.label {
            Some(label) => format!("{} │ {line}", label.short).trim_end().to_owned(),
            None => line.to_owned(),
        }
    }
}

/// Prints the agent's own lines.
pub(super) fn raw_lines(ui: &mut Ui, lines: &[Vec<u8>]) -> Result<(), Failure> {
    for line in lines {
        if ui.is_terminal() {
            ui.line(&clean(&String::from_utf8_lossy(line)))?;
        } else {
            ui.raw(line)?;
            ui.raw(b"\n")?;
        }
    }
    Ok(ui.flush()?)
}
