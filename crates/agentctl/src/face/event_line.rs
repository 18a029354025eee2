//! An event as one line for people.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::fleet::shortened;
use agentctl_core::host::Host;
use agentctl_core::model::Session;
use anstyle::{AnsiColor, Style};

use super::{
    ask_summary, fuse_actions, fuse_name, holder_text, id_or_pid, local_clock, local_minute,
    session_reason,
};
use crate::text::{columns, fit, one_line, with_tilde};
use crate::ui::{Canvas, Ui};

/// A shortened id is used again for this long. To shorten an id, the ids of all history are read.
const SHORT_ID_LIFETIME: Duration = Duration::from_secs(10);
/// The longest type without `session.`: `fuse.cancelled`.
const KIND_WIDTH: usize = 14;

/// Events as lines for people. Session ids are shortened as in `agentctl list`, so that every command accepts them.
pub struct EventLines {
    fleet: Fleet,
    short_ids: HashMap<String, (Instant, String)>,
}

impl EventLines {
    /// Returns the lines of the events of a fleet.
    #[must_use]
    pub fn new(fleet: &Fleet) -> Self {
        Self { fleet: fleet.clone(), short_ids: HashMap::new() }
    }

    /// Returns an event as one line that fits the width: time, type, name, agent, session, directory,
    /// details.
    pub fn line(&mut self, canvas: Canvas, event: &Event) -> String {
        let id = event.session.as_ref().and_then(|session| session.id.as_deref());
        let short_id = id.map(|id| self.short_id(id));
        line(canvas, &self.fleet.host, event, short_id.as_deref())
    }

    fn short_id(&mut self, id: &str) -> String {
        self.short_ids.retain(|_, (at, _)| at.elapsed() < SHORT_ID_LIFETIME);
        if let Some((_, short)) = self.short_ids.get(id) {
            return short.clone();
        }
        let short = shortened(&self.fleet, &[id]).pop().unwrap_or_else(|| id.to_owned());
        self.short_ids.insert(id.to_owned(), (Instant::now(), short.clone()));
        short
    }
}

fn line(canvas: Canvas, host: &Host, event: &Event, short_id: Option<&str>) -> String {
    let now = host.now();
    let is_today = local_minute(event.at).get(..10) == local_minute(now).get(..10);
    let at = if is_today { local_clock(event.at) } else { local_minute(event.at) };
    let kind = event.kind.word();
    let kind = kind.strip_prefix("session.").unwrap_or(kind);
    let late = if event.late { " (late)" } else { "" };
    let rest = one_line(&format!("{}{late}", details(host, event, short_id)));
    let used = columns(&at) + KIND_WIDTH + 4;
    let rest = match canvas.width {
        Some(width) => fit(&rest, width.saturating_sub(used).max(1)),
        None => rest,
    };
    let mut line = format!("{at}  ");
    canvas.paint_onto(&mut line, style(event), &format!("{kind:<KIND_WIDTH$}"));
    line.push_str("  ");
    line.push_str(&rest);
    line
}

fn style(event: &Event) -> Style {
    let session = event.session.as_ref().filter(|_| event.lock.is_none() && event.fuse.is_none());
    match session {
        Some(session) => Ui::status_style(session.status),
        None => AnsiColor::Blue.on_default(),
    }
}

fn details(host: &Host, event: &Event, short_id: Option<&str>) -> String {
    if let (Some(ask), EventKind::AskOpened | EventKind::AskSettled) = (&event.ask, event.kind) {
        let directory = ask.cwd.as_deref().map(|cwd| with_tilde(&host.home, cwd));
        let directory = directory.unwrap_or_else(|| "-".to_owned());
        return format!("{} {} {directory} {}", ask.short_id(), ask.adapter, ask_summary(ask));
    }
    match (&event.lock, &event.fuse, &event.session) {
        (Some(lock), ..) => {
            let directory = with_tilde(&host.home, &lock.directory);
            format!("{directory}: {}", holder_text(&lock.holder))
        }
        (None, Some(fuse), _) => {
            format!("{}; on expiry: {}", fuse_name(host, fuse), fuse_actions(fuse))
        }
        (None, None, Some(session)) => about_session(host, session, short_id),
        (None, None, None) => event.session_id.clone().unwrap_or_default(),
    }
}

fn about_session(host: &Host, session: &Session, short_id: Option<&str>) -> String {
    let id = id_or_pid(short_id, session.pid);
    let directory = session.cwd.as_deref().map(|cwd| with_tilde(&host.home, cwd));
    let outcome = session.outcome.map(|outcome| outcome.word().to_owned());
    let state = session_reason(session).or(outcome);
    let what: Vec<String> = [state, session.title.clone()].into_iter().flatten().collect();
    let directory = directory.unwrap_or_else(|| "-".to_owned());
    let name = session.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
    format!("{name}{} {id} {directory} {}", session.adapter, what.join(" · "))
}
