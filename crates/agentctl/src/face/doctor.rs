//! The facts about this program that the question `doctor` needs: the configuration file and the daemon.

use std::time::Instant;

use agentctl_core::ask::{DaemonState, DoctorContext, WebContext};
use agentctl_core::host::Host;
use agentctl_core::kernel::user_exists;
use agentctl_core::marks;

use crate::client::{Client, ClientError, HELLO_TIMEOUT};
use crate::config::{Loaded, WebAddress};
use crate::place::{ConnectError, Place};
use crate::protocol::DaemonStatus;
use crate::protocol::{NoParams, Request};

/// Collects what `doctor` cannot learn from the host alone. The daemon is asked unless the environment
/// forbids it.
#[must_use]
pub fn doctor_context(loaded: &Loaded) -> DoctorContext {
    loaded.doctor_context((daemon_state(&loaded.host), web_context(loaded)))
}

/// Looks whether a server of the page runs, and at its settings.
fn web_context(loaded: &Loaded) -> WebContext {
    let connected = Place::of_web(&loaded.host).connect(Instant::now() + HELLO_TIMEOUT);
    let trouble = match &connected {
        Err(ConnectError::Untrusted(why)) => Some(why.clone()),
        Err(ConnectError::TimedOut) => Some("the server accepts no connection".to_owned()),
        Ok(_) | Err(ConnectError::NoListener) => None,
    };
    let is_unknown = |user: &&String| user.parse::<u32>().is_err() && !user_exists(user);
    let is_exposed =
        matches!(&loaded.web.listen, WebAddress::Tcp(address) if !address.ip().is_loopback());
    WebContext {
        is_running: connected.is_ok(),
        trouble,
        unknown_users: loaded.web.proxy_users.iter().filter(is_unknown).cloned().collect(),
        is_exposed,
    }
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
