//! Texts of strangers in results: hidden characters neutralised, lengths limited.

use serde_json::Value;

use super::limits::{MAX_MESSAGE_CHARS, MAX_TEXT_CHARS};
use crate::face::hint_with_arguments;
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

/// The part of the hints that name the command which answers an ask.
const ANSWERS: &str = "`agentctl answer ";

/// Hints of the command line that mean something else here, each by a part of it, with the whole hint for a client.
const OWN_HINTS: [(&str, &str); 13] = [
    (ANSWERS, "`list_asks` shows it; a person answers it"),
    ("it takes --", "`list_asks` shows its `choices` and `fields`"),
    ("leave the id out", "`list_sessions` shows the ids"),
    ("--force launches beside it", "name another directory with `cwd`, or set `worktree`"),
    ("removes the lock; --force", "name another directory with `cwd`, or set `worktree`"),
    ("`agentctl launch demo -p ", "`adapter` = `demo` needs none"),
    ("`agentctl group ID ", "without `group` the sessions of all groups are listed"),
    ("--when-idle", "`wait_for` waits until its turn is over"),
    (
        "`agentctl wait ",
        "`wait_for` waits until it has ended, then `send` resumes it; `launch` with `keep` starts one that stays",
    ),
    ("`agentctl send --fork ", "`stop` ends it, then `send` resumes it"),
    ("`launch --keep` starts", "`launch` with `keep` starts a session that takes messages"),
    ("`agentctl logs` before", "it was sent once; look with `read_log` before you send it again"),
    ("`agentctl list -a --adapter", "`list_sessions` with `all` and `adapter` lists its sessions"),
];

/// The flags of the command line that are arguments of `launch`.
const ARGUMENTS: [&str; 7] = ["ask", "cwd", "group", "keep", "model", "name", "worktree"];

/// Returns the hint of the command line with the words of this server, where a client has tools and no commands. `None`
/// if it only names flags that no tool has. `offers_answer` says whether the server offers the tool `answer`.
pub(super) fn hint_for_clients(hint: &str, offers_answer: bool) -> Option<String> {
    const WORDS: [(&str, &str); 4] = [
        ("`agentctl list --all --since all`", "`list_sessions` with `since` = `all`"),
        ("`agentctl list --all`", "`list_sessions` with `all`"),
        ("`agentctl asks`", "`list_asks`"),
        ("`agentctl launch demo`", "`adapter` = `demo`"),
    ];
    if offers_answer && hint.contains(ANSWERS) {
        return Some("`list_asks` shows it; `answer` answers it".to_owned());
    }
    if let Some((_, told)) = OWN_HINTS.iter().find(|(part, _)| hint.contains(part)) {
        return Some((*told).to_owned());
    }
    let hint =
        WORDS.iter().fold(hint.to_owned(), |hint, (command, tool)| hint.replace(command, tool));
    hint_with_arguments(&hint, &ARGUMENTS)
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
    fn a_hint_names_tools_and_arguments_and_invites_no_answer() {
        for (given, told) in [
            (
                "it takes --option 1, --option 2, --stop",
                "`list_asks` shows its `choices` and `fields`",
            ),
            (
                "`agentctl stop 1` ends it; --force launches beside it",
                "name another directory with `cwd`, or set `worktree`",
            ),
            ("try again later; --force launches anyway", "try again later"),
            ("choose another name, or another --worktree-dir", "choose another name"),
            ("name another directory with --cwd", "name another directory with `cwd`"),
            (
                "`agentctl asks dbf81948` shows it in full; `agentctl answer dbf81948 --allow` or `--deny` answers it",
                "`list_asks` shows it; a person answers it",
            ),
            ("`agentctl list --all` shows it", "`list_sessions` with `all` shows it"),
            (
                "install Claude Code, or try `agentctl launch demo`",
                "install Claude Code, or try `adapter` = `demo`",
            ),
            (
                "there is no group; `agentctl group ID GROUP` makes one",
                "without `group` the sessions of all groups are listed",
            ),
            ("`agentctl stop 1 --force` ends it", "`agentctl stop 1 --force` ends it"),
            (
                "a person can launch it, or raise [limits] in the configuration of the first agent",
                "a person can launch it, or raise [limits] in the configuration of the first agent",
            ),
            (
                "a person answers with `agentctl answer`, or sets [answers] agents = \"others\" in the configuration",
                "a person answers with `agentctl answer`, or sets [answers] agents = \"others\" in the configuration",
            ),
            (
                "`agentctl wait 1` until it has ended, then `agentctl send 1`; `launch --keep` starts one that stays",
                "`wait_for` waits until it has ended, then `send` resumes it; `launch` with `keep` starts one that stays",
            ),
            (
                "`agentctl stop 1` first, or `agentctl send --fork 1` goes on in a copy",
                "`stop` ends it, then `send` resumes it",
            ),
            (
                "`launch --keep` starts a session that takes messages",
                "`launch` with `keep` starts a session that takes messages",
            ),
        ] {
            assert_eq!(hint_for_clients(given, false).as_deref(), Some(told));
            let has_tool = told.replace("a person answers it", "`answer` answers it");
            assert_eq!(hint_for_clients(given, true), Some(has_tool));
        }
        assert_eq!(hint_for_clients("without --strict it is a warning", true), None);
    }

    /// Returns the text of a source file, or of those of a folder.
    fn source_text(path: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let Ok(entries) = std::fs::read_dir(&path) else {
            return std::fs::read_to_string(&path).unwrap_or_default();
        };
        entries.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect()
    }

    /// A hint that is reworded elsewhere must be reworded here, too.
    #[test]
    fn every_part_of_a_hint_stands_in_the_program() {
        let core = "../agentctl-core/src";
        let words = ["src/face", &format!("{core}/adapters"), &format!("{core}/send.rs")]
            .map(source_text)
            .concat();
        for (part, _) in OWN_HINTS {
            // The flags of an ask are put in when the hint is made.
            let source =
                part.strip_suffix("--").map_or(part.to_owned(), |begin| format!("{begin}{{}}"));
            assert!(words.contains(&source), "no hint has `{source}`");
        }
    }

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
