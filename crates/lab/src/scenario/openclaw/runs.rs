//! Runs: conversations, scheduled and requested runs, subagents; and the end of each.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Gateway, HOOK_TOKEN, PORT, asked, begin, gateway, over, rests, runs};
use crate::judge::Claim;
use crate::scenario::alike::spent;
use crate::stage::{Stage, Trouble};

pub(super) fn turn(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, key) =
        begin(&mut gateway, "one", "thinking [[delay:6]] [[pace:0.2]] [[say:thought]]")?;
    stage.expect("when it is accepted", &runs(&id))?;
    asked(stage, "thinking")?;
    stage.expect("while the model thinks", &runs(&id))?;
    over(stage, &mut gateway, &id)?;
    stage.expect("after its end", &rests(&id, "finished").spent(spent(1)))?;
    let rows = stage.rows(&[])?;
    stage.expect_that("what rests is no living work", rows.is_empty(), format!("{rows:?}"));
    let say = json!({"key": key, "message": "again [[say:more]]", "idempotencyKey": "again-1"});
    gateway.client.ask("sessions.send", say)?;
    asked(stage, "again")?;
    stage.until("the second run is over", || {
        let row = gateway.client.row(&id).ok()?;
        (row["hasActiveRun"] == false && row["lastRunId"] == "again-1").then_some(())
    })?;
    // The row counts the last run only; tokens are those of the whole conversation.
    stage.expect("after the second", &rests(&id, "finished").spent(spent(2)))
}

pub(super) fn failed(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, _) = begin(&mut gateway, "bad", "refused [[error:400]]")?;
    over(stage, &mut gateway, &id)?;
    stage.expect("after the refusal", &rests(&id, "failed").noting("the last run failed"))?;
    let (code, _, stderr) = stage.ask(&["wait", &id, "--timeout", "30s"])?;
    stage.expect_that(
        "`wait` says that it ended badly",
        code == Some(1),
        format!("{code:?} {stderr}"),
    );
    Ok(())
}

pub(super) fn launched(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let prompt = "speaking [[drip:20]] [[say:one two three four five six seven eight nine ten]]";
    let (code, stdout, stderr) = stage.ask(&[
        "launch",
        "openclaw",
        "-p",
        prompt,
        "--name",
        "spoken",
        "--permissions",
        "edits",
    ])?;
    stage.expect_that("it is launched", code == Some(0), stderr);
    let id = stdout.trim().to_owned();
    let row = gateway.client.row(&id)?;
    let may = row["permissionMode"] == "workspace";
    stage.expect_that("with the permissions that were asked for", may, row.to_string());
    let (code, _, stderr) =
        stage.ask(&["launch", "openclaw", "-p", "x", "--permissions", "bypass"])?;
    let refused = code == Some(1) && stderr.contains("admin = true");
    stage.expect_that("to do everything takes an administrator", refused, stderr);
    asked(stage, "speaking")?;
    stage.expect("while it speaks", &runs(&id))?;
    let partial = stage.until("what it is saying is shown", || {
        let (_, said, _) = stage.ask(&["logs", &id, "--json"]).ok()?;
        said.lines().last().filter(|l| l.contains("\"assistant\"")).map(str::to_owned)
    })?;
    stage.expect_that(
        "it is not whole yet",
        partial.contains("one") && !partial.contains("ten"),
        partial,
    );
    over(stage, &mut gateway, &id)?;
    stage.expect("after its end", &rests(&id, "finished"))?;
    let (code, said, _) = stage.ask(&["resume", &id, "hanging [[hang]]"])?;
    stage.expect_that("it is resumed", code == Some(0) && said.trim() == id, said);
    asked(stage, "hanging")?;
    stage.expect("while it hangs", &runs(&id))?;
    let (code, said, stderr) = stage.ask(&["stop", &id])?;
    stage.expect_that("it is stopped", code == Some(0), format!("{said}{stderr}"));
    let row = gateway.client.row(&id)?;
    let ended = row["hasActiveRun"] == false;
    stage.expect_that("the gateway says so too", ended, row.to_string());
    let ended = if row["status"] == "failed" { "failed" } else { "interrupted" };
    stage.expect("after the stop", &rests(&id, ended))?;
    let (code, said, stderr) =
        stage.ask(&["resume", "--fork", &id, "branching [[say:branched]]"])?;
    stage.expect_that(
        "it is forked",
        code == Some(0) && said.trim() != id,
        format!("{said}{stderr}"),
    );
    let fork = said.trim().to_owned();
    over(stage, &mut gateway, &fork)?;
    let (_, said, _) = stage.ask(&["logs", &fork, "--json", "-n", "50"])?;
    let both = said.contains("speaking") && said.contains("branched");
    stage.expect_that("the fork holds what was said before", both, said);
    let state = stage.home.join(".local/state/agentctl");
    let kept = std::fs::read_dir(&state).map(|files| files.flatten().map(|f| f.path()).collect());
    let mut kept: Vec<PathBuf> = kept.unwrap_or_default();
    // The name that a person gave is no part of the run.
    kept.retain(|path| !path.ends_with("names"));
    stage.expect_that("nothing of it is kept here", kept.is_empty(), format!("{kept:?}"));
    Ok(())
}

pub(super) fn not_ours(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, _) = begin(&mut gateway, "theirs", "hanging [[hang]]")?;
    asked(stage, "hanging")?;
    let (code, _, stderr) = stage.ask(&["stop", &id])?;
    stage.expect_that("it is refused", code == Some(1), format!("{code:?} {stderr}"));
    stage.expect_that("and told why", stderr.contains("admin = true"), stderr);
    stage.expect("it works on", &runs(&id))
}

pub(super) fn aborted(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, key) = begin(&mut gateway, "cut", "speaking [[drip:30]] [[say:one two three four]]")?;
    asked(stage, "speaking")?;
    stage.expect("while it speaks", &runs(&id))?;
    gateway.client.ask("sessions.abort", json!({"key": key, "clearQueued": true}))?;
    over(stage, &mut gateway, &id)?;
    stage.expect("after the abort", &rests(&id, "interrupted"))
}

/// Looks again and again until the model is asked; a run that has begun is never called over.
fn beginning(stage: &mut Stage, word: &str) -> Result<(), Trouble> {
    let (mut wrong, mut unknown, mut looks) = (Vec::new(), 0, 0);
    stage.until("the model is asked", || {
        let before = stage.model.requests().iter().any(|r| r.prompt.contains(word));
        for row in stage.rows(&["-a"]).unwrap_or_default() {
            match row["status"].as_str() {
                Some("running") => {}
                Some("unknown") => unknown += 1,
                _ => wrong.push(format!("{} {}", row["status"], row["evidence"])),
            }
        }
        looks += 1;
        before.then_some(())
    })?;
    let evidence = format!("{looks} looks, {unknown} unknown\n{}", wrong.join("\n"));
    stage.expect_that("in every look until the model is asked", wrong.is_empty(), evidence);
    Ok(())
}

/// Returns the id of the one session whose key contains this text.
fn one(stage: &Stage, gateway: &mut Gateway, text: &str) -> Result<String, Trouble> {
    stage.until(&format!("there is a session {text}"), || {
        let list = gateway.client.ask("sessions.list", json!({"limit": 100})).ok()?;
        let rows = list["sessions"].as_array()?.clone();
        let row = rows.into_iter().find(|r| r["key"].as_str().is_some_and(|k| k.contains(text)))?;
        row["sessionId"].as_str().map(str::to_owned)
    })
}

pub(super) fn cron(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let job = gateway.client.ask("cron.add", json!({
        "name": "nightly", "schedule": {"kind": "every", "everyMs": 3_600_000}, "sessionTarget": "isolated",
        "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "tending [[delay:5]] [[say:tended]]"},
    }))?;
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    gateway.client.ask("cron.run", json!({"id": id, "mode": "force"}))?;
    beginning(stage, "tending")?;
    let session = one(stage, &mut gateway, ":cron:")?;
    stage.expect("while the model thinks", &Claim::of(&session, "running").noting("a cron run"))?;
    stage.until("the job is over", || {
        let jobs = gateway.client.ask("cron.list", json!({})).ok()?;
        let jobs = jobs["jobs"].as_array()?.clone();
        jobs.iter().find(|j| j["id"] == *id && j["state"]["lastRunStatus"] == "ok").map(drop)
    })?;
    let ended = Claim::of(&session, "stopped").ended("finished").served_by(&[]);
    stage.expect("after its end", &ended.noting("a cron run"))
}

pub(super) fn hook(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    request(
        &json!({"message": "answering [[delay:5]] [[say:answered]]", "name": "Hook", "deliver": false}),
    )?;
    beginning(stage, "answering")?;
    let session = one(stage, &mut gateway, ":cron:")?;
    stage.expect("while the model thinks", &Claim::of(&session, "running").noting("a hook run"))?;
    stage.until("it has answered", || {
        let row = gateway.client.row(&session).ok()?;
        let key = row["key"].as_str()?.to_owned();
        let said = gateway.client.ask("chat.history", json!({"sessionKey": key})).ok()?;
        (row["hasActiveRun"] == false && said.to_string().contains("answered\"")).then_some(())
    })?;
    let ended = Claim::of(&session, "stopped").ended("finished").served_by(&[]);
    stage.expect("after its end", &ended.noting("a hook run"))
}

/// Asks for a run as a web request does.
fn request(body: &Value) -> Result<(), Trouble> {
    use std::io::{Read, Write};
    let body = body.to_string();
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", PORT)).map_err(|e| e.to_string())?;
    let head = format!(
        "POST /hooks/agent HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nAuthorization: Bearer {HOOK_TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).map_err(|e| e.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
    if answer.contains("\"ok\":true") { Ok(()) } else { Err(answer) }
}

pub(super) fn subagent(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let prompt = "delegating [[call:tool_call {\"id\": \"sessions_spawn\", \"args\": {\"task\": \"child-work [[hang]]\", \"label\": \"kid\"}}]] [[say:delegated]]";
    let (id, _) = begin(&mut gateway, "parent", prompt)?;
    asked(stage, "child-work")?;
    let child = one(stage, &mut gateway, ":subagent:")?;
    over(stage, &mut gateway, &id)?;
    let rows = stage.rows(&["--tree"])?;
    let below = rows.iter().find(|r| r["id"] == *child).cloned().unwrap_or_default();
    let there = below["status"] == "running" && below["parent"] == *id;
    stage.expect_that("the child runs under its parent", there, format!("{rows:?}"));
    let above = rows.iter().find(|r| r["id"] == *id).cloned().unwrap_or_default();
    let at_work = above["status"] == "idle" && above["reason"]["kind"] == "background";
    stage.expect_that("the parent rests and something of it works", at_work, above.to_string());
    Ok(())
}

pub(super) fn deleted(stage: &mut Stage) -> Result<(), Trouble> {
    let mut gateway = gateway(stage)?;
    let (id, key) = begin(&mut gateway, "one", "thinking [[say:thought]]")?;
    over(stage, &mut gateway, &id)?;
    gateway
        .client
        .ask("sessions.patch", json!({"key": key, "archived": true, "expectedSessionId": id}))?;
    let ended = Claim::of(&id, "stopped").ended("finished").served_by(&[]);
    stage.expect("archived", &ended.noting("archived"))?;
    gateway.client.ask("sessions.delete", json!({"key": key}))?;
    let (code, _, stderr) = stage.ask(&["status", &id])?;
    stage.expect_that("deleted: no such session", code == Some(4), format!("{code:?} {stderr}"));
    let rows = stage.rows(&["-a", "--since", "all"])?;
    stage.expect_that(
        "and no row of it",
        !rows.iter().any(|r| r["id"] == *id),
        format!("{rows:?}"),
    );
    Ok(())
}
