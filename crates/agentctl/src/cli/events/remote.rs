//! Events from the daemon. When it exits, this connects to the next one, and finds the changes in
//! between by comparing a look of its own with the events received.

use std::collections::{HashSet, VecDeque};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, Watcher, replay};
use agentctl_core::host::Host;
use agentctl_core::model::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{End, StreamItem};
use crate::client::{Client, ClientError, HELLO_TIMEOUT};
use crate::daemon::start::{self, NotConnected};
use crate::failure::Failure;
use crate::protocol::{Request, SubscribeParams, Subscribed};

/// Most event ids that are remembered to filter duplicates.
const MAX_REMEMBERED_IDS: usize = 16_384;
/// Shortest time between two attempts to reach a daemon.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// One line of the daemon.
#[derive(Deserialize)]
struct DaemonLine<'a> {
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Lost {
    count: u64,
}

/// The ids of the events that were printed already.
#[derive(Default)]
struct PrintedIds {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl PrintedIds {
    /// Says whether it is new, and remembers it.
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

/// Connects to the daemon, which is started if none runs; `None` if the stream was ended meanwhile.
///
/// A daemon may take long to start or to answer. The connection is made on another thread, so that the
/// end of the stream need not wait for it.
fn connected(host: &Arc<Host>, end: &End) -> Result<Option<Client>, NotConnected> {
    let (sender, answer) = channel();
    let told = sender.clone();
    end.does(move || {
        let _late = told.send(None);
    });
    let host = Arc::clone(host);
    std::thread::spawn(move || {
        let _ended = sender.send(Some(start::ensure(&host)));
    });
    if end.is_over() {
        return Ok(None);
    }
    match answer.recv() {
        Ok(Some(connected)) => connected.map(|(client, _)| Some(client)),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// Why the events do not come from a daemon.
pub(super) enum Alone {
    /// The stream was ended before it began.
    Ended,
    /// The daemon uses other settings than this command.
    OtherWorld,
    /// The process at the daemon's socket is not trusted.
    Untrusted(ClientError),
    /// No daemon serves with this configuration.
    NoDaemon,
}

/// Events from the daemon.
pub(super) struct Remote {
    host: Arc<Host>,
    client: Client,
    params: SubscribeParams,
    /// Never woken: it only compares its look with the last events.
    own: Watcher,
    told: PrintedIds,
    waiting: VecDeque<StreamItem>,
    end: End,
}

impl Remote {
    /// Subscribes to the daemon, which is started if none runs. Returns the reason if this process must
    /// watch by itself, or if it was ended before it began.
    pub(super) fn begin(
        fleet: &Fleet,
        params: SubscribeParams,
        from: Option<Time>,
        end: End,
    ) -> Result<Result<Self, Alone>, Failure> {
        let host = &fleet.host;
        let client = match connected(host, &end) {
            Ok(Some(client)) => client,
            Ok(None) => return Ok(Err(Alone::Ended)),
            Err(NotConnected::Untrusted(error)) => return Ok(Err(Alone::Untrusted(error))),
            Err(NotConnected::Refused(_)) => return Ok(Err(Alone::NoDaemon)),
            Err(why) => return Err(why.into()),
        };
        if client.welcome.fingerprint != crate::client::fingerprint(host) {
            return Ok(Err(Alone::OtherWorld));
        }
        let mut own = Watcher::asleep(fleet.clone())?;
        own.look();
        let mut remote = Self {
            host: Arc::clone(host),
            client,
            params,
            own,
            told: PrintedIds::default(),
            waiting: VecDeque::new(),
            end,
        };
        if remote.subscribe().is_err() {
            remote.again()?;
        }
        // The subscription comes first and the replay second: an end in between has the same id in
        // both.
        for event in from.into_iter().flat_map(|from| replay::since(fleet, from)) {
            remote.told.add(&event.id);
            remote.waiting.push_back(StreamItem::Event(Box::new(event)));
        }
        Ok(Ok(remote))
    }

    fn subscribe(&mut self) -> Result<(), ClientError> {
        let stream = self.client.handle().map_err(ClientError::Connection)?;
        self.end.does(move || {
            let _gone = stream.shutdown(Shutdown::Both);
        });
        // All events are needed, also unwanted ones: later wanted events are derived from the known
        // state.
        let all = Request::EventsSubscribe(SubscribeParams::default());
        let _yes: Subscribed = self.client.call(&all, HELLO_TIMEOUT)?;
        Ok(())
    }

    /// Subscribes to the next daemon, and finds the changes since the previous one.
    fn again(&mut self) -> Result<(), Failure> {
        while let Some(client) = connected(&self.host, &self.end)? {
            self.client = client;
            if self.subscribe().is_ok() {
                break;
            }
            std::thread::park_timeout(RECONNECT_PAUSE);
        }
        for event in self.own.look().events {
            if self.params.admits(event.kind, event.adapter) && self.told.add(&event.id) {
                self.waiting.push_back(StreamItem::Event(Box::new(event)));
            }
        }
        Ok(())
    }

    /// Handles one line of the daemon.
    fn hear(&mut self, line: &[u8]) {
        let Ok(said) = serde_json::from_slice::<DaemonLine<'_>>(line) else { return };
        let Some(params) = said.params else { return };
        match said.method {
            Some("event") => {
                let Ok(told) = serde_json::from_str::<Event>(params.get()) else { return };
                self.own.suppose(&told);
                if self.params.admits(told.kind, told.adapter) && self.told.add(&told.id) {
                    self.waiting.push_back(StreamItem::Line(params.get().to_owned()));
                }
            }
            Some("lost") => {
                let lost = serde_json::from_str::<Lost>(params.get()).map_or(0, |lost| lost.count);
                let text = format!("{lost} events came faster than they were read, and are lost");
                self.waiting.push_back(StreamItem::Trouble(text));
            }
            _ => {}
        }
    }
}

impl Iterator for Remote {
    type Item = Result<StreamItem, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.end.is_over() {
                return None;
            }
            if let Some(word) = self.waiting.pop_front() {
                return Some(Ok(word));
            }
            match self.client.line(None) {
                Ok(line) => self.hear(&line),
                Err(_) if self.end.is_over() => return None,
                Err(_) => {
                    if let Err(failure) = self.again() {
                        return Some(Err(failure));
                    }
                }
            }
        }
    }
}
