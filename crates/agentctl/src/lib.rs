//! How the truth is shown: the commands of `agentctl`, and the built-in demo agent.
//!
//! `cli` turns arguments into questions to `agentctl-core` and hands the answers to `ui`, the only room
//! that prints. `demo` is an agent like any other: it writes its own files and knows nothing of `cli`.

pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod face;
pub mod failure;
pub mod parts;
pub mod place;
pub mod protocol;
pub mod rows;
pub mod shim;
pub mod text;
pub mod ui;
