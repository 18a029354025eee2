//! Reading a conversation: its last messages, then what is appended, in one shape for every agent.
//!
//! Only whole lines are read and each only once: a follower remembers the offset behind the last one
//! and waits for the kernel's file events in between. Where no file holds a conversation its store is
//! asked for all of it, and what was told before is passed over.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::adapters::{Adapter, Conversation, Found};
use crate::fleet::{Adapters, each_adapter, written};
use crate::host::Host;
use crate::model::{Locator, Message, Role, Target};
use crate::native::watch::Watch;
use crate::native::{file, jsonl};

/// How far back the last messages are looked for.
const TAIL_BYTES: u64 = 64 << 20;

/// Why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The agent has written none yet.
    #[error("it has not written a conversation yet")]
    Unwritten,
    /// It may lie where we could not look.
    #[error("its conversation may lie where we could not look: {0}")]
    Hidden(String),
    /// The file cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
}

/// A place in one conversation.
pub struct Transcript {
    adapter: &'static dyn Adapter,
    path: PathBuf,
    uid: u32,
    /// How far it was read: bytes of a file, or lines of what a store told.
    end: u64,
    counted: HashSet<String>,
    /// Where no file holds the conversation: whom to ask for it.
    kept: Option<Kept>,
}

/// A conversation that only its store can tell.
struct Kept {
    host: Arc<Host>,
    adapters: Adapters,
    target: Target,
}

impl Transcript {
    /// Finds the file of a session's conversation.
    pub fn open(
        host: &Arc<Host>,
        adapters: Adapters,
        target: &Target,
    ) -> Result<Self, TranscriptError> {
        let wanted = target.clone();
        let found = each_adapter(host, adapters, host.deadlines.all, move |adapter, look| {
            let mut found = Found::default();
            if let (true, Some(locator)) = (adapter.name() == wanted.adapter, &wanted.session) {
                for root in adapter.roots(look).iter().filter(|r| r.label() == wanted.root) {
                    let store = adapter.store(look, root);
                    let lies = written(store.as_ref(), locator);
                    let kept = |l: &Locator| store.conversation(l).is_some();
                    let kept = lies.rows.first().is_some_and(kept);
                    let paths = lies.rows.into_iter().filter_map(|l| l.path);
                    found.rows.extend(paths.map(|path| (path, kept)));
                    found.faults.extend(lies.faults);
                }
            }
            found
        });
        let hidden = found.faults.first().map(|f| f.message.clone());
        let (path, kept) = found.rows.into_iter().next().ok_or(match hidden {
            Some(why) => TranscriptError::Hidden(why),
            None => TranscriptError::Unwritten,
        })?;
        let adapter = adapters.iter().find(|a| a.name() == target.adapter);
        let adapter = *adapter.ok_or(TranscriptError::Unwritten)?;
        let kept = kept.then(|| Kept { host: Arc::clone(host), adapters, target: target.clone() });
        let (uid, counted) = (host.kernel.uid(), HashSet::new());
        Ok(Self { adapter, path, uid, end: 0, counted, kept })
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the last `count` messages and moves to the end.
    pub fn last(&mut self, count: usize) -> Result<Vec<Message>, TranscriptError> {
        let mut newest_first: Vec<Vec<Message>> = Vec::new();
        let mut have = 0;
        self.back(&mut |adapter, line| {
            let messages = adapter.messages(line);
            have += messages.iter().filter(|m| !is_bare_usage(m)).count();
            newest_first.push(messages);
            have < count
        })?;
        let ordered = newest_first.into_iter().rev().flatten().collect();
        let mut messages = self.settle(ordered);
        messages.drain(..messages.len().saturating_sub(count));
        Ok(messages)
    }

    /// Returns the messages appended since the last call.
    pub fn more(&mut self) -> Result<Vec<Message>, TranscriptError> {
        let mut messages = Vec::new();
        self.forward(&mut |adapter, line| messages.extend(adapter.messages(line)))?;
        Ok(self.settle(messages))
    }

    /// Returns the last `count` native lines as they are and moves to the end.
    pub fn last_raw(&mut self, count: usize) -> Result<Vec<Vec<u8>>, TranscriptError> {
        let mut lines = Vec::new();
        self.back(&mut |_, line| {
            lines.push(line.to_vec());
            lines.len() < count
        })?;
        lines.truncate(count);
        lines.reverse();
        Ok(lines)
    }

    /// Returns the native lines appended since the last call.
    pub fn more_raw(&mut self) -> Result<Vec<Vec<u8>>, TranscriptError> {
        let mut lines = Vec::new();
        self.forward(&mut |_, line| lines.push(line.to_vec()))?;
        Ok(lines)
    }

    /// Begins to watch for appended lines.
    pub fn watch(&self) -> Result<Watch, TranscriptError> {
        Watch::directories(self.path.parent()).map_err(|e| self.unreadable(&e))
    }

    fn back(
        &mut self,
        visit: &mut dyn FnMut(&'static dyn Adapter, &[u8]) -> bool,
    ) -> Result<(), TranscriptError> {
        let adapter = self.adapter;
        if let Some(kept) = &self.kept {
            let lines = kept.lines().map_err(|e| self.unreadable(&e))?;
            self.end = lines.len() as u64;
            // The newest first, until there are enough.
            let _enough = lines.iter().rev().all(|line| visit(adapter, line));
            return Ok(());
        }
        let opened = file::open(&self.path, self.uid).map_err(|e| self.unreadable(&e))?;
        let mut end = None;
        let read =
            jsonl::tail_from(&opened.file, opened.size, 64 << 10, TAIL_BYTES, &mut |at, line| {
                end.get_or_insert(at + line.len() as u64 + 1);
                if visit(adapter, line) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        self.end = end.unwrap_or(0);
        read.map(drop).map_err(|e| self.unreadable(&e))
    }

    fn forward(
        &mut self,
        visit: &mut dyn FnMut(&'static dyn Adapter, &[u8]),
    ) -> Result<(), TranscriptError> {
        if let Some(kept) = &self.kept {
            let lines = kept.lines().map_err(|e| self.unreadable(&e))?;
            // Fewer than before: somebody took back what was said.
            let known = usize::try_from(self.end).unwrap_or(usize::MAX);
            for line in lines.iter().skip(known) {
                visit(self.adapter, line);
            }
            self.end = lines.len() as u64;
            return Ok(());
        }
        let opened = file::open(&self.path, self.uid).map_err(|e| self.unreadable(&e))?;
        if opened.size < self.end {
            // Rewritten from the start: everything in it is new.
            self.end = 0;
        }
        let adapter = self.adapter;
        let pass = jsonl::lines(&opened.file, self.end, &mut |line| visit(adapter, line));
        self.end = pass.map_err(|e| self.unreadable(&e))?.end;
        Ok(())
    }

    /// Joins lone usage to the message before it, and gives usage once per message id.
    fn settle(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let mut settled: Vec<Message> = Vec::with_capacity(messages.len());
        for mut message in messages {
            if is_bare_usage(&message) {
                let before = settled.iter_mut().rev().find(|m| m.role == Role::Assistant);
                if let Some(before) = before.filter(|m| m.usage.is_none()) {
                    before.usage = message.usage;
                }
                continue;
            }
            if let (Some(_), Some(id)) = (&message.usage, &message.id)
                && !self.counted.insert(id.clone())
            {
                message.usage = None;
            }
            settled.push(message);
        }
        settled
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> TranscriptError {
        TranscriptError::Unreadable { path: self.path.display().to_string(), why: why.to_string() }
    }
}

impl Kept {
    /// Asks for the whole conversation.
    fn lines(&self) -> Result<Vec<Vec<u8>>, String> {
        let wanted = self.target.clone();
        let limit = self.host.deadlines.all;
        let mut found = each_adapter(&self.host, self.adapters, limit, move |adapter, look| {
            let mut found = Found::default();
            if let (true, Some(locator)) = (adapter.name() == wanted.adapter, &wanted.session) {
                for root in adapter.roots(look).iter().filter(|r| r.label() == wanted.root) {
                    match adapter.store(look, root).conversation(locator) {
                        Some(Ok(conversation)) => found.rows.push(conversation),
                        Some(Err(fault)) => found.faults.push(fault),
                        None => {}
                    }
                }
            }
            found
        });
        match (found.rows.pop(), found.faults.first()) {
            (Some(Conversation { lines, .. }), _) => Ok(lines),
            (None, Some(fault)) => Err(fault.message.clone()),
            (None, None) => Err("it is not there any more".into()),
        }
    }
}

fn is_bare_usage(message: &Message) -> bool {
    message.usage.is_some()
        && message.text.is_none()
        && message.tool_calls.is_empty()
        && message.tool_results.is_empty()
}
