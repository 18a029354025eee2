//! Class: texts of agents that a shell puts on a command line.

use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{A, prompt};
use crate::{configure, home};

/// Asks as the script of bash does, with one of its kinds of completion.
fn bash(home: &TestHome, columns: &str, kind: &str, word: &str) -> Vec<String> {
    let line = format!("agentctl logs {word}");
    let answer = home.run(&["__complete", "bash", columns, kind, word, &line]);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{columns} {kind}");
    answer.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// Writes one session, under one id, into two homes: bash sees two completions with the same text.
fn two_homes() -> TestHome {
    let home = home();
    for name in [".claude", ".claude2"] {
        let mut line = prompt("$(touch pwned)");
        line["cwd"] = "/srv".into();
        line["sessionId"] = A.into();
        line["timestamp"] = "2026-11-15T08:00:00.000Z".into();
        home.write(&format!("{name}/projects/-srv/{A}.jsonl"), format!("{line}\n"));
    }
    configure(&home, &[], "[roots]\nclaude-code = [\"~/.claude2\"]\n");
    home
}

/// Bash inserts what all lines have in common. Two lines of one text have their descriptions in common too.
#[test]
fn bash_is_given_no_description_that_it_would_insert() {
    sandboxed(|| {
        let home = two_homes();
        let word = &A[..4];
        let listed = eventually("it is offered", || {
            let lines = bash(&home, "100", "9", word);
            (!lines.is_empty()).then_some(lines)
        });
        assert_eq!(listed.len(), 1, "one text is offered once: {listed:?}");
        for kind in ["9", "33", "37", "42", "63", "64"] {
            for word in ["", word] {
                let lines = eventually("it is offered", || {
                    let lines = bash(&home, "100", kind, word);
                    (!lines.is_empty()).then_some(lines)
                });
                let described = lines.iter().any(|line| line.contains("pwned"));
                assert!(!described || (kind == "63" && lines.len() > 1), "{kind}: {lines:?}");
            }
        }
    });
}

/// The width of the terminal is a number of the environment: it costs no memory.
#[test]
fn a_huge_width_is_bounded() {
    sandboxed(|| {
        let home = two_homes();
        home.write(
            ".claude/projects/-srv/bbbbbbbb-1111-4111-8111-111111111111.jsonl",
            format!("{}\n", prompt("another one")),
        );
        for columns in ["0", "99999", "99999999999", "18446744073709551615", "x"] {
            for line in bash(&home, columns, "63", "") {
                assert!(line.len() < 4096, "{columns}: {} bytes", line.len());
            }
        }
    });
}
