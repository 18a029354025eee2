//! Turning the home of a scenario into a fixture: long vendor texts become filler of the same length,
//! paths become `/home/ada`, and secrets are not there to begin with.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Strings longer than this are vendor prose, unless they are somebody's words.
const LONG: usize = 120;
/// Fields whose texts are what was said, asked or done: they stay.
const KEPT: [&str; 9] =
    ["text", "prompt", "command", "cmd", "message", "title", "preview", "arguments", "lastPrompt"];

/// Copies what an adapter reads from `home` to `fixture`, shortened and cleaned.
pub fn record(home: &Path, fixture: &Path, source: &str) -> std::io::Result<()> {
    for part in [
        ".claude/projects",
        ".claude/sessions",
        ".claude/jobs",
        ".codex/sessions",
        ".codex/thread-writer-locks",
    ] {
        let from = home.join(part);
        if from.is_dir() {
            copy(&from, &fixture.join(part), &home.to_string_lossy())?;
        }
    }
    fs::write(fixture.join("SOURCE"), source)
}

fn copy(from: &Path, to: &Path, home: &str) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().replace(&slug(home), &slug("/home/ada"));
        let target = to.join(name);
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target, home)?;
        } else if kind.is_file() && !target.to_string_lossy().ends_with(".key") {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            fs::write(target, clean(&text, home))?;
        }
    }
    Ok(())
}

/// The same text as somebody named ada would have it, line by line.
fn clean(text: &str, home: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let body = body.replace(home, "/home/ada").replace(&slug(home), &slug("/home/ada"));
        match serde_json::from_str::<Value>(&body) {
            Ok(mut value) => {
                shorten(&mut value, false);
                out.push_str(&value.to_string());
            }
            // A torn line is a fact about the agent, too.
            Err(_) => out.push_str(&body),
        }
        out.push_str(end);
    }
    out
}

fn shorten(value: &mut Value, kept: bool) {
    match value {
        Value::String(text) if text.len() > LONG && (!kept || text.len() > 4 * LONG) => {
            *text = "x".repeat(text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, kept)),
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                shorten(item, KEPT.contains(&key.as_str()));
            }
        }
        _ => {}
    }
}

/// How Claude Code names the folder of a directory.
fn slug(path: &str) -> String {
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
