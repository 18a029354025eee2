//! Fuses: a person's intent that something happens at a time, one small file each in `<state>/fuses/`.
//!
//! A fuse says what is to be done and when, never what lives: whether it is due is reckoned from the
//! clock and from a fresh look.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Time;

/// One fuse, as a person set it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Fuse {
    /// Its id.
    pub id: String,
    /// The directory it is bound to, links resolved.
    pub directory: Option<String>,
    /// The session it is bound to.
    pub session: Option<String>,
    /// A few words of whoever set it.
    pub label: Option<String>,
    /// When it was set.
    pub set_at: Time,
    /// When it burns down, for one with a time to live.
    pub due_at: Option<Time>,
}
