//! The bars of the inbox that are counted in rounds, played alike with each agent that asks: eight answers at
//! once, messages from several senders at once, a large message.
//!
//! `lab run --rounds N` sets the number of rounds. The oracle is the file that the asked command makes, and the
//! requests to the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::control::others;
use super::{Agent, Scenario};
use crate::order::{Order, Told};
use crate::process::Held;
use crate::stage::{Stage, Trouble};

/// Answers to one ask at once: one half allows, the other half denies.
const ANSWERERS: usize = 8;
/// Senders at once.
const SENDERS: usize = 4;
/// Bytes of the large message.
const LARGE: usize = 900 << 10;

/// The facts about an agent that can be launched to stay.
pub(super) trait Keeping {
    /// Our name for it.
    const NAME: &'static str;
    /// Part of the command line of the process that a kept session lives in.
    const KEPT: &'static str;
    /// The command that a person types to start it in a terminal.
    const TYPED: &'static str;

    /// Writes its settings.
    fn settle(stage: &Stage) -> Result<(), Trouble>;
    /// Returns the variables with which it talks to our model.
    fn env(stage: &Stage) -> Vec<(String, String)>;
}

/// The facts about an agent that are needed to let it ask.
pub(super) trait Asking: Keeping {
    /// Returns the directive that makes it ask for this command.
    fn asking_for(command: &str) -> String;
    /// Has the agent run this script as a hook of its own; called after [`Keeping::settle`].
    fn hook(stage: &Stage, script: &Path) -> Result<(), Trouble>;
}

/// Lists the scenarios of an agent that asks.
pub(super) const fn scenarios<K: Asking>(agent: &Agent) -> [Scenario; 1] {
    [agent.headless(
        "kept-at-once",
        "eight answers at once: one is taken, and the agent does that",
        at_once::<K>,
    )]
}

/// Lists the scenarios of an agent that can be launched to stay.
pub(super) const fn kept_scenarios<K: Keeping>(agent: &Agent) -> [Scenario; 2] {
    [
        agent.headless(
            "kept-messages",
            "four senders at once, at rest and at work: each message once",
            messages::<K>,
        ),
        agent.headless(
            "kept-large",
            "a message of 900 KiB arrives whole; a stopped process takes none",
            large::<K>,
        ),
    ]
}

/// Runs agentctl as a person does.
pub(super) fn order<K: Keeping>(stage: &Stage, args: &[&str]) -> Result<Told, Trouble> {
    stage.order(&stage.home, &K::env(stage), args)
}

/// Launches into a directory; returns the session and its directory.
pub(super) fn launch<K: Keeping>(
    stage: &Stage,
    directory: &str,
    prompt: &str,
    more: &[&str],
) -> Result<(String, PathBuf), Trouble> {
    let cwd = stage.directory(directory)?;
    let mut args = vec!["launch", K::NAME, "-p", prompt];
    args.extend(more);
    let id = stage.order(&cwd, &K::env(stage), &args)?.line()?;
    Ok((id, cwd))
}

/// Waits for the ask of a session that can be answered.
pub(super) fn ask_of<K: Keeping>(stage: &Stage, id: &str) -> Result<Value, Trouble> {
    let mut last = String::new();
    let found = stage.until("the ask is listed", || {
        let told = order::<K>(stage, &["asks", "--json"]).ok()?;
        last = told.all();
        let document: Value = serde_json::from_str(&told.stdout).ok()?;
        let fits = |ask: &&Value| ask["session_id"] == id && ask["via"].is_string();
        document["asks"].as_array()?.iter().find(fits).cloned()
    });
    found.map_err(|trouble| format!("{trouble}: {last}"))
}

/// Returns an ask without the fields that may differ between two looks at it.
pub(super) fn timeless(ask: &Value) -> Value {
    let mut ask = ask.clone();
    for field in ["since", "until", "evidence"] {
        ask.as_object_mut().and_then(|ask| ask.remove(field));
    }
    ask
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Waits until a session rests.
pub(super) fn rest<K: Keeping>(stage: &mut Stage, id: &str) -> Result<(), Trouble> {
    let told = order::<K>(stage, &["wait", id, "--for", "idle", "--timeout", "60s"])?;
    stage.expect_that("it rests", told.code == Some(0), told.all());
    Ok(())
}

/// Stops a kept session and waits until nothing of it is left.
fn stop<K: Keeping>(stage: &mut Stage, id: &str) -> Result<(), Trouble> {
    let told = order::<K>(stage, &["stop", id])?;
    stage.expect_that("`stop`", told.code == Some(0), told.all());
    stage.until("its processes have left", || {
        let is_left = |line: &String| line.contains(K::KEPT) || line.contains(" shim ");
        (!others().iter().any(is_left)).then_some(())
    })
}

/// Gives eight answers at once; says whether the one that was taken allows.
pub(super) fn answer_at_once(
    stage: &mut Stage,
    env: &[(String, String)],
    ask: &str,
) -> Result<bool, Trouble> {
    let decision = |at: usize| if at.is_multiple_of(2) { "--allow" } else { "--deny" };
    let begun: Result<Vec<Order>, Trouble> = (0..ANSWERERS)
        .map(|at| stage.begin(&stage.home, env, &["answer", ask, decision(at)], b""))
        .collect();
    let told: Result<Vec<Told>, Trouble> = begun?.into_iter().map(Order::told).collect();
    let told = told?;
    let all: Vec<String> = told.iter().map(Told::all).collect();
    let taken: Vec<usize> = (0..ANSWERERS).filter(|at| told[*at].code == Some(0)).collect();
    stage.expect_that("exactly one answer was taken", taken.len() == 1, all.join("\n"));
    let is_told = |told: &Told| matches!(told.code, Some(0 | 1 | 4 | 5));
    stage.expect_that("the others were told so", told.iter().all(is_told), all.join("\n"));
    Ok(taken.first().is_some_and(|at| at.is_multiple_of(2)))
}

fn at_once<K: Asking>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let (id, cwd) = launch::<K>(stage, "a", "hello [[say:hi]]", &["--keep"])?;
    for round in 0..stage.rounds(3) {
        rest::<K>(stage, &id)?;
        let made = format!("made-{round}");
        let command = format!("echo ran >> {made}");
        let words = format!("go {} [[say:done]]", K::asking_for(&command));
        let told = order::<K>(stage, &["send", &id, &words])?;
        stage.expect_that("`send`", told.code == Some(0), told.all());
        let ask = ask_of::<K>(stage, &id)?;
        let env = K::env(stage);
        let allowed = answer_at_once(stage, &env, text(&ask["id"]))?;
        rest::<K>(stage, &id)?;
        let ran = std::fs::read_to_string(cwd.join(&made)).unwrap_or_default();
        let did = ran == if allowed { "ran\n" } else { "" };
        stage.expect_that("the agent did that", did, format!("round {round}: {ran:?}"));
    }
    stop::<K>(stage, &id)
}

/// Returns the texts that a person has said in a session, and how often each is there.
fn said<K: Keeping>(stage: &Stage, id: &str) -> Result<BTreeMap<String, usize>, Trouble> {
    let told = order::<K>(stage, &["logs", id, "-n", "100000", "--json"])?;
    let mut texts = BTreeMap::new();
    for line in told.stdout.lines() {
        let message: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        // Several messages that arrive in one tool call may become one message of several lines.
        if message["role"] == "user" {
            for text in text(&message["text"]).lines().filter(|text| text.starts_with("message ")) {
                *texts.entry(text.trim().to_owned()).or_default() += 1;
            }
        }
    }
    Ok(texts)
}

fn messages<K: Keeping>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let more = ["--keep", "--permissions", "bypass"];
    let (id, _) = launch::<K>(stage, "a", "hello [[say:hi]]", &more)?;
    rest::<K>(stage, &id)?;
    let (mut confirmed, mut unsure) = (Vec::new(), Vec::new());
    for round in 0..stage.rounds(8).div_ceil(SENDERS) {
        let texts: Vec<String> = (0..SENDERS)
            .map(|sender| {
                let work = ["[[say:a]]", "[[tool:sleep 0.3]] [[say:b]]", "[[delay:0.2]] [[say:c]]"];
                format!("message {round}-{sender} {}", work[(round + sender) % work.len()])
            })
            .collect();
        let env = K::env(stage);
        let begun: Result<Vec<Order>, Trouble> = texts
            .iter()
            .map(|text| stage.begin(&stage.home, &env, &["send", &id, text], b""))
            .collect();
        for (text, begun) in texts.into_iter().zip(begun?) {
            let told = begun.told()?;
            let is_known = matches!(told.code, Some(0 | 1 | 5));
            stage.expect_that("sent, or said why not", is_known, told.all());
            match told.code {
                Some(0) => confirmed.push(text),
                Some(1) => unsure.push(text),
                _ => {}
            }
        }
    }
    rest::<K>(stage, &id)?;
    let texts = said::<K>(stage, &id)?;
    let doubled: Vec<&String> =
        texts.iter().filter(|(_, n)| **n > 1).map(|(text, _)| text).collect();
    let lost: Vec<&String> = confirmed.iter().filter(|text| !texts.contains_key(*text)).collect();
    stage.expect_that("no message is doubled", doubled.is_empty(), format!("{doubled:?}"));
    let counts = format!(
        "{} confirmed, {} not known, {} in the record",
        confirmed.len(),
        unsure.len(),
        texts.len()
    );
    stage.expect_that(
        "no confirmed message is lost",
        lost.is_empty() && !confirmed.is_empty(),
        format!("{counts}: {lost:?} of {texts:?}"),
    );
    stage.note(&counts);
    stop::<K>(stage, &id)
}

fn large<K: Keeping>(stage: &mut Stage) -> Result<(), Trouble> {
    K::settle(stage)?;
    let (id, _) = launch::<K>(stage, "a", "hello [[say:hi]]", &["--keep"])?;
    rest::<K>(stage, &id)?;
    let mut long = "message [[say:got it]] ".to_owned();
    while long.len() < LARGE {
        long.push_str(&format!("{:06} ", long.len()));
    }
    long.push_str("the end");
    stage.write("long", &long)?;
    let file = stage.home.join("long").display().to_string();
    let told = order::<K>(stage, &["send", &id, "--prompt-file", &file])?;
    stage.expect_that("`send` of 900 KiB", told.code == Some(0), told.all());
    stage.until_asked("the large message", |request| request.prompt.contains(&long))?;
    rest::<K>(stage, &id)?;
    let status = order::<K>(stage, &["status", &id, "--json"])?;
    let row: Value = serde_json::from_str(&status.stdout).map_err(|e| e.to_string())?;
    let pid = row["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).ok_or("no pid")?;
    let agent = Held::of(pid).map_err(|e| e.to_string())?;
    agent.signal(Signal::STOP).map_err(|e| e.to_string())?;
    let told = order::<K>(stage, &["send", &id, "later"])?;
    stage.expect_that("a stopped process takes no message", told.code != Some(0), told.all());
    agent.signal(Signal::CONT).map_err(|e| e.to_string())?;
    stop::<K>(stage, &id)
}
