//! The state of the coding agents on this machine.
//!
//! The only sources are the agents' own files and the kernel. This crate reads both for every question,
//! joins them and returns findings and faults together. It neither prints, nor
//! reads the environment, nor listens, nor depends on an async runtime: the world is handed in as a
//! [`host::Host`], so a test is just another host. The uses between rooms are drawn in
//! `docs/ARCHITECTURE.md`, section Directions; a test compares them with the imports.
#![warn(missing_docs)]

pub mod adapters;
pub mod ask;
pub mod changes;
pub mod events;
pub mod fleet;
pub mod fuses;
pub mod git;
pub mod hooks;
pub mod host;
pub mod inbox;
pub mod kernel;
pub mod launch;
pub mod locks;
pub mod marks;
pub mod model;
pub mod names;
pub mod native;
pub mod orders;
pub mod resolve;
pub mod runs;
pub mod send;
mod state_files;
pub mod stop;
pub mod talk;
pub mod text;
pub mod transcript;
pub mod trust;
pub mod wait;
mod wakeups;
pub mod worktrees;
