//! The alternate screen of a terminal: entered, left and restored, with its keys and signals.
//!
//! Lines are read key by key without echo. Ctrl-C and Ctrl-Z stay signals. The terminal is restored when the screen is
//! dropped, on every signal that ends the process and can be handled, on a panic, and while the process is suspended. A
//! terminal that takes no output (Ctrl-S, a connection that hangs) does not keep the process from ending.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Enters the alternate screen and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
/// Shows the cursor and leaves the alternate screen: the lines before it are there again.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Marks pasted text, so that it is not taken for keys.
const ENTER_KEYS: &[u8] = b"\x1b[?2004h";
const LEAVE_KEYS: &[u8] = b"\x1b[?2004l";
/// Reports clicks and the wheel of the mouse.
const ENTER_MOUSE: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const LEAVE_MOUSE: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// Time that a terminal has to take the sequence that leaves the screen.
const LEAVE_LIMIT: Duration = Duration::from_millis(500);

/// The functions that a screen calls from its threads.
pub struct ScreenCalls {
    /// Ctrl-C; true if the program has to finish something and leaves by itself. It is called for each Ctrl-C, and the
    /// program tells a second one, which leaves, from the first one.
    pub stay: Box<dyn Fn() -> bool + Send + Sync>,
    /// The user leaves: `q`, or a signal that ends the program.
    pub leave: Box<dyn Fn() + Send + Sync>,
    /// The screen must be drawn again: another size, or the program was suspended.
    pub redraw: Box<dyn Fn() + Send + Sync>,
}

/// The alternate screen of the terminal on stdout.
pub struct Screen {
    terminal: Arc<Terminal>,
}

/// The terminal, and its settings before the screen was entered.
struct Terminal {
    /// The terminal that keys are read from.
    input: OwnedFd,
    /// The terminal that lines are drawn on.
    output: File,
    before: Option<Termios>,
    is_entered: Mutex<bool>,
    /// The screen was left for good.
    is_over: AtomicBool,
    /// The terminal has another size or was cleared since the last frame.
    is_stale: AtomicBool,
    /// The program reads the keys itself.
    has_all_keys: bool,
    /// The terminal reports the mouse.
    has_mouse: AtomicBool,
}

/// The keys that a screen reads by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// `q`, which leaves.
    Quit,
    /// None: the program reads all keys.
    None,
}

impl Screen {
    /// Enters the alternate screen of the terminal on stdout, with the keys of stdin.
    pub fn open(calls: ScreenCalls) -> io::Result<Self> {
        Self::open_with(Keys::Quit, calls)
    }

    /// Enters the alternate screen for a program that reads the keys of stdin itself. Pasted text is marked.
    pub fn open_with_keys(calls: ScreenCalls) -> io::Result<Self> {
        Self::open_with(Keys::None, calls)
    }

    fn open_with(keys: Keys, calls: ScreenCalls) -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Self::open_on((input, output), keys, calls)
    }

    fn open_on(
        (input, output): (OwnedFd, File),
        keys: Keys,
        calls: ScreenCalls,
    ) -> io::Result<Self> {
        // Without a terminal on stdin there are no keys.
        let before = if input.is_terminal() { tcgetattr(&input).ok() } else { None };
        let has_keys = before.is_some();
        let terminal = Arc::new(Terminal {
            input,
            output,
            before,
            is_entered: Mutex::new(false),
            is_over: AtomicBool::new(false),
            is_stale: AtomicBool::new(true),
            has_all_keys: keys == Keys::None,
            has_mouse: AtomicBool::new(false),
        });
        let calls = Arc::new(calls);
        // The handlers are installed first: a signal after the screen is entered always restores it.
        spawn_signal_thread(&terminal, &calls)?;
        restore_on_panic(&terminal);
        terminal.enter();
        if has_keys && keys == Keys::Quit {
            let terminal = Arc::clone(&terminal);
            std::thread::spawn(move || read_keys(terminal.input.as_fd(), &calls));
        }
        Ok(Self { terminal })
    }

    /// Writes a part of a frame unless the screen was left.
    pub fn write_frame(&self, bytes: &[u8]) -> io::Result<()> {
        let is_entered = self.terminal.lock();
        if !*is_entered {
            return Ok(());
        }
        (&self.terminal.output).write_all(bytes)
    }

    /// Leaves the screen for good: the terminal is as it was.
    pub fn leave(&self) {
        self.terminal.leave_for_good();
    }

    /// Turns the reports of the mouse on or off.
    pub fn set_mouse(&self, on: bool) {
        let is_entered = self.terminal.lock();
        self.terminal.has_mouse.store(on, Ordering::SeqCst);
        if *is_entered {
            self.terminal.write_now(if on { ENTER_MOUSE } else { LEAVE_MOUSE });
        }
    }

    /// Returns the columns and the lines of the terminal.
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&self.terminal.output).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col, size.ws_row))
    }

    /// Draws lines from the top; the rest of the screen becomes empty. The lines must fit the screen.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut frame = String::from("\x1b[H");
        frame.push_str(&lines.join("\x1b[K\n"));
        frame.push_str("\x1b[K\x1b[J");
        let is_entered = self.terminal.lock();
        if !*is_entered {
            return Ok(());
        }
        (&self.terminal.output).write_all(frame.as_bytes())
    }

    /// Says whether the last frame is no longer what the terminal shows, and forgets that.
    #[must_use]
    pub fn take_stale(&self) -> bool {
        self.terminal.is_stale.swap(false, Ordering::SeqCst)
    }

    /// Returns the number of lines of the terminal.
    #[must_use]
    pub fn height(&self) -> usize {
        let size = tcgetwinsize(&self.terminal.output).ok().map(|size| usize::from(size.ws_row));
        size.filter(|rows| *rows > 0).unwrap_or(24)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.terminal.leave_for_good();
    }
}

impl Terminal {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.is_entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) {
        let mut is_entered = self.lock();
        if self.is_over.load(Ordering::SeqCst) {
            return;
        }
        if let Some(before) = &self.before {
            let mut without_lines = before.clone();
            without_lines.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            if self.has_all_keys {
                // Ctrl-S and Ctrl-V are keys like any other; Ctrl-C and Ctrl-Z stay signals.
                without_lines.local_modes.remove(LocalModes::IEXTEN);
                without_lines.input_modes.remove(InputModes::IXON);
            }
            // Without these settings only the keys are missing.
            let _unset = tcsetattr(&self.input, OptionalActions::Now, &without_lines);
        }
        *is_entered = true;
        self.write_now(ENTER);
        if self.has_all_keys {
            self.write_now(ENTER_KEYS);
        }
        if self.has_mouse.load(Ordering::SeqCst) {
            self.write_now(ENTER_MOUSE);
        }
    }

    /// Leaves the screen, which is not entered again: a signal may come while the program starts, and another one that
    /// continues it while it ends.
    fn leave_for_good(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.leave();
    }

    fn leave(&self) {
        let mut is_entered = self.lock();
        if !std::mem::take(&mut *is_entered) {
            return;
        }
        if self.has_mouse.load(Ordering::SeqCst) {
            self.write_now(LEAVE_MOUSE);
        }
        if self.has_all_keys {
            self.write_now(LEAVE_KEYS);
        }
        self.write_now(LEAVE);
        self.restore_settings();
    }

    fn restore_settings(&self) {
        if let Some(before) = &self.before {
            let _unset = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }

    /// Leaves the screen, and says whether the terminal took the sequence in time. If not, the lock and the terminal
    /// are left to the thread that waits for them, and the settings are restored.
    fn leave_in_time(self: &Arc<Self>) -> bool {
        let (terminal, (sender, left)) = (Arc::clone(self), channel());
        std::thread::spawn(move || {
            terminal.leave();
            let _late = sender.send(());
        });
        let is_left = left.recv_timeout(LEAVE_LIMIT).is_ok();
        if !is_left {
            self.restore_settings();
        }
        is_left
    }

    /// Writes to the terminal. Errors are ignored: a terminal that is gone needs no restoring.
    fn write_now(&self, bytes: &[u8]) {
        let _gone = (&self.output).write_all(bytes);
    }
}

fn spawn_signal_thread(terminal: &Arc<Terminal>, calls: &Arc<ScreenCalls>) -> io::Result<()> {
    let all =
        [SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM];
    let mut signals = signal_hook::iterator::Signals::new(all)?;
    let (terminal, calls) = (Arc::clone(terminal), Arc::clone(calls));
    std::thread::spawn(move || {
        let redraw = || {
            terminal.is_stale.store(true, Ordering::SeqCst);
            (calls.redraw)();
        };
        let mut is_leaving = false;
        for signal in signals.forever() {
            match signal {
                SIGTSTP => {
                    terminal.leave_in_time();
                    // Returns when the process is continued.
                    let _stopped = signal_hook::low_level::emulate_default_handler(SIGTSTP);
                }
                // Also after a stop by SIGSTOP, during which the shell may have changed the terminal.
                SIGCONT => {
                    if !is_leaving {
                        terminal.enter();
                        redraw();
                    }
                }
                SIGWINCH => redraw(),
                // The second signal does not wait for a look that takes long.
                _ if is_leaving => {
                    let _ended = signal_hook::low_level::emulate_default_handler(signal);
                }
                SIGINT if (calls.stay)() => {}
                SIGINT | SIGTERM | SIGHUP => {
                    is_leaving = true;
                    terminal.is_over.store(true, Ordering::SeqCst);
                    if !terminal.leave_in_time() {
                        // The thread that draws waits for the terminal and would not end the process.
                        let _ended = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    (calls.leave)();
                }
                // The others end the process in their own way.
                _ => {
                    terminal.is_over.store(true, Ordering::SeqCst);
                    terminal.leave_in_time();
                    let _ended = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        }
    });
    Ok(())
}

/// Restores the terminal before a panic of the thread that opened the screen is reported.
fn restore_on_panic(terminal: &Arc<Terminal>) {
    let terminal = Arc::clone(terminal);
    let owner = std::thread::current().id();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == owner {
            terminal.leave();
        }
        report(info);
    }));
}

/// Reads keys until the user leaves.
fn read_keys(fd: BorrowedFd<'_>, calls: &ScreenCalls) {
    let mut keys = [0; 64];
    loop {
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        match rustix::io::read(fd, &mut keys) {
            Ok(0) => return,
            Ok(count) if keys[..count].iter().any(|key| matches!(key, b'q' | b'Q' | 3)) => {
                return (calls.leave)();
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Returns everything that was written to a terminal.
    fn written(controller: OwnedFd) -> String {
        let mut reader = File::from(controller);
        let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::new(&reader, PollFlags::IN)];
            if poll(&mut fds, Some(&now)).expect("polled") == 0 {
                return String::from_utf8(said).expect("UTF-8");
            }
            let read = reader.read(&mut chunk).expect("read");
            said.extend_from_slice(&chunk[..read]);
        }
    }

    /// A terminal: the end of the emulator and the end of the program.
    fn terminal() -> (OwnedFd, File) {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let side = File::options().read(true).write(true).open(name.to_str().expect("UTF-8"));
        (controller, side.expect("opened"))
    }

    fn screen_on(side: &File) -> Screen {
        let calls = ScreenCalls {
            stay: Box::new(|| false),
            leave: Box::new(|| {}),
            redraw: Box::new(|| {}),
        };
        let clone = || side.try_clone().expect("cloned");
        Screen::open_on((clone().into(), clone()), Keys::Quit, calls).expect("entered")
    }

    fn modes(side: &File) -> LocalModes {
        tcgetattr(side).expect("settings").local_modes
    }

    /// A signal that ends the program may come before the screen is entered, or one that continues it while it ends.
    #[test]
    fn a_screen_that_was_left_for_good_is_not_entered_again() {
        let (controller, side) = terminal();
        let before = modes(&side);
        let screen = screen_on(&side);
        screen.leave();
        assert_eq!(modes(&side), before);
        screen.terminal.enter();
        assert_eq!(modes(&side), before);
        assert!(written(controller).ends_with("\x1b[?25h\x1b[?1049l"));
    }

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let (controller, side) = terminal();
        let before = modes(&side);
        let screen = screen_on(&side);
        screen.draw(&["a row".to_owned()]).expect("drawn");
        assert_ne!(modes(&side), before, "keys are read one by one");
        // The screen is not dropped by the panic: only the hook restores the terminal.
        let panicked = std::panic::catch_unwind(|| panic!("a bug in a redraw"));
        assert!(panicked.is_err());
        assert_eq!(modes(&side), before);
        let said = written(controller);
        assert!(said.starts_with("\x1b[?1049h") && said.contains("a row"), "{said:?}");
        assert!(said.ends_with("\x1b[?25h\x1b[?1049l"), "{said:?}");
        drop(screen);
    }
}
