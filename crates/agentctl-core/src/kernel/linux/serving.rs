//! The owner of the server end of a connection on the loopback.
//!
//! Any user of the machine may listen on a free port of the loopback. The kernel lists both ends of a
//! connection, each with the owner of the socket.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::descriptors::parse_address;
use super::{Kernel, each_line};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Calls `see` for each TCP socket of this network namespace with a port at one of its ends.
pub(super) fn each_socket(port: u16, mut see: impl FnMut(Row)) -> io::Result<()> {
    let port = format!(":{port:04X} ");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let file = match File::open(table) {
            Ok(file) => file,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        each_line(file, |line| {
            // Other users may have made the table long: most rows are not even parsed.
            if line.contains(&port)
                && let Some(row) = Row::parse(line)
            {
                see(row);
            }
        })?;
    }
    Ok(())
}

impl Kernel {
    /// Returns the owner of the server end of the connection from `ours` to `theirs`, an address of the
    /// loopback; `None` if that is unknown, because the other end is not in this network namespace, or
    /// is ambiguous.
    ///
    /// An accepted connection has a row of its own. Before that, any listener on the address may accept
    /// it: then all of them must belong to one user.
    pub fn serving_uid(&self, ours: SocketAddr, theirs: SocketAddr) -> io::Result<Option<u32>> {
        let (ours, theirs) = (canonical(ours), canonical(theirs));
        let (mut exactly, mut everywhere): (Vec<u32>, Vec<u32>) = Default::default();
        let mut accepted = None;
        each_socket(theirs.port(), |row| {
            if row.is_connection(theirs, ours) {
                accepted = Some(row.uid);
            } else if row.listens() && row.local == theirs {
                exactly.push(row.uid);
            } else if row.listens() && row.is_everywhere(theirs) {
                everywhere.push(row.uid);
            }
        })?;
        // The kernel prefers a listener on the exact address to a listener on all addresses.
        let mut listening = if exactly.is_empty() { everywhere } else { exactly };
        listening.sort_unstable();
        listening.dedup();
        Ok(match (accepted, listening.as_slice()) {
            (Some(uid), _) => Some(uid),
            (None, [uid]) => Some(*uid),
            _ => None,
        })
    }
}

pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// One row of `/proc/net/tcp` or `tcp6`.
pub(super) struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    state: String,
    pub(super) uid: u32,
    pub(super) inode: u64,
}

impl Row {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = parse_end(fields.next()?)?;
        let remote = parse_end(fields.next()?)?;
        let state = fields.next()?.to_owned();
        let uid = fields.nth(3)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Self { local, remote, state, uid, inode })
    }

    /// Says whether it is that end of that connection, and accepted by a process. An end that is not
    /// accepted yet has no inode, and on many kernels no user.
    pub(super) fn is_connection(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.inode != 0 && self.local == local && self.remote == remote
    }

    fn listens(&self) -> bool {
        self.state == LISTEN
    }

    /// Says whether it listens on every address, including this one.
    fn is_everywhere(&self, at: SocketAddr) -> bool {
        let ip = self.local.ip();
        // A listener on every IPv6 address usually accepts IPv4, too.
        ip.is_unspecified() && (ip.is_ipv6() || at.is_ipv4()) && self.local.port() == at.port()
    }
}

fn parse_end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let address: IpAddr = parse_address(address)?;
    Some(canonical(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// S6: the user is known before the connection is accepted, and afterwards.
    #[test]
    fn a_connection_is_served_by_the_user_of_its_listener() {
        let kernel = Kernel::open().expect("a kernel");
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let port = listener.local_addr().expect("an address").port();
            let ip = if at.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let there = SocketAddr::new(ip.parse().expect("an address"), port);
            let stream = TcpStream::connect(there).expect("connected");
            let here = stream.local_addr().expect("an address");
            let served = || kernel.serving_uid(here, there).expect("read");
            assert_eq!(served(), Some(kernel.uid()), "{at}");
            let accepted = listener.accept().expect("accepted");
            assert_eq!(served(), Some(kernel.uid()), "{at}");
            drop(listener);
            assert_eq!(served(), Some(kernel.uid()), "{at}: its own row is enough");
            drop(accepted);
        }
        let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        assert_eq!(kernel.serving_uid(nobody, nobody).expect("read"), None);
    }

    #[test]
    fn a_connection_that_is_not_accepted_has_no_user() {
        let row = "   5: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 0 1";
        let row = Row::parse(row).expect("a row");
        let end = |port| SocketAddr::new([127, 0, 0, 1].into(), port);
        assert_eq!((row.local, row.remote, row.uid), (end(8080), end(50_000), 0));
        assert!(!row.is_connection(end(8080), end(50_000)));
    }
}
