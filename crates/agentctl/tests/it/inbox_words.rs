//! Answers in words: from stdin, secrets, and keys in upper case.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::daemon::signal;
use crate::home;
use crate::inbox::{ask_of, id_of};
use crate::launched::{launch, status, until_stopped};
use crate::send::kept;

/// Runs a command with this text on its stdin.
fn run_with_stdin(home: &TestHome, args: &[&str], text: impl AsRef<[u8]>) -> Output {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run");
    child.stdin.take().expect("a pipe").write_all(text.as_ref()).expect("written");
    let output = child.wait_with_output().expect("run");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_text_can_be_read_from_stdin_without_its_last_line_break() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Which?]] [[say:thanks]]", &[]);
        let ask = id_of(&ask_of(&home, &id));
        let answer = ["answer", &ask, "--text", "-"];
        assert_eq!(run_with_stdin(&home, &answer, "\n").code, Some(2));
        let told = run_with_stdin(&home, &answer, "- two\nlines\n");
        assert_eq!(told.code, Some(0), "{told:?}");
        until_stopped(&home, &id);
        let said = home.run(&["logs", &id, "--json", "-n", "all"]).stdout;
        assert!(said.contains(r#""- two\nlines""#), "{said}");
    });
}

#[test]
fn a_secret_is_offered_from_stdin_and_never_as_an_argument() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[secret:Token?]] [[say:thanks]]", &[]);
        let ask = id_of(&ask_of(&home, &id));
        let command = format!("agentctl answer {} --text -", &ask[..8]);
        let page = home.run(&["asks", &ask]).stdout;
        assert!(page.contains(&format!("{command} ")) && !page.contains("--text TEXT"), "{page}");
        for args in [&["wait", &id][..], &["send", &id, "x"]] {
            let told = home.run(args);
            assert!(told.stderr.contains(&format!("`{command}` answers it")), "{told:?}");
        }
        let told = home.run(&["answer", &ask, "--json"]);
        let error = &told.json()["error"];
        assert_eq!(error["hint"], "it takes --text -, --stop", "{told:?}");
        assert_eq!(error["message"], "no decision was given, and --json asks for none");
        let told = run_with_stdin(&home, &["answer", &ask, "--text", "-"], "hunter2\n");
        assert!(told.code == Some(0) && !told.stdout.contains("hunter2"), "{told:?}");
    });
}

#[test]
fn a_message_that_is_not_utf8_is_refused_for_a_live_session() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let refused = run_with_stdin(&home, &["send", &id, "-"], b"caf\xe9");
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("not UTF-8; nothing was sent"), "{refused:?}");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn the_asks_of_a_paused_session_are_said_to_be_unknown() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Which?]]", &[]);
        ask_of(&home, &id);
        let pid = u32::try_from(status(&home, &id)["pid"].as_u64().expect("a pid")).expect("small");
        signal(pid, Signal::STOP);
        eventually("it is paused", || {
            (status(&home, &id)["reason"]["kind"] == "paused").then_some(())
        });
        let told = home.run(&["asks", &id]);
        // Before anything is asserted: the sandbox of a failed test waits for a stopped process.
        signal(pid, Signal::CONT);
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains("is paused by a signal: whether it waits"), "{text}");
        assert!(text.contains(&format!("`kill -CONT {pid}`")), "{text}");
        ask_of(&home, &id);
    });
}
