//! Recorded homes of the real agents, and the row of `list -a --json` for every session in them.

use std::path::PathBuf;

use serde_json::Value;
use testkit::gateway::Gateway;
use testkit::{TestHome, sandboxed};

use crate::{assert_list_equals_status, fixtures_dir, home};

/// Plants a recorded home; live records in it are made this machine's own, as they once were.
pub(crate) fn planted(agent: &str, version: &str) -> TestHome {
    let home = home();
    let fixture: PathBuf = fixtures_dir().join(agent).join(version);
    home.plant(&fixture, ".");
    let sessions = home.path().join(".claude/sessions");
    for entry in std::fs::read_dir(sessions).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("readable");
        std::fs::write(entry.path(), ours(&text)).expect("written");
    }
    home
}

fn ours(record: &str) -> String {
    let mut record: Value = serde_json::from_str(record).expect("JSON");
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
    // Older versions write none.
    if record.get("pidDomain").is_some() {
        record["pidDomain"] = format!("linux:{}:{}", machine.trim(), space.display()).into();
    }
    record.to_string()
}

/// One document without the moment and the place of the test.
fn settled(home: &TestHome, args: &[&str]) -> Value {
    let output = home.run(args);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let place = home.path().to_string_lossy().into_owned();
    let mut document: Value =
        serde_json::from_str(&output.stdout.replace(&place, "[home]")).expect("JSON");
    for row in document["sessions"].as_array_mut().into_iter().flatten() {
        for evidence in row["evidence"].as_array_mut().into_iter().flatten() {
            evidence["at"] = "[now]".into();
            if evidence["source"] == "kernel:process table" {
                evidence["says"] = "[no live process serves it]".into();
            }
        }
    }
    document
}

/// Returns a line per session: id, status and prompt.
fn verdicts(document: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let mut lines: Vec<String> = document["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|s| {
            let under = s["parent"].as_str().map(|p| format!(" under {p}")).unwrap_or_default();
            let prompt: String = text(&s["prompt"]).chars().take(44).collect();
            format!(
                "{} {} {}{under} | {prompt}",
                text(&s["id"]),
                text(&s["status"]),
                text(&s["outcome"])
            )
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

const ALL: [&str; 6] = ["list", "-a", "--since", "all", "--tree", "--json"];

/// The recorded cases of an agent.
pub(crate) fn cases(agent: &str) -> Vec<String> {
    let mut cases: Vec<String> = std::fs::read_dir(fixtures_dir().join(agent))
        .expect("recorded homes")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    cases.sort();
    cases
}

/// Every recorded case of one agent: the verdicts, the whole document, and `status` for each row.
fn check(agent: &str) {
    for case in cases(agent) {
        let home = planted(agent, &case);
        let document = settled(&home, &ALL);
        insta::assert_snapshot!(format!("{agent}-{case}-verdicts"), verdicts(&document));
        insta::assert_json_snapshot!(format!("{agent}-{case}"), document);
        assert_list_equals_status(&home);
    }
}

/// Agents that keep their sessions in a server have no home to plant: a test of their own serves the answers.
const SERVED: [&str; 1] = ["openclaw"];

/// The agents whose recorded cases are homes, from the registry.
pub(crate) fn agents_with_homes() -> impl Iterator<Item = &'static str> {
    let agents = agentctl_core::adapters::ALL.iter().map(|adapter| adapter.name());
    agents.filter(|agent| !SERVED.contains(agent))
}

#[test]
fn recorded_homes_of_every_agent() {
    sandboxed(|| {
        for agent in agents_with_homes() {
            check(agent);
        }
    });
}

#[test]
fn recorded_answers_of_openclaw() {
    sandboxed(|| {
        let recorded = fixtures_dir().join("openclaw/2026.9.6/gateway.json");
        let text = std::fs::read_to_string(recorded).expect("recorded");
        let recorded: Value = serde_json::from_str(&text).expect("JSON");
        let gateway = Gateway::start();
        {
            let mut world = gateway.world();
            world.rows = recorded["rows"].as_array().cloned().expect("rows");
            world.jobs = recorded["jobs"].as_array().cloned().expect("jobs");
            let said = recorded["histories"].as_object().expect("histories");
            world.histories = said.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        }
        let home = crate::openclaw::beside(&gateway, "");
        let mut document = settled(&home, &ALL);
        for row in document["sessions"].as_array_mut().into_iter().flatten() {
            row["root"] = "[gateway]".into();
        }
        insta::assert_snapshot!("openclaw-2026.9.6-verdicts", verdicts(&document));
        insta::assert_json_snapshot!("openclaw-2026.9.6", document);
        assert_list_equals_status(&home);
    });
}

#[test]
fn the_rollouts_of_codex_give_the_same_answers_without_its_index() {
    sandboxed(|| {
        let home = planted("codex", "0.166.0");
        let document = settled(&home, &ALL);
        std::fs::remove_file(home.path().join(".codex/state_5.sqlite")).expect("removed");
        let told = |document: &Value| {
            let mut document = document.clone();
            for row in document["sessions"].as_array_mut().into_iter().flatten() {
                // The two were written a millisecond or two apart.
                let second =
                    row["started_at"].as_str().and_then(|t| t.get(..19)).map(str::to_owned);
                row["started_at"] = second.into();
            }
            document
        };
        let without = settled(&home, &ALL);
        assert_eq!(told(&without), told(&document));
        assert_list_equals_status(&home);
    });
}

#[test]
fn reading_a_home_changes_nothing_in_it() {
    sandboxed(|| {
        let home = planted("codex", "0.166.0");
        home.plant(&fixtures_dir().join("claude-code/2.1.325"), ".");
        let before = picture(&home.path());
        for args in
            [&ALL[..], &["list"], &["status", "01a1de39-552e"], &["logs", "45454545"], &["doctor"]]
        {
            let _answer = home.run(args);
        }
        assert_eq!(picture(&home.path()), before);
    });
}

/// Every name below a directory with its size and time of writing.
fn picture(directory: &std::path::Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("listed").flatten() {
            let meta = entry.metadata().expect("metadata");
            found.push((entry.path(), meta.len(), meta.modified().expect("a time")));
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn tokens_and_cost_are_of_distinct_messages_and_only_complete() {
    sandboxed(|| {
        let home = planted("claude-code", "2.1.325");
        let status = |id: &str| home.run(&["status", id, "--json"]).json();
        // With a subagent; the agent's own figure includes the same tokens.
        let whole = status("45454545");
        assert_eq!(
            whole["tokens"],
            serde_json::json!({"input": 63015, "output": 203, "cache_read": 42, "cache_write": 66})
        );
        assert_eq!(whole["cost_usd"], 0.256_458_4);
        // Killed and resumed: the killed run's cost is lost from the agent's figure, so it is not shown.
        let killed = status("d4f65236");
        assert_eq!(
            killed["tokens"],
            serde_json::json!({"input": 23567, "output": 63, "cache_read": 14, "cache_write": 22})
        );
        assert_eq!(killed["cost_usd"], Value::Null);

        let home = planted("codex", "0.166.0");
        let status = |id: &str| home.run(&["status", id, "--json"]).json();
        // A fork counts its own records, not the total it started from.
        assert_eq!(status("01a1de32-1803")["tokens"]["input"], 11_124 - 7);
    });
}
