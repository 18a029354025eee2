//! The terminal program that owns its session: the server feature is off.

use rustix::process::Signal;
use serde_json::Value;

use super::{env, native, recorded, rollout, settings};
use crate::judge::Claim;
use crate::process::Held;
use crate::scenario::alike::spent;
use crate::stage::{PATIENCE, Stage, Trouble};
use crate::terminal::Terminal;

/// A command that Codex may not run without being allowed to.
pub(super) const FORBIDDEN: &str = "touch /etc/agentctl-lab";

/// The model's answer to a request for a title.
const TITLE: &[u8] = b"Scripted title";

/// A Codex in a terminal: the window, the program in it, and its thread.
pub(super) struct Tui {
    pub(super) terminal: Terminal,
    pub(super) native: Held,
    pub(super) id: String,
}

/// Starts one with a session of its own, and waits until it accepts input.
fn tui(stage: &mut Stage, name: &str) -> Result<Tui, Trouble> {
    own(stage, name, &[])
}

/// The same, with further words.
fn own(stage: &mut Stage, name: &str, words: &[&str]) -> Result<Tui, Trouble> {
    settings(stage, ".codex", false)?;
    let (terminal, native) = open(stage, name, words)?;
    let pid = native.pid;
    let id = stage.until("it holds a lock", || threads_of(pid).into_iter().next())?;
    Ok(Tui { terminal, native, id })
}

/// Opens a terminal with Codex in it, and waits until it shows its prompt.
pub(super) fn open(
    stage: &mut Stage,
    name: &str,
    words: &[&str],
) -> Result<(Terminal, Held), Trouble> {
    let cwd = stage.directory(name)?;
    let mut env = env();
    // Requests beyond loopback are refused at once.
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY"] {
        env.push((proxy.into(), "http://127.0.0.1:9".into()));
    }
    env.push(("NO_PROXY".into(), "127.0.0.1".into()));
    let argv: Vec<&str> = ["codex"].into_iter().chain(words.iter().copied()).collect();
    let terminal = stage.terminal(&cwd, &env, &argv)?;
    let pane = terminal.process().map_err(|e| e.to_string())?;
    let native = native(stage, pane.pid)?;
    shows(stage, &terminal, "fake-codex-1")?;
    Ok((terminal, native))
}

/// Waits until the screen shows a text.
pub(super) fn shows(stage: &Stage, terminal: &Terminal, text: &str) -> Result<(), Trouble> {
    let shown = stage.until(&format!("the screen shows `{text}`"), || {
        terminal.screen().ok()?.contains(text).then_some(())
    });
    shown.map_err(|e| format!("{e}:\n{}", terminal.screen().unwrap_or_default()))
}

/// Lists the threads whose locks a process has open, by the kernel's names of its files.
pub(super) fn threads_of(pid: u32) -> Vec<String> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let locks = files.filter(|f| f.parent().is_some_and(|p| p.ends_with("thread-writer-locks")));
    let names = locks.filter_map(|f| Some(f.file_stem()?.to_string_lossy().into_owned()));
    names.filter(|n| !n.starts_with('.')).collect()
}

/// The prompt that has the model ask for the forbidden command.
pub(super) fn forbidden(word: &str) -> String {
    format!(
        "{word} [[call:exec_command {{\"cmd\":\"{FORBIDDEN}\",\"sandbox_permissions\":\
         \"require_escalated\",\"justification\":\"need it\"}}]] [[say:never]]"
    )
}

impl Tui {
    pub(super) fn enter(&self, text: &str) -> Result<(), Trouble> {
        self.terminal.paste_line(text).map_err(|e| e.to_string())
    }

    pub(super) fn press(&self, key: &str) -> Result<(), Trouble> {
        self.terminal.press(key).map_err(|e| e.to_string())
    }

    /// Waits until the model has the prompt and the records do.
    pub(super) fn asked(&self, stage: &Stage, word: &str) -> Result<(), Trouble> {
        stage.until_asked(word, |r| !r.side && r.prompt.starts_with(word))?;
        self.recorded(stage, word)?;
        self.titled(stage)
    }

    /// Waits until the title that Codex asks the model for is in its index: later it would make two
    /// looks differ.
    fn titled(&self, stage: &Stage) -> Result<(), Trouble> {
        let home = stage.home.join(".codex");
        stage.until("its title is in the index", || {
            let list = std::fs::read_to_string(home.join("session_index.jsonl")).ok()?;
            list.lines().find(|l| l.contains(&self.id))?;
            let holds = |name: &str| {
                let bytes = std::fs::read(home.join(name)).unwrap_or_default();
                bytes.windows(TITLE.len()).any(|w| w == TITLE)
            };
            (holds("state_5.sqlite-wal") || holds("state_5.sqlite")).then_some(())
        })
    }

    pub(super) fn recorded(&self, stage: &Stage, text: &str) -> Result<(), Trouble> {
        recorded(stage, &stage.home.join(".codex"), &self.id, text)
    }

    fn is(&self, status: &'static str) -> Claim {
        Claim::of(&self.id, status).served_by(&[self.native.pid]).hosted(false)
    }
}

pub(super) fn idle(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = tui(stage, "a")?;
    let records = rollout(&stage.home.join(".codex"), &tui.id);
    stage.expect_that("there is only a lock", records.is_none(), format!("{records:?}"));
    stage.expect("before the first prompt", &tui.is("idle").because(None))?;
    tui.enter("greeting [[say:hello]]")?;
    tui.asked(stage, "greeting")?;
    tui.recorded(stage, "\"task_complete\"")?;
    stage.expect("after a turn", &tui.is("idle").because(None).spent(spent(1)))?;
    tui.enter("/quit")?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("/quit did not end it".into());
    }
    let ended = Claim::of(&tui.id, "stopped").ended("finished").served_by(&[]);
    stage.expect("after /quit", &ended.spent(spent(1)))
}

pub(super) fn unprompted(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = tui(stage, "a")?;
    tui.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("SIGKILL did not end it".into());
    }
    let left = stage.home.join(format!(".codex/thread-writer-locks/{}.lock", tui.id)).exists();
    stage.expect_that("the lock file stays behind", left, "it is gone: the scenario shows nothing");
    let rows = stage.rows(&[])?;
    stage.expect_that("nothing lives", rows.is_empty(), format!("{rows:?}"));
    Ok(())
}

pub(super) fn interrupted(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = tui(stage, "a")?;
    tui.enter("thinking [[hang]]")?;
    tui.asked(stage, "thinking")?;
    stage.expect("while the model thinks", &tui.is("running").because(None))?;
    shows(stage, &tui.terminal, "esc to interrupt")?;
    tui.press("Escape")?;
    tui.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("after Esc", &tui.is("idle").because(None))?;
    tui.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    if !tui.native.ended_within(PATIENCE) {
        return Err("SIGKILL did not end it".into());
    }
    let ended = Claim::of(&tui.id, "stopped").ended("interrupted").served_by(&[]);
    stage.expect("killed at rest", &ended)
}

pub(super) fn approval(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = tui(stage, "a")?;
    tui.enter(&forbidden("asking"))?;
    tui.asked(stage, "asking")?;
    shows(stage, &tui.terminal, "Yes, proceed")?;
    tui.recorded(stage, "\"function_call\"")?;
    // No file says that it asks: `running` and a note is all that can be known.
    stage.expect("while it asks", &tui.is("running").noting("needs approval"))?;
    tui.press("Escape")?;
    tui.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("after the refusal", &tui.is("idle").because(None))
}

pub(super) fn question(stage: &mut Stage) -> Result<(), Trouble> {
    let tui = tui(stage, "a")?;
    tui.enter("/plan")?;
    shows(stage, &tui.terminal, "Plan mode")?;
    let option = |label: &str| serde_json::json!({"label": label, "description": label});
    let questions: Value = serde_json::json!({"questions": [{
        "id": "q", "header": "H", "question": "Which colour?",
        "options": [option("Red"), option("Blue")],
    }]});
    // Directives end at the first pair of closing brackets.
    let call = questions.to_string().replace("]}]", "] } ]");
    tui.enter(&format!("wondering [[call:request_user_input {call}]] [[say:never]]"))?;
    tui.asked(stage, "wondering")?;
    shows(stage, &tui.terminal, "Which colour?")?;
    tui.recorded(stage, "\"request_user_input\"")?;
    let waiting = tui.is("waiting").because(Some("question")).about_what("Which colour?");
    stage.expect("while it asks", &waiting)?;
    tui.press("Escape")?;
    tui.recorded(stage, "\"turn_aborted\"")?;
    stage.expect("after Esc", &tui.is("idle").because(None))
}

/// A directory with the name of a subcommand, given as people give it.
pub(super) fn namesake(stage: &mut Stage) -> Result<(), Trouble> {
    drop(stage.directory("a/exec")?);
    let tui = own(stage, "a", &["-C", "exec"])?;
    stage.expect("before the first prompt", &tui.is("idle").because(None))
}
