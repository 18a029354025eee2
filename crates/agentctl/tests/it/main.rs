//! One binary for all tests of the program: real processes, real files, real kernel.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]
#![allow(clippy::similar_names)]

mod claude_code;
mod claude_code_beginnings;
mod cli;
mod codex;
mod daemon;
mod demo;
mod events;
mod events_agents;
mod fixtures;
mod hooks;
mod hostile;
mod launch;
mod launch_odd;
mod launched;
mod locks;
mod openclaw;
mod openclaw_hostile;
mod opencode;
mod opencode_control;
mod opencode_hosted;
mod opencode_hostile;
mod pi;
mod pi_control;
mod races;
mod readme;
mod recycle;
mod resume;
mod seed_failures;
mod stop;
mod stop_hosted;
mod stop_launched;
mod stop_outsiders;
mod stop_tree;
mod terminal;
mod tidy;
mod wait;
mod wait_codex;

use std::path::PathBuf;

use serde_json::Value;
use testkit::TestHome;

/// A home of a test's own, with the program built for this run.
fn home() -> TestHome {
    TestHome::new(env!("CARGO_BIN_EXE_agentctl"))
}

/// Where the recorded homes lie.
fn fixtures_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures")
}

/// A row without what may differ between `list` and `status`: tokens, cost, the moment of the look.
fn comparable(row: &Value) -> Value {
    let mut row = row.clone();
    row["tokens"] = Value::Null;
    row["cost_usd"] = Value::Null;
    for evidence in row["evidence"].as_array_mut().into_iter().flatten() {
        evidence["at"] = Value::Null;
    }
    row
}

/// Every row of `list -a` equals the `status` of the same session.
fn assert_list_equals_status(home: &TestHome) {
    let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
    for row in listed.sessions() {
        let id = match (row["id"].as_str(), row["pid"].as_u64()) {
            (Some(id), _) => format!("{}:{id}", row["adapter"].as_str().unwrap_or_default()),
            (None, pid) => pid.expect("a process has a pid").to_string(),
        };
        let status = home.run(&["status", &id, "--json"]).json();
        assert_eq!(comparable(&row), comparable(&status), "list and status differ about {id}");
    }
}
