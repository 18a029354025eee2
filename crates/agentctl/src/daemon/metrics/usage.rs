//! Counts the tokens and cost of ended sessions. That reads the whole file of a session, so it happens on a
//! thread of its own.
//!
//! When a session is resumed and ends again, only the difference is added. For that, the figures of the most
//! recent sessions are kept in memory; a session that was dropped from them is counted in full again.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use agentctl_core::fleet::{self, Fleet};
use agentctl_core::model::{Session, Target, Tokens};

use super::{Counted, lock, table};

/// Maximum number of ended sessions that wait to be counted.
const MAX_WAITING: usize = 256;
/// Maximum number of sessions whose counted figures are remembered.
const MAX_REMEMBERED: usize = 1024;

/// A handle to the thread that counts usage.
pub(super) struct Usage {
    ends: SyncSender<Target>,
    counted: Arc<Mutex<Counted>>,
}

impl Usage {
    /// Starts the thread. It sleeps until a session ends.
    pub(super) fn start(fleet: Fleet, counted: Arc<Mutex<Counted>>) -> io::Result<Self> {
        let (ends, waiting) = sync_channel(MAX_WAITING);
        let mut thread =
            UsageThread { fleet, counted: Arc::clone(&counted), remembered: VecDeque::new() };
        std::thread::Builder::new().name("usage".into()).spawn(move || thread.work(&waiting))?;
        Ok(Self { ends, counted })
    }

    /// Queues an ended session. Never blocks: when the queue is full, the session counts as unknown usage.
    pub(super) fn ask(&self, session: &Session) {
        if self.ends.try_send(session.target()).is_err() {
            lock(&self.counted).samples.add(&table::UNCOUNTED, &[session.adapter.into()], 1);
        }
    }
}

/// The figures counted so far for one session.
struct CountedUsage {
    key: (&'static str, String, String),
    tokens: Tokens,
    cost: f64,
}

struct UsageThread {
    fleet: Fleet,
    counted: Arc<Mutex<Counted>>,
    remembered: VecDeque<CountedUsage>,
}

impl UsageThread {
    fn work(&mut self, waiting: &Receiver<Target>) {
        while let Ok(target) = waiting.recv() {
            let session = fleet::inspect(&self.fleet, &target).session;
            self.add(&target, session.as_ref());
        }
    }

    /// Adds the usage since the session last ended.
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
        self.remembered.push_back(CountedUsage { tokens: now, cost, ..before });
    }

    /// Takes out the figures counted so far for a session.
    fn take(&mut self, target: &Target) -> CountedUsage {
        let id = target.session.as_ref().map(|s| s.id.clone()).unwrap_or_default();
        let key = (target.adapter, target.root.clone(), id);
        let at = self.remembered.iter().rposition(|usage| usage.key == key);
        if let Some(usage) = at.and_then(|at| self.remembered.remove(at)) {
            return usage;
        }
        if self.remembered.len() == MAX_REMEMBERED {
            self.remembered.pop_front();
        }
        CountedUsage { key, tokens: Tokens::default(), cost: 0.0 }
    }
}
