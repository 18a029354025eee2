//! Texts of strangers in results: hidden characters neutralised, lengths limited.

use serde_json::Value;

use super::limits::{MAX_MESSAGE_CHARS, MAX_TEXT_CHARS};
use crate::text::clean;

/// Neutralises control and hidden characters in every text of a value, keys included: a model reads what a
/// person cannot see.
pub(super) fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(key, v)| (clean(&key).into_owned(), cleaned(v))).collect())
        }
        other => other,
    }
}

/// Cuts the texts of one message. Returns the message and whether anything was cut.
pub(super) fn cut_message(mut message: Value) -> (Value, bool) {
    let mut cutter = Cutter { left: MAX_MESSAGE_CHARS, cut: false };
    if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for input in calls.iter_mut().filter_map(|call| call.get_mut("input")) {
            flatten_input(input);
        }
    }
    cutter.value(&mut message);
    (message, cutter.cut)
}

/// Cuts texts until no characters are left for the message.
struct Cutter {
    left: usize,
    cut: bool,
}

impl Cutter {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                let mut kept = 0;
                for item in items.iter_mut() {
                    if self.left == 0 {
                        break;
                    }
                    self.value(item);
                    kept += 1;
                }
                self.cut |= kept < items.len();
                items.truncate(kept);
            }
            Value::Object(fields) => fields.values_mut().for_each(|field| self.value(field)),
            _ => {}
        }
    }

    fn text(&mut self, text: &mut String) {
        self.cut |= cut_text(text, MAX_TEXT_CHARS.min(self.left));
        self.left -= text.chars().count().min(self.left);
    }
}

/// Cuts a text to this many characters, the mark of the cut included. Says whether something was cut.
fn cut_text(text: &mut String, most: usize) -> bool {
    if text.chars().nth(most).is_none() {
        return false;
    }
    let end = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(end, _)| end);
    text.truncate(end);
    text.push('…');
    true
}

/// Cuts every text of an error: it may repeat what the client sent.
pub(super) fn cut_error(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) => {
            cut_text(text, MAX_TEXT_CHARS);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = cut_error(item.take())),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| *field = cut_error(field.take()));
        }
        _ => {}
    }
    value
}

/// Returns the hint of the command line with the words of this server: a client has tools and no commands.
pub(super) fn hint_for_clients(hint: &str) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("`agentctl list --all --since all`", "`list_sessions` with `since` = `all`"),
        ("`agentctl list --all`", "`list_sessions` with `all`"),
        ("`agentctl asks`", "`list_asks`"),
    ];
    WORDS.iter().fold(hint.to_owned(), |hint, (command, tool)| hint.replace(command, tool))
}

/// Replaces the arguments of a call by the beginning of their JSON if that is too long: they may have any shape.
fn flatten_input(input: &mut Value) {
    const MAX_INPUT_CHARS: usize = 4 * MAX_TEXT_CHARS;
    if matches!(input, Value::Object(_) | Value::Array(_)) {
        let json = input.to_string();
        if json.chars().nth(MAX_INPUT_CHARS).is_some() {
            *input = Value::String(json);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_characters_become_visible_in_texts_and_keys() {
        let value = cleaned(json!({"a\u{202e}": ["\u{1b}[2J", {"b": "tag \u{e0041}"}], "n": 1}));
        assert_eq!(value, json!({"a\\u{202e}": ["\\x1b[2J", {"b": "tag \\u{e0041}"}], "n": 1}));
    }

    #[test]
    fn a_message_is_cut_to_its_limits_and_says_so() {
        let short = json!({"text": "hello", "tool_calls": [], "tool_results": []});
        assert_eq!(cut_message(short.clone()), (short, false));
        let long = "x".repeat(5000);
        let result = json!({"id": null, "text": long, "is_error": false});
        let many: Vec<Value> = (0..40).map(|_| result.clone()).collect();
        let input = json!({"a": {"deep": "y".repeat(20_000)}});
        let call = json!({"id": "c", "name": "Bash", "input": input});
        let (cut, was_cut) =
            cut_message(json!({"text": long, "tool_calls": [call], "tool_results": many}));
        assert!(was_cut);
        assert_eq!(cut["text"].as_str().map(|text| text.chars().count()), Some(MAX_TEXT_CHARS));
        assert!(cut["tool_calls"][0]["input"].is_string(), "{}", cut["tool_calls"]);
        assert!(cut.to_string().chars().count() < MAX_MESSAGE_CHARS + 3000);
    }
}
