//! Situations that several agents share and that only some machines have: wrappers, other mounts, an
//! event stream beside a session, a `stop` whose answer is compared with the live processes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::judge::{Check, Verdict};
use crate::order::Order;
use crate::process::{Held, Started};
use crate::stage::{PATIENCE, Stage, Trouble};

/// Compares the rows that have an id with the sessions there are.
pub(super) fn only(stage: &mut Stage, ids: &[&str]) -> Result<(), Trouble> {
    let rows = stage.rows(&["-a", "--since", "all"])?;
    let mut listed: Vec<&str> = rows.iter().filter_map(|r| r["id"].as_str()).collect();
    listed.sort_unstable();
    let mut wanted = ids.to_vec();
    wanted.sort_unstable();
    let nameless = rows.iter().filter(|r| r["id"].is_null()).count();
    let holds = listed == wanted && nameless == 0;
    stage.expect_that("these sessions and nothing else", holds, Value::from(rows).to_string());
    Ok(())
}

/// Compares the live rows with the one session there is. Where it is `unknown` which process serves it, that process
/// has a row of its own.
pub(super) fn one_alive(stage: &mut Stage, id: &str) -> Result<(), Trouble> {
    let rows = stage.rows(&[])?;
    let (own, others): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|r| r["id"] == id);
    let unjoined = own.iter().all(|r| r["status"] == "unknown");
    let apart = unjoined && others.len() == 1 && others.iter().all(|r| r["status"] == "unknown");
    let holds = own.len() == 1 && (others.is_empty() || apart);
    stage.expect_that("one live row", holds, Value::from(rows).to_string());
    Ok(())
}

/// Checks that a program which only has an agent's name is reported neither as running nor as idle.
pub(super) fn no_namesake(stage: &mut Stage, pid: u32) -> Result<(), Trouble> {
    let rows = stage.rows(&[])?;
    let holds = rows.iter().all(|r| r["pid"] != pid || r["status"] == "unknown");
    let moment = "a program that only has its name is no session";
    stage.expect_that(moment, holds, Value::from(rows).to_string());
    Ok(())
}

/// Checks that no live session is listed. A process whose arguments cannot be read may be `unknown`
/// where the table of versions allows it.
pub(super) fn none_alive(stage: &mut Stage, moment: &str) -> Result<(), Trouble> {
    let rows = stage.rows(&[])?;
    let unknown = !rows.is_empty() && rows.iter().all(|row| row["status"] == "unknown");
    let mut check = Check::of(moment, rows.is_empty(), Value::from(rows).to_string());
    if unknown {
        (check.verdict, check.alive) = (Verdict::Unknown, true);
    }
    stage.add(check);
    Ok(())
}

/// Orders a stop: it succeeds if and only if the agent's process has ended.
pub(super) fn honest_stop(stage: &mut Stage, id: &str, agent: &Held) -> Result<(), Trouble> {
    let (code, stdout, stderr) = stage.ask(&["stop", id])?;
    let gone = !agent.lives();
    let evidence = format!("exit {code:?}, the process has ended: {gone}\n{stdout}{stderr}");
    stage.expect_that("`stop` says what it did", (code == Some(0)) == gone, evidence);
    if !gone {
        agent.signal(rustix::process::Signal::KILL).map_err(|e| e.to_string())?;
        let _ended = agent.ended_within(PATIENCE);
    }
    Ok(())
}

/// Copies the shell to a program of the agent's name, in a folder of its own: a wrapper that is no script.
pub(super) fn native_wrapper(stage: &Stage, name: &str) -> Result<PathBuf, Trouble> {
    let folder = stage.home.join("shims");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let program = folder.join(name);
    std::fs::copy("/bin/bash", &program).map_err(|e| e.to_string())?;
    Ok(program)
}

/// Mounts something, inside the stage's own mount namespace.
pub(super) fn mount(words: &[&str], at: &Path) -> Result<(), Trouble> {
    std::fs::create_dir_all(at).map_err(|e| e.to_string())?;
    let output = Command::new("mount").args(words).arg(at).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("mount: {said}")) }
}

/// Starts a program that reads its stdin from a FIFO that never ends, and returns it with the FIFO.
pub(super) fn with_fifo(
    stage: &Stage,
    cwd: &Path,
    env: &[(String, String)],
    argv: &[&str],
) -> Result<(Started, PathBuf), Trouble> {
    let fifo = stage.home.join(format!("in-{}", uuid::Uuid::new_v4()));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .map_err(|e| e.to_string())?;
    // Opened for both: it has a writer for as long as the program has it.
    let name = fifo.to_string_lossy().into_owned();
    let mut words = vec!["/bin/bash", "-c", "exec \"$@\" <> \"$0\"", &name];
    words.extend(argv);
    Ok((stage.start(cwd, env, &words)?, fifo))
}

/// Writes one line into a FIFO.
pub(super) fn say(fifo: &Path, line: &Value) -> Result<(), Trouble> {
    let mut file = std::fs::OpenOptions::new().write(true).open(fifo).map_err(|e| e.to_string())?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(|e| e.to_string())
}

/// An event stream that was begun before its sessions.
pub(super) struct Events(Order);

impl Events {
    /// Begins one and waits until it has looked for the first time.
    pub(super) fn begin(stage: &Stage) -> Result<Self, Trouble> {
        let order = stage.begin(&stage.home, &[], &["events"], b"")?;
        // It prints nothing by itself: a directory that is locked while it runs is reported.
        let mut probes = 0;
        stage.until("the event stream tells of a lock", || {
            probes += 1;
            let probe = stage.directory(&format!("probe-{probes}")).ok()?;
            stage.ask(&["lock", &probe.to_string_lossy()]).ok()?;
            std::thread::park_timeout(std::time::Duration::from_millis(500));
            order.said().contains("lock.acquired").then_some(())
        })?;
        Ok(Self(order))
    }

    /// Returns the events of a session so far.
    pub(super) fn of(&self, id: &str) -> Vec<Value> {
        let text = self.0.said();
        let all = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        all.filter(|e| e.to_string().contains(id)).collect()
    }

    /// Returns the types of the events of a session so far.
    pub(super) fn types(&self, id: &str) -> Vec<String> {
        let types = self.of(id).into_iter().filter_map(|e| Some(e["type"].as_str()?.to_owned()));
        types.collect()
    }

    /// Waits until a session has an event of this type, and compares that it came.
    pub(super) fn expect(&self, stage: &mut Stage, id: &str, kind: &str) {
        let told = stage.until(kind, || self.types(id).iter().any(|t| t == kind).then_some(()));
        let evidence = format!("{:?}", self.types(id));
        stage.expect_that(&format!("`{kind}` is told"), told.is_ok(), evidence);
    }
}
