//! The built-in demo agent: a real process with its own files, turns, tools, questions and errors.
//!
//! It needs no account, no key and no network: the prompt is its script. `agentctl demo` starts it,
//! authors of adapters read it as an example, and the tests use it as a workload. It is written like a
//! real agent: it does not know agentctl.

pub mod agent;
mod asking;
mod home;
mod script;
mod socket;
mod writing;

use agentctl_core::host::Host;

/// Creates the folders of the demo agent, so that they can be watched before an agent begins.
pub(crate) fn make_home(host: &Host) -> std::io::Result<()> {
    home::Home::open(host).map(drop)
}
