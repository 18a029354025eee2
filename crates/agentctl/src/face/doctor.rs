//! The facts about this program that the question `doctor` needs: the configuration file and the daemon.

use agentctl_core::ask::{DaemonState, DoctorContext};
use agentctl_core::host::Host;
use agentctl_core::marks;

use crate::client::{Client, ClientError, HELLO_TIMEOUT};
use crate::config::Loaded;
use crate::place::Place;
use crate::protocol::DaemonStatus;
use crate::protocol::{NoParams, Request};

/// Collects what `doctor` cannot learn from the host alone. The daemon is asked unless the environment
/// forbids it.
#[must_use]
pub fn doctor_context(loaded: &Loaded) -> DoctorContext {
    loaded.doctor_context(daemon_state(&loaded.host))
}

/// Asks the daemon whether it notices changes by itself.
fn daemon_state(host: &Host) -> DaemonState {
    let asked = match host.var(marks::NO_DAEMON) {
        Some(_) => Err(ClientError::NotRunning),
        None => Client::connect(&Place::of(host), HELLO_TIMEOUT),
    };
    let asked = asked.and_then(|mut client| {
        client.call::<DaemonStatus>(&Request::DaemonStatus(NoParams {}), HELLO_TIMEOUT)
    });
    match asked {
        Ok(status) => {
            let version = status.version.unwrap_or_else(|| "unknown".to_owned());
            DaemonState::Serves { version, trouble: status.trouble }
        }
        Err(ClientError::NotRunning) => DaemonState::Absent,
        Err(error) => DaemonState::Silent(error.to_string()),
    }
}
