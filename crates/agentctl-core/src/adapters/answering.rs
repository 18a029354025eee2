//! How a live session is answered and spoken to: the asks that it has open, and the way by which an answer or a
//! message reaches it.
//!
//! An adapter describes and hands over; the rooms `inbox` and `send` decide when, check the caller, and report
//! the result. An agent that cannot be reached has no [`Answering`], and `agentctl adapters` shows that.

use std::path::PathBuf;

use super::asker::AskHook;
use super::{Look, Root};
use crate::kernel::Liveness;
use crate::model::{Ask, ProcId, Reply, Session};

/// The asks and messages that reach an agent, for `agentctl adapters`.
#[derive(Clone, Copy, Debug)]
pub struct AnsweringAbilities {
    /// The asks that can be answered from here, in a few words; `-` for none.
    pub asks: &'static str,
    /// The sessions that take messages while they live, in a few words; `-` for none.
    pub messages: &'static str,
    /// Why `launch --ask` is refused; `None` where it is accepted.
    pub no_ask: Option<&'static str>,
    /// Why `launch --keep` is refused; `None` where it is accepted.
    pub no_keep: Option<&'static str>,
}

/// An answer that has left us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The agent, its server or our asker said that it has taken it.
    Taken,
    /// The answer was taken, but these words for the agent could not travel with it.
    TakenWithoutWords,
    /// A line for the standard input of the agent: see [`Answering::echo`] for its reply.
    Line(StdinLine),
    /// Our asker that holds the ask must take the answer.
    ToAsker {
        /// The process of the asker.
        asker: ProcId,
        /// Its socket.
        socket: PathBuf,
        /// The id of the ask that it holds.
        ask: String,
    },
}

/// The reply of an agent to a line that was written into its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The agent gives no replies.
    None,
    /// No reply yet.
    Awaited,
    /// The agent has taken this line.
    Taken,
    /// The ask was settled by something else; the reason.
    Settled(String),
}

/// Why an answer was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDelivered {
    /// The ask is no longer open.
    Gone,
    /// The agent refused the answer, for this reason.
    Refused(String),
    /// The ask does not offer this decision.
    NotOffered(String),
    /// It is not known whether the answer arrived.
    Unclear(String),
}

impl NotDelivered {
    /// Returns the error of a session whose channel is not there: the ask has ended with its process; where a process
    /// of it lives, the ask is open and the channel cannot be reached, for this reason.
    #[must_use]
    pub fn without_channel(look: &Look, session: &Session, why: &str) -> Self {
        let kernel = &look.host.kernel;
        let lives = |id: &ProcId| kernel.liveness(id) != Liveness::Gone;
        if session.processes.iter().any(|serving| lives(&serving.id)) {
            Self::Refused(why.to_owned())
        } else {
            Self::Gone
        }
    }
}

/// Whether a live session takes a message now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speech {
    /// It takes messages at any time.
    Now,
    /// It takes messages when its turn is over; the reason why not before.
    WhenIdle(&'static str),
    /// It takes none: it works through one prompt and exits.
    OneShot,
    /// It takes none.
    Not {
        /// The reason.
        why: String,
        /// A suggestion that would solve the problem.
        hint: Option<String>,
    },
}

impl Speech {
    /// Returns the answer for a process that works through one prompt and exits.
    #[must_use]
    pub fn one_shot() -> Self {
        Self::OneShot
    }
}

/// A message for a session.
#[derive(Clone, Copy, Debug)]
pub struct SpokenMessage<'a> {
    /// Its id, which makes a repeated delivery harmless.
    pub id: uuid::Uuid,
    /// The text.
    pub text: &'a str,
}

/// A line that is written into the standard input of one process: a session may have others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdinLine {
    /// The process.
    pub process: ProcId,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// How a message was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saying {
    /// The agent or its server has taken it.
    Taken,
    /// A line for the standard input of the agent.
    Line(StdinLine),
}

/// Why a message or an interrupt was not handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSaid {
    /// The agent refused it, for this reason.
    Refused(String),
    /// It is not known whether it arrived.
    Unclear(String),
}

impl NotSaid {
    /// Refuses a message to a session whose process was not launched to stay, or has ended.
    #[must_use]
    pub fn not_kept() -> Self {
        Self::Refused("its process takes no messages any more".into())
    }
}

/// How a live session of one agent is answered and spoken to.
pub trait Answering: Sync {
    /// Returns its abilities.
    fn abilities(&self) -> AnsweringAbilities;

    /// Says whether its asks end after the time that `launch --ask=SPAN` gives; where they do not, that is refused.
    fn limits_asks(&self) -> bool {
        true
    }

    /// Hands an answer to the agent. The ask was open a moment ago and offers the decision.
    fn deliver(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered>;

    /// Looks for the reply of the agent to an answer that was written into its standard input.
    fn echo(&self, _look: &Look, _session: &Session, _ask: &Ask, _line: &[u8]) -> Echo {
        Echo::None
    }

    /// Returns the hook by which the agent asks; `None` where it has none that we can be.
    fn ask_hook(&self) -> Option<&dyn AskHook> {
        None
    }

    /// Says whether a live session takes a message now.
    fn speech(&self, _look: &Look, _root: &Root, _session: &Session) -> Speech {
        Speech::one_shot()
    }

    /// Hands a message to a live session that takes one.
    fn say(
        &self,
        _look: &Look,
        _root: &Root,
        _session: &Session,
        _message: &SpokenMessage<'_>,
    ) -> Result<Saying, NotSaid> {
        Err(NotSaid::Refused("it takes no messages".into()))
    }

    /// Says whether a line of the session's own record shows that the session has this message, beside lines that
    /// are the message itself.
    fn is_receipt(&self, _line: &[u8], _message: &SpokenMessage<'_>) -> bool {
        false
    }

    /// Ends the turn of a live session; its process stays.
    fn end_turn(&self, _look: &Look, _root: &Root, _session: &Session) -> Result<(), NotSaid> {
        Err(NotSaid::Refused("its turn cannot be ended without its process".into()))
    }
}

/// The [`Answering`] of an agent whose live sessions can neither be answered nor spoken to from here.
#[derive(Clone, Copy, Debug)]
pub struct NotAnswering {
    /// Its abilities: why `launch --ask` and `--keep` are refused.
    pub abilities: AnsweringAbilities,
    /// Why its live sessions take neither answers nor messages.
    pub why: &'static str,
}

impl Answering for NotAnswering {
    fn abilities(&self) -> AnsweringAbilities {
        self.abilities
    }

    fn deliver(
        &self,
        _look: &Look,
        _root: &Root,
        _session: &Session,
        _ask: &Ask,
        _reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        Err(NotDelivered::Refused(self.why.to_owned()))
    }

    fn speech(&self, _look: &Look, _root: &Root, _session: &Session) -> Speech {
        Speech::Not { why: self.why.to_owned(), hint: None }
    }
}
