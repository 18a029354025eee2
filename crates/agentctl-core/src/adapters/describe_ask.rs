//! A tool call as an ask: the command, the change, the plan or the questions, in full.
//!
//! Agents name the same arguments differently; the names that several agents use are known here once. A call
//! that is not understood is shown as the arguments that it has.

use serde_json::Value;

use crate::model::{Ask, AskField, AskKind, AskOption, AskPart, ToolCall};

/// Most questions of one call that become fields.
const MAX_FIELDS: usize = 32;
/// Most options of one question.
const MAX_OPTIONS: usize = 64;

/// Sets the tool call of an ask: its title, its parts, and the fields and kind of a question or plan.
pub fn describe_call(ask: &mut Ask, call: ToolCall) {
    let fields = questions(&call.input);
    let plan = plan(&call);
    if !fields.is_empty() {
        ask.kind = AskKind::Question;
        let texts: Vec<&str> = fields.iter().map(|field| field.text.as_str()).collect();
        ask.parts = texts.iter().map(|text| AskPart::text(text)).collect();
        let title = texts.join(" / ");
        ask.set_tool(call);
        ask.set_title(&title);
        ask.fields = fields;
        return;
    }
    ask.parts = match &plan {
        Some(plan) => vec![AskPart::plan(plan)],
        None => parts(&call),
    };
    if plan.is_some() {
        ask.kind = AskKind::Plan;
    }
    ask.set_tool(call);
}

/// Returns the parts that show a call: its command, its changes, or all its arguments.
#[must_use]
pub fn parts(call: &ToolCall) -> Vec<AskPart> {
    if let Some(command) = command(&call.input) {
        return vec![AskPart::command(&command)];
    }
    let edits = call.wanted_edits();
    if edits.is_empty() {
        return vec![AskPart::json(&call.input)];
    }
    let diff = |edit: &crate::model::FileEdit| {
        AskPart::diff(edit.path.as_deref().unwrap_or_default(), &edit.unified())
    };
    edits.iter().map(diff).collect()
}

/// Returns the command of a shell tool: one text, or the words of a command line.
fn command(input: &Value) -> Option<String> {
    let value = input.get("command").or_else(|| input.get("cmd"))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

fn plan(call: &ToolCall) -> Option<String> {
    let plan = call.input.get("plan")?.as_str()?;
    (call.name == "ExitPlanMode").then(|| plan.to_owned())
}

/// Returns the questions of a call. The text of a question is the id of its field: answers name it.
fn questions(input: &Value) -> Vec<AskField> {
    let list = input.get("questions").and_then(Value::as_array);
    list.into_iter().flatten().take(MAX_FIELDS).filter_map(question).collect()
}

fn question(value: &Value) -> Option<AskField> {
    let text = value.get("question")?.as_str()?;
    let options = value.get("options").and_then(Value::as_array);
    let options = options.into_iter().flatten().take(MAX_OPTIONS).filter_map(|option| {
        let about = option.get("description").and_then(Value::as_str).map(str::to_owned);
        let label = option.get("label").and_then(Value::as_str)?.to_owned();
        Some(AskOption { label, about })
    });
    let is_set = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
    Some(AskField {
        id: text.to_owned(),
        header: value.get("header").and_then(Value::as_str).map(str::to_owned),
        text: text.to_owned(),
        options: options.collect(),
        many: is_set("multiSelect") || is_set("multiple"),
        free_text: true,
        secret: false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall { id: None, name: name.into(), input }
    }

    #[test]
    fn a_command_is_shown_as_a_command_a_change_as_a_diff_and_the_rest_as_it_is() {
        let shell = call("Bash", json!({"command": "rm -r x", "description": "Tidy up"}));
        assert_eq!(parts(&shell), [AskPart::command("rm -r x")]);
        let edit = call("Edit", json!({"file_path": "a", "old_string": "x", "new_string": "y"}));
        assert_eq!(parts(&edit), [AskPart::diff("a", "@@\n-x\n+y\n")]);
        let other = call("mcp__x__y", json!({"n": 1}));
        assert_eq!(parts(&other), [AskPart::json(&json!({"n": 1}))]);
    }

    #[test]
    fn the_text_of_a_question_is_the_id_of_its_field() {
        let input = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": true,
            "options": [{"label": "Red", "description": "Warm"}, {"label": "Blue"}]}]});
        let fields = questions(&input);
        assert_eq!((fields[0].id.as_str(), fields[0].many), ("Which colour?", true));
        assert_eq!(fields[0].options[0].about.as_deref(), Some("Warm"));
        assert!(questions(&json!({"questions": "no list"})).is_empty());
    }
}
