//! Output on a real pseudo-terminal of a given width.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testkit::{TestHome, sandboxed};

use crate::{fixtures_dir, home};

/// A pseudo-terminal.
pub(crate) struct Terminal {
    pub(crate) controller: OwnedFd,
    name: String,
}

impl Terminal {
    pub(crate) fn open(columns: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let terminal = Self { controller, name: name.to_str().expect("UTF-8").to_owned() };
        terminal.resize(columns);
        terminal
    }

    pub(crate) fn resize(&self, columns: u16) {
        self.set_size(columns, 50);
    }

    pub(crate) fn set_size(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.controller, size).expect("sized");
    }

    /// Opens the side of the program.
    pub(crate) fn side(&self) -> File {
        File::options().read(true).write(true).open(&self.name).expect("opened")
    }

    /// Returns the path of its device file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Gives a command this terminal as its three standard streams.
    pub(crate) fn stream<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.stdin(self.side()).stdout(self.side()).stderr(self.side())
    }

    /// Starts the program on this terminal, which itself says how wide it is.
    pub(crate) fn start(&self, home: &mut TestHome, args: &[&str]) -> Child {
        home.set("COLUMNS", "");
        let mut command = home.command(args);
        command.stdout(self.side()).stderr(self.side()).spawn().expect("starts")
    }

    /// Starts the program with its keys from this terminal too.
    pub(crate) fn start_with_keys(&self, home: &mut TestHome, args: &[&str]) -> Child {
        home.set("COLUMNS", "");
        let mut command = home.command(args);
        command.stdin(self.side()).stdout(self.side()).stderr(self.side());
        command.spawn().expect("starts")
    }
}

/// Runs the program on a terminal of this width and returns its output.
pub(crate) fn shown(home: &mut TestHome, columns: u16, args: &[&str]) -> String {
    let terminal = Terminal::open(columns);
    let mut child = terminal.start(home, args);
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // The terminal ends with an error when the last writer has left.
        let _left = File::from(terminal.controller).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    assert!(child.wait().expect("ends").success());
    reader.join().expect("read").replace("\r\n", "\n")
}

#[test]
fn a_list_fits_the_terminal_and_shortens_the_home() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let place = home.path().join("shop");
        std::fs::create_dir(&place).expect("made");
        let mut agent = home.command(&["demo-agent", "-p", "work there"]);
        assert!(
            agent
                .current_dir(&place)
                .stdout(std::process::Stdio::null())
                .status()
                .expect("runs")
                .success()
        );
        for columns in [60, 80, 120, 200] {
            let text = shown(&mut home, columns, &["list", "-a", "--since", "all"]);
            assert_eq!(text.lines().count(), 1 + 38 + 1, "{text}");
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= usize::from(columns), "{width} of {columns}: {line}");
            }
            assert!(text.contains(" ~/shop "), "{text}");
        }
    });
}

#[test]
fn a_narrow_terminal_shows_which_agents_can_be_answered_and_spoken_to() {
    sandboxed(|| {
        let mut home = home();
        for columns in [80, 160] {
            let wide = shown(&mut home, columns, &["adapters", "-o", "wide"]);
            for adapter in agentctl_core::adapters::ALL {
                for subject in ["asks", "messages"] {
                    let begin = format!("{subject} {} ", adapter.name());
                    let has_words = |line: &str| {
                        let words = line.strip_prefix(&begin).map(str::trim);
                        words.is_some_and(|words| !words.is_empty() && words != "-")
                    };
                    assert!(wide.lines().any(has_words), "{begin}in\n{wide}");
                }
            }
            assert!(wide.contains("asks nobody") && wide.contains("takes none"), "{wide}");
            assert!(wide.lines().all(|line| line.chars().count() <= columns.into()), "{wide}");
        }
    });
}

#[test]
fn colour_is_extra_and_can_be_refused() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let args = ["list", "-a", "--since", "all"];
        let plain = shown(&mut home, 100, &args);
        assert!(!plain.contains('\x1b'), "NO_COLOR: {plain}");
        home.set("NO_COLOR", "");
        let coloured = shown(&mut home, 100, &args);
        assert!(coloured.contains("\x1b["), "{coloured}");
        let mut bare = String::new();
        for part in coloured.split('\x1b') {
            bare.push_str(
                part.strip_prefix('[')
                    .and_then(|p| p.split_once('m'))
                    .map_or(part, |(_, rest)| rest),
            );
        }
        assert_eq!(bare, plain, "colour carries nothing of its own");
    });
}
