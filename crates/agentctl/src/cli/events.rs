//! `agentctl events`: prints changes, one JSON object a line, until the reader leaves.

mod remote;

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, EventKind, replay};
use agentctl_core::marks;
use agentctl_core::model::{Fault, Time};
use clap::Args;

use self::remote::{Alone, Remote};
use super::list::{adapter_name, since};
use super::stream_end::End;
use crate::face::{Feed, FeedItem};
use crate::failure::{Failure, Outcome};
use crate::protocol::SubscribeParams;
use crate::ui::Ui;

/// Print what changes, as it changes: one JSON object a line
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
    /// First tell when launches began and ended since then: a span (2h), a date, or `all`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Print one JSON object a line, which is also what is printed without it
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<EventKind, String> {
    EventKind::parse(text).ok_or_else(|| {
        let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
        format!("types: {}", known.join(", "))
    })
}

impl EventsArgs {
    fn admits(&self, event: &Event) -> bool {
        (self.types.is_empty() || self.types.contains(&event.kind))
            && self.adapter.as_deref().is_none_or(|only| event.adapter == Some(only))
    }
}

pub(super) fn cmd_events(ui: &mut Ui, fleet: &Fleet, args: &EventsArgs) -> Outcome {
    let host = &fleet.host;
    let from = args.since.as_deref().map(|text| since(host, Some(text))).transpose()?;
    let from = from.map(|from| Time::from_millis(from.unwrap_or(0)).unwrap_or_else(|| host.now()));
    let end = End::default();
    end.on_signal()?;
    end.on_reader_gone();
    if host.var(marks::NO_DAEMON).is_none() {
        let wanted = SubscribeParams {
            types: args.types.iter().map(|kind| kind.word().to_owned()).collect(),
            adapters: args.adapter.iter().cloned().collect(),
        };
        match Remote::begin(fleet, wanted, from, end.clone())? {
            Ok(stream) => return tell(ui, args, stream),
            Err(Alone::Ended) => return Ok(ExitCode::SUCCESS),
            Err(Alone::Untrusted(error)) => error.warn_if_untrusted(ui),
            Err(Alone::NoDaemon) => {
                ui.warn("no daemon serves with this configuration: this command watches by itself");
            }
            Err(Alone::OtherWorld) => ui.warn(
                "the daemon sees another world than this command, which therefore looks by itself",
            ),
        }
    }
    tell(ui, args, Local::begin(fleet, from, end)?)
}

/// An item of a stream of events.
enum StreamItem {
    Event(Box<Event>),
    /// An event as the daemon wrote it.
    Line(String),
    /// A source failed, or changes may be seen late.
    Trouble(String),
}

/// Prints the items of a stream until it ends or the reader leaves.
fn tell(
    ui: &mut Ui,
    args: &EventsArgs,
    stream: impl Iterator<Item = Result<StreamItem, Failure>>,
) -> Outcome {
    for word in stream {
        match word? {
            StreamItem::Event(event) if args.admits(&event) => {
                ui.json_line(&event)?;
                ui.flush()?;
            }
            StreamItem::Event(_) => {}
            StreamItem::Line(line) => {
                ui.json_line_text(&line)?;
                ui.flush()?;
            }
            StreamItem::Trouble(what) => ui.warn(&what),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Events from this process's own watcher.
struct Local {
    feed: Feed,
    waiting: VecDeque<StreamItem>,
    /// The ids of replayed events, which the watcher may report again.
    replayed: HashSet<String>,
    told: HashSet<String>,
    end: End,
}

impl Local {
    fn begin(fleet: &Fleet, from: Option<Time>, end: End) -> Result<Self, Failure> {
        let mut feed = Feed::open(fleet)?;
        let closer = feed.closer();
        end.does(move || closer.close());
        let first = feed.next(Duration::MAX)?;
        let mut local = Self {
            feed,
            waiting: VecDeque::new(),
            replayed: HashSet::new(),
            told: HashSet::new(),
            end,
        };
        if let FeedItem::Look(seen) = first {
            local.hear(&seen.faults);
        }
        // The look comes first and the replay second: an end in between is seen twice rather than
        // never.
        for event in from.into_iter().flat_map(|from| replay::since(fleet, from)) {
            local.replayed.insert(event.id.clone());
            local.waiting.push_back(StreamItem::Event(Box::new(event)));
        }
        Ok(local)
    }

    /// Reports each fault once when it begins; a fault that ended may be reported again later.
    fn hear(&mut self, faults: &[Fault]) {
        let place = |fault: &Fault| fault.root.as_deref().map(|r| format!(" ({r})"));
        let text =
            |f: &Fault| format!("{}{}: {}", f.adapter, place(f).unwrap_or_default(), f.message);
        let late = self.feed.trouble().map(|why| format!("changes may be seen late: {why}"));
        let now: HashSet<String> = faults.iter().map(text).chain(late).collect();
        for what in now.iter().filter(|what| !self.told.contains(*what)) {
            self.waiting.push_back(StreamItem::Trouble(what.clone()));
        }
        self.told = now;
    }
}

impl Iterator for Local {
    type Item = Result<StreamItem, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.end.is_over() {
                return None;
            }
            if let Some(word) = self.waiting.pop_front() {
                return Some(Ok(word));
            }
            let seen = match self.feed.next(Duration::MAX) {
                Ok(FeedItem::Look(seen)) => seen,
                Ok(FeedItem::Nothing) => continue,
                Ok(FeedItem::Closed) => return None,
                Err(error) => return Some(Err(error.into())),
            };
            for event in seen.events {
                if !self.replayed.remove(&event.id) {
                    self.waiting.push_back(StreamItem::Event(Box::new(event)));
                }
            }
            self.hear(&seen.faults);
        }
    }
}
