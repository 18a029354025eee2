//! The conversation as people read it: on terminals of every width, with every kind of content.

use std::os::unix::fs::PermissionsExt;

use agentctl_core::text::is_harmful;
use serde_json::{Value, json};
use testkit::{TestHome, sandboxed};
use unicode_width::UnicodeWidthStr;

use crate::terminal::shown;
use crate::{fixtures_dir, home};

const CLAUDE: &str = "7c0ffee0";
const ALL: [(&str, &str); 4] = [
    ("claude-code", CLAUDE),
    ("codex", "codex:01a1df00"),
    ("pi", "pi:01a1df11"),
    ("opencode", "opencode:ses_e20aaa"),
];

/// A home with the conversation of one agent.
fn planted(agent: &str) -> TestHome {
    let home = home();
    home.plant(&fixtures_dir().join("conversations").join(agent), ".");
    home
}

#[test]
fn a_conversation_fits_every_terminal() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        for columns in [40_u16, 60, 80, 120, 200] {
            let args = ["logs", CLAUDE, "--turns", "9", "--no-pager"];
            let text = shown(&mut home, columns, &args);
            insta::assert_snapshot!(format!("logs-claude-code-{columns}"), text);
            for args in [&args[..], &["logs", CLAUDE, "-n", "500", "--full", "--no-pager"]] {
                let text = shown(&mut home, columns, args);
                for line in text.lines() {
                    let width = line.width();
                    assert!(width <= usize::from(columns), "{width} of {columns}: {line}");
                }
            }
        }
    });
}

#[test]
fn colours_and_styles_are_those_of_this_program() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        home.set("NO_COLOR", "");
        let text = shown(&mut home, 80, &["logs", CLAUDE, "--no-pager"]);
        insta::assert_snapshot!("logs-claude-code-colours", text.replace('\u{1b}', "␛"));
        assert!(!text.contains("**"), "Markdown is painted: {text}");
        assert!(!text.contains("\\x1b"), "the colours of tools are removed: {text}");
    });
}

#[test]
fn every_agent_has_the_same_view() {
    sandboxed(|| {
        for (agent, id) in ALL {
            let mut home = planted(agent);
            let text = shown(&mut home, 80, &["logs", id, "--no-pager"]);
            insta::assert_snapshot!(format!("logs-{agent}"), text);
            for word in ["image", "thinking", "✗", "user", "assistant"] {
                assert!(text.contains(word), "{agent}, {word}: {text}");
            }
            let counts = if agent == "opencode" { "+1 −1" } else { "+2 −1" };
            assert!(text.contains(counts), "{agent}: {text}");
        }
    });
}

#[test]
fn each_result_stands_under_its_own_call() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        let text = shown(&mut home, 120, &["logs", CLAUDE, "--no-pager"]);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(at("▸ Grep(parse_token in") < at("src/session.rs:40"));
        assert!(at("src/session.rs:40") < at("▸ Bash(cargo test login)"));
        assert!(at("▸ Bash(cargo test login)") < at("test result: FAILED"), "the last lines");
        assert!(!text.contains("test t0 ... ok\n    ✗"), "not the first ones: {text}");
        assert!(at("title: Login") < at("owner: ada"), "in a sensible order");
        for piped in ["1", "3", "7", "12"] {
            let text = home.run(&["logs", CLAUDE, "-n", piped]).stdout;
            let first =
                text.lines().find(|l| l.contains('│') || l.contains('✗') || l.contains('▸'));
            assert!(
                first.is_none_or(|line| line.contains('▸')),
                "-n {piped} begins with an orphan: {text}"
            );
        }
    });
}

#[test]
fn the_last_turn_is_the_default_on_a_terminal_and_the_rest_is_counted() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        let text = shown(&mut home, 80, &["logs", CLAUDE, "--no-pager"]);
        assert!(text.starts_with("… 2 earlier messages (--turns N, -n N)\n"), "{text}");
        assert!(!text.contains("Why does the login test fail?"), "{text}");
        let piped = home.run(&["logs", CLAUDE]);
        assert!(piped.stdout.contains("compared before it"), "20 messages when piped: {piped:?}");
        let count = |args: &[&str]| {
            let args: Vec<&str> = ["logs", CLAUDE, "--json"].iter().chain(args).copied().collect();
            home.run(&args).stdout.lines().count()
        };
        assert_eq!((count(&[]), count(&["-n", "500"]), count(&["--tail", "3"])), (20, 21, 3));
        assert_eq!(
            (count(&["-n", "all"]), count(&["--turns", "1"]), count(&["-n", "0"])),
            (21, 19, 0)
        );
        let none = home.run(&["logs", CLAUDE, "-n", "0"]);
        assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", ""));
        let both = home.run(&["logs", CLAUDE, "-n", "1", "--turns", "1"]);
        assert_eq!(both.code, Some(2), "{both:?}");
    });
}

#[test]
fn messages_are_chosen_by_author_tools_and_time() {
    sandboxed(|| {
        let home = planted("claude-code");
        let read = |args: &[&str]| -> Vec<Value> {
            let args: Vec<&str> = ["logs", CLAUDE, "--json"].iter().chain(args).copied().collect();
            let output = home.run(&args);
            assert_eq!(output.code, Some(0), "{output:?}");
            output.stdout.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
        };
        let roles = |messages: &[Value]| {
            let roles = messages.iter().map(|m| m["role"].as_str().expect("a role").to_owned());
            roles.collect::<std::collections::BTreeSet<String>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(roles(&read(&["--role", "user"])), ["user"]);
        assert_eq!(roles(&read(&["--role", "user,tool"])), ["tool", "user"]);
        let talk = read(&["--no-tools"]);
        assert_eq!(talk.len(), 5, "{talk:?}");
        assert!(talk.iter().all(|m| m["tool_calls"] == json!([])), "{talk:?}");
        assert_eq!(read(&["--since", "2026-11-15"]).len(), 19);
        assert_eq!(read(&["--since", "2026-11-15T01:15:00Z"]).len(), 2);
        assert_eq!(read(&["--since", "2026-11-15", "-n", "1"]).len(), 1);
        let results = home.run(&["logs", CLAUDE, "--role", "tool"]).stdout;
        assert!(results.contains("▸ Bash(cargo test login)"), "with their calls: {results}");
        let nothing = home.run(&["logs", CLAUDE, "--role", "system"]);
        assert_eq!(nothing.stderr, "no message matches\n", "{nothing:?}");
    });
}

#[test]
fn what_is_folded_says_how_to_unfold_it() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        let text = shown(&mut home, 80, &["logs", CLAUDE, "--no-pager"]);
        let folds = text.lines().filter(|line| line.contains("(--full)")).count();
        assert!(folds >= 4, "{text}");
        let full = shown(&mut home, 80, &["logs", CLAUDE, "--full", "--no-pager"]);
        assert!(!full.contains("--full"), "{full}");
        for word in ["Then the page.", "Rule 28.", "test t17 ... ok", "Fixed in src/login.rs."] {
            assert!(full.contains(word) && !text.contains(word), "{word}");
        }
    });
}

/// A conversation whose every text is hostile.
fn hostile(evil: &str) -> Vec<Value> {
    let user = |content: Value| {
        json!({"type": "user", "uuid": "u", "timestamp": "2026-11-15T01:00:00Z",
            "message": {"role": "user", "content": content}})
    };
    let says = |block: Value| {
        json!({"type": "assistant", "timestamp": "2026-11-15T01:00:01Z",
            "message": {"id": evil, "model": evil, "role": "assistant", "content": [block]}})
    };
    let call = |id: &str, name: &str, input: Value| {
        says(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
    };
    let result = |id: &str, is_error: bool| {
        user(json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": [
            {"type": "text", "text": evil},
            {"type": "image", "source": {"media_type": evil, "url": evil}}]}]))
    };
    let patch = json!({"filePath": evil, "structuredPatch": [
        {"oldStart": 1, "newStart": 1, "lines": [format!("-{evil}"), format!("+{evil}"), evil]}]});
    let mut changed = result("e", false);
    changed["toolUseResult"] = patch;
    vec![
        user(
            json!([{"type": "text", "text": evil}, {"type": "image", "source": {"media_type": evil}}]),
        ),
        says(json!({"type": "thinking", "thinking": evil})),
        says(
            json!({"type": "text", "text": format!("# {evil}\n- {evil}\n> {evil}\n**{evil}** `{evil}` [{evil}]({evil})\n```{evil}\n{evil}\n```\n| {evil} | b |\n|---|---|\n| {evil} | {evil} |")}),
        ),
        call("a", evil, json!({evil: evil})),
        call("b", "Bash", json!({"command": evil})),
        result("b", true),
        result("a", false),
        call("t", "TodoWrite", json!({"todos": [{"content": evil, "status": evil}]})),
        call("e", "Edit", json!({"file_path": evil, "old_string": evil, "new_string": "x"})),
        changed,
        call("w", "Write", json!({"file_path": evil, "content": evil})),
        call("m", &format!("mcp__{evil}__{evil}"), json!({"title": evil, "body": evil})),
        call(
            "p",
            "apply_patch",
            json!(format!("*** Begin Patch\n*** Update File: {evil}\n@@\n-{evil}\n+{evil}")),
        ),
        json!({"type": "system", "subtype": "local_command", "timestamp": "2026-11-15T01:00:02Z", "content": evil}),
    ]
}

/// Removes the styles that this program itself writes.
fn without_styles(text: &str) -> String {
    let mut text = text.to_owned();
    for code in ["0", "1", "2", "3", "31", "32", "33", "34", "35", "36"] {
        text = text.replace(&format!("\u{1b}[{code}m"), "");
    }
    text
}

#[test]
fn hostile_text_in_every_place_is_shown_and_not_obeyed() {
    sandboxed(|| {
        let mut home = home();
        let id = "abcdabcd-0000-4000-8000-000000000001";
        let evils = [
            "\u{1b}]0;PWN\u{7}\u{1b}[2J\u{1b}[H\u{9b}31mPWN\u{1b}P\u{1b}\\",
            "PWN\r\u{8}\u{202e}\u{200b}\u{e0041}\u{1b}[\u{1b}[31m31mPWN\u{1b}[?1049h",
            "\u{1b}[7mPWN\u{1b}[5m\u{1b}[8mhidden",
        ];
        for (evil, colour) in evils.iter().flat_map(|evil| [(evil, "1"), (evil, "")]) {
            let lines: Vec<String> = hostile(evil).iter().map(Value::to_string).collect();
            home.write(&format!(".claude/projects/-ws/{id}.jsonl"), lines.join("\n") + "\n");
            home.set("NO_COLOR", colour);
            for args in [
                &["logs", id, "--no-pager"][..],
                &["logs", id, "--no-pager", "--full"],
                &["logs", id, "-f", "--full"],
                &["logs", id, id, "--no-pager"],
            ] {
                for columns in [20, 80] {
                    let text = shown(&mut home, columns, args);
                    assert!(text.matches("PWN").count() >= 20, "{args:?}: {text}");
                    let text = if colour.is_empty() { without_styles(&text) } else { text };
                    let found: Vec<char> = text.chars().filter(|c| is_harmful(*c)).collect();
                    assert!(found.is_empty(), "{args:?} at {columns}: {found:?} in {text:?}");
                }
            }
        }
    });
}

/// A pager that writes down what it got: its arguments, then its input.
fn recording_pager(home: &TestHome) -> String {
    let script =
        "#!/bin/sh\n{ for a in \"$@\"; do echo \"argument: $a\"; done; cat; } > \"$HOME/paged\"\n";
    let path = home.write("bin/my pager", script);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("set");
    path.to_string_lossy().into_owned()
}

#[test]
fn long_output_goes_to_the_pager_of_the_user_without_a_shell() {
    sandboxed(|| {
        let mut home = planted("claude-code");
        let pager = recording_pager(&home);
        home.set(
            "PAGER",
            format!("'{pager}' -x 'a b' '$(touch pwned); `touch pwned`' ; touch pwned"),
        );
        let paged = home.path().join("paged");
        let screen = shown(&mut home, 80, &["logs", CLAUDE]);
        assert_eq!(screen, "", "the pager has it");
        let got = std::fs::read_to_string(&paged).expect("paged");
        let head = "argument: -x\nargument: a b\nargument: $(touch pwned); `touch pwned`\nargument: ;\nargument: touch\nargument: pwned\n… 2 earlier";
        assert!(got.starts_with(head), "{got}");
        assert!(got.contains("What was wrong"), "{got}");
        assert!(!home.path().join("pwned").exists(), "no shell ran");
        std::fs::remove_file(&paged).expect("removed");
        // Short output, no terminal, the user's wish, a program as reader: no pager.
        assert!(shown(&mut home, 80, &["logs", CLAUDE, "-n", "1"]).contains("What was wrong"));
        assert!(shown(&mut home, 80, &["logs", CLAUDE, "--no-pager"]).contains("What was wrong"));
        assert!(shown(&mut home, 80, &["logs", CLAUDE, "--json"]).contains("What was wrong"));
        assert!(home.run(&["logs", CLAUDE, "-n", "500"]).stdout.contains("What was wrong"));
        assert!(!paged.exists(), "no pager was asked for");
        for pager in ["", "cat", "/no/such/pager", "'unclosed"] {
            home.set("PAGER", pager);
            let screen = shown(&mut home, 80, &["logs", CLAUDE]);
            assert!(screen.contains("What was wrong"), "PAGER={pager}: {screen}");
            let named = pager.starts_with('/');
            assert_eq!(screen.contains("warning: the pager /no/such/pager"), named, "{screen}");
        }
    });
}
