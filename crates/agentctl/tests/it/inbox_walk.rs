//! `answer` on a terminal: a walk through all asks.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
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
        let ids = ["a", "b"].map(|w| launch(&home, w, "x [[permit:touch yes]] [[hang]]", &[]));
        for id in &ids {
            ask_of(&home, id);
        }
        // In the order of the walk: the second session may have asked first.
        let listed = home.run(&["asks", "--json"]).json();
        let asks = listed["asks"].as_array().expect("asks").clone();
        let pid = asks[0]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let first = Pid::from_raw(pid.expect("a pid")).expect("a pid");
        let mut terminal = Typing::start(&home, &["answer"]);
        terminal.until_shown("1 of 2");
        terminal.until_shown("[q]uit: ");
        // It does not reply, so that its answer takes as long as the reply is waited for.
        kill_process(first, Signal::STOP).expect("it lives");
        terminal.write("a\n");
        let lock = format!("{}.lock", id_of(&asks[0]));
        let answers = home.path().join(".local/state/agentctl/run/answers");
        eventually("the answer is being delivered", || answers.join(&lock).exists().then_some(()));
        terminal.write("a\n");
        terminal.until_shown("2 of 2");
        terminal.until_shown("discarded");
        terminal.write("q\n");
        assert_eq!(terminal.code(), Some(0));
        kill_process(first, Signal::CONT).expect("it lives");
        let second = asks[1]["session_id"].as_str().expect("an id");
        assert_eq!(ask_of(&home, second)["id"], asks[1]["id"], "it was not answered");
    });
}
