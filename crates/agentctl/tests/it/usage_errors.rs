//! Command lines that are refused: each is answered with one sentence and a hint that fits.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use testkit::sandboxed;

use crate::launched::{launch, until_asked};
use crate::{configure, home};

/// Runs command lines that are usage errors, and compares their stderr.
fn assert_refused(cases: &[(&[&str], &str, &str)]) {
    let home = home();
    for (args, sentence, hint) in cases {
        let output = home.run(args);
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        let expected = format!("error: {sentence}\nhint: {hint}\n");
        assert_eq!(output.stderr, expected, "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn an_error_of_the_parser_is_one_sentence_with_a_hint() {
    sandboxed(|| {
        assert_refused(&[
            (
                &["list", "-n", "x"],
                "--limit: `x` is not a whole number",
                "see `agentctl list --help`",
            ),
            (
                &["logs", "-n", "x"],
                "--lines: `x` is neither a number nor `all`",
                "see `agentctl logs --help`",
            ),
            (&["completions", "tcsh"], "`tcsh` is not a value of SHELL", "values: bash, zsh, fish"),
            (
                &["list", "--status", "idel"],
                "`idel` is not a value of --status",
                "did you mean `idle`? values: waiting, running, idle, unknown, error, stopped",
            ),
            (&["list", "--sort"], "--sort needs a value", "see `agentctl list --help`"),
            (
                &["wait", "--for"],
                "--for needs a value",
                "values: running, waiting, idle, stopped, error",
            ),
            (
                &["stop", "x", "--timeout", "5"],
                "--timeout: `5` is not a span",
                "write it like 30s, 10m, 2h or 7d",
            ),
            (
                &["list", "-q", "-o", "wide"],
                "--quiet and --output cannot be used together",
                "leave one of them out",
            ),
            (&["list", "-n", "1", "-n", "2"], "--limit is given more than once", "give it once"),
            (
                &["name"],
                "`agentctl name` needs ID and NAME",
                "`agentctl name --help` shows its arguments",
            ),
            (
                &["list", "--bell"],
                "`agentctl list` needs --watch",
                "`agentctl list --help` shows its arguments",
            ),
            (&["list", "--watch=3"], "--watch takes no value", "see `agentctl list --help`"),
            (
                &["lanch", "demo", "x"],
                "there is no command `lanch`",
                "did you mean `agentctl launch`?",
            ),
            (
                &["nosuch", "demo", "x"],
                "there is no command `nosuch`",
                "`agentctl --help` lists the commands",
            ),
        ]);
    });
}

#[test]
fn a_habit_from_another_program_gets_the_command_that_does_the_same() {
    const KILL: &str = "--force kills at once; without it the agent is asked to exit first";
    const EDIT: &str = "edit the file: $EDITOR \"$(agentctl config path)\"; `agentctl config show` shows the settings in force";
    const BACKGROUND: &str = "leave it out: a launched agent always runs in the background; --follow shows its conversation";
    sandboxed(|| {
        assert_refused(&[
            (&["kill", "-9", "x"], "unknown option `-9`", KILL),
            (&["kill", "-s", "KILL", "x"], "unknown option `-s`", KILL),
            (&["stop", "-f", "x"], "unknown option `-f`", KILL),
            (
                &["stop", "-t", "5", "x"],
                "unknown option `-t`",
                "write the time with its unit: --timeout 5s",
            ),
            (&["run", "-d", "demo", "x"], "unknown option `-d`", BACKGROUND),
            (
                &["run", "-it", "demo", "x"],
                "unknown option `-i`",
                "a launched agent has no terminal: `agentctl attach ID` opens an ended session with its agent's own command",
            ),
            (&["fuse", "ls"], "there is no command `ls`", "`agentctl fuses` lists the fuses"),
            (&["fuse", "list"], "there is no command `list`", "`agentctl fuses` lists the fuses"),
            (
                &["get", "sessions"],
                "there is no command `get`",
                "`agentctl list` lists sessions, `agentctl status ID` shows one",
            ),
            (
                &["describe", "x"],
                "there is no command `describe`",
                "`agentctl status ID` shows a session in full",
            ),
            (&["config", "edit"], "there is no command `edit`", EDIT),
            (&["config", "set", "model", "x"], "there is no command `set`", EDIT),
            (&["config", "get", "model"], "there is no command `get`", EDIT),
        ]);
        let output = home().run(&["lock", "ls"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("hint: `agentctl locks` lists"), "{output:?}");
    });
}

#[test]
fn a_template_of_another_program_is_refused_and_its_names_of_forms_are_known() {
    const HINT: &str = "write fields like {id}, and {{ for a brace";
    sandboxed(|| {
        assert_refused(&[
            (&["list", "--format", "jsn"], "--format: `jsn` names no field; write {id}", HINT),
            (
                &["list", "--format", "{{.ID}} {status}"],
                "--format: `{{.ID}} {status}` is a template of Go; write {id}",
                HINT,
            ),
        ]);
        let home = home();
        for list in ["list", "runs", "locks", "fuses", "adapters"] {
            let json = home.run(&[list, "--format", "json"]);
            assert_eq!(json.code, Some(0), "{list}: {json:?}");
            assert_eq!(json.json(), home.run(&[list, "--json"]).json(), "{list}");
            let table = home.run(&[list, "--format", "table"]);
            assert_eq!(table.stdout, home.run(&[list]).stdout, "{list}");
        }
        let error = home.run(&["list", "--format", "json", "--sort", "size"]);
        assert_eq!(error.json()["error"]["code"], "usage", "{error:?}");
    });
}

#[test]
fn each_line_on_stderr_is_one_write() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "no_such_key = 1\n");
        let (reader, writer) = UnixDatagram::pair().expect("sockets");
        let mut command = home.command(&["status", "nosuchsession"]);
        let mut child = command.stderr(OwnedFd::from(writer)).spawn().expect("starts");
        drop(command);
        assert_eq!(child.wait().expect("ends").code(), Some(4));
        reader.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
        let mut written = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = reader.recv(&mut buffer) {
            written.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        assert!(written.len() >= 2, "a warning and an error: {written:?}");
        for line in &written {
            let is_whole = line.ends_with('\n') && line.lines().count() == 1;
            assert!(is_whole && line.contains(": "), "{written:?}");
        }
    });
}

#[test]
fn status_has_the_forms_of_a_list_and_wait_takes_a_group() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &["--group", "team"]);
        until_asked(&home, &id);
        let json = home.run(&["status", &id, "--json"]).json();
        for form in [["-o", "json"], ["--format", "json"]] {
            let output = home.run(&["status", &id, form[0], form[1]]);
            assert_eq!(output.json()["id"], json["id"], "{form:?}: {output:?}");
        }
        let line = home.run(&["status", &id, "--format", "{id} {status}"]);
        assert_eq!(line.stdout, format!("{id} waiting\n"), "{line:?}");
        assert_eq!(home.run(&["status", &id, "--format", "{nothing}"]).code, Some(2));
        let waited = home.run(&["wait", "--group", "team"]);
        assert_eq!(waited.code, Some(10), "a human is needed: {waited:?}");
        assert!(waited.stdout.starts_with(&id), "{waited:?}");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let stopped = home.run(&["wait", "--group", "team", "--for", "stopped"]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
    });
}

#[test]
fn an_empty_id_is_named_and_findings_are_in_the_order_of_the_file() {
    sandboxed(|| {
        let home = home();
        let empty = home.run(&["status", ""]);
        assert_eq!(empty.code, Some(4), "{empty:?}");
        assert!(empty.stderr.starts_with("error: the id is empty"), "{empty:?}");
        configure(&home, &[], "zzz = 1\n[hooks]\nbad = 1\n[runs]\nkeep = 5\n[metrics]\naaa = 1\n");
        let checked = home.run(&["config", "check"]);
        let lines = checked.stderr.lines().filter_map(|line| line.split_once(" line "));
        let numbers: Vec<u32> =
            lines.filter_map(|(_, rest)| rest.split(':').next()?.parse().ok()).collect();
        assert!(numbers.len() >= 4 && numbers.is_sorted(), "{checked:?}");
    });
}

#[test]
fn the_times_of_a_status_are_in_the_local_time_zone() {
    sandboxed(|| {
        let mut home = home();
        home.set("TZ", "Asia/Tokyo");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        let text = home.run(&["status", &id]).stdout;
        let started = text.lines().find(|line| line.starts_with("started")).expect("a line");
        assert!(started.ends_with(" JST)"), "{text}");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}
