//! Events as the daemon tells them. When it goes, another one is asked, and what happened in between is
//! found by comparing a look of our own with what was told.

use std::collections::{HashSet, VecDeque};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, Watcher, replay};
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

/// One line of the daemon.
#[derive(Deserialize)]
struct Said<'a> {
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Lost {
    count: u64,
}

/// The ids that were told already.
#[derive(Default)]
struct Ids {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Ids {
    /// Says whether it is new, and remembers it.
    fn add(&mut self, id: &str) -> bool {
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
    /// Never woken: it only compares, with what was told last.
    own: Watcher,
    told: Ids,
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
        own.look();
        let mut remote = Self {
            host: Arc::clone(host),
            client,
            params,
            own,
            told: Ids::default(),
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
        // What is not wanted must be known all the same: what follows from it may be wanted.
        let all = SubscribeParams::default();
        let _yes: serde_json::Value = self.client.call("events.subscribe", &all, PATIENT)?;
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
                let Ok(told) = serde_json::from_str::<Event>(params.get()) else { return };
                self.own.suppose(&told);
                if self.params.admits(told.kind, told.adapter) && self.told.add(&told.id) {
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
