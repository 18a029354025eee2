//! Changed places of a text, line by line: read from a unified diff, applied, and made by comparison.

use std::fmt::Write;

/// The line that says that the line above it has no newline.
const NO_NEWLINE: &str = "\\ No newline at end of file";
/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// One changed place, numbered as in a unified diff: without old lines, `old_start` is the line before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHunk {
    /// The first line before the change, counted from 1.
    pub old_start: u64,
    /// The first line after the change, counted from 1.
    pub new_start: u64,
    /// The lines, each with its mark (a space, `-`, `+` or `\`) and a newline.
    pub text: String,
}

impl LineHunk {
    /// Makes a hunk of marked lines; `None` if one of them has no mark or holds a newline, since it could
    /// then pass for the header of another file.
    pub fn of_lines<'a>(
        (old_start, new_start): (u64, u64),
        lines: impl Iterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut text = String::new();
        for line in lines {
            let line = if line.is_empty() { " " } else { line };
            if !line.starts_with([' ', '-', '+', '\\']) || line.contains('\n') {
                return None;
            }
            text.push_str(if line.starts_with('\\') { NO_NEWLINE } else { line });
            text.push('\n');
        }
        Some(Self { old_start, new_start, text })
    }

    /// Returns the number of its lines before and after the change.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        let (added, removed) = counted(std::slice::from_ref(self));
        let unchanged = self.text.lines().filter(|line| line.starts_with(' ')).count() as u64;
        (unchanged + removed, unchanged + added)
    }

    /// Writes it as a unified diff does.
    pub fn write(&self, out: &mut String) {
        let (old, new) = self.sizes();
        // Writing to a String cannot fail.
        let _infallible =
            writeln!(out, "@@ -{},{old} +{},{new} @@", self.old_start, self.new_start);
        out.push_str(&self.text);
    }

    /// Returns its lines with their marks; each text ends as it does in the file.
    fn marked(&self) -> impl Iterator<Item = (u8, &str)> {
        let lines: Vec<&str> = self.text.split_inclusive('\n').collect();
        let ends: Vec<bool> = lines.iter().skip(1).map(|next| next.starts_with('\\')).collect();
        lines.into_iter().enumerate().filter_map(move |(at, line)| {
            let mark = line.as_bytes()[0];
            let has_end = !ends.get(at).copied().unwrap_or(false);
            let text = if has_end { &line[1..] } else { line[1..].trim_end_matches('\n') };
            (mark != b'\\').then_some((mark, text))
        })
    }

    /// Returns the lines before (`-`) or after (`+`) the change.
    fn side(&self, mark: u8) -> impl Iterator<Item = &str> {
        self.marked().filter(move |(m, _)| *m == b' ' || *m == mark).map(|(_, text)| text)
    }

    /// Says whether the lines after the change stand in a text at their place. Carriage returns do not count.
    #[must_use]
    pub fn stands_in(&self, lines: &[&str]) -> bool {
        let bare = |text: &str| text.trim_end_matches(['\r', '\n']).to_owned();
        let from = usize::try_from(self.new_start.saturating_sub(1)).unwrap_or(usize::MAX);
        let there = lines.get(from..).unwrap_or_default();
        let mut wanted = 0;
        let stands = self.side(b'+').zip(there).all(|(own, line)| {
            wanted += 1;
            bare(own) == bare(line)
        });
        stands && self.side(b'+').count() == wanted
    }
}

/// Returns the number of added and removed lines.
#[must_use]
pub fn counted(hunks: &[LineHunk]) -> (u64, u64) {
    let lines = hunks.iter().flat_map(|hunk| hunk.text.lines());
    lines.fold((0, 0), |(added, removed), line| match line.as_bytes().first() {
        Some(b'+') => (added + 1, removed),
        Some(b'-') => (added, removed + 1),
        _ => (added, removed),
    })
}

/// Reads the hunks of a unified diff of one file; `None` if it is not well-formed.
#[must_use]
pub fn hunks_of_unified(diff: &str) -> Option<Vec<LineHunk>> {
    let mut hunks = Vec::new();
    let mut lines = diff.split_terminator('\n').peekable();
    // The lines before the first place name the file.
    while lines.next_if(|line| !line.starts_with("@@ ")).is_some() {}
    while let Some(heading) = lines.next() {
        let ((old_start, old), (new_start, new)) = places(heading)?;
        let (mut old_left, mut new_left) = (old, new);
        let mut own = Vec::new();
        while old_left > 0 || new_left > 0 {
            let line = lines.next()?;
            match line.as_bytes().first() {
                Some(b'-') => old_left = old_left.checked_sub(1)?,
                Some(b'+') => new_left = new_left.checked_sub(1)?,
                Some(b'\\') => {}
                Some(b' ') | None => {
                    old_left = old_left.checked_sub(1)?;
                    new_left = new_left.checked_sub(1)?;
                }
                _ => return None,
            }
            own.push(line);
        }
        own.extend(lines.next_if(|line| line.starts_with('\\')));
        hunks.push(LineHunk::of_lines((old_start, new_start), own.into_iter())?);
        while lines.next_if(|line| line.is_empty()).is_some() {}
    }
    Some(hunks)
}

/// A first line and a number of lines.
type Place = (u64, u64);

/// Reads `@@ -1,2 +3,4 @@`.
fn places(heading: &str) -> Option<(Place, Place)> {
    let mut words = heading.strip_prefix("@@ ")?.split(' ');
    let mut place = |mark: char| {
        let word = words.next()?.strip_prefix(mark)?;
        match word.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((word.parse().ok()?, 1)),
        }
    };
    Some((place('-')?, place('+')?))
}

/// Applies hunks to a text; `None` if a line is not where a hunk expects it.
#[must_use]
pub fn applied(text: &str, hunks: &[LineHunk]) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for hunk in hunks {
        let (old, _) = hunk.sizes();
        let start = usize::try_from(if old == 0 {
            hunk.old_start
        } else {
            hunk.old_start.checked_sub(1)?
        });
        let start = start.ok()?;
        out.extend(lines.get(at..start)?.iter().copied());
        at = start;
        for own in hunk.side(b'-') {
            (*lines.get(at)? == own).then_some(())?;
            at += 1;
        }
        out.extend(hunk.side(b'+'));
    }
    out.extend(lines.get(at..)?.iter().copied());
    Some(out)
}

/// Compares two texts: everything between their common beginning and their common end is one hunk.
#[must_use]
pub fn difference(old: &str, new: &str) -> Vec<LineHunk> {
    if old == new {
        return Vec::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[same..].iter().rev().zip(new[same..].iter().rev());
    let same_end = rest.take_while(|(a, b)| a == b).count();
    let first = same.saturating_sub(CONTEXT);
    let (old_end, new_end) = (old.len() - same_end, new.len() - same_end);
    let last = (old_end + CONTEXT).min(old.len());
    let mut text = String::new();
    push(&mut text, ' ', &old[first..same]);
    push(&mut text, '-', &old[same..old_end]);
    push(&mut text, '+', &new[same..new_end]);
    push(&mut text, ' ', &old[old_end..last]);
    let number = |count: usize| if count == 0 { first as u64 } else { first as u64 + 1 };
    let old_start = number(last - first);
    let new_start = number(last - old_end + new_end - first);
    vec![LineHunk { old_start, new_start, text }]
}

fn push(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.push(mark);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push('\n');
            text.push_str(NO_NEWLINE);
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_difference_of_two_texts_makes_one_of_the_other(
            old in "([ab]?\n){0,9}[ab]{0,2}",
            new in "([ab]?\n){0,9}[ab]{0,2}",
        ) {
            let hunks = difference(&old, &new);
            prop_assert_eq!(applied(&old, &hunks), Some(new.clone()));
            let mut text = String::from("--- a\n+++ b\n");
            for hunk in &hunks {
                hunk.write(&mut text);
            }
            prop_assert_eq!(hunks_of_unified(&text), Some(hunks.clone()));
            let lines: Vec<&str> = new.split_inclusive('\n').collect();
            prop_assert!(hunks.iter().all(|hunk| hunk.stands_in(&lines)));
        }

        #[test]
        fn any_text_in_the_place_of_a_diff_is_read_without_a_panic(text in "(?s).{0,80}") {
            let diff = format!("@@ -1,2 +1,2 @@\n{text}");
            if let Some(hunks) = hunks_of_unified(&diff) {
                let _maybe = applied("a\nb\n", &hunks);
            }
        }
    }

    #[test]
    fn a_line_without_a_mark_makes_no_hunk() {
        let lines = |lines: &[&str]| LineHunk::of_lines((1, 1), lines.iter().copied());
        assert!(lines(&["+a", "", "-b"]).is_some());
        assert_eq!(lines(&["+a\ndiff --git a/x b/x"]), None);
        assert_eq!(lines(&["diff --git a/x b/x"]), None);
        assert_eq!(hunks_of_unified("@@ -1,1 +1,1 @@\n-a\n+b\n--- x\n"), None);
        assert_eq!(hunks_of_unified("@@ -1,9 +1,9 @@\n-a\n"), None);
    }
}
