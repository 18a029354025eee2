//! The end of an ask, in words.

use agentctl_core::model::{Reply, Status};

/// The end of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// By an answer of ours, and the word for it.
    Ours(&'static str),
    /// Elsewhere; the status of its session as the newest list has it, if it is live.
    Elsewhere(Option<Status>),
    /// Elsewhere, before an answer of ours came.
    NotTaken,
    /// By an answer of ours, or elsewhere.
    Unclear,
}

impl Settlement {
    /// Returns the sentence for the user.
    #[must_use]
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::Ours(word) => word.to_owned(),
            Self::Elsewhere(Some(status)) => format!("settled: the session is {}", status.word()),
            Self::Elsewhere(None) => "settled: the session is not live any more".to_owned(),
            Self::Unclear => "settled: it is not known whether by this answer".to_owned(),
            Self::NotTaken => "settled otherwise: this answer was not taken".to_owned(),
        }
    }
}

/// The end of the delivery of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The agent took it.
    Taken,
    /// It was refused.
    Refused,
    /// Whether the agent took it is not known.
    Unclear,
}

/// Returns the word for an answer that was taken.
pub(super) fn taken_word(reply: &Reply) -> &'static str {
    match reply {
        Reply::Allow => "allowed",
        Reply::Always(_) => "always allowed",
        Reply::Deny { .. } => "denied",
        Reply::Stop => "turn ended",
        Reply::Fields(_) => "answered",
    }
}
