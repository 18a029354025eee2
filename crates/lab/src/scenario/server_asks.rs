//! Asks and messages of agents that a server of their own run serves, played alike with each of them: an ask is
//! listed, answered, raced for, refused from below, and answered after all of agentctl's files are gone.
//!
//! The oracle is the file that the asked command makes, and the process table.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::control::{others, shims};
use super::{Agent, Scenario};
use crate::order::Told;
use crate::stage::{Stage, Trouble};

/// Rounds of two answers at once.
const ROUNDS: usize = 4;

/// The facts about an agent that are needed to let it ask.
pub(super) trait Asking {
    /// Our name for it.
    const NAME: &'static str;
    /// Part of the command line of its server.
    const SERVER: &'static str;

    /// Writes its settings.
    fn settle(stage: &Stage) -> Result<(), Trouble>;
    /// Returns the variables with which it talks to our model.
    fn env() -> Vec<(String, String)>;
    /// Returns the directive that makes it ask for this command.
    fn asking_for(command: &str) -> String;
}

/// Lists the scenarios of an agent; `core` is played by CI where CI installs the agent.
pub(super) const fn scenarios<K: Asking>(agent: &Agent) -> [Scenario; 5] {
    [
        agent.core(
            "ask-allowed",
            "`launch --ask`: the ask is listed, allowed, the command runs, nothing is left",
            allowed::<K>,
        ),
        agent.headless("ask-denied", "an ask is denied: the command does not run", denied::<K>),
        agent.headless("ask-raced", "two answers at once: one counts", raced::<K>),
        agent.headless("ask-from-below", "a tool of an agent may not answer", from_below::<K>),
        agent.headless(
            "kept",
            "`launch --keep`: messages, an ask after all own files are gone, stop",
            kept::<K>,
        ),
    ]
}

fn order<K: Asking>(stage: &Stage, cwd: &Path, args: &[&str]) -> Result<Told, Trouble> {
    stage.order(cwd, &K::env(), args)
}

/// Launches with this flag; returns the session and its directory.
fn launch<K: Asking>(
    stage: &Stage,
    flag: &str,
    prompt: &str,
) -> Result<(String, PathBuf), Trouble> {
    K::settle(stage)?;
    let cwd = stage.directory("a")?;
    let id = order::<K>(stage, &cwd, &["launch", K::NAME, flag, "-p", prompt])?.line()?;
    Ok((id, cwd))
}

/// Waits for the ask of a session.
fn ask_of<K: Asking>(stage: &Stage, id: &str) -> Result<Value, Trouble> {
    let mut last = String::new();
    let found = stage.until("the ask is listed", || {
        let told = order::<K>(stage, &stage.home, &["asks", "--json"]).ok()?;
        last = told.all();
        let document: Value = serde_json::from_str(&told.stdout).ok()?;
        document["asks"].as_array()?.iter().find(|ask| ask["session_id"] == id).cloned()
    });
    found.map_err(|trouble| format!("{trouble}: {last}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Waits until no server of the agent and no shim is left.
fn until_alone<K: Asking>(stage: &Stage) -> Result<(), Trouble> {
    stage.until("its server has left", || {
        let is_left = |line: &String| line.contains(K::SERVER) || line.contains(" shim ");
        (!others().iter().any(is_left)).then_some(())
    })
}

fn allowed<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = format!("go {} [[say:done]]", K::asking_for("touch made"));
    let (id, cwd) = launch::<K>(stage, "--ask", &prompt)?;
    let ask = ask_of::<K>(stage, &id)?;
    let is_whole = ask["parts"][0]["text"] == "touch made" && ask["via"] == "server";
    stage.expect_that("the whole command is shown", is_whole, ask.to_string());
    stage.expect_that("nothing ran yet", !cwd.join("made").exists(), ask.to_string());
    let rows = stage.rows(&[])?;
    let waits = rows.iter().any(|row| row["id"] == id.as_str() && row["status"] == "waiting");
    stage.expect_that("`list` calls it waiting", waits, format!("{rows:?}"));
    let told = order::<K>(stage, &stage.home, &["send", &id, "words"])?;
    stage.expect_that("a message is no answer", told.code == Some(10), told.all());
    let told = order::<K>(stage, &stage.home, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("`answer --allow`", told.code == Some(0), told.all());
    stage.until("the command has run", || cwd.join("made").exists().then_some(()))?;
    until_alone::<K>(stage)?;
    let told = order::<K>(stage, &stage.home, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("a second answer finds nothing", told.code == Some(4), told.all());
    stage.expect("after its end", &super::control::stopped(&id).ended("finished"))
}

fn denied<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = format!("go {} [[say:done]]", K::asking_for("touch made"));
    let (id, cwd) = launch::<K>(stage, "--ask", &prompt)?;
    let ask = ask_of::<K>(stage, &id)?;
    let words = ["answer", text(&ask["id"]), "--deny", "--message", "not like this"];
    let told = order::<K>(stage, &stage.home, &words)?;
    stage.expect_that("`answer --deny`", told.code == Some(0), told.all());
    until_alone::<K>(stage)?;
    stage.expect_that("the command did not run", !cwd.join("made").exists(), told.all());
    stage.expect("after its end", &super::control::stopped(&id).ended("finished"))
}

fn raced<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let (id, cwd) = launch::<K>(stage, "--keep", "hello [[say:hi]]")?;
    for round in 0..ROUNDS {
        let told = order::<K>(stage, &stage.home, &["wait", &id, "--timeout", "60s"])?;
        stage.expect_that("it rests", told.code == Some(0), told.all());
        let made = format!("made-{round}");
        let words = format!("go {} [[say:done]]", K::asking_for(&format!("touch {made}")));
        let told = order::<K>(stage, &stage.home, &["send", &id, &words])?;
        stage.expect_that("`send`", told.code == Some(0), told.all());
        let ask = ask_of::<K>(stage, &id)?;
        let deny = ["answer", text(&ask["id"]), "--deny", "--message", "no"];
        let answers = [&["answer", text(&ask["id"]), "--allow"][..], &deny[..]];
        let begun: Result<Vec<_>, _> =
            answers.iter().map(|args| stage.begin(&stage.home, &K::env(), args, b"")).collect();
        let told: Result<Vec<Told>, _> =
            begun?.into_iter().map(crate::order::Order::told).collect();
        let told = told?;
        let taken: Vec<bool> = told.iter().map(|told| told.code == Some(0)).collect();
        let all = format!("{} {}", told[0].all(), told[1].all());
        stage.expect_that("one answer counts", taken[0] != taken[1], all.clone());
        let waited = order::<K>(stage, &stage.home, &["wait", &id, "--timeout", "60s"])?;
        let did = cwd.join(&made).exists() == taken[0];
        stage.expect_that("the agent did that", did, format!("{all} {}", waited.all()));
    }
    let told = order::<K>(stage, &stage.home, &["stop", &id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_alone::<K>(stage)
}

fn from_below<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = format!("go {} [[say:done]]", K::asking_for("touch made"));
    let (id, cwd) = launch::<K>(stage, "--ask", &prompt)?;
    let ask = ask_of::<K>(stage, &id)?;
    let below = stage.directory("b")?;
    let program = stage.agentctl.to_string_lossy().into_owned();
    let command = format!("{program} answer {} --allow; echo $? > code", text(&ask["id"]));
    let prompt = format!("answer it [[tool:{command}]] [[say:done]]");
    let args = ["launch", K::NAME, "--permissions", "bypass", "-p", &prompt];
    let told = order::<K>(stage, &below, &args)?;
    told.line()?;
    let code = stage.until("the tool has answered", || {
        std::fs::read_to_string(below.join("code")).ok().filter(|code| code.ends_with('\n'))
    })?;
    stage.expect_that("it was refused", code.trim() == "5", code.clone());
    stage.expect_that("the command did not run", !cwd.join("made").exists(), code);
    let again = ask_of::<K>(stage, &id)?;
    stage.expect_that("the ask is still open", again["id"] == ask["id"], again.to_string());
    let told = order::<K>(stage, &stage.home, &["stop", &id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_alone::<K>(stage)
}

fn kept<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let (id, cwd) = launch::<K>(stage, "--keep", "hello [[say:hi]]")?;
    let told = order::<K>(stage, &stage.home, &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("its turn ends", told.code == Some(0), told.all());
    stage.expect("it rests", &crate::judge::Claim::of(&id, "idle").hosted(false))?;
    let words = format!("next {} [[say:done]]", K::asking_for("touch made"));
    let told = order::<K>(stage, &stage.home, &["send", &id, &words])?;
    stage.expect_that("`send`", told.code == Some(0), told.all());
    let ask = ask_of::<K>(stage, &id)?;
    for shim in shims() {
        shim.signal(Signal::KILL).map_err(|error| error.to_string())?;
    }
    for folder in [".local/state/agentctl", ".cache/agentctl"] {
        let _missing = std::fs::remove_dir_all(stage.home.join(folder));
    }
    let again = ask_of::<K>(stage, &id)?;
    stage.expect_that(
        "the same ask without our files",
        again["id"] == ask["id"],
        again.to_string(),
    );
    let told = order::<K>(stage, &stage.home, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("it is answered", told.code == Some(0), told.all());
    stage.until("the command has run", || cwd.join("made").exists().then_some(()))?;
    let told = order::<K>(stage, &stage.home, &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("it rests again", told.code == Some(0), told.all());
    let told = order::<K>(stage, &stage.home, &["stop", &id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_alone::<K>(stage)?;
    stage.expect("after the stop", &super::control::stopped(&id).ended("finished"))
}
