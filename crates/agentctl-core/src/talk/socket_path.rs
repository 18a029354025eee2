//! The path of a Unix socket, in a form that fits into a socket address: an address holds about a hundred bytes, and a
//! home may have a longer path.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Maximum length of a socket address on all systems, with its final NUL.
const MAX_ADDRESS_BYTES: usize = 104;

/// A path of a socket that fits into an address. A path that is too long is shortened through `/proc/self/fd`, and is
/// good as long as this value lives.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    /// Returns the short form of a path. The directory must exist; the socket may be missing.
    pub fn new(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() < MAX_ADDRESS_BYTES {
            return Ok(Self { path: socket.to_owned(), _directory: None });
        }
        let (Some(directory), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::DIRECTORY.bits().cast_signed();
        let held = OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())).join(name);
        Ok(Self { path, _directory: Some(held) })
    }

    /// Returns the short form.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;
    use crate::talk::connect_unix;

    #[test]
    fn a_socket_with_a_long_path_is_listened_on_and_connected_to() {
        let folder = tempfile::tempdir().expect("a folder");
        for length in [1, 200] {
            let directory = folder.path().join("x".repeat(length));
            std::fs::create_dir(&directory).expect("made");
            let socket = directory.join("1.sock");
            let missing = connect_unix(&socket, Duration::from_secs(1)).expect_err("no socket");
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            let short = SocketPath::new(&socket).expect("opened");
            let listener = UnixListener::bind(short.path()).expect("bound");
            connect_unix(&socket, Duration::from_secs(1)).expect("connected");
            listener.accept().expect("accepted");
        }
    }
}
