//! The asks of a thread that waits for a human: the open calls of its rollout.
//!
//! The request itself is sent only to clients that subscribe to the thread, and looking never subscribes. The
//! id of the call is also the id of the request, so the request is compared with the call when it is answered.
//! Of several open calls of one turn the rollout does not tell which ones wait; all are listed.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::rollout::Line;
use super::visit::Outcome;
use super::{CodexStore, NAME, messages, server};
use crate::adapters::describe_ask::other_arguments;
use crate::adapters::{Found, Store, skipped};
use crate::model::{
    Ask, AskChannel, AskChoice, AskField, AskKind, AskOption, AskPart, Session, Time, ToolCall,
    shell_line,
};
use crate::native::{file, jsonl};

/// Bytes read at once from the end of a rollout.
const TAIL_CHUNK: usize = 16 << 10;
/// The result of a call that was refused is shorter than this.
const MAX_REFUSAL_BYTES: usize = 1 << 10;
/// Most open calls that are listed.
const MAX_CALLS: usize = 32;
/// The shells that Codex runs a script with.
const SHELLS: [&str; 9] = [
    "bash",
    "sh",
    "zsh",
    "/bin/bash",
    "/bin/sh",
    "/bin/zsh",
    "/usr/bin/bash",
    "/usr/bin/sh",
    "/usr/bin/zsh",
];
/// The arguments of a command that are shown by themselves, or change neither the command nor its rights.
const SHOWN_ARGUMENTS: [&str; 10] = [
    "cmd",
    "command",
    "workdir",
    "justification",
    "login",
    "tty",
    "timeout",
    "timeout_ms",
    "yield_time_ms",
    "max_output_tokens",
];
/// The tool by which the model asks questions.
pub(super) const QUESTION_TOOL: &str = "request_user_input";

/// Reads the open calls of a waiting thread.
pub(super) fn read(store: &CodexStore<'_>, session: &Session) -> Found<Ask> {
    let (look, root) = (store.look, store.root);
    let Some(id) = &session.id else { return Found::default() };
    let found = store.expected(id).or_else(|| store.find(id).rows.into_iter().next());
    let Some(path) = found.and_then(|locator| locator.path) else { return Found::default() };
    let calls = match open_calls(&path, look.host.kernel.uid()) {
        Ok(calls) => calls,
        Err(skip) => return Found::fault(skipped(NAME, root, &path, &skip)),
    };
    let has_server = server::socket_of_host(look, root, session).is_some();
    let is_question = AskKind::of(session.reason.as_ref().map(|reason| reason.kind));
    let is_question = is_question == AskKind::Question;
    let rows = calls.into_iter().filter(|call| (call.call.name == QUESTION_TOOL) == is_question);
    let rows = rows.map(|open| {
        let mut ask = describe(session, &open.call);
        ask.since = open.at.or(ask.since);
        if !has_server {
            ask.via = None;
        }
        let source = format!("{NAME}:{}", path.file_name().unwrap_or_default().to_string_lossy());
        ask.evidence.push(look.evidence(source, format!("call {} is open", ask.native)));
        ask
    });
    Found { rows: rows.collect(), ..Found::default() }
}

/// A call without a result.
struct OpenCall {
    call: ToolCall,
    at: Option<Time>,
}

/// Returns the calls of the current turn that have no result, oldest first.
fn open_calls(path: &Path, uid: u32) -> Result<Vec<OpenCall>, file::Skip> {
    let opened = file::open(path, uid)?;
    let mut answered = HashSet::new();
    let mut open: Vec<OpenCall> = Vec::new();
    // A rollout that cannot be read any further shows no more open calls.
    let _end = jsonl::tail(&opened.file, opened.size, TAIL_CHUNK, &mut |bytes| {
        let Some(line) = Line::parse(bytes) else { return ControlFlow::Continue(()) };
        if line.kind == "event_msg" {
            let payload: Option<Value> = line.payload();
            let kind = payload.as_ref().and_then(|payload| payload["type"].as_str());
            if matches!(kind, Some("task_started" | "task_complete" | "turn_aborted")) {
                return ControlFlow::Break(());
            }
        } else if line.kind == "response_item" {
            for message in messages::read(bytes) {
                answered.extend(message.tool_results.into_iter().filter_map(|result| result.id));
                let unanswered =
                    |call: &ToolCall| call.id.as_ref().is_some_and(|id| !answered.contains(id));
                let calls = message.tool_calls.into_iter().filter(unanswered);
                open.extend(calls.map(|call| OpenCall { call, at: message.at }));
            }
        }
        if open.len() < MAX_CALLS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    open.reverse();
    Ok(open)
}

/// Reads what became of a call of the current or last turn; `None` while it has no result.
pub(super) fn outcome(path: &Path, uid: u32, call: &str) -> Option<Outcome> {
    let opened = file::open(path, uid).ok()?;
    let mut found = None;
    let _end = jsonl::tail(&opened.file, opened.size, TAIL_CHUNK, &mut |bytes| {
        for message in messages::read(bytes) {
            if message.tool_calls.iter().any(|open| open.id.as_deref() == Some(call)) {
                return ControlFlow::Break(());
            }
            let mut results = message.tool_results.iter();
            if let Some(result) = results.find(|result| result.id.as_deref() == Some(call)) {
                found = Some(outcome_of(&result.text));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    found
}

/// Reads the result of a call. The result of a command that ran begins with lines about it.
fn outcome_of(text: &str) -> Outcome {
    let has_run = text.contains("Process exited with code") || text.contains("Exit code:");
    let says = |words: &str| !has_run && text.len() < MAX_REFUSAL_BYTES && text.contains(words);
    if says("aborted by user") {
        Outcome::Interrupted
    } else if says("rejected by user") {
        Outcome::Declined
    } else {
        Outcome::Ran
    }
}

/// Describes the ask that this call has open.
pub(super) fn describe(session: &Session, call: &ToolCall) -> Ask {
    let mut ask = Ask::of(session);
    ask.via = Some(AskChannel::Server);
    ask.set_tool(call.clone());
    match Asked::of(call) {
        Asked::Command(_) => {
            ask.kind = AskKind::Permission;
            let text = command_text(call).unwrap_or_default();
            ask.set_title(&format!("{}: {text}", call.name));
            ask.parts = vec![AskPart::command(&text)];
            // Codex carries a patch in a command out as a change of files.
            if text.contains("*** Begin Patch") {
                ask.parts.extend(file_changes(&text));
            }
            ask.parts.extend(call.input["justification"].as_str().map(AskPart::text));
            ask.parts.extend(other_arguments(call, &SHOWN_ARGUMENTS));
            ask.cwd = directory(ask.cwd.as_deref(), call);
            ask.choices = decisions();
        }
        Asked::Patch(patch) => {
            ask.kind = AskKind::Permission;
            ask.parts = file_changes(patch);
            ask.choices = decisions();
        }
        Asked::Questions(questions) => {
            ask.kind = AskKind::Question;
            ask.fields = questions.iter().map(field).collect();
            let first = ask.fields.first().map(|field| field.text.clone()).unwrap_or_default();
            ask.set_title(&first);
            ask.parts = ask.fields.iter().map(|field| AskPart::text(&field.text)).collect();
            ask.choices = vec![AskChoice::stop()];
        }
        Asked::Unknown => {
            ask.parts = vec![AskPart::json(&call.input)];
            ask.via = None;
            ask.why_not = Some(
                "requests of this tool are not known here; answer it in its own client".into(),
            );
        }
    }
    ask.identify(session, call.id.as_deref().unwrap_or_default());
    ask
}

/// Returns the directory in which a command runs: Codex joins a relative `workdir` to that of the turn. `None` if
/// neither is known.
fn directory(session: Option<&str>, call: &ToolCall) -> Option<String> {
    let workdir = call.input["workdir"].as_str().filter(|path| !path.is_empty());
    let joined = match (session, workdir) {
        (_, Some(workdir)) if workdir.starts_with('/') => PathBuf::from(workdir),
        (Some(session), Some(workdir)) => Path::new(session).join(workdir),
        (Some(session), None) => PathBuf::from(session),
        (None, _) => return None,
    };
    Some(without_dots(&joined).to_string_lossy().into_owned())
}

/// Returns a path without `.` and `..`, as Codex resolves it: by its words, not by following links.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // The parent of the root is the root.
            Component::ParentDir => drop(clean.pop()),
            part => clean.push(part),
        }
    }
    clean
}

/// The decisions about a command or a change of files. A rule that Codex would store is only in the request,
/// which a look does not receive, so none is offered.
fn decisions() -> Vec<AskChoice> {
    vec![AskChoice::allow(), AskChoice::deny(), AskChoice::stop()]
}

/// The subject of a call that may wait for a human.
pub(super) enum Asked<'a> {
    /// A command: its words, or one word that a shell reads.
    Command(Vec<&'a str>),
    /// A change of files, in the format of `apply_patch`.
    Patch(&'a str),
    /// Questions.
    Questions(&'a [Value]),
    /// Anything else.
    Unknown,
}

impl<'a> Asked<'a> {
    /// Reads the subject of a call.
    pub(super) fn of(call: &'a ToolCall) -> Self {
        let input = &call.input;
        match call.name.as_str() {
            QUESTION_TOOL => match input["questions"].as_array() {
                Some(questions) if !questions.is_empty() => Self::Questions(questions),
                _ => Self::Unknown,
            },
            "apply_patch" => match input.as_str().or_else(|| input["input"].as_str()) {
                Some(patch) => Self::Patch(patch),
                None => Self::Unknown,
            },
            "exec_command" | "shell" | "shell_command" | "local_shell" | "container.exec" => {
                let command = input.get("cmd").or_else(|| input.get("command"));
                match command {
                    Some(Value::String(text)) => Self::Command(vec![text]),
                    Some(Value::Array(words)) => {
                        let texts: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                        let is_whole = texts.len() == words.len() && !texts.is_empty();
                        if is_whole { Self::Command(texts) } else { Self::Unknown }
                    }
                    _ => Self::Unknown,
                }
            }
            _ => Self::Unknown,
        }
    }
}

/// Returns the command of a call as one text: a script that a shell reads stands for itself. Only the usual
/// shells are left out; any other program is a part of the command.
fn command_text(call: &ToolCall) -> Option<String> {
    match Asked::of(call) {
        Asked::Command(words) => Some(match words.as_slice() {
            [script] => (*script).to_owned(),
            [shell, "-lc" | "-c", script] if SHELLS.contains(shell) => (*script).to_owned(),
            words => shell_line(words),
        }),
        _ => None,
    }
}

fn field(question: &Value) -> AskField {
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    let options = question["options"].as_array().into_iter().flatten().filter_map(|option| {
        Some(AskOption { label: text(&option["label"])?, about: text(&option["description"]) })
    });
    AskField {
        id: text(&question["id"]).unwrap_or_default(),
        header: text(&question["header"]),
        text: text(&question["question"]).unwrap_or_default(),
        options: options.collect(),
        many: false,
        // Codex adds "None of the above" with a text of one's own.
        free_text: true,
        secret: question["isSecret"] == true,
    }
}

/// Returns the file that a line of a patch names.
fn patched_file(line: &str) -> Option<&str> {
    const MARKS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

/// Splits a patch into one change per file.
fn file_changes(patch: &str) -> Vec<AskPart> {
    let mut changes: Vec<(&str, String)> = Vec::new();
    for line in patch.lines() {
        if let Some(path) = patched_file(line) {
            changes.push((path, String::new()));
        }
        let is_frame = line.starts_with("*** Begin Patch") || line.starts_with("*** End Patch");
        if let Some((_, change)) = changes.last_mut().filter(|_| !is_frame) {
            change.push_str(line);
            change.push('\n');
        }
    }
    if changes.is_empty() {
        return vec![AskPart::text(patch)];
    }
    changes.iter().map(|(path, change)| AskPart::diff(path, change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_shown_file_by_file_and_whole() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n+new\n*** Delete File: c.rs\n*** End Patch\n";
        let changes = file_changes(patch);
        let shown: Vec<(&str, &str)> = changes
            .iter()
            .filter_map(|part| match part {
                AskPart::Diff { path, unified, .. } => Some((path.as_str(), unified.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a.rs", "*** Update File: a.rs\n@@\n-x\n+y\n"),
                ("b.rs", "*** Add File: b.rs\n+new\n"),
                ("c.rs", "*** Delete File: c.rs\n"),
            ]
        );
    }

    #[test]
    fn a_command_is_shown_with_its_program_its_shell_and_its_sandbox() {
        let mut session = crate::fleet::blank_session(NAME, "/home/ada/.codex".into());
        session.id = Some("01a1".into());
        let shown = |name: &str, input: Value| {
            let ask = describe(&session, &ToolCall { id: None, name: name.into(), input });
            (ask.title, ask.parts)
        };
        let json = |value: Value| AskPart::json(&value);
        for (command, text) in [
            (serde_json::json!(["bash", "-lc", "npm test"]), "npm test"),
            (serde_json::json!(["./evil", "-c", "npm test"]), "./evil -c 'npm test'"),
            (serde_json::json!(["rm", "-r", "a b"]), "rm -r 'a b'"),
        ] {
            let (title, parts) = shown("shell", serde_json::json!({ "command": command }));
            assert_eq!(title, format!("shell: {text}"));
            assert_eq!(parts, [AskPart::command(text)]);
        }
        let input = serde_json::json!({"cmd": "ls", "shell": "/tmp/evil", "yield_time_ms": 9,
            "sandbox_permissions": "require_escalated"});
        let others =
            serde_json::json!({"shell": "/tmp/evil", "sandbox_permissions": "require_escalated"});
        assert_eq!(shown("exec_command", input).1, [AskPart::command("ls"), json(others)]);
    }

    #[test]
    fn the_directory_of_a_command_is_shown_as_codex_resolves_it() {
        let mut session = crate::fleet::blank_session(NAME, "/home/ada/.codex".into());
        session.id = Some("01a1".into());
        session.cwd = Some("/home/ada/shop".into());
        let shown = |workdir: Value| {
            let input = serde_json::json!({"cmd": "ls", "workdir": workdir});
            describe(&session, &ToolCall { id: None, name: "exec_command".into(), input }).cwd
        };
        for (workdir, directory) in [
            (Value::Null, "/home/ada/shop"),
            ("".into(), "/home/ada/shop"),
            ("./src".into(), "/home/ada/shop/src"),
            ("../../production".into(), "/home/production"),
            ("../../../..".into(), "/"),
            ("/srv/./data/..".into(), "/srv"),
        ] {
            assert_eq!(shown(workdir.clone()).as_deref(), Some(directory), "{workdir}");
        }
    }

    #[test]
    fn only_calls_of_the_last_turn_without_a_result_are_open() {
        let directory = tempfile::tempdir().expect("dir");
        let path = directory.path().join("rollout.jsonl");
        let line = |kind: &str, payload: serde_json::Value| {
            let line = serde_json::json!({"timestamp": "2026-11-16T16:00:00Z", "type": kind, "payload": payload});
            format!("{line}\n")
        };
        let call = |id: &str, command: &str| {
            let arguments = serde_json::json!({"cmd": command}).to_string();
            line(
                "response_item",
                serde_json::json!({"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": id}),
            )
        };
        let result = |id: &str, output: &str| {
            line(
                "response_item",
                serde_json::json!({"type": "function_call_output", "call_id": id, "output": output}),
            )
        };
        let begins = line("event_msg", serde_json::json!({"type": "task_started"}));
        let refused = "exec_command failed: CreateProcess { message: \"Rejected(\\\"rejected by user\\\")\" }";
        let ran = "Process exited with code 0\nOutput:\nrejected by user\n";
        let text = [
            begins.clone(),
            call("old", "x"),
            begins,
            call("a", "x"),
            result("a", refused),
            call("b", "x"),
            result("b", ran),
            call("c", "touch x"),
        ];
        std::fs::write(&path, text.concat()).expect("written");
        let uid = rustix::process::geteuid().as_raw();
        let open = open_calls(&path, uid).expect("read");
        let ids: Vec<_> = open.iter().filter_map(|open| open.call.id.as_deref()).collect();
        assert_eq!(ids, ["c"]);
        assert_eq!(outcome(&path, uid, "a"), Some(Outcome::Declined));
        assert_eq!(outcome(&path, uid, "b"), Some(Outcome::Ran), "its output says something else");
        assert_eq!(outcome(&path, uid, "c"), None);
    }
}
