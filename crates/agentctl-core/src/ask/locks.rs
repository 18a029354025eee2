//! The question `locks`: which directories are occupied or locked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::locks::{self, Lock};
use crate::model::{Fault, SCHEMA_VERSION};

/// The answer to `locks --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LocksDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// One row per directory and holder.
    pub locks: Vec<Lock>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Lists the directories that are occupied or locked.
    #[must_use]
    pub fn locks(&self) -> LocksDocument {
        let (locks, faults) = locks::all(self);
        LocksDocument { schema_version: SCHEMA_VERSION, locks, faults }
    }
}
