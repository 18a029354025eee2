//! Files that an agent changes: what `agentctl changes --patch` tells, applied to the files before the session,
//! gives the files after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::stage::{Stage, Trouble};

/// The files before the session.
const START: [(&str, &str); 5] = [
    ("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"),
    ("gone.txt", "gone\n"),
    ("old.txt", "move\nme\n"),
    ("end.txt", "no newline"),
    ("shell.txt", "by a tool\n"),
];

/// A git work tree with files, and a copy of them.
pub(super) struct Files {
    pub(super) cwd: PathBuf,
    before: PathBuf,
}

/// What the records are expected to tell.
pub(super) struct Told<'a> {
    /// The session.
    pub(super) id: &'a str,
    /// The number of shell commands without a record.
    pub(super) commands: u64,
    /// The files that only shell commands changed, and of which no record tells.
    pub(super) missing: &'a [&'a str],
    /// The files of shell commands that the agent records, and of which it sometimes leaves a record out. The
    /// command is then counted.
    pub(super) unsure: &'a [&'a str],
}

impl Files {
    /// Makes a repository with the files in its first commit.
    pub(super) fn make(stage: &Stage) -> Result<Self, Trouble> {
        let (cwd, before) = (stage.directory("a")?, stage.directory("before")?);
        for (name, text) in START {
            for folder in [&cwd, &before] {
                fs::write(folder.join(name), text).map_err(|e| e.to_string())?;
            }
        }
        let commit =
            ["-c", "user.name=lab", "-c", "user.email=lab@localhost", "commit", "-qm", "start"];
        for words in [&["init", "-q"][..], &["add", "."], &commit] {
            git(stage, &cwd, words)?;
        }
        Ok(Self { cwd, before })
    }

    /// Applies what `changes` tells to the copy, and compares it with the files of the session.
    pub(super) fn compare(&self, stage: &mut Stage, told: &Told<'_>) -> Result<(), Trouble> {
        let (code, patch, stderr) = stage.ask(&["changes", told.id, "--patch"])?;
        if code != Some(0) {
            return Err(format!("changes --patch exited {code:?}: {stderr}"));
        }
        fs::write(stage.home.join("told.patch"), &patch).map_err(|e| e.to_string())?;
        let applied = git(stage, &self.before, &["apply", "../../told.patch"]);
        stage.expect_that(
            "git applies the patch",
            applied.is_ok(),
            format!("{applied:?}\n{patch}"),
        );
        let mut after = contents(&self.cwd)?;
        let made = contents(&self.before)?;
        let (_, json, _) = stage.ask(&["changes", told.id, "--json"])?;
        let document: Value = serde_json::from_str(&json).map_err(|e| e.to_string())?;
        let left_out = told.unsure.iter().filter(|f| made.get(**f) != after.get(**f)).count();
        let commands = document["commands"].as_u64().unwrap_or_default();
        let right = (commands == told.commands) == (left_out == 0) && commands >= told.commands;
        stage.expect_that("commands without a record are counted", right, json);
        let extra: Vec<&str> =
            told.missing.iter().copied().filter(|f| made.get(*f) != after.get(*f)).collect();
        stage.expect_that(
            "shell commands without a record are missing",
            extra == told.missing,
            format!("{made:?}"),
        );
        for name in told.missing.iter().chain(told.unsure) {
            match made.get(*name) {
                Some(text) => drop(after.insert((*name).to_owned(), text.clone())),
                None => drop(after.remove(*name)),
            }
        }
        stage.expect_that(
            "the patch gives the end state",
            made == after,
            format!("{made:?}\n{after:?}"),
        );
        Ok(())
    }
}

fn git(stage: &Stage, cwd: &Path, words: &[&str]) -> Result<(), Trouble> {
    let mut command = Command::new("git");
    command.args(words).env_clear().envs(stage.environment()).current_dir(cwd);
    let output = command.output().map_err(|e| format!("git: {e}"))?;
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(why) }
}

/// Returns the files of a directory, without git's own.
fn contents(directory: &Path) -> Result<BTreeMap<String, String>, Trouble> {
    let (mut pending, mut found) = (vec![directory.to_owned()], BTreeMap::new());
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
            let path = entry.path();
            let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') {
                pending.push(path);
            } else if path.is_file() {
                found.insert(name, fs::read_to_string(&path).map_err(|e| e.to_string())?);
            }
        }
    }
    Ok(found)
}
