//! Answers in words: from stdin, secrets, and keys in upper case.

use std::io::Write;
use std::process::Stdio;

use testkit::{Output, TestHome, sandboxed};

use crate::home;
use crate::inbox::{ask_of, id_of};
use crate::launched::{launch, until_stopped};

/// Runs a command with this text on its stdin.
fn run_with_stdin(home: &TestHome, args: &[&str], text: &str) -> Output {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
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
