//! Events from the daemon. When it exits, this connects to the next one, and finds the changes in
//! between by comparing a look of its own with the events received.

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, Watcher};
use agentctl_core::host::Host;

use crate::client::start::{self, NotConnected};
use crate::client::{Client, ClientError, HELLO_TIMEOUT, fingerprint};
use crate::face::StreamEnd;
use crate::failure::Failure;
use crate::protocol::{EventText, Notification, Request, SubscribeParams, Subscribed};

/// Shortest time between two attempts to subscribe, if the last one failed.
const SUBSCRIBE_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// A daemon that closes this many connections one after another, each within [`SHORT_CONNECTION`], is not asked
/// any more.
const MAX_SHORT_CONNECTIONS: u32 = 5;
/// A connection that lasted longer than this shows that the daemon works.
const SHORT_CONNECTION: Duration = Duration::from_secs(1);

/// The next message of the daemon, or its absence.
pub(super) enum Heard {
    Event(EventText),
    /// This many events came too fast and are lost.
    Lost(u64),
    /// Another daemon serves. These changes were not sent by either of the two.
    Missed(Vec<Event>),
    /// The daemon cannot be used; the reason, as a warning.
    Unusable(String),
    /// The stream was ended.
    Ended,
}

/// Events from the daemon.
pub(super) struct DaemonEvents {
    host: Arc<Host>,
    client: Client,
    connected_at: Instant,
    /// Connections that the daemon closed at once, one after another.
    short_connections: u32,
    /// Never woken: it only compares its look with the last events.
    own: Watcher,
}

impl DaemonEvents {
    /// Subscribes to the daemon, which is started if none runs. Without `DaemonEvents` the stream was ended or the
    /// daemon cannot be used; with them, a message says that the subscription took several attempts.
    pub(super) fn open(
        fleet: &Fleet,
        end: &StreamEnd,
    ) -> Result<(Option<Self>, Option<Heard>), Failure> {
        let client = match connected(&fleet.host, end)? {
            Ok(client) => client,
            Err(heard) => return Ok((None, Some(heard))),
        };
        let mut own = Watcher::asleep(fleet.clone())?;
        own.look();
        let mut events = Self {
            host: Arc::clone(&fleet.host),
            client,
            connected_at: Instant::now(),
            short_connections: 0,
            own,
        };
        let heard = match events.subscribe(end) {
            Ok(()) => None,
            Err(error) => Some(events.reconnect(error, end)?),
        };
        Ok((Some(events), heard))
    }

    /// Returns the changes that were not received as events.
    pub(super) fn missed(&mut self) -> Vec<Event> {
        self.own.look().events
    }

    /// Waits for the next message.
    pub(super) fn next(&mut self, end: &StreamEnd) -> Result<Heard, Failure> {
        match self.client.notification() {
            Ok(Notification::Event(event)) => {
                self.own.suppose(event.event());
                Ok(Heard::Event(event))
            }
            Ok(Notification::Lost { count }) => Ok(Heard::Lost(count)),
            Err(_) if end.is_over() => Ok(Heard::Ended),
            Err(error) => self.reconnect(error, end),
        }
    }

    fn subscribe(&mut self, end: &StreamEnd) -> Result<(), ClientError> {
        let stream = self.client.handle().map_err(ClientError::Connection)?;
        end.set_wake(move || {
            let _gone = stream.shutdown(Shutdown::Both);
        });
        // All events are needed, also unwanted ones: later wanted events are derived from the known
        // state.
        let all = Request::EventsSubscribe(SubscribeParams::default());
        let _yes: Subscribed = self.client.call(&all, HELLO_TIMEOUT)?;
        Ok(())
    }

    /// Subscribes to the next daemon after an error, and finds the changes since the previous one. A daemon that
    /// answers something else, or closes every connection at once, is given up.
    fn reconnect(&mut self, error: ClientError, end: &StreamEnd) -> Result<Heard, Failure> {
        let mut error = error;
        loop {
            if self.connected_at.elapsed() > SHORT_CONNECTION {
                self.short_connections = 0;
            }
            self.short_connections += 1;
            if end.is_over() {
                return Ok(Heard::Ended);
            }
            if !error.is_closed_by_peer() || self.short_connections > MAX_SHORT_CONNECTIONS {
                return Ok(Heard::Unusable(format!("{error}; changes are found without it")));
            }
            if self.short_connections > 1 {
                std::thread::park_timeout(SUBSCRIBE_RETRY_PAUSE);
            }
            self.client = match connected(&self.host, end)? {
                Ok(client) => client,
                Err(heard) => return Ok(heard),
            };
            self.connected_at = Instant::now();
            match self.subscribe(end) {
                Ok(()) => return Ok(Heard::Missed(self.missed())),
                Err(again) => error = again,
            }
        }
    }
}

/// Connects to the daemon, which is started if none runs. Without a connection the stream was ended, or the
/// daemon is not one of this user with these settings.
///
/// A daemon may take long to start or to answer. The connection is made on another thread, so that the
/// end of the stream need not wait for it.
fn connected(host: &Arc<Host>, end: &StreamEnd) -> Result<Result<Client, Heard>, Failure> {
    let (sender, answer) = channel();
    let told = sender.clone();
    end.set_wake(move || {
        let _late = told.send(None);
    });
    let ensured = Arc::clone(host);
    std::thread::spawn(move || {
        let _ended = sender.send(Some(start::ensure(&ensured)));
    });
    if end.is_over() {
        return Ok(Err(Heard::Ended));
    }
    let client = match answer.recv() {
        Ok(Some(Ok((client, _)))) => client,
        Ok(Some(Err(NotConnected::Untrusted(error)))) => {
            return Ok(Err(Heard::Unusable(error.to_string())));
        }
        Ok(Some(Err(NotConnected::Refused(_)))) => {
            let why = "no daemon runs with this configuration: this command watches by itself";
            return Ok(Err(Heard::Unusable(why.to_owned())));
        }
        Ok(Some(Err(why))) => return Err(why.into()),
        Ok(None) | Err(_) => return Ok(Err(Heard::Ended)),
    };
    if client.welcome.fingerprint != fingerprint(host) {
        let why = "the daemon has other homes or settings than this command, which therefore watches by itself";
        return Ok(Err(Heard::Unusable(why.to_owned())));
    }
    Ok(Ok(client))
}
