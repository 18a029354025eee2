//! From the text that was typed to one session, or to the reason why it names no single session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fleet;
use crate::model::{Fault, Target};
use crate::resolve::resolve;

/// The one session that a text names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ResolvedTarget {
    /// The session or process.
    pub target: Target,
    /// The sources that could not be asked on the way.
    pub faults: Vec<Fault>,
}

/// Why a text does not name exactly one session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotOne {
    /// No session matches, and every source was asked.
    Nothing,
    /// Several sessions match.
    Several {
        /// All of them.
        candidates: Vec<Candidate>,
        /// The sources that could not be asked.
        faults: Vec<Fault>,
    },
    /// No session was found, but these sources could not be asked: the session may exist.
    Unknown(Vec<Fault>),
    /// One session matches, but its state could not be read because these sources failed.
    Unreadable(Vec<Fault>),
}

/// A session that a text may mean.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Candidate {
    /// The session or process.
    pub target: Target,
    /// Another home holds a session with the same id, so only the home tells them apart.
    pub in_several_homes: bool,
}

/// A text of a request that does not name exactly one session.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct UnresolvedText {
    /// The text.
    pub text: String,
    /// Why it names no single session.
    pub why: NotOne,
}

impl Fleet {
    /// Finds the one session that a text names, and the sources that could not be asked on the way.
    pub fn target(&self, text: &str) -> Result<ResolvedTarget, NotOne> {
        let resolved = resolve(self, text);
        let (mut targets, faults) = (resolved.targets, resolved.faults);
        match targets.len() {
            1 => Ok(ResolvedTarget { target: targets.remove(0), faults }),
            0 if faults.is_empty() => Err(NotOne::Nothing),
            0 => Err(NotOne::Unknown(faults)),
            _ => Err(NotOne::Several { candidates: candidates(targets), faults }),
        }
    }
}

fn candidates(targets: Vec<Target>) -> Vec<Candidate> {
    let name = |t: &Target| (t.adapter, t.session.as_ref().map(|locator| locator.id.clone()));
    let names: Vec<_> = targets.iter().map(name).collect();
    let many = |name| names.iter().filter(|other| *other == name).count() > 1;
    let pairs = targets.into_iter().zip(&names);
    pairs.map(|(target, name)| Candidate { target, in_several_homes: many(name) }).collect()
}
