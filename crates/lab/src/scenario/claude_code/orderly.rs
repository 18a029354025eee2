//! The ways in which Claude Code ends a turn in good order without a last answer.

use super::any_version::{Stream, asked};
use super::headless::stopped;
use super::ways::{end, env, id, print_with};
use crate::judge::Claim;
use crate::stage::{Stage, Trouble};
use crate::versions::order;

/// Plays one session with these further arguments to its end.
fn played(stage: &Stage, prompt: &str, more: &[&str]) -> Result<String, Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let own = ["--session-id", &id, "--dangerously-skip-permissions"];
    let args: Vec<&str> = own.into_iter().chain(more.iter().copied()).collect();
    end(&mut print_with(stage, &cwd, prompt, &args)?)?;
    Ok(id)
}

/// Compares with an end. Before 2.1 nothing is written about it: then how it ended cannot be known.
pub(super) fn ended_as(
    stage: &mut Stage,
    moment: &str,
    id: &str,
    claim: Claim,
) -> Result<(), Trouble> {
    if order(&stage.agent.version, "2.1").is_ge() {
        return stage.expect(moment, &claim);
    }
    stage.expect_any(moment, &[claim, stopped(id, "unknown")])
}

pub(super) fn max_turns(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = "work [[tool:true]] [[tool:true]] [[say:never]]";
    let id = played(stage, prompt, &["--max-turns", "1"])?;
    let failed = Claim::of(&id, "error").ended("failed").served_by(&[]);
    ended_as(stage, "at its limit of turns", &id, failed)
}

pub(super) fn max_budget(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = "work [[tool:true]] [[tool:true]] [[say:never]]";
    let id = played(stage, prompt, &["--max-budget-usd", "0.000001"])?;
    let failed = Claim::of(&id, "error").ended("failed").served_by(&[]);
    // An unanswered call with the cost behind it is all that is left: that it failed may not be known.
    stage.expect_any("at its budget", &[failed, stopped(&id, "unknown")])
}

pub(super) fn json_schema(stage: &mut Stage) -> Result<(), Trouble> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#;
    let prompt = r#"shape [[call:StructuredOutput {"a":"b"}]] [[say:shaped]]"#;
    let id = played(stage, prompt, &["--json-schema", schema, "--output-format", "json"])?;
    stage.expect("with structured output", &stopped(&id, "finished"))
}

pub(super) fn hook_stops(stage: &mut Stage) -> Result<(), Trouble> {
    let hook = stage.home.join("hook.sh");
    let text = "#!/bin/sh\necho '{\"continue\":false,\"stopReason\":\"enough\"}'\n";
    stage.write("hook.sh", text)?;
    let settings = serde_json::json!({"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [
        {"type": "command", "command": format!("sh {}", hook.display())},
    ]}]}});
    stage.write(".claude/settings.json", &settings.to_string())?;
    let id = played(stage, "work [[tool:true]] [[say:never]]", &[])?;
    ended_as(stage, "stopped by a hook", &id, stopped(&id, "finished"))
}

/// A command of the agent's own: it succeeds without a turn.
pub(super) fn context(stage: &mut Stage) -> Result<(), Trouble> {
    super::ways::settle(stage, &[])?;
    let cwd = stage.directory("a")?;
    let args = ["launch", "claude-code", "-p", "/context", "--wait"];
    let told = stage.order(&cwd, &env(stage), &args)?;
    stage.expect_that("`launch --wait` exits 0", told.code == Some(0), told.all());
    Ok(())
}

/// Looks as fast as it can while sessions start, work and end.
pub(super) fn fast_looks(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let id = id();
    let stream = Stream::open(stage, &cwd, &id)?;
    let mut wrong = Vec::new();
    let mut looks = 0;
    for turn in 0..6 {
        stream.say(&format!("turn{turn} [[tool:true]] [[say:done]]"))?;
        let word = format!("turn{turn}");
        stage.until("the turn is over", || {
            let (code, stdout, stderr) = stage.ask(&["list", "--json"]).ok()?;
            looks += 1;
            if code != Some(0) {
                wrong.push(format!("exit {code:?}: {stdout}{stderr}"));
            }
            let requests = stage.model.requests();
            let asked = requests.iter().filter(|r| !r.side && r.prompt.starts_with(&word));
            (asked.count() >= 2).then_some(())
        })?;
    }
    asked(stage, "turn5")?;
    let evidence = format!("{} of {looks} looks: {}", wrong.len(), wrong.join("\n"));
    stage.expect_that("no look has a fault", wrong.is_empty(), evidence);
    Ok(())
}
