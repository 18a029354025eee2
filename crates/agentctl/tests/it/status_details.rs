//! `status` shows branch, duration, turns, context, the last message, and who or what ended the session.

use std::fs;

use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::daemon::started;
use crate::launched::{folder, kill, launch, marked, status, until_asked, until_stopped};
use crate::{fixtures_dir, home};

fn shown(home: &TestHome, id: &str) -> String {
    home.run(&["status", id]).stdout
}

/// Waits until no process serves a session and its exit is recorded. The record may name the exit before the
/// process has gone.
fn until_recorded(home: &TestHome, id: &str) -> Value {
    eventually("its end is recorded", || {
        let session = status(home, id);
        let is_recorded = !session["exit"].is_null() && !session["ended_by"].is_null();
        is_recorded.then_some(session)
    })
}

#[test]
fn a_recorded_claude_session_shows_its_branch_turns_context_and_last_message() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("claude-code/2.1.325"), ".");
        let id = "5cb3e615-ed0f-403b-a73f-02e7529a64f0";
        let session = status(&home, id);
        assert_eq!(session["branch"], "master");
        assert_eq!((&session["turns"], &session["last_message"]), (&json!(1), &json!("s")));
        assert_eq!(session["context_tokens"], 11752 + 11 + 7 + 7);
        assert_eq!(session["context_window"], Value::Null, "Claude Code does not write it");
        assert!(session["duration_seconds"].is_u64(), "{session:#}");
        assert_eq!(session["ended_by"], json!({"kind": "unknown", "detail": null}));
        let text = shown(&home, id);
        for line in [
            "branch        master",
            "turns         1",
            "context       11,777 tokens",
            "ended by      unknown",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(text.contains("tokens        11,752 in, "), "{text}");
        assert!(text.contains("last message  s\n"), "{text}");
    });
}

#[test]
fn a_codex_session_shows_the_branch_and_the_context_window_of_its_rollout() {
    sandboxed(|| {
        let home = home();
        let id = "01a1de34-0141-7d72-8aa8-464ebce415b2";
        let line = |kind: &str, payload: Value| {
            json!({"timestamp": "2026-11-15T07:55:12.000Z", "type": kind, "payload": payload})
                .to_string()
        };
        let text = |text: &str| json!([{"type": "output_text", "text": text}]);
        let lines = [
            line(
                "session_meta",
                json!({
                    "id": id, "timestamp": "2026-11-15T07:55:12.000Z", "cwd": "/w", "cli_version": "0.166.0",
                    "git": {"commit_hash": "0f", "branch": "fix/login", "repository_url": "u"},
                }),
            ),
            line("event_msg", json!({"type": "user_message", "message": "one"})),
            line("event_msg", json!({"type": "user_message", "message": "two"})),
            line(
                "response_item",
                json!({
                    "type": "message", "role": "assistant", "content": text("first\n\nsecond\nthird\nfourth"),
                }),
            ),
            line(
                "event_msg",
                json!({"type": "token_count", "info": {
                    "last_token_usage": {"input_tokens": 12244, "output_tokens": 42, "total_tokens": 12286},
                    "model_context_window": 258_400,
                }}),
            ),
            line("event_msg", json!({"type": "task_complete", "last_agent_message": "x"})),
        ];
        home.write(
            &format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-55-12-{id}.jsonl"),
            lines.join("\n") + "\n",
        );
        let session = status(&home, id);
        assert_eq!((&session["branch"], &session["turns"]), (&json!("fix/login"), &json!(2)));
        assert_eq!(session["context_tokens"], 12286);
        assert_eq!(session["context_window"], 258_400);
        let text = shown(&home, id);
        assert!(text.contains("context       12,286 of 258,400 tokens (4%)\n"), "{text}");
        let message = "last message  first\n              second\n              third …\n";
        assert!(text.contains(message), "{text}");
    });
}

#[test]
fn the_branch_of_the_directory_is_shown_where_the_agent_writes_none() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w/.git");
        home.write("w/.git/HEAD", "ref: refs/heads/topic\n");
        let id = launch(&home, "w", "x [[say:ok]]", &[]);
        until_stopped(&home, &id);
        assert_eq!(status(&home, &id)["branch"], "topic");
    });
}

#[test]
fn an_agent_that_ends_by_itself_is_told_from_a_signal_and_from_a_stop() {
    sandboxed(|| {
        let home = home();
        let done = launch(&home, "a", "x [[say:ok]]", &[]);
        let done = until_recorded(&home, &done);
        assert_eq!(done["ended_by"], json!({"kind": "itself", "detail": "exit code 0"}));

        let killed = launch(&home, "b", "x [[hang]]", &[]);
        until_asked(&home, &killed);
        assert_eq!(status(&home, &killed)["ended_by"], Value::Null, "it lives");
        let pid = status(&home, &killed)["pid"].as_u64().expect("a pid");
        kill(u32::try_from(pid).expect("a pid"));
        let by_signal = until_recorded(&home, &killed);
        assert_eq!(by_signal["ended_by"], json!({"kind": "signal", "detail": "signal 9"}));
        let text = shown(&home, &killed);
        assert!(text.contains("ended by      signal 9, sent by another program\n"), "{text}");

        let stopped = launch(&home, "c", "x [[hang]]", &[]);
        until_asked(&home, &stopped);
        assert_eq!(home.run(&["stop", &stopped]).code, Some(0));
        let by_stop = status(&home, &stopped);
        assert_eq!(by_stop["ended_by"], json!({"kind": "stop", "detail": "agentctl stop"}));
        assert!(shown(&home, &stopped).contains("ended by      agentctl stop\n"));
        let why = home.run(&["why", &stopped]);
        assert!(why.stdout.contains("\nended by: agentctl stop\n"), "{}", why.stdout);
        assert!(why.stdout.contains("ended-by.json says: agentctl stop ordered"), "{}", why.stdout);
        let why = home.run(&["why", &stopped, "--json"]).json();
        assert_eq!(why["ended_by"]["kind"], "stop");
    });
}

#[test]
fn a_fuse_that_stops_a_session_is_named() {
    sandboxed(|| {
        let home = home();
        started(&home);
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &id);
        let set = ["fuse", "set", "--session", &id, "--ttl", "1ms", "--on-expire", "stop"];
        assert_eq!(home.run(&[&set[..], &["--label", "budget"]].concat()).code, Some(0));
        until_stopped(&home, &id);
        let by = &status(&home, &id)["ended_by"];
        assert_eq!(by["kind"], "fuse");
        let detail = by["detail"].as_str().expect("a detail");
        assert!(detail.contains("(budget)") && detail.ends_with(": ttl"), "{detail}");
        assert!(marked().is_empty(), "nothing lives on");
    });
}

#[test]
fn a_resumed_session_is_not_said_to_be_ended_by_the_stop_of_an_earlier_run() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &id);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let again = home.run(&["resume", &id, "y [[say:ok]]", "--wait"]);
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert_eq!(until_recorded(&home, &id)["ended_by"]["kind"], "itself");
    });
}

#[test]
fn a_session_continued_by_hand_is_not_said_to_be_ended_by_the_stop_of_its_run() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &id);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!(until_recorded(&home, &id)["ended_by"]["kind"], "stop");
        let agent = home.run(&["demo-agent", "--resume", &id, "-p", "y [[say:ok]]"]);
        assert_eq!(agent.code, Some(0), "{}", agent.stderr);
        assert_eq!(status(&home, &id)["ended_by"]["kind"], "itself");
    });
}

#[test]
fn an_order_from_after_the_end_is_not_the_cause() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &id);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let run = status(&home, &id)["run"].as_str().expect("a run").to_owned();
        let folder = home.path().join(".local/state/agentctl/runs").join(run);
        let written = fs::read_to_string(folder.join("ended-by.json")).expect("written");
        // An order from after the end did not cause it.
        let later = written.replace("\"20", "\"30");
        fs::write(folder.join("ended-by.json"), later).expect("written");
        until_recorded(&home, &id);
        assert_ne!(status(&home, &id)["ended_by"]["kind"], "stop");
    });
}
