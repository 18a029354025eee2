//! Names and groups: a person's own words for a session, kept with the session.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{folder, launch, shims, status, until_said, until_stopped};

const FILE: &str = ".local/state/agentctl/names/names.json";

fn code(home: &TestHome, args: &[&str]) -> (Option<i32>, String) {
    let run = home.run(args);
    (run.code, run.stderr)
}

fn words(home: &TestHome, id: &str) -> (Value, Value) {
    let row = home.run(&["list", "-a", "--json"]).session(id);
    let one = status(home, id);
    assert_eq!((&row["name"], &row["group"]), (&one["name"], &one["group"]), "list and status");
    (one["name"].clone(), one["group"].clone())
}

#[test]
fn a_name_and_a_group_survive_resume_prune_and_the_age_of_runs() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "painter", "--group", "morning"]);
        until_stopped(&home, &id);
        let said = (json!("painter"), json!("morning"));
        assert_eq!(words(&home, &id), said);
        assert_eq!(code(&home, &["resume", "painter", "y [[say:again]]"]).0, Some(0));
        until_said(&home, &id, "again");
        until_stopped(&home, &id);
        assert_eq!(words(&home, &id), said, "after resume");
        assert_eq!(code(&home, &["wait", "painter"]).0, Some(0));
        fs::remove_dir_all(home.path().join(".local/state/agentctl/runs")).expect("runs");
        assert_eq!(words(&home, &id), said, "without any run");
        assert_eq!(status(&home, "painter")["id"], id.as_str());
        let rows = home.run(&["list", "-a", "--group", "morning", "--json"]).sessions();
        assert_eq!(rows.len(), 1);
        // Without our files the words are lost, and nothing else.
        fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("state");
        assert_eq!(words(&home, &id), (Value::Null, Value::Null));
        assert_eq!(status(&home, &id)["status"], "stopped");
    });
}

#[test]
fn the_name_of_an_older_run_is_used_where_the_file_says_nothing() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "old", "--group", "g"]);
        until_stopped(&home, &id);
        assert_eq!(code(&home, &["resume", &id, "y [[say:again]]"]).0, Some(0));
        until_stopped(&home, &id);
        fs::remove_file(home.path().join(FILE)).expect("the file");
        assert_eq!(words(&home, &id), (json!("old"), json!("g")), "of the run before the newest");
        assert_eq!(status(&home, "old")["id"], id.as_str());
    });
}

#[test]
fn name_and_group_change_and_clear_the_words_of_a_session() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "one", "--group", "g"]);
        until_stopped(&home, &id);
        let named = home.run(&["name", "one", "two", "--json"]);
        assert_eq!(named.code, Some(0), "{}", named.stderr);
        let expected = ("two", "g", id.as_str());
        let told = named.json();
        assert_eq!(
            (&told["name"], &told["group"], &told["id"]),
            (&json!(expected.0), &json!(expected.1), &json!(expected.2))
        );
        assert_eq!(code(&home, &["status", "one"]).0, Some(4), "the old name means nothing now");
        assert_eq!(status(&home, "two")["id"], id.as_str());
        assert_eq!(code(&home, &["group", "two", "h"]).0, Some(0));
        assert_eq!(words(&home, &id), (json!("two"), json!("h")));
        assert!(home.run(&["status", "two"]).stdout.contains("group         h"));
        for args in [["name", &id, "--clear"], ["group", &id, "--clear"]] {
            assert_eq!(code(&home, &args).0, Some(0));
        }
        assert_eq!(
            words(&home, &id),
            (Value::Null, Value::Null),
            "the run's words are cleared too"
        );
        assert_eq!(code(&home, &["status", "two"]).0, Some(4));
        assert_eq!(code(&home, &["name", &id]).0, Some(2), "neither a name nor --clear");
        assert_eq!(code(&home, &["name", "nosuch-session", "x"]).0, Some(4));
    });
}

#[test]
fn our_name_wins_over_the_one_of_the_agent() {
    sandboxed(|| {
        let home = home();
        let id = "0c2f8f8e-1111-4222-8333-123456789abc";
        let line = |more: &str| format!(r#"{{{more},"sessionId":"{id}"}}"#);
        let user = r#""type":"user","message":{"role":"user","content":"x"},"uuid":"u","timestamp":"2026-11-15T10:00:00.000Z","cwd":"/w""#;
        let title = r#""type":"custom-title","customTitle":"theirs""#;
        let text = format!("{}\n{}\n", line(user), line(title));
        home.write(&format!(".claude/projects/-w/{id}.jsonl"), text);
        let all = ["list", "-a", "--since", "all", "--json"];
        assert_eq!(home.run(&all).session(id)["name"], "theirs");
        assert_eq!(code(&home, &["name", "theirs", "ours"]).0, Some(0));
        assert_eq!(home.run(&all).session(id)["name"], "ours");
        assert_eq!(status(&home, "ours")["id"], id);
        assert_eq!(code(&home, &["status", "theirs"]).0, Some(4));
    });
}

#[test]
fn a_name_means_the_live_session_and_else_the_newest() {
    sandboxed(|| {
        let home = home();
        let first = launch(&home, "a", "x [[say:hi]]", &["--name", "twin"]);
        until_stopped(&home, &first);
        let second = launch(&home, "b", "x [[say:hi]]", &["--name", "twin"]);
        until_stopped(&home, &second);
        assert_eq!(status(&home, "twin")["id"], second.as_str(), "the newest of two ended ones");
        assert_eq!(code(&home, &["resume", &first, "y [[ask:Which?]]"]).0, Some(0));
        assert_eq!(status(&home, "twin")["id"], first.as_str(), "the live one");
        // The name of a live session is refused, at launch and by `name`.
        let cwd = folder(&home, "c");
        let refused = home.run(&["launch", "demo", "-p", "x", "--cwd", &cwd, "--name", "twin"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains(&first), "{}", refused.stderr);
        let other = launch(&home, "d", "x [[say:hi]]", &[]);
        assert_eq!(code(&home, &["name", &other, "twin"]).0, Some(5));
        assert_eq!(code(&home, &["name", &first, "twin"]).0, Some(0), "its own name is no clash");
    });
}

#[test]
fn a_word_that_could_mean_something_else_is_refused() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &id);
        let long = "x".repeat(65);
        let cwd = folder(&home, "v");
        for name in [
            "123",
            "/x",
            ".x",
            "~x",
            "@x",
            "demo:x",
            "a\nb",
            "",
            " x",
            "a/b",
            "x@/home",
            "x@y",
            &long,
            &id[..6],
        ] {
            let (given, stderr) = code(&home, &["name", &id, name]);
            assert_eq!(given, Some(2), "{name}: {stderr}");
            let at_launch = ["launch", "demo", "-p", "x", "--cwd", &cwd, "--name", name];
            let (launched, stderr) = code(&home, &at_launch);
            assert_eq!(launched, Some(2), "{name}: {stderr}");
        }
        for group in ["", "a\tb", &long] {
            assert_eq!(code(&home, &["group", &id, group]).0, Some(2), "{group}");
        }
        assert_eq!(home.run(&["list", "-a", "--json"]).sessions().len(), 1, "none was launched");
    });
}

#[test]
fn a_broken_file_is_a_fault_and_is_never_overwritten() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "one"]);
        until_stopped(&home, &id);
        for broken in ["{", "{\"version\":2,\"sessions\":[]}", ""] {
            home.write(FILE, broken);
            let listed = home.run(&["list", "-a"]);
            assert_eq!(listed.code, Some(3), "{}", listed.stderr);
            assert!(listed.stdout.contains(&id[..8]), "{}", listed.stdout);
            assert_eq!(listed.stderr.matches("names.json").count(), 1, "{}", listed.stderr);
            let refused = home.run(&["name", &id, "two"]);
            assert_eq!(refused.code, Some(1), "{}", refused.stderr);
            assert!(refused.stderr.contains("names.json"), "{}", refused.stderr);
            let launched = home.run(&[
                "launch",
                "demo",
                "-p",
                "x",
                "--cwd",
                &folder(&home, "v"),
                "--name",
                "three",
                "--wait",
            ]);
            assert_eq!(launched.code, Some(0), "a launch goes on: {}", launched.stderr);
            assert_eq!(fs::read_to_string(home.path().join(FILE)).expect("read"), broken);
            // The shim writes the end of the run a moment after the wait.
            eventually("the run is over", || shims().is_empty().then_some(()));
            fs::remove_dir_all(home.path().join(".local/state/agentctl/runs")).expect("runs");
        }
    });
}

#[test]
fn many_writers_at_once_lose_no_word() {
    sandboxed(|| {
        let home = home();
        let line = |id: &str| {
            format!(
                r#"{{"type":"user","message":{{"role":"user","content":"x"}},"uuid":"u","timestamp":"2026-11-15T10:00:00.000Z","cwd":"/w","sessionId":"{id}"}}"#
            )
        };
        let ids: Vec<String> =
            (0..8).map(|n| format!("{n}c2f8f8e-1111-4222-8333-123456789abc")).collect();
        for id in &ids {
            home.write(&format!(".claude/projects/-w/{id}.jsonl"), format!("{}\n", line(id)));
        }
        std::thread::scope(|scope| {
            for (n, id) in ids.iter().enumerate() {
                let home = &home;
                scope.spawn(move || {
                    let name = format!("name{n}");
                    assert_eq!(code(home, &["name", id, &name]).0, Some(0));
                    assert_eq!(code(home, &["group", id, "all"]).0, Some(0));
                });
            }
        });
        let rows = home.run(&["list", "-a", "--since", "all", "--group", "all", "--json"]);
        let mut names: Vec<String> = rows
            .sessions()
            .iter()
            .map(|s| s["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        let expected: Vec<String> = (0..8).map(|n| format!("name{n}")).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn the_table_has_a_column_of_names_in_front_when_a_session_has_one() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &id);
        let plain = home.run(&["list", "-a"]).stdout;
        assert!(plain.starts_with("STATUS"), "{plain}");
        assert_eq!(code(&home, &["name", &id, "painter"]).0, Some(0));
        let named = home.run(&["list", "-a"]).stdout;
        assert!(named.starts_with("NAME     STATUS"), "{named}");
        assert!(named.contains("\npainter  stopped"), "{named}");
        assert_eq!(named.matches("painter").count(), 1, "{named}");
    });
}

#[test]
fn events_of_the_past_have_the_words_of_today() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "one", "--group", "g"]);
        until_stopped(&home, &id);
        assert_eq!(code(&home, &["name", &id, "two"]).0, Some(0));
        assert_eq!(code(&home, &["group", &id, "h"]).0, Some(0));
        let mut command = home.command(&["events", "--since", "1h"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let told: Vec<Value> = lines
            .take(2)
            .map(|line| serde_json::from_str(&line.expect("read")).expect("JSON"))
            .collect();
        child.kill().expect("ended");
        child.wait().expect("reaped");
        for event in told {
            let session = &event["session"];
            assert_eq!((&session["name"], &session["group"]), (&json!("two"), &json!("h")));
        }
    });
}

#[test]
fn of_launches_under_one_name_at_the_same_moment_one_succeeds() {
    sandboxed(|| {
        let home = home();
        let launchers: Vec<_> = (0..6)
            .map(|at| {
                let cwd = folder(&home, &format!("w{at}"));
                let args =
                    ["launch", "demo", "-p", "x [[ask:go?]]", "--name", "same", "--cwd", &cwd];
                let mut command = home.command(&args);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
            })
            .collect();
        let ends: Vec<_> =
            launchers.into_iter().map(|child| child.wait_with_output().expect("ends")).collect();
        let mut codes: Vec<Option<i32>> = ends.iter().map(|end| end.status.code()).collect();
        codes.sort_unstable();
        let refused = Some(5);
        assert_eq!(codes, [Some(0), refused, refused, refused, refused, refused], "{ends:?}");
        let named = home.run(&["list", "--format", "{name}"]).stdout;
        assert_eq!(named, "same\n");
    });
}
