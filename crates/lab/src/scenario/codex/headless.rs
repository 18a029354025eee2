//! `codex exec` at work.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Exec, TOOL, adopt, env, exec, launch, said, settings, words};
use crate::judge::Claim;
use crate::process::{Held, command_line};
use crate::stage::{Stage, Trouble};

/// Looks from before the first moment until the model is asked: what is said of a start is `running`.
pub(super) fn starting(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, ".codex", false)?;
    let before = said(stage).len();
    let started = stage.start(&cwd, &env(), &words(&[], "beginning [[hang]]"))?;
    let mut wrong = Vec::new();
    stage.until("the model is asked", || {
        let asked = stage.model.requests().iter().any(|r| r.prompt.starts_with("beginning"));
        for args in [&[][..], &["-a", "--since", "all"]] {
            match stage.rows(args) {
                Ok(rows) if rows.len() > 1 => wrong.push(format!("{} rows", rows.len())),
                Ok(rows) => wrong.extend(
                    rows.iter()
                        .filter(|r| r["status"] != "running")
                        .map(|r| format!("id {} is {}: {}", r["id"], r["status"], r["evidence"])),
                ),
                Err(trouble) => wrong.push(trouble),
            }
        }
        asked.then_some(())
    })?;
    stage.expect_that("in every look until the model is asked", wrong.is_empty(), wrong.join("\n"));
    let agent = adopt(stage, started, before, stage.home.join(".codex"))?;
    agent.asked(stage, "beginning")?;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("when the model is asked", &running.hosted(false))
}

pub(super) fn model_call(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "thinking [[delay:4]] [[say:done thinking]]")?;
    agent.asked(stage, "thinking")?;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running.hosted(false))?;
    agent.ended()?;
    stage.expect("after its end", &finished(&agent).spent(spent(1)))
}

/// What is true of a session whose last turn came to its end, and its process too.
pub(super) fn finished(agent: &Exec) -> Claim {
    Claim::of(&agent.id, "stopped").ended("finished").served_by(&[])
}

/// The tokens of this many answers: the model reports 1000 in, of which 7 were cached, and 50 out.
pub(super) fn spent(answers: u64) -> Value {
    let (input, output, cached) = (993 * answers, 50 * answers, 7 * answers);
    json!({"input": input, "output": output, "cache_read": cached, "cache_write": 0})
}

/// What is true of a session in the tool that never ends.
pub(super) fn in_tool(agent: &Exec) -> Claim {
    let claim = Claim::of(&agent.id, "running").because(Some("tool")).about_what(TOOL);
    claim.served_by(&[agent.native.pid]).hosted(false)
}

pub(super) fn tokens(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt = format!("counting [[tool:true]] [[tool:false]] [[tool:{TOOL}]] [[say:never]]");
    let mut agent = exec(stage, &cwd, &prompt)?;
    drop(stage.until_below(agent.native.pid, TOOL)?);
    agent.recorded(stage, TOOL)?;
    stage.until("the third answer is counted", || {
        let records = std::fs::read_to_string(super::rollout(&agent.home, &agent.id)?).ok()?;
        (records.matches("\"token_usage_record\"").count() == 3).then_some(())
    })?;
    stage.expect("after three answers", &in_tool(&agent).spent(spent(3)))?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let killed = Claim::of(&agent.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("after SIGKILL", &killed.spent(spent(3)))
}

pub(super) fn logs(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt = "speaking [[tool:echo heard-$((40+2))]] [[say:all said]]";
    let mut agent = exec(stage, &cwd, prompt)?;
    agent.ended()?;
    let (code, stdout, stderr) = stage.ask(&["logs", &agent.id, "--json", "-n", "100"])?;
    let lines: Result<Vec<Value>, _> = stdout.lines().map(serde_json::from_str).collect();
    let lines = lines.map_err(|e| format!("logs exited {code:?}: {e}: {stderr}"))?;
    let spoken = |role: &str| -> Vec<&str> {
        let said = lines.iter().filter(|l| l["role"] == role);
        said.filter_map(|l| l["text"].as_str()).filter(|t| !t.is_empty()).collect()
    };
    stage.expect_that("what the user said", spoken("user") == [prompt], &*stdout);
    stage.expect_that("what the model said", spoken("assistant") == ["all said"], &*stdout);
    let calls: Vec<&Value> =
        lines.iter().flat_map(|l| l["tool_calls"].as_array().into_iter().flatten()).collect();
    let called = matches!(calls.as_slice(), [call] if call["name"] == "exec_command"
        && call["input"]["cmd"] == "echo heard-$((40+2))");
    stage.expect_that("which tool was called", called, &*stdout);
    let results: Vec<&Value> =
        lines.iter().flat_map(|l| l["tool_results"].as_array().into_iter().flatten()).collect();
    let heard = |r: &Value| r["text"].as_str().is_some_and(|t| t.contains("heard-42"));
    stage.expect_that("what it gave", matches!(&results[..], [r] if heard(r)), &*stdout);
    stage.expect("after its end", &finished(&agent))
}

pub(super) fn paused(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let agent = exec(stage, &cwd, "pausing [[hang]]")?;
    agent.asked(stage, "pausing")?;
    agent.signal(Signal::STOP)?;
    until_state(stage, agent.native.pid, 'T')?;
    let running = Claim::of(&agent.id, "running").served_by(&[agent.native.pid]);
    stage.expect("after SIGSTOP", &running.clone().because(Some("paused")))?;
    agent.signal(Signal::CONT)?;
    until_state(stage, agent.native.pid, 'S')?;
    stage.expect("after SIGCONT", &running.because(None))
}

/// Waits until the kernel gives this letter for a process.
fn until_state(stage: &Stage, pid: u32, letter: char) -> Result<(), Trouble> {
    stage.until(&format!("pid {pid} is in state {letter}"), || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.starts_with(letter).then_some(())
    })
}

pub(super) fn two(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let thinks = exec(stage, &cwd, "thinking [[hang]]")?;
    let mut works = exec(stage, &cwd, &format!("working [[tool:{TOOL}]] [[say:never]]"))?;
    thinks.asked(stage, "thinking")?;
    works.in_tool(stage)?;
    let thinking = Claim::of(&thinks.id, "running").because(None);
    let thinking = thinking.served_by(&[thinks.native.pid]).hosted(false);
    stage.expect("the one that thinks", &thinking)?;
    stage.expect("the one that works", &in_tool(&works))?;
    works.signal(Signal::KILL)?;
    works.ended()?;
    stage.expect("the other, when one is killed", &thinking)?;
    let killed = Claim::of(&works.id, "stopped").ended("killed").served_by(&[]);
    stage.expect("the one that was killed", &killed)
}

pub(super) fn moved_home(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    settings(stage, "elsewhere", false)?;
    let home = stage.home.join("elsewhere");
    let mut env = env();
    env.push(("CODEX_HOME".into(), home.to_string_lossy().into_owned()));
    let before = said(stage).len();
    let prompt = format!("working [[tool:{TOOL}]] [[say:never]]");
    let started = stage.start(&cwd, &env, &words(&[], &prompt))?;
    let agent = adopt(stage, started, before, home)?;
    agent.in_tool(stage)?;
    let here = stage.home.join(".codex").exists();
    stage.expect_that("nothing is in the usual place", !here, "~/.codex exists: nothing is shown");
    stage.expect("in the tool", &in_tool(&agent))
}

pub(super) fn no_wrapper(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &format!("working [[tool:{TOOL}]] [[say:never]]"))?;
    agent.in_tool(stage)?;
    if agent.native.pid == agent.started.pid() {
        // This Node lets the wrapper become the agent: there is none to kill.
        return stage.expect("without a wrapper", &in_tool(&agent));
    }
    agent.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.started.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    stage.expect_that("the agent lives", agent.native.lives(), "it died with its wrapper");
    stage.expect("after the wrapper's end", &in_tool(&agent))?;
    agent.signal(Signal::INT)?;
    if !agent.native.ended_within(crate::stage::PATIENCE) {
        return Err("codex did not end".into());
    }
    // Nobody reaps it here, as in a container without an init: what is dead must be known for dead.
    let ended = Claim::of(&agent.id, "stopped").ended("interrupted").served_by(&[]);
    stage.expect("after SIGINT, not reaped", &ended)
}

pub(super) fn no_launcher(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let prompt = format!("working [[tool:{TOOL}]] [[say:never]]");
    let mut argv = vec!["/bin/sh", "-c", "\"$@\" & wait", "sh"];
    argv.extend(words(&[], &prompt));
    let mut agent = launch(stage, &cwd, &argv)?;
    agent.in_tool(stage)?;
    // Also the wrapper has lost its parent, and is none of the launcher's any more.
    agent.started.held.signal(Signal::KILL).map_err(|e| e.to_string())?;
    agent.started.wait(crate::stage::PATIENCE).map_err(|e| e.to_string())?;
    let tool = Held::of(agent.native.pid).is_ok_and(|h| h.lives());
    let line = command_line(agent.native.pid);
    stage.expect_that("the agent lives", tool, format!("it died with its launcher: {line}"));
    stage.expect("after the launcher's end", &in_tool(&agent))
}

/// Looks until it has ended: first it runs, then its turn is over, then it has finished, and never
/// anything else or anything twice.
pub(super) fn ending(stage: &mut Stage) -> Result<(), Trouble> {
    const ORDER: [(&str, Option<&str>); 3] =
        [("running", None), ("idle", None), ("stopped", Some("finished"))];
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "ending [[tool:true]] [[say:done]]")?;
    let (mut wrong, mut at, mut looks) = (Vec::new(), 0, 0);
    stage.until("it has ended, and one look more", || {
        let over = !agent.native.lives();
        let rows = stage.rows(&["-a"]).unwrap_or_default();
        let mine: Vec<&Value> = rows.iter().filter(|r| r["id"] == agent.id.as_str()).collect();
        let said = |r: &Value| (r["status"].clone(), r["outcome"].clone());
        match mine.as_slice() {
            [row] => match ORDER.iter().position(|(s, o)| (json!(s), json!(o)) == said(row)) {
                Some(now) if now >= at => at = now,
                _ => wrong.push(format!("look {looks}: {:?}: {}", said(row), row["evidence"])),
            },
            more => wrong.push(format!("look {looks}: {} rows", more.len())),
        }
        looks += 1;
        over.then_some(())
    })?;
    stage.expect_that("in every look until its end", wrong.is_empty(), wrong.join("\n"));
    agent.ended()?;
    stage.expect("after its end", &finished(&agent).spent(spent(2)))
}

pub(super) fn ephemeral(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut argv = words(&[], "forgetting [[hang]]");
    argv.insert(2, "--ephemeral");
    let mut agent = launch(stage, &cwd, &argv)?;
    stage.until_asked("the prompt", |r| r.prompt.starts_with("forgetting"))?;
    let records = super::rollout(&agent.home, &agent.id);
    stage.expect_that("it keeps no records", records.is_none(), format!("{records:?}"));
    let running = Claim::of_process(agent.native.pid, "running").served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running.hosted(false))?;
    agent.signal(Signal::KILL)?;
    agent.ended()?;
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that("after its end there is nothing", rows.is_empty(), format!("{rows:?}"));
    Ok(())
}

/// A directory with the name of the server's subcommand, given as people give it.
pub(super) fn namesake(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let work = stage.directory("a/app-server")?;
    let mut argv = words(&[], "thinking [[hang]]");
    argv.splice(2..2, ["-C", "app-server"]);
    let agent = launch(stage, &cwd, &argv)?;
    agent.asked(stage, "thinking")?;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running.hosted(false))?;
    let rows = stage.rows(&[])?;
    let there = matches!(rows.as_slice(), [row] if row["cwd"] == *work.to_string_lossy());
    stage.expect_that("its directory", there, format!("{rows:?}"));
    Ok(())
}
