//! Events as they happen, for every interface.
//!
//! They come from the daemon, which is started if none runs. If it cannot be used, they come from a watcher of
//! this process, and the stream says why. No event is returned twice.

mod daemon_events;
mod subject;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, replay};
use agentctl_core::marks;
use agentctl_core::model::{Fault, Time};

use self::daemon_events::{DaemonEvents, Heard};
pub use self::subject::EventSubject;
use super::{Feed, FeedItem, StreamEnd};
use crate::failure::Failure;
use crate::protocol::{EventText, SubscribeParams};

/// Most event ids that are remembered to filter duplicates.
const MAX_REMEMBERED_IDS: usize = 16_384;

/// The events that an interface wants.
#[derive(Debug, Default)]
pub struct EventRequest {
    /// Types and agents.
    pub filter: SubscribeParams,
    /// The session, group or directory.
    pub subject: EventSubject,
    /// First return when launches began and ended since then.
    pub since: Option<Time>,
}

/// An item of a stream of events.
#[derive(Debug)]
pub enum EventItem {
    /// Something has changed.
    Event(EventText),
    /// A source failed, events were lost, or changes may be seen late.
    Warning(String),
}

/// A stream of events. It ends when its [`StreamEnd`] does.
pub struct EventStream {
    fleet: Fleet,
    source: Source,
    filter: SubscribeParams,
    subject: EventSubject,
    returned: RecentIds,
    waiting: VecDeque<EventItem>,
    /// The troubles of the last look.
    troubles: HashSet<String>,
    end: StreamEnd,
}

enum Source {
    Daemon(Box<DaemonEvents>),
    /// A watcher of this process.
    Own(Box<Feed>),
    /// The stream was ended before it had a source.
    None,
}

impl EventStream {
    /// Opens a stream. Every change after this call is returned.
    pub fn open(fleet: &Fleet, request: EventRequest, end: StreamEnd) -> Result<Self, Failure> {
        let mut stream = Self {
            fleet: fleet.clone(),
            source: Source::None,
            filter: request.filter,
            subject: request.subject,
            returned: RecentIds::default(),
            waiting: VecDeque::new(),
            troubles: HashSet::new(),
            end,
        };
        if fleet.host.var(marks::NO_DAEMON).is_some() {
            stream.look_alone()?;
        } else {
            let (daemon, heard) = DaemonEvents::open(fleet, &stream.end)?;
            if let Some(daemon) = daemon {
                stream.source = Source::Daemon(Box::new(daemon));
            }
            if let Some(heard) = heard {
                stream.hear(heard)?;
            }
        }
        // The subscription or the first look comes before the replay: an end in between is seen twice, with the same
        // id, rather than never.
        for event in request.since.into_iter().flat_map(|since| replay::since(fleet, since)) {
            stream.add(event)?;
        }
        Ok(stream)
    }

    /// Goes on with a watcher of this process. Changes that the daemon has not sent are found by comparing.
    fn look_alone(&mut self) -> Result<(), Failure> {
        let mut feed = Feed::open(&self.fleet)?;
        let closer = feed.closer();
        self.end.set_wake(move || closer.close());
        let first = feed.next(Duration::MAX)?;
        let before = std::mem::replace(&mut self.source, Source::Own(Box::new(feed)));
        if let FeedItem::Look(seen) = first {
            self.add_troubles(&seen.faults);
        }
        if let Source::Daemon(mut daemon) = before {
            for event in daemon.missed() {
                self.add(event)?;
            }
        }
        Ok(())
    }

    /// Adds an event that was found by this process.
    fn add(&mut self, event: Event) -> Result<(), Failure> {
        let event = EventText::new(Arc::new(event)).map_err(io::Error::from)?;
        self.add_text(event);
        Ok(())
    }

    /// Adds an event, if it is wanted and new.
    fn add_text(&mut self, event: EventText) {
        let is_wanted = self.filter.admits(event.event()) && self.subject.admits(event.event());
        if is_wanted && self.returned.add(&event.event().id) {
            self.waiting.push_back(EventItem::Event(event));
        }
    }

    fn warn(&mut self, text: String) {
        self.waiting.push_back(EventItem::Warning(text));
    }

    /// Reports each fault once when it begins; a fault that ended may be reported again later.
    fn add_troubles(&mut self, faults: &[Fault]) {
        let place = |fault: &Fault| fault.root.as_deref().map(|r| format!(" ({r})"));
        let text =
            |f: &Fault| format!("{}{}: {}", f.adapter, place(f).unwrap_or_default(), f.message);
        let late = match &self.source {
            Source::Own(feed) => feed.trouble(),
            Source::Daemon(_) | Source::None => None,
        };
        let late = late.map(|why| format!("changes may be seen late: {why}"));
        let now: HashSet<String> = faults.iter().map(text).chain(late).collect();
        let new: Vec<String> = now.difference(&self.troubles).cloned().collect();
        for text in new {
            self.warn(text);
        }
        self.troubles = now;
    }

    /// Waits for the next items of the source; says whether there can be more.
    fn wait(&mut self) -> Result<bool, Failure> {
        let heard = match &mut self.source {
            Source::None => return Ok(false),
            Source::Daemon(daemon) => daemon.next(&self.end)?,
            Source::Own(feed) => match feed.next(Duration::MAX)? {
                FeedItem::Nothing => return Ok(true),
                FeedItem::Closed => return Ok(false),
                FeedItem::Look(seen) => {
                    for event in seen.events {
                        self.add(event)?;
                    }
                    self.add_troubles(&seen.faults);
                    return Ok(true);
                }
            },
        };
        self.hear(heard)
    }

    /// Handles a message of the daemon, or its absence; says whether there can be more.
    fn hear(&mut self, heard: Heard) -> Result<bool, Failure> {
        match heard {
            Heard::Event(event) => self.add_text(event),
            Heard::Missed(events) => {
                for event in events {
                    self.add(event)?;
                }
            }
            Heard::Lost(count) => {
                self.warn(format!(
                    "{count} events were lost: they came faster than they were read"
                ));
            }
            Heard::Unusable(why) => {
                self.warn(why);
                self.look_alone()?;
            }
            Heard::Ended => return Ok(false),
        }
        Ok(true)
    }
}

impl Iterator for EventStream {
    type Item = Result<EventItem, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.end.is_over() {
                return None;
            }
            if let Some(item) = self.waiting.pop_front() {
                return Some(Ok(item));
            }
            match self.wait() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

/// The ids of the events that were returned last.
#[derive(Default)]
struct RecentIds {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl RecentIds {
    /// Says whether an id is new, and remembers it.
    fn add(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > MAX_REMEMBERED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}
