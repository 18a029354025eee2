//! `agentctl logs`: prints a conversation for people or programs; `-f` follows it by file events.

use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::model::Message;
use agentctl_core::transcript::Transcript;
use clap::Args;

use crate::face::{conversation_lines, unread_conversation};
use crate::failure::{Failure, Outcome};
use crate::text::clean;
use crate::ui::Ui;

/// Show a session's recent messages
#[derive(Args)]
pub(super) struct LogsArgs {
    /// Session id or prefix, name, pid, directory (`.`), @last, or adapter:id [default: the only one here]
    id: Option<String>,
    /// How many messages
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
    count: usize,
    /// Go on with new messages as they are written
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON object per message
    #[arg(long)]
    json: bool,
    /// Print the agent's own lines: unchanged when piped; on a terminal control characters are shown as \x1b
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub(super) fn cmd_logs(ui: &mut Ui, fleet: &Fleet, args: &LogsArgs) -> Outcome {
    let (target, faults) = super::target(fleet, super::named_or_here(args.id.as_deref()))?;
    let mut transcript = fleet.transcript(&target).map_err(|error| unread_conversation(&error))?;
    // The watch is set before the first read, so that no message in between is missed.
    let watch = args.follow.then(|| transcript.watch());
    let form = match (args.json, args.raw) {
        (true, _) => Form::Json,
        (_, true) => Form::Raw,
        _ => Form::Human,
    };
    if !show(ui, form, &mut transcript, Part::Last(args.count))? && form == Form::Human {
        ui.note("no messages yet");
    }
    let Some(watch) = watch else { return Ok(super::answered(ui, &faults)) };
    for fault in &faults {
        ui.warn_fault(fault);
    }
    if let Err(error) = &watch {
        ui.note(&format!("no file events are to be had ({error}): looking once a second instead"));
    }
    let mut silent = false;
    loop {
        match &watch {
            // An event wakes this loop at once; the long timeout is for file systems without events.
            Ok(watch) => drop(watch.wait(Duration::from_secs(5))),
            Err(_) => super::pause(Duration::from_secs(1)),
        }
        // A server that does not answer now may answer later: this is reported once.
        match show(ui, form, &mut transcript, Part::More) {
            Err(failure) if failure.is_unanswered() => {
                if !std::mem::replace(&mut silent, true) {
                    ui.warn(failure.message());
                }
            }
            shown => {
                shown?;
                silent = false;
            }
        }
    }
}

/// How messages are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As people read them.
    Human,
    /// One JSON object each.
    Json,
    /// The agent's own lines.
    Raw,
}

/// The messages to show.
#[derive(Clone, Copy)]
enum Part {
    /// The last ones.
    Last(usize),
    /// The messages since the last call.
    More,
}

/// Shows a part of the conversation; says whether there was any message.
fn show(ui: &mut Ui, form: Form, transcript: &mut Transcript, part: Part) -> Result<bool, Failure> {
    let mut any = false;
    if form == Form::Raw {
        let lines = match part {
            Part::Last(count) => transcript.last_raw(count),
            Part::More => transcript.more_raw(),
        };
        for line in lines.map_err(|error| unread_conversation(&error))? {
            if ui.is_terminal() {
                ui.line(&clean(&String::from_utf8_lossy(&line)))?;
            } else {
                ui.raw(&line)?;
                ui.raw(b"\n")?;
            }
            any = true;
        }
    } else {
        let messages = match part {
            Part::Last(count) => transcript.last(count),
            Part::More => transcript.more(),
        };
        let messages = messages.map_err(|error| unread_conversation(&error))?;
        any = !messages.is_empty();
        show_messages(ui, form, &messages)?;
    }
    ui.flush()?;
    Ok(any)
}

/// Shows messages for people, or as one JSON object each.
pub(super) fn show_messages(ui: &mut Ui, form: Form, messages: &[Message]) -> Result<(), Failure> {
    for message in messages {
        if form == Form::Json {
            ui.json_line(message)?;
        } else {
            for line in conversation_lines(message, ui.width()) {
                ui.line(&line.painted(ui.canvas()))?;
            }
        }
    }
    ui.flush()?;
    Ok(())
}
