//! A tool call and its short forms: the argument that tells most about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::shorten;

/// A tool the model asked for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ToolCall {
    /// The call's id, which its result repeats.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model gave them.
    pub input: Value,
}

/// One item of a list of tasks that the agent keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// The work to be done.
    pub text: &'a str,
    /// How far it is.
    pub state: TaskState,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not begun.
    Pending,
    /// Being done.
    Active,
    /// Done.
    Done,
    /// Given up.
    Cancelled,
}

/// Arguments that alone tell what a call does, the most telling first.
const TELLING: [&str; 10] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "query",
    "url",
    "plan",
    "prompt",
    "description",
];

/// Arguments of an unknown tool that are named first, in this order.
const FIRST: [&str; 14] = [
    "title",
    "name",
    "subject",
    "summary",
    "id",
    "number",
    "key",
    "owner",
    "repo",
    "repository",
    "project",
    "query",
    "url",
    "path",
];

/// Longest text of an argument that is named before longer ones.
const SHORT_ARGUMENT: usize = 60;

impl ToolCall {
    /// Returns the most telling argument: the command, the file, the question.
    #[must_use]
    pub fn telling(&self) -> Option<String> {
        let tasks = self.tasks();
        if !tasks.is_empty() {
            return Some(task_words(&tasks));
        }
        match &self.input {
            Value::Object(map) if map.is_empty() => None,
            Value::Object(map) => Some(telling_argument(&self.name, map)),
            Value::Null => None,
            Value::String(text) if is_patch(text) => Some(patched_files(text).join(", ")),
            other => Some(value_text(other)),
        }
    }

    /// Returns a short form of the call: `Bash: npm test`.
    #[must_use]
    pub fn gist(&self) -> String {
        match self.telling() {
            Some(argument) => shorten(&format!("{}: {argument}", self.name), 120),
            None => self.name.clone(),
        }
    }

    /// Returns the tasks, if the call writes a list of them.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task<'_>> {
        let list = self.input.get("todos").or_else(|| self.input.get("plan"));
        let Some(items) = list.and_then(Value::as_array) else { return Vec::new() };
        items.iter().filter_map(task).collect()
    }
}

/// Says whether a text is a patch in the format of `apply_patch`.
#[must_use]
pub fn is_patch(text: &str) -> bool {
    text.trim_start().starts_with("*** Begin Patch")
}

/// Returns the files that such a patch names.
fn patched_files(patch: &str) -> Vec<&str> {
    const MARKS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    let file = |line: &'_ str| MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::len);
    patch.lines().filter_map(|line| file(line).map(|length| &line[line.len() - length..])).collect()
}

fn task(item: &Value) -> Option<Task<'_>> {
    let text = ["content", "step", "text", "title"].iter().find_map(|key| item.get(*key)?.as_str());
    let state = match item.get("status").and_then(Value::as_str) {
        Some("completed" | "done") => TaskState::Done,
        Some("in_progress" | "active") => TaskState::Active,
        Some("cancelled") => TaskState::Cancelled,
        _ => TaskState::Pending,
    };
    Some(Task { text: text?, state })
}

/// Returns `1 of 3 done, now: Fix the test`.
fn task_words(tasks: &[Task<'_>]) -> String {
    let done = tasks.iter().filter(|task| task.state == TaskState::Done).count();
    let now = tasks.iter().find(|task| task.state == TaskState::Active);
    let now = now.map(|task| format!(", now: {}", task.text)).unwrap_or_default();
    format!("{done} of {} done{now}", tasks.len())
}

fn telling_argument(name: &str, map: &Map<String, Value>) -> String {
    // A tool of an MCP server may use any word for anything: all its arguments are named.
    if name.starts_with("mcp__") {
        return arguments(map);
    }
    let text = |key: &str| map.get(key).filter(|value| !value.is_null()).map(value_text);
    if let Some(pattern) = text("pattern") {
        let path = text("path").map(|path| format!(" in {path}")).unwrap_or_default();
        let glob = text("glob").or_else(|| text("include"));
        let glob = glob.map(|glob| format!(", {glob}")).unwrap_or_default();
        return format!("{pattern}{path}{glob}");
    }
    TELLING.iter().find_map(|key| text(key)).unwrap_or_else(|| arguments(map))
}

/// Returns all arguments: the ones that name the object first, long ones last.
fn arguments(map: &Map<String, Value>) -> String {
    let mut pairs: Vec<(usize, bool, &String, String)> = map
        .iter()
        .map(|(key, value)| {
            let rank = FIRST.iter().position(|first| first == key).unwrap_or(FIRST.len());
            let text = value_text(value);
            let is_long = text.len() > SHORT_ARGUMENT || text.contains('\n') || key == "body";
            (rank, is_long, key, text)
        })
        .collect();
    pairs.sort_by(|a, b| (a.1, a.0, a.2).cmp(&(b.1, b.0, b.2)));
    let pairs: Vec<String> =
        pairs.into_iter().map(|(_, _, key, text)| format!("{key}: {text}")).collect();
    pairs.join(", ")
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn telling(name: &str, input: Value) -> Option<String> {
        ToolCall { id: None, name: name.into(), input }.telling()
    }

    #[test]
    fn a_call_is_told_by_what_it_looks_for_and_by_what_it_is_about() {
        let search = json!({"pattern": "login", "path": "src", "output_mode": "content"});
        assert_eq!(telling("Grep", search).as_deref(), Some("login in src"));
        let issue =
            json!({"body": "It fails.", "labels": ["bug"], "title": "Login", "repo": "shop"});
        assert_eq!(
            telling("mcp__github__create_issue", issue).as_deref(),
            Some("title: Login, repo: shop, labels: bug, body: It fails.")
        );
        let todos = json!({"todos": [
            {"content": "Read", "status": "completed"}, {"content": "Fix", "status": "in_progress"},
            {"content": "Test", "status": "pending"}]});
        assert_eq!(telling("TodoWrite", todos).as_deref(), Some("1 of 3 done, now: Fix"));
        let plan = json!({"plan": [{"step": "Read", "status": "pending"}]});
        assert_eq!(telling("update_plan", plan).as_deref(), Some("0 of 1 done"));
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** Add File: b\n+c\n*** End Patch";
        assert_eq!(telling("apply_patch", patch.into()).as_deref(), Some("src/a.rs, b"));
        assert_eq!(telling("Exit", json!({"plan": "Do it"})).as_deref(), Some("Do it"));
        assert_eq!(telling("Nothing", json!({})), None);
    }
}
