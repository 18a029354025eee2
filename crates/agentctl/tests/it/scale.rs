//! Many sessions of every agent: each is reported as generated, and no file is left.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Value, json};
use testkit::gateway::Gateway;
use testkit::generate::{ALL, Made, Manifest, Plan};
use testkit::{TestHome, eventually, sandboxed};

use crate::configure;
use crate::openclaw::{all, row, table};
use crate::{assert_list_equals_status, home};

/// A home of all agents, the manifest of its sessions, and the gateway of the remote ones.
fn generated(sessions: usize) -> (TestHome, Manifest, Gateway) {
    let home = home();
    let plan = Plan { agents: ALL, sessions, seed: 11, now_ms: 1_794_730_000_000, largest: 0 };
    let place = home.path().join("made");
    let manifest = testkit::generate::home(&plan, &place).expect("made");
    for entry in std::fs::read_dir(place.join("home")).expect("listed").flatten() {
        std::fs::rename(entry.path(), home.path().join(entry.file_name())).expect("moved");
    }
    std::fs::remove_dir_all(place).expect("removed");
    let gateway = Gateway::start();
    gateway.world().rows.clone_from(&manifest.gateway);
    configure(&home, &[], &table(&gateway, ""));
    (home, manifest, gateway)
}

fn assert_as_made(home: &TestHome, manifest: &Manifest) {
    let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let said = |row: &Value| {
        let word = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
        (word("adapter"), word("id"), word("outcome"))
    };
    let wrote = |made: &Made| {
        let outcome = serde_json::to_value(made.outcome).expect("a word");
        said(&json!({"adapter": made.adapter, "id": made.id, "outcome": outcome}))
    };
    let mut told: Vec<_> = listed.sessions().iter().map(said).collect();
    let mut wanted: Vec<_> = manifest.sessions.iter().map(wrote).collect();
    told.sort();
    wanted.sort();
    assert_eq!(told, wanted);
}

#[test]
fn a_generated_home_of_all_agents_is_reported_correctly() {
    sandboxed(|| {
        let (home, manifest, _gateway) = generated(400);
        let before = picture(&home);
        assert_as_made(&home, &manifest);
        assert_eq!(picture(&home), before, "something was left behind");
        // The tokens of the largest of each agent that keeps its sessions in files, subagents and all.
        let in_files = manifest.sessions.iter().filter(|made| !made.path.as_os_str().is_empty());
        let agents: BTreeSet<&str> = in_files.map(|made| made.adapter.as_str()).collect();
        assert!(agents.len() >= 5, "{agents:?}");
        for agent in agents {
            let made = manifest.largest(agent).expect("some");
            let status = home.run(&["status", &made.id, "--json"]).json();
            assert_eq!(status["tokens"]["output"], made.output_tokens, "{agent}: {}", made.id);
        }
        // A writer has the database open, and a part of its data is still in the write-ahead log.
        let database = home.path().join(".local/share/opencode/opencode.db");
        let writer = rusqlite::Connection::open(&database).expect("opened");
        writer.pragma_update(None, "wal_autocheckpoint", 0).expect("kept");
        writer.execute("update message set time_updated = time_updated", []).expect("written");
        let names = || picture(&home).into_keys().collect::<Vec<_>>();
        let before = names();
        assert_as_made(&home, &manifest);
        assert_eq!(names(), before, "something was left behind");
    });
}

#[test]
fn list_and_status_agree_for_a_home_of_all_agents() {
    sandboxed(|| {
        let (home, _, _gateway) = generated(40);
        assert_list_equals_status(&home);
    });
}

#[test]
fn ten_thousand_remote_sessions_come_and_go_and_leave_nothing() {
    const WAVE: u64 = 2_000;
    sandboxed(|| {
        let mut home = home();
        let places = ["config", "state", "run", "cache", "tmp"].map(|name| home.path().join(name));
        for place in &places {
            std::fs::create_dir(place).expect("made");
        }
        let names =
            ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"];
        for (name, place) in names.iter().zip(&places) {
            home.set(name, place.to_string_lossy());
        }
        let gateway = Gateway::start();
        configure(&home, &[], &table(&gateway, ""));
        let file = home.path().join(".config/agentctl/config.toml");
        std::fs::create_dir(places[0].join("agentctl")).expect("made");
        std::fs::rename(file, places[0].join("agentctl/config.toml")).expect("moved");
        // Our own state stays: a run, and a manual lock.
        let launched = home.run(&["launch", "demo", "-p", "hello"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim().to_owned();
        eventually("it has ended", || {
            let ended = home.run(&["status", &id, "--json"]).json();
            (ended["status"] == "stopped" && !ended["exit"].is_null()).then_some(())
        });
        assert_eq!(home.run(&["lock", ".", "--reason", "mine"]).code, Some(0));
        let before = picture(&home);
        let kept = |path: &&PathBuf| places.iter().any(|place| path.starts_with(place));
        assert!(before.keys().filter(kept).count() > 5, "{:?}", before.keys());
        for wave in 0..5 {
            let rows = (0..WAVE).map(|n| {
                let id = format!("{:08x}-0000-4000-8000-000000000000", wave * WAVE + n);
                row(
                    &id,
                    Some(
                        [
                            ["done", "failed", "killed"][usize::try_from(n % 3).expect("few")],
                            "running",
                        ][usize::from(n == 0)],
                    ),
                    n == 0,
                )
            });
            let rows: Vec<Value> = rows.collect();
            gateway.world().rows.clone_from(&rows);
            let listed = all(&home);
            assert_eq!(listed.code, Some(0), "{}", listed.stderr);
            let shown =
                |row: &Value| format!("{} {} {}", row["native_key"], row["status"], row["outcome"]);
            let remote = listed.sessions();
            let mut told: Vec<String> =
                remote.iter().filter(|s| s["adapter"] == "openclaw").map(shown).collect();
            let mut has: Vec<String> = rows
                .iter()
                .map(|row| match row["status"].as_str() {
                    Some("running") => format!("{} \"running\" null", row["key"]),
                    Some("done") => format!("{} \"idle\" \"finished\"", row["key"]),
                    Some("failed") => format!("{} \"idle\" \"failed\"", row["key"]),
                    _ => format!("{} \"idle\" \"interrupted\"", row["key"]),
                })
                .collect();
            told.sort();
            has.sort();
            assert_eq!(told, has);
            assert_eq!(home.run(&["list", "--json"]).sessions().len(), 1);
            if wave > 0 {
                continue;
            }
            // One of them is looked at, waited for and stopped.
            let one = rows[0]["sessionId"].as_str().expect("an id");
            for args in [
                &["status", one][..],
                &["why", one],
                &["logs", one],
                &["wait", one, "--for", "running"],
                &["stop", one],
                &["wait", one, "--for", "idle"],
            ] {
                let said = home.run(args);
                assert_eq!(said.code, Some(0), "{args:?}: {}{}", said.stdout, said.stderr);
            }
        }
        gateway.world().rows.clear();
        let left = all(&home).sessions();
        assert!(left.iter().all(|s| s["adapter"] != "openclaw"), "{left:?}");
        assert_eq!(picture(&home), before, "something was left behind");
    });
}

/// Everything below a home: when it was written, its mode, and its content where it is a file.
fn picture(home: &TestHome) -> BTreeMap<PathBuf, (SystemTime, u32, Option<Vec<u8>>)> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![home.path()]);
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("listed").flatten() {
            let meta = entry.metadata().expect("there");
            let content = meta.is_file().then(|| std::fs::read(entry.path()).expect("read"));
            if meta.is_dir() {
                pending.push(entry.path());
            }
            let modified = meta.modified().expect("a time");
            found.insert(entry.path(), (modified, meta.permissions().mode(), content));
        }
    }
    found
}
