//! Turning the home of a scenario into a fixture: long vendor texts become filler of the same length,
//! paths become `/home/ada`, and secrets are not there to begin with.
//!
//! Lines are changed in place, character by character: order, spelling and everything else an adapter
//! might stumble over stay as the agent wrote them.

use std::fs;
use std::path::Path;

use crate::play::WAS;

/// Strings longer than this are vendor prose, unless they are part of the conversation.
const LONG: usize = 120;
/// Fields whose texts belong to the conversation: they stay.
const KEPT: [&str; 9] =
    ["text", "prompt", "command", "cmd", "message", "title", "preview", "arguments", "lastPrompt"];

/// Copies the files that an adapter reads from `home` to `fixture`, shortened and cleaned.
pub fn record(home: &Path, fixture: &Path, source: &str) -> std::io::Result<()> {
    let was = fs::read_to_string(home.join(WAS))?;
    for part in [
        ".claude/projects",
        ".claude/sessions",
        ".claude/jobs",
        ".codex/sessions",
        ".codex/thread-writer-locks",
    ] {
        let from = home.join(part);
        if from.is_dir() {
            copy(&from, &fixture.join(part), &was)?;
        }
    }
    fs::write(fixture.join("SOURCE"), source)
}

fn copy(from: &Path, to: &Path, was: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().replace(&slug(was), &slug("/home/ada"));
        let target = to.join(name);
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target, was)?;
        } else if kind.is_file() && !target.to_string_lossy().ends_with(".key") {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            fs::write(target, clean(&text, was))?;
        }
    }
    Ok(())
}

/// Returns the text with the paths of a user named ada, and long texts filled.
fn clean(text: &str, was: &str) -> String {
    let text = text.replace(was, "/home/ada").replace(&slug(was), &slug("/home/ada"));
    let mut out = String::with_capacity(text.len());
    let mut key = String::new();
    let mut rest = text.as_str();
    while let Some(open) = rest.find('"') {
        let (before, string) = rest.split_at(open + 1);
        out.push_str(before);
        let Some(end) = closing(string) else {
            // A torn line is a fact about the agent, too.
            rest = string;
            break;
        };
        let body = &string[..end];
        rest = &string[end..];
        if rest.starts_with("\":") {
            body.clone_into(&mut key);
            out.push_str(body);
        } else if body.len() > if KEPT.contains(&key.as_str()) { 4 * LONG } else { LONG } {
            out.extend(std::iter::repeat_n('x', body.len()));
        } else {
            out.push_str(body);
        }
        out.push('"');
        rest = &rest[1..];
    }
    out.push_str(rest);
    out
}

/// Where a string that has just been opened ends.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|b| {
        let ends = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        ends
    })
}

/// How Claude Code names the folder of a directory.
fn slug(path: &str) -> String {
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_filled_and_nothing_else_moves() {
        let prose = "p".repeat(200);
        let line = format!(
            r#"{{"type":"user","cwd":"/tmp/lab-x/home/ws","text":"{}","base":"{prose}","q":"a \"b\" c"}}"#,
            "said ".repeat(30)
        );
        let cleaned = clean(&format!("{line}\n{{\"torn"), "/tmp/lab-x/home");
        let expected =
            line.replace("/tmp/lab-x/home", "/home/ada").replace(&prose, &"x".repeat(200));
        assert_eq!(cleaned, format!("{expected}\n{{\"torn"));
        for part in cleaned.lines().take(1) {
            serde_json::from_str::<serde_json::Value>(part).expect("still JSON");
        }
    }
}
