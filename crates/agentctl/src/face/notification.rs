//! The text of a notification, and its form for a terminal: an escape sequence (OSC 9 or 777) and the bell.

use agentctl_core::events::{Event, EventKind};
use agentctl_core::host::Host;
use agentctl_core::model::{Outcome, Session};

use super::{answer_hint, ask_summary, session_reason};
use crate::text::{fit, one_line};

/// Maximum width of a line.
const MAX_COLUMNS: usize = 120;

/// The text of a notification: single lines without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationText {
    /// The agent and what happened.
    pub title: String,
    /// At most four lines: the ask or the reason, the session's name, its directory, the command that answers its ask.
    pub text: String,
}

impl NotificationText {
    /// Returns the text about an event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let session = event.session.as_ref();
        let who = event.adapter.unwrap_or("agentctl");
        let title = match event.kind {
            EventKind::Waiting | EventKind::AskOpened => format!("{who} needs you"),
            EventKind::Error => format!("{who} has failed"),
            EventKind::Stopped => format!("{who} {}", ended(session)),
            other => format!("{who}: {}", other.word()),
        };
        let place = session.and_then(|s| s.cwd.clone());
        let place = place.or_else(|| event.lock.as_ref().map(|l| l.directory.clone()));
        let place = place.or_else(|| event.fuse.as_ref().and_then(|f| f.directory.clone()));
        // The command answers this ask; the reason of the session may be another one of its asks.
        let detail = match &event.ask {
            Some(ask) => Some(ask_summary(ask)),
            None => session.and_then(session_reason),
        };
        let mut text = Self::with(title, detail, session, place);
        if let Some(ask) = &event.ask {
            text.add(&answer_hint(ask));
        }
        text
    }

    fn add(&mut self, line: &str) {
        let line = fit(&one_line(line), MAX_COLUMNS);
        self.text = if self.text.is_empty() { line } else { format!("{}\n{line}", self.text) };
    }

    /// Returns the text about a session that has begun to wait for a human.
    #[must_use]
    pub fn waiting(session: &Session) -> Self {
        let title = format!("{} needs you", session.adapter);
        Self::with(title, session_reason(session), Some(session), session.cwd.clone())
    }

    /// Returns the text that `agentctl notify test` sends.
    #[must_use]
    pub fn test() -> Self {
        let text = "This is a test of `agentctl notify test`.".to_owned();
        Self { title: "agentctl".to_owned(), text }
    }

    fn with(
        title: String,
        detail: Option<String>,
        session: Option<&Session>,
        place: Option<String>,
    ) -> Self {
        let called = session
            .and_then(|s| [&s.name, &s.title, &s.prompt].into_iter().flatten().next().cloned());
        let lines = [detail, called, place].into_iter().flatten();
        let lines: Vec<_> = lines.map(|line| fit(&one_line(&line), MAX_COLUMNS)).collect();
        Self { title, text: lines.join("\n") }
    }

    /// Returns title and text on one line.
    #[must_use]
    pub fn one_line(&self) -> String {
        let text = self.text.replace('\n', " · ");
        if text.is_empty() { self.title.clone() } else { format!("{}: {text}", self.title) }
    }
}

fn ended(session: Option<&Session>) -> &'static str {
    match session.and_then(|s| s.outcome) {
        Some(Outcome::Finished) => "has finished",
        Some(Outcome::Failed) => "has failed",
        Some(Outcome::Interrupted) => "was interrupted",
        Some(Outcome::Killed) => "was killed",
        Some(Outcome::Unknown) | None => "has stopped",
    }
}

/// Says whether the terminal of a command is notified of an event: a session needs a human, or has ended. The end
/// of a subagent needs no action of a person, and late events are history.
#[must_use]
pub fn is_notified(event: &Event) -> bool {
    let is_subagent = event.session.as_ref().is_some_and(|session| session.parent.is_some());
    let is_wanted = match event.kind {
        EventKind::Waiting => true,
        EventKind::Stopped | EventKind::Error => !is_subagent,
        _ => false,
    };
    is_wanted && !event.late
}

/// The escape sequence by which a terminal shows a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSequence {
    /// `OSC 9`, one text: most terminals that show notifications.
    Osc9,
    /// `OSC 777`, title and text: VTE, foot, rxvt, Ghostty.
    Osc777,
}

impl TerminalSequence {
    /// Chooses the sequence that the terminal of this environment knows. A terminal that knows neither ignores it.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let var = |name| host.var(name).unwrap_or_default();
        let knows_777 = ["rxvt", "foot"].iter().any(|name| var("TERM").starts_with(name))
            || var("TERM_PROGRAM") == "ghostty"
            || !var("VTE_VERSION").is_empty();
        if knows_777 { Self::Osc777 } else { Self::Osc9 }
    }

    /// Returns the bytes that make a terminal show a notification and ring its bell. The bell rings where the
    /// terminal ignores the sequence.
    #[must_use]
    pub fn bytes(self, text: &NotificationText) -> Vec<u8> {
        // A semicolon separates the parts of the sequence.
        let part = |text: &str| one_line(text).replace(';', ",");
        let sequence = match self {
            Self::Osc9 => format!("\x1b]9;{}\x1b\\", part(&text.one_line())),
            Self::Osc777 => {
                let body = text.text.replace('\n', " · ");
                format!("\x1b]777;notify;{};{}\x1b\\", part(&text.title), part(&body))
            }
        };
        format!("{sequence}\x07").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_of_an_agent_ends_the_sequence() {
        let hostile = "a\x07b\x1b\\c\u{9c}d\x1b]52;c;eA==\x07e\n\u{202e}f";
        let text = NotificationText { title: format!("t;{hostile}"), text: hostile.into() };
        for sequence in [TerminalSequence::Osc9, TerminalSequence::Osc777] {
            let bytes = String::from_utf8(sequence.bytes(&text)).expect("UTF-8");
            let inside = bytes.strip_prefix("\x1b]").and_then(|b| b.strip_suffix("\x1b\\\x07"));
            let inside = inside.expect("one sequence and the bell");
            assert!(!inside.contains(|c: char| c.is_control() || c == '\u{202e}'), "{inside:?}");
        }
        let bytes = String::from_utf8(TerminalSequence::Osc777.bytes(&text)).expect("UTF-8");
        assert_eq!(bytes.matches(';').count(), 3, "three separators: {bytes:?}");
    }
}
