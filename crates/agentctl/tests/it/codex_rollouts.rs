//! Codex without locks (up to 0.146): the process that has a rollout open for writing serves the thread. And
//! rollouts that were deleted or cut while their thread is served, or that do not say how a turn ended.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::codex::{A, B, asked, call, exec, lock, rollout, started};
use crate::{assert_list_equals_status, home};

fn list(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

/// Starts a Codex that has these rollouts open and holds no lock.
fn opener(home: &TestHome, words: &[&str], rollouts: &[&PathBuf]) -> Agent {
    let mut script = words.to_vec();
    for path in rollouts {
        script.extend(["open", text(path)]);
    }
    let mut agent = home.agent("codex", "ws", &script);
    agent.ready();
    agent
}

/// Runs the program under test in a user namespace of its own.
fn from_user_namespace(home: &TestHome, args: &[&str]) -> testkit::Output {
    let inside = home.command(args);
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-current-user"]).arg(inside.get_program());
    command.args(inside.get_args()).env_clear().current_dir(home.path());
    command.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::null()).output().into()
}

fn in_a_tool() -> Vec<Value> {
    vec![started(), asked("x"), call("exec_command", &json!({"cmd": "make"}))]
}

fn complete() -> Value {
    json!({"type": "task_complete", "turn_id": "t", "last_agent_message": "done"})
}

/// W2: `exec`, terminals, and the threads of an editor's server.
#[test]
fn the_process_that_has_the_rollout_open_serves_it() {
    sandboxed(|| {
        for (words, hosted) in [
            (&["exec", "--json"][..], false),
            (&["review"], false),
            (&["resume", A], false),
            (&[], false),
            (&["app-server"], true),
            (&["mcp-server"], true),
        ] {
            let home = home();
            let path = rollout(&home, A, &in_a_tool());
            let mut agent = opener(&home, words, &[&path]);
            let row = list(&home).session(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"], &row["pid"], &row["hosted"]),
                (&"running".into(), &"tool".into(), &agent.pid().into(), &hosted.into()),
                "{words:?}"
            );
            assert_eq!(row["processes"][0]["join"], "proved", "{words:?}");
            assert_eq!(list(&home).sessions().len(), 1, "{words:?}: no row beside it");
            assert_list_equals_status(&home);
            agent.kill();
            let row = list(&home).session(A);
            let told = (&row["status"], &row["outcome"]);
            assert_eq!(told, (&"stopped".into(), &"killed".into()), "{words:?}");
        }
    });
}

/// W2: one home, an old version and one with locks; an old server with two threads.
#[test]
fn open_rollouts_and_locks_are_both_used() {
    sandboxed(|| {
        const C: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298c1";
        let home = home();
        let a = rollout(&home, A, &in_a_tool());
        let b = rollout(&home, B, &[started(), complete()]);
        rollout(&home, C, &in_a_tool());
        let server = opener(&home, &["app-server"], &[&a, &b]);
        let newer = exec(&home, &[C], &["exec"]);
        let listed = list(&home);
        for (id, status, pid) in
            [(A, "running", &server), (B, "idle", &server), (C, "running", &newer)]
        {
            let row = listed.session(id);
            let told = (&row["status"], &row["pid"]);
            assert_eq!(told, (&status.into(), &pid.pid().into()), "{id}");
        }
        // The same thread in both: one row with two processes.
        let c = rollout(&home, C, &in_a_tool());
        let second = opener(&home, &["resume"], &[&c]);
        let row = list(&home).session(C);
        let pids: Vec<u64> = row["processes"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|p| p["pid"].as_u64())
            .collect();
        let mut both = [u64::from(newer.pid()), u64::from(second.pid())];
        both.sort_unstable();
        assert_eq!(pids, both);
        assert_list_equals_status(&home);
    });
}

/// W2: until its `exec`, a child of Codex has every file of its parent open and runs the same program.
#[test]
fn a_child_between_fork_and_exec_serves_nothing() {
    sandboxed(|| {
        for words in [&["exec"][..], &[], &["app-server"]] {
            for with_lock in [false, true] {
                let home = home();
                let path = rollout(&home, A, &in_a_tool());
                let lock = lock(&home, A);
                let mut script = words.to_vec();
                script.extend(["open", text(&path)]);
                if with_lock {
                    script.extend(["lock", &lock]);
                }
                script.push("fork");
                let mut agent = home.agent("codex", "ws", &script);
                agent.ready();
                let listed = list(&home);
                let pids: Vec<Value> = listed
                    .sessions()
                    .iter()
                    .flat_map(|row| row["processes"].as_array().expect("a list").clone())
                    .map(|process| process["pid"].clone())
                    .collect();
                let case = format!("{words:?}, lock {with_lock}: {}", listed.stdout);
                assert_eq!(pids, [agent.pid()], "{case}");
                assert_eq!(listed.session(A)["notes"], json!([]), "{case}");
                assert_list_equals_status(&home);
            }
        }
    });
}

/// W2: an observer in a user namespace of its own, as sandboxes have it. The kernel hides the program file,
/// the environment and the open files of every process outside it: any thread may be served by Codex there.
#[test]
fn a_codex_whose_open_files_cannot_be_read_leaves_no_thread_stopped() {
    sandboxed(|| {
        for (verb, words) in [("open", "exec"), ("lock", "exec"), ("open", "resume")] {
            let home = home();
            let path = rollout(&home, A, &in_a_tool());
            rollout(&home, B, &[started(), complete()]);
            let lock = PathBuf::from(lock(&home, A));
            let held = if verb == "open" { &path } else { &lock };
            let mut agent = home.agent("codex", "ws", &[words, verb, text(held)]);
            agent.ready();
            assert_eq!(list(&home).session(A)["pid"], agent.pid(), "seen from outside");
            for id in [A, B] {
                let told = from_user_namespace(&home, &["status", id, "--json"]).json();
                let listed = ["list", "-a", "--since", "all", "--json"];
                for row in [told, from_user_namespace(&home, &listed).session(id)] {
                    let case = format!("{verb} {words}: {row}");
                    assert_eq!(row["status"], "unknown", "{case}");
                    assert_eq!(row["processes"], json!([]), "{case}");
                    let detail = row["reason"]["detail"].as_str().unwrap_or_default();
                    let named = detail.contains(&format!("pid {} is called codex", agent.pid()));
                    // The kernel's list of locks names the holder of A's lock as well.
                    assert!(named || (verb, id) == ("lock", A), "{case}");
                }
            }
            agent.kill();
            let row = from_user_namespace(&home, &["status", B, "--json"]).json();
            assert_eq!(row["status"], "stopped", "{verb} {words}: {row}");
        }
    });
}

/// W2: a picker or a search reads rollouts, and serves none.
#[test]
fn a_process_that_only_reads_a_rollout_does_not_serve_it() {
    sandboxed(|| {
        let home = home();
        let path = rollout(&home, A, &[started(), complete()]);
        let mut picker = home.agent("codex", "ws", &["resume", "read", text(&path)]);
        picker.ready();
        let listed = list(&home);
        let row = listed.session(A);
        let told = (&row["status"], &row["outcome"], &row["pid"]);
        assert_eq!(told, (&"stopped".into(), &"finished".into(), &Value::Null));
        let terminal = listed.sessions().into_iter().find(|row| row["id"].is_null());
        assert_eq!(terminal.expect("the picker")["pid"], picker.pid());
    });
}

/// W2: a program of another name that has a rollout open (an editor, a backup) is no Codex.
#[test]
fn a_rollout_that_another_program_writes_is_not_served() {
    sandboxed(|| {
        let home = home();
        let path = rollout(&home, A, &[started(), complete()]);
        let mut editor = home.agent("vim", "ws", &["open", text(&path)]);
        editor.ready();
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"stopped".into(), &Value::Null));
    });
}

/// W2: a container that shares the home. Its thread is served; its process must not be signalled.
#[test]
fn a_rollout_open_in_another_pid_namespace_is_served_without_a_process() {
    sandboxed(|| {
        for verb in ["open", "lock"] {
            let home = home();
            let path = rollout(&home, A, &in_a_tool());
            let lock = PathBuf::from(lock(&home, A));
            let held = if verb == "open" { &path } else { &lock };
            let script = ["exec", verb, text(held)];
            // The program is created by a process of this namespace, and then run in the other one.
            drop(home.agent("codex", "ws", &["exit", "0"]));
            let mut inner = std::process::Command::new("unshare");
            inner.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
            inner.arg(home.path().join("bin/codex")).args(script);
            inner.env_clear().env("HOME", home.path()).current_dir(home.path().join("ws"));
            inner.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
            let mut inner = inner.spawn().expect("started");
            let row = eventually("the thread is served in there", || {
                let row = list(&home).session(A);
                (row["status"] == "running").then_some(row)
            });
            assert_eq!((&row["pid"], &row["processes"]), (&Value::Null, &json!([])), "{verb}");
            let stopped = home.run(&["stop", A]);
            assert_ne!(stopped.code, Some(0), "{verb}: {}", stopped.stdout);
            drop(inner.stdin.take());
            inner.wait().expect("reaped");
        }
    });
}

/// W2: a sandbox that mounts another `~/.codex`: the same paths are other files there.
#[test]
fn a_rollout_open_in_another_mount_namespace_is_another_file() {
    sandboxed(|| {
        let home = home();
        let path = rollout(&home, A, &[started(), complete()]);
        drop(home.agent("codex", "ws", &["exit", "0"]));
        let script = format!(
            "mount -t tmpfs tmpfs .codex && exec bin/codex resume write {path} x open {path}",
            path = path.display()
        );
        let mut inner = std::process::Command::new("unshare");
        inner.args(["--mount", "sh", "-c", &script]);
        inner.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        inner.current_dir(home.path());
        inner.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut inner = inner.spawn().expect("started");
        let mut said = String::new();
        let out = inner.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).expect("read");
        assert_eq!(said.trim(), format!("ready {}", inner.id()));
        let listed = list(&home);
        let row = listed.session(A);
        let told = (&row["status"], &row["outcome"], &row["pid"]);
        assert_eq!(told, (&"stopped".into(), &"finished".into(), &Value::Null));
        let rows = listed.sessions();
        let row = rows.iter().find(|row| row["pid"] == inner.id()).expect("the process itself");
        assert_eq!(
            (&row["id"], &row["status"], &row["reason"]["kind"]),
            (&Value::Null, &"unknown".into(), &"elsewhere".into())
        );
        drop(inner.stdin.take());
        inner.wait().expect("reaped");
    });
}

/// W7: a served thread that has lost its record has the state that its tools show, or unknown; never
/// idle.
#[test]
fn a_served_thread_whose_rollout_was_deleted_or_cut_is_not_idle() {
    sandboxed(|| {
        for with_lock in [true, false] {
            for cut in [true, false] {
                for (words, tool, status, kind) in [
                    (&["resume"][..], false, "unknown", "unreadable"),
                    (&["resume"], true, "running", "tool"),
                    (&["exec"], false, "running", "-"),
                    (&["exec"], true, "running", "tool"),
                    (&["app-server"], false, "unknown", "unreadable"),
                    (&["app-server"], true, "running", "tool"),
                ] {
                    let home = home();
                    let path = rollout(&home, A, &[]);
                    let lock = lock(&home, A);
                    let line = json!({"timestamp": "2099-01-01T00:00:00.000Z", "type": "event_msg", "payload": complete()});
                    let line = line.to_string();
                    let mut script = words.to_vec();
                    if with_lock {
                        script.extend(["lock", &lock]);
                    }
                    script.extend(["keep", text(&path), &line]);
                    if tool {
                        script.extend([
                            "env",
                            "CODEX_THREAD_ID",
                            A,
                            "start",
                            "exec tail -f /dev/null",
                        ]);
                    }
                    let mut agent = home.agent("codex", "ws", &script);
                    agent.ready();
                    assert_eq!(list(&home).session(A)["status"], "idle", "its record is whole");
                    if cut {
                        std::fs::OpenOptions::new()
                            .write(true)
                            .truncate(true)
                            .open(&path)
                            .expect("cut");
                    } else {
                        std::fs::remove_file(&path).expect("removed");
                    }
                    let row = list(&home).session(A);
                    let case = format!("lock {with_lock}, cut {cut}, {words:?}, tool {tool}");
                    let told = (&row["status"], row["reason"]["kind"].as_str().unwrap_or("-"));
                    assert_eq!(told, (&status.into(), kind), "{case}");
                    assert_eq!(row["pid"], agent.pid(), "{case}");
                    assert_list_equals_status(&home);
                }
            }
        }
    });
}

/// W7: the rollout was moved out of the home, and its terminal has a lock only.
#[test]
fn a_served_thread_that_the_index_knows_and_that_has_no_rollout_is_not_idle() {
    sandboxed(|| {
        let home = home();
        let agent = exec(&home, &[A], &[]);
        assert_eq!(list(&home).session(A)["status"], "idle", "nobody has prompted it");
        let path = home.path().join(".codex/state_5.sqlite");
        let index = rusqlite::Connection::open(&path).expect("made");
        index.execute_batch("create table threads(id text primary key, cwd text, title text, name text, first_user_message text, model text, created_at_ms integer);").expect("a table");
        index
            .execute("insert into threads values(?1, '/srv', 'x', null, 'x', 'gpt-x', 1)", [A])
            .expect("a row");
        drop(index);
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"unknown".into(), &agent.pid().into()));
    });
}

/// W7: cut, and written to again since: the remaining lines do not decide.
#[test]
fn a_rollout_that_has_lost_its_beginning_decides_only_by_an_end_of_a_turn() {
    sandboxed(|| {
        let output = json!({"type": "function_call_output", "call_id": "c1", "output": "a"});
        let item = |payload: &Value, kind: &str| {
            json!({"timestamp": "2026-11-15T07:54:00.000Z", "type": kind, "payload": payload})
                .to_string()
        };
        for (lines, status) in [
            (vec![item(&json!({"type": "token_count"}), "event_msg")], "unknown"),
            (vec![item(&output, "response_item")], "running"),
            (vec![item(&output, "response_item"), item(&complete(), "event_msg")], "idle"),
        ] {
            let home = home();
            let path = rollout(&home, A, &[]);
            std::fs::write(&path, lines.join("\n") + "\n").expect("written");
            let _agent = opener(&home, &["resume"], &[&path]);
            assert_eq!(list(&home).session(A)["status"], status, "{lines:?}");
        }
    });
}

/// W7: cut in the middle of a line, and written to again since: that line is part of two.
#[test]
fn a_rollout_with_a_damaged_line_is_decided_by_the_lines_behind_it() {
    sandboxed(|| {
        for (behind, status) in [(vec![], "unknown"), (vec![started()], "running")] {
            let home = home();
            let whole = rollout(&home, A, &[started(), complete(), started()]);
            let text_of = |path: &Path| std::fs::read_to_string(path).expect("there");
            let cut = text_of(&whole);
            let cut = &cut[..cut.len() - 40];
            let item = |payload: &Value| json!({"timestamp": "2026-11-15T07:55:00.000Z", "type": "event_msg", "payload": payload});
            let mut lines = vec![item(&complete()).to_string()];
            lines.extend(behind.iter().map(|payload| item(payload).to_string()));
            std::fs::write(&whole, format!("{cut}{}\n", lines.join("\n"))).expect("written");
            let _agent = opener(&home, &["resume"], &[&whole]);
            assert_eq!(list(&home).session(A)["status"], status, "{behind:?}");
        }
    });
}

/// W10: up to 0.142 a refused turn is `task_complete` without a message, and without an error.
#[test]
fn a_turn_that_ended_without_an_answer_has_an_unknown_outcome() {
    sandboxed(|| {
        let said = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
        let user = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
        let mute = json!({"type": "task_complete", "turn_id": "t", "last_agent_message": null, "completed_at": 1, "duration_ms": 1});
        // 0.146 and later would have written the error.
        let newer = json!({"type": "task_complete", "turn_id": "t", "last_agent_message": null, "started_at": 1, "completed_at": 1});
        let tool = [
            call("exec_command", &json!({"cmd": "ls"})),
            json!({"type": "function_call_output", "call_id": "c1", "output": "a"}),
        ];
        let cases = [
            (vec![started(), user("x"), mute.clone()], "unknown"),
            (
                vec![
                    started(),
                    user("x"),
                    said("I look"),
                    tool[0].clone(),
                    tool[1].clone(),
                    mute.clone(),
                ],
                "unknown",
            ),
            (
                vec![
                    started(),
                    user("x"),
                    said("done"),
                    complete(),
                    started(),
                    user("y"),
                    mute.clone(),
                ],
                "unknown",
            ),
            // An answer without a word is an answer.
            (vec![started(), user("x"), said(""), mute.clone()], "finished"),
            (vec![started(), user("<user_shell_command>\nls"), mute.clone()], "finished"),
            (vec![started(), json!({"type": "context_compacted"}), mute.clone()], "finished"),
            (vec![started(), user("x"), newer], "finished"),
            (
                vec![started(), user("x"), json!({"type": "task_complete", "turn_id": "t"})],
                "finished",
            ),
        ];
        for (lines, outcome) in cases {
            let home = home();
            let path = rollout(&home, A, &lines);
            let listed = list(&home);
            let row = listed.session(A);
            let told = (&row["status"], &row["outcome"]);
            assert_eq!(told, (&"stopped".into(), &outcome.into()), "{lines:?}");
            // Whatever the outcome was, the thread is idle while a process has it open.
            let _agent = opener(&home, &["resume"], &[&path]);
            assert_eq!(list(&home).session(A)["status"], "idle", "{lines:?}");
        }
    });
}
