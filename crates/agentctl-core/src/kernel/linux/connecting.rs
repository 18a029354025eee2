//! The processes on the other end of a connection of this machine.
//!
//! The kernel lists both ends of a connection, each with the owner and the inode of its socket. The processes that hold
//! the socket have a descriptor with that inode.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::descriptors::socket_inodes;
use super::serving::{canonical, each_socket};
use super::{Kernel, unix_peers};

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

    /// Returns the processes of this user that hold the client end of a connection: none if it cannot be seen. Fails if
    /// a process has too many descriptors to be read, because it may hold the end as well.
    pub fn holders_of(&self, end: ClientEnd) -> io::Result<Vec<u32>> {
        self.holders_of_inode(end.inode)
    }

    /// Returns the processes of this user that hold the other end of a Unix socket. A process that has connected can
    /// hand its end on to another one. None if the kernel does not list Unix sockets, or the other end is closed.
    /// Fails like [`Kernel::holders_of`].
    pub fn holders_of_peer(&self, socket: impl AsFd) -> io::Result<Vec<u32>> {
        let own = rustix::fs::fstat(&socket)?.st_ino;
        let pairs = unix_peers::pairs().unwrap_or_default();
        let peer = pairs.iter().find(|(one, _)| *one == own).map(|(_, peer)| *peer);
        peer.map_or(Ok(Vec::new()), |peer| self.holders_of_inode(peer))
    }

    fn holders_of_inode(&self, inode: u64) -> io::Result<Vec<u32>> {
        let mut holders = Vec::new();
        for pid in self.own_pids()? {
            match socket_inodes(pid) {
                Ok(inodes) if inodes.contains(&inode) => holders.push(pid),
                Err(error) if error.kind() == io::ErrorKind::Other => return Err(error),
                // A process may be gone, or hide its descriptors.
                Ok(_) | Err(_) => {}
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
    fn every_process_that_holds_the_other_end_of_a_unix_socket_is_found() {
        let kernel = Kernel::open().expect("a kernel");
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(kernel.holders_of_peer(&ours).expect("read"), [std::process::id()]);
        #[expect(clippy::disallowed_methods, reason = "a test hands a socket to a process")]
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .spawn()
            .expect("started");
        // Another test may fork meanwhile: until its child executes a program, it holds the socket too.
        let began = std::time::Instant::now();
        let mut holders = kernel.holders_of_peer(&ours).expect("read");
        while holders != [child.id()] && began.elapsed().as_secs() < 60 {
            holders = kernel.holders_of_peer(&ours).expect("read");
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(holders, [child.id()]);
    }

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
