//! The `PermissionRequest` hook of Claude Code: its settings, its input, its output. Our asker is the hook.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClaudeCode, NAME, answers, arguments, home, live, settled};
use crate::adapters::asker::{AskHook, HookState, HookedAsk, above};
use crate::adapters::proof::prove;
use crate::adapters::{Look, Root};
use crate::kernel::Process;
use crate::marks::ASKER;
use crate::model::{Reply, is_session_id};

/// The name of the event.
const EVENT: &str = "PermissionRequest";

/// The input of the hook, as far as it is read.
#[derive(Deserialize)]
struct Input {
    session_id: String,
    hook_event_name: String,
    tool_name: String,
}

impl AskHook for ClaudeCode {
    fn open(&self, look: &Look, asker: &Process, input: &[u8]) -> Option<HookedAsk> {
        let value: Value = serde_json::from_slice(input).ok()?;
        let Input { session_id, hook_event_name, tool_name } =
            serde_json::from_value(value.clone()).ok()?;
        if hook_event_name != EVENT || tool_name.is_empty() || !is_session_id(&session_id) {
            return None;
        }
        let serves = |process: &Process| {
            let home = home::home_of(look, process)?;
            let root = Root::known(home);
            prove(self, look, &root, process).ok()?;
            live::recorded(look, root.path(), &process.id)
                .filter(|record| record.session_id == session_id)
        };
        let (agent, record) = above(look, asker).find_map(|process| {
            let record = serves(&process)?;
            Some((process, record))
        })?;
        let is_asked_elsewhere = record.has_terminal() || arguments::asks_on_stdio(&agent.argv);
        Some(HookedAsk {
            agent: agent.id,
            session_id,
            record: settled::transcript_of(look, &value),
            input: value,
            has_other_ways: is_asked_elsewhere,
        })
    }

    fn state(&self, look: &Look, ask: &HookedAsk) -> HookState {
        let record = look.host.kernel.process(ask.agent.pid).ok().flatten().and_then(|process| {
            let home = home::home_of(look, &process)?;
            live::recorded(look, &home, &ask.agent)
        });
        match record.as_ref().and_then(|record| record.status.as_deref()) {
            // All asks of a session share its live record; the result of a call stands in its transcript.
            Some("waiting") if settled::has_result(look, ask) => HookState::NotOpen,
            Some("waiting") => HookState::Open,
            Some(_) => HookState::NotOpen,
            None => HookState::Unknown,
        }
    }

    fn decision(&self, input: &Value, reply: &Reply) -> Result<Vec<u8>, String> {
        let suggestions = &input["permission_suggestions"];
        let mut decision = answers::decision(&input["tool_input"], suggestions, reply)?;
        if matches!(reply, Reply::Allow | Reply::Always(_))
            && let Some(object) = decision.as_object_mut()
        {
            // The call runs as the model made it: nothing is lost in a copy of its input.
            object.remove("updatedInput");
        }
        let output = json!({"hookSpecificOutput": {"hookEventName": EVENT, "decision": decision}});
        Ok(output.to_string().into_bytes())
    }

    fn settings_file(&self) -> &'static str {
        "the settings.json of Claude Code (in ~/.claude, or in CLAUDE_CONFIG_DIR)"
    }

    fn settings(&self, program: &Path, runtime: &Path, seconds: u64) -> String {
        let words = [
            "exec".to_owned(),
            quoted(&program.to_string_lossy()),
            ASKER.to_owned(),
            quoted(&runtime.to_string_lossy()),
            NAME.to_owned(),
            seconds.to_string(),
        ];
        let hook = json!({"type": "command", "command": words.join(" "), "timeout": seconds});
        json!({"hooks": {EVENT: [{"matcher": "*", "hooks": [hook]}]}}).to_string()
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_is_one_command_of_whole_paths_and_replaces_its_shell() {
        let text =
            ClaudeCode.settings(Path::new("/opt/it's here/agentctl"), Path::new("/run/a"), 60);
        let settings: Value = serde_json::from_str(&text).expect("JSON");
        let hook = &settings["hooks"]["PermissionRequest"][0]["hooks"][0];
        assert_eq!(hook["timeout"], 60);
        assert_eq!(
            hook["command"],
            r"exec '/opt/it'\''s here/agentctl' asker '/run/a' claude-code 60"
        );
    }

    #[test]
    fn a_denial_is_the_output_of_the_hook_and_nothing_else_is() {
        let input = json!({"tool_input": {"command": "touch x"}});
        let deny = Reply::Deny { message: Some("not today".into()) };
        let output = ClaudeCode.decision(&input, &deny).expect("taken");
        assert_eq!(
            String::from_utf8(output).expect("text"),
            r#"{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"not today"},"hookEventName":"PermissionRequest"}}"#
        );
        assert!(ClaudeCode.decision(&input, &Reply::Fields(Vec::new())).is_err());
    }
}
