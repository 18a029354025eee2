//! Off loopback: the gateway demands a device, and over TLS its certificate is checked.
//!
//! The address is one more of the namespace's own loopback interface: the gateway treats its clients as
//! remote, and nothing leaves the machine.

use std::process::Command;

use serde_json::json;

use super::{Gateway, PORT, TOKEN, asked, begin, env, let_in, ours, runs, started, theirs};
use crate::stage::{PATIENCE, Stage, Trouble};

/// An address that is not loopback.
const FAR: &str = "10.77.0.1";
/// Where that gateway keeps its state: not where agentctl would find its settings.
const STATE: &str = "elsewhere";

/// Runs a program of the system and wants it to succeed.
fn run(program: &str, args: &[&str]) -> Result<(), Trouble> {
    let output =
        Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)))
}

fn far_address() -> Result<(), Trouble> {
    run("ip", &["addr", "add", &format!("{FAR}/32"), "dev", "lo"])
}

fn table(scheme: &str, more: &str) -> String {
    format!("[[openclaw.gateways]]\nurl = \"{scheme}://{FAR}:{PORT}\"\ntoken = \"{TOKEN}\"\n{more}")
}

/// Runs the gateway's own command that a message tells people to run.
fn approve(stage: &Stage, message: &str) -> Result<(), Trouble> {
    let command = message.split('`').find(|part| part.starts_with("openclaw devices approve "));
    let command = command.ok_or_else(|| format!("it names no command: {message}"))?;
    its_own(stage, &command.split(' ').collect::<Vec<_>>())
}

/// Runs a command of OpenClaw's own where the gateway is.
fn its_own(stage: &Stage, argv: &[&str]) -> Result<(), Trouble> {
    let mut command = stage.start(&stage.directory("")?, &env(stage, STATE), argv)?;
    let ended = command.wait(PATIENCE).map_err(|e| format!("{}: {e}", argv.join(" ")))?;
    if ended.success() { Ok(()) } else { Err(format!("{}: {ended}", argv.join(" "))) }
}

pub(super) fn approved(stage: &mut Stage) -> Result<(), Trouble> {
    far_address()?;
    theirs(stage, STATE, &json!({"bind": "lan"}))?;
    ours(stage, &table("ws", "insecure = true\n"))?;
    let mut gateway = Gateway { started: started(stage, STATE, "lan")?, client: let_in(stage)? };
    let (id, _) = begin(&mut gateway, "theirs", "hanging [[hang]]")?;
    asked(stage, "hanging")?;
    let list = ["list", "--json"];
    let (code, stdout, stderr) = stage.ask(&list)?;
    let told = code == Some(3) && stderr.contains("does not know this device");
    stage.expect_that("it is told what to approve", told, format!("{code:?} {stdout} {stderr}"));
    approve(stage, &stderr)?;
    let (code, _, stderr) = stage.ask(&list)?;
    stage.expect_that("approved, it is answered", code == Some(0), stderr);
    stage.expect("what runs there is seen", &runs(&id))?;
    let launch = ["launch", "openclaw", "-p", "ours [[hang]]"];
    let (code, _, stderr) = stage.ask(&launch)?;
    let told = code == Some(1) && stderr.contains("for operator.write");
    stage.expect_that("to look is not to act", told, format!("{code:?} {stderr}"));
    approve(stage, &stderr)?;
    let (code, stdout, stderr) = stage.ask(&launch)?;
    stage.expect_that("approved for that, it is launched", code == Some(0), stderr);
    let ours = stdout.trim().to_owned();
    asked(stage, "ours")?;
    let (code, said, stderr) = stage.ask(&["stop", &ours])?;
    // The oracle has been silent for long: its connection may have been given up.
    gateway.client = let_in(stage)?;
    let row = gateway.client.row(&ours)?;
    let ended = code == Some(0) && row["hasActiveRun"] == false;
    stage.expect_that("what we began we may end", ended, format!("{said}{stderr}{row}"));
    let (code, _, stderr) = stage.ask(&["stop", &id])?;
    let refused = code == Some(1) && stderr.contains("admin = true");
    stage.expect_that("what others began we may not", refused, format!("{code:?} {stderr}"));
    let devices = gateway.client.ask("device.pair.list", json!({}))?;
    let paired = devices["paired"].as_array().cloned().unwrap_or_default();
    let device =
        paired.iter().find(|d| d["displayName"] == "agentctl").cloned().unwrap_or_default();
    let device = device["deviceId"].as_str().ok_or_else(|| devices.to_string())?.to_owned();
    its_own(stage, &["openclaw", "devices", "remove", &device])?;
    let (code, stdout, stderr) = stage.ask(&list)?;
    let gone = code == Some(3) && stderr.contains("does not know") && !stdout.contains(&id);
    stage.expect_that("removed, it is told so", gone, format!("{code:?} {stdout} {stderr}"));
    Ok(())
}

/// Waits until the gateway that only speaks TLS answers at all; returns the answer.
fn answered(stage: &Stage) -> Result<(Option<i32>, String, String), Trouble> {
    let answer = || {
        stage.until("the gateway answers", || {
            let said = stage.ask(&["list", "--json"]).ok()?;
            let not_yet = ["refused the connection", "still starting", "closed the connection"];
            (!not_yet.iter().any(|word| said.2.contains(word))).then_some(said)
        })
    };
    answer().or_else(|_| answer())
}

pub(super) fn in_cipher(stage: &mut Stage) -> Result<(), Trouble> {
    far_address()?;
    let at = |name: &str| stage.home.join(name).to_string_lossy().into_owned();
    let (ca, ca_key, cert, key) = (at("ca.pem"), at("ca.key"), at("cert.pem"), at("cert.key"));
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    run("openssl", &[&new[..], &["-subj", "/CN=lab", "-keyout", &ca_key, "-out", &ca]].concat())?;
    let name = format!("subjectAltName=IP:{FAR}");
    let vouched =
        ["-subj", "/CN=gateway", "-addext", &name, "-addext", "basicConstraints=CA:FALSE"];
    let by = ["-CA", &ca, "-CAkey", &ca_key, "-keyout", &key, "-out", &cert];
    run("openssl", &[&new[..], &vouched, &by].concat())?;
    let tls = json!({"bind": "lan", "tls": {"enabled": true, "certPath": cert, "keyPath": key}});
    let named = format!("ca_file = \"{ca}\"\n");
    theirs(stage, STATE, &tls)?;
    ours(stage, &table("wss", &named))?;
    let _gateway = started(stage, STATE, "lan")?;
    let (code, stdout, stderr) = answered(stage)?;
    let told = code == Some(3) && stderr.contains("does not know this device");
    stage.expect_that("vouched for, it is spoken to", told, format!("{code:?} {stdout} {stderr}"));
    approve(stage, &stderr)?;
    let (_, stdout, stderr) = stage.ask(&["list", "--json"])?;
    let far = format!("wss://{FAR}:{PORT}");
    stage.expect_that(
        "approved, it is answered",
        !stderr.contains(&far),
        format!("{stdout}{stderr}"),
    );
    for (scheme, more, word) in [
        ("wss", String::new(), "no trusted authority has signed it"),
        ("ws", named.clone(), "its address is ws://"),
    ] {
        ours(stage, &table(scheme, &more))?;
        let (code, stdout, stderr) = stage.ask(&["list", "--json"])?;
        let refused = code == Some(3) && stderr.contains(word);
        stage.expect_that(word, refused, format!("{code:?} {stdout} {stderr}"));
    }
    Ok(())
}

pub(super) fn own_certificate(stage: &mut Stage) -> Result<(), Trouble> {
    theirs(stage, ".openclaw", &json!({"tls": {"enabled": true}}))?;
    ours(stage, "")?;
    let _gateway = started(stage, ".openclaw", "loopback")?;
    let (code, stdout, stderr) = answered(stage)?;
    stage.expect_that("it is answered", code == Some(0), format!("{code:?} {stdout} {stderr}"));
    let (code, stdout, stderr) =
        stage.ask(&["launch", "openclaw", "-p", "thinking [[say:thought]]", "--wait"])?;
    stage.expect_that("and carries out", code == Some(0), format!("{code:?} {stdout} {stderr}"));
    // Another certificate in its place is not trusted.
    let made = stage.home.join(".openclaw/gateway/tls/gateway-cert.pem");
    let (other, key) = (stage.home.join("other.pem"), stage.home.join("other.key"));
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (other_text, key) = (text(&other), text(&key));
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"];
    run("openssl", &[&new[..], &["-keyout", &key, "-out", &other_text]].concat())?;
    std::fs::copy(&other, &made).map_err(|e| e.to_string())?;
    let (code, stdout, stderr) = stage.ask(&["list", "--json"])?;
    let refused = code == Some(3) && stderr.contains("certificate is not accepted");
    stage.expect_that("another is refused", refused, format!("{code:?} {stdout} {stderr}"));
    Ok(())
}
