//! Claude Code, as it is started, watched and ended by people and scripts.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Needs, Scenario};
use crate::judge::Claim;
use crate::process::Started;
use crate::stage::{Stage, Trouble};

const KEY: &str = "sk-ant-fake-key-000000000000000000000000";

/// Every scenario of Claude Code.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        agent: "claude-code",
        name: "model-call",
        shows: "a headless session while the model thinks, and its end",
        needs: Needs::Core,
        unknown_because: None,
        play: model_call,
    },
    Scenario {
        agent: "claude-code",
        name: "killed-in-tool",
        shows: "SIGKILL in the middle of a tool: the live record stays behind",
        needs: Needs::Core,
        unknown_because: None,
        play: killed_in_tool,
    },
];

/// Returns the environment of a Claude Code that talks to our model.
fn env(stage: &Stage) -> Vec<(String, String)> {
    vec![("ANTHROPIC_BASE_URL".into(), stage.model.url()), ("ANTHROPIC_API_KEY".into(), KEY.into())]
}

/// Starts `claude -p` with an id of our choice.
fn print_mode(stage: &Stage, cwd: &Path, id: &str, prompt: &str) -> Result<Started, Trouble> {
    let argv = ["claude", "-p", prompt, "--session-id", id, "--dangerously-skip-permissions"];
    stage.start(cwd, &env(stage), &argv)
}

fn id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Waits until the live record of a process says this.
fn until_live(stage: &Stage, pid: u32, fits: impl Fn(&Value) -> bool) -> Result<Value, Trouble> {
    let path = stage.home.join(format!(".claude/sessions/{pid}.json"));
    stage.until(&format!("{} says so", path.display()), || {
        let record: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        fits(&record).then_some(record)
    })
}

fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "think [[delay:4]] [[say:done thinking]]")?;
    stage.until_asked("the prompt", |r| r.prompt.starts_with("think"))?;
    until_live(stage, agent.pid(), |r| r["status"] == "busy")?;
    let running = Claim::of(&id, "running").because(None).served_by(&[agent.pid()]).hosted(false);
    stage.expect("while the model thinks", &running)?;
    agent.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let tokens = json!({"input": 1000, "output": 50, "cache_read": 7, "cache_write": 11});
    let ended = Claim::of(&id, "stopped").ended("finished").served_by(&[]).spent(tokens);
    stage.expect("after its end", &ended)
}

fn killed_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "work [[tool:tail -f /dev/null]] [[say:never]]")?;
    let tool = stage.until_below(agent.pid(), "tail -f /dev/null")?;
    let claim = Claim::of(&id, "running").because(Some("tool")).about_what("tail -f /dev/null");
    stage.expect("in the tool", &claim.served_by(&[agent.pid()]))?;
    agent.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let left = stage.home.join(format!(".claude/sessions/{}.json", agent.pid())).exists();
    stage.expect_that(
        "the live record stays behind",
        left,
        "it is gone: the scenario shows nothing",
    );
    stage.expect("after SIGKILL", &Claim::of(&id, "stopped").ended("killed").served_by(&[]))?;
    tool.signal(Signal::KILL).map_err(|e| e.to_string())
}
