//! Notifications in tmux, on a named terminal and on the terminal of a command; `notify test` tries them all.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use agentctl::config::NotifySettings;
use testkit::{TestHome, eventually, sandboxed};

use crate::events::tell;
use crate::launched::{launch, script};
use crate::list_screen::{Watching, shows};
use crate::notify::{stage, waiting};
use crate::terminal::Terminal;
use crate::{configure, home};

/// A scripted tmux with two clients; it writes every message to `tmux.log`.
fn scripted_tmux(home: &TestHome) -> PathBuf {
    let log = home.path().join("tmux.log");
    let text = format!(
        "case $1 in\nlist-clients) echo /dev/pts/8; echo /dev/pts/9;;\n*) printf '%s|' \"$@\" >> '{}';;\nesac",
        log.display()
    );
    let _program = script(home, "tmux", &text);
    log
}

fn quiet() -> NotifySettings {
    NotifySettings { desktop: false, ..NotifySettings::default() }
}

#[test]
fn every_client_of_tmux_gets_a_text_that_tmux_does_not_expand() {
    sandboxed(|| {
        let stage = stage(|home| {
            scripted_tmux(home);
            NotifySettings { tmux: true, ..quiet() }
        });
        let mut event = (*waiting("e-1")).clone();
        let session = event.session.as_mut().expect("a session");
        session.title = Some("#(touch /tmp/x) 5%H\u{1b}[31m".into());
        stage.notify.offer(&event.into());
        eventually("it is counted", || (stage.notify.status().shown == 1).then_some(()));
        let log = fs::read_to_string(stage.home.path().join("tmux.log")).expect("a log");
        for client in ["/dev/pts/8", "/dev/pts/9"] {
            assert!(log.contains(&format!("display-message|-c|{client}|")), "{log}");
        }
        assert!(log.contains("##(touch /tmp/x) 5%%H\\x1b[31m"), "{log}");
        assert!(!log.contains('\u{1b}'), "{log}");
    });
}

#[test]
fn a_named_terminal_gets_one_sequence_and_the_bell() {
    sandboxed(|| {
        let terminal = Terminal::open(80);
        let tty = Some(PathBuf::from(terminal.name()));
        // Keeps the terminal open while nothing else has it.
        let _held = File::options().write(true).open(terminal.name()).expect("opened");
        let stage = stage(|_| NotifySettings { tty, ..quiet() });
        stage.notify.offer(&waiting("e-1"));
        eventually("it is counted", || (stage.notify.status().shown == 1).then_some(()));
        let mut said = [0; 4096];
        let read = File::from(terminal.controller).read(&mut said).expect("read");
        let said = String::from_utf8_lossy(&said[..read]).into_owned();
        assert!(said.starts_with("\u{1b}]9;demo needs you: permission: Bash"), "{said:?}");
        assert!(said.ends_with("\u{1b}\\\u{7}"), "{said:?}");
        assert_eq!(said.matches('\u{1b}').count(), 2, "the agent's own is shown as text: {said:?}");
    });
}

#[test]
fn a_file_that_is_no_terminal_is_not_written_to() {
    sandboxed(|| {
        for (name, why) in [("file", "not a terminal"), ("fifo", "fifo: "), ("link", "link: ")] {
            let stage = stage(|home| {
                match name {
                    "file" => drop(home.write("file", "")),
                    "fifo" => {
                        let path = home.at("fifo");
                        let kind = rustix::fs::FileType::Fifo;
                        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("made");
                    }
                    _ => std::os::unix::fs::symlink("/dev/tty", home.at("link")).expect("made"),
                }
                NotifySettings { tty: Some(home.path().join(name)), ..quiet() }
            });
            stage.notify.offer(&waiting("e-1"));
            let status = eventually("it is counted", || {
                Some(stage.notify.status()).filter(|status| status.failed == 1)
            });
            let error = status.last_error.expect("an error");
            assert!(error.starts_with("tty: ") && error.contains(why), "{name}: {error}");
        }
        for device in ["/dev/null", "/dev/ptmx"] {
            let stage = stage(|_| NotifySettings { tty: Some(device.into()), ..quiet() });
            stage.notify.offer(&waiting("e-1"));
            let failed = || Some(stage.notify.status()).filter(|status| status.failed == 1);
            let error = eventually(device, failed).last_error.expect("an error");
            assert!(error.contains(device), "{error}");
        }
    });
}

#[test]
fn notify_test_says_for_each_channel_what_happened() {
    sandboxed(|| {
        let home = home();
        let none = home.run(&["notify", "test"]);
        assert_eq!(none.code, Some(1));
        assert!(none.stderr.contains("no notification is configured"), "{none:?}");

        let log = scripted_tmux(&home);
        let good = script(&home, "good", "echo \"$AGENTCTL_TITLE\" > \"${0%/bin/*}/told\"");
        let table = |command: &str, tty: &str| {
            format!("[notify]\ncommand = [\"{command}\"]\ntmux = true\n{tty}terminal = true")
        };
        configure(&home, &[], &table(&good.display().to_string(), ""));
        let all = home.run(&["notify", "test"]);
        assert_eq!(all.code, Some(0), "{all:?}");
        let words = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = all.stdout.lines().map(words).collect();
        assert_eq!(lines, ["command ok", "tmux ok", "terminal skipped"], "{all:?}");
        assert!(!all.stdout.contains('\u{1b}'), "a pipe gets no sequence: {all:?}");
        assert!(fs::read_to_string(&log).expect("a log").contains("agentctl: This is a test"));
        let told = fs::read_to_string(home.path().join("told")).expect("told");
        assert_eq!(told, "agentctl\n");

        let bad = script(&home, "bad", "echo no bus >&2; exit 3");
        configure(&home, &[], &table(&bad.display().to_string(), "tty = \"/dev/null\"\n"));
        let failed = home.run(&["notify", "test"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let lines: Vec<String> = failed.stdout.lines().map(words).collect();
        assert_eq!(
            lines,
            ["command failed", "tmux ok", "tty failed", "terminal skipped"],
            "{failed:?}"
        );
        assert!(failed.stdout.contains("exited with 3: no bus"), "{failed:?}");
        assert!(failed.stdout.contains("/dev/null: it is not a terminal"), "{failed:?}");

        // A channel that was chosen replaces the desktop's program, which is not installed here.
        configure(&home, &[], "[notify]\ntmux = true\n");
        let chosen = home.run(&["notify", "test"]);
        let lines: Vec<String> = chosen.stdout.lines().map(words).collect();
        assert_eq!((chosen.code, lines), (Some(0), vec!["tmux ok".to_owned()]), "{chosen:?}");
        configure(&home, &[], "[notify]\ntmux = true\ndesktop = true\n");
        let both = home.run(&["notify", "test"]);
        assert!(both.stdout.starts_with("desktop "), "{both:?}");
    });
}

/// The sequence that a terminal gets for a question of the demo agent.
const SEQUENCE: &str = "\u{1b}]9;demo needs you: question: go?";

#[test]
fn events_and_the_watched_list_notify_their_terminal_on_request() {
    sandboxed(|| {
        let mut home = home();
        let bell = Watching::start(&mut home, (100, 20), &["list", "--watch", "--bell"]);
        let quiet = Watching::start(&mut home, (100, 20), &["list", "--watch"]);
        // With --since it also tells the launch below if that began before it listened.
        let events = Watching::start(&mut home, (100, 20), &["events", "--bell", "--since", "1h"]);
        for watching in [&bell, &quiet] {
            watching.until("it shows an empty list", |lines| !lines.is_empty());
        }
        let ready = launch(&home, "v", "x [[say:ok]]", &[]);
        let said = |watching: &Watching| {
            String::from_utf8_lossy(&watching.said.lock().expect("whole")).into_owned()
        };
        eventually("it listens", || said(&events).contains(&ready[..8]).then_some(()));
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        for watching in [&bell, &events] {
            eventually("the terminal is notified", || {
                said(watching).contains(SEQUENCE).then_some(())
            });
        }
        quiet.until("it shows the question", |lines| shows(lines, "go?"));
        assert!(!said(&quiet).contains("\u{1b}]9;") && !said(&quiet).contains('\u{7}'));
        // The configuration asks for it as well as the flag.
        configure(&home, &[], "[notify]\nterminal = true");
        let configured = Watching::start(&mut home, (100, 20), &["list", "--watch"]);
        configured.until("it shows the question", |lines| shows(lines, "go?"));
        assert!(!said(&configured).contains(SEQUENCE), "it waited before the list began");
        let again = launch(&home, "u", "x [[ask:go?]]", &[]);
        eventually("it is notified", || said(&configured).contains(SEQUENCE).then_some(()));
        for id in [id, again] {
            tell(&home, &id, "go");
        }
    });
}
