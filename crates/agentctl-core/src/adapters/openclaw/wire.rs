//! One connection to a gateway: protocol 4, the smallest scope that works, one deadline for everything.
//!
//! Every error becomes a fault with its reason, never an answer about a session.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NAME;
use super::device::{Device, Signed};
use super::gateways::Gateway;
use crate::adapters::Look;
use crate::host::Host;
use crate::model::{Fault, FaultCode, is_session_id, shorten};
use crate::talk::{JsonSocket, TalkError};

/// The only protocol version that was observed.
const PROTOCOL: u64 = 4;
const ROLE: &str = "operator";
/// Time reserved before the look's deadline to report a gateway that does not answer.
const REPORT_RESERVE: Duration = Duration::from_millis(150);

/// Interval of a gateway's ticks if it does not announce one.
const TICK: Duration = Duration::from_secs(30);
/// Extra time beyond two missed ticks before a gateway counts as silent.
const TICK_GRACE: Duration = Duration::from_secs(5);

/// The scope that a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Read only.
    Read,
    /// Begin, continue or abort runs.
    Write,
    /// Abort a run of another client; only if the configuration allows it.
    Admin,
    /// See and resolve approvals; only if the configuration allows it.
    Approvals,
    /// The same for a connection that stays: while it does, commands wait for an answer.
    Approver,
}

impl Scope {
    /// Returns the scopes. A run has those of the client that begins it, so a client that begins one on a gateway
    /// with approvals asks for that scope, too. The approvals of other clients need an administrator.
    fn words(self, gateway: &Gateway) -> Vec<&'static str> {
        let mut words = match self {
            Self::Read => return vec!["operator.read"],
            Self::Write => vec!["operator.read", "operator.write"],
            Self::Admin => vec!["operator.read", "operator.write", "operator.admin"],
            Self::Approvals | Self::Approver if gateway.admin => {
                vec!["operator.read", "operator.admin"]
            }
            Self::Approvals | Self::Approver => vec!["operator.read"],
        };
        words.extend(gateway.approvals.then_some("operator.approvals"));
        words
    }

    /// Returns the capabilities that a connection announces.
    fn capabilities(self) -> &'static [&'static str] {
        if self == Self::Approver { &["exec-approvals"] } else { &[] }
    }
}

/// Whether our device is shown to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// Only if the gateway demands it.
    IfDemanded,
    /// If we have a device: it may have begun the run in question.
    IfKept,
    /// Always, unless the gateway does not demand it and the key cannot be created.
    Device,
}

/// The error of a gateway: a stable code, and a sentence.
#[derive(Clone, Debug)]
pub(super) struct GatewayError {
    pub(super) code: FaultCode,
    pub(super) message: String,
    /// The request was sent: the gateway may have acted on it.
    pub(super) may_have_arrived: bool,
}

impl GatewayError {
    pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), may_have_arrived: false }
    }

    pub(super) fn fault(&self, label: &str) -> Fault {
        let root = Some(label.to_owned());
        Fault { adapter: NAME, root, code: self.code, message: self.message.clone() }
    }
}

impl From<TalkError> for GatewayError {
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
                (FaultCode::Unreachable, format!("the gateway closed the connection{why}"))
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
                (FaultCode::Protocol, format!("the gateway sent an invalid answer: {why}"))
            }
            TalkError::Stranger(_) => {
                let todo = "wss:// and `ca_file` in its [[openclaw.gateways]] prove who serves";
                (FaultCode::Foreign, format!("{error}; {todo}"))
            }
            TalkError::OtherProcess(_) => (FaultCode::Foreign, error.to_string()),
            TalkError::Foreign(_) | TalkError::Refused(_) | TalkError::NotFound => {
                (FaultCode::Refused, error.to_string())
            }
        };
        let may_have_arrived = !matches!(
            error,
            TalkError::Unreachable(_)
                | TalkError::Insecure
                | TalkError::Certificate(_)
                | TalkError::Stranger(_)
        );
        Self { code, message, may_have_arrived }
    }
}

/// The rights and capabilities that a connection asks for.
struct Wanted<'a> {
    scopes: &'a [&'static str],
    capabilities: &'a [&'static str],
}

/// An accepted connection.
pub(super) struct Conversation {
    socket: JsonSocket,
    next_id: u64,
    /// The gateway's version.
    pub(super) version: Option<String>,
    /// Our device was shown to the gateway.
    pub(super) is_device: bool,
    /// The gateway sends something at least this often.
    tick: Duration,
}

impl Conversation {
    /// Connects within the remaining time of a look.
    pub(super) fn begin(
        look: &Look,
        gateway: &Gateway,
        scope: Scope,
    ) -> Result<Self, GatewayError> {
        Self::begin_as(look, gateway, scope, Shows::IfDemanded)
    }

    /// The same, and says whether our device is shown.
    pub(super) fn begin_as(
        look: &Look,
        gateway: &Gateway,
        scope: Scope,
        shows: Shows,
    ) -> Result<Self, GatewayError> {
        let left = look.deadline.saturating_duration_since(Instant::now());
        let limit = left.saturating_sub(REPORT_RESERVE).min(look.host.deadlines.gateway);
        Self::within(&look.host, gateway, scope, shows, limit)
    }

    /// Connects within a limit for the whole connection. A gateway that is still starting is retried
    /// until then; a gateway that demands a device gets it.
    pub(super) fn within(
        host: &Host,
        gateway: &Gateway,
        scope: Scope,
        shows: Shows,
        limit: Duration,
    ) -> Result<Self, GatewayError> {
        let until = Instant::now() + limit;
        let unusable = |why: String| GatewayError::new(FaultCode::Auth, why);
        let auth = gateway.auth(host).map_err(unusable)?;
        let mut device = match shows {
            // A gateway on another machine always demands a device.
            Shows::IfDemanded if gateway.endpoint.is_loopback() => None,
            Shows::IfDemanded | Shows::IfKept => Device::kept(host, gateway).map_err(unusable)?,
            Shows::Device => match Device::kept(host, gateway).map_err(unusable)? {
                None => Device::of(host, gateway).ok(),
                kept => kept,
            },
        };
        let mut optional = gateway.endpoint.is_loopback();
        let wanted = Wanted { scopes: &scope.words(gateway), capabilities: scope.capabilities() };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TalkError::Late.into());
            }
            let mut conversation = Self {
                socket: JsonSocket::endpoint(&gateway.endpoint, &gateway.tls, left)?,
                next_id: 0,
                version: None,
                is_device: device.is_some(),
                tick: TICK,
            };
            match conversation.introduce(host, auth.as_ref(), &wanted, device.as_ref()) {
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
                // The gateway did not demand a device, so it may accept us without one.
                Err(Refused::Unapproved(_)) if optional => {
                    device = None;
                    optional = false;
                }
                Err(Refused::Unapproved(trouble) | Refused::GatewayError(trouble)) => {
                    return Err(trouble);
                }
            }
        }
    }

    fn introduce(
        &mut self,
        host: &Host,
        auth: Option<&Value>,
        wanted: &Wanted<'_>,
        device: Option<&Device>,
    ) -> Result<(), Refused> {
        // We send nothing before the challenge: another kind of server gets no secret.
        let first = self.socket.receive().map_err(GatewayError::from)?;
        if first["event"] != "connect.challenge" {
            let what = "it did not begin with a challenge";
            return Err(GatewayError::new(
                FaultCode::Protocol,
                format!("the gateway sent an invalid answer: {what}"),
            )
            .into());
        }
        // Any user may listen on the loopback, so the owner of the listener is checked before a secret
        // is sent.
        if auth.is_some() || device.is_some() {
            self.socket.check_listener(&host.kernel).map_err(GatewayError::from)?;
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
            "scopes": wanted.scopes,
            "caps": wanted.capabilities,
        });
        if let Some(auth) = auth {
            params["auth"] = auth.clone();
        }
        if let Some(device) = device {
            let token = auth.and_then(|auth| auth["token"].as_str()).unwrap_or_default();
            let challenge = &first["payload"];
            let (client, role, scopes) = (&client, ROLE, wanted.scopes);
            params["device"] = device.proof(&Signed { client, role, scopes, token, challenge });
        }
        let hello = match self.exchange("connect", &params).map_err(GatewayError::from)? {
            Ok(hello) => hello,
            Err(error) => return Err(refused(&error, auth.is_some(), device)),
        };
        if hello["protocol"] != PROTOCOL {
            let spoken = &hello["protocol"];
            let what =
                format!("the gateway speaks protocol {spoken}; this build speaks {PROTOCOL}");
            return Err(GatewayError::new(FaultCode::Protocol, what).into());
        }
        let granted = hello["auth"]["scopes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(missing) =
            wanted.scopes.iter().find(|word| !granted.iter().any(|g| g == **word))
        {
            // A gateway on another machine accepts unknown clients, but gives them no scope.
            if device.is_none() {
                return Err(Refused::Unknown);
            }
            let what = format!("the gateway accepted the connection without {missing}");
            return Err(GatewayError::new(FaultCode::Auth, what).into());
        }
        let tick =
            hello["policy"]["tickIntervalMs"].as_u64().filter(|ms| (100..=600_000).contains(ms));
        self.tick = tick.map_or(TICK, Duration::from_millis);
        self.version = hello["server"]["version"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Sends one request; a refusal by the gateway is an error too.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, GatewayError> {
        match self.exchange(method, params)? {
            Ok(payload) => Ok(payload),
            Err(error) => Err(said(method, &error)),
        }
    }

    /// Waits for the answer to one request; skips events and late answers to other requests.
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

    /// Subscribes to notifications: that some session changed, or that events were lost.
    pub(super) fn listen(mut self) -> Result<crate::talk::Pushes, TalkError> {
        match self.exchange("sessions.subscribe", &json!({}))? {
            Ok(_) => self.socket.listen(matters(), Some(self.tick * 2 + TICK_GRACE)),
            Err(error) => Err(TalkError::Refused(said("sessions.subscribe", &error).message)),
        }
    }
}

/// Decides for each event whether it is a reason to look: a change, or a gap in the event numbers.
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
        missed
            || event.event.is_some_and(|event| {
                event == "sessions.changed" || event.starts_with("exec.approval.")
            })
    }
}

enum Refused {
    /// Retry after this pause: the gateway is starting.
    Later(Duration, GatewayError),
    /// It demands a device.
    Unknown,
    /// A person has to approve this device first.
    Unapproved(GatewayError),
    GatewayError(GatewayError),
}

impl From<GatewayError> for Refused {
    fn from(trouble: GatewayError) -> Self {
        Self::GatewayError(trouble)
    }
}

/// Interprets a refused connection by its codes, never by its texts.
fn refused(error: &Value, had_secret: bool, device: Option<&Device>) -> Refused {
    let detail = error["details"]["code"].as_str();
    let code = detail.or_else(|| error["code"].as_str()).unwrap_or("no reason");
    let trouble = match code {
        "UNAVAILABLE" => {
            let pause = error["retryAfterMs"].as_u64().unwrap_or(500).clamp(20, 5_000);
            let trouble =
                GatewayError::new(FaultCode::Unreachable, "the gateway is still starting");
            return Refused::Later(Duration::from_millis(pause), trouble);
        }
        "PROTOCOL_MISMATCH" => {
            let spoken = &error["details"]["expectedProtocol"];
            let what =
                format!("the gateway speaks protocol {spoken}; this build speaks {PROTOCOL}");
            GatewayError::new(FaultCode::Protocol, what)
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
            GatewayError::new(FaultCode::Auth, what)
        }
        _ => {
            let said = error["message"].as_str().unwrap_or_default();
            GatewayError::new(
                FaultCode::Refused,
                format!("the gateway refused the connection: {code}: {said}"),
            )
        }
    };
    Refused::GatewayError(trouble)
}

/// Makes the error that names the missing approval and the command that gives it.
fn unapproved(details: &Value, device: &Device) -> GatewayError {
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
    // The user will type this command, so only a valid id is put into it.
    let request = details["requestId"].as_str().filter(|id| is_session_id(id));
    let todo = match request {
        Some(id) => format!("`openclaw devices approve {id}` on its machine approves it"),
        None => "`openclaw devices list` on its machine shows what to approve".to_owned(),
    };
    GatewayError::new(FaultCode::Pairing, format!("the gateway {state}: {todo}"))
}

fn said(method: &str, error: &Value) -> GatewayError {
    let detail = error["details"]["code"].as_str();
    let code = detail.or_else(|| error["code"].as_str()).unwrap_or("no reason");
    let message = error["message"].as_str().unwrap_or("no reason given");
    let word = if code == "MISSING_SCOPE" || code == "FORBIDDEN" {
        FaultCode::Auth
    } else {
        FaultCode::Refused
    };
    GatewayError::new(word, format!("the gateway refused {method}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_or_a_gap_is_a_reason_to_look() {
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
        assert!(hear("exec.approval.requested", 7));
        assert!(hear("tick", 9), "one was lost");
        assert!(!hear("tick", 10));
        assert!(hear("tick", 3), "it began anew");
        assert!(!matters(r#"{"type":"res","id":"1","ok":true,"payload":{"sessions.changed":1}}"#));
        assert!(matters("not JSON"));
    }
}
