//! Readers of native files, shared by adapters: bounded, tolerant, and ignorant of which agent they serve.
//!
//! A file is opened only if it is a regular file of this user, never through a link, never blocking. A
//! torn last line is held back; a line over the budget is passed over and counted.

pub mod bun;
pub mod cache;
pub mod file;
pub mod json5;
pub mod jsonl;
pub mod notifier;
pub mod private;
pub mod sqlite;
pub mod watch;
