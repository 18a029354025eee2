//! The body of a webhook request: the event, and the fields in which the predecessor of this program reported
//! the end of a session. A pure function of the event, so that every try sends the same bytes.

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::model::{Exit, Session};
use serde_json::{Map, Value, json};

use crate::text;

/// Maximum number of characters of a prompt in `summary`.
const MAX_SUMMARY_CHARS: usize = 200;

/// Returns the body for an event. Control characters in its texts are neutralised.
#[must_use]
pub fn body(event: &Event) -> Vec<u8> {
    let mut value = json!(event);
    if let Value::Object(fields) = &mut value {
        fields.extend(predecessor_fields(event));
    }
    clean(&mut value);
    value.to_string().into_bytes()
}

/// Returns the fields of the predecessor, except `adapter` and `session_id`, which the event has already.
fn predecessor_fields(event: &Event) -> Map<String, Value> {
    let session = event.session.as_ref();
    // The predecessor had one kind for every end of a session.
    let kind = match event.kind {
        EventKind::Error => EventKind::Stopped,
        other => other,
    };
    let mut meta = Map::new();
    if let Some(callback) = &event.callback {
        for names in ALL.iter().filter_map(|adapter| adapter.callback_fields()) {
            for (name, value) in
                [(names.session, &callback.session), (names.agent, &callback.agent)]
            {
                meta.extend(value.iter().map(|v| (name.to_owned(), json!(v))));
            }
        }
    }
    let summary = session.and_then(|s| s.prompt.as_deref());
    let fields = [
        ("hook_type", json!(kind.word())),
        ("cwd", json!(session.and_then(|s| s.cwd.as_deref()))),
        ("duration_seconds", json!(session.and_then(|s| duration(s, event)))),
        ("exit_status", json!(session.and_then(|s| s.exit).and_then(exit_status))),
        ("summary", json!(summary.map(|t| t.chars().take(MAX_SUMMARY_CHARS).collect::<String>()))),
        ("meta", Value::Object(meta)),
        ("timestamp", json!(event.at)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the seconds from the start of a session to its end, or to the event while it lives.
#[must_use]
pub fn duration(session: &Session, event: &Event) -> Option<f64> {
    let end = session.ended_at.unwrap_or(event.at);
    let ms = end.millis().checked_sub(session.started_at?.millis())?;
    u64::try_from(ms).ok().map(|ms| std::time::Duration::from_millis(ms).as_secs_f64())
}

/// Returns the exit code as a shell shows it: 128 plus the signal for a killed process.
fn exit_status(exit: Exit) -> Option<i32> {
    exit.code.or_else(|| exit.signal.map(|signal| 128 + signal))
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(cleaned) = text::clean(text) {
                *text = cleaned;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
