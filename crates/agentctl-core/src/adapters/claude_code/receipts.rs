//! The lines of a transcript that show that a message reached a session at work.
//!
//! At rest a message is a `user` line with our id. In a tool it becomes an attachment of the running turn. In a
//! model call it is queued first, without its id, and becomes a turn of its own later.

use serde::Deserialize;

use crate::adapters::answering::SpokenMessage;
use crate::native::jsonl;

/// A line about the queue of messages, or the attachment that a queued message becomes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queued {
    #[serde(rename = "type")]
    kind: String,
    operation: Option<String>,
    content: Option<serde_json::Value>,
    command_uuid: Option<String>,
    attachment: Option<Attachment>,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(rename = "type")]
    kind: String,
    source_uuid: Option<String>,
}

/// Says whether a line shows that the session has this message.
pub(super) fn is_receipt(line: &[u8], message: &SpokenMessage<'_>) -> bool {
    let holds = |text: &[u8]| memchr::memmem::find(line, text).is_some();
    if !holds(b"\"queue-operation\"") && !holds(b"\"queued_command\"") {
        return false;
    }
    let Some(queued) = jsonl::parse::<Queued>(line) else { return false };
    let id = message.id.to_string();
    let is_ours = |uuid: &Option<String>| uuid.as_deref() == Some(id.as_str());
    let is_enqueued = || {
        let text = queued.content.as_ref().and_then(serde_json::Value::as_str);
        queued.operation.as_deref() == Some("enqueue") && text == Some(message.text)
    };
    match queued.kind.as_str() {
        "queue-operation" => is_ours(&queued.command_uuid) || is_enqueued(),
        "attachment" => queued.attachment.is_some_and(|attached| {
            attached.kind == "queued_command" && is_ours(&attached.source_uuid)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_received_when_it_is_queued_or_absorbed() {
        let id = uuid::Uuid::new_v4();
        let message = SpokenMessage { id, text: "and this" };
        let is = |line: &str| is_receipt(line.replace("ID", &id.to_string()).as_bytes(), &message);
        assert!(is(r#"{"type":"queue-operation","operation":"enqueue","content":"and this"}"#));
        assert!(is(r#"{"type":"queue-operation","operation":"remove","commandUuid":"ID"}"#));
        assert!(is(
            r#"{"type":"attachment","attachment":{"type":"queued_command","source_uuid":"ID"}}"#
        ));
        assert!(!is(r#"{"type":"queue-operation","operation":"enqueue","content":"and that"}"#));
        assert!(!is(r#"{"type":"queue-operation","operation":"dequeue","content":"and this"}"#));
        assert!(!is(
            r#"{"type":"attachment","attachment":{"type":"queued_command","source_uuid":"x"}}"#
        ));
    }
}
