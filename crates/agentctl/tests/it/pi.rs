//! Pi alive: processes that reveal little, and the sessions they are joined to.
//!
//! A shell under Node's name runs a script called `pi`: to the kernel that looks like Pi.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Agent, Output, TestHome, eventually, sandboxed};

use crate::{assert_list_equals_status, home};

pub(crate) const A: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";
pub(crate) const B: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298c0";
/// Long before any process of a test.
const OLD: &str = "2026-01-15T07:53:25.730Z";

/// Creates the program `pi`, which runs the file that `PI_BODY` names.
pub(crate) fn install(home: &TestHome, version: &str) -> PathBuf {
    let node = home.at("bin/node");
    if !node.exists() {
        let shell = std::fs::canonicalize("/bin/sh").expect("a shell");
        std::fs::copy(shell, &node).expect("copied");
    }
    let package = json!({"name": "@earendil-works/pi-coding-agent", "version": version});
    home.write("bin/package.json", package.to_string());
    let text = format!("#!{}\n. \"{}\"\n", node.display(), home.path().join("body").display());
    let program = home.write("bin/pi", text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("made");
    program
}

/// Functions for every body: the time now, and the lines of a session file.
pub(crate) const WORDS: &str = r#"now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
begin() { mkdir -p "$(dirname "$2")"; echo "{\"type\":\"session\",\"version\":3,\"id\":\"$1\",\"timestamp\":\"$(now)\",\"cwd\":\"$(pwd -P)\"}" >> "$2"; }
user() { echo "{\"type\":\"message\",\"id\":\"u$2\",\"parentId\":null,\"timestamp\":\"$(now)\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"$3\"}]}}" >> "$1"; }
answer() { echo "{\"type\":\"message\",\"id\":\"a$2\",\"parentId\":\"u$2\",\"timestamp\":\"$(now)\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"$3\"}],\"model\":\"m\",\"stopReason\":\"stop\"}}" >> "$1"; }
"#;

/// Writes the body of `pi`; it then stays until its stdin is closed.
fn body(home: &TestHome, text: &str) {
    home.write("body", format!("{WORDS}{text}\necho ready >&2\nread -r line\n"));
}

/// Starts `pi` in a directory and returns once it has run its body.
pub(crate) fn start(home: &TestHome, cwd: &str, env: &[(&str, &str)], text: &str) -> Agent {
    start_into(home, cwd, env, text, Stdio::null())
}

fn start_into(
    home: &TestHome,
    cwd: &str,
    env: &[(&str, &str)],
    text: &str,
    stdout: Stdio,
) -> Agent {
    use std::io::BufRead;
    let program = install(home, "1.5.0");
    body(home, text);
    let cwd = home.path().join(cwd);
    std::fs::create_dir_all(&cwd).expect("made");
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin").current_dir(cwd);
    command.envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    std::io::BufReader::new(stderr).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    Agent { child }
}

fn folder(home: &TestHome, cwd: &str) -> String {
    let path = home.path().join(cwd);
    let path = path.to_string_lossy();
    format!(".pi/agent/sessions/--{}--", path.trim_start_matches('/').replace(['/', ':'], "-"))
}

/// Where Pi keeps a session of this directory.
pub(crate) fn place(home: &TestHome, cwd: &str, id: &str) -> PathBuf {
    home.path().join(folder(home, cwd)).join(format!("2026-11-15T07-53-25-730Z_{id}.jsonl"))
}

fn header(home: &TestHome, cwd: &str, id: &str, at: &str) -> Value {
    json!({"type": "session", "version": 3, "id": id, "timestamp": at, "cwd": home.path().join(cwd)})
}

fn message(id: &str, parent: Option<&str>, message: &Value) -> Value {
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": OLD, "message": message})
}

pub(crate) fn said(id: &str, parent: Option<&str>, text: &str) -> Value {
    message(id, parent, &json!({"role": "user", "content": [{"type": "text", "text": text}]}))
}

pub(crate) fn ended(id: &str, parent: &str, how: &str) -> Value {
    message(
        id,
        Some(parent),
        &json!({"role": "assistant", "content": [], "model": "m", "stopReason": how,
        "errorMessage": "no luck"}),
    )
}

/// Writes a session of long ago.
pub(crate) fn session(home: &TestHome, cwd: &str, id: &str, lines: &[Value]) -> PathBuf {
    let mut text = format!("{}\n", header(home, cwd, id, OLD));
    for line in lines {
        text.push_str(&format!("{line}\n"));
    }
    home.write(place(home, cwd, id).to_str().expect("a name"), text)
}

pub(crate) fn list(home: &TestHome) -> Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

/// Starts a tool. Until it is its own program it looks like the shell that is `pi` here.
pub(crate) fn tool(id: &str) -> String {
    let begun = "until read -r name < /proc/$!/comm && [ \"$name\" = sleep ]; do :; done";
    format!("PI_SESSION_ID={id} sleep 1000 & {begun}")
}

#[test]
fn the_environment_of_its_tools_joins_it_and_the_tail_gives_its_state() {
    sandboxed(|| {
        let system = message("s", None, &json!({"role": "system", "content": ""}));
        let call = json!({"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}});
        let calls = message(
            "t",
            Some("u"),
            &json!({"role": "assistant", "content": [call], "stopReason": "toolUse"}),
        );
        let result = message(
            "r",
            Some("t"),
            &json!({"role": "toolResult", "toolCallId": "c1", "content": []}),
        );
        let withdrawn = json!({"type": "context_edit", "id": "e", "parentId": "a", "timestamp": OLD, "targetId": "a", "replacement": null});
        let user = || said("u", Some("s"), "go");
        let cases: Vec<(Vec<Value>, &str, &str)> = vec![
            // Without a turn on record it is in the tool that names it.
            (vec![system.clone()], "running", "tool"),
            (vec![system.clone(), user()], "running", "-"),
            (vec![system.clone(), user(), calls.clone()], "running", "tool"),
            (vec![system.clone(), user(), calls, result], "running", "-"),
            (vec![system.clone(), user(), ended("a", "u", "stop")], "idle", "-"),
            (vec![system.clone(), user(), ended("a", "u", "aborted")], "idle", "-"),
            (vec![system.clone(), user(), ended("a", "u", "error")], "idle", "-"),
            (vec![system, user(), ended("a", "u", "error"), withdrawn], "running", "retrying"),
            // Versions that do not write down their own prompt do not write down their retries either.
            (vec![said("u", None, "go"), ended("a", "u", "error")], "unknown", "ambiguous"),
        ];
        for (lines, status, kind) in cases {
            let home = home();
            let mut agent = start(&home, "ws", &[], &tool(A));
            // Pi writes the call of a tool before it starts the tool.
            session(&home, "ws", A, &lines);
            let row = eventually("the tool has become its program", || {
                list(&home).sessions().into_iter().find(|r| r["id"] == A && !r["pid"].is_null())
            });
            assert_eq!(row["status"], status, "{lines:?}");
            assert_eq!(row["reason"]["kind"].as_str().unwrap_or("-"), kind, "{lines:?}");
            assert_eq!((&row["adapter"], &row["pid"]), (&"pi".into(), &agent.pid().into()));
            assert_eq!(list(&home).sessions().len(), 1, "one session, one row");
            assert_list_equals_status(&home);
            agent.kill();
            let row = list(&home).session(A);
            assert!(matches!(row["status"].as_str(), Some("stopped" | "error")), "{row}");
        }
    });
}

#[test]
fn directory_and_time_join_a_process_without_other_evidence() {
    sandboxed(|| {
        let home = home();
        // One of the same directory that ended before.
        session(&home, "ws", B, &[said("u", None, "before")]);
        let text =
            format!("f='{}'; begin {A} \"$f\"; user \"$f\" 1 go", place(&home, "ws", A).display());
        let mut agent = start(&home, "ws", &[], &text);
        let listed = list(&home);
        let row = listed.session(A);
        assert_eq!(
            (&row["status"], &row["pid"]),
            (&"running".into(), &agent.pid().into()),
            "{row}"
        );
        let before = listed.session(B);
        assert_eq!((&before["status"], &before["outcome"]), (&"stopped".into(), &"killed".into()));
        assert_eq!(home.run(&["list", "--json"]).sessions().len(), 1);
        assert_list_equals_status(&home);
        agent.kill();
        assert_eq!(list(&home).session(A)["outcome"], "killed");
    });
}

#[test]
fn an_older_session_belongs_to_the_only_possible_process() {
    sandboxed(|| {
        let home = home();
        session(&home, "ws", A, &[said("u", None, "before")]);
        let text = format!("user '{}' 2 again", place(&home, "ws", A).display());
        let agent = start(&home, "ws", &[], &text);
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["pid"]),
            (&"running".into(), &agent.pid().into()),
            "{row}"
        );
        // With a second process in the same directory the session is ambiguous.
        let second = start(&home, "ws", &[], "true");
        let listed = list(&home);
        let row = listed.session(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"unknown".into(), &"ambiguous".into())
        );
        let pids: Vec<Value> = listed
            .sessions()
            .iter()
            .filter(|r| r["id"].is_null())
            .map(|r| r["pid"].clone())
            .collect();
        assert_eq!(pids.len(), 2, "{pids:?}");
        assert!(pids.contains(&agent.pid().into()) && pids.contains(&second.pid().into()));
        assert_list_equals_status(&home);
    });
}

#[test]
fn two_possible_processes_are_never_joined_by_guessing() {
    sandboxed(|| {
        let home = home();
        // Idle without a session, and a session that was begun here later: by it (`/new`), or by
        // another process that has ended since.
        let mut rests = start(&home, "ws", &[], "true");
        let row = list(&home).sessions();
        assert_eq!(
            (row.len(), &row[0]["id"], &row[0]["status"]),
            (1, &Value::Null, &"unknown".into())
        );
        let later = "2999-01-01T00:00:00.000Z";
        let mut line = said("u", None, "go");
        line["timestamp"] = later.into();
        let text = format!("{}\n{line}\n", header(&home, "ws", A, later));
        home.write(place(&home, "ws", A).to_str().expect("a name"), text);
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["outcome"]), (&"unknown".into(), &Value::Null), "{row}");
        assert_list_equals_status(&home);
        rests.kill();
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["outcome"]),
            (&"stopped".into(), &"killed".into()),
            "{row}"
        );
    });
}

#[test]
fn the_first_line_it_wrote_names_its_session() {
    sandboxed(|| {
        let home = home();
        let out = home.path().join("out");
        // The file is made after the process began, as a shell makes it.
        let text = format!("exec > '{}'; begin {A} /dev/stdout", out.display());
        let mut agent = start(&home, "ws", &[], &text);
        let row = home.run(&["list", "--json"]).session(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"starting".into())
        );
        assert_eq!(row["pid"], agent.pid());
        assert_list_equals_status(&home);
        agent.kill();
        assert!(list(&home).sessions().is_empty(), "it has written nothing");
        // Words that another one left in the same file are not its own.
        let file = std::fs::OpenOptions::new().append(true).open(&out).expect("open");
        let _next = start_into(&home, "ws", &[], &format!("begin {B} /dev/stdout"), file.into());
        let rows = list(&home).sessions();
        assert_eq!((rows.len(), &rows[0]["id"]), (1, &Value::Null), "{rows:?}");
    });
}

#[test]
fn a_session_inherited_from_another_pi_is_ignored() {
    sandboxed(|| {
        let home = home();
        session(&home, "elsewhere", A, &[said("u", None, "x"), ended("a", "u", "stop")]);
        let _agent = start(&home, "ws", &[("PI_SESSION_ID", A)], &tool(A));
        let listed = list(&home);
        assert_eq!(listed.session(A)["status"], "stopped");
        assert_eq!(listed.sessions().iter().filter(|r| r["id"].is_null()).count(), 1);
    });
}

#[test]
fn the_path_from_the_last_line_is_the_conversation() {
    sandboxed(|| {
        let home = home();
        let lines = [
            said("u1", None, "first"),
            ended("a1", "u1", "stop"),
            said("u2", Some("a1"), "left branch"),
            ended("a2", "u2", "error"),
            json!({"type": "session_info", "id": "n", "parentId": "a2", "timestamp": OLD, "name": "named"}),
            said("u3", Some("a1"), "right branch"),
        ];
        session(&home, "ws", A, &lines);
        let row = list(&home).session(A);
        assert_eq!((&row["outcome"], &row["prompt"]), (&"killed".into(), &"first".into()));
        assert_eq!((&row["title"], &row["name"]), (&"named".into(), &"named".into()));
        // The other branch continues.
        let mut more = lines.to_vec();
        more.push(json!({"type": "label", "id": "l", "parentId": "a2", "timestamp": OLD, "targetId": "u1"}));
        session(&home, "ws", A, &more);
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["reason"]["detail"]),
            (&"error".into(), &"no luck".into())
        );
    });
}

#[test]
fn the_last_answer_decides_the_outcome_of_a_turn() {
    sandboxed(|| {
        let home = home();
        let cases = [
            ("stop", "-", "finished"),
            ("length", "-", "finished"),
            ("error", "529 Overloaded", "failed"),
            ("error", "Request was aborted.", "interrupted"),
            ("error", "This operation was aborted", "interrupted"),
            ("aborted", "-", "interrupted"),
            ("toolUse", "-", "killed"),
            ("a new word", "-", "unknown"),
        ];
        for (how, why, outcome) in cases {
            let mut last = ended("a", "u", how);
            last["message"]["errorMessage"] = why.into();
            session(&home, "p", A, &[said("u", None, "go on"), last]);
            assert_eq!(list(&home).session(A)["outcome"], outcome, "{how}: {why}");
        }
        // A tool that ended after the last answer belongs to a turn that continues.
        let result = message(
            "r",
            Some("a"),
            &json!({"role": "toolResult", "toolCallId": "c", "content": []}),
        );
        session(&home, "p", A, &[said("u", None, "go on"), ended("a", "u", "stop"), result]);
        assert_eq!(list(&home).session(A)["outcome"], "killed");
        // A file under the name of another session is not believed.
        session(&home, "p", A, &[said("u", None, "go on"), ended("a", "u", "stop")]);
        let path = home.path().join(place(&home, "p", A));
        std::fs::rename(&path, home.path().join(place(&home, "p", B))).expect("moved");
        let listed = list(&home);
        assert_eq!((listed.code, &listed.session(B)["status"]), (Some(3), &"unknown".into()));
    });
}

#[test]
fn tokens_copied_by_a_fork_count_for_its_parent() {
    sandboxed(|| {
        let home = home();
        let paid = |id: &str, at: &str| {
            let usage = json!({"input": 5, "output": 7, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}});
            let said = json!({"role": "assistant", "content": [], "model": "m", "stopReason": "stop", "usage": usage});
            json!({"type": "message", "id": id, "parentId": null, "timestamp": at, "message": said})
        };
        let (before, after) = ("2026-01-14T00:00:00.000Z", "2026-01-16T00:00:00.000Z");
        let mut first = header(&home, "p", A, OLD);
        first["parentSession"] = format!("/x/2026-01-14T00-00-00-000Z_{B}.jsonl").into();
        let lines = [first, paid("a", before), paid("b", after)].map(|line| format!("{line}\n"));
        home.write(place(&home, "p", A).to_str().expect("a name"), lines.concat());
        let status = home.run(&["status", A, "--json"]).json();
        assert_eq!((&status["tokens"]["output"], &status["cost_usd"]), (&7.into(), &0.5.into()));
    });
}

#[test]
fn tools_with_different_sessions_join_nothing() {
    sandboxed(|| {
        let home = home();
        for id in [A, B] {
            session(&home, "ws", id, &[said("u", None, "go on"), ended("a", "u", "stop")]);
        }
        let agent = start(&home, "ws", &[], &format!("{}\n{}", tool(A), tool(B)));
        let rows = list(&home).sessions();
        let own: Vec<&Value> = rows.iter().filter(|row| row["pid"] == agent.pid()).collect();
        assert_eq!(own.len(), 1, "{rows:?}");
        assert_eq!((&own[0]["id"], &own[0]["status"]), (&Value::Null, &"unknown".into()));
    });
}

#[test]
fn the_end_of_a_long_file_is_enough_and_more_is_read_where_it_is_not() {
    sandboxed(|| {
        let home = home();
        let name = |id: &str, name: &str| json!({"type": "session_info", "id": id, "parentId": "a", "timestamp": OLD, "name": name});
        let result = |bytes: usize| {
            let text = "x".repeat(bytes);
            message(
                "r",
                Some("a"),
                &json!({"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": text}]}),
            )
        };
        let asked = || vec![said("u", None, "go on")];
        let told = |lines: &[Value]| {
            let path = session(&home, "p", A, lines);
            let row = list(&home).session(A);
            std::fs::remove_file(path).expect("removed");
            (row["outcome"].clone(), row["name"].clone(), row["model"].clone())
        };
        // A name given later is found in the last 16 KB, and not before.
        for (bytes, found) in [(9_000, json!("late")), (20_000, Value::Null)] {
            let mut lines = asked();
            lines.extend([ended("a", "u", "toolUse"), name("n", "late"), result(bytes)]);
            lines.push(ended("b", "r", "stop"));
            assert_eq!(told(&lines), (json!("finished"), found, json!("m")), "{bytes}");
        }
        // The end is one long line, and the deciding line is before it; a name there is too far away.
        for (bytes, found) in
            [(2_000, json!("late")), (40_000, Value::Null), (300_000, Value::Null)]
        {
            let mut lines = asked();
            lines.extend([name("n", "late"), ended("a", "u", "toolUse"), result(bytes)]);
            assert_eq!(told(&lines), (json!("killed"), found, json!("m")), "{bytes}");
        }
    });
}

#[test]
fn a_moved_home_and_moved_sessions_are_found() {
    sandboxed(|| {
        let mut home = home();
        let moved = home.path().join("moved");
        let file = moved.join("sessions/--x--/2026-11-15T07-53-25-730Z_").display().to_string();
        let env = [("PI_CODING_AGENT_DIR", moved.to_str().expect("a path"))];
        // No setting of ours names it; the process does.
        let text = format!("f='{file}{A}.jsonl'; begin {A} \"$f\"; user \"$f\" 1 go; {}", tool(A));
        let mut agent = start(&home, "ws", &env, &text);
        let row = eventually("it is joined", || {
            list(&home).sessions().into_iter().find(|r| r["id"] == A && r["status"] == "running")
        });
        assert_eq!(row["root"], moved.to_str().expect("a path"));
        agent.kill();
        assert!(list(&home).sessions().is_empty(), "nobody knows that place any more");
        home.set("PI_CODING_AGENT_DIR", moved.to_str().expect("a path"));
        assert_eq!(list(&home).session(A)["outcome"], "killed");
        // Sessions kept flat in a directory of their own.
        let flat = home.path().join("flat");
        let text = format!(
            "f='{}/2026-11-15T07-53-25-730Z_{B}.jsonl'; begin {B} \"$f\"; user \"$f\" 1 go",
            flat.display()
        );
        let env = [("PI_CODING_AGENT_SESSION_DIR", flat.to_str().expect("a path")), env[0]];
        let _agent = start(&home, "ws2", &env, &text);
        assert_eq!(list(&home).session(B)["status"], "running");
    });
}

#[test]
fn each_session_of_the_shared_store_is_shown_once() {
    sandboxed(|| {
        const RUST: &str = "5f3a9c1e-0000-4000-8000-000000000001";
        let home = home();
        session(&home, "ws", A, &[said("u", None, "of pi"), ended("a", "u", "stop")]);
        let write = |name: &str, lines: &[Value]| {
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            let place = format!("{}/{name}.jsonl", folder(&home, "ws"));
            home.write(&place, lines.join("\n") + "\n");
        };
        // pi_agent_rust names its files by the beginning of the id, and says more in the header.
        let mut rust = header(&home, "ws", RUST, OLD);
        rust["provider"] = "p".into();
        write(
            "2026-11-15T07-53-25.730Z_5f3a9c1e",
            &[rust, said("u", None, "of rust"), ended("a", "u", "stop")],
        );
        // Files that a person named, and an id of a person's choice as long as such a beginning.
        write("mine", &[header(&home, "ws", "by-hand", OLD)]);
        let mut named = header(&home, "ws", "by-hand-too", OLD);
        named["leafId"] = "x".into();
        write("mine-too", &[named]);
        write("2026-11-15T07-53-25-732Z_abcd1234", &[header(&home, "ws", "abcd1234", OLD)]);
        let listed = list(&home);
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let rows = listed.sessions();
        let mut shown: Vec<String> =
            rows.iter().map(|r| format!("{} {}", text(&r["id"]), text(&r["adapter"]))).collect();
        shown.sort();
        let expected = [
            &format!("{A} pi"),
            &format!("{RUST} pi-rust"),
            "abcd1234 pi",
            "by-hand pi",
            "by-hand-too pi-rust",
        ];
        assert_eq!(shown, expected, "{}", listed.stderr);
        assert_list_equals_status(&home);
        assert!(home.run(&["logs", "5f3a9c1e"]).stdout.contains("of rust"));
        // Sessions in databases are not read, and that is reported.
        home.write(
            &format!("{}/2026-11-15T07-53-25.730Z_5f3a9c1f.sqlite", folder(&home, "ws")),
            "",
        );
        let listed = list(&home);
        assert_eq!((listed.code, listed.sessions().len()), (Some(3), 5), "{}", listed.stderr);
        assert!(listed.stderr.contains("kept in databases"), "{}", listed.stderr);
        assert_eq!(home.run(&["status", "5f3a9c1f"]).code, Some(3), "it may be there");
    });
}

#[test]
fn the_rust_port_is_recognised_by_its_program_file() {
    sandboxed(|| {
        let home = home();
        session(&home, "ws", A, &[said("u", None, "of pi")]);
        let mut rust = home.agent("pi", "ws", &[]);
        rust.ready();
        let listed = home.run(&["list", "--json"]);
        let rows = listed.sessions();
        assert_eq!((rows.len(), &rows[0]["adapter"]), (1, &"pi-rust".into()), "{rows:?}");
        assert_eq!(list(&home).session(A)["status"], "stopped", "it was written before");
        rust.kill();
        // It may have continued a session of Pi's: that one is not over then.
        let mut line = said("u2", Some("u"), "again");
        line["timestamp"] = "2999-01-01T00:00:00.000Z".into();
        let path = place(&home, "ws", A).to_string_lossy().into_owned();
        let mut rust = home.agent("pi", "ws", &["append", &path, &line.to_string()]);
        rust.ready();
        let row = list(&home).session(A);
        assert_eq!((&row["adapter"], &row["status"]), (&"pi".into(), &"running".into()), "{row}");
        // One of two possible processes: it is ambiguous, and the session is not over either.
        let mut second = home.agent("pi", "ws", &[]);
        second.ready();
        let row = list(&home).session(A);
        assert_eq!((&row["adapter"], &row["status"]), (&"pi".into(), &"unknown".into()), "{row}");
        assert_list_equals_status(&home);
        second.kill();
        rust.kill();
        assert_eq!(list(&home).session(A)["outcome"], "killed");
    });
}
