//! Messages to live sessions: a message is handed to the agent by its own channel, and counts as sent once the
//! session's own record holds it.
//!
//! A session that waits for a human takes no message, because a message is never an answer. A message is handed
//! over once: if it does not show in the record in time, that is reported, and nothing is repeated.

use std::time::{Duration, Instant};

use crate::adapters::answering::{Answering, NotSaid, Saying, Speech, SpokenMessage, StdinLine};
use crate::adapters::{Adapter, Look, Root};
use crate::fleet::{self, Fleet, Query};
use crate::kernel::Liveness;
use crate::model::{
    Ask, Fault, Join, Message, Role, ServingProcess, Session, Status, Target, digest,
};
use crate::orders;
use crate::state_files::{EnterError, NamedLock};
use crate::text::shell_word;
use crate::transcript::Transcript;
use crate::wait::{self, End, Quorum, Until, WaitOptions};

/// Time for another writer to finish with the standard input of the agent.
const PIPE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the record to hold a message that was given to a running turn: some agents record it only when the
/// tool that runs has ended.
const STEERED_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for another message with the same words to show in the record.
const SAME_WORDS_TIMEOUT: Duration = Duration::from_secs(12);
/// Longest time between two looks at the record.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How a message reached the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It began a turn.
    TurnBegun,
    /// The turn that was running takes it in.
    Steered,
}

/// A message that was sent.
pub struct SentMessage {
    /// The session before the message.
    pub session: Session,
    /// The id of the message.
    pub id: uuid::Uuid,
    /// How it reached the session.
    pub how: Sent,
    /// The agent or its server has taken it, or it is in the standard input of the agent.
    pub is_taken: bool,
    /// The session's own record holds it.
    pub is_confirmed: bool,
    /// How long the record was watched.
    pub watched: Duration,
    /// The conversation, at the place before the message; `None` if the session had none.
    pub conversation: Option<Transcript>,
    /// The sources that failed.
    pub faults: Vec<Fault>,
}

/// Why a message was not sent.
#[derive(Debug)]
pub enum SendError {
    /// No process serves the session: it can be resumed.
    Ended,
    /// The session ended while its turn was awaited. A message would undo the order that ended it.
    EndedMeanwhile(Box<Session>),
    /// The turn of the session was not over in time.
    TimedOut(Box<Session>),
    /// The session waits for a human.
    Waiting(Box<Session>, Vec<Ask>),
    /// The session takes no message now.
    Busy(Box<Session>, &'static str),
    /// The session takes no messages.
    Refused {
        /// The session.
        session: Box<Session>,
        /// The reason.
        why: String,
        /// A suggestion that would solve the problem.
        hint: Option<String>,
    },
    /// The state of the session is unknown.
    Unknown(Option<Box<Session>>, Vec<Fault>),
    /// The kernel refused to wait.
    Io(std::io::Error),
}

/// When a message may be handed over.
pub enum Moment<'a> {
    /// Now: a turn that runs takes it in, if its agent can do that.
    Now,
    /// While no turn runs: the end of each turn before it is awaited.
    Idle {
        /// The end of the wait; `None` waits without a limit.
        until: Option<Instant>,
        /// Receives the session whose turn is awaited, once.
        tell: &'a mut dyn FnMut(&Session),
    },
}

/// Sends a message to a live session.
pub fn send(
    fleet: &Fleet,
    target: &Target,
    text: &str,
    mut moment: Moment<'_>,
) -> Result<SentMessage, SendError> {
    let mut awaited: Option<Session> = None;
    let mut same_words: Option<SameWords> = None;
    loop {
        let (session, faults) = match (live_session(fleet, target), awaited.as_ref()) {
            (Err(SendError::Ended), Some(before)) => {
                return Err(SendError::EndedMeanwhile(Box::new(before.clone())));
            }
            (found, _) => found?,
        };
        let adapter = fleet.adapter(session.adapter);
        let answering = adapter.and_then(|adapter| adapter.answering());
        let Some((adapter, answering)) = adapter.zip(answering) else {
            return Err(refused(&session, "its agent takes no messages while it lives", None));
        };
        if let Some((why, hint)) = paused(fleet, &session) {
            return Err(refused(&session, why, Some(hint)));
        }
        let look = fleet::look(fleet, fleet.host.deadlines.live);
        let root = Root::find(&adapter.roots(&look), &session.root);
        let is_idle = session.status == Status::Idle;
        match answering.speech(&look, &root, &session) {
            Speech::Not { why, hint } => return Err(refused(&session, &why, hint)),
            Speech::OneShot => {
                let why = "it takes no messages: it works through one prompt and ends";
                return Err(refused(&session, why, Some(one_shot_hint(&session))));
            }
            Speech::WhenIdle(why) if !is_idle && matches!(moment, Moment::Now) => {
                return Err(SendError::Busy(Box::new(session), why));
            }
            Speech::Now | Speech::WhenIdle(_) => {}
        }
        if let Moment::Idle { until, tell } = &mut moment
            && !is_idle
        {
            if awaited.is_none() {
                tell(&session);
            }
            // Another turn may begin before the message is handed over: its end is awaited too.
            await_idle(fleet, &session, *until)?;
            awaited = Some(session);
            continue;
        }
        let now = Instant::now();
        let found = same_words.take().or_else(|| SameWords::wait(fleet, &session, text, now));
        let Some(found) = found else {
            let limit = now + SAME_WORDS_TIMEOUT;
            let until = match &moment {
                Moment::Idle { until: Some(until), .. } => limit.min(*until),
                Moment::Idle { until: None, .. } | Moment::Now => limit,
            };
            let waited = SameWords::wait(fleet, &session, text, until);
            same_words = Some(waited.unwrap_or(SameWords::OnTheWay));
            // The session may ask or work by now.
            continue;
        };
        let (look, root) = (&look, &root);
        let handing = Handing { fleet, adapter, answering, look, root, target, session };
        return handing.hand_over(text, &found, faults);
    }
}

/// Whether other messages with the same words are on their way to a session: one line of the record would confirm all of
/// them.
enum SameWords {
    /// No other message has these words while the lock is held.
    None(#[expect(dead_code, reason = "held until the message is in the record")] NamedLock),
    /// Another message with these words was on its way until the timeout.
    OnTheWay,
    /// Our own folder cannot be written. The words count: messages with the same words are rare.
    Unknown,
}

impl SameWords {
    /// Waits until no other message has these words; `None` if one has them until the deadline.
    fn wait(fleet: &Fleet, session: &Session, text: &str, until: Instant) -> Option<Self> {
        let id = session.id.as_deref().unwrap_or_default();
        let name = digest(&[session.adapter, &session.root, id, text.trim()]);
        let folder = fleet.host.runtime().join("messages");
        match NamedLock::take(&folder, &name, until) {
            Ok(lock) => Some(Self::None(lock)),
            Err(EnterError::Busy) => None,
            Err(EnterError::Io(_)) => Some(Self::Unknown),
        }
    }
}

/// Returns why a session takes no order, and a hint, if a signal has stopped a process that serves it: what is
/// written to that process now would be carried out later.
pub(crate) fn paused(fleet: &Fleet, session: &Session) -> Option<(&'static str, String)> {
    let is_paused = |serving: &&ServingProcess| {
        fleet.host.kernel.liveness(&serving.id) == Liveness::Alive { paused: true }
    };
    let serving = session.processes.iter().find(is_paused)?;
    let hint = format!("`kill -CONT {}` lets it go on", serving.id.pid);
    Some(("its process is stopped by a signal and reads nothing", hint))
}

struct Handing<'a> {
    fleet: &'a Fleet,
    adapter: &'a dyn Adapter,
    answering: &'a dyn Answering,
    look: &'a Look,
    root: &'a Root,
    target: &'a Target,
    session: Session,
}

impl Handing<'_> {
    /// Hands the message over once, and waits until the record holds it. Its words are a proof only while no other
    /// message has them.
    fn hand_over(
        self,
        text: &str,
        same_words: &SameWords,
        faults: Vec<Fault>,
    ) -> Result<SentMessage, SendError> {
        // Only lines after the end can be the message.
        let (mut transcript, conversation) =
            (self.conversation_at_end(), self.conversation_at_end());
        let message = SpokenMessage { id: uuid::Uuid::new_v4(), text };
        let said = self.answering.say(self.look, self.root, &self.session, &message);
        let is_taken = match said {
            Ok(Saying::Taken) => true,
            Ok(Saying::Line(line)) => {
                self.write(&line)?;
                true
            }
            // An unclear delivery may still show in the record.
            Err(NotSaid::Unclear(_)) => false,
            Err(NotSaid::Refused(why)) => return Err(refused(&self.session, &why, None)),
        };
        let live = self.fleet.host.deadlines.live;
        let (how, limit) = match self.session.status {
            Status::Idle => (Sent::TurnBegun, live),
            _ => (Sent::Steered, live.max(STEERED_TIMEOUT)),
        };
        let until = Instant::now() + limit;
        let words_count = !matches!(same_words, SameWords::OnTheWay);
        let is_confirmed = self.is_recorded(&mut transcript, &message, words_count, until);
        let (session, id) = (self.session, message.id);
        Ok(SentMessage {
            session,
            id,
            how,
            is_taken,
            is_confirmed,
            watched: limit,
            conversation,
            faults,
        })
    }

    /// Opens the conversation of the session at its end.
    fn conversation_at_end(&self) -> Option<Transcript> {
        let mut transcript = Transcript::open(self.fleet, self.target).ok()?;
        let _seen = transcript.last_raw(1);
        Some(transcript)
    }

    /// Writes a line into the standard input of the agent.
    fn write(&self, line: &StdinLine) -> Result<(), SendError> {
        let kernel = &self.fleet.host.kernel;
        let written = kernel.write_to_stdin(&line.process, &line.bytes, PIPE_TIMEOUT);
        written.map_err(|error| refused(&self.session, &error.to_string(), None))
    }

    /// Says whether a line of the record holds the message.
    fn holds(&self, line: &[u8], message: &SpokenMessage<'_>, words_count: bool) -> bool {
        self.answering.is_receipt(line, message)
            || self.adapter.messages(line).iter().any(|line| is_it(line, message, words_count))
    }

    /// Waits until the record of the session holds the message.
    fn is_recorded(
        &self,
        transcript: &mut Option<Transcript>,
        message: &SpokenMessage<'_>,
        words_count: bool,
        until: Instant,
    ) -> bool {
        loop {
            // The first message of a session creates its record.
            if transcript.is_none() {
                *transcript = Transcript::open(self.fleet, self.target).ok();
            }
            let more = transcript.as_mut().and_then(|transcript| transcript.more_raw().ok());
            if more
                .is_some_and(|more| more.iter().any(|line| self.holds(line, message, words_count)))
            {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // A change of the file is noticed at the next look.
            std::thread::park_timeout(left.min(LOOK_INTERVAL));
        }
    }
}

/// Says whether a line of the record is the message. Not every agent records our id, so the same words count too.
fn is_it(line: &Message, message: &SpokenMessage<'_>, words_count: bool) -> bool {
    let id = message.id.to_string();
    let is_same_text = || {
        words_count && line.text.as_deref().is_some_and(|text| text.trim() == message.text.trim())
    };
    line.role == Role::User && (line.id.as_deref() == Some(id.as_str()) || is_same_text())
}

/// Checks that a session does not wait for a human. Every other state is no obstacle here.
pub fn check_not_waiting(fleet: &Fleet, target: &Target) -> Result<(), SendError> {
    match live_session(fleet, target) {
        Err(waiting @ SendError::Waiting(..)) => Err(waiting),
        _ => Ok(()),
    }
}

/// Returns the session if a process serves it to which a message would be handed. Nothing is sent.
pub fn live_receiver(fleet: &Fleet, target: &Target) -> Result<Session, SendError> {
    live_session(fleet, target).map(|(session, _)| session)
}

/// Returns the session if a process serves it and it takes words.
fn live_session(fleet: &Fleet, target: &Target) -> Result<(Session, Vec<Fault>), SendError> {
    let found = fleet::inspect(fleet, target);
    let Some(session) = found.session else {
        return Err(SendError::Unknown(None, found.faults));
    };
    match session.status {
        Status::Stopped | Status::Error => Err(SendError::Ended),
        Status::Unknown => Err(SendError::Unknown(Some(Box::new(session)), found.faults)),
        Status::Waiting => {
            let query = Query { adapter: Some(session.adapter.to_owned()), ..Query::default() };
            let rows = fleet::asks(fleet, &query).rows;
            let asks = rows.into_iter().filter(|row| row.session.target() == session.target());
            let asks = asks.flat_map(|row| row.asks).collect();
            Err(SendError::Waiting(Box::new(session), asks))
        }
        Status::Running | Status::Idle => {
            // Only its directory and start time link it to a process, or only a process named its home: a resume
            // decides about that.
            let is_inferred = session.processes.iter().any(|serving| serving.join != Join::Proved);
            if is_inferred || orders::known_home(fleet, target).is_err() {
                return Err(SendError::Ended);
            }
            Ok((session, found.faults))
        }
    }
}

fn one_shot_hint(session: &Session) -> String {
    let id = session.id.as_deref().map_or_else(|| "ID".to_owned(), shell_word);
    format!(
        "`agentctl wait {id}` until it has ended, then `agentctl send {id} \"MESSAGE\"`; `launch --keep` starts one that stays"
    )
}

fn refused(session: &Session, why: &str, hint: Option<String>) -> SendError {
    SendError::Refused { session: Box::new(session.clone()), why: why.to_owned(), hint }
}

/// Waits until the turn of a session is over.
fn await_idle(fleet: &Fleet, session: &Session, until: Option<Instant>) -> Result<(), SendError> {
    let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
    let options = WaitOptions { until: Until::TurnOver, quorum: Quorum::All, timeout };
    let targets = [session.target()];
    let waited = wait::wait(fleet, &targets, options, &mut |_| {}).map_err(SendError::Io)?;
    match waited.end {
        End::TimedOut => Err(SendError::TimedOut(Box::new(session.clone()))),
        _ => Ok(()),
    }
}
