//! Records from the daemon's cache: a record is read again only if its file or database has changed.
//! Without a cache (every short-lived command) everything is read.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Look, Record, Turn};
use crate::native::cache::FileVersion;

/// Rows of a database per cache entry.
const ROWS_PER_ENTRY: usize = 128;

impl Look {
    /// Returns a record's outline from the cache if its file is unchanged, else reads it. The record
    /// must depend on nothing but that file; `variant` tells different ways of reading it apart.
    pub fn outline(&self, path: &Path, variant: u8, read: impl FnOnce() -> Record) -> Record {
        let Some(cache) = &self.host.file_cache else { return read() };
        let kept = FileVersion::of_file(path).and_then(|basis| {
            let kept = cache.get::<Record>(path, variant, &basis)?;
            Some(Record { stamp: Some(basis.stamp()), ..kept })
        });
        if let Some(mut record) = kept {
            for evidence in &mut record.evidence {
                evidence.at = self.now;
            }
            return record;
        }
        let record = read();
        // An unreadable record is not cached: it may be readable the next time.
        if let Some(stamp) = record.stamp.filter(|_| !matches!(record.turn, Turn::Unreadable(_))) {
            let basis = FileVersion::from(stamp);
            if FileVersion::of_file(path) == Some(basis) {
                cache.insert(path, variant, &basis, &record);
            }
        }
        record
    }

    /// Returns the version of a database before it is read; `None` without a cache.
    #[must_use]
    pub fn basis(&self, database: &Path) -> Option<FileVersion> {
        self.host.file_cache.as_ref().and_then(|_| FileVersion::of_database(database))
    }

    /// Returns one session's record from the cache if the database still has this version, else reads
    /// it. The record must depend on nothing but the database.
    pub fn outline_in<E>(
        &self,
        database: &Path,
        basis: Option<FileVersion>,
        id: &str,
        read: impl FnOnce() -> Result<Option<Record>, E>,
    ) -> Result<Option<Record>, E> {
        let (Some(cache), Some(basis)) = (&self.host.file_cache, basis) else { return read() };
        let name = database.join(id);
        if let Some(record) = cache.get(&name, 0, &basis) {
            return Ok(Some(record));
        }
        let record = read()?;
        if let Some(record) = &record
            && FileVersion::of_database(database) == Some(basis)
        {
            cache.insert(&name, 0, &basis, record);
        }
        Ok(record)
    }

    /// Returns all rows of a database from the cache if it still has this version, else reads them.
    pub fn rows_in<T: Serialize + DeserializeOwned, E>(
        &self,
        database: &Path,
        basis: Option<FileVersion>,
        read: impl FnOnce() -> Result<Vec<T>, E>,
    ) -> Result<Vec<T>, E> {
        let (Some(cache), Some(basis)) = (&self.host.file_cache, basis) else { return read() };
        let piece = |number: usize| database.join(format!("rows/{number}"));
        let count = cache.get::<usize>(&database.join("rows"), 0, &basis);
        let pieces = count.map(|count| (0..count).map(|at| cache.get(&piece(at), 0, &basis)));
        if let Some(pieces) = pieces.and_then(Iterator::collect::<Option<Vec<Vec<T>>>>) {
            return Ok(pieces.into_iter().flatten().collect());
        }
        let rows = read()?;
        if FileVersion::of_database(database) == Some(basis) {
            let pieces = rows.chunks(ROWS_PER_ENTRY);
            cache.insert(&database.join("rows"), 0, &basis, &pieces.len());
            for (number, rows) in pieces.enumerate() {
                cache.insert(&piece(number), 0, &basis, &rows);
            }
        }
        Ok(rows)
    }
}
