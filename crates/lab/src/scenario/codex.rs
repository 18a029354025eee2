//! Codex, as it is started, watched and ended by people and scripts.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::{Needs, Scenario};
use crate::judge::Claim;
use crate::process::{Held, Started, comm, descendants};
use crate::stage::{Stage, Trouble};

/// Every scenario of Codex.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        agent: "codex",
        name: "model-call",
        shows: "`codex exec` while the model thinks, and its end",
        needs: Needs::Core,
        unknown_because: None,
        play: model_call,
    },
    Scenario {
        agent: "codex",
        name: "killed-in-tool",
        shows: "SIGKILL in the middle of a tool: the lock file stays behind",
        needs: Needs::Core,
        unknown_because: None,
        play: killed_in_tool,
    },
];

/// Writes the settings of a Codex that talks to our model; each daemon question has its own answer.
fn settings(stage: &Stage, daemon: bool) -> Result<(), Trouble> {
    let url = stage.model.url();
    stage.write(
        ".codex/config.toml",
        &format!(
            r#"model = "fake-codex-1"
model_provider = "fake"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "workspace-write"
[analytics]
enabled = false
[features]
plugins = false
apps = false
daemon_auto_start = {daemon}
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_OPENAI_KEY"
wire_api = "responses"
"#
        ),
    )
}

fn env() -> Vec<(String, String)> {
    vec![("FAKE_OPENAI_KEY".into(), "sk-fake".into())]
}

/// A `codex exec` that was started here: the wrapper, the agent itself, and the thread it said it has.
struct Exec {
    wrapper: Started,
    native: Held,
    id: String,
}

fn exec(stage: &Stage, cwd: &Path, prompt: &str) -> Result<Exec, Trouble> {
    settings(stage, false)?;
    let before = std::fs::metadata(stage.home.join("said.log")).map_or(0, |m| m.len());
    let argv = [
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        prompt,
    ];
    let wrapper = stage.start(cwd, &env(), &argv)?;
    let id = stage.until("codex says which thread it has", || {
        let text = std::fs::read_to_string(stage.home.join("said.log")).ok()?;
        let fresh = text.get(usize::try_from(before).ok()?..)?;
        let line = fresh.lines().find(|l| l.contains("thread.started"))?;
        let event: Value = serde_json::from_str(line).ok()?;
        event["thread_id"].as_str().map(str::to_owned)
    })?;
    // Under a Node that can, the wrapper becomes the agent; else the agent is its child.
    let native = stage.until("the native codex runs", || {
        let mut pids = vec![wrapper.pid()];
        pids.extend(descendants(wrapper.pid()));
        Held::of(pids.into_iter().find(|p| comm(*p) == "codex")?).ok()
    })?;
    Ok(Exec { wrapper, native, id })
}

fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "think [[delay:4]] [[say:done thinking]]")?;
    stage.until_asked("the prompt", |r| r.prompt.starts_with("think"))?;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running.hosted(false))?;
    agent.wrapper.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let tokens = serde_json::json!({"input": 993, "output": 50, "cache_read": 7, "cache_write": 0});
    let ended = Claim::of(&agent.id, "stopped").ended("finished").served_by(&[]).spent(tokens);
    stage.expect("after its end", &ended)
}

fn killed_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "work [[tool:tail -f /dev/null]] [[say:never]]")?;
    drop(stage.until_below(agent.native.pid, "tail -f /dev/null")?);
    let claim =
        Claim::of(&agent.id, "running").because(Some("tool")).about_what("tail -f /dev/null");
    stage.expect("in the tool", &claim.served_by(&[agent.native.pid]))?;
    agent.native.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.wrapper.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let left = stage.home.join(format!(".codex/thread-writer-locks/{}.lock", agent.id)).exists();
    stage.expect_that("the lock file stays behind", left, "it is gone: the scenario shows nothing");
    stage.expect("after SIGKILL", &Claim::of(&agent.id, "stopped").ended("killed").served_by(&[]))
}
