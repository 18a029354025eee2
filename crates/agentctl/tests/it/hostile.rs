//! Rubbish in session directories: skipped with a reason, in bounded memory, without a hang or a panic.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{TestHome, sandboxed};

use crate::home;

const GOOD: &str = "aaaaaaaa-0000-4000-8000-00000000600d";

pub(crate) type Place = (&'static str, fn(&str) -> String);

/// The places where transcripts lie.
pub(crate) const PLACES: &[Place] = &[
    ("claude-code", |id| format!(".claude/projects/-ws/{id}.jsonl")),
    ("codex", |id| format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-53-25-{id}.jsonl")),
    ("demo", |id| format!(".local/share/agentctl-demo/sessions/{id}.jsonl")),
    ("pi", |id| format!(".pi/agent/sessions/--ws--/2026-11-15T07-53-25-730Z_{id}.jsonl")),
];

fn id(number: u32) -> String {
    format!("bbbbbbbb-0000-4000-8000-{number:012}")
}

fn good(home: &TestHome) {
    let claude = json!({"type": "user", "cwd": "/ws", "timestamp": "2026-11-15T08:00:00Z", "message": {"role": "user", "content": "hi"}}).to_string()
        + "\n" + &json!({"type": "assistant", "timestamp": "2026-11-15T08:00:01Z", "message": {"id": "m", "model": "x", "stop_reason": "end_turn", "content": [{"type": "text", "text": "ho"}]}}).to_string() + "\n";
    home.write(&PLACES[0].1(GOOD), claude);
}

/// Asserts that the good session is shown correctly beside any rubbish.
fn assert_good(listed: &testkit::Output, what: &str) {
    let row = listed.session(GOOD);
    assert_eq!(
        (&row["status"], &row["outcome"]),
        (&"stopped".into(), &"finished".into()),
        "{what}"
    );
}

fn list(home: &TestHome) -> testkit::Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

#[test]
fn a_file_that_is_not_regular_is_skipped_with_a_reason() {
    sandboxed(|| {
        for &(adapter, place) in PLACES {
            let home = home();
            good(&home);
            let at = |n: u32| home.at(&place(&id(n)));
            let fifo = Command::new("mkfifo").arg(at(1)).status().expect("mkfifo");
            assert!(fifo.success());
            // Bound under a short name: a socket's path has a limit.
            let _socket = UnixListener::bind(home.path().join("s")).expect("bound");
            std::fs::rename(home.path().join("s"), at(2)).expect("moved");
            symlink("/dev/zero", at(3)).expect("linked");
            symlink(at(4), at(4)).expect("a loop");
            symlink("/etc/passwd", at(5)).expect("a way out");
            std::fs::create_dir(at(6)).expect("a directory");
            let listed = list(&home);
            assert_eq!(listed.code, Some(3), "{adapter}: {}", listed.stderr);
            assert_good(&listed, adapter);
            assert_eq!(listed.sessions().len(), 1, "{adapter}: {}", listed.stdout);
            for (number, reason) in [
                (1, "FIFO"),
                (2, "socket"),
                (3, "symbolic link"),
                (4, "symbolic link"),
                (5, "symbolic link"),
            ] {
                let told =
                    listed.stderr.lines().any(|l| l.contains(&id(number)) && l.contains(reason));
                assert!(
                    told,
                    "{adapter}: nothing said about {number} ({reason}):\n{}",
                    listed.stderr
                );
            }
            assert_eq!(
                home.run(&["list", "--json"]).code,
                Some(0),
                "{adapter}: what lives is not concerned"
            );
        }
    });
}

#[test]
fn rubbish_inside_a_transcript_is_skipped() {
    sandboxed(|| {
        let deep = format!(
            "{{\"type\":\"user\",\"message\":{}1{}}}\n",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let rubbish: Vec<(&str, Vec<u8>)> = vec![
            ("empty", Vec::new()),
            ("no newline", b"{\"type\":\"user\"".to_vec()),
            ("not JSON", b"hello\nworld\n".to_vec()),
            ("NUL bytes", vec![0; 100_000]),
            ("bad UTF-8", b"{\"type\":\"user\",\"message\":{\"content\":\"\xff\xfe\x80\"}}\n".to_vec()),
            ("deep", deep.into_bytes()),
            ("wrong types", b"{\"type\":5,\"payload\":[],\"message\":\"x\",\"timestamp\":{}}\n[]\n3\nnull\n\"x\"\n".to_vec()),
            ("only newlines", vec![b'\n'; 100_000]),
            ("absurd times", b"{\"type\":\"user\",\"timestamp\":\"9999999-99-99\",\"message\":{\"content\":\"x\"}}\n".to_vec()),
        ];
        for &(adapter, place) in PLACES {
            let home = home();
            good(&home);
            for (number, (_, bytes)) in rubbish.iter().enumerate() {
                home.write(&place(&id(u32::try_from(number).expect("few"))), bytes);
            }
            let listed = list(&home);
            assert_good(&listed, adapter);
            // Older versions of Claude Code leave an empty transcript beside each resumed one: it is no session.
            let none = usize::from(adapter == "claude-code");
            let rows = 1 + rubbish.len() - none;
            assert_eq!(listed.sessions().len(), rows, "{adapter}: {}", listed.stderr);
            for row in listed.sessions() {
                let (id, stopped) =
                    (row["id"].as_str().expect("an id"), &row["status"] == "stopped");
                assert!(stopped, "{adapter}: nothing serves {row}");
                assert_ne!(
                    home.run(&["status", &format!("{adapter}:{id}"), "--json"]).code,
                    None,
                    "{adapter}"
                );
                for args in [
                    &["logs", id][..],
                    &["logs", id, "--json"],
                    &["logs", id, "--raw"],
                    &["why", id],
                ] {
                    let output = home.run(args);
                    assert!(output.code.is_some(), "{adapter} {args:?}: {}", output.stderr);
                    assert!(
                        !output.stderr.contains("panicked"),
                        "{adapter} {args:?}: {}",
                        output.stderr
                    );
                }
            }
        }
    });
}

#[test]
fn a_gigabyte_in_one_line_is_read_in_bounded_memory() {
    sandboxed(|| {
        for &(adapter, place) in PLACES {
            let home = home();
            good(&home);
            let path: PathBuf = home.write(&place(&id(1)), "");
            let file = std::fs::OpenOptions::new().write(true).open(&path).expect("open");
            file.set_len(1 << 30).expect("a sparse gigabyte");
            for args in [
                &["list", "-a", "--since", "all", "--json"][..],
                &["status", &id(1), "--json"],
                &["logs", &id(1)],
            ] {
                let output = home.run_within(256, args);
                assert_eq!(output.code, Some(0), "{adapter} {args:?}: {}", output.stderr);
            }
            let row = home.run(&["status", &id(1), "--json"]).json();
            assert_eq!(
                (&row["status"], &row["outcome"]),
                (&"stopped".into(), &"unknown".into()),
                "{adapter}"
            );
        }
    });
}

#[test]
fn tokens_are_known_only_if_every_line_was_counted() {
    sandboxed(|| {
        let at = "2026-11-15T08:00:00Z";
        let lines = [
            (
                "claude-code",
                json!({"type": "assistant", "timestamp": at,
                "message": {"id": "m", "model": "x", "stop_reason": "end_turn", "content": [],
                    "usage": {"input_tokens": 5, "output_tokens": 2}}}),
            ),
            (
                "codex",
                json!({"type": "token_usage_record", "timestamp": at,
                "payload": {"response_id": "r", "usage": {"input_tokens": 5, "output_tokens": 2}}}),
            ),
            (
                "demo",
                json!({"type": "say", "id": "1", "text": "x", "model": "m", "at": at,
                "usage": {"input": 5, "output": 2, "cache_read": 0, "cache_write": 0}}),
            ),
            (
                "pi",
                json!({"type": "message", "id": "1", "parentId": null, "timestamp": at,
                "message": {"role": "assistant", "usage": {"input": 5, "output": 2}}}),
            ),
        ];
        let counts = |name: &str| {
            let adapter = agentctl_core::adapters::ALL.iter().find(|a| a.name() == name);
            adapter.is_some_and(|adapter| adapter.capabilities().tokens)
        };
        for &(adapter, place) in PLACES.iter().filter(|(name, _)| counts(name)) {
            let line = lines.iter().find(|(name, _)| *name == adapter);
            let (_, line) = line.unwrap_or_else(|| panic!("no line with tokens of {adapter}"));
            let home = home();
            let tokens = || home.run(&["status", &id(1), "--json"]).json()["tokens"].clone();
            home.write(&place(&id(1)), format!("{line}\n"));
            assert_eq!(
                (&tokens()["input"], &tokens()["output"]),
                (&5.into(), &2.into()),
                "{adapter}"
            );
            // Longer than a line may be: its usage is unknown.
            let long = "x".repeat(9 << 20);
            home.write(&place(&id(1)), format!("{line}\n{{\"usage\":\"{long}\"}}\n"));
            assert_eq!(tokens(), Value::Null, "{adapter}");
        }
        let home = home();
        good(&home);
        let folder = format!(".claude/projects/-ws/{GOOD}/subagents");
        symlink("/dev/null", home.at(&format!("{folder}/agent-a1b2c3.jsonl"))).expect("linked");
        let status = home.run(&["status", GOOD, "--json"]).json();
        assert_eq!(status["tokens"], Value::Null, "a subagent's share could not be read");
        assert!(status["notes"][0].as_str().is_some_and(|n| n.starts_with("tokens are not known")));
    });
}

#[test]
fn files_of_another_user_are_skipped() {
    sandboxed(|| {
        let home = home();
        good(&home);
        let path = home.write(&PLACES[0].1(&id(1)), "{}\n");
        // Root may change the owner of a file; other users may mount a file of another user in its
        // place.
        let given =
            Command::new("chown").arg("65534").arg(&path).status().expect("chown").success();
        if !given {
            let mounted = Command::new("mount").args(["--bind", "/etc/passwd"]).arg(&path).status();
            assert!(
                mounted.expect("mount").success(),
                "neither chown nor a bind mount is to be had"
            );
        }
        let listed = list(&home);
        assert_eq!(listed.code, Some(3), "{}", listed.stderr);
        assert!(listed.stderr.contains("it belongs to uid"), "{}", listed.stderr);
        let row = listed.session(&id(1));
        assert_eq!((&row["status"], &row["outcome"]), (&"unknown".into(), &Value::Null));
        assert_good(&listed, "another user's file");
    });
}

#[test]
fn a_session_without_read_permission_is_unknown_not_stopped() {
    sandboxed(|| {
        use std::os::unix::fs::PermissionsExt;
        let home = home();
        good(&home);
        let path = home.write(&PLACES[0].1(&id(1)), "{}\n");
        let none = std::fs::Permissions::from_mode(0o0);
        std::fs::set_permissions(&path, none.clone()).expect("closed");
        let closed = home.at(".codex/sessions/2026/11/x");
        std::fs::set_permissions(closed.parent().expect("a directory"), none).expect("closed");
        // Without capabilities even root is bound by a file's mode.
        let mut bound = Command::new("setpriv");
        bound.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_agentctl")]);
        bound.args(["list", "-a", "--since", "all", "--json"]).env_clear().env("HOME", home.path());
        let output = bound.output().expect("setpriv of util-linux");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let status = |id: &str| {
            let rows = document["sessions"].as_array().into_iter().flatten();
            rows.clone().find(|s| s["id"] == id).map(|s| s["status"].clone())
        };
        assert_eq!(status(&id(1)), Some("unknown".into()), "{stderr}");
        assert_eq!(status(GOOD), Some("stopped".into()), "{stderr}");
        assert!(stderr.contains("sessions/2026/11 was skipped: permission denied"), "{stderr}");
    });
}

#[test]
fn rubbish_among_the_live_records_hides_no_session() {
    sandboxed(|| {
        let home = home();
        good(&home);
        for (name, text) in [
            ("1.json", "{"),
            ("2.json", "[]"),
            ("3.json", ""),
            ("4.json", "{\"sessionId\":\"../../etc/passwd\"}"),
            ("99999999999.json", "{}"),
            ("x.json", "{}"),
        ] {
            home.write(&format!(".claude/sessions/{name}"), text);
            home.write(&format!(".local/share/agentctl-demo/live/{name}"), text);
        }
        home.write(".codex/thread-writer-locks/.coordination.lock", "");
        home.write(".codex/thread-writer-locks/..lock", "");
        symlink("/dev/zero", home.at(".claude/sessions/5.json")).expect("linked");
        let listed = list(&home);
        assert_eq!(listed.code, Some(3));
        assert_good(&listed, "live records");
        assert!(listed.stderr.contains("sessions/5.json was skipped"), "{}", listed.stderr);
    });
}

#[test]
fn a_damaged_index_hides_no_session() {
    sandboxed(|| {
        for bytes in [
            b"not a database at all, but long enough to look like one".to_vec(),
            Vec::new(),
            vec![0; 4096],
        ] {
            let home = home();
            home.plant(&crate::fixtures_dir().join("codex/0.166.0"), ".");
            home.write(".codex/state_5.sqlite", bytes);
            let listed = list(&home);
            assert_eq!(listed.code, Some(0), "{}", listed.stderr);
            assert_eq!(listed.sessions().len(), 38);
        }
    });
}

#[test]
fn no_foreign_text_reaches_the_terminal_raw() {
    sandboxed(|| {
        let home = home();
        let evil = "\u{1b}]0;owned\u{7}\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31m\u{202e}gnp\u{200b}.exe\rOVER\u{7f}";
        let line = json!({"type": "user", "cwd": format!("/ws/{evil}"), "timestamp": "2026-11-15T08:00:00Z", "message": {"role": "user", "content": evil}});
        let title = json!({"type": "custom-title", "customTitle": evil});
        let failed = json!({"type": "assistant", "isApiErrorMessage": true, "timestamp": "2026-11-15T08:00:00Z", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": evil}]}});
        home.write(&PLACES[0].1(GOOD), format!("{line}\n{failed}\n{title}\n"));
        home.write(
            ".config/agentctl/config.toml",
            format!("[roots]\n\"{}\" = []\n", "\\u001b]0;x\\u0007"),
        );
        let wrong = home.run(&["config", "check"]);
        assert_eq!(wrong.code, Some(1));
        assert_harmless(&wrong.stderr);
        crate::configure(&home, &[], "");
        for args in [
            &["list", "-a", "--since", "all"][..],
            &["list", "-a", "--since", "all", "--json"],
            &["status", GOOD],
            &["status", GOOD, "--json"],
            &["why", GOOD],
            &["why", GOOD, "--json"],
            &["logs", GOOD],
            &["logs", GOOD, "--json"],
            &["status", evil],
        ] {
            let output = home.run(args);
            assert_harmless(&output.stdout);
            assert_harmless(&output.stderr);
        }
        let status: Value = home.run(&["status", GOOD, "--json"]).json();
        assert_eq!(status["title"], evil.replace('\r', " "), "JSON keeps the data");
    });
}

fn assert_harmless(text: &str) {
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    };
    assert!(!text.contains(harmful), "{text:?}");
}
