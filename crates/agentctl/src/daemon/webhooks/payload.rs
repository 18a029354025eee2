//! What is sent: the event, and beside it the fields under which the predecessor of this program told
//! that a session had stopped. A pure function of the event, so that every try sends the same bytes.

use agentctl_core::adapters::ALL;
use agentctl_core::events::{Event, EventKind};
use agentctl_core::model::{Exit, Session};
use serde_json::{Map, Value, json};

use crate::text;

/// So many characters of a prompt are a summary.
const SUMMARY: usize = 200;

/// Returns the body for an event. No text in it holds a control character.
#[must_use]
pub fn body(event: &Event) -> Vec<u8> {
    let mut value = json!(event);
    if let Value::Object(fields) = &mut value {
        fields.extend(as_before(event));
    }
    clean(&mut value);
    value.to_string().into_bytes()
}

/// The fields as they were before. `adapter` and `session_id` stand in the event already.
fn as_before(event: &Event) -> Map<String, Value> {
    let session = event.session.as_ref();
    // An end was one kind of hook, whether it went well or not.
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
        ("summary", json!(summary.map(|t| t.chars().take(SUMMARY).collect::<String>()))),
        ("meta", Value::Object(meta)),
        ("timestamp", json!(event.at)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// From the session's beginning to its end, or to the event while it has none.
#[must_use]
pub fn duration(session: &Session, event: &Event) -> Option<f64> {
    let end = session.ended_at.unwrap_or(event.at);
    let ms = end.millis().checked_sub(session.started_at?.millis())?;
    u64::try_from(ms).ok().map(|ms| std::time::Duration::from_millis(ms).as_secs_f64())
}

/// The exit code as a shell tells it: 128 and the signal, where one ended it.
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
