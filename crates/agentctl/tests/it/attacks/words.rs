//! Class: foreign text that reaches a terminal, a log or an event (S9, S17, S19, S20, S21).

use std::os::unix::fs::PermissionsExt;

use agentctl::daemon::webhooks::body;
use agentctl_core::events::EventKind;
use agentctl_core::fleet::Rows;
use agentctl_core::model::Session;
use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt, said};
use crate::daemon::{SOCKET, Wire, framed, started};
use crate::events::Stream;
use crate::home;
use crate::launched::{folder, script};
use crate::terminal::shown;

/// Moves a terminal, sets its title, writes the clipboard, turns text around.
const EVIL: &str = "a\u{1b}]0;PWN\u{7}b\u{1b}[31mc\u{9b}2Jd\u{202e}e\u{1b}]52;c;eA==\u{7}f\rg\nh";

fn is_harmful(c: char) -> bool {
    matches!(c, '\u{1b}' | '\u{7}' | '\r' | '\u{9b}' | '\u{202e}')
}

/// A process of this user that answers on the daemon's socket with these results.
fn impostor(home: &TestHome, results: &Value) -> Agent {
    let socket = home.at(SOCKET);
    let folder = socket.parent().expect("a folder");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).expect("set");
    let file = home.write("results.json", results.to_string());
    let (socket, file) = (socket.to_string_lossy(), file.to_string_lossy());
    let mut agent = home.agent("impostor", ".", &["serve-rpc", &socket, &file]);
    agent.ready();
    agent
}

/// One packed row, as the daemon sends it, with harmful text in every field.
fn evil_rows() -> Rows {
    let session = json!({
        "id": EVIL, "adapter": EVIL, "root": EVIL, "foreign_home": true, "native_key": EVIL,
        "status": "waiting", "reason": {"kind": "question", "detail": EVIL, "until": null}, "pid": 1,
        "processes": [], "hosted": false, "cwd": EVIL, "model": EVIL, "title": EVIL, "name": EVIL,
        "prompt": EVIL, "group": EVIL, "run": EVIL, "notes": [EVIL],
        "evidence": [{"source": EVIL, "says": EVIL, "at": "2026-11-15T08:00:00.000Z"}],
    });
    let session: Session = serde_json::from_value(session).expect("a session");
    Rows::of(&[session])
}

/// S9, S17: every text of a daemon is cleaned before it is printed.
#[test]
fn no_text_of_a_daemon_controls_the_terminal() {
    sandboxed(|| {
        let home = home();
        started(&home);
        let hello = json!({"protocol": 1, "encoding": "postcard"});
        let welcome = Wire::open(&home).ask("hello", &hello)["result"].clone();
        let mut status = home.run(&["daemon", "status", "--json"]).json();
        let stream = Stream::of_daemon(&home, &[]);
        folder(&home, "w");
        assert_eq!(home.run(&["fuse", "set", "w", "--ttl", "2h"]).code, Some(0));
        let mut event = eventually("an event", || stream.heard().pop());
        drop(stream);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
        let hook = json!({"name": EVIL, "queued": 0, "delivered": 0, "failed": 1, "dropped": 0,
            "attempts": 1, "last_success_at": null, "last_error_at": "2026-11-15T08:00:00.000Z",
            "last_error": EVIL});
        status["webhooks"] = json!([hook]);
        status["notify"] = json!({"shown": 0, "failed": 1, "dropped": 0, "last_error": EVIL});
        status["trouble"] = EVIL.into();
        status["version"] = EVIL.into();
        status["socket"] = EVIL.into();
        status["log"] = EVIL.into();
        status["sessions"] = json!({EVIL: 1});
        status["faults"] = json!([]);
        event["fuse"]["label"] = EVIL.into();
        event["id"] = "another".into();
        let fault = json!({"adapter": "demo", "root": EVIL, "code": "failed", "message": EVIL});
        let results = json!({
            "hello": welcome, "daemon.status": status, "events.subscribe": {"subscribed": true},
            "session.list": {"faults": [fault], "frames": 1}, "list_bytes": framed(&evil_rows()),
            "events": [event],
        });
        let _impostor = impostor(&home, &results);
        for args in [
            &["list", "-a"][..],
            &["list", "-a", "--json"],
            &["daemon", "status"],
            &["daemon", "status", "--json"],
        ] {
            let told = home.run(args);
            assert!(told.stdout.contains("PWN"), "it was asked: {told:?}");
            assert!(!told.stdout.contains(is_harmful), "{args:?}: {told:?}");
            assert!(!told.stderr.contains(is_harmful), "{args:?}: {told:?}");
        }
        // With colours of our own, none of the daemon's; and no line of its own making.
        let table =
            home.command(&["list", "-a"]).env("CLICOLOR_FORCE", "1").output().expect("starts");
        let table = String::from_utf8_lossy(&table.stdout).into_owned();
        assert!(table.contains("PWN") && !table.contains("\u{1b}[31mc"), "{table:?}");
        assert_eq!(table.lines().count(), 2, "a header and a row: {table:?}");
        let json = home.run(&["list", "-a", "--json"]).json();
        for field in ["title", "cwd", "root", "group"] {
            assert_eq!(json["sessions"][0][field], EVIL, "JSON keeps the data: {field}");
        }
        assert_eq!(json["sessions"][0]["evidence"][0]["says"], EVIL, "JSON keeps the data");
        let lines = home.run(&["daemon", "status"]).stdout;
        assert!(
            lines.lines().all(|l| l.get(..10).is_some_and(|head| head.trim() != "h")),
            "{lines}"
        );
        let mut events = home.command(&["events"]);
        let mut events = events.stdout(std::process::Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let out = events.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("told");
        assert!(line.contains("PWN") && !line.trim_end().contains(is_harmful), "{line:?}");
        events.kill().expect("killed");
        events.wait().expect("reaped");
    });
}

/// Every control, format and filler character that Unicode has: category Cf and `Default_Ignorable_Code_Point`.
const HIDDEN: [(u32, u32); 34] = [
    (0x0, 0x8),
    (0xb, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x600, 0x605),
    (0x61c, 0x61c),
    (0x6dd, 0x6dd),
    (0x70f, 0x70f),
    (0x890, 0x891),
    (0x8e2, 0x8e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0000),
    (0xe0001, 0xe0001),
    (0xe0002, 0xe001f),
    (0xe0020, 0xe007f),
    (0xe0080, 0xe00ff),
    (0xe0100, 0xe01ef),
    (0xe01f0, 0xe0fff),
];

/// S19: no character that is not seen reaches a terminal, or a program that reads JSON.
#[test]
fn no_hidden_character_is_printed() {
    sandboxed(|| {
        let hidden = || {
            let ranges = HIDDEN.iter().flat_map(|(from, to)| *from..=*to);
            ranges.filter_map(char::from_u32)
        };
        let claude = Claude::new();
        let text: String = hidden().flat_map(|c| ['x', c]).collect();
        claude.transcript(A, &[prompt(&text), said(&text)]);
        for args in [
            &["list", "-a", "--since", "all"][..],
            &["list", "-a", "--since", "all", "--json"],
            &["logs", A],
            &["logs", A, "--json"],
            &["status", A],
            &["status", A, "--json"],
        ] {
            let told = claude.home.run(args);
            assert!(told.stdout.contains('x'), "{args:?}: {told:?}");
            let raw: Vec<char> = hidden().filter(|c| told.stdout.contains(*c)).collect();
            assert!(raw.is_empty(), "{args:?} prints {raw:?}");
        }
        // Nor is one sent to a webhook.
        let mut session = crate::event_sinks::session();
        session.title = Some(text.clone());
        session.cwd = Some(text);
        let event = crate::event_sinks::event(EventKind::Waiting, "e-1", session);
        let body = String::from_utf8(body(&event)).expect("text");
        let raw: Vec<char> = hidden().filter(|c| body.contains(*c)).collect();
        assert!(raw.is_empty(), "a webhook is sent {raw:?}");
    });
}

/// S20: an address that nothing can ever be sent to is refused when the fuse is set.
#[test]
fn a_fuse_is_not_set_for_an_address_that_is_never_sent_to() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        for url in [
            "http://169.254.169.254/latest",
            "https://169.254.169.254/",
            "https://127.0.0.1/SECRET",
            "https://localhost/SECRET",
            "https://[::1]/SECRET",
            "https://[::ffff:10.0.0.1]/",
            "https://10.1.2.3/SECRET",
            "https://0/SECRET",
            "https://127.1/SECRET",
            "https://2130706433/SECRET",
            "https://0x7f.1/SECRET",
            "https://0177.1/SECRET",
            "https://127.0.0.1./SECRET",
            "https://LOCALHOST./SECRET",
            "https://[fe80::1%25lo]/SECRET",
            "https://1.2.3.4.5/SECRET",
            "https://u:SECRET@hooks.example/",
            "http://hooks.example/SECRET",
            "https://hooks.example:0/SECRET",
            "https://hooks.example/#SECRET",
        ] {
            let set = home.run(&["fuse", "set", ".", "--on-expire", &format!("webhook:{url}")]);
            assert_eq!(set.code, Some(2), "{url}: {set:?}");
            let errors = set.stderr.lines().filter(|l| l.starts_with("error: ")).count();
            assert_eq!(errors, 1, "{set:?}");
            assert!(home.run(&["fuses"]).stderr.contains("no fuse is set"), "{url}");
        }
        let set = home.run(&["fuse", "set", ".", "--on-expire", "webhook:https://hooks.example/x"]);
        assert_eq!(set.code, Some(0), "{set:?}");
        // An address that the configuration names and allows is accepted.
        let config = "[[webhooks]]\nurl = \"http://127.0.0.1:9/x\"\nallow_private = true\n";
        crate::configure(&home, &[], config);
        let set = home.run(&["fuse", "set", ".", "--on-expire", "webhook:http://127.0.0.1:9/x"]);
        assert_eq!(set.code, Some(0), "{set:?}");
        let set = home.run(&["fuse", "set", ".", "--on-expire", "webhook:http://127.0.0.1:9/y"]);
        assert_eq!(set.code, Some(2), "{set:?}");
    });
}

/// S21: events name the program of a fuse, not its arguments.
#[test]
fn events_do_not_hold_the_arguments_of_a_fuse() {
    sandboxed(|| {
        let home = home();
        started(&home);
        let stream = Stream::of_daemon(&home, &[]);
        folder(&home, "w");
        let program = script(&home, "tell", "cat > \"$HOME/told\"");
        let action = format!("run:{} --token SECRET-ARGUMENT", program.display());
        let set = home.run(&["fuse", "set", "w", "--ttl", "1s", "--on-expire", &action]);
        assert_eq!(set.code, Some(0), "{set:?}");
        let of = |kind: &str| {
            eventually(kind, || stream.heard().into_iter().find(|e| e["type"] == kind))
        };
        for event in [of("fuse.set"), of("fuse.expired")] {
            let argv = &event["fuse"]["on_expire"][0]["argv"];
            assert_eq!(*argv, json!([program.to_string_lossy()]), "{event}");
            assert!(!event.to_string().contains("SECRET"), "{event}");
        }
        // The program itself gets all arguments.
        eventually("it was run", || home.path().join("told").exists().then_some(()));
    });
}

/// The agent's own lines are shown unchanged to programs, and cleaned on a terminal.
#[test]
fn raw_lines_are_cleaned_on_a_terminal() {
    sandboxed(|| {
        let mut claude = Claude::new();
        let line = json!({"type": "user", "message": {"role": "user", "content": "x"}}).to_string();
        let line = line.replace("\"x\"", &format!("\"{}\"", EVIL.replace(['\n', '\r'], "")));
        claude.home.write(&format!(".claude/projects/-ws/{A}.jsonl"), format!("{line}\n"));
        let piped = claude.home.run(&["logs", A, "--raw"]).stdout;
        assert!(piped.contains('\u{1b}'), "unchanged: {piped:?}");
        let seen = shown(&mut claude.home, 100, &["logs", A, "--raw"]);
        assert!(seen.contains("PWN") && !seen.contains(is_harmful), "{seen:?}");
    });
}

/// S17: the version in an agent's package is foreign text.
#[test]
fn the_version_of_a_package_cannot_control_the_terminal() {
    sandboxed(|| {
        let mut home = home();
        let version = format!("1.2{EVIL}\u{1b}[31mX");
        for (program, package) in [
            ("claude", "@anthropic-ai/claude-code"),
            ("codex", "@openai/codex"),
            ("opencode", "opencode-ai"),
            ("pi", "@mariozechner/pi-coding-agent"),
        ] {
            let text = json!({"name": package, "version": version}).to_string();
            home.write(&format!("lib/{program}/package.json"), text);
            let file = home.write(&format!("lib/{program}/bin/{program}"), "#!/bin/sh\nexit 1\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&file, mode).expect("set");
            std::os::unix::fs::symlink(file, home.at(&format!("bin/{program}"))).expect("linked");
        }
        for args in [&["adapters"][..], &["adapters", "--json"], &["doctor"], &["doctor", "--json"]]
        {
            for colour in ["", "1"] {
                home.set("NO_COLOR", if colour.is_empty() { "1" } else { "" });
                home.set("CLICOLOR_FORCE", colour);
                let said = home.run(args);
                for text in [&said.stdout, &said.stderr] {
                    assert!(!text.contains("\u{1b}[31mX"), "{args:?}: {text:?}");
                    let raw = text.replace("\u{1b}[", "");
                    assert!(!raw.contains(is_harmful), "{args:?}: {text:?}");
                }
            }
        }
        assert!(home.run(&["adapters"]).stdout.contains("1.2"), "the versions are shown");
    });
}
