//! Facts that rule out that a process wrote the session which its directory and start time suggest.
//!
//! Pure. Nothing here proves that a process did write a session: a pair that is not ruled out is
//! inferred, shown as such, and no order acts on it. See docs/adr/0033-what-pi-does-not-say.md.

use crate::adapters::Turn;
use crate::model::Time;

/// Granularity, in seconds, of the kernel's time of a terminal's last output.
const TERMINAL_GRAIN_SECONDS: i64 = 8;
/// Shortest time in which a person sends a first prompt. `pi -p` sends its prompt as soon as it has
/// started: within 0.1 s, and always in less time than the start itself took.
const PERSON_MS: i64 = 250;

/// The kernel's facts about a process. A missing fact rules nothing out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// The bytes it has written since it began, of any kind.
    pub(super) written_bytes: Option<u64>,
    /// The second of the last output on its terminal; `None` if it has no terminal.
    pub(super) shown_seconds: Option<i64>,
    /// It has a child process.
    pub(super) has_child: bool,
    /// The second in which the kernel was asked.
    pub(super) now_seconds: i64,
}

/// The facts of a session file about the process that wrote it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The state of the last turn.
    pub(super) turn: Turn,
    /// The bytes that were added since the process began.
    pub(super) bytes: u64,
    /// The size of Pi's own prompt, which every request to the model repeats.
    pub(super) system_bytes: u64,
    /// The newest entry.
    pub(super) last: Option<Time>,
    /// For a session that began with the process: the duration of the start, and the time from then to
    /// its first prompt, in milliseconds.
    pub(super) start: Option<(i64, i64)>,
}

impl Trace {
    fn is_at_rest(&self) -> bool {
        !matches!(self.turn, Turn::Open { .. })
    }

    fn is_in_command(&self) -> bool {
        let Turn::Open { tool: Some(tool), .. } = &self.turn else { return false };
        tool == "bash" || tool.starts_with("bash:")
    }
}

/// Returns why this process cannot be, or need not be, the writer of that session.
pub(super) fn reason(process: Facts, session: &Trace) -> Option<&'static str> {
    // A finished turn has sent a request, which repeats Pi's own prompt.
    let request = if session.is_at_rest() { session.system_bytes } else { 0 };
    if process.written_bytes.is_some_and(|written| written < session.bytes + request) {
        return Some("it has written fewer bytes since its start than this session took");
    }
    let bucket = |seconds: i64| seconds.div_euclid(TERMINAL_GRAIN_SECONDS);
    if let Some(shown) = process.shown_seconds {
        let last = session.last.map_or(i64::MIN, |last| last.millis().div_euclid(1000));
        if bucket(shown) < bucket(last) {
            return Some("its terminal has shown nothing since this session was last written");
        }
        // While it works, its terminal output changes several times a second.
        if !session.is_at_rest() && bucket(shown) + 1 < bucket(process.now_seconds) {
            return Some("its terminal does not show that it works");
        }
    }
    if session.is_in_command() && !process.has_child {
        return Some("the session is in a command, and it has started none");
    }
    let at_once = |(start, wait): (i64, i64)| wait < PERSON_MS + 2 * start;
    if session.is_at_rest() && session.start.is_some_and(at_once) {
        return Some("the first prompt was sent at once, as `pi -p` does before it ends");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_794_795_840;

    fn finished() -> Trace {
        Trace {
            turn: Turn::Finished,
            bytes: 6_693,
            system_bytes: 5_484,
            last: Time::from_millis((START + 30) * 1000),
            start: Some((145, 3_000)),
        }
    }

    fn open(tool: Option<&str>) -> Trace {
        let tool = tool.map(str::to_owned);
        let turn = Turn::Open { tool, retrying: None, asks: None, doubt: None };
        Trace { turn, ..finished() }
    }

    fn terminal() -> Facts {
        Facts {
            written_bytes: Some(18_797),
            shown_seconds: Some(START + 30),
            has_child: false,
            now_seconds: START + 100,
        }
    }

    #[test]
    fn a_terminal_that_has_worked_is_not_ruled_out() {
        assert_eq!(reason(terminal(), &finished()), None);
        let working = Facts { now_seconds: START + 31, ..terminal() };
        assert_eq!(reason(working, &open(None)), None);
        assert_eq!(reason(Facts { has_child: true, ..working }, &open(Some("bash: make"))), None);
    }

    #[test]
    fn fewer_bytes_than_the_session_took_rule_a_process_out() {
        let few = |count| Facts { written_bytes: Some(count), ..terminal() };
        // A fresh terminal, as measured; enough for the file and not for the request.
        for count in [4_509, 8_603, 6_693 + 5_484 - 1] {
            assert!(reason(few(count), &finished()).is_some(), "{count}");
        }
        assert_eq!(reason(few(6_693 + 5_484), &finished()), None);
        // The request of an open turn may not have been sent yet.
        let now = Facts { now_seconds: START + 31, ..few(6_693) };
        assert_eq!(reason(now, &open(None)), None);
        assert!(reason(Facts { written_bytes: Some(6_692), ..now }, &open(None)).is_some());
    }

    #[test]
    fn a_terminal_that_was_still_when_the_session_was_written_is_ruled_out() {
        let still = Facts { shown_seconds: Some(START + 1), ..terminal() };
        assert!(reason(still, &finished()).is_some());
        // The kernel notes the time only every eight seconds.
        let soon = Trace { last: Time::from_millis((START + 7) * 1000), ..finished() };
        assert_eq!(reason(still, &soon), None);
        // An open turn changes the screen.
        let long_ago = Facts { now_seconds: START + 60, ..terminal() };
        assert!(reason(long_ago, &open(None)).is_some());
    }

    #[test]
    fn a_prompt_that_was_sent_at_once_may_be_that_of_a_process_which_has_ended() {
        let sent = |start| Trace { start: Some(start), ..finished() };
        // `pi -p` as it was measured, idle and on a loaded machine.
        for start in [(106, 12), (258, 91), (98, 13), (31, 28), (32, 50), (2_910, 910)] {
            assert!(reason(terminal(), &sent(start)).is_some(), "{start:?}");
        }
        for start in [(145, 1_000), (258, 3_160), (31, 400)] {
            assert_eq!(reason(terminal(), &sent(start)), None, "{start:?}");
        }
        // A session whose turn continues has not ended.
        let goes_on = Trace { start: Some((106, 12)), ..open(None) };
        assert_eq!(reason(Facts { now_seconds: START + 31, ..terminal() }, &goes_on), None);
    }

    #[test]
    fn a_command_without_a_child_process_rules_a_process_out() {
        let now = Facts { now_seconds: START + 31, ..terminal() };
        assert!(reason(now, &open(Some("bash: make"))).is_some());
        assert_eq!(reason(now, &open(Some("read: file"))), None);
    }

    #[test]
    fn facts_that_the_kernel_withholds_rule_nothing_out() {
        assert_eq!(reason(Facts::default(), &finished()), None);
    }
}
