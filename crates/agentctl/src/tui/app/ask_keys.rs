//! The keys that answer the ask that is shown, in words.

use agentctl_core::model::{Ask, AskChoice};

use super::{App, ShownAsk};
use crate::face::choice_text;
use crate::text::columns;
use crate::tui::charset::Charset;
use crate::tui::keys::Focus;

impl App {
    /// Returns the lines that name the keys of the ask.
    #[must_use]
    pub(crate) fn ask_key_lines(&self, width: usize) -> Vec<String> {
        let Some(shown) = &self.ask else { return Vec::new() };
        if shown.settled.is_some() {
            let next = if self.asks.is_empty() { "" } else { ", n to the next ask" };
            return vec![match self.focus {
                Focus::Ask => format!("any key goes back to the list{next}"),
                Focus::List | Focus::Detail => "the next key removes it".to_owned(),
            }];
        }
        if shown.is_delivering {
            return vec!["the answer is being delivered …".to_owned()];
        }
        let mut keys = if self.focus == Focus::Ask || shown.ask.via.is_none() {
            key_words(shown, self.charset)
        } else {
            vec!["Enter or Tab: go to the ask to answer it".to_owned()]
        };
        if let [_, _, ..] = shown.ask.fields.as_slice() {
            let count = shown.ask.fields.len();
            let number = count.min(shown.question() + 1);
            keys.insert(0, format!("question {number} of {count}:"));
            if number > 1 {
                keys.push("u question before".to_owned());
            }
        }
        if !shown.chosen.is_empty() {
            let chosen: Vec<String> = shown.chosen.iter().map(usize::to_string).collect();
            keys.push(format!("chosen: {} ({})", chosen.join(", "), enter_words(shown)));
        }
        if self.asks.len() > 1 {
            keys.push("n next ask".to_owned());
        }
        packed(&keys, width)
    }
}

/// Returns the keys of the rules that an ask offers.
pub(super) fn rules(ask: &Ask) -> Vec<&str> {
    let keys = ask.choices.iter().map(|choice| choice.key.as_str());
    keys.filter(|key| key.starts_with("always:")).collect()
}

/// Returns the rules that an ask offers, each with the key that stores it and with its words.
pub(super) fn rule_words(ask: &Ask, charset: Charset) -> Vec<(&str, String)> {
    let has_one_rule = rules(ask).len() == 1;
    let offered = ask.choices.iter().filter_map(|choice| {
        let number = choice.key.strip_prefix("always:")?;
        let key = if has_one_rule { "A" } else { number };
        let text = charset.spelled_in_line(&choice_text(choice));
        Some((choice.key.as_str(), format!("{key} {text}")))
    });
    offered.collect()
}

/// Returns the effect of Enter on the chosen options.
fn enter_words(shown: &ShownAsk) -> &'static str {
    let is_last = shown.question() + 1 >= shown.ask.fields.len();
    if is_last { "Enter sends" } else { "Enter goes on" }
}

/// Returns the keys that choose an option or a rule: with ten of them a number is typed.
fn number_keys(shown: &ShownAsk) -> String {
    match shown.highest_number() {
        highest @ ..=9 => format!("1-{highest}"),
        highest => format!("1-{highest} and Enter:"),
    }
}

/// Returns the keys that an ask takes now, each with its meaning: those of the question that is answered next.
pub(super) fn key_words(shown: &ShownAsk, charset: Charset) -> Vec<String> {
    let ask = &shown.ask;
    if ask.via.is_none() {
        return Vec::new();
    }
    let rules = rule_words(ask, charset);
    let mut words = Vec::new();
    if let Some(field) = shown.field() {
        if !field.options.is_empty() {
            let many = if field.many { format!(", {}", enter_words(shown)) } else { String::new() };
            words.push(format!("{} option{many}", number_keys(shown)));
        }
        if field.free_text {
            words.push("m answer in words".to_owned());
        }
    }
    if shown.field().is_none() && shown.highest_number() > 9 {
        words.push(format!("{} rule", number_keys(shown)));
    }
    for choice in &ask.choices {
        let text = charset.spelled_in_line(&choice_text(choice));
        match choice.key.as_str() {
            AskChoice::ALLOW => words.push(format!("a {text}")),
            AskChoice::DENY => {
                words.push(format!("d {text}"));
                if ask.fields.is_empty() {
                    words.push("m deny with words".to_owned());
                }
            }
            AskChoice::STOP => words.push(format!("X {text}")),
            key => match rules.iter().find(|(rule, _)| *rule == key) {
                Some((_, rule)) => words.push(rule.clone()),
                None => words.push(format!("{key} {text}")),
            },
        }
    }
    words
}

/// Puts words into lines of this width, three blanks apart.
fn packed(words: &[String], width: usize) -> Vec<String> {
    const GAP: &str = "   ";
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if columns(line) + GAP.len() + columns(word) <= width => {
                line.push_str(GAP);
                line.push_str(word);
            }
            _ => lines.push(crate::text::fit(word, width)),
        }
    }
    lines
}
