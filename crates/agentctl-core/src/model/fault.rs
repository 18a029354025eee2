//! Faults: sources that failed, and which sessions each fault may hide.

use std::borrow::Cow;
use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{InternedName, interned, word};

/// A source that failed. It is reported beside the rows; it never removes or adds one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub struct Fault {
    /// The adapter whose source failed.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The home or gateway concerned.
    pub root: Option<String>,
    /// A stable code for scripts.
    #[schemars(with = "String")]
    pub code: FaultCode,
    /// One sentence for people.
    pub message: String,
}

/// The sessions that a fault may hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None but the session of one file or one process.
    Item,
    /// The sessions of the home that the fault names.
    Home,
    /// The sessions of homes that were left out. The homes that answered are complete.
    OtherHomes,
    /// All sessions of the adapter.
    Adapter,
}

/// The homes of an adapter that [`Fault::hides`] is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeScope<'a> {
    /// All homes.
    All,
    /// This home.
    One(&'a str),
    /// A home that no answer names.
    Unnamed,
}

impl Fault {
    /// Returns which sessions it may hide. This is the only place that decides it.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match (self.code, &self.root) {
            (FaultCode::Signal | FaultCode::Unreadable, _) | (FaultCode::Skipped, Some(_)) => {
                Reach::Item
            }
            (FaultCode::Skipped, None) => Reach::OtherHomes,
            (_, Some(_)) => Reach::Home,
            (_, None) => Reach::Adapter,
        }
    }

    /// Says whether it may hide sessions that this adapter has in these homes.
    #[must_use]
    pub fn hides(&self, adapter: &str, homes: HomeScope<'_>) -> bool {
        let here = match (self.reach(), homes) {
            (Reach::Adapter, _) | (Reach::OtherHomes, HomeScope::Unnamed) => true,
            (Reach::Home, HomeScope::One(root)) => self.root.as_deref() == Some(root),
            _ => false,
        };
        here && self.adapter == adapter
    }

    /// Says whether it hides all sessions of its adapter: whether a directory is free is unknown then.
    #[must_use]
    pub fn hides_adapter(&self) -> bool {
        self.hides(self.adapter, HomeScope::All)
    }

    /// Says whether the whole adapter did not answer in time.
    #[must_use]
    pub fn is_adapter_timeout(&self) -> bool {
        self.hides_adapter() && self.code == FaultCode::Timeout
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// The kind of a failure, as a word that scripts can rely on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FaultCode {
            $($(#[$doc])* $name,)*
            /// A word that this version does not know, from another version of this program.
            Other(InternedName),
        }

        impl FaultCode {
            /// Returns its name in JSON.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                    Self::Other(word) => word,
                }
            }

            fn known(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The server wants other credentials.
    Auth = "auth",
    /// The certificate of the server is not accepted.
    Certificate = "certificate",
    /// The source could not be asked.
    Failed = "failed",
    /// The socket or port belongs to another user or another process.
    Foreign = "foreign",
    /// The server no longer has the session.
    Gone = "gone",
    /// The connection to another machine would not be encrypted.
    Insecure = "insecure",
    /// The server has not approved this device.
    Pairing = "pairing",
    /// The code of the adapter panicked.
    Panicked = "panicked",
    /// The server answered with a part of its sessions only.
    Partial = "partial",
    /// The source has not answered yet.
    Pending = "pending",
    /// The server does not keep to its protocol.
    Protocol = "protocol",
    /// The server refused the request.
    Refused = "refused",
    /// A process could not be signalled.
    Signal = "signal",
    /// A file or a home was left out.
    Skipped = "skipped",
    /// The source did not answer in time.
    Timeout = "timeout",
    /// The server cannot be reached.
    Unreachable = "unreachable",
    /// A record could not be read.
    Unreadable = "unreadable",
    /// The agent keeps its sessions in a way that this version cannot read.
    Unsupported = "unsupported",
}

impl PartialOrd for FaultCode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FaultCode {
    fn cmp(&self, other: &Self) -> Ordering {
        self.word().cmp(other.word())
    }
}

impl Serialize for FaultCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for FaultCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        match Self::known(&text) {
            Some(code) => Ok(code),
            None => interned(text).map(Self::Other).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(root: Option<&str>, code: FaultCode) -> Fault {
        Fault { adapter: "one", root: root.map(str::to_owned), code, message: String::new() }
    }

    #[test]
    fn a_fault_hides_what_its_reach_says() {
        use FaultCode::{
            Failed, Panicked, Pending, Signal, Skipped, Timeout, Unreachable, Unreadable,
        };
        let all = |code| fault(None, code);
        let home = |code| fault(Some("/h"), code);
        let cases = [
            (Reach::Item, vec![all(Signal), home(Skipped), home(Unreadable)]),
            (Reach::Home, vec![home(Timeout), home(Unreachable), home(Panicked)]),
            (Reach::OtherHomes, vec![all(Skipped)]),
            (Reach::Adapter, vec![all(Timeout), all(Panicked), all(Failed), all(Pending)]),
        ];
        for (reach, faults) in cases {
            for fault in faults {
                let places = [
                    HomeScope::All,
                    HomeScope::One("/h"),
                    HomeScope::One("/other"),
                    HomeScope::Unnamed,
                ];
                let hidden = places.map(|homes| fault.hides("one", homes));
                let expected = match reach {
                    Reach::Item => [false; 4],
                    Reach::Home => [false, true, false, false],
                    Reach::OtherHomes => [false, false, false, true],
                    Reach::Adapter => [true; 4],
                };
                assert_eq!((fault.reach(), hidden), (reach, expected), "{fault:?}");
                assert!(places.iter().all(|homes| !fault.hides("two", *homes)), "{fault:?}");
            }
        }
    }

    #[test]
    fn a_code_is_its_word_and_an_unknown_word_is_kept() {
        for word in ["timeout", "unreadable", "from-the-future"] {
            let code: FaultCode = serde_json::from_value(word.into()).unwrap();
            assert_eq!((code.word(), serde_json::to_value(code).unwrap()), (word, word.into()));
        }
        assert_eq!(serde_json::from_str::<FaultCode>("\"timeout\"").unwrap(), FaultCode::Timeout);
        assert!(FaultCode::Timeout < FaultCode::Unreachable, "sorted by word");
    }
}
