//! Instants: RFC 3339 text in human-readable formats such as JSON, milliseconds in binary ones.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant, shown as RFC 3339 UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub jiff::Timestamp);

impl Time {
    /// The first instant that any source can tell.
    pub const EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// Returns the instant this many milliseconds after the epoch, if there is one.
    #[must_use]
    pub fn from_millis(ms: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(ms).ok().map(Self)
    }

    /// Parses an RFC 3339 text as agents write it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Returns milliseconds since the epoch.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0.as_millisecond()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        (self.0.as_second(), self.0.subsec_nanosecond()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let (seconds, nanos) = Deserialize::deserialize(deserializer)?;
            let time = jiff::Timestamp::new(seconds, nanos);
            return time.map(Self).map_err(serde::de::Error::custom);
        }
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "RFC 3339, UTC, milliseconds"
        })
    }
}
