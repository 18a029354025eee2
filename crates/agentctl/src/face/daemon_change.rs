//! The result of `daemon start` and `daemon stop` in words.

use crate::protocol::{DaemonChange, DaemonResult};

/// Returns the line that reports the result.
#[must_use]
pub fn daemon_change_line(change: &DaemonChange) -> String {
    let what = match (change.result, change.by_service_manager) {
        (DaemonResult::Started, false) => "started",
        (DaemonResult::Started, true) => "started by the service manager",
        (DaemonResult::AlreadyRunning, _) => "already running",
        (DaemonResult::Stopped, false) => "stopped",
        (DaemonResult::Stopped, true) => "stopped by the service manager",
        (DaemonResult::Killed, _) => "killed",
        (DaemonResult::NotRunning, _) => "the daemon is not running",
    };
    match change.pid {
        Some(pid) => format!("{what}, pid {pid}"),
        None => what.to_owned(),
    }
}
