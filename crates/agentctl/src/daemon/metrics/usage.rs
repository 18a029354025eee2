//! What a session has used is asked when it has ended: a look at its whole file, on a thread of its own.
//!
//! A session that ends again has used more since; only that is added. What was added for whom is known of
//! the last thousand, as part of the counters and as short-lived as they are: who is forgotten and ends
//! again is counted as a whole.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use agentctl_core::adapters::ALL;
use agentctl_core::fleet;
use agentctl_core::host::Host;
use agentctl_core::model::{Session, Target, Tokens};

use super::{Counted, lock, table};

/// So many ends wait at most.
const WAITING_MOST: usize = 256;
/// Of so many sessions it is known what was added.
const KNOWN_MOST: usize = 1024;

/// Asks what ended sessions have used.
pub(super) struct Usage {
    ends: SyncSender<Target>,
    counted: Arc<Mutex<Counted>>,
}

impl Usage {
    /// Starts the thread. It sleeps until a session ends.
    pub(super) fn start(host: Arc<Host>, counted: Arc<Mutex<Counted>>) -> io::Result<Self> {
        let (ends, waiting) = sync_channel(WAITING_MOST);
        let mut clerk = Clerk { host, counted: Arc::clone(&counted), known: VecDeque::new() };
        std::thread::Builder::new().name("usage".into()).spawn(move || clerk.work(&waiting))?;
        Ok(Self { ends, counted })
    }

    /// Has it asked what this one has used. Never blocks: one too many is counted as unknown.
    pub(super) fn ask(&self, session: &Session) {
        if self.ends.try_send(session.target()).is_err() {
            lock(&self.counted).samples.add(&table::UNCOUNTED, &[session.adapter.into()], 1);
        }
    }
}

/// What was added for one session.
struct Added {
    key: (&'static str, String, String),
    tokens: Tokens,
    cost: f64,
}

struct Clerk {
    host: Arc<Host>,
    counted: Arc<Mutex<Counted>>,
    known: VecDeque<Added>,
}

impl Clerk {
    fn work(&mut self, waiting: &Receiver<Target>) {
        while let Ok(target) = waiting.recv() {
            let session = fleet::inspect(&self.host, ALL, &target).session;
            self.add(&target, session.as_ref());
        }
    }

    /// Adds what was used since it last ended.
    fn add(&mut self, target: &Target, session: Option<&Session>) {
        let tokens = session.and_then(|s| s.tokens);
        let cost = session.and_then(|s| s.cost_usd).filter(|cost| cost.is_finite());
        let before = self.take(target);
        let mut counted = lock(&self.counted);
        if tokens.is_none() {
            counted.samples.add(&table::UNCOUNTED, &[target.adapter.into()], 1);
        }
        let model = session.and_then(|s| s.model.as_deref()).unwrap_or("unknown");
        let model = counted.models.name(model);
        let now = tokens.unwrap_or(before.tokens);
        for (kind, now, before) in [
            ("input", now.input, before.tokens.input),
            ("output", now.output, before.tokens.output),
            ("cache_read", now.cache_read, before.tokens.cache_read),
            ("cache_write", now.cache_write, before.tokens.cache_write),
        ] {
            let labels = [target.adapter.into(), model.clone(), kind.into()];
            if tokens.is_some() {
                counted.samples.add(&table::TOKENS, &labels, now.saturating_sub(before));
            }
        }
        if let Some(cost) = cost {
            let more = (cost - before.cost).max(0.0);
            counted.samples.add_amount(&table::COST, &[target.adapter.into(), model], more);
        }
        drop(counted);
        let cost = cost.unwrap_or(before.cost);
        self.known.push_back(Added { tokens: now, cost, ..before });
    }

    /// Returns what was added for a session so far.
    fn take(&mut self, target: &Target) -> Added {
        let id = target.session.as_ref().map(|s| s.id.clone()).unwrap_or_default();
        let key = (target.adapter, target.root.clone(), id);
        let at = self.known.iter().rposition(|added| added.key == key);
        if let Some(added) = at.and_then(|at| self.known.remove(at)) {
            return added;
        }
        if self.known.len() == KNOWN_MOST {
            self.known.pop_front();
        }
        Added { key, tokens: Tokens::default(), cost: 0.0 }
    }
}
