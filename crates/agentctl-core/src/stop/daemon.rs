//! Finds this user's daemon process: the kernel names the process that listens on its socket.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::run_folders::is_this_program;
use crate::host::{DAEMON_LOCK, DAEMON_SOCKET, Host};
use crate::kernel::Process;
use crate::native::file;
use crate::talk;

/// Largest content of the lock file that is read: the path of a socket.
const MAX_LOCK_FILE_BYTES: u64 = 4096;
/// Timeout for connecting to a daemon whose queue of connections is full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Says whether a process is this user's daemon: it runs this program as `daemon run`, and the kernel names
/// it as the listener on this user's socket. An open lock file proves nothing: any process of this user can
/// open it. If no process listens on the socket, there is no daemon.
pub(super) fn is_daemon(host: &Host, process: &Process) -> bool {
    let runs =
        matches!(process.argv.as_slice(), [_, room, word, ..] if room == "daemon" && word == "run");
    runs && is_this_program(host, process)
        && sockets(host).iter().any(|socket| {
            let peer = connect(host, socket).and_then(|s| host.kernel.peer(&s).ok().flatten());
            peer.is_some_and(|peer| peer.id == process.id)
        })
}

/// Returns the paths of this user's socket: the path that this environment gives, and the path that the
/// daemon of this state folder wrote down.
fn sockets(host: &Host) -> Vec<PathBuf> {
    let here = host.runtime().join(DAEMON_SOCKET);
    let lock = host.state().join(DAEMON_LOCK);
    let written = file::read_small(&lock, host.kernel.uid(), MAX_LOCK_FILE_BYTES).ok();
    let written = written.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
    let written = written.filter(|path| path.is_absolute() && *path != here);
    std::iter::once(here).chain(written).collect()
}

/// Connects to a socket in a folder that only this user can write to.
fn connect(host: &Host, socket: &Path) -> Option<UnixStream> {
    let folder = socket.parent()?;
    let meta = std::fs::symlink_metadata(folder).ok()?;
    if !meta.is_dir() || meta.uid() != host.kernel.uid() || meta.mode() & 0o022 != 0 {
        return None;
    }
    talk::connect_unix(socket, CONNECT_TIMEOUT).ok()
}
