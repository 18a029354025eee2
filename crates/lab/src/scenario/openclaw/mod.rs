//! OpenClaw: the real gateway on loopback, in a home and namespaces of its own, with the scripted model.

mod approvals;
mod client;
mod device;
mod down;
mod runs;

use std::path::Path;

use serde_json::{Value, json};

use self::client::Client;
use super::{Agent, PlayedAgent, Scenario};
use crate::install::{Beside, Package};
use crate::judge::Claim;
use crate::process::Started;
use crate::stage::{LIMITS, Stage, Trouble};

/// The gateway's port: the namespace is its own.
const PORT: u16 = 18_789;
const TOKEN: &str = "lab-token-0123456789abcdef0123456789abcdef";
const HOOK_TOKEN: &str = "lab-hook-token-fedcba9876543210fedcba";

const OPENCLAW: Agent = Agent("openclaw");

/// OpenClaw in the lab.
pub static AGENT: PlayedAgent = PlayedAgent {
    package: Package { agent: OPENCLAW.0, name: "openclaw", beside: Beside::NodeFirst("26") },
    scenarios: &[SCENARIOS],
};

/// Every scenario of OpenClaw.
pub static SCENARIOS: &[Scenario] = &[
    OPENCLAW.core("turn", "a run while the model thinks, and its end", runs::turn).every(),
    OPENCLAW
        .core(
            "failed",
            "the model refuses: the last run failed, the conversation rests",
            runs::failed,
        )
        .every(),
    OPENCLAW.core(
        "launched",
        "launch, logs while it speaks, resume, stop: the gateway's own id throughout",
        runs::launched,
    ),
    OPENCLAW.headless(
        "not-ours-to-stop",
        "whoever did not begin a run may not end it",
        runs::not_ours,
    ),
    OPENCLAW.headless("aborted", "a run is aborted by somebody else", runs::aborted),
    OPENCLAW.headless("cron", "a scheduled run from its first moment on, and its end", runs::cron),
    OPENCLAW.headless("hook", "a requested run from its first moment on, and its end", runs::hook),
    OPENCLAW.headless("subagent", "a subagent works on while its parent rests", runs::subagent),
    OPENCLAW.headless(
        "deleted",
        "a deleted conversation is gone, an archived one has ended",
        runs::deleted,
    ),
    OPENCLAW
        .headless(
            "gateway-killed",
            "SIGKILL in a run, and a new start: never stopped",
            down::killed,
        )
        .every(),
    OPENCLAW.headless(
        "gateway-hung",
        "SIGSTOP: it does not answer, and nothing is said of it",
        down::hung,
    ),
    OPENCLAW.headless(
        "restart-in-a-listing",
        "SIGKILL while it is being listed, and until it is back: the whole list or none",
        down::listed,
    ),
    OPENCLAW.headless(
        "device",
        "off loopback: a device, approved by the gateway's own command, and removed again",
        device::approved,
    ),
    OPENCLAW.headless(
        "private-authority",
        "off loopback in cipher: plain text and strangers' certificates are refused",
        device::in_cipher,
    ),
    OPENCLAW.headless(
        "own-certificate",
        "in cipher with the certificate that the gateway made for itself",
        device::own_certificate,
    ),
    OPENCLAW.headless(
        "approvals",
        "`approvals = true`: a command waits, is listed, allowed, denied, and ended with its run",
        approvals::answered,
    ),
    OPENCLAW.headless(
        "answered-from-below",
        "answers by its tools, of every shape: refused",
        approvals::from_below,
    ),
    OPENCLAW.headless(
        "wrong-token",
        "it refuses our credentials: a fault, no row",
        down::wrong_token,
    ),
];

/// The gateway, and the oracle's connection to it.
struct Gateway {
    started: Started,
    client: Client,
}

/// Writes the settings of a gateway that talks to our model, and our own settings.
fn settings(stage: &Stage, more: &str) -> Result<(), Trouble> {
    theirs(stage, ".openclaw", &json!({}))?;
    ours(stage, more)
}

/// Writes the settings of a gateway into this folder, with these fields added.
fn theirs(stage: &Stage, folder: &str, said: &Value) -> Result<(), Trouble> {
    let (home, url) = (stage.home.display(), stage.model.url());
    let model = json!({
        "id": "fake-1", "name": "Fake One", "reasoning": false, "input": ["text"],
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
        "contextWindow": 128_000, "maxTokens": 4096,
    });
    let provider = json!({"baseUrl": format!("{url}/v1"), "apiKey": "fake-key", "api": "openai-completions", "models": [model]});
    let mut gateway = json!({"mode": "local", "port": PORT, "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}});
    for (key, value) in said.as_object().into_iter().flatten() {
        gateway[key] = value.clone();
    }
    let settings = json!({
        "gateway": gateway,
        "hooks": {"enabled": true, "token": HOOK_TOKEN, "path": "/hooks", "allowRequestSessionKey": true},
        "logging": {"file": format!("{home}/openclaw-gateway.log")},
        "discovery": {"mdns": {"mode": "off"}},
        "update": {"checkOnStart": false},
        "agents": {"defaults": {
            "workspace": format!("{home}/ws"), "model": {"primary": "fake/fake-1"},
            "skipBootstrap": true, "heartbeat": {"every": "0m"},
        }},
        "models": {"mode": "replace", "providers": {"fake": provider}},
    });
    stage.write(&format!("{folder}/openclaw.json"), &settings.to_string())
}

/// Writes our own settings.
fn ours(stage: &Stage, more: &str) -> Result<(), Trouble> {
    stage.write(".config/agentctl/config.toml", &format!("{LIMITS}{more}"))
}

fn env(stage: &Stage, folder: &str) -> Vec<(String, String)> {
    let set = ["OPENCLAW_NO_RESPAWN", "NO_COLOR", "NO_UPDATE_NOTIFIER", "OPENCLAW_DISABLE_BONJOUR"];
    let place = stage.home.join(folder).to_string_lossy().into_owned();
    let set = set.into_iter().map(|name| (name.to_owned(), "1".to_owned()));
    set.chain([("OPENCLAW_STATE_DIR".to_owned(), place)]).collect()
}

/// Starts the gateway and waits until it lets the oracle in.
fn gateway(stage: &Stage) -> Result<Gateway, Trouble> {
    settings(stage, "")?;
    up(stage)
}

/// Starts the gateway that is already configured.
fn up(stage: &Stage) -> Result<Gateway, Trouble> {
    let started = started(stage, ".openclaw", "loopback")?;
    Ok(Gateway { started, client: let_in(stage)? })
}

fn started(stage: &Stage, folder: &str, bind: &str) -> Result<Started, Trouble> {
    let work = stage.directory("")?;
    let port = PORT.to_string();
    let argv = ["openclaw", "gateway", "run", "--port", &port, "--bind", bind];
    stage.start(Path::new(&work), &env(stage, folder), &argv)
}

/// Its first start on a loaded machine takes more than two minutes.
fn let_in(stage: &Stage) -> Result<Client, Trouble> {
    let once = || stage.until("the gateway lets us in", || Client::connect().ok());
    once().or_else(|_| once()).or_else(|_| once())
}

/// Begins a conversation as any other client would; returns its id and key.
fn begin(gateway: &mut Gateway, label: &str, message: &str) -> Result<(String, String), Trouble> {
    let made =
        gateway.client.ask("sessions.create", json!({"label": label, "message": message}))?;
    let text = |v: &Value| v.as_str().map(str::to_owned).ok_or_else(|| made.to_string());
    Ok((text(&made["sessionId"])?, text(&made["key"])?))
}

/// Waits until the gateway says that no run of a session is active and how the last one ended.
fn over(stage: &Stage, gateway: &mut Gateway, id: &str) -> Result<Value, Trouble> {
    let mut row = Value::Null;
    stage.until("the run is over", || {
        row = gateway.client.row(id).ok()?;
        (row["hasActiveRun"] == false && row["status"].is_string()).then_some(())
    })?;
    Ok(row)
}

/// Returns the claim of an idle conversation.
fn rests(id: &str, outcome: &'static str) -> Claim {
    Claim::of(id, "idle").because(None).ended(outcome).served_by(&[]).hosted(true)
}

fn runs(id: &str) -> Claim {
    Claim::of(id, "running").because(None).served_by(&[]).hosted(true)
}

/// Waits until the model was asked something that holds this word.
fn asked(stage: &Stage, word: &str) -> Result<(), Trouble> {
    stage.until_asked(word, |r| !r.side && r.prompt.contains(word))
}
