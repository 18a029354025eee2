//! Where the daemon is found, and that there is only one.
//!
//! The socket lies in a directory that is ours alone; a `flock` on a file in the state directory decides who
//! may serve. Whoever holds it may replace the socket: nobody listens there then. There is no pid file:
//! who serves is asked on the socket, and the kernel says whose it is.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_core::host::Host;
use agentctl_core::native::watch::Watch;
use rustix::fs::OFlags;

const SOCKET: &str = "agentctl.sock";
const LOCK: &str = "daemon.lock";
/// So long at most is the loss of the right overlooked where no file events are to be had.
const LONGEST: Duration = Duration::from_mins(1);

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

    /// Makes both directories where they are missing, and makes sure that they are ours alone.
    pub fn prepare(&self) -> io::Result<()> {
        for directory in [&self.state, &self.directory] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            self.check(directory)?;
        }
        Ok(())
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
        let path = self.state.join(LOCK);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).custom_flags(flags).open(&path)?;
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
        let mut told = String::new();
        let read = File::open(self.state.join(LOCK))
            .and_then(|file| file.take(4096).read_to_string(&mut told));
        let told = read.ok().map(|_| PathBuf::from(told)).filter(|p| p.is_absolute());
        let here = self.socket();
        let told = told.filter(|path| *path != here);
        std::iter::once(here).chain(told)
    }

    /// Connects to whoever serves.
    pub fn connect(&self) -> io::Result<std::os::unix::net::UnixStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for path in self.sockets() {
            let Some(directory) = path.parent() else { continue };
            match Bound::new(directory)
                .and_then(|b| std::os::unix::net::UnixStream::connect(b.path()))
            {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
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
