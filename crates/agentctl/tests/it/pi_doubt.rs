//! Pi, where only directory and time are known: states that are not claimed, and joins on which no
//! order acts.

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::pi::{A, B, WORDS, ended, install, list, place, said, session, start, tool};
use crate::{assert_list_equals_status, home};

/// Makes a process look as if it had written as much as a turn of Pi does.
pub(crate) const NOISE: &str = "head -c 60000 /dev/zero >/dev/null";

/// The entries that Pi writes when a session begins, a moment after the header.
fn startup(path: &str) -> String {
    format!(
        "echo \"{{\\\"type\\\":\\\"model_change\\\",\\\"id\\\":\\\"m\\\",\\\"parentId\\\":null,\\\"timestamp\\\":\\\"$(now)\\\"}}\" >> \"{path}\""
    )
}

/// Returns the body of a process that begins a session and takes its prompt this many seconds later.
fn prompted_after(home: &TestHome, id: &str, seconds: u32, then: &str) -> String {
    let path = place(home, "ws", id).display().to_string();
    let startup = startup(&path);
    // Only the times in the file count: nothing waits here.
    format!(
        "begin {id} '{path}'; {startup}; now() {{ date -u -d '+{seconds} sec' +%Y-%m-%dT%H:%M:%S.%3NZ; }}; user '{path}' 1 go; {then}"
    )
}

fn answer(home: &TestHome, id: &str) -> String {
    format!("answer '{}' 1 done", place(home, "ws", id).display())
}

/// W1: a fresh terminal, and another Pi that began within its first seconds, worked and ended.
#[test]
fn a_session_that_ended_beside_a_resting_terminal_is_not_given_to_it() {
    sandboxed(|| {
        // The second one has written enough for a turn: then the time of its prompt decides.
        for terminal in ["true", NOISE] {
            let home = home();
            let rests = start(&home, "ws", &[], terminal);
            let answered = answer(&home, A);
            let mut other = start(&home, "ws", &[], &prompted_after(&home, A, 0, &answered));
            other.kill();
            let row = list(&home).session(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"], &row["pid"]),
                (&"unknown".into(), &"ambiguous".into(), &Value::Null),
                "{row}"
            );
            assert_list_equals_status(&home);
            let refused = home.run(&["stop", A]);
            assert_ne!(refused.code, Some(0), "{}", refused.stderr);
            assert_eq!(
                list(&home).sessions().iter().filter(|r| r["pid"] == rests.pid()).count(),
                1
            );
            drop(rests);
            assert_eq!(list(&home).session(A)["outcome"], "finished");
        }
    });
}

/// W1: the same, where the other Pi was killed in its turn.
#[test]
fn a_session_that_was_killed_beside_a_resting_terminal_is_not_given_to_it() {
    sandboxed(|| {
        let home = home();
        let rests = start(&home, "ws", &[], "true");
        let mut other = start(&home, "ws", &[], &prompted_after(&home, A, 0, "true"));
        other.kill();
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &Value::Null), "{row}");
        drop(rests);
        assert_eq!(list(&home).session(A)["outcome"], "killed");
    });
}

/// W1: an open command in the file that no child of the process runs.
#[test]
fn an_open_command_without_a_child_process_is_not_given_to_a_process() {
    sandboxed(|| {
        let home = home();
        let path = place(&home, "ws", A).display().to_string();
        let call = r#"{\"type\":\"message\",\"id\":\"a1\",\"parentId\":\"u1\",\"timestamp\":\"$(now)\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"toolCall\",\"id\":\"c\",\"name\":\"bash\",\"arguments\":{\"command\":\"make\"}}],\"stopReason\":\"toolUse\"}}"#;
        let call = format!("{NOISE}; echo \"{call}\" >> '{path}'");
        let without = start(&home, "ws", &[], &prompted_after(&home, A, 3, &call));
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &Value::Null), "{row}");
        drop(without);
        std::fs::remove_file(&path).expect("removed");
        let begun =
            "sleep 1000 & until read -r name < /proc/$!/comm && [ \"$name\" = sleep ]; do :; done";
        let with =
            start(&home, "ws", &[], &prompted_after(&home, A, 3, &format!("{call}; {begun}")));
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"running".into(), &with.pid().into()), "{row}");
    });
}

/// W1: a terminal at rest in the session it began is idle, and its join is shown as inferred.
#[test]
fn a_session_that_took_its_prompt_later_is_its_terminals_and_the_join_is_inferred() {
    sandboxed(|| {
        let home = home();
        let answered = format!("{}; {NOISE}", answer(&home, A));
        let agent = start(&home, "ws", &[], &prompted_after(&home, A, 3, &answered));
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"idle".into(), &agent.pid().into()), "{row}");
        assert_eq!(row["processes"][0]["join"], "inferred", "{row}");
        assert!(row["notes"].to_string().contains("directory and start time"), "{row}");
        assert_list_equals_status(&home);
    });
}

/// W1: no order acts on an inferred join; the pid names the process itself.
#[test]
fn an_inferred_join_is_refused_by_id_and_the_process_is_stopped_by_its_pid() {
    sandboxed(|| {
        let mut home = home();
        let answered = format!("{}; {NOISE}", answer(&home, A));
        let mut agent = start(&home, "ws", &[], &prompted_after(&home, A, 3, &answered));
        let pid = agent.pid().to_string();
        assert_eq!(list(&home).session(A)["processes"][0]["join"], "inferred");
        for order in [&["stop", A][..], &["stop", A, "--force"]] {
            let refused = home.run(order);
            assert_eq!(refused.code, Some(5), "{order:?}: {refused:?}");
            let hint = format!("agentctl stop {pid}");
            assert!(refused.stderr.contains(&hint), "{order:?}: {}", refused.stderr);
            assert!(agent.child.try_wait().expect("asked").is_none(), "{order:?}: it lives");
        }
        // A forced resume starts a Pi of its own on the same file.
        let path = home.path().join("bin");
        home.set("PATH", format!("{}:/usr/bin:/bin", path.display()));
        let file = place(&home, "ws", A).display().to_string();
        let started = home.path().join("resumed");
        let work = format!(
            "head -n 1 '{file}'; echo '{{\"type\":\"agent_start\"}}'; cat >/dev/null; \
             user '{file}' 2 'go on'; answer '{file}' 2 done; echo yes > '{}'\n",
            started.display()
        );
        home.write("body", format!("{WORDS}{work}"));
        let refused = home.run(&["resume", A, "go on"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(!started.exists(), "nothing was started");
        let forced = home.run(&["resume", A, "go on", "--force"]);
        assert_eq!(forced.code, Some(0), "{forced:?}");
        eventually("the resumed Pi has worked", || started.exists().then_some(()));
        assert!(agent.child.try_wait().expect("asked").is_none(), "it lives");
        let stopped = home.run(&["stop", &pid]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        assert!(agent.child.try_wait().expect("asked").is_some(), "it has ended");
    });
}

/// W1: the environment of a tool proves the join.
#[test]
fn a_join_by_the_environment_of_a_tool_is_proved() {
    sandboxed(|| {
        let home = home();
        let _agent = start(&home, "ws", &[], &tool(A));
        // A file that was written before the process began is not of its session.
        session(&home, "ws", A, &[said("u", None, "go")]);
        let row = eventually("it is joined", || {
            list(&home).sessions().into_iter().find(|r| r["id"] == A && !r["pid"].is_null())
        });
        assert_eq!(row["processes"][0]["join"], "proved", "{row}");
    });
}

/// W1: a Pi of which nothing is known may have any session of its directory open.
#[test]
fn an_older_session_that_a_resting_terminal_may_have_open_is_not_stopped() {
    sandboxed(|| {
        let home = home();
        session(&home, "ws", A, &[said("u", None, "go"), ended("a", "u", "stop")]);
        session(&home, "elsewhere", B, &[said("u", None, "go"), ended("a", "u", "stop")]);
        let mut rests = start(&home, "ws", &[], "true");
        let listed = list(&home);
        let row = listed.session(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"unknown".into(), &"ambiguous".into()),
            "{row}"
        );
        assert!(row["reason"]["detail"].to_string().contains(&rests.pid().to_string()), "{row}");
        assert_eq!(listed.session(B)["status"], "stopped", "it is another directory's");
        assert_list_equals_status(&home);
        assert_eq!(home.run(&["resume", A, "go on"]).code, Some(5));
        rests.kill();
        assert_eq!(list(&home).session(A)["outcome"], "finished");
    });
}

/// W7: a session without a file (`--no-session`, or a file that was deleted) is in the tool that names it.
#[test]
fn a_session_that_only_its_tool_knows_is_in_that_tool() {
    sandboxed(|| {
        let home = home();
        let agent = start(&home, "ws", &[], &tool(A));
        let row = eventually("it is joined", || {
            list(&home).sessions().into_iter().find(|r| r["id"] == A)
        });
        assert_eq!(
            (&row["status"], &row["reason"]["kind"], &row["pid"]),
            (&"running".into(), &"tool".into(), &agent.pid().into()),
            "{row}"
        );
        assert_list_equals_status(&home);
    });
}

/// W12: a native program called `pi` that waits for Pi is no session.
#[test]
fn a_native_launcher_of_pi_has_no_row() {
    sandboxed(|| {
        let home = home();
        // Pi as one program file, with its package beside it.
        let package =
            serde_json::json!({"name": "@earendil-works/pi-coding-agent", "version": "1.5.0"});
        home.write("real/package.json", package.to_string());
        let program = home.at("real/pi");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let shim = home.at("shim/pi");
        std::fs::copy(testkit::fake_agent(), &shim).expect("copied");
        let mut command = std::process::Command::new(&shim);
        command.args(["start", &format!("exec '{}' stay", program.display())]);
        command.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        std::fs::create_dir_all(home.path().join("ws")).expect("made");
        command.current_dir(home.path().join("ws"));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut agent = testkit::Agent { child: command.spawn().expect("started") };
        agent.ready();
        // For a moment the launcher has not started Pi yet.
        let row = eventually("only pi itself is seen", || {
            match &home.run(&["list", "--json"]).sessions()[..] {
                [row] if row["adapter"] == "pi" => Some(row.clone()),
                _ => None,
            }
        });
        assert_ne!(row["pid"], agent.pid());
        assert_eq!(list(&home).sessions().len(), 1, "only pi itself");
    });
}

/// W14: `PI_CODING_AGENT_DIR` and its sister are relative to the directory of the process.
#[test]
fn a_relative_home_lies_below_the_directory_of_the_process() {
    sandboxed(|| {
        let home = home();
        let path = home.path().join("ws/cfg/sessions/--x--");
        let text = format!(
            "f='{}/2026-11-15T07-53-25-730Z_{A}.jsonl'; begin {A} \"$f\"; user \"$f\" 1 go; {}",
            path.display(),
            tool(A)
        );
        let _agent = start(&home, "ws", &[("PI_CODING_AGENT_DIR", "cfg")], &text);
        let row = eventually("it is joined", || {
            list(&home).sessions().into_iter().find(|r| r["id"] == A && r["status"] == "running")
        });
        assert_eq!(row["root"], home.path().join("ws/cfg").to_str().expect("a path"), "{row}");
        assert_list_equals_status(&home);
        let flat = home.path().join("w2/kept");
        let text = format!(
            "f='{}/2026-11-15T07-53-25-730Z_{B}.jsonl'; begin {B} \"$f\"; user \"$f\" 1 go; {}",
            flat.display(),
            tool(B)
        );
        let _agent = start(&home, "w2", &[("PI_CODING_AGENT_SESSION_DIR", "kept")], &text);
        let row = eventually("it is joined", || {
            list(&home).sessions().into_iter().find(|r| r["id"] == B && r["status"] == "running")
        });
        assert_eq!(row["prompt"], "go", "{row}");
        // Only the process named that folder: nothing in it is resumed.
        let note = "the folder that it is kept in is named only by its process";
        assert!(row["notes"].as_array().is_some_and(|n| n.iter().any(|n| n == note)), "{row}");
        let refused = home.run(&["resume", B, "go on", "--force"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("only a process named it"), "{refused:?}");
    });
}

/// W16: `pi install` and its like are no sessions while their arguments can be read.
#[test]
fn a_package_command_that_starts_is_no_session() {
    sandboxed(|| {
        let home = home();
        for (words, rows) in [(&["install", "x"][..], 0), (&["go", "on"][..], 1)] {
            let program = install(&home, "1.5.0");
            home.write("body", "echo ready >&2; read -r line");
            let mut command = std::process::Command::new(home.path().join("bin/node"));
            command.arg(program).args(words).env_clear().env("HOME", home.path());
            command.env("PATH", "/usr/bin:/bin").current_dir(home.path());
            command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            let mut agent = testkit::Agent { child: command.spawn().expect("started") };
            let mut line = String::new();
            let stderr = agent.child.stderr.as_mut().expect("piped");
            std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line)
                .expect("it speaks");
            let listed = home.run(&["list", "--json"]).sessions();
            assert_eq!(listed.len(), rows, "{words:?}: {listed:?}");
        }
    });
}
