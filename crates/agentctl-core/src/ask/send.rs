//! The orders `send` and `stop --turn`: a message to a live session, and the end of its turn.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch::is_remote;
use super::{Fleet, NotOne, WaitTarget};
use crate::adapters::Root;
use crate::adapters::answering::NotSaid;
use crate::fleet;
use crate::inbox::Answerer;
use crate::model::{Fault, ReasonKind, SCHEMA_VERSION, Session, Status, Target};
use crate::send::{self, Moment, SendError, Sent};
use crate::transcript::Transcript;
use crate::wait::{Quorum, Until, WaitOptions, wait};

/// The order to send a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// The session.
    pub session: String,
    /// The message.
    pub text: String,
    /// Wait until the turn of the session is over.
    #[serde(default)]
    pub when_idle: bool,
    /// The longest wait for the end of the turn; without it the wait has no limit.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
}

/// A step on the way of a message.
pub enum SendStep<'a> {
    /// The end of the turn of this session is awaited.
    AwaitsTurn(&'a Session),
    /// The message was handed over: the conversation at the place before it.
    HandedOver(Box<Transcript>),
}

/// How a message reached its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageWay {
    /// It began a turn.
    TurnBegun,
    /// It was given to the turn that was running.
    Steered,
}

/// The answer to `send --json` for a live session. For a session that has ended, which is resumed, the answer is
/// the session itself, as of `launch --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SendDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The session before the message; with `--wait` at the end of the turn.
    pub session: Session,
    /// The id of the message.
    pub message_id: String,
    /// How it reached the session.
    pub how: MessageWay,
    /// The agent or its server has taken it, or it is in the standard input of the agent.
    pub taken: bool,
    /// The session's own record holds it.
    pub confirmed: bool,
    /// How long the record was watched at most, in milliseconds.
    pub watched_ms: u64,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

impl SendDocument {
    /// Returns the name of the session for a request to wait for it.
    #[must_use]
    pub fn wait_target(&self) -> Option<WaitTarget> {
        WaitTarget::of(&self.session.target())
    }
}

/// Why a message was not sent.
#[derive(Debug)]
pub enum NotSent {
    /// The text names no single session.
    NotOne(NotOne),
    /// The session does not live in a process that takes messages: it is resumed.
    Ended,
    /// Every other reason.
    Failed(SendError),
}

impl NotSent {
    fn of(error: SendError) -> Self {
        match error {
            SendError::Ended => Self::Ended,
            error => Self::Failed(error),
        }
    }

    /// Says whether the message is for a resume: of an ended session, or of one whose state is unknown or that is
    /// not found, where the resume says why it refuses.
    #[must_use]
    pub fn is_for_resume(&self) -> bool {
        matches!(self, Self::Ended | Self::NotOne(_) | Self::Failed(SendError::Unknown(..)))
    }
}

/// The answer to `stop --turn --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct TurnEndDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The session after its turn was ended, as it was last seen.
    pub session: Session,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// Why a turn was not ended.
#[derive(Debug)]
pub enum TurnNotEnded {
    /// The text names no single session.
    NotOne(NotOne),
    /// No turn is running.
    NoTurn(Box<Session>),
    /// It is not known whether a turn is running.
    Unknown(Box<Session>, Vec<Fault>),
    /// The session waits for a human, so the end of its turn would answer its ask, and the caller may not answer.
    FromAgent(Box<Session>, Box<Answerer>),
    /// The agent refused, or cannot end a turn without its process.
    Refused {
        /// The session.
        session: Box<Session>,
        /// The reason.
        why: String,
        /// A suggestion that would solve the problem.
        hint: Option<String>,
    },
    /// It is not known whether the turn was ended.
    Unclear(Box<Session>, String),
}

impl Fleet {
    /// Sends a message to the live session that a text names.
    pub fn send(&self, request: &SendRequest) -> Result<SendDocument, NotSent> {
        self.send_telling(request, &mut |_| {})
    }

    /// Returns the session that a text names if a message would reach it in its process, and fails as [`Fleet::send`]
    /// does. Nothing is sent.
    pub fn live_receiver(&self, text: &str) -> Result<Session, NotSent> {
        let found = self.target(text).map_err(NotSent::NotOne)?;
        if self.adapter(found.target.adapter).is_some_and(is_remote) {
            send::check_not_waiting(self, &found.target).map_err(NotSent::Failed)?;
            return Err(NotSent::Ended);
        }
        send::live_receiver(self, &found.target).map_err(NotSent::of)
    }

    /// Sends a message as [`Fleet::send`] does, and reports its steps.
    pub fn send_telling(
        &self,
        request: &SendRequest,
        tell: &mut dyn FnMut(SendStep<'_>),
    ) -> Result<SendDocument, NotSent> {
        let found = self.target(&request.session).map_err(NotSent::NotOne)?;
        if self.adapter(found.target.adapter).is_some_and(is_remote) {
            send::check_not_waiting(self, &found.target).map_err(NotSent::Failed)?;
            // Its server takes messages at any other time: a resume hands them over.
            return Err(NotSent::Ended);
        }
        let timeout = request.idle_timeout_ms.map(Duration::from_millis);
        let moment = if request.when_idle {
            let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            Moment::Idle { until, tell: &mut |session| tell(SendStep::AwaitsTurn(session)) }
        } else {
            Moment::Now
        };
        let sent = send::send(self, &found.target, &request.text, moment);
        let sent = sent.map_err(NotSent::of)?;
        sent.conversation.into_iter().for_each(|begun| tell(SendStep::HandedOver(Box::new(begun))));
        let mut faults = found.faults;
        faults.extend(sent.faults);
        Ok(SendDocument {
            schema_version: SCHEMA_VERSION,
            session: sent.session,
            message_id: sent.id.to_string(),
            how: match sent.how {
                Sent::TurnBegun => MessageWay::TurnBegun,
                Sent::Steered => MessageWay::Steered,
            },
            taken: sent.is_taken || sent.is_confirmed,
            confirmed: sent.is_confirmed,
            watched_ms: u64::try_from(sent.watched.as_millis()).unwrap_or(u64::MAX),
            faults,
        })
    }

    /// Ends the turn of the live session that a text names; its process stays.
    pub fn end_turn(&self, text: &str) -> Result<TurnEndDocument, TurnNotEnded> {
        let found = self.target(text).map_err(TurnNotEnded::NotOne)?;
        self.end_turn_of(&found.target, found.faults)
    }

    /// Ends the turn of this live session; its process stays. The end of a turn that waits settles its ask: it is
    /// refused where this process may not answer. The faults are those of the way to it.
    pub fn end_turn_of(
        &self,
        target: &Target,
        mut faults: Vec<Fault>,
    ) -> Result<TurnEndDocument, TurnNotEnded> {
        let inspected = self.inspect(target);
        faults.extend(inspected.faults);
        let Some(session) = inspected.session else {
            return Err(TurnNotEnded::NotOne(NotOne::Unreadable(faults)));
        };
        let refused = |session: Session, why: &str, hint: Option<String>| {
            let (session, why) = (Box::new(session), why.to_owned());
            Err(TurnNotEnded::Refused { session, why, hint })
        };
        // The status of a paused session hides that it waits.
        let is_paused = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Paused);
        match session.status {
            Status::Running if !is_paused => {}
            Status::Running | Status::Waiting => {
                let answerer = self.answerer(std::process::id());
                if answerer.may_not_answer(self, &session) {
                    return Err(TurnNotEnded::FromAgent(Box::new(session), Box::new(answerer)));
                }
            }
            Status::Unknown => return Err(TurnNotEnded::Unknown(Box::new(session), faults)),
            _ => return Err(TurnNotEnded::NoTurn(Box::new(session))),
        }
        if let Some((why, hint)) = send::paused(self, &session) {
            return refused(session, why, Some(hint));
        }
        let adapter = self.adapter(session.adapter);
        let Some((adapter, answering)) = adapter.and_then(|a| Some((a, a.answering()?))) else {
            return refused(session, "its turn cannot be ended without its process", None);
        };
        let look = fleet::look(self, self.host.deadlines.live);
        let root = Root::find(&adapter.roots(&look), &session.root);
        match answering.end_turn(&look, &root, &session) {
            Ok(()) => {
                let session = self.rested(target).unwrap_or(session);
                Ok(TurnEndDocument { schema_version: SCHEMA_VERSION, session, faults })
            }
            Err(NotSaid::Refused(why)) => refused(session, &why, None),
            Err(NotSaid::Unclear(why)) => Err(TurnNotEnded::Unclear(Box::new(session), why)),
        }
    }

    /// Returns a session whose turn was ended as soon as it rests, or as it is after a short time.
    fn rested(&self, target: &Target) -> Option<Session> {
        let (until, timeout) = (Until::Status(Status::Idle), Some(self.host.deadlines.live));
        let options = WaitOptions { until, quorum: Quorum::All, timeout };
        let waited = wait(self, std::slice::from_ref(target), options, &mut |_| {}).ok()?;
        waited.sessions.into_iter().next()?.session
    }
}
