//! An event as one line for people.

use agentctl_core::events::{Event, EventKind};
use agentctl_core::host::Host;
use agentctl_core::model::Session;
use anstyle::{AnsiColor, Style};

use super::{
    ask_summary, fuse_actions, fuse_name, holder_text, local_clock, local_minute, session_reason,
};
use crate::text::{columns, fit, one_line, with_tilde};
use crate::ui::{Canvas, Ui};

/// Number of characters of a session id. Two sessions of one agent that begin in the same minute may share the
/// first eight; thirteen contain the whole time of an id that begins with a time.
const ID_CHARS: usize = 13;
/// The longest type without `session.`: `fuse.cancelled`.
const KIND_WIDTH: usize = 14;

/// Returns an event as one line that fits the width: time, type, agent, session, directory, details.
#[must_use]
pub fn event_line(canvas: Canvas, host: &Host, event: &Event) -> String {
    let now = host.now();
    let is_today = local_minute(event.at).get(..10) == local_minute(now).get(..10);
    let at = if is_today { local_clock(event.at) } else { local_minute(event.at) };
    let kind = event.kind.word();
    let kind = kind.strip_prefix("session.").unwrap_or(kind);
    let late = if event.late { " (late)" } else { "" };
    let rest = one_line(&format!("{}{late}", details(host, event)));
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

fn details(host: &Host, event: &Event) -> String {
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
        (None, Some(fuse), _) => format!("{}; then {}", fuse_name(host, fuse), fuse_actions(fuse)),
        (None, None, Some(session)) => about_session(host, session),
        (None, None, None) => event.session_id.clone().unwrap_or_default(),
    }
}

fn about_session(host: &Host, session: &Session) -> String {
    let id = match (&session.id, session.pid) {
        (Some(id), _) => id.get(..ID_CHARS).unwrap_or(id).to_owned(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "-".to_owned(),
    };
    let directory = session.cwd.as_deref().map(|cwd| with_tilde(&host.home, cwd));
    let outcome = session.outcome.map(|outcome| outcome.word().to_owned());
    let state = session_reason(session).or(outcome);
    let title = session.name.clone().or_else(|| session.title.clone());
    let what: Vec<String> = [state, title].into_iter().flatten().collect();
    let directory = directory.unwrap_or_else(|| "-".to_owned());
    format!("{} {id} {directory} {}", session.adapter, what.join(" · "))
}
