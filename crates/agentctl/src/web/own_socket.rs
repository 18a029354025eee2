//! The Unix socket of `--listen unix:PATH`: made on the way in, removed on the way out.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_core::talk::{SocketPath, connect_unix};
use tokio::net::UnixListener;

/// Time to find out whether anything listens on a socket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The file of a socket. It is removed at the end, unless another one is in its place by then. The listener must live
/// as long: while it does, no other file has the same number.
pub(super) struct OwnSocket {
    path: PathBuf,
    file: (u64, u64),
}

impl OwnSocket {
    /// Listens on a Unix socket. Other users can open it only if one of them is admitted; their number is checked.
    pub(super) fn listen(path: &Path, others_too: bool) -> io::Result<(UnixListener, Self)> {
        let unheard = io::ErrorKind::ConnectionRefused;
        // Only a socket that nothing listens on is replaced.
        if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
            && connect_unix(path, CONNECT_TIMEOUT).is_err_and(|why| why.kind() == unheard)
        {
            std::fs::remove_file(path)?;
        }
        let listener = net::UnixListener::bind(SocketPath::new(path)?.path())?;
        let own = Self { path: path.to_owned(), file: number(&std::fs::symlink_metadata(path)?) };
        let mode = if others_too { 0o666 } else { 0o600 };
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        Ok((UnixListener::from_std(listener)?, own))
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| number(&meta) == self.file) {
            // A file that cannot be removed is replaced by the next server.
            let _left = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and the number of a file.
fn number(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}
