//! The files that Claude Code leaves, and agentctl's answers from them.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::headless::{running, stopped};
use super::ways::{
    conversation, end, env, id, lines, live_record, print_mode, print_with, told, until_calling,
    until_live,
};
use crate::model::Api;
use crate::process::Started;
use crate::stage::{Stage, Trouble};

pub(super) fn recycled_pid(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let mut agent = print_mode(stage, &cwd, &id, "think [[hang]]")?;
    until_calling(stage, agent.pid(), &id, "think")?;
    let pid = agent.pid();
    agent.held.signal(Signal::KILL).map_err(told)?;
    end(&mut agent)?;
    let mut stranger = Command::new("tail");
    stranger.args(["-f", "/dev/null"]).env_clear().current_dir(&cwd);
    // Other threads of this namespace may take the number first; then it is asked for again.
    let stranger = stage.until("the pid is given again", || {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut started = Started::new(stranger.spawn().ok()?).ok()?;
        if started.pid() == pid {
            return Some(started);
        }
        started.held.signal(Signal::KILL).ok()?;
        end(&mut started).ok()?;
        None
    })?;
    let both = live_record(stage, pid).exists() && stranger.held.lives();
    stage.expect_that("a stranger has the pid of the record", both, "the scenario shows nothing");
    stage.expect("the session", &stopped(&id, "killed"))?;
    let rows = stage.rows(&[])?;
    stage.expect_that("nothing lives", rows.is_empty(), Value::from(rows).to_string());
    Ok(())
}

pub(super) fn moved_home(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let moved = stage.home.join("elsewhere");
    let mut env = env(stage);
    env.push(("CLAUDE_CONFIG_DIR".into(), moved.to_string_lossy().into_owned()));
    let argv = ["claude", "-p", "think [[hang]]", "--session-id", &id];
    let agent = stage.start(&cwd, &env, &argv)?;
    stage.until_asked("the prompt", |r| r.prompt == "think [[hang]]")?;
    stage.until("the moved conversation holds the request", || {
        let written = lines(&conversation(&moved, &id)?);
        written.iter().any(|l| l["type"] == "last-prompt").then_some(())
    })?;
    stage.expect("while the model thinks", &running(&id, &[agent.pid()]))
}

pub(super) fn no_traces(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let args = ["--session-id", &id, "--no-session-persistence"];
    let mut agent = print_with(stage, &cwd, "think [[hang]]", &args)?;
    stage.until_asked("the prompt", |r| r.prompt == "think [[hang]]")?;
    until_live(stage, agent.pid(), |r| r["status"] == "busy")?;
    stage.expect("while the model thinks", &running(&id, &[agent.pid()]))?;
    agent.held.signal(Signal::TERM).map_err(told)?;
    end(&mut agent)?;
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that("after its end, nothing", rows.is_empty(), Value::from(rows).to_string());
    Ok(())
}

pub(super) fn long_ago(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    end(&mut print_mode(stage, &cwd, &id, "work [[say:done]]")?)?;
    let path = conversation(&stage.home.join(".claude"), &id).ok_or("there is no conversation")?;
    let is = |r: &Value| r["id"] == id.as_str();
    let rows = stage.rows(&["-a"])?;
    stage.expect_that("today, -a shows it", rows.iter().any(is), Value::from(rows).to_string());
    let written = lines(&path);
    let mut days = written.iter().filter_map(|l| l["timestamp"].as_str()?.split_once('T'));
    let (day, _) = days.next().ok_or("no line has a time")?;
    let month = jiff::SignedDuration::from_hours(40 * 24);
    let then = jiff::Timestamp::now() - month;
    let text = fs::read_to_string(&path).map_err(told)?;
    let old = format!("\"timestamp\":\"{}T", then.strftime("%Y-%m-%d"));
    let text = text.replace(&format!("\"timestamp\":\"{day}T"), &old);
    fs::write(&path, text).map_err(told)?;
    let file = fs::File::options().append(true).open(&path).map_err(told)?;
    file.set_modified(then.into()).map_err(told)?;
    stage.expect("a month later", &stopped(&id, "finished"))?;
    let rows = stage.rows(&["-a"])?;
    let hidden = !rows.iter().any(is);
    stage.expect_that("plain -a does not show it", hidden, Value::from(rows).to_string());
    Ok(())
}

pub(super) fn tokens(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let task = json!({
        "description": "sub", "subagent_type": "general-purpose",
        "prompt": "subtask [[pace:0.5]] [[tool:echo three]] [[say:sub done]]",
    });
    // The blocks come apart, as they do from the real API: the lines of the first ones are written before
    // the final output figure is known.
    let prompt = format!(
        "work [[pace:0.5]] [[think:hm]] [[tool:echo one]] [[tool:echo two]] [[call:Agent {task}]] \
         [[say:done]]"
    );
    end(&mut print_mode(stage, &cwd, &id, &prompt)?)?;
    let requests = stage.model.requests();
    let told = requests.iter().filter(|r| r.api == Api::Anthropic && !r.side);
    let usages: Vec<_> = told.filter_map(|r| r.usage).collect();
    if usages.len() < 6 {
        return Err(format!("only {} requests were answered", usages.len()));
    }
    let sum = json!({
        "input": usages.iter().map(|u| u.input).sum::<u64>(),
        "output": usages.iter().map(|u| u.output).sum::<u64>(),
        "cache_read": usages.iter().map(|u| u.cache_read).sum::<u64>(),
        "cache_write": usages.iter().map(|u| u.cache_write).sum::<u64>(),
    });
    stage.expect("after its end", &stopped(&id, "finished").spent(sum))
}

pub(super) fn refused_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let file = stage.home.join("forbidden");
    // Lines about its tools after the first call would push a refusal out of the tail.
    let prompt = format!("work [[tool:echo]] [[tool:touch {}]] [[say:could not]]", file.display());
    let args = ["--session-id", &id, "--permission-mode", "default"];
    end(&mut print_with(stage, &cwd, &prompt, &args)?)?;
    if file.exists() {
        return Err("the tool was not refused".into());
    }
    stage.expect("after its end", &stopped(&id, "finished"))?;
    let rows = stage.rows(&["-a"])?;
    let notes = rows.iter().flat_map(|r| r["notes"].as_array().into_iter().flatten());
    let tells = notes.filter_map(Value::as_str).any(|n| n.contains("refused"));
    stage.expect_that("a note tells", tells, Value::from(rows).to_string());
    Ok(())
}

pub(super) fn logs(stage: &mut Stage) -> Result<(), Trouble> {
    let (cwd, id) = (stage.directory("a")?, id());
    let prompt = "say it [[tool:echo from the tool]] [[say:and that was it]]";
    end(&mut print_mode(stage, &cwd, &id, prompt)?)?;
    let (code, stdout, stderr) = stage.ask(&["logs", &id, "--json"])?;
    let messages: Vec<Value> =
        stdout.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let mut said = Vec::new();
    for message in &messages {
        let role = message["role"].as_str().unwrap_or_default();
        let text = message["text"].as_str().unwrap_or_default();
        if !text.is_empty() {
            said.push(format!("{role}: {text}"));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            said.push(format!("{role} calls {}", call["name"].as_str().unwrap_or_default()));
        }
        for result in message["tool_results"].as_array().into_iter().flatten() {
            said.push(format!("{role} gave {}", result["text"].as_str().unwrap_or_default()));
        }
    }
    let expected = [
        format!("user: {prompt}"),
        "assistant: step 1 of 1".to_owned(),
        "assistant calls Bash".to_owned(),
        "tool gave from the tool".to_owned(),
        "assistant: and that was it".to_owned(),
    ];
    let evidence = format!("exit {code:?}, {said:#?} {stderr}");
    stage.expect_that("every message, in order", code == Some(0) && said == expected, evidence);
    Ok(())
}
