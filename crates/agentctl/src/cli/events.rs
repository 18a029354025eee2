//! `agentctl events`: what changes, one JSON object a line, for as long as somebody reads.

mod remote;

use std::collections::{HashSet, VecDeque};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, EventKind, Watcher, replay};
use agentctl_core::marks;
use agentctl_core::model::{Fault, Time};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};

use self::remote::{Alone, Remote};
use super::list::{adapter_name, since};
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
    end_by_signal(end.clone())?;
    end_with_reader(end.clone());
    if host.var(marks::NO_DAEMON).is_none() {
        let wanted = SubscribeParams {
            types: args.types.iter().map(|kind| kind.word().to_owned()).collect(),
            adapters: args.adapter.iter().cloned().collect(),
        };
        match Remote::begin(fleet, wanted, from, end.clone())? {
            Ok(stream) => return tell(ui, args, stream),
            Err(Alone::Ended) => return Ok(ExitCode::SUCCESS),
            Err(Alone::Untrusted(error)) => error.warn_if_untrusted(ui),
            Err(Alone::OtherWorld) => ui.warn(
                "the daemon sees another world than this command, which therefore looks by itself",
            ),
        }
    }
    tell(ui, args, Local::begin(fleet, from, end)?)
}

/// What wakes whoever reads a stream.
type How = Box<dyn Fn() + Send>;

/// Ends a stream from another thread.
#[derive(Clone, Default)]
struct End {
    over: Arc<AtomicBool>,
    how: Arc<Mutex<Option<How>>>,
}

impl End {
    /// What wakes whoever reads the stream.
    fn does(&self, how: impl Fn() + Send + 'static) {
        *self.how.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(how));
    }

    fn now(&self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(how) = &*self.how.lock().unwrap_or_else(PoisonError::into_inner) {
            how();
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// What a stream of events says.
enum StreamItem {
    Event(Box<Event>),
    /// An event as the daemon wrote it.
    Line(String),
    /// A source failed, or changes may be seen late.
    Trouble(String),
}

/// Prints what a stream says until it ends or nobody reads any more.
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

/// Events as this very process sees them.
struct Local {
    watcher: Watcher,
    waiting: VecDeque<StreamItem>,
    /// What was told of the past, and may be seen to happen once more.
    replayed: HashSet<String>,
    told: HashSet<String>,
    end: End,
}

impl Local {
    fn begin(fleet: &Fleet, from: Option<Time>, end: End) -> Result<Self, Failure> {
        let mut watcher = fleet.watcher()?;
        let notifier = watcher.notifier();
        end.does(move || notifier.notify());
        let seen = watcher.look();
        let mut local = Self {
            watcher,
            waiting: VecDeque::new(),
            replayed: HashSet::new(),
            told: HashSet::new(),
            end,
        };
        local.hear(&seen.faults);
        // Looked first, remembered second: what ends in between is seen twice rather than never.
        for event in from.into_iter().flat_map(|from| replay::since(fleet, from)) {
            local.replayed.insert(event.id.clone());
            local.waiting.push_back(StreamItem::Event(Box::new(event)));
        }
        Ok(local)
    }

    /// Each trouble is told when it begins; one that is over may begin again.
    fn hear(&mut self, faults: &[Fault]) {
        let place = |fault: &Fault| fault.root.as_deref().map(|r| format!(" ({r})"));
        let text =
            |f: &Fault| format!("{}{}: {}", f.adapter, place(f).unwrap_or_default(), f.message);
        let late = self.watcher.trouble().map(|why| format!("changes may be seen late: {why}"));
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
            if let Err(error) = self.watcher.wait(Duration::MAX) {
                return Some(Err(error.into()));
            }
            if self.end.is_over() {
                return None;
            }
            let seen = self.watcher.look();
            for event in seen.events {
                if !self.replayed.remove(&event.id) {
                    self.waiting.push_back(StreamItem::Event(Box::new(event)));
                }
            }
            self.hear(&seen.faults);
        }
    }
}

/// Whoever interrupts it has read enough: that is no failure.
fn end_by_signal(end: End) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            end.now();
        }
    });
    Ok(())
}

/// A reader that leaves is noticed at once, not with the next event.
fn end_with_reader(end: End) {
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        let fd = stdout.as_fd();
        loop {
            // Nothing is asked for: what is told is that the other end is gone.
            let mut fds = [PollFd::new(&fd, PollFlags::empty())];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
                _ => return,
            }
        }
        end.now();
    });
}
