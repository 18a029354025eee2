//! One conversation with a gateway: protocol 4, the least scope that will do, one time limit for all.
//!
//! Whatever goes wrong becomes a fault with its reason. None of it is ever an answer about a session.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NAME;
use super::device::{Device, Signed};
use super::gateways::Gateway;
use crate::adapters::Look;
use crate::host::Host;
use crate::model::{Fault, FaultCode, is_session_id, shorten};
use crate::talk::{JsonSocket, TalkError};

/// The protocol that was observed, and no other.
const PROTOCOL: u64 = 4;
const ROLE: &str = "operator";
/// Left for telling what went wrong before whoever asked stops listening.
const RESERVE: Duration = Duration::from_millis(150);

/// How often a gateway says something that does not say how often.
const TICK: Duration = Duration::from_secs(30);
/// Two of these missed are enough, and a little for the way.
const GRACE: Duration = Duration::from_secs(5);

/// What a conversation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Looking.
    Read,
    /// Something is wanted.
    Write,
    /// A run is to be ended that somebody else began, and the configuration allows it.
    Admin,
}

impl Scope {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["operator.read"],
            Self::Write => &["operator.read", "operator.write"],
            Self::Admin => &["operator.read", "operator.write", "operator.admin"],
        }
    }
}

/// Whether a gateway is told which device asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// Only if it wants to know.
    IfDemanded,
    /// If we have ever been a device: it may have begun the run that is spoken of.
    IfKept,
    /// Yes, unless it does not matter to the gateway and cannot be had.
    Device,
}

/// Why a gateway did not answer: a stable word, and a sentence.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) code: FaultCode,
    pub(super) message: String,
    /// It may have heard us all the same.
    pub(super) mid_sentence: bool,
}

impl Trouble {
    pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), mid_sentence: false }
    }

    pub(super) fn fault(&self, label: &str) -> Fault {
        let root = Some(label.to_owned());
        Fault { adapter: NAME, root, code: self.code, message: self.message.clone() }
    }
}

impl From<TalkError> for Trouble {
    fn from(error: TalkError) -> Self {
        let (code, message) = match &error {
            TalkError::Unreachable(error) => match error.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    (FaultCode::Unreachable, "the gateway refused the connection".to_owned())
                }
                _ => (FaultCode::Unreachable, format!("the gateway cannot be reached: {error}")),
            },
            TalkError::Late => {
                (FaultCode::Timeout, "the gateway did not answer in time".to_owned())
            }
            TalkError::HungUp(why) => {
                (FaultCode::Unreachable, format!("the gateway hung up in the middle{why}"))
            }
            TalkError::Insecure => (
                FaultCode::Insecure,
                "the gateway is on another machine and its address is ws://: use wss://, or say \
                 `insecure = true` in the configuration"
                    .to_owned(),
            ),
            TalkError::Certificate(why) => {
                let todo = "`ca_file` in its [[openclaw.gateways]] names what to trust";
                (
                    FaultCode::Certificate,
                    format!("the gateway's certificate is not accepted: {why}; {todo}"),
                )
            }
            TalkError::Protocol(why) => {
                (FaultCode::Protocol, format!("the gateway spoke nonsense: {why}"))
            }
            TalkError::Stranger(_) => {
                let todo = "wss:// and `ca_file` in its [[openclaw.gateways]] prove who serves";
                (FaultCode::Foreign, format!("{error}; {todo}"))
            }
            TalkError::OtherProcess(_) => (FaultCode::Foreign, error.to_string()),
            TalkError::Foreign(_) | TalkError::Refused(_) => {
                (FaultCode::Refused, error.to_string())
            }
        };
        let mid_sentence = !matches!(
            error,
            TalkError::Unreachable(_)
                | TalkError::Insecure
                | TalkError::Certificate(_)
                | TalkError::Stranger(_)
        );
        Self { code, message, mid_sentence }
    }
}

/// A conversation that was let in.
pub(super) struct Conversation {
    socket: JsonSocket,
    next_id: u64,
    /// The gateway's version.
    pub(super) version: Option<String>,
    /// It was told which device asks.
    pub(super) is_device: bool,
    /// It says something at least this often.
    tick: Duration,
}

impl Conversation {
    /// Connects within what is left of a look.
    pub(super) fn begin(look: &Look, gateway: &Gateway, scope: Scope) -> Result<Self, Trouble> {
        let left = look.deadline.saturating_duration_since(Instant::now());
        let limit = left.saturating_sub(RESERVE).min(look.host.deadlines.gateway);
        Self::within(&look.host, gateway, scope, Shows::IfDemanded, limit)
    }

    /// Connects within a time that bounds the whole conversation. A gateway that is still starting is
    /// asked again as long as there is time; one that wants to know which device asks is told.
    pub(super) fn within(
        host: &Host,
        gateway: &Gateway,
        scope: Scope,
        shows: Shows,
        limit: Duration,
    ) -> Result<Self, Trouble> {
        let until = Instant::now() + limit;
        let unusable = |why: String| Trouble::new(FaultCode::Auth, why);
        let auth = gateway.auth(host).map_err(unusable)?;
        let mut device = match shows {
            // Whoever is not on this machine has always wanted to know.
            Shows::IfDemanded if gateway.endpoint.is_loopback() => None,
            Shows::IfDemanded | Shows::IfKept => Device::kept(host, gateway).map_err(unusable)?,
            Shows::Device => match Device::kept(host, gateway).map_err(unusable)? {
                None => Device::of(host, gateway).ok(),
                kept => kept,
            },
        };
        let mut optional = gateway.endpoint.is_loopback();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TalkError::Late.into());
            }
            let mut conversation = Self {
                socket: JsonSocket::endpoint(&gateway.endpoint, &gateway.manner, left)?,
                next_id: 0,
                version: None,
                is_device: device.is_some(),
                tick: TICK,
            };
            match conversation.introduce(host, auth.as_ref(), scope, device.as_ref()) {
                Ok(()) => return Ok(conversation),
                Err(Refused::Later(pause, trouble)) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left <= pause {
                        return Err(trouble);
                    }
                    std::thread::park_timeout(pause);
                }
                Err(Refused::Unknown) => {
                    device = Some(Device::of(host, gateway).map_err(unusable)?);
                    optional = false;
                }
                // It did not ask who we are, so it may let us in without.
                Err(Refused::Unapproved(_)) if optional => {
                    device = None;
                    optional = false;
                }
                Err(Refused::Unapproved(trouble) | Refused::Trouble(trouble)) => {
                    return Err(trouble);
                }
            }
        }
    }

    fn introduce(
        &mut self,
        host: &Host,
        auth: Option<&Value>,
        scope: Scope,
        device: Option<&Device>,
    ) -> Result<(), Refused> {
        // Nothing is said before the gateway has spoken first: what is no gateway is told no secret.
        let first = self.socket.receive().map_err(Trouble::from)?;
        if first["event"] != "connect.challenge" {
            let what = "it did not begin with a challenge";
            return Err(Trouble::new(
                FaultCode::Protocol,
                format!("the gateway spoke nonsense: {what}"),
            )
            .into());
        }
        // What speaks like a gateway may be anybody's: any user may listen on the loopback.
        if auth.is_some() || device.is_some() {
            self.socket.check_listener(&host.kernel).map_err(Trouble::from)?;
        }
        let client = json!({
            "id": "cli",
            "displayName": "agentctl",
            "version": env!("CARGO_PKG_VERSION"),
            "platform": if cfg!(target_os = "macos") { "darwin" } else { "linux" },
            "mode": "cli",
        });
        let mut params = json!({
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": client,
            "role": ROLE,
            "scopes": scope.words(),
            "caps": [],
        });
        if let Some(auth) = auth {
            params["auth"] = auth.clone();
        }
        if let Some(device) = device {
            let token = auth.and_then(|auth| auth["token"].as_str()).unwrap_or_default();
            let challenge = &first["payload"];
            let (client, role, scopes) = (&client, ROLE, scope.words());
            params["device"] = device.proof(&Signed { client, role, scopes, token, challenge });
        }
        let hello = match self.exchange("connect", &params).map_err(Trouble::from)? {
            Ok(hello) => hello,
            Err(error) => return Err(refused(&error, auth.is_some(), device)),
        };
        if hello["protocol"] != PROTOCOL {
            let spoken = &hello["protocol"];
            let what =
                format!("the gateway speaks protocol {spoken}; this build speaks {PROTOCOL}");
            return Err(Trouble::new(FaultCode::Protocol, what).into());
        }
        let granted = hello["auth"]["scopes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(missing) =
            scope.words().iter().find(|word| !granted.iter().any(|g| g == **word))
        {
            // Off its own machine a gateway lets the unknown in, and lets them do nothing.
            if device.is_none() {
                return Err(Refused::Unknown);
            }
            let what = format!("the gateway let us in, yet without {missing}");
            return Err(Trouble::new(FaultCode::Auth, what).into());
        }
        let tick =
            hello["policy"]["tickIntervalMs"].as_u64().filter(|ms| (100..=600_000).contains(ms));
        self.tick = tick.map_or(TICK, Duration::from_millis);
        self.version = hello["server"]["version"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Asks one question; the gateway's refusal of it is the inner error.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Trouble> {
        match self.exchange(method, params)? {
            Ok(payload) => Ok(payload),
            Err(error) => Err(said(method, &error)),
        }
    }

    /// Waits for the answer to one request, passing over events and late answers to others.
    fn exchange(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, Value>, TalkError> {
        self.next_id += 1;
        let id = format!("agentctl-{}", self.next_id);
        self.socket.send(&json!({"type": "req", "id": id, "method": method, "params": params}))?;
        loop {
            let mut frame = self.socket.receive()?;
            if frame["type"] != "res" || frame["id"] != *id {
                continue;
            }
            return Ok(match frame["ok"].as_bool() {
                Some(true) => Ok(frame["payload"].take()),
                _ => Err(frame["error"].take()),
            });
        }
    }

    /// Goes on listening only, to what says that some session changed, or that something was not heard.
    pub(super) fn listen(mut self) -> Result<crate::talk::Pushes, TalkError> {
        match self.exchange("sessions.subscribe", &json!({}))? {
            Ok(_) => self.socket.listen(matters(), Some(self.tick * 2 + GRACE)),
            Err(error) => Err(TalkError::Refused(said("sessions.subscribe", &error).message)),
        }
    }
}

/// Says of each event whether it is a reason to look: what changed, or a gap in the count of events.
fn matters() -> impl FnMut(&str) -> bool + Send {
    #[derive(serde::Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        event: Option<std::borrow::Cow<'a, str>>,
        seq: Option<u64>,
    }
    let mut last: Option<u64> = None;
    move |text| {
        let Ok(event) = serde_json::from_str::<Event<'_>>(text) else { return true };
        let missed = match (last, event.seq) {
            (Some(last), Some(now)) => now != last.saturating_add(1),
            _ => false,
        };
        last = event.seq.or(last);
        missed || event.event.is_some_and(|event| event == "sessions.changed")
    }
}

enum Refused {
    /// It will be ready later.
    Later(Duration, Trouble),
    /// It wants to know which device asks.
    Unknown,
    /// Somebody there has to approve this device first.
    Unapproved(Trouble),
    Trouble(Trouble),
}

impl From<Trouble> for Refused {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// What a refused connection means: by its codes, never by its words.
fn refused(error: &Value, had_secret: bool, device: Option<&Device>) -> Refused {
    let detail = error["details"]["code"].as_str();
    let code = detail.or_else(|| error["code"].as_str()).unwrap_or("no reason");
    let trouble = match code {
        "UNAVAILABLE" => {
            let pause = error["retryAfterMs"].as_u64().unwrap_or(500).clamp(20, 5_000);
            let trouble = Trouble::new(FaultCode::Unreachable, "the gateway is still starting");
            return Refused::Later(Duration::from_millis(pause), trouble);
        }
        "PROTOCOL_MISMATCH" => {
            let spoken = &error["details"]["expectedProtocol"];
            let what =
                format!("the gateway speaks protocol {spoken}; this build speaks {PROTOCOL}");
            Trouble::new(FaultCode::Protocol, what)
        }
        "DEVICE_IDENTITY_REQUIRED" | "NOT_PAIRED" if had_secret && device.is_none() => {
            return Refused::Unknown;
        }
        "PAIRING_REQUIRED" if let Some(device) = device => {
            return Refused::Unapproved(unapproved(&error["details"], device));
        }
        _ if code.starts_with("AUTH_") || code.starts_with("DEVICE_") || code == "NOT_PAIRED" => {
            let what = if had_secret {
                format!("the gateway refuses our credentials: {code}")
            } else {
                format!("the gateway wants credentials, and none are configured ({code})")
            };
            Trouble::new(FaultCode::Auth, what)
        }
        _ => {
            let said = error["message"].as_str().unwrap_or_default();
            Trouble::new(
                FaultCode::Refused,
                format!("the gateway refused the connection: {code}: {said}"),
            )
        }
    };
    Refused::Trouble(trouble)
}

/// Says who has to approve what, and with which command.
fn unapproved(details: &Value, device: &Device) -> Trouble {
    let short = &device.id[..12];
    let state = match details["reason"].as_str() {
        Some("not-paired") | None => format!("does not know this device ({short}) yet"),
        Some("scope-upgrade") => {
            let wanted = details["requestedScopes"].as_array().and_then(|all| all.last());
            let wanted = wanted.and_then(Value::as_str).unwrap_or("what is asked for");
            format!("has not approved this device ({short}) for {}", shorten(wanted, 40))
        }
        Some(_) => format!("no longer approves of this device ({short})"),
    };
    // Somebody will type it: nothing but an id gets there.
    let request = details["requestId"].as_str().filter(|id| is_session_id(id));
    let todo = match request {
        Some(id) => format!("`openclaw devices approve {id}` on its machine approves it"),
        None => "`openclaw devices list` on its machine shows what to approve".to_owned(),
    };
    Trouble::new(FaultCode::Pairing, format!("the gateway {state}: {todo}"))
}

fn said(method: &str, error: &Value) -> Trouble {
    let detail = error["details"]["code"].as_str();
    let code = detail.or_else(|| error["code"].as_str()).unwrap_or("no reason");
    let message = error["message"].as_str().unwrap_or("no reason given");
    let word = if code == "MISSING_SCOPE" || code == "FORBIDDEN" {
        FaultCode::Auth
    } else {
        FaultCode::Refused
    };
    Trouble::new(word, format!("the gateway refused {method}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_and_a_gap_are_reasons_to_look_and_nothing_else_is() {
        let mut matters = matters();
        let mut hear = |event: &str, seq: u64| {
            matters(
                &json!({"type": "event", "event": event, "payload": {"event": "x"}, "seq": seq})
                    .to_string(),
            )
        };
        assert!(!hear("tick", 4));
        assert!(!hear("chat", 5));
        assert!(hear("sessions.changed", 6));
        assert!(hear("tick", 8), "one was lost");
        assert!(!hear("tick", 9));
        assert!(hear("tick", 3), "it began anew");
        assert!(!matters(r#"{"type":"res","id":"1","ok":true,"payload":{"sessions.changed":1}}"#));
        assert!(matters("not JSON"));
    }
}
