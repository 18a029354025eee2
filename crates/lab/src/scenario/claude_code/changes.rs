//! Claude Code changes files, with its tools and with shell commands.

use std::path::Path;

use serde_json::{Value, json};

use super::ways::{end, id, print_mode};
use crate::scenario::changes::{Files, Told};
use crate::stage::{Stage, Trouble};

fn call(name: &str, input: &Value) -> String {
    format!("[[call:{name} {input}]]")
}

/// Calls of the file tools: read, edit twice, create, overwrite, and an edit that fails.
fn file_tools(cwd: &Path) -> String {
    let path = |name: &str| cwd.join(name).to_string_lossy().into_owned();
    let edit = |name: &str, old: &str, new: &str| {
        call("Edit", &json!({"file_path": path(name), "old_string": old, "new_string": new}))
    };
    [
        call("Read", &json!({"file_path": path("a.txt")})),
        edit("a.txt", "two", "TWO\nTWO and a half"),
        edit("a.txt", "nine", "NINE"),
        edit("a.txt", "not there", "x"),
        call("Write", &json!({"file_path": path("new/w.txt"), "content": "hello\nworld\n"})),
        call("Write", &json!({"file_path": path("new/w.txt"), "content": "hello\nwide\nworld"})),
        call("Read", &json!({"file_path": path("end.txt")})),
        edit("end.txt", "no", "still no"),
    ]
    .concat()
}

fn play(stage: &mut Stage, more: &str, unsure: &[&str]) -> Result<(), Trouble> {
    let (files, id) = (Files::make(stage)?, id());
    let prompt = format!("edit {}{more}[[say:done]]", file_tools(&files.cwd));
    end(&mut print_mode(stage, &files.cwd, &id, &prompt)?)?;
    files.compare(stage, &Told { id: &id, commands: 1, missing: &[], unsure })
}

/// The newest version records what shell commands change in a git work tree.
pub(super) fn all(stage: &mut Stage) -> Result<(), Trouble> {
    let shell = "[[tool:sed -i s/tool/shell/ shell.txt]][[tool:rm gone.txt]][[tool:mv old.txt moved.txt]]\
                 [[tool:echo by shell > s.txt]][[tool:true]]";
    play(stage, shell, &["shell.txt", "gone.txt", "old.txt", "moved.txt", "s.txt"])
}

/// Every version records what its file tools change.
pub(super) fn by_file_tools(stage: &mut Stage) -> Result<(), Trouble> {
    play(stage, "[[tool:true]]", &[])
}
