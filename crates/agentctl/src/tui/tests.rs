//! The state as data, and frames as text.

mod asks;
mod frames;
mod lists;
mod notices;
mod questions;

use std::path::Path;
use std::sync::Arc;

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::kernel::Kernel;
use agentctl_core::model::{Ask, Session, Time};
use serde_json::{Value, json};

use super::app::{Action, App, Clock, Look, Message, TopRow};
use super::keys::Key;
use crate::session_table::{ListWidths, ListedRow};

pub(super) const NOW_MS: i64 = 1_800_000_000_000;

pub(super) fn at(ms: i64) -> Time {
    Time::from_millis(ms).expect("a time")
}

pub(super) fn session(id: &str, status: &str, minutes: i64, title: &str) -> Session {
    let adapter = if id.starts_with('0') { "codex" } else { "claude-code" };
    let reason = match status {
        "waiting" => json!({"kind": "permission", "detail": "Bash: npm test", "until": null}),
        _ => Value::Null,
    };
    serde_json::from_value(json!({
        "id": id, "adapter": adapter, "root": "/home/ada/.claude", "foreign_home": false,
        "native_key": null, "status": status, "reason": reason, "outcome": null, "pid": 42,
        "processes": [], "hosted": false, "cwd": "/home/ada/shop", "model": null, "title": title,
        "name": null, "prompt": null, "started_at": null,
        "last_activity_at": at(NOW_MS - minutes * 60_000), "ended_at": null, "exit": null,
        "ended_by": null, "tokens": null, "cost_usd": null, "group": null, "run": null,
        "parent": null, "notes": [], "evidence": [],
    }))
    .expect("a session")
}

pub(super) fn ask(id: &str, session: &str, command: &str) -> Ask {
    serde_json::from_value(json!({
        "id": id, "adapter": "claude-code", "root": "/home/ada/.claude", "session_id": session,
        "pid": 42, "kind": "permission", "title": "Bash: npm test", "cwd": "/home/ada/shop",
        "tool": null, "parts": [{"kind": "command", "text": command, "cut": false}], "fields": [],
        "choices": [
            {"key": "allow", "label": "allow once", "rule": null, "scope": "once"},
            {"key": "deny", "label": "deny", "rule": null, "scope": "once"},
            {"key": "always:1", "label": "always", "rule": "Bash(npm test:*)", "scope": "project"},
        ],
        "via": "socket", "why_not": null, "since": at(NOW_MS - 120_000), "until": null,
        "then": null, "evidence": [],
    }))
    .expect("an ask")
}

pub(super) fn look(sessions: &[Session], asks: Vec<Ask>) -> Look {
    let kernel = Kernel::open().expect("a kernel");
    let host = Arc::new(Host::new("/home/ada", kernel, || at(NOW_MS)));
    let rows = ListedRow::all(&host, &Rows::of(sessions));
    Look {
        widths: ListWidths::of(&rows),
        rows: rows.into_iter().map(TopRow::new).collect(),
        asks,
        warnings: Vec::new(),
    }
}

/// The state with a clock that tests move.
pub(super) struct Desk {
    pub(super) app: App,
    pub(super) ms: u64,
}

impl Desk {
    pub(super) fn new(size: (u16, u16)) -> Self {
        Self { app: App::new(size, Path::new("/home/ada"), at(NOW_MS)), ms: 0 }
    }

    pub(super) fn tell(&mut self, message: Message) -> Vec<Action> {
        self.app.update(message, Clock { ms: self.ms, now: at(NOW_MS) })
    }

    pub(super) fn look(&mut self, sessions: &[Session], asks: Vec<Ask>) -> Vec<Action> {
        self.tell(Message::Look(Box::new(look(sessions, asks))))
    }

    pub(super) fn press(&mut self, key: Key) -> Vec<Action> {
        self.tell(Message::Key(key))
    }

    pub(super) fn type_keys(&mut self, text: &str) -> Vec<Action> {
        text.chars().flat_map(|c| self.press(Key::Char(c))).collect()
    }

    pub(super) fn notice(&self) -> String {
        self.app.notice.as_ref().map(|notice| notice.lines.join(" ")).unwrap_or_default()
    }
}

pub(super) const WAITING: &str = "3e1adddb-0000-4000-8000-000000000001";
pub(super) const OTHER: &str = "77aa01c2-0000-4000-8000-000000000002";
