//! Events as the daemon tells them. When it goes, another one is asked, and what happened in between is
//! found by comparing a look of our own with the one taken before.

use std::collections::{HashSet, VecDeque};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Watcher, replay};
use agentctl_core::host::Host;
use agentctl_core::model::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{End, Word};
use crate::client::{Client, PATIENT, Silence};
use crate::daemon::protocol::SubscribeParams;
use crate::daemon::start;
use crate::failure::Failure;

/// So many ids are remembered, so that nothing is told twice.
const TOLD_MOST: usize = 16_384;
/// A daemon that went is not asked for again sooner than this.
const BREATH: Duration = Duration::from_millis(200);
/// So often at least is an idle connection looked after.
const IDLE: Duration = Duration::from_mins(60);

/// One line of the daemon.
#[derive(Deserialize)]
struct Said<'a> {
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct Lost {
    count: u64,
}

/// What was told already.
#[derive(Default)]
pub(super) struct Told {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Told {
    /// Says whether it is new, and remembers it.
    pub(super) fn add(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > TOLD_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

/// Events as the daemon tells them.
pub(super) struct Remote {
    host: Arc<Host>,
    client: Client,
    params: SubscribeParams,
    /// Never woken: it only compares.
    own: Watcher,
    told: Told,
    waiting: VecDeque<Word>,
    end: End,
}

impl Remote {
    /// Listens to the daemon, which is started where none runs. `None` where it sees another world.
    pub(super) fn begin(
        host: &Arc<Host>,
        params: SubscribeParams,
        from: Option<Time>,
        end: End,
    ) -> Result<Option<Self>, Failure> {
        let (client, _) = start::ensure(host)?;
        if client.welcome.fingerprint != crate::client::fingerprint(host) {
            return Ok(None);
        }
        let mut own = Watcher::asleep(Arc::clone(host), ALL)?;
        let _baseline = own.look();
        let mut remote = Self {
            host: Arc::clone(host),
            client,
            params,
            own,
            told: Told::default(),
            waiting: VecDeque::new(),
            end,
        };
        if remote.subscribe().is_err() {
            remote.again()?;
        }
        // Listened first, remembered second: what ends in between has the same id both times.
        for event in from.into_iter().flat_map(|from| replay::since(host, ALL, from)) {
            remote.told.add(&event.id);
            remote.waiting.push_back(Word::Event(Box::new(event)));
        }
        Ok(Some(remote))
    }

    fn subscribe(&mut self) -> Result<(), Silence> {
        let stream = self.client.handle().map_err(Silence::Broken)?;
        self.end.does(move || {
            let _gone = stream.shutdown(Shutdown::Both);
        });
        let _yes: serde_json::Value =
            self.client.call("events.subscribe", &self.params, PATIENT)?;
        Ok(())
    }

    /// Listens to the next daemon, and finds out what nobody told in between.
    fn again(&mut self) -> Result<(), Failure> {
        while !self.end.is_over() {
            self.client = start::ensure(&self.host)?.0;
            if self.subscribe().is_ok() {
                break;
            }
            std::thread::park_timeout(BREATH);
        }
        for event in self.own.look().events {
            if self.params.admits(event.kind, event.adapter) && self.told.add(&event.id) {
                self.waiting.push_back(Word::Event(Box::new(event)));
            }
        }
        Ok(())
    }

    /// Takes in one line.
    fn hear(&mut self, line: &[u8]) {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(line) else { return };
        let Some(params) = said.params else { return };
        match said.method {
            Some("event") => {
                let named = serde_json::from_str::<Named>(params.get());
                if named.is_ok_and(|named| self.told.add(&named.id)) {
                    self.waiting.push_back(Word::Line(params.get().to_owned()));
                }
            }
            Some("lost") => {
                let lost = serde_json::from_str::<Lost>(params.get()).map_or(0, |lost| lost.count);
                let text = format!("{lost} events came faster than they were read, and are lost");
                self.waiting.push_back(Word::Trouble(text));
            }
            _ => {}
        }
    }
}

impl Iterator for Remote {
    type Item = Result<Word, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.end.is_over() {
                return None;
            }
            if let Some(word) = self.waiting.pop_front() {
                return Some(Ok(word));
            }
            match self.client.line(Some(IDLE)) {
                Ok(line) => self.hear(&line),
                // Nothing happened: the look to compare with may grow old with us.
                Err(Silence::Mute) => drop(self.own.look()),
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
