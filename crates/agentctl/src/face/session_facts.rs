//! Facts of one session in words: who ended it, how long it ran, large numbers.

use agentctl_core::model::{EndedBy, EndedByKind, LaunchedBy};

/// Returns the agent that launched a session: `codex 0199c1d2 (depth 1)`.
#[must_use]
pub fn launched_by_text(by: &LaunchedBy) -> String {
    let name = match (&by.adapter, &by.id) {
        (Some(adapter), Some(id)) => format!("{adapter} {id}"),
        _ => "an agent whose session was not known".to_owned(),
    };
    format!("{name} (depth {})", by.depth)
}

/// Returns who or what ended a session, in a few words.
#[must_use]
pub fn ended_by_text(by: &EndedBy) -> String {
    let in_brackets = by.detail.as_ref().map(|d| format!(" ({d})")).unwrap_or_default();
    match by.kind {
        EndedByKind::Fuse => by.detail.clone().unwrap_or_else(|| "a fuse".to_owned()),
        EndedByKind::Stop => by.detail.clone().unwrap_or_else(|| "agentctl stop".to_owned()),
        EndedByKind::Signal => {
            let signal = by.detail.as_deref().unwrap_or("a signal");
            format!("{signal}, sent by another program")
        }
        EndedByKind::Itself => format!("itself{in_brackets}"),
        EndedByKind::Unknown => format!("unknown{in_brackets}"),
    }
}

/// Returns a number with a comma between groups of three digits: `12,345`.
#[must_use]
pub fn grouped_number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a duration with its two largest units: `2h 05m`.
#[must_use]
pub fn span_text(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {:02}s", seconds % 60),
        3600..86400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let shown = [0, 12, 999, 1000, 12345, 1_234_567].map(grouped_number);
        assert_eq!(shown, ["0", "12", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_duration_has_its_two_largest_units() {
        let shown = [0, 59, 60, 3599, 3600, 90_000].map(span_text);
        assert_eq!(shown, ["0s", "59s", "1m 00s", "59m 59s", "1h 00m", "1d 01h"]);
    }
}
