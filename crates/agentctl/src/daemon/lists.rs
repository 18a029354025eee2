//! A list as text. Thousands of rows are written on all cores: a client waits for them. A longer list is
//! written in pieces, when it is sent: as one text it would be larger than its rows.

use std::borrow::Cow;
use std::ops::Range;

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::model::{Listing, SCHEMA_VERSION};
use serde::ser::Error;
use serde_json::Result;

use crate::parallel::in_parts;
use crate::protocol::{Form, Tabled};
use crate::session_table::drawn;
use crate::text::{json_line, push_json};

/// A list of more rows is written in pieces of so many.
const PIECE_ROWS: usize = 4096;
/// A text from this length on is large.
const LARGE: usize = 1 << 20;

/// The text of an answer: JSON of one line.
#[derive(Debug)]
pub(super) enum Text {
    /// All of it.
    Whole(String),
    /// A long list that is written when it is sent.
    Pieces(Pieces),
}

/// A long list: its rows, and the text around them.
#[derive(Debug)]
pub(super) struct Pieces {
    before: String,
    rows: Rows,
    after: String,
}

impl Text {
    /// Says whether so much memory was needed for it that it is given back to the system afterwards.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Whole(text) => text.len() >= LARGE,
            Self::Pieces(_) => true,
        }
    }

    /// Returns the piece with this number; `None` behind the last one.
    pub(super) fn piece(&self, number: usize) -> Option<Result<Cow<'_, [u8]>>> {
        match self {
            Self::Whole(text) => (number == 0).then(|| Ok(text.as_bytes().into())),
            Self::Pieces(pieces) => pieces.get(number),
        }
    }
}

impl Pieces {
    fn get(&self, number: usize) -> Option<Result<Cow<'_, [u8]>>> {
        let Some(number) = number.checked_sub(1) else {
            return Some(Ok(self.before.as_bytes().into()));
        };
        let from = number * PIECE_ROWS;
        if from < self.rows.len() {
            let many = PIECE_ROWS.min(self.rows.len() - from);
            let text = items(many, |text, range| {
                push_rows(text, &self.rows, from + range.start..from + range.end)
            });
            // Each row brought its comma, and the first needs none.
            let text = text.map(|mut text| {
                if from == 0 {
                    text.remove(0);
                }
                text.into()
            });
            return Some(text);
        }
        (number == self.rows.len().div_ceil(PIECE_ROWS)).then(|| Ok(self.after.as_bytes().into()))
    }
}

/// Writes a list in this form, on one line.
pub(super) fn written(host: &Host, rows: Rows, form: Form) -> Result<Text> {
    let faults = rows.faults.clone();
    let empty = Listing { schema_version: SCHEMA_VERSION, sessions: Vec::new(), faults };
    match form {
        Form::Document => filled(&json_line(&empty)?, rows),
        Form::Shown => {
            let (faults, document) = (json_line(&empty.faults)?, json_line(&empty)?);
            filled(&format!("{{\"faults\":{faults},\"document\":{document}}}"), rows)
        }
        Form::Table(canvas) => {
            let text = drawn(canvas, host, &rows);
            // The rows are larger than their text, and the text is about to be copied.
            drop(rows);
            json_line(&Tabled { faults: empty.faults, text }).map(Text::Whole)
        }
    }
}

/// Puts the rows into the empty list of sessions; few of them at once.
fn filled(frame: &str, rows: Rows) -> Result<Text> {
    let (before, after) = around(frame, "sessions")?;
    if rows.len() > PIECE_ROWS {
        return Ok(Text::Pieces(Pieces { before, rows, after }));
    }
    let rows = items(rows.len(), |text, range| push_rows(text, &rows, range))?;
    let rows = String::from_utf8(rows).unwrap_or_default();
    let rows = rows.strip_prefix(',').unwrap_or_default();
    Ok(Text::Whole([&before, rows, &after].concat()))
}

fn push_rows(text: &mut Vec<u8>, rows: &Rows, range: Range<usize>) -> Result<()> {
    range.filter_map(|at| rows.get(at)).try_for_each(|session| item(text, &session))
}

fn item(text: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<()> {
    text.push(b',');
    push_json(text, value)
}

/// Returns the text before and behind the items of the empty list of this name: a quote inside a string would
/// be escaped, so only the name itself is found.
fn around(frame: &str, name: &str) -> Result<(String, String)> {
    match frame.split_once(&format!("\"{name}\":[]")) {
        Some((before, after)) => Ok((format!("{before}\"{name}\":["), format!("]{after}"))),
        // An empty list would be a lie.
        None => Err(serde_json::Error::custom(format!("there is no list `{name}` to fill"))),
    }
}

/// Writes so many items on all cores, each behind a comma.
fn items(
    count: usize,
    items: impl Fn(&mut Vec<u8>, Range<usize>) -> Result<()> + Sync,
) -> Result<Vec<u8>> {
    let parts = in_parts(count, |range| {
        let mut text = Vec::new();
        items(&mut text, range).map(|()| text)
    });
    let parts: Vec<Vec<u8>> = parts.into_iter().collect::<Result<_>>()?;
    Ok(parts.concat())
}

#[cfg(test)]
mod tests {
    use agentctl_core::model::Session;

    use super::*;

    #[test]
    fn items_stand_in_their_order_between_what_was_around_them() {
        for count in [1, 2, 5000] {
            let frame = r#"{"a":"\"items\":[]","items":[],"z":{"items":[]}}"#;
            let (before, after) = around(frame, "items").unwrap();
            let text = items(count, |text, range| {
                range.into_iter().try_for_each(|number| item(text, &number))
            });
            let text = String::from_utf8(text.unwrap()).unwrap();
            let text = [&before, text.strip_prefix(',').unwrap(), &after].concat();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            let numbers: Vec<usize> = (0..count).collect();
            let expected = serde_json::json!({
                "a": "\"items\":[]", "items": numbers, "z": {"items": []}
            });
            assert_eq!(read, expected, "{count}");
        }
        assert!(around(r#"{"other":[]}"#, "items").is_err(), "nothing is left out in silence");
    }

    /// A long list in pieces is the same text as the list written at once.
    #[test]
    fn the_pieces_of_a_long_list_are_its_whole_text() {
        for count in [0, 1, PIECE_ROWS, PIECE_ROWS + 1, 2 * PIECE_ROWS, 2 * PIECE_ROWS + 7] {
            let sessions: Vec<Session> = (0..count).map(session).collect();
            let text = filled(EMPTY, Rows::of(&sessions)).unwrap();
            assert_eq!(matches!(text, Text::Pieces(_)), count > PIECE_ROWS, "{count}");
            let pieces = (0..).map_while(|number| text.piece(number));
            let pieces: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().into_owned()).collect();
            let whole = json_line(&Rows::of(&sessions)).unwrap();
            assert!(pieces == whole.as_bytes(), "{count}");
        }
    }

    const EMPTY: &str = r#"{"schema_version":1,"sessions":[],"faults":[]}"#;

    fn session(number: usize) -> Session {
        let text = format!(
            r#"{{"id":"{number}","adapter":"any","root":"/","status":"stopped","processes":[],"hosted":false,
            "notes":[],"evidence":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }
}
