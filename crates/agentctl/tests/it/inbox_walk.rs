//! `answer` on a terminal: a walk through all asks.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::confirmed::on_terminal;
use crate::home;
use crate::inbox::{ask_of, id_of};
use crate::launched::launch;
use crate::terminal::Terminal;

/// A program on a terminal, typed to step by step.
struct Typing {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Typing {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let terminal = Terminal::open(80);
        let child = terminal.stream(&mut home.command(args)).spawn().expect("starts");
        let keyboard = File::from(terminal.controller);
        let mut screen = keyboard.try_clone().expect("cloned");
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading a terminal fails when its last writer has exited.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                seen.lock().expect("whole").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keyboard, shown }
    }

    fn until_shown(&self, text: &str) {
        eventually(text, || self.shown.lock().expect("whole").contains(text).then_some(()));
    }

    fn has_open(&self, path: &Path) -> bool {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten();
        let mut open = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        open.any(|to| to == path)
    }

    fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("typed");
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("ended").code()
    }
}

#[test]
fn a_walk_on_a_terminal_answers_skips_and_leaves() {
    sandboxed(|| {
        let home = home();
        let ids = ["a", "b", "c"].map(|w| launch(&home, w, "x [[permit:touch yes]] [[hang]]", &[]));
        for id in &ids {
            ask_of(&home, id);
        }
        assert_eq!(on_terminal(&home, &["answer"], "a\ns\nq\n", false), Some(0));
        let ran = |w: &str| home.path().join(w).join("yes").exists();
        eventually("one tool ran", || {
            (["a", "b", "c"].iter().filter(|w| ran(w)).count() == 1).then_some(())
        });
        let left = home.run(&["asks", "--json"]).json();
        assert_eq!(left["asks"].as_array().map(Vec::len), Some(2), "one was skipped, one was left");
        let left = home.run(&["asks", "-q"]).stdout;
        let first = left.lines().next().expect("an ask").to_owned();
        assert_eq!(on_terminal(&home, &["answer", &first], "9\n1\n", false), Some(0));
        eventually("a rule was chosen by its number", || {
            (["a", "b", "c"].iter().filter(|w| ran(w)).count() == 2).then_some(())
        });
        for id in &ids {
            assert_eq!(home.run(&["stop", id]).code, Some(0));
        }
    });
}

/// Keys that are typed while an answer is delivered were typed before the next ask was shown.
#[test]
fn a_key_that_was_typed_too_early_answers_nothing() {
    sandboxed(|| {
        let home = home();
        // The walk begins with the ask that has waited longest.
        let (ids, asks): (Vec<String>, Vec<Value>) = ["a", "b"]
            .map(|w| {
                let id = launch(&home, w, "x [[permit:touch yes]] [[hang]]", &[]);
                let ask = ask_of(&home, &id);
                (id, ask)
            })
            .into_iter()
            .unzip();
        let mut terminal = Typing::start(&home, &["answer"]);
        terminal.until_shown("1 of 2");
        terminal.until_shown("[q]uit: ");
        // Another answer to the first ask is being delivered, so that this one waits.
        let lock = format!(".local/state/agentctl/run/answers/{}.lock", id_of(&asks[0]));
        let lock = home.write(&lock, "");
        let held = File::open(&lock).expect("made");
        for folder in lock.ancestors().skip(1).take_while(|folder| *folder != home.path()) {
            let only_ours = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, only_ours).expect("made private");
        }
        flock(&held, FlockOperation::LockExclusive).expect("locked");
        terminal.write("a\n");
        eventually("the answer waits", || terminal.has_open(&lock).then_some(()));
        terminal.write("a\n");
        terminal.until_shown("2 of 2");
        terminal.until_shown("discarded");
        terminal.write("q\n");
        assert_eq!(terminal.code(), Some(0));
        assert_eq!(ask_of(&home, &ids[1])["id"], asks[1]["id"], "it was not answered");
    });
}
