//! `answer` on a terminal: a walk through all asks.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::inbox::{ask_of, id_of, settle_elsewhere};
use crate::launched::{launch, until_said};
use crate::terminal::Terminal;

/// The lock of an ask, held: another answer to it is being delivered.
pub(crate) struct HeldLock {
    path: PathBuf,
    _held: File,
}

impl HeldLock {
    pub(crate) fn of(home: &TestHome, ask: &Value) -> Self {
        let path = format!(".local/state/agentctl/run/answers/{}.lock", id_of(ask));
        let path = home.write(&path, "");
        let held = File::open(&path).expect("made");
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != home.path()) {
            let only_ours = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, only_ours).expect("made private");
        }
        flock(&held, FlockOperation::LockExclusive).expect("locked");
        Self { path, _held: held }
    }

    /// Waits until a process waits for the lock.
    pub(crate) fn until_waited_for(&self, pid: u32) {
        eventually("the answer waits", || {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
            let mut open = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
            open.any(|to| to == self.path).then_some(())
        });
    }
}

/// A program on a terminal, typed to step by step.
pub(crate) struct Typing {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Typing {
    pub(crate) fn start(home: &TestHome, args: &[&str]) -> Self {
        Self::start_after(home, args, "")
    }

    /// Starts the program on a terminal on which this was typed before.
    fn start_after(home: &TestHome, args: &[&str], typed: &str) -> Self {
        let terminal = Terminal::open(80);
        let mut command = home.command(args);
        let command = terminal.stream(&mut command);
        let mut keyboard = terminal.controller.try_clone().map(File::from).expect("cloned");
        keyboard.write_all(typed.as_bytes()).expect("typed");
        let child = command.spawn().expect("starts");
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

    pub(crate) fn until_shown(&self, text: &str) {
        eventually(text, || self.shown.lock().expect("whole").contains(text).then_some(()));
    }

    /// Waits until the keys of this many asks were shown.
    fn until_asked(&self, count: usize) {
        eventually("the keys are shown", || {
            let shown = self.shown.lock().expect("whole").matches("[q]uit: ").count();
            (shown >= count).then_some(())
        });
    }

    fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("typed");
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
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
        let mut walk = Typing::start(&home, &["answer"]);
        for (asked, key) in [(1, "a\n"), (2, "s\n"), (3, "q\n")] {
            walk.until_asked(asked);
            walk.write(key);
        }
        assert_eq!(walk.code(), Some(0));
        let ran = |w: &str| home.path().join(w).join("yes").exists();
        eventually("one tool ran", || {
            (["a", "b", "c"].iter().filter(|w| ran(w)).count() == 1).then_some(())
        });
        let left = home.run(&["asks", "--json"]).json();
        assert_eq!(left["asks"].as_array().map(Vec::len), Some(2), "one was skipped, one was left");
        let left = home.run(&["asks", "-q"]).stdout;
        let first = left.lines().next().expect("an ask").to_owned();
        let mut walk = Typing::start(&home, &["answer", &first]);
        for (asked, key) in [(1, "9\n"), (2, "1\n")] {
            walk.until_asked(asked);
            walk.write(key);
        }
        assert_eq!(walk.code(), Some(0));
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
        let lock = HeldLock::of(&home, &asks[0]);
        terminal.write("a\n");
        lock.until_waited_for(terminal.child.id());
        terminal.write("a\n");
        terminal.until_shown("2 of 2");
        terminal.until_shown("discarded");
        terminal.write("q\n");
        assert_eq!(terminal.code(), Some(5), "another answer to the first ask is being delivered");
        assert_eq!(ask_of(&home, &ids[1])["id"], asks[1]["id"], "it was not answered");
    });
}

/// Starts two sessions that ask for a permission each, in the order of the walk.
fn ask_two_permissions(home: &TestHome) {
    for directory in ["a", "b"] {
        let id = launch(home, directory, "x [[permit:touch yes]] [[hang]]", &[]);
        ask_of(home, &id);
    }
}

fn open_asks(home: &TestHome) -> usize {
    home.run(&["asks", "-q"]).stdout.lines().count()
}

#[test]
fn keys_that_were_typed_in_one_go_answer_only_the_ask_that_was_shown() {
    sandboxed(|| {
        let home = home();
        ask_two_permissions(&home);
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("a\na\n");
        walk.until_asked(2);
        walk.write("q\n");
        assert_eq!(walk.code(), Some(0));
        assert_eq!(open_asks(&home), 1, "nobody has seen it");
        assert!(!home.path().join("b/yes").exists());
    });
}

#[test]
fn keys_that_were_typed_before_the_walk_began_answer_nothing() {
    sandboxed(|| {
        let home = home();
        ask_two_permissions(&home);
        let mut walk = Typing::start_after(&home, &["answer"], "a\na\n");
        walk.until_asked(1);
        walk.write("q\n");
        assert_eq!(walk.code(), Some(0));
        assert_eq!(open_asks(&home), 2);
    });
}

#[test]
fn a_pasted_answer_of_two_lines_answers_only_its_question() {
    sandboxed(|| {
        let home = home();
        let question = launch(&home, "a", "x [[ask:Why?]] [[hang]]", &[]);
        ask_of(&home, &question);
        let permission = launch(&home, "b", "x [[permit:touch yes]] [[hang]]", &[]);
        let ask = ask_of(&home, &permission);
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("first line\na\n");
        walk.until_asked(2);
        walk.write("m\nnever\n");
        walk.until_shown("words for the agent: ");
        walk.until_shown("discarded");
        walk.write("because\n");
        assert_eq!(walk.code(), Some(0));
        eventually("it is denied", || {
            let said = home.run(&["logs", &permission, "--json"]).stdout;
            said.contains("denied: because").then_some(())
        });
        assert!(!home.path().join("b/yes").exists(), "{ask}");
    });
}

#[test]
fn a_key_in_upper_case_is_no_answer_to_a_question() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "a", "x [[ask:Why?]] [[hang]]", &[]);
        ask_of(&home, &id);
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("Q\n");
        assert_eq!(walk.code(), Some(0));
        assert_eq!(open_asks(&home), 1);
    });
}

#[test]
fn enter_alone_answers_nothing_and_the_walk_says_how_many_were_skipped() {
    sandboxed(|| {
        let home = home();
        ask_two_permissions(&home);
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("m\n");
        walk.until_shown("words for the agent: ");
        walk.write("\n");
        walk.until_asked(2);
        walk.write("\n");
        walk.until_asked(3);
        walk.write("q\n");
        assert_eq!(walk.code(), Some(0));
        walk.until_shown("1 skipped, 1 left");
        assert_eq!(open_asks(&home), 2);
        let shown = walk.shown.lock().expect("whole");
        assert!(shown.contains("[x] end the turn"), "{shown}");
        assert!(shown.contains("  1 always: touch yes, for this session"), "{shown}");
        assert!(!shown.contains("agentctl answer"), "the keys do the same: {shown}");
    });
}

#[test]
fn a_walk_skips_what_was_settled_and_goes_on_to_what_opened_meanwhile() {
    sandboxed(|| {
        let home = home();
        let [_, second] = ["a", "b"].map(|w| {
            let id = launch(&home, w, "x [[permit:touch yes]] [[hang]]", &[]);
            ask_of(&home, &id)
        });
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_shown("1 of 2");
        walk.until_asked(1);
        settle_elsewhere(&home, &second);
        let third = launch(&home, "c", "x [[permit:touch late]] [[hang]]", &[]);
        ask_of(&home, &third);
        walk.write("s\n");
        walk.until_shown(&format!("ask {} was settled meanwhile", &id_of(&second)[..8]));
        walk.until_shown("2 of 2");
        walk.until_asked(2);
        walk.write("a\n");
        assert_eq!(walk.code(), Some(0));
        eventually("it was answered", || home.path().join("c/late").exists().then_some(()));
        walk.until_shown("1 skipped, 0 left");
    });
}

#[test]
fn an_answer_that_comes_too_late_does_not_end_the_walk() {
    sandboxed(|| {
        let home = home();
        let [first, _] = ["a", "b"].map(|w| {
            let id = launch(&home, w, "x [[permit:touch yes]] [[hang]]", &[]);
            ask_of(&home, &id)
        });
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        settle_elsewhere(&home, &first);
        walk.write("d\n");
        walk.until_shown("is not open any more");
        walk.until_asked(2);
        walk.write("a\n");
        assert_eq!(walk.code(), Some(4), "the first was not answered");
        eventually("the second was", || home.path().join("b/yes").exists().then_some(()));
    });
}

#[test]
fn a_secret_is_not_shown_and_the_terminal_shows_keys_again() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[secret:Password?]] [[secret:Again?]] [[say:thanks]]", &[]);
        ask_of(&home, &id);
        let shows_keys = |walk: &Typing| {
            let settings = rustix::termios::tcgetattr(&walk.keyboard).expect("a terminal");
            settings.local_modes.contains(rustix::termios::LocalModes::ECHO)
        };
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        assert!(!shows_keys(&walk));
        walk.write("hunter2\n");
        walk.until_asked(2);
        assert!(!shows_keys(&walk));
        let raw = i32::try_from(walk.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = raw.expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
        assert_eq!(walk.code(), None, "the signal ended it");
        assert!(shows_keys(&walk));
        let shown = walk.shown.lock().expect("whole").clone();
        assert!(!shown.contains("hunter2") && shown.contains("answered  Password?"), "{shown}");
        let said = home.run(&["logs", &id, "--json"]).stdout;
        assert!(said.contains("(secret)") && !said.contains("hunter2"), "{said}");
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("hunter2\n");
        assert_eq!(walk.code(), Some(0));
        assert!(shows_keys(&walk));
        until_said(&home, &id, "thanks");
    });
}

#[test]
fn a_free_text_question_says_how_a_word_that_is_a_key_is_answered() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Why?]]", &[]);
        let ask = id_of(&ask_of(&home, &id));
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        walk.write("q\n");
        assert_eq!(walk.code(), Some(0));
        walk.until_shown(&format!("answer {} --text s", &ask[..8]));
    });
}

#[test]
fn a_walk_reports_a_source_that_failed_and_an_answer_that_was_not_taken() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]] [[hang]]", &[]);
        let ask = ask_of(&home, &id);
        let mut walk = Typing::start(&home, &["answer"]);
        walk.until_asked(1);
        settle_elsewhere(&home, &ask);
        walk.write("d\n");
        assert_eq!(walk.code(), Some(4));
        walk.until_shown("is running now");
        home.write(".local/share/agentctl-demo/live/4000000.json", "{");
        let mut walk = Typing::start(&home, &["answer"]);
        assert_eq!(walk.code(), Some(3));
        walk.until_shown("no ask could be seen");
        walk.until_shown("4000000.json");
    });
}
