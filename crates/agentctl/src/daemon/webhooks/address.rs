//! Which addresses an event may be sent to. A name is resolved once a try; every address it has is
//! judged, and one of those judged is connected to: there is no second resolution that could differ.

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

/// Asks the system.
#[must_use]
pub fn system_lookup() -> Lookup {
    Arc::new(|name, port| (name, port).to_socket_addrs().map(Iterator::collect))
}

/// Resolves an endpoint's own name, whatever it is asked, and judges every address.
pub(super) struct Judge {
    pub(super) endpoint: Arc<WebhookEndpoint>,
    pub(super) lookup: Lookup,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Judge").field(&self.endpoint).finish()
    }
}

impl Resolver for Judge {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let (sender, found) = sync_channel(1);
        let (lookup, endpoint) = (Arc::clone(&self.lookup), Arc::clone(&self.endpoint));
        // The system's resolver cannot be interrupted, so it is left behind when the time is up.
        std::thread::Builder::new().name("webhook-name".into()).spawn(move || {
            let _unheard = sender.send(lookup(&endpoint.host, endpoint.port));
        })?;
        let found = found.recv_timeout(*timeout.after);
        let found = found.map_err(|_| ureq::Error::Timeout(timeout.reason))??;
        if found.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        // One bad address is enough: whoever rules the name would choose which one is tried.
        if let Some(why) = found.iter().find_map(|a| self.endpoint.refusal(a.ip())) {
            return Err(ureq::Error::Other(why.into()));
        }
        let mut judged = self.empty();
        for address in found {
            // There is room for a few; those that follow are not tried.
            let _spare = judged.try_push(address);
        }
        Ok(judged)
    }
}
