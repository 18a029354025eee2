//! A conversation as lines: one per text, one per tool call, one per result.
//!
//! OpenCode rewrites a message while it grows. So a line is made only of parts that will not change any
//! more, in the order in which they were begun: a line that was shown is never repeated.

use serde::Deserialize;
use serde_json::{Value, json};

use super::changes;
use super::entry::{Info, Part};
use crate::adapters::Conversation;
use crate::model::{FileEdit, Image, Message, Role, Time, ToolResult};

/// One line: the message, one of its parts, and whether it is a tool call or its result.
#[derive(Deserialize)]
struct Line {
    info: Info,
    #[serde(default)]
    part: Option<Part>,
    tells: String,
}

/// A stored message: its id, its own text, the texts of its parts.
pub(super) type Stored = (String, String, Vec<String>);

/// Makes lines of messages and their parts, oldest first.
pub(super) fn lines(messages: &[Stored]) -> Conversation {
    let mut all = Conversation::default();
    for (at, (_, data, parts)) in messages.iter().enumerate() {
        let Ok(info) = serde_json::from_str::<Value>(data) else { continue };
        let Ok(read) = serde_json::from_str::<Info>(data) else { continue };
        // A message that is followed by another one will not change any more, even if it looks open.
        let over = read.time.completed.is_some() || read.role == "user" || at + 1 < messages.len();
        all.lines.extend(changes::turn_line(&info));
        let mut tools: Vec<Part> = Vec::new();
        for text in parts {
            let Ok(raw) = serde_json::from_str::<Value>(text) else { continue };
            let Ok(part) = serde_json::from_str::<Part>(text) else { continue };
            if part.is_tool() {
                if part.state.status != "pending" {
                    all.lines.push(line(&info, Some(&called(&raw)), "call"));
                }
                if !part.is_open() {
                    all.lines.push(line(&info, Some(&raw), "result"));
                } else if !over {
                    return all;
                }
            } else if part.grows() && !over && part.time.end.is_none() {
                all.unfinished = Some(line(&info, Some(&raw), "part"));
                return all;
            } else if part.grows() || matches!(part.kind.as_str(), "file" | "step-finish") {
                all.lines.push(line(&info, Some(&raw), "part"));
            } else if part.kind == "patch" {
                all.lines.extend(changes::changed_line(&info, &raw, &tools));
            }
            if part.is_tool() {
                tools.push(part);
            }
        }
        if read.error.is_some() {
            all.lines.push(line(&info, None, "end"));
        }
    }
    all
}

/// Returns a tool call without its result, which is another line.
fn called(part: &Value) -> Value {
    let state = &part["state"];
    json!({
        "id": part["id"], "type": "tool", "tool": part["tool"], "callID": part["callID"],
        "state": {
            "status": "running", "input": state["input"], "time": { "start": state["time"]["start"] },
        },
    })
}

/// Makes a line. Of the message it contains only fields that never change, so that the line never
/// changes.
fn line(info: &Value, part: Option<&Value>, tells: &str) -> Vec<u8> {
    let mut short = serde_json::Map::new();
    for key in ["id", "sessionID", "role", "agent", "modelID", "providerID", "model"] {
        short.extend(info.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    short.insert("time".into(), json!({ "created": info["time"]["created"] }));
    if part.is_none() {
        short.insert("error".into(), info["error"].clone());
        short.insert("time".into(), info["time"].clone());
    }
    json!({ "tells": tells, "info": short, "part": part }).to_string().into_bytes()
}

/// Turns one line into messages.
pub(super) fn read(bytes: &[u8]) -> Vec<Message> {
    let Ok(line) = serde_json::from_slice::<Line>(bytes) else { return Vec::new() };
    message(line).into_iter().collect()
}

fn message(line: Line) -> Option<Message> {
    let Line { info, part, tells } = line;
    let role = if info.role == "user" { Role::User } else { Role::Assistant };
    let model = info.model().filter(|_| role == Role::Assistant);
    let base = |role: Role, at: Option<i64>| Message {
        id: Some(info.id.clone()).filter(|id| !id.is_empty()),
        at: at.or(info.time.created).and_then(Time::from_millis),
        ..Message::of(role)
    };
    let Some(part) = part else {
        let error = info.error.as_ref()?;
        let said = if error.is_abort() {
            "interrupted".to_owned()
        } else {
            format!("the turn failed: {}", error.text())
        };
        return Some(Message { text: Some(said), ..base(Role::System, info.time.completed) });
    };
    match (part.kind.as_str(), tells.as_str()) {
        // Added by OpenCode itself: the content of a file that the user named, a reminder.
        ("text", _) if part.synthetic => None,
        ("text", _) => Some(Message { text: part.text, model, ..base(role, part.time.start) }),
        ("reasoning", _) => {
            Some(Message { thinking: part.text, model, ..base(role, part.time.start) })
        }
        ("file", _) => {
            let mime = part.mime.filter(|mime| mime.starts_with("image/"))?;
            let image = Image { media_type: Some(mime), name: part.filename };
            Some(Message { images: vec![image], ..base(role, part.time.start) })
        }
        ("step-finish", _) => {
            let usage = part.tokens.map(Into::into);
            Some(Message { usage, ..base(Role::Assistant, None) })
        }
        ("tool", "call") => {
            let calls = vec![part.call()];
            Some(Message { tool_calls: calls, model, ..base(role, part.state.time.start) })
        }
        ("tool", "result") => {
            let is_error = part.state.status == "error";
            let text = part.state.output.or(part.state.error).unwrap_or_default();
            let edits = part.state.metadata.as_ref().and_then(|metadata| {
                let path = part.state.input["filePath"].as_str().map(str::to_owned);
                FileEdit::from_unified(path, metadata["diff"].as_str()?)
            });
            let edits = edits.into_iter().collect();
            let result =
                ToolResult { id: part.call_id, text, is_error, edits, ..ToolResult::default() };
            Some(Message { tool_results: vec![result], ..base(Role::Tool, part.state.time.end) })
        }
        _ => None,
    }
}
