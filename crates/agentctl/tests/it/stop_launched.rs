//! Stopping a launched agent: no process is left, and hooks still run.

use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{everyone, folder, launch, script, shims, status};
use crate::stop::{lives, written_pid};
use crate::stop_tree::{AWKWARD, Tree};

/// A script that starts all kinds of evasive processes and stays alive.
fn tool(home: &TestHome, tree: &Tree, last: &str) -> PathBuf {
    let place = tree.directory.display().to_string();
    let mut text = String::new();
    for (name, script) in AWKWARD {
        let script = script.replace("D/", &format!("{place}/"));
        let part = home.write(&format!("parts/{name}.sh"), script);
        text.push_str(&format!("sh {} &\n", part.display()));
    }
    for (name, _) in AWKWARD {
        text.push_str(&format!("until [ -s {place}/{name} ]; do :; done\n"));
    }
    home.write("parts/all.sh", text + last)
}

fn start(home: &TestHome, script: &Path, more: &[&str]) -> String {
    launch(home, "ws", &format!("x [[tool:sh {}]]", script.display()), more)
}

#[test]
fn no_process_of_a_launched_agent_is_left() {
    sandboxed(|| {
        for haste in [None, Some("--force"), Some("--timeout=0s")] {
            let home = home();
            let tree = Tree::new(&home);
            let id = start(&home, &tool(&home, &tree, "wait\n"), &[]);
            assert_eq!(tree.living().len(), 8);
            let mut args = vec!["stop", &id, "--json"];
            args.extend(haste);
            let told = home.run(&args);
            assert_eq!(told.code, Some(0), "{told:?}");
            assert_eq!(told.json()["survivors"], json!([]));
            assert_eq!(tree.living(), Vec::<&str>::new(), "{told:?}");
            assert_eq!(status(&home, &id)["status"], "stopped");
            eventually("the shim ends by itself", || shims().is_empty().then_some(()));
        }
    });
}

#[test]
fn with_its_shim_killed_and_all_folders_wiped_orphans_are_named() {
    sandboxed(|| {
        let home = home();
        let tree = Tree::new(&home);
        let id = start(&home, &tool(&home, &tree, "wait\n"), &[]);
        assert_eq!(tree.living().len(), 8);
        crate::launched::kill(shims()[0].pid);
        eventually("it is gone", || shims().is_empty().then_some(()));
        // The agent and its descendants can be ended without our folders; for its orphans the proof is
        // gone.
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("removed");
        let told = home.run(&["stop", &id, "--json"]);
        assert_eq!(tree.living(), ["daemon", "bare"], "{told:?}");
        assert_eq!(told.code, Some(1), "{told:?}");
        let told = told.json();
        let named = told["survivors"].as_array().expect("a list");
        let named: Vec<&serde_json::Value> = named.iter().map(|s| &s["pid"]).collect();
        let wanted = ["daemon", "bare"].map(|name| json!(tree.pid(name)));
        assert!(named.len() == 2 && wanted.iter().all(|pid| named.contains(&pid)), "{told:#}");
    });
}

#[test]
fn the_hook_of_a_stopped_session_runs_to_its_end() {
    sandboxed(|| {
        let home = home();
        let tree = Tree::new(&home);
        let (fifo, place) = (home.at("hook/go"), home.at("hook/done"));
        assert!(
            std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success()
        );
        let hook = home.at("hook/pid");
        let text = format!(
            "echo $$ > {}; read go < {}; echo $go > {}",
            hook.display(),
            fifo.display(),
            place.display()
        );
        let text = home.write("hook/hook.sh", text);
        let id = start(
            &home,
            &tool(&home, &tree, "wait\n"),
            &["--on-complete", &format!("sh {}", text.display())],
        );
        assert_eq!(tree.living().len(), 8);
        let told = home.run(&["stop", &id, "--json"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert_eq!(tree.living(), Vec::<&str>::new());
        assert!(lives(written_pid(&hook)), "it is no process of the agent's: {told:?}");
        std::fs::write(&fifo, "fine\n").expect("told");
        eventually("the hook is done", || {
            std::fs::read_to_string(&place).ok().filter(|s| s == "fine\n")
        });
    });
}

#[test]
fn a_launch_from_inside_outlives_the_outer_session() {
    sandboxed(|| {
        let home = home();
        let tree = Tree::new(&home);
        let inner = home.at("inner");
        let cwd = folder(&home, "inside");
        let last = format!(
            "{} launch demo -p 'x [[hang]]' --cwd {cwd} > {}\nwait\n",
            env!("CARGO_BIN_EXE_agentctl"),
            inner.display()
        );
        let outer = start(&home, &tool(&home, &tree, &last), &[]);
        let inner = eventually("the inner one is launched", || {
            Some(std::fs::read_to_string(&inner).ok()?.strip_suffix('\n')?.to_owned())
        });
        let told = home.run(&["stop", &outer, "--json"]);
        assert_eq!(told.code, Some(1), "the inner one lives on: {told:?}");
        assert_eq!(told.json()["survivors"].as_array().map(Vec::len), Some(1), "{told:?}");
        assert_eq!(tree.living(), Vec::<&str>::new());
        assert_eq!(status(&home, &inner)["status"], "running", "{told:?}");
        assert_eq!(home.run(&["stop", &inner]).code, Some(0));
        eventually("both shims are gone", || shims().is_empty().then_some(()));
    });
}

/// The agent kills its tool when it is asked to end, and `stop` runs in that tool.
#[test]
fn a_session_that_stops_itself_leaves_no_process() {
    sandboxed(|| {
        let home = home();
        let tree = Tree::new(&home);
        let last = format!(
            "exec {} stop {}\n",
            env!("CARGO_BIN_EXE_agentctl"),
            home.path().join("ws").display()
        );
        let id = start(&home, &tool(&home, &tree, &last), &[]);
        eventually("it has stopped", || {
            Some(status(&home, &id)).filter(|s| s["status"] == "stopped")
        });
        assert_eq!(tree.living(), Vec::<&str>::new());
    });
}

#[test]
fn what_an_earlier_run_of_the_session_left_behind_is_ended_too() {
    sandboxed(|| {
        let home = home();
        let (one, two) = (home.at("pids/one"), home.at("pids/two"));
        std::fs::create_dir_all(home.at("pids")).expect("made");
        let leave = |pid: &Path, before: &str| {
            let text = format!(
                "(setsid {before}sh -c 'echo $$ > {pid}; exec sleep 600' </dev/null >/dev/null 2>&1 &)\n\
                 until [ -s {pid} ]; do :; done",
                pid = pid.display()
            );
            home.write(&format!("{}.sh", pid.display()), text)
        };
        // The second one is an orphan of another session, which stays.
        let id = start(&home, &leave(&one, "env -i "), &["--wait"]);
        let other = launch(
            &home,
            "other",
            &format!("x [[tool:sh {}]]", leave(&two, "").display()),
            &["--wait"],
        );
        let sent = home.run(&["send", &id, "again [[say:ok]]", "--wait"]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        let stopped = home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        assert!(!lives(written_pid(&one)), "{stopped:?}");
        assert!(lives(written_pid(&two)), "{stopped:?}");
        assert_eq!(home.run(&["stop", &other]).code, Some(0));
        assert!(!lives(written_pid(&two)));
        eventually("the shims end by themselves", || shims().is_empty().then_some(()));
    });
}

#[test]
fn the_run_of_an_ended_agent_can_be_removed_while_a_process_that_it_left_behind_lives() {
    sandboxed(|| {
        let home = home();
        let leave = home.write("leave.sh", "setsid sleep 600 </dev/null >/dev/null 2>&1 &\n");
        let id = start(&home, &leave, &["--wait"]);
        assert_eq!(shims().len(), 1, "it stays above the process");
        let pruned = home.run(&["prune", "-n", "--json"]).json();
        assert_eq!(pruned["pruned"].as_array().map(Vec::len), Some(1), "{pruned}");
        let removed = home.run(&["rm", &id]);
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    });
}

#[test]
fn a_launch_that_fails_leaves_other_sessions_inside_it_alone() {
    sandboxed(|| {
        let home = home();
        let tool = home.at("pids/tool");
        // The agent starts a tool and, by hand, another agent; when both run, its launch fails and it stays
        // alive.
        let failed = r#"'{"type":"thread.started","thread_id":"t"}' '{"type":"turn.failed","error":{"message":"no"}}'"#;
        let text = format!(
            "{} demo-agent --session-id inner -p 'x [[hang]]' > {said} &\n\
             setsid sh -c 'echo $$ > {tool}; exec sleep 600' > {} &\n\
             until [ -s {said} ] && [ -s {tool} ]; do sleep 0.02; done\n\
             printf '%s\\n' {failed}\nexec sleep 600",
            env!("CARGO_BIN_EXE_agentctl"),
            home.at("pids/nothing").display(),
            said = home.at("pids/said").display(),
            tool = tool.display(),
        );
        script(&home, "codex", &text);
        let failed = home.run(&["launch", "codex", "--cwd", &folder(&home, "ws"), "-p", "x"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert!(!lives(written_pid(&tool)), "its own are ended: {failed:?}");
        let asleep = |argv: &[String]| argv.first().is_some_and(|a| a == "sleep");
        assert!(!everyone().iter().any(|p| asleep(&p.argv)), "so is the agent: {failed:?}");
        let inner = status(&home, "inner");
        assert_eq!(inner["status"], "running", "{failed:?} {inner:#}");
        assert_eq!(home.run(&["stop", "inner"]).code, Some(0));
    });
}
