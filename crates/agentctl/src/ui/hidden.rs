//! One line from a terminal that does not show it: for a secret.
//!
//! The echo is off only while the line is read. The settings of the terminal are restored when the value is dropped,
//! on every signal that ends the program and can be handled, and while the program is suspended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use agentctl_core::kernel::is_ignored;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

/// The terminal whose echo is off now.
static HIDDEN: Mutex<Option<Terminal>> = Mutex::new(None);
/// The thread that restores it on a signal; why there is none. It stays: without a handler the signals would be lost
/// from then on.
static RESTORING: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();

struct Terminal {
    input: OwnedFd,
    before: Termios,
}

/// A terminal without echo, until the value is dropped.
pub(super) struct HiddenInput(());

impl HiddenInput {
    /// Turns the echo of a terminal off; `None` if it is no terminal, which shows nothing.
    pub(super) fn of(input: impl AsFd) -> io::Result<Option<Self>> {
        let input = input.as_fd().try_clone_to_owned()?;
        let Ok(before) = tcgetattr(&input) else { return Ok(None) };
        // The handlers are installed first: a signal after the echo is off always restores it.
        let restoring =
            RESTORING.get_or_init(|| restore_on_signals().map_err(|error| error.kind()));
        restoring.map_err(io::Error::from)?;
        // Locked until the terminal is known: a handler that runs in between waits.
        let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
        let terminal = Terminal { input, before };
        terminal.hide();
        *hidden = Some(terminal);
        Ok(Some(Self(())))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        hidden.iter().for_each(Terminal::restore);
    }
}

impl Terminal {
    /// Turns the echo off. The newline that ends the line is shown.
    fn hide(&self) {
        let mut without_echo = self.before.clone();
        without_echo.local_modes.remove(LocalModes::ECHO);
        without_echo.local_modes.insert(LocalModes::ECHONL);
        let _unset = tcsetattr(&self.input, OptionalActions::Now, &without_echo);
    }

    fn restore(&self) {
        let _unset = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}

fn restore_on_signals() -> io::Result<()> {
    let handled = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT];
    let mut signals = Signals::new(handled.into_iter().filter(|signal| !is_ignored(*signal)))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
            if signal == SIGCONT {
                hidden.iter().for_each(Terminal::hide);
                continue;
            }
            hidden.iter().for_each(Terminal::restore);
            drop(hidden);
            // Ends the process; it returns from a stop, when the process is continued.
            let _continued = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}
