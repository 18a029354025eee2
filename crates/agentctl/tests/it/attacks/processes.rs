//! Class: processes that are built to blind, hang or crash a look (S5, S11, S12, N2, N3).

use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Agent, TestHome, sandboxed};

use crate::claude_code::{self, Claude};
use crate::codex::{A, B, exec, lock, rollout, started};
use crate::launched::launch;
use crate::opencode::{self, DATA, Store};
use crate::{configure, daemon, home};

/// Asserts that other agents are not affected: their sessions are listed, started and stopped.
fn assert_others_go_on(home: &TestHome, what: &str) {
    let id = launch(home, "elsewhere", "x [[tool:sleep 1000]]", &[]);
    let listed = home.run(&["list", "--json"]);
    assert_eq!(listed.session(&id)["status"], "running", "{what}: {}", listed.stderr);
    let stopped = home.run(&["stop", &id]);
    assert_eq!(stopped.code, Some(0), "{what}: {}{}", stopped.stdout, stopped.stderr);
    let ended = home.run(&["status", &format!("demo:{id}"), "--json"]);
    assert_eq!(ended.json()["status"], "stopped", "{what}: {}", ended.stderr);
}

/// The faults of a listing: adapter, code, and whether a whole source is missing.
fn faults(listed: &testkit::Output) -> Vec<(String, String, bool)> {
    let all = listed.json()["faults"].as_array().cloned().unwrap_or_default();
    let word = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    all.iter().map(|f| (word(&f["adapter"]), word(&f["code"]), f["root"].is_null())).collect()
}

fn fifo(path: &std::path::Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// S5: processes that have unmapped their arguments are not waited for, one by one or at all.
#[test]
fn processes_without_arguments_hide_no_other_process() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "10s"), ("all", "10s")], "");
        rollout(&home, A, &[started()]);
        let _codex = exec(&home, &[A], &["exec"]);
        let names = ["claude", "codex", "opencode", "pi"];
        let mut hidden: Vec<Agent> =
            (0..40).map(|n| home.agent(names[n % 4], "ws", &["hide"])).collect();
        for agent in &mut hidden {
            agent.ready();
        }
        let listed = home.run(&["list", "--json"]);
        let missing: Vec<_> = faults(&listed).into_iter().filter(|f| f.2).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(listed.session(A)["status"], "running", "{}", listed.stderr);
        assert_others_go_on(&home, "hidden arguments");
        let pid = daemon::started(&home);
        let told = home.run(&["list", "-a", "--json"]);
        assert_eq!(told.session(A)["status"], "running", "{}", told.stderr);
        assert!(crate::stop::lives(pid));
    });
}

/// S11: a FIFO in place of a version file hides no session, and no command hangs on it.
#[test]
fn a_fifo_beside_a_script_is_not_waited_for() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "5s"), ("all", "5s")], "");
        let script = home.write("ws/p/pi", "");
        fifo(&home.at("ws/p/package.json"));
        let script = script.to_string_lossy().into_owned();
        let mut agent = home.agent("node", "ws", &[&script]);
        agent.ready();
        let listed = home.run(&["list", "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        assert_others_go_on(&home, "a FIFO");
        let doctor = home.run(&["doctor", "--json"]);
        assert_eq!(doctor.code, Some(0), "{}", doctor.stderr);
    });
}

/// S11: a server that never accepts, and whose queue is full, costs only the facts that it alone knows.
#[test]
fn a_server_that_never_accepts_delays_only_its_own_answer() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "5s"), ("all", "5s")], "");
        rollout(&home, A, &[started()]);
        rollout(&home, B, &[started()]);
        let _honest = exec(&home, &[B], &["exec"]);
        let socket = home.at("s").to_string_lossy().into_owned();
        let lock = lock(&home, A);
        let listen = format!("unix://{socket}");
        let script = ["app-server", "--listen", &listen, "deaf", &socket, "lock", &lock];
        let mut server = home.agent("codex", "ws", &script);
        server.ready();
        let listed = home.run(&["list", "--json"]);
        assert_eq!(listed.session(B)["status"], "running", "{}", listed.stderr);
        assert_eq!(listed.session(A)["hosted"], true, "{}", listed.stderr);
        assert!(faults(&listed).iter().all(|f| !f.2), "{}", listed.stderr);
        assert_others_go_on(&home, "a server that never accepts");
    });
}

/// S11: many servers that accept and never answer are asked in parallel, and cost only the facts that
/// they alone know.
#[test]
fn servers_that_never_answer_are_not_waited_for_one_after_the_other() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "8s"), ("all", "8s")], "");
        let store = Store::new(&home, &format!("{DATA}/opencode.db"));
        store.session(opencode::A, "/w", None);
        let mut silent: Vec<Agent> = Vec::new();
        for run in ["aaaa", "bbbb", "cccc", "dddd", "eeee"] {
            let line = opencode::works_on(run, opencode::A);
            silent.push(opencode::agent(&home, &["serve", "mute"], &[line]));
        }
        let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
        let told = faults(&listed);
        assert!(told.iter().all(|f| !f.2), "{}", listed.stderr);
        assert!(told.iter().any(|f| f.1 == "unreachable"), "{}", listed.stderr);
        assert_eq!(listed.session(opencode::A)["hosted"], true);
        assert_others_go_on(&home, "silent servers");
    });
}

/// S11: homes that only processes name are bounded, and the oldest are kept.
#[test]
fn a_crowd_of_homes_is_bounded_and_hides_no_older_one() {
    sandboxed(|| {
        let home = home();
        let start = |name: &str, script: &[&str]| {
            let mut command = home.command(&[]);
            let place = home.at(&format!("homes/{name}/x"));
            let place = place.parent().expect("a folder").to_owned();
            std::fs::create_dir_all(&place).expect("made");
            let mut agent = Command::new(home.path().join("bin/codex"));
            agent.args(script).env_clear().current_dir(&place);
            for (name, value) in command.current_dir("/").get_envs() {
                agent.env(name, value.unwrap_or_default());
            }
            agent.env("CODEX_HOME", &place).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut agent = Agent { child: agent.spawn().expect("started") };
            agent.ready();
            agent
        };
        drop(home.agent("codex", "ws", &[]));
        let first = home.path().join("homes/first");
        let lock = first.join(format!("thread-writer-locks/{A}.lock"));
        let lock = lock.to_string_lossy().into_owned();
        let _first = start("first", &["exec", "lock", &lock]);
        let _crowd: Vec<Agent> = (0..100).map(|n| start(&n.to_string(), &["exec"])).collect();
        let listed = home.run(&["list", "--json"]);
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert!(listed.stderr.contains("name 101 homes"), "{}", listed.stderr);
        assert_eq!(listed.session(A)["root"], first.to_string_lossy().as_ref());
        assert_eq!(listed.sessions().len(), 64);
    });
}

/// S12: a chain of subagents of any length is shown, by the program and by the daemon.
#[test]
fn a_long_chain_of_subagents_overflows_no_stack() {
    const LENGTH: u32 = 20_000;
    sandboxed(|| {
        let home = home();
        let folder = home.at(".codex/sessions/2026/11/15/x");
        let folder = folder.parent().expect("a folder");
        let id = |n: u32| format!("01a1de32-5fe1-74e1-aa0a-{n:012x}");
        for n in 0..LENGTH {
            let mut meta = json!({"id": id(n), "cwd": "/w", "source": "exec"});
            if n > 0 {
                meta["source"] =
                    json!({"subagent": {"thread_spawn": {"parent_thread_id": id(n - 1)}}});
                meta["parent_thread_id"] = json!(id(n - 1));
            }
            let line = json!({"timestamp": "2026-11-15T07:53:25.730Z", "type": "session_meta", "payload": meta});
            let name = format!("rollout-2026-11-15T07-53-25-{}.jsonl", id(n));
            std::fs::write(folder.join(name), format!("{line}\n")).expect("written");
        }
        let args = ["list", "-a", "--since", "all", "--tree"];
        let shown = home.run(&args);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        assert_eq!(shown.stdout.lines().count(), LENGTH as usize + 1, "each once, and a head");
        let pid = daemon::started(&home);
        let told = home.run(&args);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert_eq!(told.stdout, shown.stdout);
        assert!(crate::stop::lives(pid), "the daemon died");
    });
}

/// N2: torn and empty live records of Claude Code cost no time, in a home that a decoy names and in the
/// user's own: a record of a pid that is no living Claude Code is not read again, and the records of living
/// ones are read again together.
#[test]
fn torn_records_of_claude_hide_no_session() {
    sandboxed(|| {
        for (torn, folder) in [("{", "ws/.c"), ("", "ws/.c"), ("{", ".claude")] {
            let mut claude = Claude::new();
            configure(&claude.home, &[("live", "6s"), ("all", "6s")], "");
            let _user = claude.live(claude_code::A, &json!({"status": "busy"}));
            let decoy_home = claude.home.path().join(folder).to_string_lossy().into_owned();
            claude.home.set("CLAUDE_CONFIG_DIR", decoy_home.clone());
            let record = format!("{decoy_home}/sessions/{{pid}}.json");
            let script = ["write", &record, torn];
            let mut decoys: Vec<Agent> =
                (0..20).map(|_| claude.home.agent("claude", "decoy", &script)).collect();
            for decoy in &mut decoys {
                decoy.ready();
            }
            claude.home.set("CLAUDE_CONFIG_DIR", "");
            for pid in 100_000..100_400 {
                claude.home.write(&format!("{folder}/sessions/{pid}.json"), torn);
            }
            for command in [&["list", "--json"][..], &["list", "-a", "--json"]] {
                let listed = claude.home.run(command);
                let row = listed.session(claude_code::A);
                assert_eq!(row["status"], "running", "{folder} `{torn}`: {}", listed.stderr);
                let told = faults(&listed);
                assert!(told.iter().all(|f| f.1 != "timeout"), "{folder} `{torn}`: {told:?}");
                assert!(told.len() < 30, "{folder} `{torn}`: {} faults", told.len());
            }
            assert_others_go_on(&claude.home, folder);
        }
    });
}

/// N3: a decoy with thousands of open rollouts, and decoys with thousands of other descriptors, cost their
/// own rows and no session of the user's home.
#[test]
fn thousands_of_open_files_hide_no_codex_session() {
    sandboxed(|| {
        let mut home = home();
        configure(&home, &[("live", "20s"), ("all", "20s")], "");
        rollout(&home, A, &[started()]);
        let _user = exec(&home, &[A], &["exec"]);
        let crowds = [
            ("ws/.x", 1, "rollouts", "19000"),
            ("ws/.x", 6, "same", "19000"),
            (".codex", 1, "rollouts", "5000"),
        ];
        for (place, many, descriptors, count) in crowds {
            let folder = home.path().join(place);
            let rollouts = folder.join("sessions/2026/11/15");
            std::fs::create_dir_all(&rollouts).expect("made");
            home.set("CODEX_HOME", folder.to_string_lossy());
            let rollouts = rollouts.to_string_lossy().into_owned();
            let script = ["exec", "crowd", descriptors, count, &rollouts];
            let mut decoys: Vec<Agent> =
                (0..many).map(|_| home.agent("codex", "decoy", &script)).collect();
            for decoy in &mut decoys {
                decoy.ready();
            }
            home.set("CODEX_HOME", "");
            let listed = home.run(&["list", "--json"]);
            let row = listed.session(A);
            assert_eq!(row["status"], "running", "{place} {descriptors}: {}", listed.stderr);
            let told = faults(&listed);
            assert!(told.iter().all(|f| f.1 != "timeout"), "{place} {descriptors}: {told:?}");
            let decoy = decoys[0].pid();
            let rows = listed.sessions();
            let of_decoy: Vec<_> = rows.iter().filter(|s| s["pid"] == decoy).collect();
            assert_eq!(of_decoy.len(), 1, "{place} {descriptors}: {of_decoy:#?}");
            assert_eq!(of_decoy[0]["status"], "unknown", "{place} {descriptors}");
            assert_others_go_on(&home, descriptors);
        }
    });
}
