//! The ends of `codex exec`, and the files that are left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use jiff::{Timestamp, ToSpan};
use rustix::process::Signal;
use serde_json::Value;

use super::{Exec, WORK, exec, launch, rollout, words};
use crate::judge::Claim;
use crate::model::Request;
use crate::process::Started;
use crate::scenario::alike::{finished, spent, working};
use crate::stage::{PATIENCE, Stage, Trouble};

/// Returns the claim of a session with this outcome.
fn ended(agent: &Exec, outcome: &'static str) -> Claim {
    Claim::of(&agent.id, "stopped").ended(outcome).served_by(&[])
}

/// Brings an agent into a tool, says so, and signals it there.
fn signalled_in_tool(stage: &mut Stage, signal: Signal) -> Result<Exec, Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &format!("working [[tool:{WORK}]] [[say:never]]"))?;
    agent.in_tool(stage)?;
    stage.expect("in the tool", &working(&agent.id, agent.native.pid))?;
    agent.signal(signal)?;
    agent.ended()?;
    Ok(agent)
}

/// Signals an agent while the model thinks.
fn signalled_in_model_call(stage: &mut Stage, signal: Signal) -> Result<Exec, Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "thinking [[hang]]")?;
    agent.asked(stage, "thinking")?;
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("while the model thinks", &running)?;
    agent.signal(signal)?;
    agent.ended()?;
    Ok(agent)
}

fn lock_stays(stage: &mut Stage, agent: &Exec) {
    let left = agent.home.join(format!("thread-writer-locks/{}.lock", agent.id)).exists();
    stage.expect_that("the lock file stays behind", left, "it is gone: the scenario shows nothing");
}

pub(super) fn killed_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_tool(stage, Signal::KILL)?;
    lock_stays(stage, &agent);
    stage.expect("after SIGKILL", &ended(&agent, "killed"))
}

pub(super) fn killed(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_model_call(stage, Signal::KILL)?;
    lock_stays(stage, &agent);
    stage.expect("after SIGKILL", &ended(&agent, "killed"))
}

pub(super) fn terminated(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_tool(stage, Signal::TERM)?;
    stage.expect("after SIGTERM", &ended(&agent, "killed"))
}

pub(super) fn interrupted_in_tool(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_tool(stage, Signal::INT)?;
    stage.expect("after SIGINT", &ended(&agent, "interrupted"))
}

pub(super) fn interrupted(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_model_call(stage, Signal::INT)?;
    stage.expect("after SIGINT", &ended(&agent, "interrupted"))
}

fn failed(stage: &mut Stage, code: &str) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, &format!("failing [[error:{code}]]"))?;
    agent.ended()?;
    let claim = Claim::of(&agent.id, "error").ended("failed").served_by(&[]);
    stage.expect("after its end", &claim)
}

pub(super) fn failed_401(stage: &mut Stage) -> Result<(), Trouble> {
    failed(stage, "401")
}

pub(super) fn failed_429(stage: &mut Stage) -> Result<(), Trouble> {
    failed(stage, "429")
}

pub(super) fn failed_500(stage: &mut Stage) -> Result<(), Trouble> {
    failed(stage, "500")
}

/// Codex writes no word about a retry: that it works is all there is to know, and it is true.
pub(super) fn retrying(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut words = words(&[], "trying [[error:500*3]] [[say:at last]]");
    words.splice(2..2, ["-c", "model_providers.fake.request_max_retries=5"]);
    let mut agent = launch(stage, &cwd, &words)?;
    let tries =
        |requests: &[Request]| requests.iter().filter(|r| r.prompt.starts_with("trying")).count();
    if !stage.model.wait_for(crate::stage::PATIENCE, |requests| tries(requests) >= 3) {
        return Err("it was not tried again".into());
    }
    let running = Claim::of(&agent.id, "running").because(None).served_by(&[agent.native.pid]);
    stage.expect("between two tries", &running)?;
    agent.ended()?;
    stage.expect("after its end", &finished(&agent.id))
}

/// Removes the index, with all that `SQLite` has beside it; says how many files that were.
fn remove_index(home: &Path) -> Result<usize, Trouble> {
    let mut removed = 0;
    for entry in fs::read_dir(home).map_err(|e| e.to_string())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("state_") && name.contains(".sqlite") {
            fs::remove_file(entry.path()).map_err(|e| e.to_string())?;
            removed += 1;
        }
    }
    Ok(removed)
}

pub(super) fn index_missing(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "finishing [[tool:true]] [[say:done]]")?;
    agent.ended()?;
    let claim = finished(&agent.id).spent(spent(2));
    stage.expect("with the index", &claim)?;
    let title = |stage: &Stage| -> Result<Vec<Value>, Trouble> {
        let rows = stage.rows(&["-a"])?;
        Ok(rows
            .iter()
            .map(|r| [&r["id"], &r["title"], &r["cwd"], &r["model"]].into_iter().cloned().collect())
            .collect())
    };
    let before = title(stage)?;
    let removed = remove_index(&agent.home)?;
    stage.expect_that("there was an index", removed > 0, "nothing was removed");
    stage.expect("without the index", &claim)?;
    let after = title(stage)?;
    stage.expect_that(
        "its title, directory and model",
        before == after,
        format!("{before:?} / {after:?}"),
    );
    Ok(())
}

pub(super) fn stale_lock(stage: &mut Stage) -> Result<(), Trouble> {
    let old = signalled_in_tool(stage, Signal::KILL)?;
    let cwd = stage.directory("a")?;
    let new = exec(stage, &cwd, "thinking [[hang]]")?;
    new.asked(stage, "thinking")?;
    // A new Codex removes such files; a file that came back, from a backup say, still has no holder.
    let lock = format!(".codex/thread-writer-locks/{}.lock", old.id);
    stage.write(&lock, "")?;
    stage.expect("the one that was killed", &ended(&old, "killed"))?;
    let running = Claim::of(&new.id, "running").because(None).served_by(&[new.native.pid]);
    stage.expect("the new one", &running)
}

pub(super) fn recycled_pid(stage: &mut Stage) -> Result<(), Trouble> {
    let agent = signalled_in_tool(stage, Signal::KILL)?;
    lock_stays(stage, &agent);
    let cwd = stage.directory("a")?;
    let stranger = stage.until("a stranger has the pid", || at_pid(agent.native.pid, &cwd))?;
    stage.expect("when a stranger has its pid", &ended(&agent, "killed"))?;
    let lives = stranger.held.lives();
    stage.expect_that("the stranger lives", lives, "it is gone: the scenario shows nothing");
    stranger.held.signal(Signal::KILL).map_err(|e| e.to_string())
}

/// Starts another process with this very pid, unless another process is quicker.
fn at_pid(pid: u32, cwd: &Path) -> Option<Started> {
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
    let mut command = Command::new("tail");
    command.args(["-f", "/dev/null"]).current_dir(cwd).stdin(Stdio::null()).stdout(Stdio::null());
    let mut stranger = Started::new(command.spawn().ok()?).ok()?;
    if stranger.pid() == pid {
        return Some(stranger);
    }
    stranger.held.signal(Signal::KILL).ok()?;
    stranger.wait(PATIENCE).ok()?;
    None
}

/// How long ago a session of long ago was.
const LONG_AGO: Duration = Duration::from_hours(24 * 60);

pub(super) fn old(stage: &mut Stage) -> Result<(), Trouble> {
    let cwd = stage.directory("a")?;
    let mut agent = exec(stage, &cwd, "remembering [[say:long ago]]")?;
    agent.ended()?;
    stage.expect("when it is new", &finished(&agent.id))?;
    agent.id = age(&agent)?;
    stage.expect("when it is asked for", &finished(&agent.id).spent(spent(1)))?;
    let rows = stage.rows(&["-a"])?;
    stage.expect_that("it is not among the recent ones", rows.is_empty(), format!("{rows:?}"));
    let rows = stage.rows(&["-a", "--since", "90d"])?;
    stage.expect_that("it is among those of three months", rows.len() == 1, format!("{rows:?}"));
    Ok(())
}

/// Makes a session two months older: the times in its records, its file, its folder, and its id, which
/// begins with its time. The index goes, because it knows better.
fn age(agent: &Exec) -> Result<String, Trouble> {
    let trouble = |e: std::io::Error| e.to_string();
    let path = rollout(&agent.home, &agent.id).ok_or("there is no rollout")?;
    let then = Timestamp::now() - i64::try_from(LONG_AGO.as_secs()).unwrap_or(0).seconds();
    let time = format!("{:012x}", then.as_millisecond());
    let id = format!("{}-{}{}", &time[..8], &time[8..], &agent.id[13..]);
    let text = fs::read_to_string(&path).map_err(trouble)?.replace(&agent.id, &id);
    let mut aged = String::new();
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        set_back(&mut line);
        aged.push_str(&line.to_string());
        aged.push('\n');
    }
    let folder = agent.home.join(then.strftime("sessions/%Y/%m/%d").to_string());
    fs::create_dir_all(&folder).map_err(trouble)?;
    let name = then.strftime("rollout-%Y-%m-%dT%H-%M-%S").to_string();
    let new = folder.join(format!("{name}-{id}.jsonl"));
    fs::write(&new, aged).map_err(trouble)?;
    let file = fs::File::options().write(true).open(&new).map_err(trouble)?;
    file.set_modified(SystemTime::now() - LONG_AGO).map_err(trouble)?;
    fs::remove_file(&path).map_err(trouble)?;
    remove_index(&agent.home)?;
    Ok(id)
}

/// Sets every time of today in a value back by two months: texts, seconds and milliseconds.
fn set_back(value: &mut Value) {
    let seconds = i64::try_from(LONG_AGO.as_secs()).unwrap_or(0);
    let now = Timestamp::now().as_second();
    match value {
        Value::Array(values) => values.iter_mut().for_each(set_back),
        Value::Object(values) => values.values_mut().for_each(set_back),
        Value::String(text) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                *text = format!("{:.3}", time - seconds.seconds());
            }
        }
        Value::Number(number) => {
            let day = 24 * 60 * 60;
            match number.as_i64() {
                Some(n) if (n - now).abs() < day => *value = (n - seconds).into(),
                Some(n) if (n / 1000 - now).abs() < day => *value = (n - seconds * 1000).into(),
                _ => {}
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
