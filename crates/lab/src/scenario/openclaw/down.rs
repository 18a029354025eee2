//! The gateway is down, hung, restarting or refuses us: never a word about a session that it did not say.

use std::process::Stdio;

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
    // It continues the killed run by itself.
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

/// Lists many times in parallel while the gateway is killed, until it is back.
pub(super) fn listed(stage: &mut Stage) -> Result<(), Trouble> {
    const SESSIONS: usize = 60;
    const LISTS: usize = 24;
    let mut first = gateway(stage)?;
    let (id, _) = begin(&mut first, "one", "hanging [[hang]]")?;
    asked(stage, "hanging")?;
    for n in 0..SESSIONS {
        first.client.ask("sessions.create", serde_json::json!({"label": format!("n{n}")}))?;
    }
    let all = ["list", "-a", "--since", "all", "--json"];
    let count = |text: &str| text.matches("\"native_key\"").count();
    // Right after many new sessions a gateway may report that it is overloaded.
    let known = stage.until("all are listed", || {
        let (code, whole, _) = stage.ask(&all).ok()?;
        Some(count(&whole)).filter(|known| code == Some(0) && *known > SESSIONS)
    })?;
    let (killed, mut wrong, mut silent, mut told) = (&first, Vec::new(), 0, 0);
    let mut judge = |(code, stdout, stderr): (Option<i32>, String, String)| match code {
        Some(0) if count(&stdout) >= known && stdout.contains(&id) => told += 1,
        Some(3) if count(&stdout) == 0 && !stderr.is_empty() => silent += 1,
        _ => wrong.push(format!("{code:?} {} rows {stderr}", count(&stdout))),
    };
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let mut command = stage.agentctl(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        lists.push(command.spawn().map_err(|e| e.to_string())?);
    }
    signal(killed, Signal::KILL)?;
    for list in lists {
        let output = list.wait_with_output().map_err(|e| e.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        judge((output.status.code(), text(&output.stdout), text(&output.stderr)));
    }
    if first.started.wait(PATIENCE).is_err() {
        return Err("SIGKILL did not end the gateway".into());
    }
    let second = super::started(stage, ".openclaw", "loopback")?;
    let mut listed_again = || {
        stage.until("it is listed again", || {
            let said = stage.ask(&all).ok()?;
            let back = said.0 == Some(0);
            judge(said);
            back.then_some(())
        })
    };
    // Its start on a loaded machine takes more than a minute.
    listed_again().or_else(|_| listed_again())?;
    let evidence = format!("{told} whole, {silent} none\n{}", wrong.join("\n"));
    stage.expect_that("each list is whole or none", wrong.is_empty() && silent > 0, evidence);
    drop(second);
    Ok(())
}
