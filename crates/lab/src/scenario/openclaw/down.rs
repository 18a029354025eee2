//! The gateway is down, hung, restarting or refuses us: never a word about a session that it did not say.

use rustix::process::Signal;

use super::{Gateway, asked, begin, gateway, over, rests, runs, settings, up};
use crate::stage::{PATIENCE, Stage, Trouble};

/// Asks in every way while the gateway does not answer.
fn nothing_is_said(stage: &mut Stage, moment: &str, id: &str, word: &str) -> Result<(), Trouble> {
    for args in [&["list", "--json"][..], &["list", "-a", "--json"], &["status", id], &["stop", id]]
    {
        let (code, stdout, stderr) = stage.ask(args)?;
        let honest = code == Some(3) && stderr.contains(word) && !stdout.contains(id);
        let what = format!("{moment}: `{}` has exit 3 and a reason", args.join(" "));
        stage.expect_that(&what, honest, format!("{code:?}\n{stdout}\n{stderr}"));
    }
    Ok(())
}

fn signal(gateway: &Gateway, signal: Signal) -> Result<(), Trouble> {
    gateway.started.held.signal(signal).map_err(|e| e.to_string())
}

pub(super) fn killed(stage: &mut Stage) -> Result<(), Trouble> {
    let mut first = gateway(stage)?;
    let (id, _) = begin(&mut first, "one", "speaking [[drip:15]] [[say:one two three four five]]")?;
    asked(stage, "speaking")?;
    stage.expect("while it speaks", &runs(&id))?;
    signal(&first, Signal::KILL)?;
    if first.started.wait(PATIENCE).is_err() {
        return Err("SIGKILL did not end the gateway".into());
    }
    nothing_is_said(stage, "killed", &id, "refused the connection")?;
    // It takes up again by itself what it was killed in.
    let mut second = up(stage)?;
    let row = second.client.row(&id)?;
    let rows = stage.rows(&["-a"])?;
    let said = rows.iter().find(|r| r["id"] == *id).cloned().unwrap_or_default();
    let right = said["status"] == if row["hasActiveRun"] == true { "running" } else { "idle" };
    let now = second.client.row(&id)?;
    let same = now["hasActiveRun"] == row["hasActiveRun"];
    stage.expect_that("started again", right || !same, format!("{row}\n{said}"));
    over(stage, &mut second, &id)?;
    stage.expect("after its end", &rests(&id, "finished"))
}

pub(super) fn hung(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, _) = begin(&mut gateway, "one", "hanging [[hang]]")?;
    asked(stage, "hanging")?;
    stage.expect("while it runs", &runs(&id))?;
    signal(&gateway, Signal::STOP)?;
    let short = "[deadline]\nlive = \"1s\"\nall = \"1s\"\n";
    stage.write(".config/agentctl/config.toml", short)?;
    nothing_is_said(stage, "hung", &id, "did not answer")?;
    signal(&gateway, Signal::CONT)?;
    settings(stage, "")?;
    stage.expect("when it goes on", &runs(&id))
}

pub(super) fn wrong_token(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, _) = begin(&mut gateway, "one", "hanging [[hang]]")?;
    asked(stage, "hanging")?;
    let more = format!(
        "[[openclaw.gateways]]\nurl = \"ws://127.0.0.1:{}\"\ntoken = \"another\"\n",
        super::PORT
    );
    settings(stage, &more)?;
    nothing_is_said(stage, "a wrong token", &id, "refuses our credentials")
}
