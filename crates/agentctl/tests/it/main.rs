//! One binary for all tests of the program: real processes, real files, real kernel.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout)]
#![allow(clippy::similar_names)]

mod adapter_registry;
mod agents_named;
mod asks_cover;
mod asks_recorded;
mod attach;
mod attacks;
mod changes;
mod claude_code;
mod claude_code_asks;
mod claude_code_beginnings;
mod claude_code_ends;
mod claude_code_processes;
mod claude_code_settled_asks;
mod claude_code_tokens;
mod claude_code_versions;
mod cli;
mod codex;
mod codex_processes;
mod codex_rollouts;
mod compare_forms;
mod completions;
mod configuration;
mod confirmed;
mod context;
mod daemon;
mod demo;
mod docs;
mod doctor;
mod documents;
mod dry_run;
mod event_sinks;
mod events;
mod events_agents;
mod events_blind;
mod events_daemon;
mod events_for_people;
mod events_homes;
mod events_once;
mod fixtures;
mod fuses;
mod fuses_firing;
mod git_environment;
mod help;
mod hints;
mod honest_errors;
mod hook_page;
mod hooks;
mod hostile;
mod inbox;
mod inbox_bars;
mod inbox_shown;
mod inbox_told;
mod inbox_walk;
mod inbox_words;
mod launch;
mod launch_group;
mod launch_interrupted;
mod launch_odd;
mod launched;
mod library;
mod list_screen;
mod list_watch;
mod locks;
mod logs;
mod logs_follow;
mod man;
mod matrix;
mod mcp;
mod mcp_below;
mod mcp_client;
mod mcp_refusals;
mod metrics;
mod names;
mod notify;
mod notify_channels;
mod openclaw;
mod openclaw_approvals;
mod openclaw_device;
mod openclaw_hostile;
mod opencode;
mod opencode_arbiter;
mod opencode_begun;
mod opencode_control;
mod opencode_hosted;
mod opencode_hostile;
mod opencode_truth;
mod order_documents;
mod order_requests;
mod pi;
mod pi_control;
mod pi_doubt;
mod pi_kept;
mod pictures;
mod plain;
mod prompts;
mod protocol;
mod races;
mod readme;
mod recycle;
mod resume;
mod rooms;
mod scale;
mod schemas;
mod seed_failures;
mod send;
mod send_when_idle;
mod shape;
mod source;
mod status_details;
mod status_writers;
mod stop;
mod stop_hosted;
mod stop_launched;
mod stop_outsiders;
mod stop_tree;
mod tables;
mod terminal;
mod tidy;
mod time_zone;
mod top;
mod top_orders;
mod typed;
mod unwritable;
mod usage_errors;
mod virtual_screen;
mod wait;
mod wait_codex;
mod watched_lists;
mod web;
mod web_documents;
mod web_homes;
mod web_orders;
mod web_socket;
mod web_together;
mod webhooks;
mod webhooks_daemon;
mod webhooks_where;
mod worktree_clean;
mod worktree_faults;
mod worktree_interrupted;
mod worktree_options;
mod worktrees;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use testkit::TestHome;

/// A home of a test's own, with the program built for this run, which is given all the time it needs: how
/// fast a machine is, is no test's business.
fn home() -> TestHome {
    let home = TestHome::new(env!("CARGO_BIN_EXE_agentctl"));
    configure(&home, &[], "");
    home
}

/// Writes a configuration. All limits are long, except for the given ones, whose expiry is tested.
fn configure(home: &TestHome, short: &[(&str, &str)], more: &str) {
    // Keys without a table come first.
    let mut text = format!("{more}\n[deadline]\n");
    for name in ["live", "all", "launch", "gateway"] {
        let limit = short.iter().find(|(short, _)| *short == name).map_or("5m", |(_, limit)| limit);
        text.push_str(&format!("{name} = \"{limit}\"\n"));
    }
    let file = home.write(".config/agentctl/config.toml", text);
    // It may hold a token; a secret that others may read is warned about.
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("set");
}

/// Lets agents answer for others, and waits until an agent that begins now began clearly after that change.
fn let_agents_answer_others(home: &TestHome) {
    configure(home, &[], "[answers]\nagents = \"others\"\n");
    until_change_counts(&home.at(".config/agentctl/config.toml"));
}

/// Waits until the change of a configuration file is older than the grain of the kernel's clocks.
fn until_change_counts(file: &Path) {
    let written = std::fs::metadata(file).and_then(|meta| meta.modified()).expect("written");
    testkit::eventually("the change is older than the grain of the kernel's clocks", || {
        written.elapsed().is_ok_and(|age| age > Duration::from_millis(100)).then_some(())
    });
}

/// Where the recorded homes lie.
fn fixtures_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures")
}

/// Returns a row without the fields that may differ between `list` and `status`: those of `status` alone, tokens,
/// cost, the time of the look.
fn comparable(row: &Value) -> Value {
    let mut row = row.clone();
    for field in testkit::STATUS_FIELDS {
        row.as_object_mut().and_then(|row| row.remove(field));
    }
    row["tokens"] = Value::Null;
    row["cost_usd"] = Value::Null;
    // Only `status` counts tokens, so only `status` can say why they are not known.
    if let Some(notes) = row["notes"].as_array_mut() {
        notes.retain(|n| !n.as_str().is_some_and(|n| n.starts_with("tokens are not known")));
    }
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
    assert_asks_cover_what_waits(home, &listed.sessions());
}

/// Asserts that exactly the sessions that wait for a human have asks.
fn assert_asks_cover_what_waits(home: &TestHome, rows: &[serde_json::Value]) {
    let document = home.run(&["asks", "--json"]).json();
    let keys = |id: &serde_json::Value, row: &serde_json::Value| {
        format!("{} {id} {}", row["adapter"], row["pid"])
    };
    let waiting = rows.iter().filter(|row| row["status"] == "waiting");
    let waiting: std::collections::BTreeSet<String> =
        waiting.map(|row| keys(&row["id"], row)).collect();
    let asks = document["asks"].as_array().expect("asks").iter();
    let asking: std::collections::BTreeSet<String> =
        asks.map(|ask| keys(&ask["session_id"], ask)).collect();
    assert_eq!(waiting, asking, "list and asks differ: {document}");
}
