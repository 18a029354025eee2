//! Reading, or recalling what was read: only for somebody who stays awake, and only while what it was read
//! from is the same.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Look, Record, Turn};
use crate::native::cache::FileVersion;

/// So many rows of a database are remembered in one piece.
const PIECE_ROWS: usize = 128;

impl Look {
    /// Reads a record's outline, or recalls it where its file is what it was. It must say nothing but
    /// what stands in that file; `variant` tells different ways of reading it apart.
    pub fn outline(&self, path: &Path, variant: u8, read: impl FnOnce() -> Record) -> Record {
        let Some(memo) = &self.host.file_cache else { return read() };
        let kept = FileVersion::of_file(path).and_then(|basis| {
            let kept = memo.get::<Record>(path, variant, &basis)?;
            Some(Record { stamp: Some(basis.stamp()), ..kept })
        });
        if let Some(mut record) = kept {
            for evidence in &mut record.evidence {
                evidence.at = self.now;
            }
            return record;
        }
        let record = read();
        // What could not be read may be readable the next time.
        if let Some(stamp) = record.stamp.filter(|_| !matches!(record.turn, Turn::Unreadable(_))) {
            let basis = FileVersion::from(stamp);
            if FileVersion::of_file(path) == Some(basis) {
                memo.insert(path, variant, &basis, &record);
            }
        }
        record
    }

    /// Looks at a database before it is read, where what is read of it may be remembered.
    #[must_use]
    pub fn basis(&self, database: &Path) -> Option<FileVersion> {
        self.host.file_cache.as_ref().and_then(|_| FileVersion::of_database(database))
    }

    /// Reads one session's record in a database that was looked at before, or recalls it where that is
    /// what it was. It must say nothing but what stands there.
    pub fn outline_in<E>(
        &self,
        database: &Path,
        basis: Option<FileVersion>,
        id: &str,
        read: impl FnOnce() -> Result<Option<Record>, E>,
    ) -> Result<Option<Record>, E> {
        let (Some(memo), Some(basis)) = (&self.host.file_cache, basis) else { return read() };
        let name = database.join(id);
        if let Some(record) = memo.get(&name, 0, &basis) {
            return Ok(Some(record));
        }
        let record = read()?;
        if let Some(record) = &record
            && FileVersion::of_database(database) == Some(basis)
        {
            memo.insert(&name, 0, &basis, record);
        }
        Ok(record)
    }

    /// Reads all rows of a database that was looked at before, or recalls them where that is what it was.
    pub fn rows_in<T: Serialize + DeserializeOwned, E>(
        &self,
        database: &Path,
        basis: Option<FileVersion>,
        read: impl FnOnce() -> Result<Vec<T>, E>,
    ) -> Result<Vec<T>, E> {
        let (Some(memo), Some(basis)) = (&self.host.file_cache, basis) else { return read() };
        let piece = |number: usize| database.join(format!("rows/{number}"));
        let count = memo.get::<usize>(&database.join("rows"), 0, &basis);
        let pieces = count.map(|count| (0..count).map(|at| memo.get(&piece(at), 0, &basis)));
        if let Some(pieces) = pieces.and_then(Iterator::collect::<Option<Vec<Vec<T>>>>) {
            return Ok(pieces.into_iter().flatten().collect());
        }
        let rows = read()?;
        if FileVersion::of_database(database) == Some(basis) {
            let pieces = rows.chunks(PIECE_ROWS);
            memo.insert(&database.join("rows"), 0, &basis, &pieces.len());
            for (number, rows) in pieces.enumerate() {
                memo.insert(&piece(number), 0, &basis, &rows);
            }
        }
        Ok(rows)
    }
}
