//! `logs -f`: what it says when a session waits or ends, when it ends itself, and several sessions at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::launched::until_asked;
use crate::{fixtures_dir, home};

/// Starts a demo agent and returns its session id.
fn launched(home: &TestHome, cwd: &str, args: &[&str]) -> String {
    std::fs::create_dir_all(home.path().join(cwd)).expect("made");
    let args: Vec<&str> = ["launch", "demo", "--cwd", cwd].iter().chain(args).copied().collect();
    let output = home.run(&args);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout.trim().to_owned()
}

fn follower(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
}

#[test]
fn following_an_ended_session_shows_its_end_and_returns() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("conversations/claude-code"), ".");
        for args in [
            &["logs", "-f", "7c0ffee0"][..],
            &["logs", "-f", "7c0ffee0", "--json"],
            &["logs", "-f", "7c0ffee0", "--raw"],
            &["logs", "-f", "7c0ffee0", "-n", "0"],
        ] {
            let output = home.run(args);
            assert_eq!(output.code, Some(0), "{output:?}");
            assert_eq!(
                output.stdout.contains("What was wrong"),
                !args.contains(&"0"),
                "{output:?}"
            );
            assert_eq!(output.stderr, "session 7c0ffee0 has ended: finished\n", "{args:?}");
        }
    });
}

#[test]
fn following_says_that_a_session_waits_and_ends_with_it() {
    sandboxed(|| {
        let home = home();
        let id = launched(&home, "w", &["-p", "paint [[ask:Which colour?]] [[ask:Which size?]]"]);
        until_asked(&home, &id);
        let mut child = follower(&home, &["logs", "-f", &id]);
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let waits = said.next().expect("a line").expect("read");

        let short = &id[..8];
        assert_eq!(waits, format!("session {short} waits for a human (question: Which colour?)"));
        assert_eq!(home.run(&["demo-agent", "--tell", &id, "-p", "Blue"]).code, Some(0));
        let waits = said.next().expect("a line").expect("read");
        assert_eq!(waits, format!("session {short} waits for a human (question: Which size?)"));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let ended = said.next().expect("a line").expect("read");
        assert!(ended.starts_with(&format!("session {short} has ended: ")), "{ended}");
        assert!(said.next().is_none(), "nothing more");
        let mut text = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("read");
        assert!(text.contains("Which colour?"), "{text}");
        assert_eq!(child.wait().expect("ends").code(), Some(0));
    });
}

#[test]
fn appended_lines_are_shown_once_they_are_complete() {
    sandboxed(|| {
        let home = home();
        let id = launched(&home, "w", &["-p", "paint [[ask:Which colour?]]"]);
        assert_eq!(home.run(&["wait", &id]).code, Some(10));
        let mut child = follower(&home, &["logs", &id, "-f", "--json", "-n", "1"]);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = || -> Value {
            serde_json::from_str(&lines.next().expect("a line").expect("read")).expect("JSON")
        };
        assert_eq!(next()["text"], "Which colour?");
        let said = |text: &str| {
            let at = "2026-11-15T08:00:00.000Z";
            json!({"type": "prompt", "id": "m", "text": text, "at": at}).to_string() + "\n"
        };
        let path = home.path().join(format!(".local/share/agentctl-demo/sessions/{id}.jsonl"));
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("open");
        file.write_all(said("three").as_bytes()).expect("written");
        assert_eq!(next()["text"], "three");
        let four = said("four");
        let (half, rest) = four.split_at(20);
        file.write_all(half.as_bytes()).expect("written");
        file.write_all(rest.as_bytes()).expect("written");
        assert_eq!(next()["text"], "four");
        child.kill().expect("killed");
        child.wait().expect("reaped");
    });
}

#[test]
fn a_result_that_comes_later_stands_below_its_call_once() {
    sandboxed(|| {
        let home = home();
        let gate = home.path().join("gate");
        let command = format!("until [ -e {} ]; do sleep 0.05; done; echo opened", gate.display());
        let id = launched(&home, "w", &["-p", &format!("go [[tool:{command}]] [[say:All done.]]")]);
        let mut child = follower(&home, &["logs", "-f", &id, "--full"]);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut seen: Vec<String> = Vec::new();
        while !seen.last().is_some_and(|line| line.contains("▸ shell(")) {
            seen.push(lines.next().expect("a line").expect("read"));
        }
        std::fs::write(gate, "").expect("written");
        seen.extend(lines.map(|line| line.expect("read")));
        let text = seen.join("\n");
        assert_eq!(text.matches("▸ shell(").count(), 1, "{text}");
        assert_eq!(text.matches("assistant  ").count(), 1, "the tool is the assistant's: {text}");
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(at("▸ shell(") < at("│ opened") && at("│ opened") < at("\n  All done."), "{text}");
        assert!(child.wait().expect("ends").success());
    });
}

#[test]
fn several_sessions_are_shown_in_the_order_of_time_behind_their_ids() {
    sandboxed(|| {
        let home = home();
        for agent in ["claude-code", "codex", "pi"] {
            home.plant(&fixtures_dir().join("conversations").join(agent), ".");
        }
        let output = home.run(&["logs", "pi:01a1df11", "codex:01a1df00", "7c0ffee0", "-n", "2"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let labels: Vec<&str> =
            output.stdout.lines().filter_map(|line| Some(line.split_once(" │")?.0)).collect();
        assert_eq!(labels.len(), output.stdout.lines().count(), "{}", output.stdout);
        let mut order = labels.clone();
        order.dedup();
        assert_eq!(order, ["7c0ffee0", "01a1df00", "01a1df11"], "{}", output.stdout);
        let json = home.run(&["logs", "pi:01a1df11", "7c0ffee0", "-n", "1", "--json"]).stdout;
        let ids: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["session_id"].clone())
            .collect();
        assert_eq!(
            ids,
            ["7c0ffee0-1a2b-4c3d-8e4f-5a6b7c8d9e0f", "01a1df11-aaaa-7bbb-8ccc-0123456789ab"]
        );
        assert_eq!(home.run(&["logs", "pi:01a1df11", "7c0ffee0", "--raw"]).code, Some(2));
    });
}

#[test]
fn a_group_is_followed_until_the_last_of_it_ends() {
    sandboxed(|| {
        let home = home();
        let one = launched(&home, "a", &["--group", "team", "-p", "x [[ask:First?]]"]);
        let named = ["--group", "team", "--name", "painter", "-p", "y [[ask:Second?]]"];
        let two = launched(&home, "b", &named);
        let mut child = follower(&home, &["logs", "-f", "--group", "team"]);
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut next = || said.next().expect("a line").expect("read");
        let mut waits = [next(), next()];
        waits.sort();
        assert!(waits.iter().all(|line| line.contains(" waits for a human ")), "{waits:?}");
        assert_eq!(home.run(&["stop", &one]).code, Some(0));
        assert!(next().starts_with(&format!("session {} has ended", &one[..8])));
        assert!(child.try_wait().expect("looked").is_none(), "the other one lives");
        assert_eq!(home.run(&["stop", &two]).code, Some(0));
        assert!(next().starts_with("session painter has ended"));
        assert!(eventually("it ends", || child.try_wait().expect("looked")).success());
        let mut text = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("read");
        assert!(text.contains(&format!("{} │ ", &one[..8])), "{text}");
        assert!(text.contains("painter │ "), "{text}");
        for command in ["logs", "wait"] {
            let none = home.run(&[command, "--group", "nobody"]);
            assert_eq!(none.code, Some(4), "{none:?}");
            assert!(none.stderr.contains("hint: groups: team\n"), "{none:?}");
        }
    });
}
