//! Setting and extending a fuse: the address is checked with the configuration, the core changes the fuse, and
//! a daemon is started if none runs, because only a daemon fires fuses.

use agentctl_core::ask::{ExtendFuseRequest, FuseDocument, FuseRequest};
use agentctl_core::fuses::Action;
use agentctl_core::host::Host;
use agentctl_core::marks;

use super::{OutputKind, OutputLine, fuse_not_changed};
use crate::client::start;
use crate::config::{Loaded, check_address};
use crate::failure::Failure;

/// A fuse that was set or extended.
#[derive(Debug)]
pub struct FuseSet {
    /// The answer of the core.
    pub document: FuseDocument,
    /// The daemon that fires the fuse.
    pub daemon: FuseDaemon,
}

/// Whether a daemon runs that fires the fuse.
#[derive(Debug)]
pub enum FuseDaemon {
    /// It was running.
    Running,
    /// It was started for the fuse.
    Started {
        /// Its process.
        pid: u32,
    },
    /// None was looked for or started, because `AGENTCTL_NO_DAEMON` is set.
    Forbidden,
    /// None could be reached or started.
    Failed(Failure),
}

impl FuseDaemon {
    /// Makes sure that a daemon runs.
    #[must_use]
    pub fn ensure(host: &Host) -> Self {
        if host.var(marks::NO_DAEMON).is_some() {
            return Self::Forbidden;
        }
        match start::ensure(host) {
            Ok((client, true)) => Self::Started { pid: client.welcome.pid },
            Ok((_, false)) => Self::Running,
            Err(why) => Self::Failed(why.into()),
        }
    }

    /// Says whether the fuse cannot fire although a daemon was wanted.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Returns the remark or the warning about the daemon; `None` where it was running.
    #[must_use]
    pub fn line(&self) -> Option<OutputLine> {
        let (kind, text) = match self {
            Self::Running => return None,
            Self::Started { pid } => (OutputKind::Note, format!("started the daemon, pid {pid}")),
            Self::Forbidden => {
                let why = "no daemon is started (AGENTCTL_NO_DAEMON)";
                (OutputKind::Warning, format!("{why}: fuses do not fire until one runs"))
            }
            Self::Failed(why) => {
                (OutputKind::Warning, format!("{why}: fuses do not fire until a daemon runs"))
            }
        };
        Some(OutputLine::new(kind, text))
    }
}

/// Sets a fuse, and makes sure that a daemon runs.
pub fn set_fuse(loaded: &Loaded, request: &FuseRequest) -> Result<FuseSet, Failure> {
    for action in &request.on_expire {
        if matches!(action, Action::Webhook { .. }) {
            loaded.check_webhooks()?;
        }
        check_address(&loaded.webhooks, action)?;
    }
    let fleet = loaded.fleet();
    let document = fleet.set_fuse(request).map_err(|error| fuse_not_changed(&fleet, error))?;
    Ok(FuseSet { document, daemon: FuseDaemon::ensure(&fleet.host) })
}

/// Extends a fuse, and makes sure that a daemon runs.
pub fn extend_fuse(loaded: &Loaded, request: &ExtendFuseRequest) -> Result<FuseSet, Failure> {
    let fleet = loaded.fleet();
    let document = fleet.extend_fuse(request).map_err(|error| fuse_not_changed(&fleet, error))?;
    Ok(FuseSet { document, daemon: FuseDaemon::ensure(&fleet.host) })
}
