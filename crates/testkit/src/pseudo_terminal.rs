//! A pseudo-terminal on which a program is played and its output is kept.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A program on a terminal.
pub struct PseudoTerminal {
    controller: File,
    output: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    child: Child,
}

impl PseudoTerminal {
    /// Starts a command with a terminal of this size as its three standard streams.
    #[must_use]
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).expect("sized");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let name = name.to_str().expect("UTF-8").to_owned();
        let side = || File::options().read(true).write(true).open(&name).expect("opened");
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("starts");
        // The command would keep the terminal open.
        *command = Command::new("true");
        let controller = File::from(controller);
        let output = Arc::new(Mutex::new(Vec::new()));
        let mut source = controller.try_clone().expect("a second handle");
        let kept = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The terminal ends with an error when the last writer has left.
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                lock(&kept).extend_from_slice(&buffer[..count]);
            }
        });
        Self { controller, output, reader, child }
    }

    /// Returns the output until now.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&lock(&self.output)).into_owned()
    }

    /// Returns the output behind so many bytes.
    #[must_use]
    pub fn output_since(&self, bytes: usize) -> String {
        let output = lock(&self.output);
        String::from_utf8_lossy(output.get(bytes..).unwrap_or_default()).into_owned()
    }

    /// Returns how many bytes were written until now.
    #[must_use]
    pub fn output_length(&self) -> usize {
        lock(&self.output).len()
    }

    /// Returns the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).expect("pressed");
    }

    /// Waits for the program and for the last line of its output, which it returns with `\n` line ends. Processes
    /// that the program left behind must not hold the terminal.
    #[must_use]
    pub fn ended(mut self) -> String {
        let _status = self.child.wait().expect("ends");
        self.reader.join().expect("read");
        String::from_utf8_lossy(&lock(&self.output)).replace("\r\n", "\n")
    }
}

fn lock(output: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}
