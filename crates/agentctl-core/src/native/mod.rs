//! Readers of agents' files, shared by the adapters: limited, tolerant, and independent of the agent.
//!
//! A file is opened only if it is a regular file of this user, never through a link, never blocking. An
//! incomplete last line is skipped; a line over the limit is skipped and counted.

pub mod bun;
pub mod cache;
pub mod file;
pub mod git_head;
pub mod json5;
pub mod jsonl;
pub mod notifier;
pub mod private;
pub mod real_path;
pub mod sqlite;
pub mod watch;
