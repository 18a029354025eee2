//! A tool call as an ask: the command, the change, the plan or the questions, in full.
//!
//! Agents name the same arguments differently; the names that several agents use are known here once. Arguments
//! that are not understood are shown as they are: an answer agrees to the whole call.

use serde_json::{Map, Value};

use crate::model::{Ask, AskField, AskKind, AskOption, AskPart, ToolCall, shell_line};

/// The tool by which the model asks questions. Any other tool may have an argument `questions` too.
const QUESTION_TOOL: &str = "AskUserQuestion";
/// The tool of Claude Code that runs a command. Arguments of any other tool are shown whatever they are called: in a
/// foreign tool `description` or `timeout` may decide what is done.
const SHELL_TOOL: &str = "Bash";
/// Arguments of [`SHELL_TOOL`] that change neither the command nor its rights.
const MINOR_SHELL_ARGUMENTS: [&str; 2] = ["description", "timeout"];
/// Arguments of the agent's own tools whose value `false` is what happens without them. For a foreign tool `false`
/// may mean the opposite: a trial run that is switched off.
const OFF_BY_DEFAULT: [(&str, &str); 3] = [
    (SHELL_TOOL, "run_in_background"),
    (SHELL_TOOL, "dangerouslyDisableSandbox"),
    ("Edit", "replace_all"),
];
/// The arguments of one replacement in a file.
const REPLACEMENT: [&str; 2] = ["old_string", "new_string"];

/// Returns the kind and the title of the ask that a call makes.
#[must_use]
pub fn kind_and_title(call: &ToolCall) -> (AskKind, String) {
    let fields = questions(call);
    if !fields.is_empty() {
        return (AskKind::Question, question_title(&fields));
    }
    let kind = if plan(call).is_some() { AskKind::Plan } else { AskKind::Permission };
    (kind, call.gist())
}

fn question_title(fields: &[AskField]) -> String {
    let texts: Vec<&str> = fields.iter().map(|field| field.text.as_str()).collect();
    texts.join(" / ")
}

/// Sets the tool call of an ask: its title, its parts, and the fields and kind of a question or plan.
pub fn describe_call(ask: &mut Ask, call: ToolCall) {
    let fields = questions(&call);
    let plan = plan(&call);
    if !fields.is_empty() {
        ask.kind = AskKind::Question;
        ask.parts = fields.iter().map(|field| AskPart::text(&field.text)).collect();
        ask.set_tool(call);
        ask.set_title(&question_title(&fields));
        ask.fields = fields;
        return;
    }
    ask.parts = match &plan {
        Some(plan) => {
            let others = other_arguments(&call, &["plan", "planFilePath"]);
            [AskPart::plan(plan)].into_iter().chain(others).collect()
        }
        None => parts(&call),
    };
    if plan.is_some() {
        ask.kind = AskKind::Plan;
    }
    ask.set_tool(call);
}

/// Returns the parts that show a call: its command or its changes, and every other argument.
#[must_use]
pub fn parts(call: &ToolCall) -> Vec<AskPart> {
    if let Some((name, command)) = command(&call.input) {
        let mut shown = vec![name];
        if call.name == SHELL_TOOL {
            shown.extend(MINOR_SHELL_ARGUMENTS);
        }
        let others = other_arguments(call, &shown);
        return [AskPart::command(&command)].into_iter().chain(others).collect();
    }
    let edits = call.wanted_edits();
    if edits.is_empty() {
        return vec![AskPart::json(&call.input)];
    }
    let diff = |edit: &crate::model::FileEdit| {
        AskPart::diff(edit.path.as_deref().unwrap_or_default(), &edit.unified())
    };
    let others = other_arguments(call, &edit_arguments(call));
    edits.iter().map(diff).chain(others).collect()
}

/// Returns the arguments besides the named ones as one part; `None` if there are none. Only `false` of a known
/// argument of the agent's own tool is left out.
#[must_use]
pub fn other_arguments(call: &ToolCall, shown: &[&str]) -> Option<AskPart> {
    let is_off = |name: &str, value: &Value| {
        *value == Value::Bool(false) && OFF_BY_DEFAULT.contains(&(call.name.as_str(), name))
    };
    let input = call.input.as_object()?.iter();
    let others: Map<String, Value> = input
        .filter(|(name, value)| !shown.contains(&name.as_str()) && !is_off(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    (!others.is_empty()).then(|| AskPart::json(&Value::Object(others)))
}

/// Returns the arguments that the changes of a call show whole.
fn edit_arguments(call: &ToolCall) -> Vec<&'static str> {
    let mut shown = vec!["file_path", REPLACEMENT[0], REPLACEMENT[1]];
    if call.name.eq_ignore_ascii_case("write") {
        shown.push("content");
    }
    let is_replacement = |edit: &Value| {
        edit.as_object().is_some_and(|edit| edit.keys().all(|key| REPLACEMENT.contains(&&**key)))
    };
    if call.input["edits"].as_array().is_some_and(|edits| edits.iter().all(is_replacement)) {
        shown.push("edits");
    }
    shown
}

/// Returns the command of a shell tool and the name of its argument: one text, or the words of a command line.
fn command(input: &Value) -> Option<(&'static str, String)> {
    let name = ["command", "cmd"].into_iter().find(|name| input.get(name).is_some())?;
    let text = match &input[name] {
        Value::String(text) => text.clone(),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            shell_line(&words?)
        }
        _ => return None,
    };
    Some((name, text))
}

fn plan(call: &ToolCall) -> Option<String> {
    let plan = call.input.get("plan")?.as_str()?;
    (call.name == "ExitPlanMode").then(|| plan.to_owned())
}

/// Returns the questions of a call, if it is nothing but questions. The text of a question is the id of its
/// field: answers name it.
fn questions(call: &ToolCall) -> Vec<AskField> {
    if call.name != QUESTION_TOOL {
        return Vec::new();
    }
    let list = call.input.get("questions").and_then(Value::as_array);
    let fields: Option<Vec<AskField>> = list.into_iter().flatten().map(question).collect();
    fields.unwrap_or_default()
}

fn question(value: &Value) -> Option<AskField> {
    let text = value.get("question")?.as_str()?;
    let options = value.get("options").and_then(Value::as_array);
    let options = options.into_iter().flatten().filter_map(|option| {
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
        let fields = questions(&call("AskUserQuestion", input.clone()));
        assert_eq!((fields[0].id.as_str(), fields[0].many), ("Which colour?", true));
        assert_eq!(fields[0].options[0].about.as_deref(), Some("Warm"));
        let no_list = call("AskUserQuestion", json!({"questions": "no list"}));
        assert!(questions(&no_list).is_empty());
        // An answer to a question allows the call: no other tool may look like one.
        assert!(questions(&call("mcp__shop__pay", input)).is_empty());
    }

    #[test]
    fn every_argument_that_changes_a_call_is_shown() {
        let shell = json!({"command": "ls", "dangerouslyDisableSandbox": true, "x": null,
            "run_in_background": false, "timeout": 9});
        let shell = call("Bash", shell);
        let sandbox = json!({"dangerouslyDisableSandbox": true, "x": null});
        assert_eq!(parts(&shell), [AskPart::command("ls"), AskPart::json(&sandbox)]);
        let foreign = call("mcp__deploy__run", json!({"command": "status", "host": "production"}));
        let host = json!({"host": "production"});
        assert_eq!(parts(&foreign), [AskPart::command("status"), AskPart::json(&host)]);
        let others = json!({"dry_run": false, "sandbox": null, "description": "d", "timeout": 1,
            "run_in_background": false});
        let mut input = others.clone();
        input["command"] = "apply".into();
        let foreign = call("mcp__k8s__run", input);
        assert_eq!(parts(&foreign), [AskPart::command("apply"), AskPart::json(&others)]);
        let words = call("shell", json!({"command": ["rm", "-r", "a b"]}));
        assert_eq!(parts(&words), [AskPart::command("rm -r 'a b'")]);
        let edit =
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true});
        let all = json!({"replace_all": true});
        let diff = AskPart::diff("a", "@@\n-x\n+y\n");
        assert_eq!(parts(&call("Edit", edit)), [diff, AskPart::json(&all)]);
        let write = call("Write", json!({"file_path": "a", "content": "x"}));
        assert_eq!(parts(&write).len(), 1);
    }
}
