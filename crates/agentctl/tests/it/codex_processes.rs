//! Which Codex processes are sessions: wrappers, subcommands, clients of a server, and homes that are named
//! relative to the directory of a process.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::codex::{A, exec, lock, rollout, started};
use crate::home;

fn list(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

fn start(home: &TestHome, words: &[&str]) -> Agent {
    let mut agent = home.agent("codex", "ws", words);
    agent.ready();
    agent
}

/// W12: a program called `codex` that waits for the real one.
#[test]
fn a_wrapper_that_waits_for_codex_is_no_session_and_no_doubt() {
    sandboxed(|| {
        for words in [&["exec"][..], &["resume"], &[]] {
            let home = home();
            rollout(&home, A, &[started()]);
            let real = home.at("real/codex");
            std::fs::copy(testkit::fake_agent(), &real).expect("copied");
            let script = format!(
                "{} {} lock {} stay; true",
                real.display(),
                words.join(" "),
                lock(&home, A)
            );
            let mut wrapper = start(&home, &[words, &["start", &script]].concat());
            let row = eventually("the thread is served", || {
                let rows = list(&home).sessions();
                let served = rows.iter().find(|row| row["id"] == A && row["status"] == "running");
                served.filter(|_| rows.len() == 1).cloned()
            });
            assert_ne!(row["pid"], wrapper.pid(), "{words:?}");
            wrapper.kill();
            let real = row["pid"].to_string();
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args(["-KILL", &real]).status().expect("kill").success());
        }
    });
}

/// W12: a Codex that a tool of another Codex started is no wrapped one: tools run in a session of their own.
#[test]
fn a_codex_below_a_tool_of_another_one_hides_nothing() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let real = home.at("real/codex");
        std::fs::copy(testkit::fake_agent(), &real).expect("copied");
        let script = format!("setsid {} exec lock {} stay", real.display(), lock(&home, A));
        let ephemeral = start(&home, &["exec", "--ephemeral", "start", &script]);
        eventually("both are rows", || {
            let rows = list(&home).sessions();
            let pids: Vec<&Value> = rows.iter().map(|row| &row["pid"]).collect();
            (rows.len() == 2 && pids.contains(&&ephemeral.pid().into())).then_some(())
        });
    });
}

/// W14: `CODEX_HOME=cfg` is below the directory of the process.
#[test]
fn a_relative_home_is_below_the_directory_of_its_process() {
    sandboxed(|| {
        let mut home = home();
        let path = home.write(&format!("ws/cfg/thread-writer-locks/{A}.lock"), "");
        home.set("CODEX_HOME", "cfg");
        let agent = start(&home, &["lock", path.to_str().expect("utf-8")]);
        home.set("CODEX_HOME", "");
        let row = list(&home).session(A);
        assert_eq!((&row["status"], &row["pid"]), (&"idle".into(), &agent.pid().into()));
        assert_eq!(row["root"], home.path().join("ws/cfg").to_string_lossy().as_ref());
    });
}

/// W15: a terminal at its trust question, beside servers that it is no client of.
#[test]
fn only_a_server_that_a_terminal_is_connected_to_hides_it() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir_all(home.path().join(".codex")).expect("made");
        let rows_of = |home: &TestHome, pid: u32| {
            list(home).sessions().into_iter().filter(|row| row["pid"] == pid).count()
        };
        let terminal = start(&home, &[]);
        assert_eq!(rows_of(&home, terminal.pid()), 1, "alone");
        let _editor = start(&home, &["app-server"]);
        assert_eq!(rows_of(&home, terminal.pid()), 1, "beside a server on stdio");
        let socket = home.at("run/s.sock");
        let socket = socket.to_str().expect("utf-8");
        let listens = format!("unix://{socket}");
        let _server = start(&home, &["app-server", "--listen", &listens, "listen", socket]);
        assert_eq!(rows_of(&home, terminal.pid()), 1, "beside a server that it is no client of");
        let client = start(&home, &["connect", socket]);
        assert_eq!(rows_of(&home, client.pid()), 0, "its thread lives in the server");
        assert_eq!(rows_of(&home, terminal.pid()), 1, "the other one is a client still of none");
        // It is the client of a server at any address.
        let remote = start(&home, &["--remote", "ws://127.0.0.1:9"]);
        assert_eq!(rows_of(&home, remote.pid()), 0);
    });
}

/// W16: subcommands that serve, query or repair something are no sessions.
#[test]
fn subcommands_are_no_sessions_wherever_they_stand() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir_all(home.path().join(".codex")).expect("made");
        let others: [&[&str]; 24] = [
            &["exec-server"],
            &["remote-control"],
            &["agents"],
            &["archive", A],
            &["unarchive", A],
            &["delete", A],
            &["a"],
            &["apply"],
            &["cloud"],
            &["cloud-tasks"],
            &["migrate-rollouts"],
            &["migrate-nfs-db"],
            &["stdio-to-uds", "x"],
            &["responses-api-proxy"],
            &["app-server", "proxy"],
            &["mcp", "list"],
            &["-c", "x=y", "exec-server"],
            &["--search", "--model=x", "agents"],
            &["--enable", "exec", "--remote-auth-token-env", "exec", "mcp-server"],
            &["-p", "exec", "-C", "exec", "login"],
            // Codex takes the first word for a prompt and the second for a subcommand.
            &["exec it", "delete"],
            &["--some-option", "its value", "debug"],
            &["exec", "--help"],
            &["--version"],
        ];
        for words in others {
            let _agent = start(&home, words);
            assert_eq!(list(&home).sessions(), Vec::<Value>::new(), "{words:?}");
        }
        let sessions: [(&[&str], &str); 8] = [
            (&["e"], "running"),
            (&["-c", "agents", "exec"], "running"),
            (&["review"], "running"),
            (&["say hello", "exec"], "running"),
            (&["fork"], "unknown"),
            // Codex takes all that follows for images.
            (&["-i", "x.png", "exec-server"], "unknown"),
            (&["--", "exec-server"], "unknown"),
            (&["delete the file"], "unknown"),
        ];
        for (words, status) in sessions {
            let agent = start(&home, words);
            let rows = list(&home).sessions();
            assert_eq!(rows.len(), 1, "{words:?}");
            let told = (&rows[0]["status"], &rows[0]["pid"]);
            assert_eq!(told, (&status.into(), &agent.pid().into()), "{words:?}");
        }
    });
}

/// W13: the program is recognised by its file. A link of another name is Codex; its own helpers are
/// not.
#[test]
fn codex_is_recognised_by_its_program_file() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let path = lock(&home, A);
        drop(home.agent("codex", "ws", &["exit", "0"]));
        for (name, is_session) in [
            ("cx", true),
            ("codex-0.100", true),
            ("codex-linux-sandbox", false),
            ("apply_patch", false),
        ] {
            let mut command = std::process::Command::new("bash");
            let line = format!("exec -a {name} {} exec", home.path().join("bin/codex").display());
            command.args(["-c", &line]).env_clear().env("HOME", home.path());
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().expect("started");
            let mut said = String::new();
            let out = child.stdout.as_mut().expect("piped");
            std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said)
                .expect("read");
            let pids: Vec<Value> =
                list(&home).sessions().iter().map(|row| row["pid"].clone()).collect();
            assert_eq!(pids.contains(&child.id().into()), is_session, "{name}: {pids:?}");
            drop(child.stdin.take());
            child.wait().expect("reaped");
        }
        // Of the releases' own names.
        let mut release =
            home.agent("codex-x86_64-unknown-linux-musl", "ws", &["exec", "lock", &path]);
        release.ready();
        assert_eq!(list(&home).session(A)["pid"], release.pid());
    });
}

/// A terminal with a thread of its own keeps its row, no matter which servers run.
#[test]
fn a_terminal_with_a_lock_has_its_row_beside_a_server_it_is_connected_to() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        let socket: PathBuf = home.at("run/s.sock");
        let socket = socket.to_str().expect("utf-8");
        let listens = format!("unix://{socket}");
        let _server = start(&home, &["app-server", "--listen", &listens, "listen", socket]);
        let terminal = exec(&home, &[A], &["connect", socket]);
        assert_eq!(list(&home).session(A)["pid"], terminal.pid());
    });
}
