//! The messages on the socket: JSON-RPC 2.0, one document per line, `hello` first.

mod daemon_status;

use agentctl_core::events::EventKind;
use agentctl_core::fleet::Query;
use agentctl_core::model::{Fault, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use self::daemon_status::{DaemonStatus, MetricsStatus, NotifyStatus, WebhookStatus};

/// The version of the protocol; raised when an old client could misunderstand an answer.
pub const PROTOCOL: u32 = 1;
/// Maximum size of a request; a longer request is refused.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;

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
    pub types: Vec<String>,
    /// Only these agents; all when empty.
    pub adapters: Vec<String>,
}

impl SubscribeParams {
    /// Says whether an event of this kind and agent is wanted.
    #[must_use]
    pub fn admits(&self, kind: EventKind, adapter: Option<&str>) -> bool {
        (self.types.is_empty() || self.types.iter().any(|t| t == kind.word()))
            && (self.adapters.is_empty()
                || adapter.is_some_and(|name| self.adapters.iter().any(|a| a == name)))
    }
}
