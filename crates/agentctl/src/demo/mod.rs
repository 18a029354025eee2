//! The built-in demo agent: a real process with its own files, turns, tools, questions and errors.
//!
//! It needs no account, no key and no network: the prompt is its script. It is what `agentctl demo`
//! starts, what people read who write an adapter, and the workload of the tests. It is written as an
//! agent would be: it does not know that anyone watches.

pub mod agent;
mod home;
mod script;
