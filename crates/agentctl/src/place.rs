//! Where the daemon is found, and that there is only one.
//!
//! The socket lies in a directory that is ours alone; a `flock` on a file in the state directory decides who
//! may serve. Whoever holds it may replace the socket: nobody listens there then. There is no pid file:
//! who serves is asked on the socket, and the kernel says whose it is. A client believes a daemon only if
//! the directory of the socket belongs to this user alone and the kernel says that the listener does, too.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_core::host::Host;
use agentctl_core::kernel::Kernel;
use agentctl_core::native::file::{self, Skip};
use agentctl_core::native::watch::Watch;
use agentctl_core::trust;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

const SOCKET: &str = "agentctl.sock";
const LOCK: &str = "daemon.lock";
/// So long at most is the loss of the right overlooked where no file events are to be had.
const LONGEST: Duration = Duration::from_mins(1);

/// A listener whose queue is full is tried again after this long.
const QUEUE_PAUSE: Duration = Duration::from_millis(20);
/// A socket's path is no longer than this.
const TOLD_BYTES: u64 = 4096;

/// Why there is no connection to a daemon.
#[derive(Debug)]
pub enum Unconnected {
    /// Nobody listens.
    Nobody,
    /// Whoever listens cannot be believed to be a daemon of this user.
    Untrusted(String),
    /// Somebody listens and accepts no connection in time.
    Late,
}

/// Where one user's daemon is found.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    state: PathBuf,
    uid: u32,
}

impl Place {
    /// Returns where this host's daemon is, or would be.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let state = host.state();
        let runtime = host.var("XDG_RUNTIME_DIR").map(Path::new).filter(|p| p.is_absolute());
        let directory = runtime.map_or_else(|| state.join("run"), |dir| dir.join("agentctl"));
        Self { directory, state, uid: host.kernel.uid() }
    }

    /// Returns the socket's path, for people.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// Returns where the log is.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Opens the log for reading; `None` where there is none. What is not a file of this user is not read.
    pub fn open_log(&self) -> io::Result<Option<File>> {
        match file::open(&self.log(), self.uid) {
            Ok(opened) => Ok(Some(opened.file)),
            Err(Skip::Missing) => Ok(None),
            Err(why) => Err(io::Error::other(format!("{}: {why}", self.log().display()))),
        }
    }

    /// Makes both directories where they are missing, and makes sure that they are ours alone.
    pub fn prepare(&self) -> io::Result<()> {
        for directory in [&self.state, &self.directory] {
            // Before anything is made there: it may be another user's.
            trust::owned(directory, self.uid)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            self.check(directory)?;
        }
        match std::fs::symlink_metadata(self.lock()) {
            Ok(meta) if !meta.is_file() => Err(self.not_regular(&meta)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> PathBuf {
        self.state.join(LOCK)
    }

    fn not_regular(&self, meta: &std::fs::Metadata) -> io::Error {
        let what = file::kind_of(meta.file_type());
        let text = format!("{} is a {what}, not a regular file", self.lock().display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }

    /// A directory that others may write to, or a link that somebody laid, is refused.
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
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Takes the right to serve, or says that somebody else has it.
    pub fn take(&self) -> io::Result<Option<Instance>> {
        self.prepare()?;
        let path = self.lock();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).custom_flags(flags).open(&path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(self.not_regular(&meta));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // For those who look for the socket with another runtime directory.
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(self.socket().as_os_str().as_encoded_bytes())?;
        Ok(Some(Instance { file, path }))
    }

    /// Returns where a socket may be: here, and where the last daemon of this state directory said.
    fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        let told = file::read_small(&self.lock(), self.uid, TOLD_BYTES).ok();
        let told = told.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
        let here = self.socket();
        let told = told.filter(|path| path.is_absolute() && *path != here);
        std::iter::once(here).chain(told)
    }

    /// Connects to whoever serves, if it is a process of this user in a directory of this user alone.
    pub fn connect(&self, until: Instant) -> Result<UnixStream, Unconnected> {
        let mut last = Unconnected::Nobody;
        for path in self.sockets() {
            match self.connect_to(&path, until) {
                Ok(stream) => return Ok(stream),
                // What is worth a word is not forgotten for a place where nobody is.
                Err(Unconnected::Nobody) => {}
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    fn connect_to(&self, path: &Path, until: Instant) -> Result<UnixStream, Unconnected> {
        let nobody = |_: io::Error| Unconnected::Nobody;
        // Without a socket there is nobody to be believed or not.
        std::fs::symlink_metadata(path).map_err(nobody)?;
        let directory = path.parent().ok_or(Unconnected::Nobody)?;
        if let Some(why) = self.distrust(directory) {
            return Err(Unconnected::Untrusted(format!("{} {why}", directory.display())));
        }
        let bound = Bound::new(directory).map_err(nobody)?;
        let address = SocketAddrUnix::new(bound.path()).map_err(|_| Unconnected::Nobody)?;
        let stream = connect_in_time(&address, until)?;
        match Kernel::peer_uid(&stream) {
            Ok(uid) if uid == self.uid => Ok(stream),
            Ok(uid) => {
                let text = format!("{} is served by uid {uid}", path.display());
                Err(Unconnected::Untrusted(text))
            }
            Err(error) => Err(Unconnected::Untrusted(format!("{}: {error}", path.display()))),
        }
    }

    /// Says why a socket in this directory is not believed, if it is not.
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

    /// Says whether a process has the lock file of this place open, as its daemon has.
    #[must_use]
    pub fn is_held_open(&self, host: &Host, pid: u32) -> bool {
        std::fs::symlink_metadata(self.lock())
            .is_ok_and(|meta| host.kernel.has_open(pid, meta.dev(), meta.ino()).unwrap_or(false))
    }

    /// Listens, in the stead of whoever listened before. Only for who holds the [`Instance`].
    pub fn listen(&self, _right: &Instance) -> io::Result<std::os::unix::net::UnixListener> {
        let bound = Bound::new(&self.directory)?;
        match std::fs::remove_file(self.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = std::os::unix::net::UnixListener::bind(bound.path())?;
        std::fs::set_permissions(self.socket(), std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    }
}

/// Connects without waiting in the kernel, where nothing could end the wait: a listener that accepts nobody
/// has a full queue for ever.
fn connect_in_time(address: &SocketAddrUnix, until: Instant) -> Result<UnixStream, Unconnected> {
    loop {
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)
            .map_err(|_| Unconnected::Nobody)?;
        let stream = UnixStream::from(socket);
        let prepared = rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|()| stream.set_nonblocking(true));
        prepared.map_err(|_| Unconnected::Nobody)?;
        match connect(&stream, address) {
            Ok(()) => {
                stream.set_nonblocking(false).map_err(|_| Unconnected::Nobody)?;
                return Ok(stream);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() >= until => return Err(Unconnected::Late),
            Err(Errno::AGAIN) => std::thread::park_timeout(QUEUE_PAUSE),
            Err(_) => return Err(Unconnected::Nobody),
        }
    }
}

/// The right to serve, held until the process ends.
#[derive(Debug)]
pub struct Instance {
    file: File,
    path: PathBuf,
}

impl Instance {
    /// Blocks until the right is lost: by a wipe of the directory, and by nothing else.
    pub fn wait_until_lost(&self) {
        while self.holds() {
            let watch = Watch::directories(self.path.parent());
            // It may have been lost before it was watched.
            if !self.holds() {
                return;
            }
            match watch {
                Ok(watch) => drop(watch.wait(LONGEST)),
                Err(_) => std::thread::park_timeout(LONGEST),
            }
        }
    }

    /// Says whether the file we hold is still the one that others would try.
    fn holds(&self) -> bool {
        let held = self.file.metadata().map(|m| (m.dev(), m.ino()));
        let there = std::fs::symlink_metadata(&self.path).map(|m| (m.dev(), m.ino()));
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }
}

/// A socket's address: a path that is too long for one is named through its open directory.
struct Bound {
    path: PathBuf,
    _directory: Option<File>,
}

impl Bound {
    /// What an address holds, with the byte that ends it.
    const MOST: usize = 104;

    fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        if path.as_os_str().len() < Self::MOST {
            return Ok(Self { path, _directory: None });
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let flags = flags.bits().cast_signed();
        let held = OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()));
        Ok(Self { path, _directory: Some(held) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
