//! The commands of `agentctl`, its daemon, and the built-in demo agent.
//!
//! `cli` turns arguments into questions to `agentctl-core` and passes the answers to `ui`, the only room that
//! prints. `demo` is an agent like any other: it writes its own files and does not use `cli`.

pub mod asker;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod face;
pub mod failure;
pub mod http;
pub mod mcp;
pub mod parallel;
pub mod place;
pub mod protocol;
pub mod session_table;
pub mod shim;
pub mod text;
pub mod tui;
pub mod ui;
pub mod web;
