//! The decisions that an ask of Claude Code offers, and the JSON that carries them out. The hook and the stream
//! protocol use the same objects.

use serde_json::{Map, Value, json};

use crate::model::{AskChoice, AskKind, AskScope, FieldAnswer, MAX_RULE_BYTES, Reply};

/// The words of a denial without words: the model sees them as the error of the call.
const DENIED: &str = "The user denied this.";

/// Returns the decisions that an ask with these suggestions offers.
pub(super) fn choices(kind: AskKind, suggestions: &Value) -> Vec<AskChoice> {
    if kind == AskKind::Question {
        return vec![AskChoice::deny(), AskChoice::stop()];
    }
    let mut choices = vec![AskChoice::allow(), AskChoice::deny()];
    let list = suggestions.as_array().into_iter().flatten();
    choices.extend(list.enumerate().filter_map(|(at, rule)| {
        let words = words(rule);
        let is_short = words.len() <= MAX_RULE_BYTES;
        is_short.then(|| AskChoice::always(at + 1, words, scope(rule)))
    }));
    choices.push(AskChoice::stop());
    choices
}

/// Returns a suggestion in the words of the agent's own settings.
fn words(suggestion: &Value) -> String {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match suggestion["type"].as_str() {
        Some("addRules") if suggestion["behavior"] == "allow" => {
            let rules = suggestion["rules"].as_array().into_iter().flatten();
            let rules = rules.map(|rule| match (rule["toolName"].as_str(), &rule["ruleContent"]) {
                (Some(tool), Value::String(content)) => format!("{tool}({content})"),
                (Some(tool), _) => tool.to_owned(),
                _ => rule.to_string(),
            });
            rules.collect::<Vec<_>>().join(", ")
        }
        Some("addDirectories") => {
            format!("directory {}", texts(&suggestion["directories"]).join(", "))
        }
        Some("setMode") => format!("mode {}", suggestion["mode"].as_str().unwrap_or_default()),
        _ => suggestion.to_string(),
    }
}

fn scope(suggestion: &Value) -> AskScope {
    match suggestion["destination"].as_str() {
        Some("userSettings") => AskScope::User,
        Some("localSettings" | "projectSettings") => AskScope::Project,
        _ => AskScope::Session,
    }
}

/// Returns the decision for a call with this input, or why the call does not take the answer.
pub(super) fn decision(input: &Value, suggestions: &Value, reply: &Reply) -> Result<Value, String> {
    Ok(match reply {
        Reply::Allow => json!({"behavior": "allow", "updatedInput": input}),
        Reply::Always(key) => {
            let number: Option<usize> =
                key.strip_prefix("always:").and_then(|number| number.parse().ok());
            let rule = number.and_then(|number| suggestions.get(number.checked_sub(1)?));
            let rule = rule.ok_or_else(|| format!("it does not offer `{key}`"))?;
            json!({"behavior": "allow", "updatedInput": input, "updatedPermissions": [rule]})
        }
        Reply::Deny { message } => {
            json!({"behavior": "deny", "message": message.as_deref().unwrap_or(DENIED)})
        }
        Reply::Stop => json!({"behavior": "deny", "message": DENIED, "interrupt": true}),
        Reply::Fields(fields) => {
            let mut input = input.clone();
            let questions = input.get("questions").is_some();
            let Some(object) = input.as_object_mut().filter(|_| questions) else {
                return Err("it is not a question".to_owned());
            };
            object.insert("answers".to_owned(), Value::Object(answers(fields)));
            json!({"behavior": "allow", "updatedInput": input})
        }
    })
}

/// Returns the answers by question. Several labels are one text.
fn answers(fields: &[FieldAnswer]) -> Map<String, Value> {
    let answer = |field: &FieldAnswer| (field.field.clone(), field.values.join(", ").into());
    fields.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestions() -> Value {
        json!([
            {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch x *"}],
             "behavior": "allow", "destination": "localSettings"},
            {"type": "addDirectories", "directories": ["/home/ada/shop"], "destination": "session"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        ])
    }

    #[test]
    fn every_rule_is_offered_in_the_words_of_the_agent() {
        let choices = choices(AskKind::Permission, &suggestions());
        let shown: Vec<(&str, Option<&str>, AskScope)> =
            choices.iter().map(|c| (c.key.as_str(), c.rule.as_deref(), c.scope)).collect();
        assert_eq!(
            shown,
            [
                ("allow", None, AskScope::Once),
                ("deny", None, AskScope::Once),
                ("always:1", Some("Bash(touch x *)"), AskScope::Project),
                ("always:2", Some("directory /home/ada/shop"), AskScope::Session),
                ("always:3", Some("mode acceptEdits"), AskScope::Session),
                ("stop", None, AskScope::Once),
            ]
        );
    }

    #[test]
    fn a_rule_is_shown_whole_or_not_offered() {
        let rule = |content: &str, behavior: &str| {
            let rules = json!([{"toolName": "Bash", "ruleContent": content}]);
            json!({"type": "addRules", "rules": rules, "behavior": behavior})
        };
        let long = "x".repeat(1000);
        let too_long = "x".repeat(MAX_RULE_BYTES);
        let list = json!([rule(&too_long, "allow"), rule(&long, "allow"), rule("ls", "deny")]);
        let choices = choices(AskKind::Permission, &list);
        let shown: Vec<(&str, &str)> = choices
            .iter()
            .filter_map(|choice| Some((choice.key.as_str(), choice.rule.as_deref()?)))
            .collect();
        let whole = format!("Bash({long})");
        assert_eq!(shown[0], ("always:2", whole.as_str()), "the numbers stay");
        assert!(shown[1].1.contains(r#""behavior":"deny""#), "{}", shown[1].1);
        assert_eq!(shown.len(), 2);
    }

    #[test]
    fn only_a_rule_that_was_offered_is_stored_and_only_questions_have_answers() {
        let input = json!({"command": "touch x"});
        let decide = |reply: &Reply| decision(&input, &suggestions(), reply);
        let always = decide(&Reply::Always("always:3".into())).expect("offered");
        assert_eq!(always["updatedPermissions"], json!([suggestions()[2]]));
        for key in ["always:0", "always:4", "always:x", "allow"] {
            assert!(decide(&Reply::Always(key.into())).is_err(), "{key}");
        }
        assert!(decide(&Reply::Fields(Vec::new())).is_err());
        assert_eq!(decide(&Reply::Stop).expect("always")["interrupt"], true);
        let question = json!({"questions": [{"question": "Which?"}]});
        let given = FieldAnswer { field: "Which?".into(), values: vec!["S".into(), "L".into()] };
        let answered = decision(&question, &Value::Null, &Reply::Fields(vec![given]));
        assert_eq!(answered.expect("a question")["updatedInput"]["answers"]["Which?"], "S, L");
    }
}
