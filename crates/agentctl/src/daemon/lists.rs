//! The answer to `session.list` as bytes, a part at a time: a long list as one text would be larger than its
//! rows. Each part is made after the part before it was sent.

use std::io;
use std::ops::Range;

use agentctl_core::fleet::Rows;
use agentctl_core::model::SCHEMA_VERSION;

use crate::protocol::PackedList;
use crate::text::push_json;

/// Number of rows per part.
const ROWS_PER_PART: usize = 4096;

/// Returns the rows of each part. A list without rows has one part too.
pub(super) fn parts(rows: &Rows) -> impl Iterator<Item = Range<usize>> + use<> {
    let count = rows.len();
    let starts = (0..count.max(1)).step_by(ROWS_PER_PART);
    starts.map(move |from| from..count.min(from + ROWS_PER_PART))
}

/// Returns one part of the document `list`. The parts together are the JSON of the rows.
pub(super) fn json(rows: &Rows, range: Range<usize>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if range.start == 0 {
        text = format!("{{\"schema_version\":{SCHEMA_VERSION},\"sessions\":[").into_bytes();
    }
    for at in range.clone() {
        if at > 0 {
            text.push(b',');
        }
        push_json(&mut text, &rows.get(at))?;
    }
    if range.end == rows.len() {
        text.extend(b"],\"faults\":");
        push_json(&mut text, &rows.faults)?;
        text.push(b'}');
    }
    Ok(text)
}

/// Returns the document that announces a packed list; one frame per part follows it.
pub(super) fn packed_head(rows: &Rows) -> PackedList {
    PackedList { faults: rows.faults.clone(), frames: parts(rows).count() }
}

/// Returns one part of a packed list as a frame: its length in four bytes, the lowest first, and the rows.
pub(super) fn packed_frame(rows: &Rows, range: Range<usize>) -> io::Result<Vec<u8>> {
    let rows = rows.encode(range)?;
    let length = u32::try_from(rows.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), &rows[..]].concat())
}

#[cfg(test)]
mod tests {
    use agentctl_core::model::{Fault, FaultCode, Session};

    use super::*;
    use crate::text::json_line;

    #[test]
    fn the_parts_of_a_list_are_its_document() {
        for count in [0, 1, ROWS_PER_PART, ROWS_PER_PART + 1, 2 * ROWS_PER_PART + 7] {
            let sessions: Vec<Session> = (0..count).map(session).collect();
            let mut rows = Rows::of(&sessions);
            let message = "\"sessions\":[]".to_owned();
            rows.faults.push(Fault {
                adapter: "any",
                root: None,
                code: FaultCode::Timeout,
                message,
            });
            let text: Vec<u8> = parts(&rows).flat_map(|part| json(&rows, part).unwrap()).collect();
            assert!(text == json_line(&rows).unwrap().as_bytes(), "{count}");
        }
    }

    #[test]
    fn the_frames_of_a_packed_list_are_its_rows() {
        for count in [0, 1, ROWS_PER_PART, 2 * ROWS_PER_PART + 7] {
            let sessions: Vec<Session> = (0..count).map(session).collect();
            let rows = Rows::of(&sessions);
            assert_eq!(packed_head(&rows).frames, parts(&rows).count());
            let mut received = Rows::of(&[]);
            for part in parts(&rows) {
                let frame = packed_frame(&rows, part).unwrap();
                let (length, bytes) = frame.split_first_chunk().unwrap();
                assert_eq!(u32::from_le_bytes(*length) as usize, bytes.len());
                received.add_encoded(bytes, usize::MAX).unwrap();
            }
            assert!(received.iter().eq(sessions), "{count}");
        }
    }

    fn session(number: usize) -> Session {
        let text = format!(
            r#"{{"id":"{number}","adapter":"any","root":"/","status":"stopped","processes":[],"hosted":false,
            "notes":[],"evidence":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }
}
