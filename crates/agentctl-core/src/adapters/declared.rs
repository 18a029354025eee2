//! The declarations of an adapter, so that no other room needs to know its agent: the environment variables
//! it reads, its table in the configuration file, its names in webhook payloads.

use crate::host::Host;

/// The environment variables that an adapter reads.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// Variables that decide what an answer contains. They are part of the fingerprint by which a command
    /// tells whether a daemon sees the same homes and servers.
    pub answers: &'static [&'static str],
    /// Variables that only decide which program is installed and how it is launched.
    pub launch: &'static [&'static str],
}

impl Variables {
    /// No variable.
    pub const NONE: Self = Self { answers: &[], launch: &[] };

    /// Returns the value of a declared variable, if it is set and not empty. A variable that is not declared
    /// counts as unset, so a variable missing from the fingerprint cannot decide an answer.
    #[must_use]
    pub fn get<'h>(&self, host: &'h Host, name: &str) -> Option<&'h str> {
        let declared = self.answers.contains(&name) || self.launch.contains(&name);
        debug_assert!(declared, "{name} is read and not declared");
        if declared { host.var(name) } else { None }
    }
}

/// Returns the value of a variable whose name a settings file of the agent gives: the place of a secret.
/// Such names cannot be declared; they decide whether a server lets us in, never which server is asked.
#[must_use]
pub fn variable_named_by_settings<'h>(host: &'h Host, name: &str) -> Option<&'h str> {
    host.var(name)
}

/// The content of the table `[<adapter>]` in the configuration file.
#[derive(Clone, Copy, Debug)]
pub enum Settings {
    /// There is no such table.
    None,
    /// Keys, each with the values that it may have.
    Choices(&'static [Setting]),
    /// `[[<adapter>.gateways]]`: servers on a network, read into [`Host::gateways`].
    Gateways,
}

/// A setting of one adapter in the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key below `[<adapter>]`.
    pub key: &'static str,
    /// The accepted values; the first is the default.
    pub values: &'static [&'static str],
}

/// The fields of a webhook's `meta` in which receivers of this agent expect the callback of a launch.
#[derive(Clone, Copy, Debug)]
pub struct CallbackFields {
    /// The field for the session that asked for the launch.
    pub session: &'static str,
    /// The field for the agent that asked for the launch.
    pub agent: &'static str,
}
