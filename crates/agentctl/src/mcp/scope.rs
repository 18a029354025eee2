//! The directory tree to which `--scope` narrows all tools.

use std::path::{Path, PathBuf};

use agentctl_core::host::Host;
use agentctl_core::model::{Fault, Session};

use crate::failure::{Failure, Kind};

/// The directory tree that is shown and touched; without one, everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope(Option<PathBuf>);

impl Scope {
    /// Resolves the links of the directory of a scope.
    pub(super) fn of(host: &Host, directory: Option<&Path>) -> Result<Self, Failure> {
        let Some(directory) = directory else { return Ok(Self(None)) };
        let real =
            std::fs::canonicalize(host.cwd.join(directory)).ok().filter(|path| path.is_dir());
        let unusable = || {
            let message = format!("--scope: {} is not a directory", directory.display());
            Failure::new(Kind::Usage, message).hint("name a directory that exists")
        };
        real.map(|real| Self(Some(real))).ok_or_else(unusable)
    }

    /// Returns the directory, if there is one.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Returns a session as this server shows it: the agent that launched it may be outside of the scope.
    pub(super) fn shown(&self, mut session: Session) -> Session {
        if let Some(launcher) = session.launched_by.as_mut().filter(|_| self.0.is_some()) {
            (launcher.adapter, launcher.id) = (None, None);
        }
        session
    }

    /// Returns faults as this server shows them: their sentences may name sessions outside of the scope.
    pub(super) fn faults(&self, mut faults: Vec<Fault>) -> Vec<Fault> {
        if self.0.is_some() {
            for fault in &mut faults {
                "this source could not be read".clone_into(&mut fault.message);
            }
            faults.dedup();
        }
        faults
    }

    /// Says whether a directory is in the scope, links resolved. A session without a directory is not.
    pub(super) fn admits(&self, cwd: Option<&str>) -> bool {
        let Some(scope) = &self.0 else { return true };
        let Some(cwd) = cwd.map(Path::new).filter(|cwd| cwd.is_absolute()) else { return false };
        // A directory that is gone is judged by its name, unless the name leads upwards.
        let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        let leads_up = real.components().any(|part| part == std::path::Component::ParentDir);
        !leads_up && real.starts_with(scope)
    }
}
