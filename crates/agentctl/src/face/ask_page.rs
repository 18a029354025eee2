//! An ask in full, in lines: nothing that an answer agrees to is hidden or left out without a remark.

use std::path::Path;

use agentctl_core::host::Host;
use agentctl_core::model::{Ask, AskField, AskPart};

use super::{AskListRow, age, answer_flags, choice_text, full_name, local_minute};
use crate::text::with_tilde;

/// One line of an ask that is shown in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskLine {
    /// The kind of line, which decides its colour.
    pub kind: AskLineKind,
    /// The text, without line breaks.
    pub text: String,
}

/// The kind of a line of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskLineKind {
    /// The heading.
    Heading,
    /// The name of a fact and its value.
    Fact,
    /// A text of the ask whose blanks have a meaning, such as a command.
    Text,
    /// A text of the ask in words, such as a question.
    Prose,
    /// A line that a change adds.
    Added,
    /// A line that a change removes.
    Removed,
    /// A decision or an option.
    Choice,
    /// A remark.
    Remark,
}

/// The ways to answer that a page shows below the ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPageForm {
    /// The commands that answer it, and the evidence behind it.
    Commands,
    /// The rules by their numbers, for an interface that shows its own keys.
    Keys,
}

/// Returns an ask in full: nothing that an answer agrees to is left out without a remark.
#[must_use]
pub fn ask_page(host: &Host, row: &AskListRow, form: AskPageForm) -> Vec<AskLine> {
    let ask = &row.ask;
    let mut page = AskPage::default();
    page.add(AskLineKind::Heading, &format!("{}: {}", ask.kind.word(), ask.title));
    page.fact("ask", &ask.id);
    let name = row.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    let session = full_name(ask.adapter, ask.session_id.as_deref(), ask.pid);
    page.fact("session", &format!("{session}{name}"));
    if let Some(group) = &row.group {
        page.fact("group", group);
    }
    if let Some(cwd) = &ask.cwd {
        page.fact("directory", &with_tilde(&host.home, cwd));
    }
    if let Some(since) = ask.since {
        page.fact("since", &format!("{} ({})", age(host.now(), since), local_minute(since)));
    }
    match (ask.until, ask.then.as_deref()) {
        (Some(until), Some(then)) => {
            page.fact("until", &format!("{}, then {then}", local_minute(until)));
        }
        (Some(until), None) => page.fact("until", &local_minute(until)),
        (None, Some(then)) => page.fact("otherwise", then),
        (None, None) => {}
    }
    page.parts_and_fields(ask);
    match form {
        AskPageForm::Commands => {
            page.evidence(ask);
            page.choices(ask);
        }
        AskPageForm::Keys => page.rules(ask),
    }
    page.lines
}

/// Returns everything that an answer agrees to, without the names of the ask and of its session and without the
/// commands that answer it: for an interface that shows these beside it.
#[must_use]
pub fn ask_text(home: &Path, ask: &Ask) -> Vec<AskLine> {
    let mut page = AskPage::default();
    page.add(AskLineKind::Heading, &format!("{}: {}", ask.kind.word(), ask.title));
    if let Some(cwd) = &ask.cwd {
        page.fact("directory", &with_tilde(home, cwd));
    }
    if let Some(then) = &ask.then {
        page.fact("otherwise", then);
    }
    page.parts_and_fields(ask);
    if let Some(why_not) = &ask.why_not {
        page.unanswerable(why_not);
    }
    page.lines
}

/// Returns the lines of a text. Only a newline ends a line: a carriage return, which would hide what stands before it
/// on a terminal, stays in its line and is shown.
fn text_lines(text: &str) -> impl Iterator<Item = &str> {
    let whole = text.strip_suffix('\n').unwrap_or(text);
    whole.split('\n').filter(move |_| !text.is_empty())
}

/// Returns a text in one line, with its line breaks written as `\n` and `\r`.
#[must_use]
pub fn with_visible_breaks(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}

#[derive(Default)]
struct AskPage {
    lines: Vec<AskLine>,
}

impl AskPage {
    /// Adds a line. A line break in a text of the agent would look like a line of ours.
    fn add(&mut self, kind: AskLineKind, text: &str) {
        self.lines.push(AskLine { kind, text: with_visible_breaks(text) });
    }

    fn fact(&mut self, name: &str, value: &str) {
        self.add(AskLineKind::Fact, &format!("{name:<11}{value}"));
    }

    fn text(&mut self, heading: &str, (kind, text): (AskLineKind, &str), cut: bool) {
        self.add(AskLineKind::Remark, "");
        self.add(AskLineKind::Remark, heading);
        for line in text_lines(text) {
            self.add(kind, &format!("  {line}"));
        }
        if cut {
            let remark = "  … the text is too long to be shown, so it cannot be allowed from here";
            self.add(AskLineKind::Remark, remark);
        }
    }

    fn parts_and_fields(&mut self, ask: &Ask) {
        let is_shown = |text: &str| text == ask.title || ask.fields.iter().any(|f| f.text == text);
        for part in &ask.parts {
            // The heading and the questions show this text already.
            if !matches!(part, AskPart::Text { text, cut: false } if is_shown(text)) {
                self.part(part);
            }
        }
        for (number, field) in (1..).zip(&ask.fields) {
            let is_heading = ask.fields.len() == 1 && field.text == ask.title;
            self.field(field, (ask.fields.len() > 1).then_some(number), is_heading);
        }
    }

    fn part(&mut self, part: &AskPart) {
        use AskLineKind::{Prose, Text};
        match part {
            AskPart::Command { text, cut } => self.text("command", (Text, text), *cut),
            AskPart::Plan { markdown, cut } => self.text("plan", (Prose, markdown), *cut),
            AskPart::Text { text, cut } => self.text("text", (Prose, text), *cut),
            AskPart::Json { value, cut } => {
                let text = serde_json::to_string_pretty(value).unwrap_or_default();
                self.text("input", (Text, &text), *cut);
            }
            AskPart::Diff { path, unified, cut } => {
                self.add(AskLineKind::Remark, "");
                self.add(AskLineKind::Remark, &format!("change of {path}"));
                for line in text_lines(unified) {
                    let kind = match line.as_bytes().first() {
                        Some(b'+') => AskLineKind::Added,
                        Some(b'-') => AskLineKind::Removed,
                        _ => AskLineKind::Text,
                    };
                    self.add(kind, &format!("  {line}"));
                }
                if *cut {
                    self.add(AskLineKind::Remark, "  … the change goes on");
                }
            }
        }
    }

    fn field(&mut self, field: &AskField, number: Option<usize>, is_heading: bool) {
        if is_heading && field.options.is_empty() && !field.secret {
            return;
        }
        self.add(AskLineKind::Remark, "");
        if let Some(number) = number {
            self.add(AskLineKind::Remark, &format!("question {number}"));
        }
        if !is_heading {
            for line in text_lines(&field.text) {
                self.add(AskLineKind::Prose, &format!("  {line}"));
            }
        }
        for (number, option) in (1..).zip(&field.options) {
            let about = option.about.as_deref().map(|about| format!("  {about}"));
            let text = format!("  {number} {}{}", option.label, about.unwrap_or_default());
            self.add(AskLineKind::Choice, &text);
        }
        if field.many {
            self.add(AskLineKind::Remark, "  several options may be chosen");
        }
        if field.secret {
            self.add(AskLineKind::Remark, "  the answer is a secret");
        }
    }

    fn evidence(&mut self, ask: &Ask) {
        if ask.evidence.is_empty() {
            return;
        }
        self.add(AskLineKind::Remark, "");
        self.add(AskLineKind::Remark, "evidence");
        for evidence in &ask.evidence {
            let text = format!("  {} says: {}", evidence.source, evidence.says);
            self.add(AskLineKind::Remark, &text);
        }
    }

    fn unanswerable(&mut self, why_not: &str) {
        self.add(AskLineKind::Remark, "");
        self.add(AskLineKind::Remark, &format!("cannot be answered from here: {why_not}"));
    }

    /// Adds the rules that can be stored, each with the number that chooses it.
    fn rules(&mut self, ask: &Ask) {
        if let Some(why_not) = &ask.why_not {
            return self.unanswerable(why_not);
        }
        let numbered =
            ask.choices.iter().filter_map(|choice| Some((choice.rule_number()?, choice)));
        for (at, (number, choice)) in numbered.enumerate() {
            if at == 0 {
                self.add(AskLineKind::Remark, "");
            }
            self.add(AskLineKind::Choice, &format!("  {number} {}", choice_text(choice)));
        }
    }

    fn choices(&mut self, ask: &Ask) {
        if let Some(why_not) = &ask.why_not {
            return self.unanswerable(why_not);
        }
        self.add(AskLineKind::Remark, "");
        for (flag, label) in answer_flags(ask) {
            let command = format!("agentctl answer {} {flag}", ask.short_id());
            self.add(AskLineKind::Choice, &format!("{command:<44}  {label}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use agentctl_core::fleet::blank_session;
    use agentctl_core::model::{AskChoice, AskScope};

    use super::*;
    use crate::face::choice_text;

    #[test]
    fn a_carriage_return_and_the_line_breaks_of_a_rule_are_shown() {
        let command = "echo safe\r\nrm -rf x\r# y\n";
        let mut ask = Ask::of(&blank_session("demo", "/home/ada".into()));
        ask.parts = vec![AskPart::command(command)];
        let lines = ask_text(Path::new("/home/ada"), &ask);
        let shown: Vec<&str> = lines
            .iter()
            .filter(|line| line.kind == AskLineKind::Text)
            .map(|line| line.text.as_str())
            .collect();
        assert_eq!(shown, [r"  echo safe\r", r"  rm -rf x\r# y"]);
        let rule = AskChoice::always(1, command, AskScope::Session);
        assert_eq!(choice_text(&rule), r"always: echo safe\r\nrm -rf x\r# y\n, for this session");
    }

    #[test]
    fn an_empty_text_has_no_lines_and_a_blank_line_stays() {
        assert_eq!(text_lines("").count(), 0);
        assert_eq!(text_lines("a\n\nb\n").collect::<Vec<_>>(), ["a", "", "b"]);
    }
}
