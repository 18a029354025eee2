//! The process on the other end of a TCP connection of this machine.
//!
//! The kernel lists both ends of a connection, each with the owner and the inode of its socket. The processes that hold
//! the socket have a descriptor with that inode.

use std::io;
use std::net::SocketAddr;

use super::Kernel;
use super::descriptors::socket_inodes;
use super::serving::{canonical, each_socket};

/// The client end of a connection on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientEnd {
    /// The owner of its socket.
    pub uid: u32,
    /// The inode of its socket.
    inode: u64,
}

impl Kernel {
    /// Returns the client end of the connection from `client` to `server`; `None` if it is not on this machine, or not
    /// in this network namespace.
    pub fn client_end(
        &self,
        server: SocketAddr,
        client: SocketAddr,
    ) -> io::Result<Option<ClientEnd>> {
        let (server, client) = (canonical(server), canonical(client));
        let mut found = None;
        each_socket(client.port(), |row| {
            if row.is_connection(client, server) {
                found = Some(ClientEnd { uid: row.uid, inode: row.inode });
            }
        })?;
        Ok(found)
    }

    /// Returns the processes of this user that hold the client end of a connection: none if it cannot be seen.
    pub fn holders_of(&self, end: ClientEnd) -> io::Result<Vec<u32>> {
        let mut holders = Vec::new();
        for pid in self.own_pids()? {
            // A process may be gone, or hide its descriptors.
            if socket_inodes(pid).is_ok_and(|inodes| inodes.contains(&end.inode)) {
                holders.push(pid);
            }
        }
        Ok(holders)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_process_that_connects_is_found_by_its_socket() {
        let kernel = Kernel::open().expect("a kernel");
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let server = listener.local_addr().expect("an address");
            let stream = TcpStream::connect(server).expect("connected");
            let client = stream.local_addr().expect("an address");
            let end = kernel.client_end(server, client).expect("read").expect("it is here");
            assert_eq!(end.uid, kernel.uid());
            assert!(kernel.holders_of(end).expect("read").contains(&std::process::id()));
            assert_eq!(kernel.client_end(client, client).expect("read"), None);
        }
    }
}
