//! The check of the addresses that an event may be sent to. A name is resolved once per try, all its addresses
//! are checked, and the connection goes to a checked address: there is no second lookup with another result.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::config::WebhookEndpoint;

/// Turns a name and a port into addresses.
pub type Lookup = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Returns the resolver of the system.
#[must_use]
pub fn system_lookup() -> Lookup {
    Arc::new(|name, port| (name, port).to_socket_addrs().map(Iterator::collect))
}

/// Resolves the host name of the endpoint, whatever URL it is called with, and checks every address.
pub(super) struct CheckedResolver {
    pub(super) endpoint: Arc<WebhookEndpoint>,
    pub(super) lookup: Lookup,
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckedResolver").field(&self.endpoint).finish()
    }
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let (sender, found) = sync_channel(1);
        let (lookup, endpoint) = (Arc::clone(&self.lookup), Arc::clone(&self.endpoint));
        // `getaddrinfo` cannot be interrupted: run it on a thread that is abandoned after the timeout.
        std::thread::Builder::new().name("webhook-name".into()).spawn(move || {
            let _unheard = sender.send(lookup(&endpoint.host, endpoint.port));
        })?;
        let found = found.recv_timeout(*timeout.after);
        let found = found.map_err(|_| ureq::Error::Timeout(timeout.reason))??;
        if found.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        // One forbidden address refuses all: the owner of the name controls which address is tried.
        if let Some(why) = found.iter().find_map(|a| self.endpoint.refusal(a.ip())) {
            return Err(ureq::Error::Other(why.into()));
        }
        let mut checked = self.empty();
        for address in found {
            // The array has a fixed size; surplus addresses are not tried.
            let _surplus = checked.try_push(address);
        }
        Ok(checked)
    }
}
