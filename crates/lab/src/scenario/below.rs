//! Answers from below an agent: by its tools, in every shape in which a process leaves the tree or the environment
//! of its parent, and by its hooks. All of them are refused. Answers of shells that no agent has started are taken.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use super::inbox_bars::{Asking, Keeping, ask_of, launch, text};
use super::{Agent, Scenario};
use crate::process::Held;
use crate::stage::{Stage, Trouble};
use crate::terminal::Terminal;

/// The shapes in which a tool starts a process that answers.
const TOOLS: [&str; 5] = ["child", "shell", "setsid", "forked", "emptied"];
/// Those of an agent without a shim: a process that leaves its tree and empties its environment is not below it.
pub(super) const WITHOUT_SHIM: [&str; 4] = ["child", "shell", "setsid", "forked"];
/// Those of an agent that has hooks.
const WITH_HOOK: [&str; 6] = ["child", "shell", "setsid", "forked", "emptied", "hook"];

/// Lists the scenarios of an agent that asks.
pub(super) const fn scenarios<K: Asking>(agent: &Agent) -> [Scenario; 2] {
    let shows = "answers by its tools, of every shape, and by a hook: refused";
    [agent.headless("answered-from-below", shows, from_below::<K>), from_beside::<K>(agent)]
}

/// Lists the scenarios of an agent that asks nobody: the demo agent asks.
pub(super) const fn silent_scenarios<K: Keeping>(agent: &Agent) -> [Scenario; 2] {
    let shows = "answers by its tools, of every shape: refused";
    [agent.headless("answered-from-below", shows, from_below_of_demo::<K>), from_beside::<K>(agent)]
}

const fn from_beside<K: Keeping>(agent: &Agent) -> Scenario {
    agent.terminal(
        "answered-beside",
        "answers by a shell beside it, and by its own shell after its death: taken",
        beside::<K>,
    )
}

/// An open ask for a command that makes a file.
pub(super) struct OpenAsk {
    id: String,
    made: PathBuf,
}

impl OpenAsk {
    /// Has the demo agent ask in a directory of this name.
    pub(super) fn of_demo(stage: &Stage, name: &str) -> Result<Self, Trouble> {
        let cwd = stage.directory(name)?;
        let prompt = "go [[permit:touch made]]";
        let session = stage.order(&cwd, &[], &["launch", "demo", "-p", prompt])?.line()?;
        let ask = stage.until("the demo agent asks", || ask_in(stage, &session))?;
        Ok(Self { id: text(&ask["id"]).to_owned(), made: cwd.join("made") })
    }

    /// Writes a script for each shape that answers the ask and leaves what it was told beside it.
    pub(super) fn write_scripts(&self, stage: &Stage, shapes: &[&str]) -> Result<(), Trouble> {
        let (home, program) = (stage.home.display(), stage.agentctl.display());
        for shape in shapes {
            let script = format!(
                "{program} answer {} --allow > {home}/{shape}.out 2>&1; echo $? > {home}/{shape}.code\n",
                self.id
            );
            stage.write(&format!("{shape}.sh"), &script)?;
        }
        Ok(())
    }

    /// Waits until each script has answered: every answer was refused, and the ask is still open for a person.
    pub(super) fn expect_refused(&self, stage: &mut Stage, shapes: &[&str]) -> Result<(), Trouble> {
        for shape in shapes {
            let (code, said) = answered(stage, shape)?;
            let is_refused = code == "5" && said.contains("agents may not answer");
            stage.expect_that(&format!("refused: {shape}"), is_refused, said);
        }
        stage.expect_that("the command did not run", !self.made.exists(), "");
        let (_, stdout, stderr) = stage.ask(&["asks", "--json"])?;
        let is_open = stdout.contains(&format!("\"{}\"", self.id));
        stage.expect_that("the ask is still open", is_open, format!("{stdout} {stderr}"));
        let (code, stdout, stderr) = stage.ask(&["answer", &self.id, "--allow"])?;
        let said = format!("{stdout} {stderr}");
        stage.expect_that("a person beside it may answer", code == Some(0), said);
        stage.until("the command has run", || self.made.exists().then_some(()))
    }

    /// Has a shell in a terminal answer; the answer is taken, and the command runs.
    fn expect_taken_from(
        &self,
        stage: &mut Stage,
        shell: &Terminal,
        shape: &str,
    ) -> Result<(), Trouble> {
        self.write_scripts(stage, &[shape])?;
        shell.type_line(&format!("sh ~/{shape}.sh")).map_err(|e| e.to_string())?;
        let (code, said) = answered(stage, shape)?;
        stage.expect_that(&format!("taken: {shape}"), code == "0", said);
        stage.until("the command has run", || self.made.exists().then_some(()))
    }
}

/// Returns the ask of a session that can be answered.
fn ask_in(stage: &Stage, session: &str) -> Option<Value> {
    let (_, stdout, _) = stage.ask(&["asks", "--json"]).ok()?;
    let document: Value = serde_json::from_str(&stdout).ok()?;
    let fits = |ask: &&Value| ask["session_id"] == session && ask["via"].is_string();
    document["asks"].as_array()?.iter().find(fits).cloned()
}

/// Waits for the exit code of an answer; returns it with what was printed.
fn answered(stage: &Stage, shape: &str) -> Result<(String, String), Trouble> {
    let read = |end: &str| std::fs::read_to_string(stage.home.join(format!("{shape}.{end}")));
    let code = stage.until(&format!("the {shape} has answered"), || {
        read("code").ok().filter(|code| code.ends_with('\n'))
    })?;
    Ok((code.trim().to_owned(), read("out").unwrap_or_default()))
}

/// Returns the directives that have an agent run the scripts of these shapes as tools.
pub(super) fn directives(stage: &Stage, shapes: &[&str]) -> String {
    let home = stage.home.display();
    let apart = "< /dev/null > /dev/null 2>&1 &";
    let until = |shape: &str| format!("while ! test -s {home}/{shape}.code; do sleep 0.1; done");
    let tool = |shape: &&str| match *shape {
        "child" => format!(". {home}/child.sh"),
        "setsid" => format!("setsid -w sh {home}/setsid.sh"),
        "forked" => format!("(setsid sh {home}/forked.sh {apart}); {}", until("forked")),
        "emptied" => format!(
            "(env -i HOME={home} PATH=/usr/bin:/bin setsid sh {home}/emptied.sh {apart}); {}",
            until("emptied")
        ),
        shape => format!("sh {home}/{shape}.sh"),
    };
    let tools: Vec<String> =
        shapes.iter().map(tool).map(|tool| format!("[[tool:{tool}]]")).collect();
    tools.join(" ")
}

/// Launches an agent whose tools and hook answer.
fn launch_above<K: Keeping>(stage: &Stage) -> Result<(), Trouble> {
    let prompt = format!("answer it {} [[say:done]]", directives(stage, &TOOLS));
    launch::<K>(stage, "b", &prompt, &["--permissions", "bypass"]).map(drop)
}

fn from_below<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let prompt = format!("go {} [[say:done]]", K::asking_for("touch made"));
    let (session, cwd) = launch::<K>(stage, "a", &prompt, &["--ask"])?;
    let ask = ask_of::<K>(stage, &session)?;
    let ask = OpenAsk { id: text(&ask["id"]).to_owned(), made: cwd.join("made") };
    ask.write_scripts(stage, &WITH_HOOK)?;
    K::hook(stage, &stage.home.join("hook.sh"))?;
    launch_above::<K>(stage)?;
    ask.expect_refused(stage, &WITH_HOOK)
}

fn from_below_of_demo<K: Keeping>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let ask = OpenAsk::of_demo(stage, "asks")?;
    ask.write_scripts(stage, &TOOLS)?;
    launch_above::<K>(stage)?;
    ask.expect_refused(stage, &TOOLS)
}

/// Two shells in one tmux server: in one of them a person starts the agent, which is killed later.
fn beside<K: Keeping>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let first = OpenAsk::of_demo(stage, "asks")?;
    let second = OpenAsk::of_demo(stage, "asks-too")?;
    let cwd = stage.directory("a")?;
    let env = K::env(stage);
    let bash = ["bash", "--norc", "--noprofile"];
    let shell = stage.terminal(&cwd, &env, &bash)?;
    let other = stage.terminal(&cwd, &env, &bash)?;
    shell.type_line(K::TYPED).map_err(|e| e.to_string())?;
    let agent = stage.until("the agent is listed", || {
        let rows = stage.rows(&[]).ok()?;
        let row = rows.into_iter().find(|row| row["adapter"] == K::NAME)?;
        Held::of(u32::try_from(row["pid"].as_u64()?).ok()?).ok()
    })?;
    first.expect_taken_from(stage, &other, "beside")?;
    stage.expect_that("the agent lives meanwhile", agent.lives(), "");
    agent.signal(Signal::KILL).map_err(|e| e.to_string())?;
    stage.until("the agent is gone", || {
        let rows = stage.rows(&[]).ok()?;
        (!rows.iter().any(|row| row["adapter"] == K::NAME)).then_some(())
    })?;
    second.expect_taken_from(stage, &shell, "after-its-death")
}
