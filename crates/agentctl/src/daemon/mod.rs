//! Who is awake: what reacts to an edge the moment it is seen.
//!
//! Every listener hears events on its own and can only fall behind by itself.

pub mod notify;
pub mod webhooks;

use std::sync::Arc;

/// Where one sentence for the log goes. It holds no secret and no control character.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;
