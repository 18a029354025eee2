//! Asks and messages of agents that a server of their own run serves, played alike with each of them: an ask is
//! listed, answered, and answered after all of agentctl's files are gone.
//!
//! The oracle is the file that the asked command makes, and the process table.

use std::path::PathBuf;

use rustix::process::Signal;

use super::control::{others, shims};
use super::inbox_bars::{self, Asking, ask_of, order, text, timeless};
use super::{Agent, Scenario};
use crate::stage::{Stage, Trouble};

/// Lists the scenarios of an agent; `core` is played by CI where CI installs the agent.
pub(super) const fn scenarios<K: Asking>(agent: &Agent) -> [Scenario; 3] {
    [
        agent.core(
            "ask-allowed",
            "`launch --ask`: the ask is listed, allowed, the command runs, nothing is left",
            allowed::<K>,
        ),
        agent.headless("ask-denied", "an ask is denied: the command does not run", denied::<K>),
        agent.headless(
            "kept",
            "`launch --keep`: messages, an ask after all own files are gone, stop",
            kept::<K>,
        ),
    ]
}

/// Launches with this flag; returns the session and its directory.
fn launch<K: Asking>(
    stage: &Stage,
    flag: &str,
    prompt: &str,
) -> Result<(String, PathBuf), Trouble> {
    K::settle(stage)?;
    inbox_bars::launch::<K>(stage, "a", prompt, &[flag])
}

/// Waits until no server of the agent and no shim is left.
fn until_alone<K: Asking>(stage: &Stage) -> Result<(), Trouble> {
    stage.until("its server has left", || {
        let is_left = |line: &String| line.contains(K::KEPT) || line.contains(" shim ");
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
    let told = order::<K>(stage, &["send", &id, "words"])?;
    stage.expect_that("a message is no answer", told.code == Some(10), told.all());
    let told = order::<K>(stage, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("`answer --allow`", told.code == Some(0), told.all());
    stage.until("the command has run", || cwd.join("made").exists().then_some(()))?;
    until_alone::<K>(stage)?;
    let told = order::<K>(stage, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("a second answer finds nothing", told.code == Some(4), told.all());
    stage.expect("after its end", &super::control::stopped(&id).ended("finished"))
}

fn denied<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let prompt = format!("go {} [[say:done]]", K::asking_for("touch made"));
    let (id, cwd) = launch::<K>(stage, "--ask", &prompt)?;
    let ask = ask_of::<K>(stage, &id)?;
    let words = ["answer", text(&ask["id"]), "--deny", "--message", "not like this"];
    let told = order::<K>(stage, &words)?;
    stage.expect_that("`answer --deny`", told.code == Some(0), told.all());
    until_alone::<K>(stage)?;
    stage.expect_that("the command did not run", !cwd.join("made").exists(), told.all());
    stage.expect("after its end", &super::control::stopped(&id).ended("finished"))
}

fn kept<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    let (id, cwd) = launch::<K>(stage, "--keep", "hello [[say:hi]]")?;
    let told = order::<K>(stage, &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("its turn ends", told.code == Some(0), told.all());
    stage.expect("it rests", &crate::judge::Claim::of(&id, "idle").hosted(false))?;
    let words = format!("next {} [[say:done]]", K::asking_for("touch made"));
    let told = order::<K>(stage, &["send", &id, &words])?;
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
        timeless(&again) == timeless(&ask),
        format!("{ask} / {again}"),
    );
    let told = order::<K>(stage, &["answer", text(&ask["id"]), "--allow"])?;
    stage.expect_that("it is answered", told.code == Some(0), told.all());
    stage.until("the command has run", || cwd.join("made").exists().then_some(()))?;
    let told = order::<K>(stage, &["wait", &id, "--timeout", "60s"])?;
    stage.expect_that("it rests again", told.code == Some(0), told.all());
    let told = order::<K>(stage, &["stop", &id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    until_alone::<K>(stage)?;
    stage.expect("after the stop", &super::control::stopped(&id).ended("finished"))
}
