//! A list as text. Thousands of rows are written on all cores: whoever asked waits for it.

use std::ops::Range;

use agentctl_core::host::Host;
use agentctl_core::model::Listing;
use serde::ser::Error;
use serde_json::Result;

use super::protocol::{Form, Tabled};
use crate::parts::in_parts;
use crate::rows::drawn;
use crate::text::{json_line, push_json};

/// Writes a list in this form, on one line.
pub(super) fn written(host: &Host, listing: Listing, form: Form) -> Result<String> {
    let Listing { schema_version, sessions, faults } = listing;
    let empty = Listing { schema_version, sessions: Vec::new(), faults };
    let whole = |text: &mut Vec<u8>, range: Range<usize>| {
        sessions[range].iter().try_for_each(|session| item(text, session))
    };
    match form {
        Form::Document => filled(&json_line(&empty)?, "sessions", sessions.len(), whole),
        Form::Shown => {
            let (faults, document) = (json_line(&empty.faults)?, json_line(&empty)?);
            let frame = format!("{{\"faults\":{faults},\"document\":{document}}}");
            filled(&frame, "sessions", sessions.len(), whole)
        }
        Form::Table(canvas) => {
            let text = drawn(canvas, host, &sessions);
            // The rows are larger than their text, and the text is about to be copied.
            drop(sessions);
            json_line(&Tabled { faults: empty.faults, text })
        }
    }
}

fn item(text: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<()> {
    text.push(b',');
    push_json(text, value)
}

/// Puts items into the empty list of this name: a quote inside a string would be escaped, so only the name
/// itself is found.
fn filled(
    frame: &str,
    name: &str,
    count: usize,
    items: impl Fn(&mut Vec<u8>, Range<usize>) -> Result<()> + Sync,
) -> Result<String> {
    let Some((before, after)) = frame.split_once(&format!("\"{name}\":[]")) else {
        // An empty list would be a lie.
        return Err(serde_json::Error::custom(format!("there is no list `{name}` to fill")));
    };
    let parts = in_parts(count, |range| {
        let mut text = Vec::new();
        items(&mut text, range).map(|()| text)
    });
    let parts: Vec<Vec<u8>> = parts.into_iter().collect::<Result<_>>()?;
    let length = frame.len() + parts.iter().map(Vec::len).sum::<usize>();
    let mut text = Vec::with_capacity(length);
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(format!("\"{name}\":[").as_bytes());
    for (index, part) in parts.iter().enumerate() {
        // Each item brought its comma, and the first needs none.
        text.extend_from_slice(part.get(usize::from(index == 0)..).unwrap_or_default());
    }
    text.push(b']');
    text.extend_from_slice(after.as_bytes());
    Ok(String::from_utf8(text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stand_in_their_order_between_what_was_around_them() {
        for count in [0, 1, 2, 5000] {
            let frame = r#"{"a":"\"items\":[]","items":[],"z":{"items":[]}}"#;
            let text = filled(frame, "items", count, |text, range| {
                range.into_iter().try_for_each(|number| item(text, &number))
            });
            let read: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
            let numbers: Vec<usize> = (0..count).collect();
            let expected = serde_json::json!({
                "a": "\"items\":[]", "items": numbers, "z": {"items": []}
            });
            assert_eq!(read, expected, "{count}");
        }
        let missing = filled(r#"{"other":[]}"#, "items", 1, |text, _| item(text, &1));
        assert!(missing.is_err(), "nothing is left out in silence");
    }
}
