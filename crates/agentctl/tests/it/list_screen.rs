//! `list --watch` on a terminal: a screen of its own, and the terminal as it was afterwards.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use rustix::termios::{Action, LocalModes, tcflow, tcgetattr};
use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::signal;
use crate::events::tell;
use crate::launched::{launch, until_asked};
use crate::terminal::Terminal;
use crate::virtual_screen::VirtualScreen;
use crate::{fixtures_dir, home};

/// A watched list on a pseudo-terminal, and its output so far.
pub(crate) struct Watching {
    terminal: Terminal,
    size: (u16, u16),
    pub(crate) child: Child,
    pub(crate) said: Arc<Mutex<Vec<u8>>>,
}

impl Watching {
    pub(crate) fn start(home: &mut TestHome, size: (u16, u16), args: &[&str]) -> Self {
        let terminal = Terminal::open(size.0);
        terminal.set_size(size.0, size.1);
        // The last lines before it: they must be there again afterwards.
        terminal.side().write_all(b"before\n").expect("written");
        let child = terminal.start_with_keys(home, args);
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reader, copy) =
            (File::from(terminal.controller.try_clone().expect("cloned")), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut chunk) {
                copy.lock().expect("whole").extend_from_slice(&chunk[..read]);
            }
        });
        Self { terminal, size, child, said }
    }

    pub(crate) fn screen(&self) -> VirtualScreen {
        let said = String::from_utf8_lossy(&self.said.lock().expect("whole")).into_owned();
        VirtualScreen::of(&said, self.size.0.into(), self.size.1.into())
    }

    /// Waits until the lines that are seen are so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        eventually(what, || {
            let screen = self.screen();
            (screen.is_alternate() && is_so(&screen.lines())).then(|| screen.lines())
        })
    }

    pub(crate) fn press(&self, keys: &[u8]) {
        let mut controller = File::from(self.terminal.controller.try_clone().expect("cloned"));
        controller.write_all(keys).expect("written");
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.said.lock().expect("whole").clear();
        self.size = (columns, rows);
        // The emulator begins anew, on the alternate screen.
        self.said.lock().expect("whole").extend_from_slice(b"\x1b[?1049h");
        self.terminal.set_size(columns, rows);
        signal(self.child.id(), Signal::WINCH);
    }

    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal.controller).expect("settings").local_modes;
        !modes.contains(LocalModes::ICANON) || !modes.contains(LocalModes::ECHO)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub(crate) fn shows(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn rows_that_do_not_fit_the_height_are_counted_and_the_waiting_ones_are_on_top() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        for sort in ["--sort=active", "--sort=-status"] {
            let args = ["list", "--since", "all", "--watch", sort];
            let watching = Watching::start(&mut home, (90, 12), &args);
            let lines = watching.until("all is shown", |lines| shows(lines, "more"));
            assert_eq!(lines.len(), 12, "{lines:#?}");
            assert!(lines[1].starts_with("  STATUS"), "{lines:#?}");
            assert!(lines[2].starts_with("  ! waiting"), "{lines:#?}");
            assert_eq!(lines[11], "  … 30 more");
            assert!(lines.iter().all(|line| line.chars().count() <= 90), "{lines:#?}");
            assert_eq!(watching.screen().scrolled, 0, "nothing is in the scrollback");
        }
    });
}

#[test]
fn every_way_out_leaves_the_terminal_as_it_was() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        let signals = [Signal::INT, Signal::TERM, Signal::HUP];
        for way in [None].into_iter().chain(signals.into_iter().map(Some)) {
            let mut watching = Watching::start(&mut home, (80, 10), &["list", "-w"]);
            watching.until("the agent is shown", |lines| shows(lines, "! waiting"));
            assert!(watching.is_raw() && watching.screen().is_cursor_hidden, "{way:?}");
            match way {
                None => watching.press(b"q"),
                Some(way) => signal(watching.child.id(), way),
            }
            let ended = eventually("it ends", || watching.child.try_wait().expect("asked"));
            assert_eq!(ended.code(), Some(0), "{way:?}");
            eventually("the screen is left", || (!watching.screen().is_alternate()).then_some(()));
            let screen = watching.screen();
            assert_eq!(screen.lines(), ["before"], "{way:?}");
            assert!(!screen.is_cursor_hidden && !watching.is_raw(), "{way:?}");
            assert_eq!(screen.scrolled, 0, "nothing is in the scrollback");
        }
    });
}

#[test]
fn every_signal_that_ends_it_leaves_the_terminal_as_it_was() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        for way in [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM] {
            let mut watching = Watching::start(&mut home, (80, 10), &["list", "-w"]);
            watching.until("the agent is shown", |lines| shows(lines, "! waiting"));
            signal(watching.child.id(), way);
            let ended = eventually("it ends", || watching.child.try_wait().expect("asked"));
            assert_eq!(ended.signal(), Some(way.as_raw()), "{way:?}");
            eventually("the screen is left", || (!watching.screen().is_alternate()).then_some(()));
            assert!(!watching.is_raw() && !watching.screen().is_cursor_hidden, "{way:?}");
        }
    });
}

#[test]
fn a_terminal_that_takes_no_output_does_not_keep_it_from_ending() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        for way in [Signal::TERM, Signal::HUP] {
            let mut watching = Watching::start(&mut home, (80, 10), &["list", "-w"]);
            watching.until("the agent is shown", |lines| shows(lines, "! waiting"));
            // As after Ctrl-S: every write of the program blocks from now on.
            tcflow(watching.terminal.side(), Action::OOff).expect("stopped");
            watching.resize(81, 10);
            signal(watching.child.id(), way);
            eventually("it ends", || watching.child.try_wait().expect("asked"));
            assert!(!watching.is_raw(), "{way:?}");
        }
    });
}

#[test]
fn another_size_and_a_suspension_are_followed_by_a_whole_frame() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let mut watching = Watching::start(&mut home, (100, 20), &["list", "--since", "all", "-w"]);
        watching.until("it is shown", |lines| shows(lines, "… 21 more"));
        watching.resize(40, 8);
        let lines = watching.until("it is shown again", |lines| shows(lines, "… 33 more"));
        assert_eq!(lines.len(), 8, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");

        let pid = watching.child.id();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
        };
        signal(pid, Signal::TSTP);
        eventually("it is suspended", || (state() == 'T').then_some(()));
        eventually("its screen is left", || (!watching.screen().is_alternate()).then_some(()));
        assert!(!watching.is_raw(), "the shell's terminal");
        let entered = watching.screen().entered;
        signal(pid, Signal::CONT);
        eventually("it is back", || (watching.screen().entered > entered).then_some(()));
        watching.until("it is drawn again", |lines| shows(lines, "… 33 more"));
        assert!(watching.is_raw());
    });
}

#[test]
fn changed_rows_are_marked_and_ages_stay_right_while_nothing_happens() {
    sandboxed(|| {
        let mut home = home();
        let first = launch(&home, "w", "x [[ask:go?]] [[hang]]", &[]);
        until_asked(&home, &first);
        let watching = Watching::start(&mut home, (100, 20), &["list", "-w"]);
        let lines = watching.until("it is shown", |lines| shows(lines, "! waiting"));
        assert!(!lines.iter().any(|line| line.starts_with("* ")), "{lines:#?}");
        let second = launch(&home, "v", "x [[ask:go?]]", &[]);
        let of = |lines: &[String], id: &str| {
            lines.iter().find(|line| line.contains(&id[..8]) && !line.contains("q quits")).cloned()
        };
        let lines = watching.until("the new one waits", |lines| {
            let both = [&first, &second].map(|id| of(lines, id).is_some_and(|l| l.contains('!')));
            lines[0].contains("2 waiting") && both == [true, true]
        });
        assert!(of(&lines, &second).expect("shown").starts_with("* "), "{lines:#?}");
        assert!(of(&lines, &first).expect("shown").starts_with("  "), "{lines:#?}");
        tell(&home, &first, "go");
        watching.until("the other one changed", |lines| {
            of(lines, &first).is_some_and(|line| line.starts_with("* ") && !line.contains('!'))
        });

        // Nothing happens any more, and the ages are still right. The look once a minute would draw only one more
        // age in seconds.
        let mut ages = BTreeSet::new();
        eventually("its age in seconds is drawn again and again", || {
            let row = of(&watching.screen().lines(), &second).unwrap_or_default();
            let seconds = |word: &str| word.strip_suffix('s').and_then(|n| n.parse::<u8>().ok());
            ages.extend(row.split_whitespace().find_map(seconds));
            (ages.len() >= 4).then_some(())
        });
    });
}

#[test]
fn nothing_is_drawn_while_no_age_changes() {
    sandboxed(|| {
        let mut home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let watching = Watching::start(&mut home, (100, 20), &["list", "--since", "all", "-w"]);
        let lines = watching.until("it is shown", |lines| shows(lines, "more"));
        let clock = lines[0].split(' ').next().unwrap_or_default();
        assert_eq!(clock.len(), "07:05".len(), "a clock without seconds: {}", lines[0]);
        // Once a second it asks whether an agent was paused. That alone draws nothing. A new minute draws once.
        let switches = || {
            let path = format!("/proc/{0}/task/{0}/status", watching.child.id());
            let status = std::fs::read_to_string(path).expect("it lives");
            let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|l| l.trim().parse::<u64>().ok()).expect("a number")
        };
        let written = || watching.said.lock().expect("whole").len();
        let mut last = (written(), switches());
        eventually("it wakes a dozen times and draws nothing", || {
            if written() != last.0 {
                last = (written(), switches());
            }
            (switches() >= last.1 + 12).then_some(())
        });
    });
}

#[test]
fn a_paused_agent_is_seen() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        let pid = home.run(&["status", &id, "--json"]).json()["pid"].as_u64().expect("a pid");
        let pid = u32::try_from(pid).expect("a pid");
        for args in [&["list", "--watch"][..], &["list", "-a", "--watch"]] {
            let watching = Watching::start(&mut home, (100, 20), args);
            watching.until("the agent is shown", |lines| shows(lines, "! waiting"));
            // Nothing announces a stop by SIGSTOP, nor its end.
            signal(pid, Signal::STOP);
            watching.until("it is paused", |lines| shows(lines, "paused"));
            signal(pid, Signal::CONT);
            watching
                .until("it is not", |lines| shows(lines, "! waiting") && !shows(lines, "paused"));
        }
    });
}
