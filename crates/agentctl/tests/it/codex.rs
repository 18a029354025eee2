//! Codex alive: locks held by real processes, and an app-server that speaks its own protocol.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::{assert_list_equals_status, fixtures_dir, home};

pub(crate) const A: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";
pub(crate) const B: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298c0";

pub(crate) fn lock(home: &TestHome, id: &str) -> String {
    home.at(&format!(".codex/thread-writer-locks/{id}.lock")).to_string_lossy().into_owned()
}

pub(crate) fn rollout(home: &TestHome, id: &str, payloads: &[Value]) -> PathBuf {
    let meta = json!({"id": id, "session_id": id, "cwd": home.path(), "timestamp": "2026-11-15T07:53:25.730Z", "originator": "codex_exec", "source": "exec"});
    let mut text = format!(
        "{}\n",
        json!({"timestamp": "2026-11-15T07:53:25.730Z", "ordinal": 0, "type": "session_meta", "payload": meta})
    );
    for (index, payload) in payloads.iter().enumerate() {
        let kind = match payload["type"].as_str() {
            Some("function_call" | "function_call_output" | "message") => "response_item",
            _ => "event_msg",
        };
        let line = json!({"timestamp": format!("2026-11-15T07:54:{index:02}.000Z"), "ordinal": index + 1, "type": kind, "payload": payload});
        text.push_str(&format!("{line}\n"));
    }
    home.write(&format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-53-25-{id}.jsonl"), text)
}

pub(crate) fn asked(text: &str) -> Value {
    json!({"type": "item_completed", "item": {"type": "UserMessage", "content": [{"type": "text", "text": text}]}})
}

pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    json!({"type": "function_call", "name": name, "call_id": "c1", "arguments": arguments.to_string()})
}

pub(crate) fn started() -> Value {
    json!({"type": "task_started", "turn_id": "t"})
}

pub(crate) fn exec(home: &TestHome, ids: &[&str], before: &[&str]) -> Agent {
    let locks: Vec<String> = ids.iter().map(|id| lock(home, id)).collect();
    let mut script: Vec<&str> = before.to_vec();
    for path in &locks {
        script.extend(["lock", path]);
    }
    let mut agent = home.agent("codex", "ws", &script);
    agent.ready();
    agent
}

fn list(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

#[test]
fn the_lock_shows_life_and_the_tail_shows_the_state() {
    sandboxed(|| {
        let complete = json!({"type": "task_complete", "turn_id": "t"});
        let question = json!({"questions": [{"question": "Which?"}]});
        let cases = [
            (vec![], "idle", "-", Value::Null),
            (vec![started()], "running", "-", Value::Null),
            (
                vec![started(), asked("x"), call("exec_command", &json!({"cmd": "make test"}))],
                "running",
                "tool",
                "exec_command: make test".into(),
            ),
            (
                vec![
                    started(),
                    call("exec_command", &json!({"cmd": "ls"})),
                    json!({"type": "function_call_output", "call_id": "c1", "output": "a"}),
                ],
                "running",
                "-",
                Value::Null,
            ),
            (
                vec![started(), call("request_user_input", &question)],
                "waiting",
                "question",
                "Which?".into(),
            ),
            (vec![started(), complete.clone()], "idle", "-", Value::Null),
            (vec![started(), complete, started()], "running", "-", Value::Null),
            (
                vec![started(), json!({"type": "turn_aborted", "reason": "interrupted"})],
                "idle",
                "-",
                Value::Null,
            ),
        ];
        for (lines, status, kind, detail) in cases {
            let home = home();
            rollout(&home, A, &lines);
            // A terminal in its own process; `exec` is another matter before its prompt has arrived.
            let agent = exec(&home, &[A], &[]);
            let row = list(&home).session(A);
            assert_eq!(row["status"], status, "{lines:?}");
            assert_eq!(row["reason"]["kind"].as_str().unwrap_or("-"), kind, "{lines:?}");
            assert_eq!(row["reason"]["detail"], detail, "{lines:?}");
            assert_eq!((&row["pid"], &row["hosted"]), (&agent.pid().into(), &false.into()));
            assert_list_equals_status(&home);
        }
    });
}

#[test]
fn a_live_thread_whose_rollout_may_be_hidden_is_unknown_not_idle() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let _agent = exec(&home, &[A], &["exec"]);
        assert_eq!(list(&home).session(A)["status"], "running");
        let day = home.path().join(".codex/sessions/2026/11/15");
        std::fs::rename(&day, home.path().join("elsewhere")).expect("moved");
        std::fs::write(&day, "a file in the directory's place").expect("written");
        let listed = home.run(&["list", "--json"]);
        assert_eq!(
            (&listed.session(A)["status"], listed.code),
            (&"unknown".into(), Some(3)),
            "{}",
            listed.stderr
        );
        std::fs::remove_file(&day).expect("removed");
        std::os::unix::fs::symlink(home.path().join("elsewhere"), &day).expect("linked");
        let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert!(listed.stderr.contains("2026/11/15 was skipped"), "{}", listed.stderr);
    });
}

#[test]
fn an_idle_thread_in_a_server_is_history() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        let _agent = exec(&home, &[A], &["app-server"]);
        assert!(
            home.run(&["list", "--json"]).sessions().is_empty(),
            "it has no process of its own"
        );
        assert_eq!(list(&home).session(A)["status"], "idle");
        assert_eq!(home.run(&["status", A, "--json"]).json()["status"], "idle");
    });
}

#[test]
fn the_lock_file_alone_proves_nothing() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), call("exec_command", &json!({"cmd": "sleep 60"}))]);
        let mut agent = exec(&home, &[A], &["exec"]);
        assert_eq!(list(&home).session(A)["status"], "running");
        agent.kill();
        assert!(PathBuf::from(lock(&home, A)).exists());
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["outcome"], &row["pid"]),
            (&"stopped".into(), &"killed".into(), &Value::Null)
        );
        assert!(home.run(&["list", "--json"]).sessions().is_empty());
        assert_list_equals_status(&home);
    });
}

#[test]
fn the_holder_of_a_thread_is_found_by_lock_and_descriptor() {
    sandboxed(|| {
        // `lock` and `open` are the fake agent's verbs. If the kernel's list of locks misses one, the
        // open file shows the holder.
        for (name, verb) in [("codex", "lock"), ("codex", "open")] {
            let home = home();
            rollout(&home, A, &[started()]);
            let path = home.write(&format!(".codex/thread-writer-locks/{A}.lock"), "");
            let script = [verb, path.to_str().expect("utf-8")];
            let mut agent = home.agent(name, "ws", &script);
            agent.ready();
            let row = list(&home).session(A);
            let told = (&row["status"], &row["pid"]);
            assert_eq!(told, (&"running".into(), &agent.pid().into()), "{name} {verb}");
            assert_list_equals_status(&home);
        }
    });
}

#[test]
fn an_unprompted_terminal_is_known_by_its_lock_only() {
    sandboxed(|| {
        let home = home();
        let agent = exec(&home, &[A], &[]);
        let row = home.run(&["list", "--json"]).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"idle".into(), &agent.pid().into()));
        assert_eq!(row["cwd"], home.path().join("ws").to_string_lossy().as_ref());
        let logs = home.run(&["logs", A]);
        assert_eq!(logs.code, Some(1));
        assert!(logs.stderr.contains("has not written a conversation yet"), "{}", logs.stderr);
        assert_list_equals_status(&home);
    });
}

#[test]
fn exec_is_starting_until_its_prompt_has_arrived() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir_all(home.path().join(".codex")).expect("made");
        let mut early = home.agent("codex", "ws", &["exec", "prompt"]);
        early.ready();
        let rows = list(&home).sessions();
        assert_eq!(rows.len(), 1);
        assert_eq!((&rows[0]["id"], &rows[0]["pid"]), (&Value::Null, &early.pid().into()));
        assert_eq!(
            (&rows[0]["status"], &rows[0]["reason"]["kind"]),
            (&"running".into(), &"starting".into())
        );
        drop(early);
        // It holds the thread, but the turn it was started for has not begun.
        for lines in [vec![], vec![started(), json!({"type": "task_complete"})]] {
            rollout(&home, A, &lines);
            let _agent = exec(&home, &[A], &["exec", "resume"]);
            let row = list(&home).session(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"]),
                (&"running".into(), &"starting".into())
            );
            assert_list_equals_status(&home);
        }
        // Entries that a process writes before its turn begins are younger than the process: the head of a
        // new rollout, and the settings of a thread that it resumes.
        let settings = json!({"type": "thread_settings_applied"});
        let over = [started(), json!({"type": "task_complete"}), settings];
        for (lines, young) in [(&[][..], "2026-11-15T07:53"), (&over[..], "2026-11-15T07:54:02")] {
            let path = rollout(&home, A, lines);
            let text = std::fs::read_to_string(&path).expect("read");
            let text = text.replace(young, &young.replace("2026", "2126"));
            std::fs::write(&path, text).expect("written");
            let _agent = exec(&home, &[A], &["exec", "prompt"]);
            let row = list(&home).session(A);
            let said = (&row["status"], &row["reason"]["kind"]);
            assert_eq!(said, (&"running".into(), &"starting".into()), "{lines:?}");
            assert_list_equals_status(&home);
        }
    });
}

#[test]
fn only_the_first_word_decides_the_role_of_a_process() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        let terminal = exec(&home, &[A], &["-C", "exec", "-c", "x=app-server"]);
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["hosted"]), (&"idle".into(), &false.into()));
        // The directory of the thread comes from its record, not from its process.
        assert_eq!(row["cwd"], home.path().to_string_lossy().as_ref());
        assert_ne!(row["cwd"], home.path().join("ws").to_string_lossy().as_ref());
        drop(terminal);
        rollout(&home, A, &[started()]);
        let _agent = exec(&home, &[A], &["exec", "-C", "app-server"]);
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["hosted"]), (&"running".into(), &false.into()));
    });
}

#[test]
fn a_first_start_is_seen_before_its_home_is_made() {
    sandboxed(|| {
        let home = home();
        for (name, script) in [("codex", &["exec"][..]), ("claude", &["-p"])] {
            let mut agent = home.agent(name, "ws", script);
            agent.ready();
            let rows = list(&home).sessions();
            assert_eq!(rows.len(), 1, "{name}");
            assert_eq!(
                (&rows[0]["pid"], &rows[0]["status"]),
                (&agent.pid().into(), &"running".into())
            );
        }
    });
}

#[test]
fn a_terminal_without_a_thread_is_unknown() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir_all(home.path().join(".codex")).expect("made");
        let mut terminal = home.agent("codex", "ws", &["resume"]);
        terminal.ready();
        let rows = list(&home).sessions();
        assert_eq!(
            (rows.len(), &rows[0]["status"]),
            (1, &"unknown".into()),
            "starting, or its server is gone"
        );
    });
}

/// Returns where the test listens to answer for a server: the server's process relays its own socket there.
pub(crate) fn behind(socket: &Path) -> PathBuf {
    PathBuf::from(format!("{}.behind", socket.display()))
}

/// Starts a server that holds these threads and listens on this socket.
pub(crate) fn server(home: &TestHome, ids: &[&str], socket: &Path) -> Agent {
    let listen = format!("unix://{}", socket.display());
    let socket = socket.to_str().expect("utf-8");
    exec(home, ids, &["app-server", "--listen", &listen, "relay", socket])
}

/// An app-server's socket: answers `initialize` and `thread/read` with these statuses, by thread.
fn serve(path: PathBuf, statuses: Value) {
    serve_below(path, "/srv".into(), statuses);
}

/// As above, each thread in a directory of its own below this one.
pub(crate) fn serve_below(path: PathBuf, base: String, statuses: Value) {
    let listener = UnixListener::bind(behind(&path)).expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(mut socket) = tungstenite::accept(stream) else { continue };
            while let Ok(message) = socket.read() {
                let Ok(text) = message.to_text() else { continue };
                let Ok(request) = serde_json::from_str::<Value>(text) else { continue };
                let result = match request["method"].as_str() {
                    Some("initialize") => json!({"codexHome": "x"}),
                    Some("thread/read") => {
                        assert_eq!(
                            request["params"].as_object().map(serde_json::Map::len),
                            Some(1),
                            "never asks for turns"
                        );
                        let id = request["params"]["threadId"].as_str().unwrap_or_default();
                        json!({"thread": {"id": id, "cwd": format!("{base}/{}", &id[34..]), "status": statuses[id]}})
                    }
                    _ => continue,
                };
                // Something the reader must pass over.
                let noise = json!({"method": "thread/status/changed", "params": {}});
                for reply in [noise, json!({"id": request["id"], "result": result})] {
                    if socket.send(tungstenite::Message::text(reply.to_string())).is_err() {
                        break;
                    }
                }
            }
        }
    });
}

#[test]
fn only_the_server_knows_which_of_its_threads_wait() {
    sandboxed(|| {
        let home = home();
        rollout(
            &home,
            A,
            &[started(), asked("x"), call("exec_command", &json!({"cmd": "rm -r build"}))],
        );
        rollout(&home, B, &[started(), json!({"type": "task_complete"})]);
        let socket = home.at("run/s.sock");
        let waiting = json!({"type": "active", "activeFlags": ["waitingOnApproval"]});
        serve(socket.clone(), json!({A: waiting, B: {"type": "idle"}}));
        let agent = server(&home, &[A, B], &socket);

        let listed = list(&home);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        let (a, b) = (listed.session(A), listed.session(B));
        assert_eq!(
            (&a["status"], &a["reason"]["kind"], &a["reason"]["detail"]),
            (&"waiting".into(), &"permission".into(), &"exec_command: rm -r build".into())
        );
        assert_eq!((&b["status"], &b["reason"]), (&"idle".into(), &Value::Null));
        for row in [&a, &b] {
            assert_eq!((&row["hosted"], &row["pid"]), (&true.into(), &agent.pid().into()));
        }
        assert_eq!(a["cwd"], "/srv/bf", "the server's own directory says nothing of its threads");
        assert_list_equals_status(&home);
    });
}

#[test]
fn a_server_that_does_not_answer_is_a_fault_and_claims_nothing() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), asked("x"), call("exec_command", &json!({"cmd": "ls"}))]);
        let socket = home.at("run/s.sock");
        // It accepts and never answers; a quarter of this it is waited for.
        crate::configure(&home, &[("live", "12s")], "");
        let _listener = UnixListener::bind(behind(&socket)).expect("bound");
        let _agent = server(&home, &[A], &socket);
        let listed = list(&home);
        assert_eq!(listed.code, Some(3));
        assert!(
            listed.stderr.contains("did not say whether anyone is needed"),
            "{}",
            listed.stderr
        );
        assert_eq!(listed.json()["faults"][0]["code"], "unreachable");
        let row = listed.session(A);
        assert_eq!((&row["status"], &row["reason"]["kind"]), (&"running".into(), &"tool".into()));
    });
}

#[test]
fn a_lock_held_outside_our_pid_namespace_is_unknown() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        let _agent = exec(&home, &[A], &["exec"]);
        let mut inner = std::process::Command::new("unshare");
        inner
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(env!("CARGO_BIN_EXE_agentctl"));
        inner.args(["list", "-a", "--since", "all", "--json"]).env_clear().env("HOME", home.path());
        let output = inner.output().expect("runs");
        let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let row = &listed["sessions"][0];
        assert_eq!(
            (&row["id"], &row["status"], &row["reason"]["kind"]),
            (&A.into(), &"unknown".into(), &"elsewhere".into())
        );
    });
}

#[test]
fn a_lock_on_a_file_of_the_same_number_elsewhere_is_another_lock() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        // The kernel's list of locks names files by number, and two fresh file systems count alike.
        let places = [".codex/thread-writer-locks", "elsewhere"].map(|name| {
            let place = home.path().join(name);
            std::fs::create_dir_all(&place).expect("made");
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "tmpfs"]).arg(&place);
            assert!(mount.status().expect("mount").success());
            place
        });
        let ours = home.write(&format!(".codex/thread-writer-locks/{A}.lock"), "");
        let theirs = home.write("elsewhere/theirs.lock", "");
        let number = |path: &PathBuf| std::fs::metadata(path).expect("there").ino();
        assert_eq!(number(&ours), number(&theirs), "this test would prove nothing");
        let script = ["lock", theirs.to_str().expect("utf-8")];
        let mut stranger = home.agent("stranger", "ws", &script);
        stranger.ready();
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"stopped".into(), &Value::Null));
        drop(stranger);
        for place in places {
            let gone = std::process::Command::new("umount").arg(place).status();
            assert!(gone.expect("umount").success());
        }
    });
}

#[test]
fn a_subagent_of_a_live_thread_lives_under_it() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        let parent = "01a1de39-552e-7a73-942c-691cb40a2da1";
        let child = "01a1de39-5612-7e93-becf-5f068a75076c";
        let agent = exec(&home, &[parent, child], &["exec"]);
        let top = home.run(&["list", "--json"]).sessions();
        assert_eq!(
            top.iter().map(|s| s["id"].as_str().unwrap_or("-")).collect::<Vec<_>>(),
            [parent]
        );
        let tree = home.run(&["list", "--tree", "--json"]).sessions();
        assert_eq!(tree.len(), 2);
        assert_eq!(
            (&tree[1]["id"], &tree[1]["parent"], &tree[1]["pid"]),
            (&child.into(), &parent.into(), &agent.pid().into())
        );
        for name in [child, "01a1de39-5612"] {
            let alone = home.run(&["status", name, "--json"]).json();
            assert_eq!(
                crate::comparable(&alone),
                crate::comparable(&tree[1]),
                "what the tree shows can be asked for"
            );
        }
    });
}

#[test]
fn the_index_of_a_live_writer_is_read_fresh_and_left_alone() {
    sandboxed(|| {
        let home = home();
        rollout(
            &home,
            A,
            &[started(), asked("from the rollout"), json!({"type": "task_complete"})],
        );
        let path = home.path().join(".codex/state_5.sqlite");
        let writer = rusqlite::Connection::open(&path).expect("made");
        writer.pragma_update(None, "journal_mode", "WAL").expect("wal");
        writer.execute_batch("create table threads(id text primary key, cwd text, title text, name text, first_user_message text, model text, created_at_ms integer);").expect("a table");
        writer.execute("insert into threads values(?1, '/srv', 'from the rollout', 'Release', 'from the rollout', 'gpt-x', 1)", [A]).expect("a row");
        let row = list(&home).session(A);
        assert_eq!(
            (&row["name"], &row["title"], &row["model"], &row["cwd"]),
            (&"Release".into(), &"Release".into(), &"gpt-x".into(), &"/srv".into())
        );
        assert_eq!(
            home.run(&["status", "Release", "--json"]).json()["id"],
            A,
            "found by its exact name"
        );
        writer.execute_batch("update threads set name = 'Hotfix'").expect("the writer goes on");
        assert_eq!(list(&home).session(A)["name"], "Hotfix");
        drop(writer);
        eventually("the index is at rest", || {
            (!home.path().join(".codex/state_5.sqlite-wal").exists()).then_some(())
        });
        assert_eq!(list(&home).session(A)["name"], "Hotfix");
        let left: Vec<_> = std::fs::read_dir(home.path().join(".codex"))
            .expect("listed")
            .flatten()
            .map(|e| e.file_name())
            .filter(|n| n.to_string_lossy().contains("sqlite-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    });
}
