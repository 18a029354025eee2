//! `agentctl events`: prints changes until the reader leaves, one line each: for people on a terminal, as JSON otherwise.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::events::EventKind;
use agentctl_core::model::Time;
use clap::Args;

use super::list::{adapter_name, resolved_directory, since};
use super::stream_end;
use crate::face::{
    EventItem, EventLines, EventRequest, EventStream, EventSubject, NotificationText, StreamEnd,
    TerminalSequence, is_notified,
};
use crate::failure::Outcome;
use crate::protocol::SubscribeParams;
use crate::ui::Ui;

/// Print what changes, as it changes, one event a line
///
/// On a terminal a line is for people; piped, or with --json, it is one JSON object.
///
/// Sessions that start, work, wait for you, rest, stop, fail, or can no longer be told; locks and fuses.
/// Each event has an id: an edge that is told twice has the same one. Runs until it is interrupted or
/// nobody reads any more.
#[derive(Args)]
pub(super) struct EventsArgs {
    /// Only this agent
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only these types: `waiting`, `session.waiting`, `lock.acquired`, … (repeat or separate by commas)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kind)]
    types: Vec<EventKind>,
    /// Only this session: id or prefix, name, pid, or adapter:id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only sessions of this launch group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions, locks and fuses of this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// First tell when launches began and ended since then: a span (2h), a date, or `all`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// On a terminal: ring its bell and show a notification (OSC 9 or 777) when a session waits, stops or fails
    #[arg(long)]
    bell: bool,
    /// Print one JSON object a line, also on a terminal
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<EventKind, String> {
    EventKind::parse(text).ok_or_else(|| {
        let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        format!("types: {}", known.join(", "))
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
