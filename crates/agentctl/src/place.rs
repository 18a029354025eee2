//! The paths of the daemon and of the web server, and the lock that allows only one of each.
//!
//! The socket is in a directory that only this user can write to. A daemon serves while it holds a `flock` on
//! a file in the state directory; the holder of the lock may replace the socket, because its old listener is
//! dead. There is no pid file: a client asks the kernel for the owner of the listener. It trusts the daemon only
//! if the directory and the listener both belong to this user.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_core::host::{DAEMON_LOCK, DAEMON_SOCKET, Host};
use agentctl_core::kernel::Kernel;
use agentctl_core::native::file::{self, Skip};
use agentctl_core::native::watch::Watch;
use agentctl_core::talk::SocketPath;
use agentctl_core::trust;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

/// Interval at which a lost lock is noticed where file change notifications are unavailable.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Pause before a connect is retried when the listener's backlog is full.
const BACKLOG_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Maximum length of the socket path in the lock file.
const MAX_SOCKET_PATH_BYTES: u64 = 4096;

/// Why there is no connection to a daemon.
#[derive(Debug)]
pub enum ConnectError {
    /// There is no listener.
    NoListener,
    /// The listener may belong to another user.
    Untrusted(String),
    /// Timeout: the listener accepts no connection.
    TimedOut,
}

/// The paths of one user's daemon.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    state: PathBuf,
    uid: u32,
    names: PlaceNames,
}

/// The names of the files of one server.
#[derive(Clone, Copy, Debug)]
struct PlaceNames {
    socket: &'static str,
    lock: &'static str,
    log: &'static str,
}

/// The files of the daemon.
const DAEMON: PlaceNames =
    PlaceNames { socket: DAEMON_SOCKET, lock: DAEMON_LOCK, log: "daemon.log" };
/// The files of the server of the page in the browser.
const WEB: PlaceNames = PlaceNames { socket: "web.sock", lock: "web.lock", log: "web.log" };

impl Place {
    /// Returns the paths on this host, whether a daemon runs or not.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        Self::named(host, DAEMON)
    }

    /// Returns the paths of the server of the page in the browser, whether it runs or not.
    #[must_use]
    pub fn of_web(host: &Host) -> Self {
        Self::named(host, WEB)
    }

    fn named(host: &Host, names: PlaceNames) -> Self {
        Self { directory: host.runtime(), state: host.state(), uid: host.kernel.uid(), names }
    }

    /// Returns the path of the socket, for messages.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join(self.names.socket)
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join(self.names.log)
    }

    /// Opens the log for reading; `None` if there is none. Fails if it is not a regular file of this user.
    pub fn open_log(&self) -> io::Result<Option<File>> {
        match file::open(&self.log(), self.uid) {
            Ok(opened) => Ok(Some(opened.file)),
            Err(Skip::Missing) => Ok(None),
            Err(why) => Err(io::Error::other(format!("{}: {why}", self.log().display()))),
        }
    }

    /// Creates both directories if they are missing, and checks that only this user can write to them.
    pub fn prepare(&self) -> io::Result<()> {
        for directory in [&self.state, &self.directory] {
            // Check before creating: the parent may belong to another user.
            let refused = |why: io::Error| match why.raw_os_error() {
                Some(_) => at_path("cannot be created", directory, &why),
                // Every other error names the directory that is not trusted.
                None => why,
            };
            trust::owned(directory, self.uid).map_err(refused)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
            self.check(directory)?;
        }
        match std::fs::symlink_metadata(self.lock()) {
            Ok(meta) if !meta.is_file() => Err(self.not_regular(&meta)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> PathBuf {
        self.state.join(self.names.lock)
    }

    fn not_regular(&self, meta: &std::fs::Metadata) -> io::Error {
        let what = file::kind_of(meta.file_type());
        let text = format!("{} is a {what}, not a regular file", self.lock().display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }

    /// Refuses a symbolic link and a directory of another user; takes away the permissions of others.
    fn check(&self, directory: &Path) -> io::Result<()> {
        let meta = std::fs::symlink_metadata(directory)?;
        let refuse = |why: &str| {
            let text = format!("{} {why}", directory.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        };
        if !meta.is_dir() {
            return refuse("is not a directory of its own");
        }
        if meta.uid() != self.uid {
            return refuse("belongs to another user");
        }
        if meta.mode() & 0o077 != 0 {
            let changed =
                std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
            changed.map_err(|why| at_path("cannot be made private", directory, &why))?;
        }
        Ok(())
    }

    /// Takes the lock of the daemon; `None` if another process holds it.
    pub fn take(&self) -> io::Result<Option<Instance>> {
        self.prepare()?;
        let path = self.lock();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).custom_flags(flags).open(&path);
        let mut file = file.map_err(|why| at_path("cannot be opened", &path, &why))?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(self.not_regular(&meta));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Clients with another XDG_RUNTIME_DIR find the socket through the lock file.
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(self.socket().as_os_str().as_encoded_bytes())?;
        Ok(Some(Instance { file, path }))
    }

    /// Returns the possible paths of the socket: ours, and the one that the last daemon wrote to the lock file.
    fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        let told = file::read_small(&self.lock(), self.uid, MAX_SOCKET_PATH_BYTES).ok();
        let told = told.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        let here = self.socket();
        let told = told.filter(|path| path.is_absolute() && *path != here);
        std::iter::once(here).chain(told)
    }

    /// Connects to the daemon, if directory and listener belong to this user.
    pub fn connect(&self, until: Instant) -> Result<UnixStream, ConnectError> {
        let mut last = ConnectError::NoListener;
        for path in self.sockets() {
            match self.connect_to(&path, until) {
                Ok(stream) => return Ok(stream),
                // A path without a listener does not hide the error of another path.
                Err(ConnectError::NoListener) => {}
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn connect_to(&self, path: &Path, until: Instant) -> Result<UnixStream, ConnectError> {
        let no_listener = |_: io::Error| ConnectError::NoListener;
        // Without a socket the directory does not matter.
        std::fs::symlink_metadata(path).map_err(no_listener)?;
        let directory = path.parent().ok_or(ConnectError::NoListener)?;
        if let Some(why) = self.distrust(directory) {
            return Err(ConnectError::Untrusted(format!("{} {why}", directory.display())));
        }
        let short = SocketPath::new(&directory.join(self.names.socket)).map_err(no_listener)?;
        let address = SocketAddrUnix::new(short.path()).map_err(|_| ConnectError::NoListener)?;
        let stream = connect_in_time(&address, until)?;
        match Kernel::peer_uid(&stream) {
            Ok(uid) if uid == self.uid => Ok(stream),
            Ok(uid) => {
                let text = format!("{} is served by uid {uid}", path.display());
                Err(ConnectError::Untrusted(text))
            }
            Err(error) => Err(ConnectError::Untrusted(format!("{}: {error}", path.display()))),
        }
    }

    /// Says why a socket in this directory is not trusted; `None` if it is.
    fn distrust(&self, directory: &Path) -> Option<String> {
        match std::fs::symlink_metadata(directory) {
            Err(error) => Some(format!("cannot be looked at: {error}")),
            Ok(meta) if !meta.is_dir() => Some("is not a directory of its own".into()),
            Ok(meta) if meta.uid() != self.uid => {
                Some(format!("belongs to another user (uid {})", meta.uid()))
            }
            Ok(meta) if meta.mode() & 0o022 != 0 => {
                Some(format!("can be written by others (mode {:04o})", meta.mode() & 0o7777))
            }
            Ok(_) => None,
        }
    }

    /// Says whether a process has the lock file open, as the daemon has.
    #[must_use]
    pub fn is_held_open(&self, host: &Host, pid: u32) -> bool {
        std::fs::symlink_metadata(self.lock())
            .is_ok_and(|meta| host.kernel.has_open(pid, meta.dev(), meta.ino()).unwrap_or(false))
    }

    /// Replaces the socket and listens. Takes the [`Instance`] as proof that the lock is held.
    pub fn listen(&self, _lock: &Instance) -> io::Result<UnixListener> {
        match std::fs::remove_file(self.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(SocketPath::new(&self.socket())?.path())?;
        std::fs::set_permissions(self.socket(), std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }
}

/// Connects with a deadline. A blocking `connect` would hang for ever when the backlog of the listener is full.
fn connect_in_time(address: &SocketAddrUnix, until: Instant) -> Result<UnixStream, ConnectError> {
    loop {
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)
            .map_err(|_| ConnectError::NoListener)?;
        let stream = UnixStream::from(socket);
        let prepared = rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|()| stream.set_nonblocking(true));
        prepared.map_err(|_| ConnectError::NoListener)?;
        match connect(&stream, address) {
            Ok(()) => {
                stream.set_nonblocking(false).map_err(|_| ConnectError::NoListener)?;
                return Ok(stream);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() >= until => return Err(ConnectError::TimedOut),
            Err(Errno::AGAIN) => std::thread::park_timeout(BACKLOG_RETRY_PAUSE),
            Err(_) => return Err(ConnectError::NoListener),
        }
    }
}

/// The lock of the daemon, held until the process ends.
#[derive(Debug)]
pub struct Instance {
    file: File,
    path: PathBuf,
}

impl Instance {
    /// Blocks until the lock file was deleted or replaced, after which the lock protects nothing.
    pub fn wait_until_lost(&self) {
        while self.holds() {
            let watch = Watch::directories(self.path.parent());
            // Check again: the file may have been deleted before the watch was set up.
            if !self.holds() {
                return;
            }
            match watch {
                Ok(watch) => drop(watch.wait(LOCK_CHECK_INTERVAL)),
                Err(_) => std::thread::park_timeout(LOCK_CHECK_INTERVAL),
            }
        }
    }

    /// Says whether the locked file is still the one at its path.
    fn holds(&self) -> bool {
        let held = self.file.metadata().map(|m| (m.dev(), m.ino()));
        let there = std::fs::symlink_metadata(&self.path).map(|m| (m.dev(), m.ino()));
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }
}

/// Returns an error that names its path.
fn at_path(what: &str, path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{} {what}: {why}", path.display()))
}

/// Opens or creates the log of the daemon.
pub fn open_log(path: &Path) -> io::Result<File> {
    // Do not block on a FIFO in its place.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|why| at_path("cannot be opened", path, &why))?;
    if !file.metadata()?.is_file() {
        let text = format!("{} is not a regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(file)
}
