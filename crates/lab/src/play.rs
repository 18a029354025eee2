//! Playing scenarios: each in its own pid namespace, started by this same program, ended with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::install::Installed;
use crate::judge::{Check, Verdict};
use crate::scenario::Scenario;
use crate::stage::Stage;

/// The file in a kept home that says where it was played.
pub const WAS: &str = ".lab-was";

/// Longer than any scenario needs, even on a loaded machine.
const SCENARIO_TIMEOUT: Duration = Duration::from_mins(4);
/// The same of one more round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Played {
    /// The comparisons, in order.
    pub checks: Vec<Check>,
    /// Why it could not be played to its end.
    pub trouble: Option<String>,
    /// Numbers that were counted, for the terminal.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Played {
    /// Makes the result of a scenario that could not be played.
    #[must_use]
    pub fn failed(why: String) -> Self {
        Self { checks: Vec::new(), trouble: Some(why), notes: Vec::new() }
    }

    /// Returns the worst of its comparisons; a scenario that was not played through shows nothing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (&self.trouble, self.checks.is_empty()) {
            (None, false) => self.checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Wrong),
            _ => Verdict::Wrong,
        }
    }
}

/// The requirements to play a scenario.
#[derive(Clone, Debug)]
pub struct Props {
    /// The real agent.
    pub agent: Installed,
    /// The program that is judged.
    pub agentctl: PathBuf,
    /// Keep the home here instead of removing it.
    pub keep: Option<PathBuf>,
    /// The rounds of scenarios that count in rounds.
    pub rounds: Option<usize>,
}

/// Plays one scenario in a namespace of its own.
pub fn in_namespace(scenario: &Scenario, props: &Props, stop: &Arc<AtomicBool>) -> Played {
    match start(scenario, props) {
        Ok((child, folder)) => {
            let limit = SCENARIO_TIMEOUT + ROUND_TIMEOUT * rounds(props);
            let played = finish(child, folder.path(), limit, stop);
            if let Some(keep) = &props.keep {
                // A kept home is moved, and its old path is stored: its files contain that path.
                let was = folder.path().join("home");
                let _said = std::fs::write(was.join(WAS), was.to_string_lossy().as_bytes());
                let _kept = std::fs::rename(was, keep);
            }
            played
        }
        Err(error) => Played::failed(error),
    }
}

fn rounds(props: &Props) -> u32 {
    props.rounds.map_or(0, |rounds| u32::try_from(rounds).unwrap_or(u32::MAX).min(10_000))
}

fn start(scenario: &Scenario, props: &Props) -> Result<(Child, tempfile::TempDir), String> {
    let folder = tempfile::Builder::new().prefix("lab-").tempdir().map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if has_ip() {
        // Only its own loopback: an agent cannot reach any other host.
        command.arg("--net");
    }
    command.arg(program);
    command.args(["play", scenario.agent, scenario.name, "--version", &props.agent.version]);
    command.arg("--bin").arg(&props.agent.bin).arg("--agentctl").arg(&props.agentctl);
    if let Some(rounds) = props.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    command.arg("--folder").arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let said = std::fs::File::create(folder.path().join("stderr")).map_err(|e| e.to_string())?;
    let child = command.stderr(said).spawn().map_err(|e| format!("unshare: {e}"))?;
    Ok((child, folder))
}

/// Waits for the end; an interrupt or a scenario that never ends takes its whole namespace along.
fn finish(mut child: Child, folder: &Path, limit: Duration, stop: &Arc<AtomicBool>) -> Played {
    let end = Instant::now() + limit;
    let trouble = loop {
        match child.try_wait() {
            Ok(Some(_)) => break None,
            Ok(None) if stop.load(Ordering::Relaxed) => break Some("interrupted".to_owned()),
            Ok(None) if Instant::now() > end => break Some("it did not end".to_owned()),
            Ok(None) => std::thread::park_timeout(Duration::from_millis(50)),
            Err(error) => break Some(error.to_string()),
        }
    };
    if trouble.is_some() {
        // Gone already is as good; the namespace dies with its first process.
        let _gone = child.kill();
        let _reaped = child.wait();
    }
    let result = std::fs::read(folder.join("result.json")).ok();
    let played = result.and_then(|bytes| serde_json::from_slice::<Played>(&bytes).ok());
    match (played, trouble) {
        (Some(played), None) => played,
        (_, Some(trouble)) => Played::failed(trouble),
        (None, None) => {
            let said = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
            Played::failed(format!("it left no result: {}", said.trim()))
        }
    }
}

/// Says whether a network namespace can be given its loopback.
#[must_use]
pub fn has_ip() -> bool {
    Command::new("ip")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Plays one scenario here: we are inside the namespace.
pub fn here(scenario: &Scenario, props: &Props, folder: &Path) -> Result<(), String> {
    if has_ip() {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        if !up.is_ok_and(|s| s.success()) {
            return Err("the namespace's loopback cannot be set up".into());
        }
    }
    let mut stage = Stage::new(folder, props.agent.clone(), props.agentctl.clone())?;
    stage.set_rounds(props.rounds);
    let trouble = (scenario.play)(&mut stage).err();
    let trouble = trouble.map(|why| format!("{why}\n{}", last_said(&stage)));
    let (checks, notes) = stage.into_results();
    let played = Played { checks, trouble, notes };
    let text = serde_json::to_vec(&played).map_err(|e| e.to_string())?;
    std::fs::write(folder.join("result.json"), text).map_err(|e| e.to_string())
}

/// Returns the last lines of output of the programs of a stage: often they show why it could not be
/// played.
fn last_said(stage: &Stage) -> String {
    let said = std::fs::read(stage.home.join("said.log")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
