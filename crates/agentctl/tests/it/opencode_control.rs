//! Control of OpenCode: its preparation, its directory, and its leftovers.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::opencode::{A, B, DATA, Store, agent, answered, asked, list, working, works_on, world};
use crate::stop::{lives, written_pid};

/// A program that behaves like OpenCode in a launch: it takes an empty session, then names the session
/// it works on.
const PROGRAM: &str = r#"#!/bin/sh
tr '\0' '\n' < /proc/$$/environ > "$HOME/environ.$1"
case "$1" in
import)
    cat "$2" > "$HOME/imported"
    echo $$ > "$HOME/importer"
    [ -e "$HOME/hangs" ] && exec sleep 600
    [ -e "$HOME/refuses" ] && { echo "cannot import that" >&2; exit 1; }
    echo "Imported session" ;;
run)
    echo "$@" > "$HOME/arguments"
    cat > "$HOME/prompt"
    while [ "$1" != --session ]; do shift; done
    printf '{"type":"step_start","sessionID":"%s"}\n' "$2"
    exec sleep 600 ;;
esac
"#;

fn installed(home: &TestHome) {
    let program = home.write("bin/opencode", PROGRAM);
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a program");
}

fn read(home: &TestHome, name: &str) -> String {
    std::fs::read_to_string(home.path().join(name)).unwrap_or_default()
}

#[test]
fn the_session_is_made_known_before_the_agent_is_started() {
    sandboxed(|| {
        let mut home = crate::home();
        installed(&home);
        home.set("PWD", "/somewhere/else");
        home.set("OPENCODE_PID", "1");
        let there = home.at("ws/x").parent().expect("a folder").to_owned();
        let launched = home.run(&[
            "launch",
            "opencode",
            "-p",
            "do it",
            "--cwd",
            "ws",
            "--permissions",
            "edits",
        ]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim();
        assert!(id.starts_with("ses_") && id.len() == 30, "{id}");
        let imported: Value = serde_json::from_str(&read(&home, "imported")).expect("JSON");
        assert_eq!(imported["info"]["id"], id);
        assert_eq!(imported["info"]["directory"], there.to_string_lossy().as_ref());
        assert!(
            imported["info"]["title"].as_str().is_some_and(|t| t.starts_with("New session - "))
        );
        let arguments = read(&home, "arguments");
        assert!(arguments.contains(&format!("--session {id}")), "{arguments}");
        assert!(!arguments.contains("do it"), "the prompt is nobody else's to read");
        assert_eq!(read(&home, "prompt"), "do it");
        for step in ["environ.import", "environ.run"] {
            let environ = read(&home, step);
            let says = |line: &str| environ.lines().any(|l| l == line);
            assert!(says(&format!("PWD={}", there.display())), "{step}: {environ}");
            assert!(says("OPENCODE_PERMISSION={\"edit\":\"allow\"}"), "{step}: {environ}");
            assert!(!environ.contains("OPENCODE_PID="), "{step}: {environ}");
        }
        // The preparation runs before there is an agent, so it carries no run marker.
        assert!(!read(&home, "environ.import").contains("AGENTCTL_RUN="));
    });
}

#[test]
fn a_failed_preparation_fails_the_launch() {
    sandboxed(|| {
        let home = crate::home();
        installed(&home);
        home.write("refuses", "");
        let refused = home.run(&["launch", "opencode", "-p", "x"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("cannot import that"), "{}", refused.stderr);
        assert_eq!(read(&home, "arguments"), "", "the agent was not started");
        home.write("hangs", "");
        // Long enough for the importer to start.
        crate::configure(&home, &[("launch", "10s")], "");
        let late = home.run(&["launch", "opencode", "-p", "x"]);
        assert_eq!((late.code, read(&home, "arguments").as_str()), (Some(1), ""));
        assert!(late.stderr.contains("10000 ms"), "{}", late.stderr);
        let importer = written_pid(&home.path().join("importer"));
        eventually("nothing of it lives", || (!lives(importer)).then_some(()));
    });
}

#[test]
fn a_session_is_continued_where_it_began_and_only_once() {
    sandboxed(|| {
        let (home, store, directory) = world();
        std::fs::create_dir_all(&directory).expect("made");
        store.session(A, &directory, None);
        store.message(A, 60_000, &answered("stop"));
        let elsewhere = home.run(&["resume", A, "more", "--cwd", "."]);
        assert_eq!(elsewhere.code, Some(1), "{}", elsewhere.stderr);
        // Not installed: asked for last.
        assert!(elsewhere.stderr.contains("not installed"), "{}", elsewhere.stderr);
        installed(&home);
        let elsewhere = home.run(&["resume", A, "more", "--cwd", "."]);
        assert!(elsewhere.stderr.contains("only where it began"), "{}", elsewhere.stderr);
        std::fs::remove_file(home.path().join("bin/opencode")).expect("removed");
        let serving = agent(&home, &["run", "--session", A, "x"], &[]);
        let twice = home.run(&["resume", A, "more"]);
        assert!(matches!(twice.code, Some(1 | 5)), "{}", twice.stderr);
        assert!(lives(serving.pid()));
        store.message(A, 0, &working());
        let twice = home.run(&["resume", A, "more"]);
        assert!(
            twice.code == Some(5) || twice.stderr.contains("not installed"),
            "{}",
            twice.stderr
        );
    });
}

#[test]
fn a_stop_ends_its_children_and_no_other_process() {
    sandboxed(|| {
        let (home, store, directory) = world();
        for id in [A, B] {
            store.session(id, &directory, None);
        }
        let note = |name: &str| home.at(name).to_string_lossy().into_owned();
        let database = note(&format!("{DATA}/opencode.db"));
        let start = |id: &str, run: &str, tool: &str| {
            let log = crate::opencode::log(&home);
            let line = works_on(run, id);
            // As OpenCode starts its tools: a session of their own, marked with its pid.
            let script = format!("setsid sh -c 'echo $$ > {tool}; exec sleep 600' & sleep 600");
            let words = ["run", "x", "open", &database, "keep", &log, &line];
            let tail = ["env", "OPENCODE_PID", "{pid}", "start", &script];
            let mut agent = home.agent("opencode", "ws", &[&words[..], &tail[..]].concat());
            agent.ready();
            agent
        };
        let (tool_a, tool_b) = (note("tool-a"), note("tool-b"));
        let (a, b) = (start(A, "aaaa0001", &tool_a), start(B, "aaaa0002", &tool_b));
        let tools = [written_pid(tool_a.as_ref()), written_pid(tool_b.as_ref())];
        for id in [A, B] {
            store.message(id, 0, &working());
        }
        let stopped = home.run(&["stop", A, "--json"]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(!lives(a.pid()) && !lives(tools[0]), "{}", stopped.stdout);
        assert!(lives(b.pid()) && lives(tools[1]), "the other's are not touched");
        assert_eq!(list(&home).session(A)["outcome"], "killed");
        assert_eq!(list(&home).session(B)["status"], "running");
    });
}

#[test]
fn only_final_parts_of_a_conversation_are_shown_and_once() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        let first = store.message(A, 90, &asked());
        let text = |t: &str| serde_json::json!({"type": "text", "text": t});
        store.part(A, &first, &text("hello"));
        let step = store.message(A, 80, &answered("tool-calls"));
        store.part(
            A,
            &step,
            &serde_json::json!({"type": "tool", "tool": "bash", "callID": "c1",
            "state": {"status": "completed", "input": {"command": "ls"}, "output": "a\nb"}}),
        );
        store.part(A, &step, &serde_json::json!({"type": "step-finish", "tokens": {"input": 7, "output": 2, "reasoning": 1}}));
        let open = store.message(A, 70, &working());
        store.part(A, &open, &text("not yet"));
        let lines = |n: &str| -> Vec<Value> {
            let said = home.run(&["logs", A, "--json", "-n", n]).stdout;
            said.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
        };
        let all = lines("20");
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(
            all[3]["text"], "not yet",
            "what is being said is shown, and again when it is whole"
        );
        assert_eq!((&all[0]["role"], &all[0]["text"]), (&"user".into(), &"hello".into()));
        assert_eq!(all[1]["tool_calls"][0]["input"]["command"], "ls");
        assert_eq!(all[2]["tool_results"][0]["text"], "a\nb");
        assert_eq!(all[1]["usage"]["output"], 3, "what was thought is output");
        assert_eq!(lines("1").len(), 1);
        let raw = home.run(&["logs", A, "--raw"]).stdout;
        assert!(raw.lines().all(|l| serde_json::from_str::<Value>(l).is_ok()), "{raw}");
        // Following ends with the session, so a process serves it.
        let _served = agent(&home, &["run", "x"], &[works_on("aaaa0001", A)]);
        follow(&home, &store.connection, &open);
    });
}

/// Checks that later parts are shown once they are complete, and never twice.
fn follow(home: &TestHome, connection: &Connection, open: &str) {
    use std::io::{BufRead, BufReader};
    let mut command = home.command(&["logs", A, "-f", "--json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("started");
    let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        serde_json::from_str(&said.next().expect("a line").expect("read")).expect("JSON")
    };
    for role in ["user", "assistant", "tool", "assistant"] {
        assert_eq!(next()["role"], role);
    }
    let done = "{\"type\":\"text\",\"text\":\"now it is\",\"time\":{\"start\":1,\"end\":2}}";
    let update = "update part set data = ?1 where message_id = ?2";
    connection.execute(update, [done, open]).expect("written");
    let last = next();
    assert_eq!((&last["role"], &last["text"]), (&"assistant".into(), &"now it is".into()));
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

#[test]
fn the_old_files_count_only_where_there_is_no_database() {
    sandboxed(|| {
        let home = crate::home();
        home.plant(&crate::fixtures_dir().join("opencode/1.1.65"), ".");
        let old = "ses_e21bcc84effeYwg7mqZmsAHaQh";
        assert_eq!(list(&home).session(old)["outcome"], "finished");
        let store = Store::new(&home, &format!("{DATA}/opencode.db"));
        assert!(list(&home).sessions().is_empty(), "its sessions are those of the database");
        store.session(old, "/a", None);
        assert_eq!(list(&home).sessions().len(), 1, "and none of them is there twice");
    });
}
