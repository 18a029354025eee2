//! Ends a command that prints for as long as it is read: `events` and `list --watch`.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

use crate::face::StreamEnd;
use crate::failure::Failure;

/// Ends the stream on SIGINT and SIGTERM; the command then exits with success.
pub(super) fn on_signal(stream: &StreamEnd) -> Result<(), Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let stream = stream.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stream.end();
        }
    });
    Ok(())
}

/// Ends the stream when the reader of stdout closes it, not only with the next line.
pub(super) fn on_reader_gone(stream: &StreamEnd) {
    let stream = stream.clone();
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        let fd = stdout.as_fd();
        loop {
            // No event is requested: poll reports the closed other end anyway.
            let mut fds = [PollFd::new(&fd, PollFlags::empty())];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
                _ => return,
            }
        }
        stream.end();
    });
}
