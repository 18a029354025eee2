//! The reason of the lock that a launcher holds on a worktree while it makes it.
//!
//! `agentctl <id> <pid>:<start>:<boot>:<pid namespace>:<machine>` names the launcher. A launcher that is proved
//! to be gone has left a worktree that is not complete.

use crate::host::Host;
use crate::kernel::Liveness;
use crate::model::ProcId;

/// The first word of the reason.
const MARK: &str = "agentctl";

/// The launcher that makes a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReason {
    /// The id of the launch.
    pub id: String,
    /// The launcher's process.
    pub pid: u32,
    /// The start time of that process.
    pub start_ticks: u64,
    /// The boot that it belongs to.
    pub boot_id: String,
    /// Its pid namespace.
    pub pid_namespace: u64,
    /// The machine, where it has an id.
    pub machine: Option<String>,
}

impl LockReason {
    /// Returns the reason for locks of this process; `None` if the kernel does not tell its start time.
    #[must_use]
    pub fn of_this_process(host: &Host, id: &str) -> Option<Self> {
        let own = host.kernel.process(std::process::id()).ok().flatten()?.id;
        Some(Self {
            id: id.to_owned(),
            pid: own.pid,
            start_ticks: own.start_ticks,
            boot_id: own.boot_id,
            pid_namespace: host.kernel.pid_namespace(),
            machine: host.kernel.machine_id().map(str::to_owned),
        })
    }

    /// Parses the reason of a lock; `None` for a lock that is not ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (mark, id, process) = (words.next()?, words.next()?, words.next()?);
        let mut parts = process.split(':');
        let reason = Self {
            id: id.to_owned(),
            pid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
            boot_id: parts.next()?.to_owned(),
            pid_namespace: parts.next()?.parse().ok()?,
            machine: Some(parts.next()?.to_owned()).filter(|machine| machine != "-"),
        };
        (mark == MARK && words.next().is_none() && parts.next().is_none()).then_some(reason)
    }

    /// Says whether the launcher is proved to be gone: it ended on this machine, in this pid namespace, or
    /// before the last boot of this machine.
    #[must_use]
    pub fn is_gone(&self, host: &Host) -> bool {
        let kernel = &host.kernel;
        if self.machine.as_deref() != kernel.machine_id() {
            return false;
        }
        if self.boot_id != kernel.boot_id() {
            // Without an id of the machine it may be another machine with a shared file system.
            return self.machine.is_some();
        }
        let process = ProcId {
            pid: self.pid,
            start_ticks: self.start_ticks,
            inode: None,
            boot_id: self.boot_id.clone(),
        };
        if self.pid_namespace == kernel.pid_namespace() {
            return kernel.liveness(&process) == Liveness::Gone;
        }
        kernel.sees_whole_machine()
            && matches!(kernel.namespace_is_inhabited(self.pid_namespace), Ok(false))
    }
}

impl std::fmt::Display for LockReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let machine = self.machine.as_deref().unwrap_or("-");
        let Self { id, pid, start_ticks, boot_id, pid_namespace, .. } = self;
        write!(f, "{MARK} {id} {pid}:{start_ticks}:{boot_id}:{pid_namespace}:{machine}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_written_and_other_locks_are_not_ours() {
        for machine in [None, Some("ab12".to_owned())] {
            let reason = LockReason {
                id: "0199-ab".into(),
                pid: 42,
                start_ticks: 17,
                boot_id: "b-1".into(),
                pid_namespace: 9,
                machine,
            };
            assert_eq!(LockReason::parse(&reason.to_string()), Some(reason));
        }
        for other in
            ["", "initializing", "agentctl", "agentctl a 1:2:b:3", "agentctl a 1:2:b:3:- x"]
        {
            assert_eq!(LockReason::parse(other), None, "{other}");
        }
    }
}
