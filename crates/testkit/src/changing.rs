//! The values in the program's output that differ from run to run: ids, pids, ages, times, sizes.

/// The kind of a value that differs from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changing {
    /// A session, run or fuse id, or the beginning of one: at least 8 hexadecimal digits.
    Id,
    /// A process id.
    Pid,
    /// The start time of a process in clock ticks.
    Tick,
    /// A span: `3s`, `20m`, `2h`.
    Age,
    /// A date, with or without a time: `2026-11-16`, `2026-11-16T14:57:30.750Z`.
    Date,
    /// A time of day.
    Clock,
    /// The number before a unit of bytes.
    Size,
}

/// Replaces every changing value of a text by what `replacement` returns for it.
pub fn replace_changing(
    text: &str,
    mut replacement: impl FnMut(Changing, &str) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = word_end(rest);
        if end == 0 {
            let next = sequence_end(rest);
            out.push_str(&rest[..next]);
            rest = &rest[next..];
            continue;
        }
        let (word, after) = rest.split_at(end);
        match kind(&out, word, after) {
            Some(kind) => out.push_str(&replacement(kind, word)),
            None => out.push_str(word),
        }
        rest = after;
    }
    out
}

/// Returns the length of the escape sequence or character at the beginning of a text.
fn sequence_end(text: &str) -> usize {
    if text.starts_with("\u{1b}[") {
        return text.find(|c: char| c.is_ascii_alphabetic()).map_or(text.len(), |at| at + 1);
    }
    text.chars().next().map_or(1, char::len_utf8)
}

/// Returns the length of the word at the beginning of a text. A colon or dot between digits is part of it.
fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let is_part = |at: usize| match bytes[at] {
        b'-' => at > 0,
        b':' | b'.' => digit(at.checked_sub(1)) && digit(at.checked_add(1)),
        byte => byte.is_ascii_alphanumeric(),
    };
    (0..bytes.len()).find(|at| !is_part(*at)).unwrap_or(bytes.len())
}

fn kind(before: &str, word: &str, after: &str) -> Option<Changing> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        let before = before.trim_end();
        let follows = |label: &str| before.ends_with(label);
        let sized = ["B", "KB", "MB"].iter().any(|unit| {
            after
                .strip_prefix(' ')
                .and_then(|a| a.strip_prefix(unit))
                .is_some_and(|a| !a.starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        return match () {
            () if follows("tick") => Some(Changing::Tick),
            () if follows("pid") || follows("process") || follows("live/") => Some(Changing::Pid),
            () if sized => Some(Changing::Size),
            // The beginning of an id that happens to have no letter.
            () if word.len() == 8 => Some(Changing::Id),
            () => None,
        };
    }
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    if shape.starts_with("9999-99-99") {
        return Some(Changing::Date);
    }
    if ["99:99", "99:99:99"].contains(&shape.as_str()) {
        return Some(Changing::Clock);
    }
    let first = word.split('-').next().unwrap_or(word);
    let is_hex =
        |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if matches!(first.len(), 8 | 32) && word.split('-').all(is_hex) {
        return Some(Changing::Id);
    }
    let unit = shape.trim_start_matches('9');
    (unit != shape && ["ms", "s", "m", "h", "d"].contains(&unit)).then_some(Changing::Age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_replaced_and_everything_else_stays() {
        let text = "pid           12, process 749, live/13.json (it began at tick 4695327)\n\
            demo:9181225b-ad80-426c-aaf2-9be09c8a271c 91812250 9181225b-ad80 \u{1b}[32mrunning\u{1b}[0m 3s\n\
            10\n\u{1b}[H15:20:08 214 tests, exit 143, 1 KB, 20 Book, 15:09:23 2026-11-16 17:09 UTC (2026-11-16T14:58:45.756Z)";
        let replaced = replace_changing(text, |kind, _| format!("<{kind:?}>"));
        assert_eq!(
            replaced,
            "pid           <Pid>, process <Pid>, live/<Pid>.json (it began at tick <Tick>)\n\
            demo:<Id> <Id> <Id> \u{1b}[32mrunning\u{1b}[0m <Age>\n\
            10\n\u{1b}[H<Clock> 214 tests, exit 143, <Size> KB, 20 Book, <Clock> <Date> <Clock> UTC (<Date>)"
        );
    }
}
