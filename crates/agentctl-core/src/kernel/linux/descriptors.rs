//! The open descriptors of a process: its files, its positions in them, the addresses on which it
//! listens, and its connections.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};

use super::{
    Kernel, each_line, gone_is_none, open_at, open_process_directory, read_beginning_at,
    read_link_at, same_process, unix_peers,
};
use crate::kernel::{OpenFile, deadline};
use crate::model::ProcId;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";
/// The flags of a listening socket in `/proc/net/unix` (`__SO_ACCEPTCON`).
const ACCEPTS: &str = "00010000";
/// Most descriptors of a process that are read; a process with more is an error. Each costs several
/// system calls, and a process could open enough of them to use up the time of every look.
const MAX_DESCRIPTORS: usize = 4096;

impl Kernel {
    /// Returns the position of a process in this file, for each of its descriptors of the file.
    pub fn positions(&self, id: &ProcId, device: u64, inode: u64) -> io::Result<Vec<u64>> {
        let directory = open_process_directory(id.pid)?;
        let descriptors = descriptors(&directory)?;
        let mut found = Vec::new();
        for name in names(&descriptors)? {
            deadline::check()?;
            // A descriptor that was closed meanwhile has no position any more.
            let Ok(stat) = statat(&descriptors, name.as_str(), AtFlags::empty()) else { continue };
            if (stat.st_dev, stat.st_ino) != (device, inode) {
                continue;
            }
            let text =
                read_beginning_at(directory.as_fd(), &format!("fdinfo/{name}")).unwrap_or_default();
            found.extend(position(&String::from_utf8_lossy(&text)));
        }
        self.still(id)?;
        Ok(found)
    }

    /// Returns the files that a process has open and whose path is `wanted`. Fails for a process with more
    /// than 4096 descriptors, and when the deadline of this thread has passed.
    pub fn open_files(
        &self,
        id: &ProcId,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> io::Result<Vec<OpenFile>> {
        let directory = open_process_directory(id.pid)?;
        let descriptors = descriptors(&directory)?;
        let mut found = Vec::new();
        for name in names(&descriptors)? {
            deadline::check()?;
            // A descriptor that was closed meanwhile has no link any more. A descriptor that must not
            // be read is an error: the kernel lists descriptors even if it hides their targets.
            let Some(path) = gone_is_none(read_link_at(&descriptors, &name))? else { continue };
            if !wanted(&path) {
                continue;
            }
            // The position before the size: so a process that writes meanwhile is never beyond the end.
            let text =
                read_beginning_at(directory.as_fd(), &format!("fdinfo/{name}")).unwrap_or_default();
            let Ok(stat) = statat(&descriptors, name.as_str(), AtFlags::empty()) else { continue };
            // The mode of the link itself shows how the file was opened.
            let link = statat(&descriptors, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            found.push(OpenFile {
                path,
                device: stat.st_dev,
                inode: stat.st_ino,
                deleted: stat.st_nlink == 0,
                size: u64::try_from(stat.st_size).unwrap_or_default(),
                writable: link.is_ok_and(|link| link.st_mode & 0o200 != 0),
                position: position(&String::from_utf8_lossy(&text)),
            });
        }
        self.still(id)?;
        Ok(found)
    }

    /// Says whether a process has this file open.
    pub fn has_open(&self, pid: u32, device: u64, inode: u64) -> io::Result<bool> {
        Ok(self.open_inodes(pid)?.contains(&(device, inode)))
    }

    /// Returns device and inode of every file that a process has open.
    pub fn open_inodes(&self, pid: u32) -> io::Result<HashSet<(u64, u64)>> {
        let descriptors = descriptors(&open_process_directory(pid)?)?;
        let mut found = HashSet::new();
        for name in names(&descriptors)? {
            deadline::check()?;
            // A descriptor that was closed meanwhile has no file any more. A descriptor that must not
            // be read is an error.
            let stat = statat(&descriptors, name.as_str(), AtFlags::empty());
            let stat = gone_is_none(stat.map_err(io::Error::from))?;
            found.extend(stat.map(|stat| (stat.st_dev, stat.st_ino)));
        }
        Ok(found)
    }

    /// Returns the loopback addresses on which a process accepts connections.
    ///
    /// A process in another network namespace accepts none from us.
    pub fn listening(&self, id: &ProcId) -> io::Result<Vec<SocketAddr>> {
        let directory = open_process_directory(id.pid)?;
        let network = |path: &str| statat(rustix::fs::CWD, path, AtFlags::empty());
        let theirs = statat(&directory, "ns/net", AtFlags::empty())?;
        if theirs.st_ino != network("/proc/self/ns/net")?.st_ino {
            return Ok(Vec::new());
        }
        let sockets = sockets(&directory)?;
        let mut found = Vec::new();
        if sockets.is_empty() {
            return Ok(found);
        }
        for table in ["net/tcp", "net/tcp6"] {
            let table = match open_at(directory.as_fd(), table) {
                Ok(table) => table,
                // A kernel without IPv6.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // The table lists the sockets of all users, so its length is not limited.
            each_line(table, |row| {
                let row = listener(row).filter(|(_, inode)| sockets.contains(inode));
                found.extend(row.map(|(at, _)| at));
            })?;
        }
        self.still(id)?;
        Ok(found)
    }

    /// Returns the paths of the Unix sockets on which a process accepts connections. A path may have been
    /// removed or given to another socket since: the peer of a connection must be compared.
    pub fn listening_unix(&self, id: &ProcId) -> io::Result<Vec<PathBuf>> {
        let directory = open_process_directory(id.pid)?;
        let sockets = sockets(&directory)?;
        let mut found = Vec::new();
        each_line(open_at(directory.as_fd(), "net/unix")?, |row| {
            let row = unix_listener(row).filter(|(_, inode)| sockets.contains(inode));
            found.extend(row.map(|(path, _)| path));
        })?;
        self.still(id)?;
        Ok(found)
    }

    /// Says whether a process is connected to another one by a Unix socket.
    pub fn is_connected(&self, client: &ProcId, server: &ProcId) -> io::Result<bool> {
        let of = |id: &ProcId| sockets(&open_process_directory(id.pid)?);
        let (ours, theirs) = (of(client)?, of(server)?);
        let pairs = unix_peers::pairs()?;
        self.still(client)?;
        self.still(server)?;
        Ok(pairs.iter().any(|(one, other)| ours.contains(one) && theirs.contains(other)))
    }

    /// Checks that the process still exists after a read, so it existed when the directory was opened.
    pub(super) fn still(&self, id: &ProcId) -> io::Result<()> {
        match self.process(id.pid)? {
            Some(now) if same_process(&now.id, id) => Ok(()),
            _ => Err(io::Error::other("the process has gone")),
        }
    }
}

pub(super) fn descriptors(process: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(openat(process, "fd", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the inode numbers of the sockets that the process of this pid has open.
pub(super) fn socket_inodes(pid: u32) -> io::Result<HashSet<u64>> {
    sockets(&open_process_directory(pid)?)
}

/// Returns the inode numbers of the sockets that a process has open.
fn sockets(process: &OwnedFd) -> io::Result<HashSet<u64>> {
    let descriptors = descriptors(process)?;
    let names = names(&descriptors)?;
    let mut sockets = HashSet::new();
    for name in names {
        deadline::check()?;
        if let Some(link) = gone_is_none(read_link_at(&descriptors, &name))? {
            sockets.extend(socket_inode(&link.to_string_lossy()));
        }
    }
    Ok(sockets)
}

/// Returns the names of all descriptors, unless there are too many.
pub(super) fn names(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|b| b.is_ascii_digit()) {
            if names.len() == MAX_DESCRIPTORS {
                return Err(io::Error::other(format!("there are more than {MAX_DESCRIPTORS}")));
            }
            names.push(name);
        }
    }
    Ok(names)
}

/// Reads the `pos:` line of an `fdinfo` file.
fn position(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

/// Reads one row of `/proc/net/unix`: the path and the inode number of a listener.
fn unix_listener(row: &str) -> Option<(PathBuf, u64)> {
    let mut fields = row.split_ascii_whitespace().skip(3);
    let flags = fields.next()?;
    let inode = fields.nth(2)?.parse().ok()?;
    // The path may hold spaces.
    let path = row[row.find(" /")? + 1..].trim_end_matches('\n');
    (flags == ACCEPTS).then(|| (PathBuf::from(path), inode))
}

fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Reads one row of `/proc/net/tcp` or `tcp6`: the address at which we can reach the listener.
fn listener(row: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let address = reachable(parse_address(address)?)?;
    (state == LISTEN).then_some((SocketAddr::new(address, port), inode))
}

/// Reads words of four bytes, each in the byte order of the machine.
pub(super) fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// Returns the loopback address of a listener: a listener on all addresses is reachable there; other
/// addresses are not asked.
fn reachable(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    match address {
        IpAddr::V4(a) if a.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(a) if a.is_unspecified() => Some(Ipv6Addr::LOCALHOST.into()),
        _ => address.is_loopback().then_some(address),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn me(kernel: &Kernel) -> ProcId {
        kernel.process(std::process::id()).expect("readable").expect("alive").id
    }

    #[test]
    fn a_position_is_the_end_of_what_was_written_last() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log");
        let append = || std::fs::OpenOptions::new().append(true).create(true).open(&path);
        let (mut ours, mut other) = (append().expect("open"), append().expect("open"));
        ours.write_all(b"first\n").expect("written");
        other.write_all(b"second\n").expect("written");
        let meta = std::fs::metadata(&path).expect("there");
        let kernel = Kernel::open().expect("a kernel");
        let mut found = kernel.positions(&me(&kernel), meta.dev(), meta.ino()).expect("readable");
        found.sort_unstable();
        assert_eq!(found, [6, 13]);
        drop((ours, other));
        let none = kernel.positions(&me(&kernel), meta.dev(), meta.ino()).expect("readable");
        assert!(none.is_empty());
    }

    #[test]
    fn an_open_file_tells_whether_it_was_deleted_or_cut() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log");
        let kernel = Kernel::open().expect("a kernel");
        let open = || {
            let found = kernel.open_files(&me(&kernel), &|p| p == path).expect("readable");
            found.into_iter().map(|f| (f.writable, f.damage())).collect::<Vec<_>>()
        };
        assert_eq!(open(), []);
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(&path).expect("open");
        file.write_all(b"first\n").expect("written");
        assert_eq!(open(), [(true, None)]);
        let reader = std::fs::File::open(&path).expect("open");
        assert!(open().contains(&(false, None)));
        drop(reader);
        std::fs::OpenOptions::new().write(true).truncate(true).open(&path).expect("cut");
        assert_eq!(open(), [(true, Some("was cut"))]);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(open(), [(true, Some("was deleted"))]);
    }

    #[test]
    fn a_connection_between_two_processes_is_seen() {
        let kernel = Kernel::open().expect("a kernel");
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let myself = me(&kernel);
        assert!(!kernel.is_connected(&myself, &myself).expect("readable"), "it only listens");
        assert!(kernel.listening_unix(&myself).expect("readable").contains(&path));
        let client = std::os::unix::net::UnixStream::connect(&path).expect("connected");
        let server = listener.accept().expect("accepted");
        assert!(kernel.is_connected(&myself, &myself).expect("readable"));
        drop((client, server));
    }

    #[test]
    fn a_listener_is_found_and_a_reused_pid_is_not() {
        let kernel = Kernel::open().expect("a kernel");
        let (four, six) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("[::1]:0"));
        for listener in [four, six].into_iter().flatten() {
            let at = listener.local_addr().expect("an address");
            assert!(kernel.listening(&me(&kernel)).expect("readable").contains(&at));
            let mut other = me(&kernel);
            other.start_ticks += 1;
            assert!(kernel.listening(&other).is_err());
            drop(listener);
            assert!(!kernel.listening(&me(&kernel)).expect("readable").contains(&at));
        }
    }

    #[test]
    fn only_loopback_addresses_are_returned() {
        let row = |address: &str, state: &str| {
            format!("   0: {address}:1000 00000000:0000 {state} 00000000:00000000 00:0 0 0 0 77 1")
        };
        let at = |text: String| listener(&text).map(|(at, inode)| (at.to_string(), inode));
        // These are in the machine's own byte order.
        let v4 = |a: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(a));
        assert_eq!(at(row(&v4([127, 0, 0, 1]), "0A")), Some(("127.0.0.1:4096".into(), 77)));
        assert_eq!(at(row(&v4([0, 0, 0, 0]), "0A")), Some(("127.0.0.1:4096".into(), 77)));
        assert_eq!(at(row(&v4([10, 0, 0, 1]), "0A")), None);
        assert_eq!(at(row(&v4([127, 0, 0, 1]), "01")), None);
        for rubbish in ["", "x", "0: zz:zz 0 0A", "  sl  local_address rem_address   st"] {
            assert_eq!(listener(rubbish), None);
        }
        let mut text = String::new();
        std::fs::File::open("/proc/net/tcp")
            .and_then(|mut f| f.read_to_string(&mut text))
            .expect("read");
        assert_eq!(text.lines().take(1).filter_map(listener).count(), 0);
    }
}
