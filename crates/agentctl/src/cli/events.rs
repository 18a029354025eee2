//! `agentctl events`: prints changes until the reader leaves, one line each: for people on a terminal, as JSON otherwise.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::events::EventKind;
use agentctl_core::model::Time;
use clap::Args;

use super::ids;
use super::list::{adapter_name, resolved_directory, since};
use super::stream_end;
use crate::face::{
    EventItem, EventLines, EventRequest, EventStream, EventSubject, NotificationText, StreamEnd,
    TerminalSequence, is_notified,
};
use crate::failure::Outcome;
use crate::protocol::SubscribeParams;
use crate::ui::Ui;

/// Print changes of sessions, locks and fuses as they happen
///
/// One line per event: readable on a terminal, JSON when piped or with --json. Sessions start, run, wait for
/// you, become idle, stop, fail, or become unknown. Events can repeat; de-duplicate by `id`. Runs until it is
/// interrupted or its output is closed.
#[derive(Args)]
pub(super) struct EventsArgs {
    /// Only events of this agent, by adapter name (`agentctl adapters`)
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only this type: waiting, session.waiting, lock.acquired, … (repeatable, or separated by commas)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kind)]
    types: Vec<EventKind>,
    #[arg(long, value_name = "ID", help = ids::ONLY)]
    session: Option<String>,
    /// Only sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions, locks and fuses in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// First replay launches that began or ended since then: a span (2h), a date, or `all`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// On a terminal: ring the bell and send a notification (OSC 9 or 777) when a session waits, stops or fails
    #[arg(long)]
    bell: bool,
    /// Print one JSON object per line, also on a terminal
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<EventKind, String> {
    EventKind::parse(text).ok_or_else(|| {
        let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        format!("there is no type `{text}`; types: {}", known.join(", "))
    })
}

pub(super) fn cmd_events(ui: &mut Ui, fleet: &Fleet, args: &EventsArgs) -> Outcome {
    let since = args.since.as_deref().map(|text| since(&fleet.host, text)).transpose()?;
    let session = match &args.session {
        Some(text) => {
            let (target, faults) = super::target(fleet, text)?;
            for fault in &faults {
                ui.warn_fault(fault);
            }
            Some(target)
        }
        None => None,
    };
    if let Some([why, groups]) = super::unknown_group(fleet, args.group.as_ref()) {
        ui.warn(&format!("{why}: events are shown once a session is in it"));
        ui.note(&groups);
    }
    let subject = EventSubject {
        session,
        group: args.group.clone(),
        cwd: args.cwd.as_deref().map(resolved_directory),
    };
    let request = EventRequest {
        subject,
        filter: SubscribeParams {
            types: args.types.clone(),
            adapters: args.adapter.iter().cloned().collect(),
        },
        since: since
            .map(|since| since.or(Time::from_millis(0)).unwrap_or_else(|| fleet.host.now())),
    };
    let end = StreamEnd::default();
    stream_end::on_signal(&end)?;
    stream_end::on_reader_gone(&end);
    let is_for_people = ui.is_terminal() && !args.json;
    let mut lines = EventLines::new(fleet);
    for item in EventStream::open(fleet, request, end)? {
        match item? {
            EventItem::Event(event) => {
                if is_for_people {
                    ui.measure_again();
                    ui.line(&lines.line(ui.canvas(), event.event()))?;
                } else {
                    ui.json_line_text(event.text())?;
                }
                if ui.is_notified(args.bell) && is_notified(event.event()) {
                    let text = NotificationText::of(event.event());
                    ui.raw(&TerminalSequence::of(&fleet.host).bytes(&text))?;
                }
                ui.flush()?;
            }
            EventItem::Warning(text) => ui.warn(&text),
        }
    }
    Ok(ExitCode::SUCCESS)
}
