//! The README's console blocks, executed, so that the README stays correct.
//!
//! A block holds `$ command` lines, each followed by its output: stdout, then stderr. `? N` names an
//! exit code and shows stderr too; `[..]` stands for anything within a line, `...` for any lines.

use std::path::PathBuf;
use std::process::Command;

use testkit::sandboxed;

use crate::{fixtures_dir, home};

#[test]
fn every_console_block_of_the_readme_is_true() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("claude-code/2.1.325"), ".");
        home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
        // It was recorded on another machine, where its process may live.
        std::fs::remove_dir_all(home.path().join(".claude/sessions")).expect("removed");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let text = std::fs::read_to_string(path).expect("the README");
        let blocks: Vec<&str> = text.split("```console\n").skip(1).collect();
        assert!(blocks.len() >= 5, "{} console blocks", blocks.len());
        for block in blocks {
            let block = block.split("```").next().unwrap_or_default();
            for step in format!("\n{block}").split("\n$ ").skip(1) {
                let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
                check(&home, command, expected);
            }
        }
    });
}

fn check(home: &testkit::TestHome, command: &str, expected: &str) {
    let (code, expected) = match expected.strip_prefix("? ").and_then(|e| e.split_once('\n')) {
        Some((code, rest)) => (code.parse().expect("an exit code"), rest),
        None => (0, expected),
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_agentctl"));
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a directory").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().current_dir(home.path());
    shell.env("HOME", home.path()).env("PATH", path).env("TZ", "UTC");
    let output = shell.output().expect("runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = format!("{}{stderr}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(code), "`{command}`:\n{said}");
    let expected: Vec<&str> = expected.trim_end().lines().collect();
    let found: Vec<&str> = said.trim_end().lines().collect();
    assert!(
        matches(&expected, &found),
        "`{command}` printed\n{said}\nbut the README says\n{}",
        expected.join("\n")
    );
}

fn matches(expected: &[&str], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&"...", rest)) => (0..=found.len()).any(|skip| matches(rest, &found[skip..])),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && matches(rest, others)),
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let mut parts = expected.split("[..]");
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = true;
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (open && expected.ends_with("[..]"))
}
