//! The answer to a script: the completions of a word, in the form that each shell's script reads.
//!
//! The first line says what the script adds: `values` nothing, `nospace` no blank behind the word, `directories`
//! or `files` the shell's own completion of paths. Each further line is one completion. No line holds a control
//! character but the tab of fish, and no script evaluates a line.

use std::collections::HashSet;

use super::words::LastWord;
use crate::face::Completion;
use crate::text::{columns, fit, one_line};

/// Paths that the shell itself completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paths {
    #[default]
    None,
    Directories,
    Files,
}

/// The completions of a word.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) paths: Paths,
    pub(super) completions: Vec<Completion>,
}

impl Answer {
    pub(super) fn of(completions: Vec<Completion>) -> Self {
        Self { completions, ..Self::default() }
    }

    pub(super) fn paths(paths: Paths) -> Self {
        Self { paths, ..Self::default() }
    }

    pub(super) fn files() -> Self {
        Self::paths(Paths::Files)
    }

    fn first_line(&self) -> &'static str {
        let is_open = |one: &Completion| one.text.ends_with([':', '=']);
        match self.paths {
            Paths::Directories => "directories",
            Paths::Files => "files",
            Paths::None if self.completions.iter().any(is_open) => "nospace",
            Paths::None => "values",
        }
    }
}

/// How bash shows several completions.
pub(super) struct BashListing<'a> {
    /// The width of the terminal.
    pub(super) columns: usize,
    /// `COMP_TYPE`: the key's character code, or that of `?`, `!`, `@` or `%`.
    pub(super) kind: &'a str,
}

/// Widest terminal that lines for bash are made for.
const MAX_BASH_COLUMNS: usize = 1000;
/// `COMP_TYPE` of a list after a second tab: the character code of `?`. Bash inserts nothing for it.
const LIST_ONLY: &str = "63";

/// Returns the lines for bash: each is the text in the place of `replaced`, the part of the word behind the last
/// character at which bash breaks words. Each text is there once. Descriptions in brackets stand behind the texts only
/// where bash lists and does not insert: it inserts what all lines have in common, and agents choose descriptions.
pub(super) fn for_bash(
    answer: Answer,
    word: &LastWord,
    replaced: &str,
    listing: &BashListing<'_>,
) -> String {
    let kept = word.raw.strip_suffix(replaced).unwrap_or_default();
    let kept = super::words::split(kept).last.text;
    let first_line = answer.first_line();
    let inserted = |one: Completion| {
        let text = one.text.strip_prefix(&kept)?.to_owned();
        let text = if word.quote.is_none() { text.replace(' ', "\\ ") } else { text };
        Some(Completion { text, ..one })
    };
    let mut texts = HashSet::new();
    let completions = answer.completions.into_iter().filter_map(inserted);
    let completions: Vec<Completion> =
        completions.filter(|one| texts.insert(one.text.clone())).collect();
    let is_list = listing.kind == LIST_ONLY && completions.len() > 1;
    let columns_shown = listing.columns.min(MAX_BASH_COLUMNS);
    let widest = completions.iter().map(|one| columns(&one.text)).max().unwrap_or(0);
    // Two blanks, the brackets, and the last column, which some terminals wrap.
    let room = columns_shown.saturating_sub(widest + 5);
    let is_described =
        is_list && room >= 10 && completions.iter().any(|c| !c.description.is_empty());
    let line = |one: &Completion| {
        if !is_described || one.description.is_empty() {
            return one.text.clone();
        }
        let gap = " ".repeat(widest - columns(&one.text) + 2);
        format!("{}{gap}({})", one.text, fit(&one_line(&one.description), room))
    };
    let mut lines: Vec<String> = completions.iter().map(line).collect();
    if let Some(first) = lines.first_mut().filter(|_| is_described) {
        // Bash lists in columns of equal width: one wide line makes a single column.
        let missing = (columns_shown / 2).saturating_sub(columns(first));
        first.push_str(&" ".repeat(missing));
    }
    joined(first_line, lines.into_iter())
}

/// Returns the lines for zsh: `text:description`, as `_describe` reads them.
pub(super) fn for_zsh(answer: &Answer) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\");
    let line = |one: &Completion| {
        let text = escaped(&one.text).replace(':', "\\:");
        match one.description.as_str() {
            "" => text,
            description => format!("{text}:{}", escaped(&one_line(description))),
        }
    };
    joined(answer.first_line(), answer.completions.iter().map(line))
}

/// Returns the lines for fish: text, tab, description.
pub(super) fn for_fish(answer: &Answer) -> String {
    let line = |one: &Completion| format!("{}\t{}", one.text, one_line(&one.description));
    joined(answer.first_line(), answer.completions.iter().map(line))
}

fn joined(first_line: &str, lines: impl Iterator<Item = String>) -> String {
    let lines = std::iter::once(first_line.to_owned()).chain(lines);
    lines.map(|line| line + "\n").collect()
}
