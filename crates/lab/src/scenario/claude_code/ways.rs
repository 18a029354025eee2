//! How Claude Code is started here, and the facts about it that scenarios wait for.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::{Held, Started};
use crate::scenario::alike::WORK;
use crate::stage::{PATIENCE, Stage, Trouble};
use crate::terminal::Terminal;

const KEY: &str = "sk-ant-fake-key-000000000000000000000000";

/// Returns the environment of a Claude Code that talks to our model.
pub(super) fn env(stage: &Stage) -> Vec<(String, String)> {
    vec![("ANTHROPIC_BASE_URL".into(), stage.model.url()), ("ANTHROPIC_API_KEY".into(), KEY.into())]
}

/// Starts `claude -p` with an id of our choice.
pub(super) fn print_mode(
    stage: &Stage,
    cwd: &Path,
    id: &str,
    prompt: &str,
) -> Result<Started, Trouble> {
    print_with(stage, cwd, prompt, &["--session-id", id, "--dangerously-skip-permissions"])
}

/// Starts `claude -p` on a session that exists.
pub(super) fn resume(
    stage: &Stage,
    cwd: &Path,
    id: &str,
    prompt: &str,
) -> Result<Started, Trouble> {
    print_with(stage, cwd, prompt, &["--resume", id, "--dangerously-skip-permissions"])
}

/// Starts `claude -p` with these further arguments.
pub(super) fn print_with(
    stage: &Stage,
    cwd: &Path,
    prompt: &str,
    more: &[&str],
) -> Result<Started, Trouble> {
    let argv: Vec<&str> =
        ["claude", "-p", prompt].into_iter().chain(more.iter().copied()).collect();
    stage.start(cwd, &env(stage), &argv)
}

/// Presets the answers that a person gives once: onboarding, the key, and trust in these directories.
pub(super) fn settle(stage: &Stage, trusted: &[&Path]) -> Result<(), Trouble> {
    let trust = json!({"allowedTools": [], "hasTrustDialogAccepted": true});
    let projects: serde_json::Map<String, Value> =
        trusted.iter().map(|p| (p.to_string_lossy().into_owned(), trust.clone())).collect();
    let answered = json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
        "bypassPermissionsModeAccepted": true,
        "hasResetAutoModeOptInForDefaultOffer": true,
        "hasSeenAutoDefaultNudge": true,
        "hasSeenAutoModeEntryWarning": true,
        "projects": projects,
    });
    stage.write(".claude.json", &answered.to_string())?;
    let settings = json!({
        "skipDangerousModePermissionPrompt": true,
        "permissions": {"defaultMode": "default"},
    });
    stage.write(".claude/settings.json", &settings.to_string())
}

/// Takes back one answer that [`settle`] has preset.
pub(super) fn unsettle(stage: &Stage, file: &str, answer: &str) -> Result<(), Trouble> {
    let text = fs::read_to_string(stage.home.join(file)).map_err(told)?;
    let mut answered: Value = serde_json::from_str(&text).map_err(told)?;
    answered.as_object_mut().and_then(|a| a.remove(answer)).ok_or("it was not answered")?;
    stage.write(file, &answered.to_string())
}

/// A Claude Code in a terminal.
pub(super) struct Tui {
    pub(super) terminal: Terminal,
    pub(super) process: Held,
}

impl Tui {
    /// Starts it in a directory.
    pub(super) fn start(stage: &mut Stage, cwd: &Path, more: &[&str]) -> Result<Self, Trouble> {
        let argv: Vec<&str> = ["claude"].into_iter().chain(more.iter().copied()).collect();
        let env = env(stage);
        let terminal = stage.terminal(cwd, &env, &argv)?;
        let process = stage.until("claude runs in the terminal", || {
            let process = terminal.process().ok()?;
            crate::process::comm(process.pid).starts_with("claude").then_some(process)
        })?;
        Ok(Self { terminal, process })
    }

    /// Starts it in a directory it trusts, with an id of our choice, and waits for its prompt.
    pub(super) fn ready(
        stage: &mut Stage,
        cwd: &Path,
        id: &str,
        args: &[&str],
    ) -> Result<Self, Trouble> {
        settle(stage, &[cwd])?;
        let all: Vec<&str> = ["--session-id", id].into_iter().chain(args.iter().copied()).collect();
        let tui = Self::start(stage, cwd, &all)?;
        until_live(stage, tui.pid(), |r| r["status"] == "idle")?;
        tui.until_shown(stage, "❯")?;
        Ok(tui)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Types a prompt.
    pub(super) fn prompt(&self, text: &str) -> Result<(), Trouble> {
        self.terminal.type_line(text).map_err(told)
    }

    /// Presses a key until it has its effect: a dialog ignores keys at first, as protection against
    /// typing ahead.
    pub(super) fn press_until(
        &self,
        stage: &Stage,
        key: &str,
        what: &str,
        has_effect: impl Fn() -> bool,
    ) -> Result<(), Trouble> {
        let mut looks = 0;
        let done = stage.until(what, || {
            if has_effect() {
                return Some(Ok(()));
            }
            looks += 1;
            let pressed =
                if looks % 50 == 1 { self.terminal.press(key).map_err(told) } else { Ok(()) };
            pressed.err().filter(|_| !has_effect()).map(Err)
        });
        done.map_err(|e| self.with_screen(&e))?
    }

    /// Chooses the first option of a dialog, and waits until it is gone.
    pub(super) fn accept(&self, stage: &Stage) -> Result<(), Trouble> {
        self.until_shown(stage, "❯ 1.")?;
        let path = live_record(stage, self.pid());
        self.press_until(stage, "Enter", "the dialog is answered", || {
            lines(&path).iter().any(|r| r["status"] != "waiting")
        })
    }

    /// Waits until the screen shows this.
    pub(super) fn until_shown(&self, stage: &Stage, text: &str) -> Result<(), Trouble> {
        let shown = stage.until(&format!("the screen shows `{text}`"), || {
            self.terminal.screen().ok()?.contains(text).then_some(())
        });
        shown.map_err(|e| self.with_screen(&e))
    }

    /// Adds the content of the screen to an error.
    pub(super) fn with_screen(&self, trouble: &str) -> Trouble {
        format!("{trouble}:\n{}", self.terminal.screen().unwrap_or_default().trim())
    }

    /// Waits until its live record says this.
    pub(super) fn until_says(
        &self,
        stage: &Stage,
        status: &str,
        waiting_for: Option<&str>,
    ) -> Result<Value, Trouble> {
        let said = until_live(stage, self.pid(), |r| {
            r["status"] == status && r["waitingFor"].as_str() == waiting_for
        });
        said.map_err(|e| self.with_screen(&e))
    }
}

/// Returns a new session id.
pub(super) fn id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Puts an error into words.
pub(super) fn told<E: Display>(error: E) -> Trouble {
    error.to_string()
}

/// Waits for the end of the process that was started.
pub(super) fn end(agent: &mut Started) -> Result<(), Trouble> {
    agent.wait(PATIENCE).map(drop).map_err(told)
}

/// Waits until the live record of a process says this.
pub(super) fn until_live(
    stage: &Stage,
    pid: u32,
    fits: impl Fn(&Value) -> bool,
) -> Result<Value, Trouble> {
    let path = live_record(stage, pid);
    let mut last = Value::Null;
    let said = stage.until(&format!("{} says so", path.display()), || {
        last = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        fits(&last).then(|| last.clone())
    });
    said.map_err(|e| format!("{e}; it says {last}"))
}

/// Returns where the live record of a process is.
pub(super) fn live_record(stage: &Stage, pid: u32) -> PathBuf {
    stage.home.join(format!(".claude/sessions/{pid}.json"))
}

/// Returns where a session's conversation is, once it is there.
pub(super) fn conversation(claude: &Path, id: &str) -> Option<PathBuf> {
    let projects = fs::read_dir(claude.join("projects")).ok()?;
    projects.flatten().map(|p| p.path().join(format!("{id}.jsonl"))).find(|p| p.exists())
}

/// Returns every whole line of a file.
pub(super) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// Waits until the lines of a session's conversation are as wanted.
pub(super) fn until_written(
    stage: &Stage,
    id: &str,
    what: &str,
    fits: impl Fn(&[Value]) -> bool,
) -> Result<(), Trouble> {
    let claude = stage.home.join(".claude");
    let read = || conversation(&claude, id).map(|p| lines(&p));
    let done = stage
        .until(&format!("the conversation of {id} holds {what}"), || fits(&read()?).then_some(()));
    done.map_err(|e| {
        let kinds = read().unwrap_or_default().into_iter().map(|l| match l["subtype"].as_str() {
            Some(subtype) => subtype.to_owned(),
            None => l["type"].as_str().unwrap_or("?").to_owned(),
        });
        format!("{e}; it holds {}", kinds.collect::<Vec<_>>().join(", "))
    })
}

/// Says whether a line is an answer that calls a tool whose arguments contain this text.
pub(super) fn calls(line: &Value, text: &str) -> bool {
    let blocks = line["message"]["content"].as_array().into_iter().flatten();
    let mut calls = blocks.filter(|b| b["type"] == "tool_use");
    line["type"] == "assistant" && calls.any(|b| b["input"].to_string().contains(text))
}

/// Says whether a line is an answer with exactly this text.
pub(super) fn answers(line: &Value, text: &str) -> bool {
    let mut blocks = line["message"]["content"].as_array().into_iter().flatten();
    line["type"] == "assistant" && blocks.any(|b| b["text"] == text)
}

/// Says whether something of this type comes after the last line that fits.
pub(super) fn then(lines: &[Value], fits: impl Fn(&Value) -> bool, kind: &str) -> bool {
    let after = lines.iter().rposition(fits).map(|at| &lines[at + 1..]);
    after.is_some_and(|rest| rest.iter().any(|l| l["type"] == kind))
}

/// Waits until a session is in a model call that was scripted to hang, and all of it is on disk.
pub(super) fn until_calling(
    stage: &Stage,
    pid: u32,
    id: &str,
    prompt: &str,
) -> Result<(), Trouble> {
    stage.until_asked(prompt, |r| r.prompt.starts_with(prompt) && !r.side)?;
    until_live(stage, pid, |r| r["status"] == "busy" && r["sessionId"] == id)?;
    until_written(stage, id, "the prompt and its request", |lines| {
        let asks = |l: &Value| {
            l["type"] == "user"
                && l["message"]["content"].as_str().is_some_and(|c| c.starts_with(prompt))
        };
        then(lines, asks, "api-request")
    })
}

/// Waits until [`WORK`] runs below a session's process, and the call of it is on disk.
pub(super) fn until_working(stage: &Stage, pid: u32, id: &str) -> Result<Held, Trouble> {
    let tool = stage.until_below(pid, WORK)?;
    until_called(stage, id, WORK)?;
    Ok(tool)
}

/// Waits until the file of a subagent holds a call, and returns the subagent's id.
pub(super) fn until_subagent_called(
    stage: &Stage,
    id: &str,
    what: &str,
) -> Result<String, Trouble> {
    let folder = conversation(&stage.home.join(".claude"), id)
        .map(|p| p.with_extension("").join("subagents"))
        .ok_or("there is no conversation")?;
    stage.until("the subagent's call is on disk", || {
        let files = std::fs::read_dir(&folder).ok()?.flatten().map(|f| f.path());
        let file = files.filter(|f| f.extension().is_some_and(|e| e == "jsonl")).min()?;
        lines(&file).iter().any(|l| calls(l, what)).then_some(())?;
        Some(file.file_stem()?.to_str()?.strip_prefix("agent-")?.to_owned())
    })
}

/// Waits until a call of a tool whose arguments contain this text is on disk.
pub(super) fn until_called(stage: &Stage, id: &str, text: &str) -> Result<(), Trouble> {
    until_written(stage, id, "the tool's call", |lines| {
        lines.iter().any(|l| calls(l, text)) && lines.iter().any(|l| l["type"] == "last-prompt")
    })
}
