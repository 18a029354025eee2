//! The messages on the socket: JSON-RPC 2.0, one document per line, `hello` first.

mod daemon_change;
mod daemon_status;

use std::sync::Arc;

use agentctl_core::events::{Event, EventKind};
use agentctl_core::fleet::Query;
use agentctl_core::model::{Fault, Time};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub use self::daemon_change::{DaemonChange, DaemonResult};
pub use self::daemon_status::{DaemonStatus, MetricsStatus, NotifyStatus, WebhookStatus};
use crate::text::json_line;

/// The version of the protocol; raised when an old client could misunderstand an answer.
pub const PROTOCOL: u32 = 1;
/// Maximum size of a request; a longer request is refused.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;
/// The version of JSON-RPC, which every message names.
pub const JSONRPC: &str = "2.0";

/// One call as received: the frame around a [`Request`].
#[derive(Debug, Deserialize)]
pub struct Call {
    /// Always `2.0`.
    pub jsonrpc: String,
    /// Comes back with the answer; a call without an id gets no answer.
    #[serde(default)]
    pub id: Option<Value>,
    /// The name of the method.
    pub method: String,
    /// The parameters; none is the same as an empty object.
    #[serde(default)]
    pub params: Option<Box<RawValue>>,
}

impl Call {
    /// Says whether it calls `hello`, also with parameters that cannot be read.
    #[must_use]
    pub fn is_hello(&self) -> bool {
        self.method == Request::METHODS[0]
    }
}

/// One call as sent: a [`Request`] in its frame.
#[derive(Debug, Serialize)]
pub struct OutgoingCall<'a> {
    jsonrpc: &'static str,
    id: u64,
    #[serde(flatten)]
    request: &'a Request,
}

impl<'a> OutgoingCall<'a> {
    /// Puts a request into its frame.
    #[must_use]
    pub fn new(id: u64, request: &'a Request) -> Self {
        Self { jsonrpc: JSONRPC, id, request }
    }
}

/// The answer to a call as sent.
#[derive(Debug, Serialize)]
pub struct OutgoingReply<'a, T> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(flatten)]
    outcome: ReplyOutcome<T>,
}

/// The result of a call, or its error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReplyOutcome<T> {
    Result(T),
    Error(Refusal),
}

impl<'a, T> OutgoingReply<'a, T> {
    /// Puts a result or a refusal into its frame.
    #[must_use]
    pub fn new(id: &'a Value, outcome: Result<T, Refusal>) -> Self {
        let outcome = match outcome {
            Ok(result) => ReplyOutcome::Result(result),
            Err(refusal) => ReplyOutcome::Error(refusal),
        };
        Self { jsonrpc: JSONRPC, id, outcome }
    }
}

/// The frame around a result that is sent part by part, because it is long: the bytes before it and after it.
pub fn reply_around(id: &Value) -> serde_json::Result<(String, &'static str)> {
    const AFTER: &str = "}";
    let mut before = serde_json::to_string(&OutgoingReply::new(id, Ok(Value::Null)))?;
    before.truncate(before.len() - "null".len() - AFTER.len());
    Ok((before, AFTER))
}

/// The answer to a call as received.
#[derive(Debug, Deserialize)]
pub struct Reply<T> {
    // Otherwise a result that is `null` would count as missing.
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    error: Option<Refusal>,
}

impl<T> Reply<T> {
    /// Returns the result or the refusal; `None` if the answer has neither.
    #[must_use]
    pub fn outcome(self) -> Option<Result<T, Refusal>> {
        match (self.result, self.error) {
            (_, Some(refusal)) => Some(Err(refusal)),
            (Some(result), None) => Some(Ok(result)),
            (None, None) => None,
        }
    }
}

/// A message of the daemon that answers no call. `events.subscribe` starts them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "method", content = "params", rename_all = "lowercase")]
pub enum Notification {
    /// Something has changed.
    Event(EventText),
    /// The client was too slow, and events were lost.
    Lost {
        /// Number of events that were lost.
        count: u64,
    },
}

impl Notification {
    /// Returns the line in which the daemon sends it, with its newline.
    pub fn line(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Frame<'a> {
            jsonrpc: &'static str,
            #[serde(flatten)]
            notification: &'a Notification,
        }
        let mut line = serde_json::to_string(&Frame { jsonrpc: JSONRPC, notification: self })?;
        line.push('\n');
        Ok(line)
    }
}

/// An event and its JSON, which is made once: every reader prints the same bytes.
#[derive(Clone, Debug)]
pub struct EventText {
    event: Arc<Event>,
    text: Box<RawValue>,
}

impl EventText {
    /// Serialises an event, without control characters.
    pub fn new(event: Arc<Event>) -> serde_json::Result<Self> {
        let text = RawValue::from_string(json_line(&*event)?)?;
        Ok(Self { event, text })
    }

    /// Returns the event.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Returns its JSON, on one line.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }
}

impl Serialize for EventText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EventText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let event = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { event: Arc::new(event), text })
    }
}

/// Declares the methods of the socket: the enum, their names, and reading a call.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:literal $variant:ident($params:ty),)*) => {
        /// Every request that the daemon answers. `docs/PROTOCOL.md` describes them.
        #[derive(Debug, Deserialize, Serialize)]
        #[serde(tag = "method", content = "params")]
        pub enum Request {
            $($(#[$doc])* #[serde(rename = $name)] $variant($params),)*
        }

        impl Request {
            /// The names of all methods.
            pub const METHODS: &[&str] = &[$($name),*];

            /// Reads the method and the parameters of a call.
            pub fn of(call: &Call) -> Result<Self, Refusal> {
                let params = call.params.as_deref();
                match call.method.as_str() {
                    $($name => read(params).map(Self::$variant),)*
                    other => {
                        let message = format!("there is no method `{other}`");
                        Err(Refusal::new(Refusal::METHOD, message))
                    }
                }
            }
        }
    };
}

methods! {
    /// The first request of every connection; answered with [`Welcome`].
    "hello" Hello(Hello),
    /// Lists sessions; answered with `Listing`, or [`PackedList`] and its frames.
    "session.list" SessionList(Query),
    /// Returns everything that waits for a human; answered with `AsksDocument`.
    "ask.list" AskList(AskListParams),
    /// Sends every event from now on; answered with [`Subscribed`].
    "events.subscribe" EventsSubscribe(SubscribeParams),
    /// Describes the daemon; answered with `DaemonStatus`.
    "daemon.status" DaemonStatus(NoParams),
    /// Ends the daemon; answered with [`Ending`].
    "daemon.shutdown" DaemonShutdown(NoParams),
}

/// Reads parameters; none is the same as an empty object.
fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Refusal> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|error| Refusal::new(Refusal::PARAMS, error.to_string()))
}

/// No parameters: those that are sent are ignored.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct NoParams {}

/// The parameters of `ask.list`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AskListParams {
    /// Only asks of this adapter.
    pub adapter: Option<String>,
    /// Only asks of this session, or this ask.
    pub session: Option<String>,
}

/// The answer to `events.subscribe`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Subscribed {
    /// Always true.
    pub subscribed: bool,
}

/// The answer to `daemon.shutdown`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Ending {
    /// The process that ends.
    pub pid: u32,
}

/// The error of a request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Refusal {
    /// The error code of JSON-RPC.
    pub code: i64,
    /// One sentence.
    pub message: String,
}

impl Refusal {
    /// The line is not JSON.
    pub const PARSE: i64 = -32700;
    /// The line is JSON, but not a request.
    pub const INVALID: i64 = -32600;
    /// There is no such method.
    pub const METHOD: i64 = -32601;
    /// The parameters do not match the method.
    pub const PARAMS: i64 = -32602;
    /// The answer failed.
    pub const INTERNAL: i64 = -32603;
    /// The first request was not `hello`, or named another protocol.
    pub const HELLO: i64 = -32000;
    /// All connections are in use.
    pub const BUSY: i64 = -32001;

    /// Creates a refusal.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The parameters of `hello`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Hello {
    /// The protocol of the client.
    pub protocol: u32,
    /// The encoding of lists that the client wants.
    #[serde(default)]
    pub encoding: Encoding,
}

/// The encoding of the answers to `session.list`. All other answers are JSON.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// The document that `agentctl list --json` prints.
    #[default]
    Json,
    /// [`PackedList`] and packed rows, which only a client of the same program file can read.
    Postcard,
}

/// The answer to `hello`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Welcome {
    /// The protocol of the daemon.
    pub protocol: u32,
    /// The program's version.
    pub version: String,
    /// The digest of the daemon's settings; see [`crate::client`].
    pub fingerprint: String,
    /// The process of the daemon.
    pub pid: u32,
    /// When the daemon started to serve.
    pub since: Time,
    /// The encoding of lists on this connection.
    #[serde(default)]
    pub encoding: Encoding,
}

/// The answer to `session.list` where [`Encoding::Postcard`] was agreed on: the frames with the rows follow it.
#[derive(Debug, Deserialize, Serialize)]
pub struct PackedList {
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
    /// Number of frames that follow. Each is its length (four bytes, the lowest first) and its packed rows.
    pub frames: usize,
}

/// The parameters of `events.subscribe`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubscribeParams {
    /// Only these types; all when empty.
    pub types: Vec<EventKind>,
    /// Only these agents; all when empty.
    pub adapters: Vec<String>,
}

impl SubscribeParams {
    /// Says whether an event is wanted.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        let is_listed = |name| self.adapters.iter().any(|adapter| adapter == name);
        (self.types.is_empty() || self.types.contains(&event.kind))
            && (self.adapters.is_empty() || event.adapter.is_some_and(is_listed))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notification_is_read_as_it_was_written() {
        let event =
            Event::new(EventKind::FuseSet, "one\u{1b}".into(), Time::from_millis(0).unwrap());
        let event = EventText::new(Arc::new(event)).unwrap();
        let line = Notification::Event(event.clone()).line().unwrap();
        let head = r#"{"jsonrpc":"2.0","method":"event","params":"#;
        assert_eq!(line, format!("{head}{}}}\n", event.text()));
        match serde_json::from_str(&line).unwrap() {
            Notification::Event(read) => {
                assert_eq!((read.text(), read.event()), (event.text(), event.event()));
            }
            Notification::Lost { .. } => panic!("{line}"),
        }
        let line = Notification::Lost { count: 12 }.line().unwrap();
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{\"count\":12}}\n");
        assert!(matches!(serde_json::from_str(&line), Ok(Notification::Lost { count: 12 })));
    }

    #[test]
    fn a_reply_that_is_sent_in_parts_has_the_frame_of_every_reply() {
        for id in [json!(7), json!("null}"), Value::Null] {
            let (before, after) = reply_around(&id).unwrap();
            let whole = OutgoingReply::new(&id, Ok(json!({"frames": 1})));
            let parts = format!("{before}{{\"frames\":1}}{after}");
            assert_eq!(parts, serde_json::to_string(&whole).unwrap());
            let reply: Reply<Value> = serde_json::from_str(&parts).unwrap();
            assert_eq!(reply.outcome().unwrap().unwrap(), json!({"frames": 1}));
        }
        let refused = OutgoingReply::<()>::new(&Value::Null, Err(Refusal::new(1, "no")));
        let line = serde_json::to_string(&refused).unwrap();
        assert_eq!(line, r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#);
    }
}
