//! Control of sessions on a gateway: `sessions.create`, `sessions.send`, `sessions.abort`.
//!
//! Write scope is requested only here, for one request at a time. A request that begins a run proves
//! our device, since a gateway lets only that device end the run. Every request has an idempotency key,
//! so a retry after a lost connection acts once.

use std::ffi::OsString;
use std::time::Instant;

use serde_json::{Value, json};

use super::gateways::{self, Gateway};
use super::wire::{Conversation, GatewayError, Scope, Shows};
use super::{NAME, OpenClaw};
use crate::adapters::control::{
    Abilities, Begin, Begun, Control, FirstWords, Handshake, Order, Permissions, Refusal, Remote,
    Start, Stop, Unbegun,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::model::{FaultCode, Session, is_session_id};

/// Most attempts to send a message under the same key.
const MAX_ATTEMPTS: usize = 3;

impl Control for OpenClaw {
    fn own_variables(&self) -> &'static [&'static str] {
        &["OPENCLAW_CLI", "OPENCLAW_SHELL"]
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            fork: true,
            edits: "permission mode workspace",
            bypass: "permission mode full",
            stop: "asks its gateway to abort the run, and looks again",
        }
    }

    fn start(&self, _host: &Host, _order: &Order) -> Result<Start, Refusal> {
        let what = "it runs on its gateway: there is nothing to start here";
        Err(Refusal { message: what.into(), hint: None })
    }

    fn handshake(&self, _: &Host, _: &Order, _: &FirstWords<'_>) -> Handshake {
        Handshake::Wait
    }

    fn stop(&self, _look: &Look, _root: &Root, _session: &Session) -> Stop {
        Stop::Ask
    }

    fn interrupt(&self, look: &Look, root: &Root, session: &Session) -> Result<String, String> {
        let gateway = gateway(&look.host, &root.label()).map_err(|r| r.message)?;
        let key = session.native_key.as_deref().ok_or("its key is not known")?;
        let asked = json!({"key": key, "clearQueued": true});
        let told = abort(look, &gateway, &asked);
        let told = told.map_err(|trouble| trouble.message)?;
        Ok(told["status"].as_str().unwrap_or("taken").to_owned())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for OpenClaw {
    fn begin(&self, look: &Look, order: &Order, message: &str) -> Result<Begun, Unbegun> {
        let extra = Extra::read(&order.extra)?;
        let gateway = match (&order.root, &extra.gateway) {
            (Some(root), _) => gateway(&look.host, &root.label())?,
            (None, Some(name)) => named(&look.host, name)?,
            (None, None) => usual(&look.host)?,
        };
        let root = gateway.label();
        let unheeded = match &order.begin {
            Begin::New => None,
            Begin::Resume(_) => extra.agent.as_ref().or(extra.gateway.as_ref()),
            Begin::Fork(_) => extra.gateway.as_ref(),
        };
        if let Some(word) = unheeded {
            let what = format!("a session stays where it is: `{word}` is not supported");
            return Err(Refusal::new(what, "leave it out").into());
        }
        match &order.begin {
            Begin::Resume(id) => {
                let key = key_of(look, &gateway, id)?;
                send(look, &gateway, &key, message)?;
                Ok(Begun { session: id.clone(), root })
            }
            Begin::New => create(look, &gateway, order, &extra, message, None),
            Begin::Fork(id) => {
                let key = key_of(look, &gateway, id)?;
                create(look, &gateway, order, &extra, message, Some(&key))
            }
        }
    }
}

/// Further arguments of a launch: the agent of the gateway and the gateway.
#[derive(Default)]
struct Extra {
    agent: Option<String>,
    gateway: Option<String>,
}

impl Extra {
    fn read(words: &[OsString]) -> Result<Self, Refusal> {
        let mut extra = Self::default();
        let mut words = words.iter().map(|w| w.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--agent" => &mut extra.agent,
                "--gateway" => &mut extra.gateway,
                _ => {
                    let what = format!("a gateway takes no argument `{word}`");
                    return Err(Refusal::new(what, "it takes --agent NAME and --gateway NAME"));
                }
            };
            *place = words.next();
        }
        Ok(extra)
    }
}

fn gateway(host: &Host, label: &str) -> Result<Gateway, Refusal> {
    gateways::all(host).into_iter().find(|g| g.label() == label).ok_or_else(|| {
        Refusal::new(format!("no gateway {label} is configured"), "see [[openclaw.gateways]]")
    })
}

/// Returns the gateway with this name or address.
fn named(host: &Host, name: &str) -> Result<Gateway, Refusal> {
    let ours = host.gateways.get(NAME).into_iter().flatten();
    let url = ours.clone().find(|g| g.name.as_deref() == Some(name)).map(|g| g.url.clone());
    let label = crate::talk::Endpoint::parse(url.as_deref().unwrap_or(name)).map(|e| e.to_string());
    gateway(host, label.as_deref().unwrap_or(name))
}

/// Returns the first configured gateway.
fn usual(host: &Host) -> Result<Gateway, Refusal> {
    gateways::all(host).into_iter().next().ok_or_else(|| {
        let hint = "start one with `openclaw gateway`, or name one in [[openclaw.gateways]]";
        Refusal::new("no gateway is configured", hint)
    })
}

fn connect(
    look: &Look,
    gateway: &Gateway,
    scope: Scope,
    shows: Shows,
) -> Result<Conversation, GatewayError> {
    let left = look.deadline.saturating_duration_since(Instant::now());
    Conversation::within(&look.host, gateway, scope, shows, left)
}

/// Aborts a run with the smallest scope that works. A run belongs to the connection or device that
/// began it: our device is shown when the gateway demands it; a run of another client needs the admin
/// scope.
fn abort(look: &Look, gateway: &Gateway, params: &Value) -> Result<Value, GatewayError> {
    let mut talk = connect(look, gateway, Scope::Write, Shows::IfDemanded)?;
    let mut told = talk.ask("sessions.abort", params);
    let is_refused = |told: &Result<Value, GatewayError>| {
        told.as_ref().is_err_and(|trouble| trouble.code == FaultCode::Refused)
    };
    if is_refused(&told) && !talk.is_device {
        let mut talk = connect(look, gateway, Scope::Write, Shows::IfKept)?;
        if talk.is_device {
            told = talk.ask("sessions.abort", params);
        }
    }
    if is_refused(&told) && gateway.admin {
        let mut talk = connect(look, gateway, Scope::Admin, Shows::IfDemanded)?;
        told = talk.ask("sessions.abort", params);
    }
    told.map_err(|trouble| {
        if trouble.code != FaultCode::Refused || gateway.admin {
            return trouble;
        }
        let hint = "the gateway lets only the device that began a run, or an administrator, end it: \
                    `admin = true` in its [[openclaw.gateways]] asks for that right";
        GatewayError { message: format!("{}; {hint}", trouble.message), ..trouble }
    })
}

fn key_of(look: &Look, gateway: &Gateway, id: &str) -> Result<String, Unbegun> {
    let mut talk = Conversation::begin(look, gateway, Scope::Read)?;
    let asked = json!({"sessionId": id, "allowMissing": true});
    let resolved = talk.ask("sessions.resolve", &asked)?;
    match (resolved["ok"].as_bool(), resolved["key"].as_str()) {
        (Some(true), Some(key)) => Ok(key.to_owned()),
        _ => Err(Refusal { message: format!("the gateway no longer has {id}"), hint: None }.into()),
    }
}

/// Sends a request that must act once: after a lost answer it is retried under the same key.
fn once(
    look: &Look,
    gateway: &Gateway,
    scope: Scope,
    method: &str,
    mut params: Value,
) -> Result<Value, Unbegun> {
    let key = uuid::Uuid::new_v4().to_string();
    let mut heard = false;
    for attempt in 1.. {
        let mut keyed = true;
        let told = connect(look, gateway, scope, Shows::Device).and_then(|mut talk| {
            // A gateway accepts a key for `sessions.create` only from a device.
            keyed = talk.is_device || method == "sessions.send";
            if keyed {
                params["idempotencyKey"] = key.clone().into();
            }
            talk.ask(method, &params)
        });
        let trouble = match told {
            Ok(told) => return Ok(told),
            Err(trouble) if is_refusal(&trouble) && !heard => return Err(trouble.into()),
            Err(trouble) => trouble,
        };
        heard |= trouble.may_have_arrived;
        let again = keyed || !heard;
        if !again || attempt >= MAX_ATTEMPTS || Instant::now() >= look.deadline {
            return Err(if heard {
                let why = format!("cannot tell whether it arrived: {}", trouble.message);
                Unbegun::Unclear(why)
            } else {
                trouble.into()
            });
        }
    }
    Err(Unbegun::Unclear("it was never asked".into()))
}

fn send(look: &Look, gateway: &Gateway, key: &str, message: &str) -> Result<(), Unbegun> {
    let params = json!({"key": key, "message": message});
    let told = once(look, gateway, Scope::Write, "sessions.send", params)?;
    // A `runId` means that the gateway has the message, whatever status it gives it.
    if told["runId"].is_string() {
        return Ok(());
    }
    Err(Unbegun::Unclear("the gateway did not confirm the message".into()))
}

fn create(
    look: &Look,
    gateway: &Gateway,
    order: &Order,
    extra: &Extra,
    message: &str,
    fork: Option<&str>,
) -> Result<Begun, Unbegun> {
    let mut params = json!({ "message": message });
    let mut set = |field: &str, value: Option<String>| {
        if let Some(value) = value {
            params[field] = value.into();
        }
    };
    set("agentId", extra.agent.clone());
    set("label", order.name.clone());
    set("model", order.model.clone());
    let scope = match order.permissions {
        Permissions::Default => Scope::Write,
        Permissions::Edits => {
            set("permissionMode", Some("workspace".into()));
            Scope::Write
        }
        Permissions::Bypass if gateway.admin => {
            set("permissionMode", Some("full".into()));
            Scope::Admin
        }
        Permissions::Bypass => {
            let what =
                "a gateway lets only an administrator begin a session that may do everything";
            let hint = "`admin = true` in its [[openclaw.gateways]] asks for that right";
            return Err(Refusal::new(what, hint).into());
        }
    };
    set("parentSessionKey", fork.map(str::to_owned));
    if fork.is_some() {
        params["fork"] = true.into();
    }
    let told = once(look, gateway, scope, "sessions.create", params)?;
    let session = told["sessionId"].as_str().filter(|id| is_session_id(id));
    let session = session.ok_or(Unbegun::Unclear("the gateway named no session".into()))?;
    if told["runStarted"] != true {
        let why = told["runError"]["message"].as_str().or_else(|| told["runError"].as_str());
        let why = why.unwrap_or("no reason given");
        let what = format!("session {session} was made, but its run was refused: {why}");
        return Err(Refusal { message: what, hint: None }.into());
    }
    Ok(Begun { session: session.to_owned(), root: gateway.label() })
}

/// Says whether the gateway refused, so that a retry is useless; other errors are lost connections.
fn is_refusal(trouble: &GatewayError) -> bool {
    matches!(
        trouble.code,
        FaultCode::Refused
            | FaultCode::Auth
            | FaultCode::Pairing
            | FaultCode::Insecure
            | FaultCode::Certificate
    )
}

impl From<GatewayError> for Unbegun {
    fn from(trouble: GatewayError) -> Self {
        if is_refusal(&trouble) {
            return Self::Refused(Refusal { message: trouble.message, hint: None });
        }
        Self::Unclear(trouble.message)
    }
}
