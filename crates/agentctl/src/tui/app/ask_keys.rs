//! The keys that answer the ask that is shown, in words.

use agentctl_core::model::{Ask, AskChoice};

use super::App;
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
            key_words(&shown.ask, self.charset)
        } else {
            vec!["Enter or Tab: go to the ask to answer it".to_owned()]
        };
        if let [_, _, ..] = shown.ask.fields.as_slice() {
            let number = shown.ask.fields.len().min(shown.question() + 1);
            keys.insert(0, format!("question {number}:"));
        }
        if !shown.chosen.is_empty() {
            let chosen: Vec<String> = shown.chosen.iter().map(usize::to_string).collect();
            keys.push(format!("chosen: {} (Enter sends)", chosen.join(", ")));
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

/// Returns the keys that an ask takes, each with its meaning.
pub(super) fn key_words(ask: &Ask, charset: Charset) -> Vec<String> {
    if ask.via.is_none() {
        return Vec::new();
    }
    let rules = rule_words(ask, charset);
    let mut words = Vec::new();
    if let Some(field) = ask.fields.first() {
        if !field.options.is_empty() {
            let many = if field.many { ", Enter sends" } else { "" };
            words.push(format!("1-{} option{many}", field.options.len()));
        }
        if ask.fields.iter().any(|field| field.free_text) {
            words.push("m answer in words".to_owned());
        }
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
