//! The other end of a connection, as the kernel can be asked about it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A TCP connection: both addresses name it.
    Tcp {
        /// Our end.
        server: SocketAddr,
        /// The other end.
        client: SocketAddr,
    },
    /// A Unix socket: a descriptor of the connection, to ask the kernel for its peer.
    Unix(Arc<OwnedFd>),
    /// A connection that could not be examined when it was accepted.
    Unknown,
}
