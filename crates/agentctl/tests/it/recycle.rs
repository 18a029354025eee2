//! A live record outlives its agent and the agent's pid is recycled: the new process is never taken for the
//! agent.
//!
//! These few rounds run the program itself, from a stale file to the printed row. The many rounds are in
//! the kernel tests of the core.
#![allow(clippy::print_stdout)] // the counts and the seed, for the runner

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{Dice, Echo, after_tick, eventually, rounds, sandboxed, spawn_at};

use crate::home;

/// The name of the new process: unrelated, or the name of the agent's program.
const NAMES: [&str; 2] = ["cat", "agentctl"];

#[test]
fn a_recycled_pid_is_never_taken_for_the_agent() {
    sandboxed(|| {
        let home = home();
        for name in NAMES {
            std::os::unix::fs::symlink("/bin/cat", home.at(&format!("strangers/{name}")))
                .expect("linked");
        }
        let rounds = rounds(30);
        let mut dice = Dice::new();
        // Any pid that no other process of this namespace gets by chance.
        let pid = 5000;
        let record = home.path().join(format!(".local/share/agentctl-demo/live/{pid}.json"));
        for round in 0..rounds {
            let (flag, seed) = (if round == 0 { "--session-id" } else { "--resume" }, dice.seed);
            let mut command = home.command(&["demo-agent", flag, "victim", "-p", "x [[hang]]"]);
            let mut agent = spawn_at(pid, command.stdout(Stdio::null()));
            let row = eventually("it runs", || {
                let row = home.run(&["list", "--json"]).sessions().pop()?;
                // In the first round the record exists a moment before the prompt.
                (row["status"] == "running" && row["prompt"].is_string()).then_some(row)
            });
            assert_eq!((&row["id"], &row["pid"]), (&json!("victim"), &json!(pid)), "seed {seed}");
            agent.kill().expect("killed");
            agent.wait().expect("reaped");
            let stale = std::fs::read_to_string(&record).expect("SIGKILL leaves the record behind");
            let stale: Value = serde_json::from_str(&stale).expect("JSON");
            after_tick(stale["start_ticks"].as_u64().expect("a start time"));

            let name = dice.pick(&NAMES);
            let program = home.path().join("strangers").join(name);
            let mut stranger = Echo::start(&program.to_string_lossy(), Some(pid));
            let listed = home.run(&["list", "-a", "--json"]);
            let row = listed.session("victim");
            let said = (&row["status"], &row["outcome"], &row["pid"], &row["processes"]);
            let truth = (&json!("stopped"), &json!("killed"), &Value::Null, &json!([]));
            assert_eq!(said, truth, "round {round}, `{name}`, seed {seed}: {row}");
            assert_eq!(listed.sessions().len(), 1, "round {round}, `{name}`, seed {seed}");
            assert_eq!(home.run(&["list", "--json"]).sessions(), Vec::<Value>::new());
            assert!(record.exists() && stranger.answers(), "nothing was touched, seed {seed}");
            stranger.end();
        }
        println!("{rounds} rounds, 0 false running, seed {}", dice.seed);
    });
}
