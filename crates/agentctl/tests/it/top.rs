//! `agentctl top` on a pseudo-terminal, as a person sees it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use rustix::termios::{Termios, tcgetattr};
use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::signal;
use crate::home;
use crate::launched::{launch, until_stopped};
use crate::terminal::Terminal;

/// `top` on a terminal, and the terminal's own idea of what is on its screen.
pub(crate) struct Eye {
    terminal: Terminal,
    pub(crate) child: Child,
    parser: Arc<Mutex<vt100::Parser>>,
    before: Termios,
}

impl Eye {
    pub(crate) fn start(home: &mut TestHome, (columns, rows): (u16, u16), args: &[&str]) -> Self {
        home.set("COLUMNS", "");
        home.set("TERM", "xterm-256color");
        home.set("LANG", "C.UTF-8");
        let command = home.command(args);
        Self::start_command(command, (columns, rows))
    }

    /// Starts a command on a terminal of its own.
    fn start_command(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let terminal = Terminal::open(columns);
        terminal.set_size(columns, rows);
        terminal.side().write_all(b"before\n").expect("written");
        let before = tcgetattr(&terminal.controller).expect("settings");
        terminal.stream(&mut command);
        let child = command.spawn().expect("starts");
        let parser =
            Arc::new(Mutex::new(vt100::Parser::new(at_least_one(rows), at_least_one(columns), 0)));
        let mut reader = File::from(terminal.controller.try_clone().expect("cloned"));
        let copy = Arc::clone(&parser);
        std::thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(read @ 1..) = reader.read(&mut chunk) {
                copy.lock().expect("whole").process(&chunk[..read]);
            }
        });
        Self { terminal, child, parser, before }
    }

    pub(crate) fn text(&self) -> String {
        self.parser.lock().expect("whole").screen().contents()
    }

    /// Waits until the screen of `top` is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        eventually(what, || {
            let parser = self.parser.lock().expect("whole");
            let text = parser.screen().contents();
            (parser.screen().alternate_screen() && is_so(&text)).then_some(text)
        })
    }

    pub(crate) fn press(&self, keys: &str) {
        let mut controller = File::from(self.terminal.controller.try_clone().expect("cloned"));
        controller.write_all(keys.as_bytes()).expect("written");
    }

    fn resize(&self, columns: u16, rows: u16) {
        let (rows_now, columns_now) = (at_least_one(rows), at_least_one(columns));
        self.parser.lock().expect("whole").screen_mut().set_size(rows_now, columns_now);
        self.terminal.set_size(columns, rows);
        signal(self.child.id(), Signal::WINCH);
    }

    /// Presses the key of an answer until the guard lets it through.
    #[track_caller]
    pub(crate) fn answer(&self, key: &str, is_so: impl Fn(&str) -> bool) {
        self.press(key);
        eventually("the answer is taken", || {
            let text = self.text();
            // Once it is taken, the same key could answer the next question.
            if !is_so(&text) && text.contains("has just appeared") {
                self.press(key);
            }
            is_so(&text).then_some(())
        });
    }

    /// Checks that the terminal is as it was before, with the lines that were on it.
    #[track_caller]
    pub(crate) fn is_given_back(&self) {
        self.is_restored();
        eventually("the lines before are there again", || {
            self.text().contains("before").then_some(())
        });
    }

    /// Checks the settings and modes of the terminal.
    #[track_caller]
    pub(crate) fn is_restored(&self) {
        let after = tcgetattr(&self.terminal.controller).expect("settings");
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        assert_eq!(after.control_modes, self.before.control_modes);
        eventually("the screen before is there again", || {
            let parser = self.parser.lock().expect("whole");
            let screen = parser.screen();
            let is_back = !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None;
            is_back.then_some(())
        });
    }
}

impl Drop for Eye {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn at_least_one(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

/// Starts a demo agent that asks for permission to run a command.
fn asking(home: &TestHome, command: &str) -> String {
    let id = launch(home, "w", &format!("do it [[permit:{command}]]"), &[]);
    eventually("its ask is open", || {
        let document = home.run(&["asks", "--json"]).json();
        let asks = document["asks"].as_array()?;
        asks.iter().any(|ask| ask["session_id"] == id.as_str()).then_some(())
    });
    id
}

#[test]
fn an_ask_is_answered_with_one_key_and_the_tool_runs() {
    sandboxed(|| {
        let mut home = home();
        let id = asking(&home, "touch ../allowed");
        let eye = Eye::start(&mut home, (80, 24), &["top"]);
        let shown = eye.until("the ask is shown", |text| text.contains("touch ../allowed"));
        assert!(shown.contains("1 waiting") && shown.contains(&id[..8]), "{shown}");
        // In the list the key has no meaning.
        eye.press("aaaa");
        eye.press("\r");
        eye.until("the ask has the focus", |text| text.contains("a allow once"));
        eye.answer("a", |_| home.path().join("allowed").exists());
        eye.until("it says so", |text| text.contains("allowed"));
        eye.press("q");
    });
}

#[test]
fn a_conversation_that_was_written_anew_replaces_the_one_before() {
    sandboxed(|| {
        let mut home = home();
        let id = asking(&home, "true");
        let path = home.path().join(format!(".local/share/agentctl-demo/sessions/{id}.jsonl"));
        let before = std::fs::read_to_string(&path).expect("a conversation");
        let said = |text: &str| {
            let at = "2026-11-15T08:00:00.000Z";
            serde_json::json!({"type": "prompt", "id": "m", "text": text, "at": at}).to_string()
                + "\n"
        };
        let eye = Eye::start(&mut home, (80, 50), &["top"]);
        eye.until("the conversation is shown", |text| text.contains("following"));
        let longer = format!("{before}{}{}", said("one quokka"), said("two quokkas"));
        std::fs::write(&path, longer).expect("written");
        eye.until("it grows", |text| text.contains("two quokkas"));
        std::fs::write(&path, format!("{before}{}", said("a wombat"))).expect("written");
        let text = eye.until("it is shown anew", |text| text.contains("a wombat"));
        assert!(!text.contains("quokka"), "{text}");
        eye.press("q");
    });
}

#[test]
fn bare_agentctl_on_a_terminal_is_top_and_off_a_terminal_it_is_not() {
    sandboxed(|| {
        let mut home = home();
        let mut eye = Eye::start(&mut home, (80, 24), &[]);
        eye.until("it is shown", |text| text.contains("? help"));
        eye.press("q");
        assert!(eye.child.wait().expect("ends").success());
        eye.is_given_back();
        let piped = home.run(&["top"]);
        assert_eq!(piped.code, Some(2));
        assert!(piped.stderr.contains("needs a terminal"), "{}", piped.stderr);
        assert_eq!(home.run(&[]).code, Some(2));
    });
}

#[test]
fn a_refused_resume_is_reported_with_its_hint() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "do it", &[]);
        until_stopped(&home, &id);
        crate::configure(&home, &[], "[hooks]\non_create = 5\non_complete = 6\n");
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the list is shown", |text| text.contains("nothing is running"));
        eye.press("H");
        eye.until("the session is listed", |text| text.contains(&id[..8]));
        eye.press("sagain\r");
        let refused = eye.until("it is refused", |text| text.contains("error:"));
        assert!(refused.contains("hint:"), "{refused}");
        eye.press("q");
    });
}

#[test]
fn a_filter_that_is_typed_right_behind_escape_is_no_message() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "shop", "x [[say:done]]", &["--keep"]);
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the session is idle", |text| text.contains("1 idle"));
        eye.press("/shop\r");
        eye.until("the filter is set", |text| text.contains("/shop (1)"));
        // The bytes come in one read, as on a slow line.
        eye.press("\x1b/sale");
        let text = eye.until("another filter", |text| text.contains("/sale"));
        assert!(!text.contains("message to") && !text.contains("/shop (1)"), "{text}");
        eye.press("\r");
        eye.until("no session fits it", |text| text.contains("/sale (0)"));
        let log = home.run(&["logs", &id, "--json"]).stdout;
        assert!(!log.contains("ale\""), "nothing was sent: {log}");
    });
}

#[test]
fn of_two_tops_one_answers_and_the_other_greys() {
    sandboxed(|| {
        let mut home = home();
        asking(&home, "true");
        let one = Eye::start(&mut home, (80, 24), &["top"]);
        let other = Eye::start(&mut home, (100, 30), &["top"]);
        for eye in [&one, &other] {
            eye.until("the ask is shown", |text| text.contains("permission: shell: true"));
        }
        one.press("\r");
        one.until("the ask has the focus", |text| text.contains("a allow once"));
        one.answer("d", |text| text.contains("denied"));
        let grey = other.until("it is settled", |text| text.contains("the next key removes it"));
        assert!(grey.contains("settled: the session is"), "{grey}");
        other.press("j");
        other.until("it is gone", |text| !text.contains("permission: shell: true"));
    });
}

#[test]
fn below_an_agent_top_answers_nothing() {
    sandboxed(|| {
        let mut home = home();
        let id = asking(&home, "touch ../allowed");
        let pid = home.run(&["list", "--json"]).session(&id)["pid"].to_string();
        let environ = std::fs::read(format!("/proc/{pid}/environ")).expect("it lives");
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let marker = environ.split('\0').find_map(|v| v.strip_prefix("AGENTCTL_RUN="));
        home.set("AGENTCTL_RUN", marker.expect("a marker"));
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the ask is shown", |text| text.contains("touch ../allowed"));
        eye.press("\r");
        eye.until("the ask has the focus", |text| text.contains("a allow once"));
        eye.answer("a", |text| text.contains("agents may not answer"));
        assert!(!home.path().join("allowed").exists());
        assert_eq!(home.run(&["asks", "--json"]).json()["asks"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn a_thousand_sizes_leave_it_alive_and_the_last_one_is_drawn() {
    sandboxed(|| {
        let mut home = home();
        asking(&home, "true");
        let mut eye = Eye::start(&mut home, (80, 24), &["top"]);
        eye.until("the ask is shown", |text| text.contains("permission: shell: true"));
        for n in 0..1_000_u16 {
            eye.resize(1 + n * 7 % 200, 1 + n * 13 % 60);
        }
        eye.resize(70, 22);
        eye.until("the last size is drawn", |text| text.contains("ask") && text.contains("? help"));
        assert!(eye.child.try_wait().expect("asked").is_none());
        eye.press("q");
        assert!(eye.child.wait().expect("ends").success());
        // The emulator lost the lines before when it was made small.
        eye.is_restored();
    });
}

#[test]
fn a_key_after_another_size_is_read_at_once_and_not_kept_for_later() {
    sandboxed(|| {
        let mut home = home();
        asking(&home, "touch ../allowed");
        let eye = Eye::start(&mut home, (80, 24), &["top"]);
        eye.until("the ask is shown", |text| text.contains("touch ../allowed"));
        eye.resize(90, 24);
        eye.until("the new size is drawn", |text| text.lines().any(|line| line.len() > 85));
        eye.press("?");
        eye.until("the key has its effect", |text| text.contains("Keys of agentctl top"));
        eye.press("?\r");
        eye.until("the ask has the focus", |text| text.contains("a allow once"));
        eye.resize(100, 30);
        eye.until("the new size is drawn", |text| text.lines().count() > 28);
        eye.press("a");
        let is_allowed = || home.path().join("allowed").exists();
        let guarded = eventually("the key is taken", || {
            let is_guarded = eye.text().contains("has just appeared");
            (is_guarded || is_allowed()).then_some(is_guarded)
        });
        eye.press("k");
        if guarded {
            eye.until("the next key is read", |text| !text.contains("has just appeared"));
            assert!(!is_allowed(), "the key was not kept for later");
        }
        let side = eye.terminal.side();
        eventually("nothing is left to be read", || {
            (rustix::io::ioctl_fionread(&side).expect("a terminal") == 0).then_some(())
        });
    });
}

#[test]
fn a_selected_session_that_ends_shows_how() {
    sandboxed(|| {
        let mut home = home();
        let id = asking(&home, "true");
        let eye = Eye::start(&mut home, (100, 24), &["top"]);
        eye.until("the ask is shown", |text| text.contains("permission: shell: true"));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let listed = |text: &str| {
            let row = text.lines().find(|line| line.starts_with('▸')).unwrap_or_default();
            row.contains("stopped") && row.contains(&id[..8])
        };
        eye.until("its end is shown", listed);
        eye.press("q");
    });
}

#[test]
fn every_way_to_end_gives_the_terminal_back() {
    sandboxed(|| {
        let mut home = home();
        for (end, by_signal) in [
            (Signal::TERM, false),
            (Signal::HUP, false),
            (Signal::INT, false),
            (Signal::QUIT, true),
        ] {
            let mut eye = Eye::start(&mut home, (80, 24), &["top"]);
            eye.until("it is shown", |text| text.contains("? help"));
            eye.press("M");
            eye.until("the mouse is on", |text| text.contains("mouse on"));
            signal(eye.child.id(), end);
            let status = eye.child.wait().expect("ends");
            let ended = if by_signal { status.signal() } else { status.code() };
            let expected = if by_signal { end.as_raw() } else { 0 };
            assert_eq!(ended, Some(expected), "{end:?}: {status}");
            eye.is_given_back();
        }
    });
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_reported() {
    sandboxed(|| {
        let mut home = home();
        home.set("TOP_PANIC_FOR_A_TEST", "1");
        let mut eye = Eye::start(&mut home, (80, 24), &["top"]);
        eye.until("it is shown", |text| text.contains("? help"));
        eye.press("\x1b[200~pasted\x1b[201~");
        assert!(!eye.child.wait().expect("ends").success());
        eye.is_given_back();
        eventually("it is reported", || eye.text().contains("agentctl panicked").then_some(()));
    });
}

#[test]
fn it_is_suspended_and_goes_on() {
    sandboxed(|| {
        let mut home = home();
        let mut eye = Eye::start(&mut home, (80, 24), &["top"]);
        eye.until("it is shown", |text| text.contains("? help"));
        signal(eye.child.id(), Signal::TSTP);
        let stat = format!("/proc/{}/stat", eye.child.id());
        eventually("it is stopped", || {
            std::fs::read_to_string(&stat).expect("read").contains(") T ").then_some(())
        });
        eye.is_given_back();
        signal(eye.child.id(), Signal::CONT);
        eye.until("it is drawn again", |text| text.contains("? help"));
        eye.press("q");
        assert!(eye.child.wait().expect("ends").success());
        eye.is_given_back();
    });
}

#[test]
fn a_shell_suspends_it_with_its_key_and_brings_it_back() {
    sandboxed(|| {
        let home = home();
        let top = home.command(&["top"]);
        let mut shell = Command::new("setsid");
        shell.args(["-c", "bash", "--norc", "-i"]).env_clear().current_dir(home.path());
        shell.envs(top.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("TERM", "xterm").env("LANG", "C.UTF-8").env("COLUMNS", "").env("PS1", "ready> ");
        let program = top.get_program().to_str().expect("UTF-8").to_owned();
        let eye = Eye::start_command(shell, (80, 24));
        eventually("the shell is there", || eye.text().contains("ready> ").then_some(()));
        eye.press(&format!("{program} top\r"));
        eye.until("it is shown", |text| text.contains("? help"));
        eye.press("\x1a");
        eventually("the shell has the terminal", || {
            let parser = eye.parser.lock().expect("whole");
            let screen = parser.screen();
            (!screen.alternate_screen() && screen.contents().contains("Stopped")).then_some(())
        });
        eye.press("fg\r");
        eye.until("it is drawn again", |text| text.contains("? help"));
        eye.press("q");
        eventually("the shell prompts again", || {
            let parser = eye.parser.lock().expect("whole");
            let screen = parser.screen();
            let is_back = screen.contents().trim_end().ends_with("ready>");
            (!screen.alternate_screen() && is_back).then_some(())
        });
        eye.press("echo back$((20+3))\r");
        eventually("the shell reads lines again", || eye.text().contains("back23").then_some(()));
    });
}
