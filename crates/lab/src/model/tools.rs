//! The tools that an agent offers, and how its shell wants to be asked.

use serde_json::{Value, json};

/// The names of agents' shell tools, the more particular names first.
const SHELLS: [&str; 13] = [
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "run_shell_command",
    "execute_command",
    "run_command",
    "developer__shell",
    "Shell",
    "shell",
    "exec",
    "local_shell",
    "terminal",
];

/// A tool that the agent offers.
#[derive(Debug)]
pub(super) struct Tool {
    name: String,
    schema: Value,
}

impl Tool {
    /// Reads a tool; some have no name but only a type.
    pub(super) fn of(tool: &Value, schema: &str) -> Self {
        let name = tool["name"].as_str().or(tool["type"].as_str()).unwrap_or_default();
        Self { name: name.to_owned(), schema: tool[schema].clone() }
    }
}

/// Asks for the command in the shape that this agent's shell tool wants.
pub(super) fn shell_call(tools: &[Tool], command: &str) -> (String, Value) {
    let named = SHELLS.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name));
    let alike = || {
        tools.iter().find(|tool| {
            let name = tool.name.to_ascii_lowercase();
            name.contains("shell") || name.contains("bash")
        })
    };
    let Some(tool) = named.or_else(alike) else {
        return ("Bash".to_owned(), json!({"command": command}));
    };
    let properties = &tool.schema["properties"];
    let short = match properties.as_object() {
        Some(known) => known.contains_key("cmd") && !known.contains_key("command"),
        None => tool.name == "exec_command",
    };
    let key = if short { "cmd" } else { "command" };
    let words = match properties.as_object() {
        Some(_) => properties[key]["type"] == "array",
        None => matches!(tool.name.as_str(), "shell" | "local_shell"),
    };
    let command = if words { json!(["bash", "-lc", command]) } else { json!(command) };
    let mut arguments = json!({key: command});
    if properties.get("description").is_some() {
        arguments["description"] = json!("scripted command");
    }
    for name in tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if arguments.get(name).is_none() {
            arguments[name] = match properties[name]["type"].as_str() {
                Some("boolean") => json!(false),
                Some("number" | "integer") => json!(60_000),
                _ => json!("scripted command"),
            };
        }
    }
    (tool.name.clone(), arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(list: &Value) -> Vec<Tool> {
        list.as_array().into_iter().flatten().map(|tool| Tool::of(tool, "parameters")).collect()
    }

    #[test]
    fn the_shell_is_asked_as_its_schema_says() {
        let string = json!({"type": "string"});
        let words = json!({"type": "array"});
        for (name, schema, expected) in [
            ("exec_command", json!({"properties": {"cmd": string}}), json!({"cmd": "ls"})),
            (
                "shell",
                json!({"properties": {"command": words}}),
                json!({"command": ["bash", "-lc", "ls"]}),
            ),
            ("shell", json!({"properties": {"command": string}}), json!({"command": "ls"})),
            (
                "run_shell_command",
                json!({
                    "properties": {"command": string, "is_background": {"type": "boolean"}},
                    "required": ["command", "is_background"],
                }),
                json!({"command": "ls", "is_background": false}),
            ),
            // Without a schema the name has to do.
            ("exec_command", Value::Null, json!({"cmd": "ls"})),
            ("local_shell", Value::Null, json!({"command": ["bash", "-lc", "ls"]})),
            ("my_shell_tool", Value::Null, json!({"command": "ls"})),
        ] {
            let offered = json!([{"name": "Read"}, {"name": name, "parameters": schema}]);
            assert_eq!(shell_call(&tools(&offered), "ls"), (name.to_owned(), expected));
        }
    }

    #[test]
    fn a_tool_may_have_a_type_for_a_name() {
        let offered = tools(&json!([{"type": "local_shell"}]));
        assert_eq!(shell_call(&offered, "ls").0, "local_shell");
    }

    #[test]
    fn an_agent_without_a_shell_is_asked_all_the_same() {
        assert_eq!(shell_call(&[], "ls"), ("Bash".to_owned(), json!({"command": "ls"})));
    }
}
