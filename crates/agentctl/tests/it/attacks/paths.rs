//! Class: paths whose real path takes `realpath` seconds or minutes to find (F1).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::{Agent, TestHome, sandboxed};

use crate::claude_code::{self, Claude, record};
use crate::configure;
use crate::launched::launch;

/// Makes a directory of 39 links below 700 folders, each link of 800 components, and returns the last link.
fn slow_path(base: &Path) -> PathBuf {
    const FOLDERS: usize = 700;
    const LINKS: usize = 39;
    let folder = base.join("d/".repeat(FOLDERS));
    std::fs::create_dir_all(folder.join("a")).expect("made");
    symlink("a", folder.join("l0")).expect("linked");
    for link in 1..LINKS {
        let target = format!("{}l{}", "a/../".repeat(800), link - 1);
        symlink(target, folder.join(format!("l{link}"))).expect("linked");
    }
    folder.join(format!("l{}", LINKS - 1))
}

/// No adapter was late, and the user's own session is listed as it is.
fn assert_seen(home: &TestHome, what: &str) {
    for command in [&["list", "--json"][..], &["list", "-a", "--json"]] {
        let listed = home.run(command);
        let row = listed.session(claude_code::A);
        assert_eq!(row["status"], "running", "{what}: {}", listed.stderr);
        let faults = listed.json()["faults"].as_array().cloned().unwrap_or_default();
        assert!(faults.iter().all(|f| f["code"] != "timeout"), "{what}: {faults:?}");
    }
}

#[test]
fn a_home_that_is_slow_to_resolve_costs_its_own_process_only() {
    sandboxed(|| {
        let mut claude = Claude::new();
        configure(&claude.home, &[("live", "6s"), ("all", "6s")], "");
        let _user = claude.live(claude_code::A, &json!({"status": "busy"}));
        let slow = slow_path(&claude.home.path().join("ws")).to_string_lossy().into_owned();
        let named = [
            ("claude", "CLAUDE_CONFIG_DIR"),
            ("codex", "CODEX_HOME"),
            ("pi", "PI_CODING_AGENT_DIR"),
            ("pi", "PI_SESSIONS_DIR"),
            ("opencode", "XDG_DATA_HOME"),
            ("opencode", "OPENCODE_DB"),
        ];
        let mut decoys: Vec<Agent> = Vec::new();
        for (program, variable) in named {
            claude.home.set(variable, slow.clone());
            decoys.push(claude.home.agent(program, "decoy", &[]));
            claude.home.set(variable, "");
        }
        for decoy in &mut decoys {
            decoy.ready();
        }
        assert_seen(&claude.home, "slow homes");
        let listed = claude.home.run(&["list", "--json"]);
        let rows = listed.sessions();
        for decoy in &decoys {
            let row = rows.iter().find(|row| row["pid"] == decoy.pid());
            assert!(row.is_none_or(|row| row["status"] == "unknown"), "{row:#?}");
        }
        let row = rows.iter().find(|row| row["pid"] == decoys[0].pid());
        assert!(row.is_some(), "the row of the decoy is missing: {rows:#?}");
        let id = launch(&claude.home, "elsewhere", "x [[tool:sleep 1000]]", &[]);
        let stopped = claude.home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{}{}", stopped.stdout, stopped.stderr);
    });
}

#[test]
fn a_script_that_is_slow_to_resolve_costs_its_own_process_only() {
    sandboxed(|| {
        let claude = Claude::new();
        configure(&claude.home, &[("live", "6s"), ("all", "6s")], "");
        let _user = claude.live(claude_code::A, &json!({"status": "busy"}));
        let slow = slow_path(&claude.home.path().join("ws"));
        let mut decoys: Vec<Agent> = Vec::new();
        for script in ["claude", "pi"] {
            let script = slow.join(script).to_string_lossy().into_owned();
            std::fs::write(&script, "").expect("written");
            decoys.push(claude.home.agent("node", "decoy", &[&script]));
        }
        for decoy in &mut decoys {
            decoy.ready();
        }
        assert_seen(&claude.home, "slow scripts");
    });
}

/// The directory that a record names is resolved for every `launch`.
#[test]
fn a_session_directory_that_is_slow_to_resolve_holds_up_no_launch() {
    sandboxed(|| {
        let claude = Claude::new();
        configure(&claude.home, &[("live", "6s"), ("all", "6s")], "");
        let slow = slow_path(&claude.home.path().join("ws")).to_string_lossy().into_owned();
        let slow = record(claude_code::A, &slow, &json!({"status": "busy"}));
        let path = claude.home.at(".claude/sessions/{pid}.json").to_string_lossy().into_owned();
        let mut decoy = claude.home.agent("claude", "decoy", &["write", &path, &slow]);
        decoy.ready();
        let deep = format!("/{}", "x/".repeat(30_000));
        let other = self::record(claude_code::B, &deep, &json!({"status": "busy"}));
        let mut second = claude.home.agent("claude", "decoy", &["write", &path, &other]);
        second.ready();
        let id = launch(&claude.home, "elsewhere", "x [[tool:sleep 1000]]", &[]);
        let stopped = claude.home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{}{}", stopped.stdout, stopped.stderr);
    });
}
