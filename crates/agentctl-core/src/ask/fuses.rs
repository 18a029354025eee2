//! The question `fuses`: which fuses are set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::fuses::{self, Fuse};
use crate::model::{Fault, SCHEMA_VERSION};

/// The answer to `fuses --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct FusesDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The fuses; the fuse that expires next comes first.
    pub fuses: Vec<Fuse>,
    /// The sources that could not be read.
    pub faults: Vec<Fault>,
}

impl Fleet {
    /// Lists the fuses.
    #[must_use]
    pub fn fuses(&self) -> FusesDocument {
        let (fuses, faults) = fuses::all(&self.host);
        FusesDocument { schema_version: SCHEMA_VERSION, fuses, faults }
    }
}
