//! Packed rows as bytes (postcard), for another process of the same program file. A row crosses as it is packed,
//! so neither side unpacks it for the transfer.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::{Packed, Rows};
use crate::model::{Evidence, InternedName, Status, Time, word};

/// Rows that were encoded together: their number, then one after another.
#[derive(Serialize)]
struct EncodedRows<'a> {
    rows: Vec<EncodedRow<'a>>,
}

/// The fields of a [`Packed`] row.
#[derive(Deserialize, Serialize)]
struct EncodedRow<'a> {
    #[serde(deserialize_with = "word")]
    adapter: InternedName,
    status: Status,
    newest: Option<Time>,
    pid: Option<u32>,
    is_child: bool,
    id_bytes: u8,
    shared: SharedEvidence,
    #[serde(borrow, serialize_with = "bytes")]
    bytes: &'a [u8],
}

/// The last piece of evidence of a row. Neighbours often have the same, and then it is sent once.
#[derive(Deserialize, Serialize)]
enum SharedEvidence {
    Absent,
    AsBefore,
    New(Evidence),
}

/// Serialises a slice in one copy; by default serde writes byte after byte.
fn bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl Rows {
    /// Encodes the rows of this range, for [`Rows::add_encoded`] of the same program.
    pub fn encode(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let mut last: Option<&Arc<Evidence>> = None;
        let rows = self.packed.get(range).unwrap_or_default().iter().map(|row| {
            let shared = match (&row.shared, last) {
                (None, _) => SharedEvidence::Absent,
                (Some(own), Some(last)) if Arc::ptr_eq(own, last) => SharedEvidence::AsBefore,
                (Some(own), _) => SharedEvidence::New(Evidence::clone(own)),
            };
            last = row.shared.as_ref().or(last);
            EncodedRow {
                adapter: row.adapter,
                status: row.status,
                newest: row.newest,
                pid: row.pid,
                is_child: row.is_child,
                id_bytes: row.id_bytes,
                shared,
                bytes: &row.bytes,
            }
        });
        postcard::to_stdvec(&EncodedRows { rows: rows.collect() }).map_err(io::Error::other)
    }

    /// Adds rows that [`Rows::encode`] encoded. Fails if these bytes are something else, if a row could not be
    /// unpacked, or if there would be more than `max_rows` in all: the number is checked before a row is decoded.
    pub fn add_encoded(&mut self, bytes: &[u8], max_rows: usize) -> io::Result<()> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let (count, mut rest) =
            postcard::take_from_bytes::<usize>(bytes).map_err(io::Error::other)?;
        if count > max_rows.saturating_sub(self.packed.len()) {
            return Err(invalid("it has too many rows"));
        }
        let mut last = None;
        for _ in 0..count {
            let (row, behind) =
                postcard::take_from_bytes::<EncodedRow<'_>>(rest).map_err(io::Error::other)?;
            rest = behind;
            let shared = match row.shared {
                SharedEvidence::Absent => None,
                SharedEvidence::AsBefore if last.is_none() => {
                    return Err(invalid("its first row refers to one before it"));
                }
                SharedEvidence::AsBefore => last.clone(),
                SharedEvidence::New(evidence) => {
                    last = Some(Arc::new(evidence));
                    last.clone()
                }
            };
            let row = Packed {
                adapter: row.adapter,
                status: row.status,
                newest: row.newest,
                pid: row.pid,
                is_child: row.is_child,
                launcher: None,
                id_bytes: row.id_bytes,
                shared,
                bytes: row.bytes.into(),
            };
            row.check().map_err(io::Error::other)?;
            self.packed.push(row);
        }
        if rest.is_empty() { Ok(()) } else { Err(invalid("bytes follow its last row")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::short_list::MAX_LIST_ELEMENTS;
    use super::super::tests::{empty, full};
    use super::*;
    use crate::model::Session;

    #[test]
    fn rows_that_were_encoded_are_the_same_rows() {
        let other = Session { evidence: full().evidence[..1].to_vec(), ..full() };
        let sessions = [full(), full(), empty(), full(), other];
        let rows = Rows::of(&sessions);
        let mut received = Rows::of(&[]);
        for range in [0..3, 3..3, 3..5, 5..9] {
            received.add_encoded(&rows.encode(range).unwrap(), 100).unwrap();
        }
        assert_eq!(received.iter().collect::<Vec<_>>(), sessions);
        assert_eq!((received.id(0), received.parent(0)), (rows.id(0), rows.parent(0)));
    }

    #[test]
    fn bytes_that_are_no_rows_are_refused() {
        let good = Rows::of(&[full(), empty()]).encode(0..2).unwrap();
        // Cut anywhere, or with any byte changed: an error or other rows, never a panic.
        for at in 0..good.len() {
            let mut rows = Rows::of(&[]);
            assert!(rows.add_encoded(&good[..at], 100).is_err(), "cut at {at}");
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                let mut rows = Rows::of(&[]);
                let _any = rows.add_encoded(&bad, 100);
                assert!(rows.len() <= 3 && rows.packed.iter().all(|row| row.check().is_ok()));
            }
        }
        // Rows behind the limit, bytes behind the rows, a reference to a row of another frame.
        let mut rows = Rows::of(&[full()]);
        assert!(rows.add_encoded(&good, 2).is_err() && rows.len() == 1);
        assert!(rows.add_encoded(&good, 3).is_ok());
        assert!(Rows::of(&[]).add_encoded(&[&good[..], &[0]].concat(), 100).is_err());
        let row = EncodedRow {
            adapter: "any",
            status: Status::Running,
            newest: None,
            pid: None,
            is_child: false,
            id_bytes: 8,
            shared: SharedEvidence::AsBefore,
            bytes: &[],
        };
        let alone = postcard::to_stdvec(&EncodedRows { rows: vec![row] }).unwrap();
        assert!(Rows::of(&[]).add_encoded(&alone, 100).is_err());
        // A row whose own bytes are cut, are too many, or have more elements than a session.
        let whole = Rows::of(&[full()]).packed.remove(0).bytes;
        let cut = &whole[..whole.len() - 1];
        let longer = [&whole[..], &[0]].concat();
        let crowded = Session { notes: vec![String::new(); MAX_LIST_ELEMENTS + 1], ..full() };
        let crowded = Rows::of(&[crowded]).packed.remove(0).bytes;
        for (bytes, is_valid) in
            [(&whole[..], true), (cut, false), (&longer, false), (&crowded, false)]
        {
            let mut rows = Rows::of(&[full()]);
            rows.packed[0].bytes = bytes.into();
            let frame = rows.encode(0..1).unwrap();
            assert_eq!(Rows::of(&[]).add_encoded(&frame, 100).is_ok(), is_valid);
        }
        // A length that promises more than there is.
        assert!(Rows::of(&[]).add_encoded(&[0xff, 0xff, 0xff, 0xff, 0x0f], usize::MAX).is_err());
    }
}
