//! Moving sessions on a gateway: `sessions.create`, `sessions.send`, `sessions.abort`.
//!
//! Write scope is asked for here and nowhere else, for one request at a time. A message is sent under a
//! key of its own, so that asking twice after a lost connection sends it once.

use std::ffi::OsString;
use std::time::Instant;

use serde_json::{Value, json};

use super::gateways::{self, Gateway};
use super::wire::{Conversation, Scope, Trouble};
use super::{NAME, OpenClaw};
use crate::adapters::control::{
    Abilities, Begin, Begun, Control, FirstWords, Handshake, Order, Permissions, Refusal, Remote,
    Start, Stop, Unbegun,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::model::{Session, is_session_id};

/// So often a message is sent under the same key before it is given up.
const TRIES: usize = 3;

impl Control for OpenClaw {
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
        let told = match act(look, &gateway, Scope::Write, "sessions.abort", &asked) {
            // A run is its beginner's: another connection may end it only as an administrator.
            Err(trouble) if trouble.code == "refused" && gateway.admin => {
                act(look, &gateway, Scope::Admin, "sessions.abort", &asked)
            }
            Err(trouble) if trouble.code == "refused" => {
                let hint = "the gateway lets only whoever began a run, or an administrator, end it: \
                            `admin = true` in its [[openclaw.gateways]] asks for that right";
                Err(Trouble { message: format!("{}; {hint}", trouble.message), ..trouble })
            }
            told => told,
        };
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
            (Some(root), _) => gateway(&look.host, &root.to_string_lossy())?,
            (None, Some(name)) => named(&look.host, name)?,
            (None, None) => usual(&look.host)?,
        };
        let root = gateway.label();
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

/// Further arguments of a launch: which agent of the gateway, which gateway.
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

/// The gateway of this name or address.
fn named(host: &Host, name: &str) -> Result<Gateway, Refusal> {
    let ours = host.gateways.get(NAME).into_iter().flatten();
    let url = ours.clone().find(|g| g.name.as_deref() == Some(name)).map(|g| g.url.clone());
    let label = crate::talk::Endpoint::parse(url.as_deref().unwrap_or(name)).map(|e| e.to_string());
    gateway(host, label.as_deref().unwrap_or(name))
}

/// The first there is.
fn usual(host: &Host) -> Result<Gateway, Refusal> {
    gateways::all(host).into_iter().next().ok_or_else(|| {
        let hint = "start one with `openclaw gateway`, or name one in [[openclaw.gateways]]";
        Refusal::new("no gateway is configured", hint)
    })
}

fn act(
    look: &Look,
    gateway: &Gateway,
    scope: Scope,
    method: &str,
    params: &Value,
) -> Result<Value, Trouble> {
    let left = look.deadline.saturating_duration_since(Instant::now());
    let mut talk = Conversation::within(&look.host, gateway, scope, left)?;
    talk.ask(method, params)
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

/// Sends a message, once: a lost answer is asked for again under the same key.
fn send(look: &Look, gateway: &Gateway, key: &str, message: &str) -> Result<(), Unbegun> {
    let once = uuid::Uuid::new_v4().to_string();
    let params = json!({"key": key, "message": message, "idempotencyKey": once});
    let mut heard = false;
    for attempt in 1.. {
        match act(look, gateway, Scope::Write, "sessions.send", &params) {
            // `started`, `in_flight`, or whatever it calls a message that it has: it has it.
            Ok(told) if told["runId"].is_string() => return Ok(()),
            Ok(_) => return Err(Unbegun::Unclear("the gateway did not say that it has it".into())),
            Err(trouble) if trouble.code == "refused" || trouble.code == "auth" => {
                return Err(Refusal { message: trouble.message, hint: None }.into());
            }
            Err(trouble) => {
                heard |= trouble.mid_sentence;
                let late = Instant::now() >= look.deadline;
                if attempt >= TRIES || late {
                    return Err(if heard {
                        let why = format!(
                            "whether the message arrived is not known: {}",
                            trouble.message
                        );
                        Unbegun::Unclear(why)
                    } else {
                        trouble.into()
                    });
                }
            }
        }
    }
    Ok(())
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
    set(
        "permissionMode",
        match order.permissions {
            Permissions::Default => None,
            Permissions::Edits => Some("workspace".into()),
            Permissions::Bypass => Some("full".into()),
        },
    );
    set("parentSessionKey", fork.map(str::to_owned));
    if fork.is_some() {
        params["fork"] = true.into();
    }
    let told = act(look, gateway, Scope::Write, "sessions.create", &params).map_err(|trouble| {
        if trouble.mid_sentence {
            let why = format!("whether it began is not known: {}", trouble.message);
            return Unbegun::Unclear(why);
        }
        Unbegun::from(trouble)
    })?;
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

impl From<Trouble> for Unbegun {
    fn from(trouble: Trouble) -> Self {
        match trouble.code {
            "refused" | "auth" | "insecure" | "certificate" => {
                Self::Refused(Refusal { message: trouble.message, hint: None })
            }
            _ => Self::Unclear(trouble.message),
        }
    }
}
