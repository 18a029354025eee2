//! Listening to one server for as long as somebody wants to know: a thread of its own, and a bell to poll.
//!
//! It rings whenever there is reason to look at everything again: the server says that something changed,
//! or some of what it said was lost, or it is gone, or it is there again. It comes back by itself, later
//! each time it fails. Nothing it hears is ever taken as a fact.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Heard, Pushes, Pushing};

/// A server that takes longer to let us in is tried again later.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first pause after a failure, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// An ear for one server; it ends with the value.
pub struct Ear {
    bell: UnixStream,
}

impl Ear {
    /// Begins to listen. It rings as soon as the server has let us in.
    pub fn open(pushing: Pushing) -> io::Result<Self> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let name = format!("ear {}", pushing.name);
        std::thread::Builder::new().name(name).spawn(move || attend(&pushing, &rope))?;
        Ok(Self { bell })
    }

    /// Forgets that it rang; says whether it had.
    pub fn quiet(&mut self) -> bool {
        let (mut rings, mut rang) = ([0; 64], false);
        while self.bell.read(&mut rings).is_ok_and(|count| count > 0) {
            rang = true;
        }
        rang
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Nobody wants to know any more.
struct Unwanted;

fn attend(pushing: &Pushing, rope: &UnixStream) {
    let mut pause = PAUSE;
    loop {
        if let Ok(mut pushes) = pushing.follow(PATIENCE) {
            let since = Instant::now();
            if listen(&mut pushes, rope).is_err() {
                return;
            }
            // One that lets us in only to hang up again is not hurried back to.
            if since.elapsed() > pause {
                pause = PAUSE;
            }
        }
        // Many who lost the same server do not all come back in the same moment.
        let [spread, ..] = *uuid::Uuid::new_v4().as_bytes();
        if wait(&[rope.as_fd()], Some(pause.mul_f64(0.75 + f64::from(spread) / 512.0))).is_err() {
            return;
        }
        pause = (pause * 2).min(LONGEST);
    }
}

/// Listens until the server is gone, which rings too.
fn listen(pushes: &mut Pushes, rope: &UnixStream) -> Result<(), Unwanted> {
    let ring = || {
        // Full means that it rings already; closed is found out where it is waited.
        let _rings = (&*rope).write(&[1]);
    };
    ring();
    loop {
        wait(&[rope.as_fd(), pushes.as_fd()], pushes.patience())?;
        match pushes.skip() {
            Heard::Nothing => {}
            Heard::News => ring(),
            Heard::Gone => {
                ring();
                return Ok(());
            }
        }
    }
}

/// Waits until one of these has something to read; the first of them only ever says that it is over.
fn wait(all: &[BorrowedFd<'_>], limit: Option<Duration>) -> Result<(), Unwanted> {
    let mut fds: Vec<PollFd<'_>> = all.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // Interrupted is as good as woken.
    let _woken = poll(&mut fds, limit.as_ref());
    if fds[0].revents().is_empty() { Ok(()) } else { Err(Unwanted) }
}
