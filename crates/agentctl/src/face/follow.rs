//! Following a conversation until its turn is over: new messages as they are written, then the result of
//! the wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use agentctl_core::ask::{Fleet, NotWaited, WaitDocument, WaitRequest};
use agentctl_core::model::{Message, Target};
use agentctl_core::native::watch::Watch;
use agentctl_core::transcript::{Transcript, TranscriptError};

use super::not_waited;
use crate::failure::{Failure, Kind};

/// Longest interval between two checks whether the turn is over; new messages wake the loop at once.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The next item of a followed conversation.
#[derive(Debug)]
pub enum FollowItem {
    /// New messages.
    Messages(Vec<Message>),
    /// The turn is over, or the timeout passed. No item follows.
    Over(Box<WaitDocument>),
}

/// Why a conversation can no longer be followed.
#[derive(Debug)]
pub enum FollowError {
    /// The conversation cannot be read.
    Unread(TranscriptError),
    /// The end of the turn cannot be waited for.
    NotWaited(NotWaited),
    /// The thread that waits for the end of the turn has died.
    WaiterDied,
}

/// A conversation that is followed until its turn is over.
pub struct Follow {
    fleet: Fleet,
    target: Target,
    transcript: Option<Transcript>,
    watch: Option<Watch>,
    ended: Receiver<Result<WaitDocument, NotWaited>>,
    over: Option<WaitDocument>,
}

impl Follow {
    /// Follows the conversation of the first session of this request until the wait is over. An open
    /// transcript continues at its position; otherwise the conversation is returned from its beginning.
    pub fn begin(
        fleet: &Fleet,
        request: &WaitRequest,
        transcript: Option<Transcript>,
    ) -> Result<Self, NotWaited> {
        let first = request.targets.first().ok_or(NotWaited::NoTarget)?;
        let found = fleet.wait_target(first, &mut |_| {})?;
        let request = request.clone();
        let (sender, ended) = channel();
        let waiter = fleet.clone();
        std::thread::spawn(move || {
            let waited = waiter.wait(&request, &mut |_| {});
            // The receiver may have gone.
            let _unheard = sender.send(waited);
        });
        let fleet = fleet.clone();
        Ok(Self { fleet, target: found, transcript, watch: None, ended, over: None })
    }

    /// Blocks until there are new messages, or the turn is over and all its messages have been returned.
    pub fn next_item(&mut self) -> Result<FollowItem, FollowError> {
        loop {
            if let Some(document) = self.over.take() {
                return Ok(FollowItem::Over(Box::new(document)));
            }
            // The end is checked before the messages, so that no message is missed. Without a file watch
            // this check also waits.
            let patience = if self.watch.is_some() { Duration::ZERO } else { END_CHECK_INTERVAL };
            match self.ended.recv_timeout(patience) {
                Ok(waited) => self.over = Some(waited.map_err(FollowError::NotWaited)?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(FollowError::WaiterDied),
            }
            let messages = self.messages().map_err(FollowError::Unread)?;
            if !messages.is_empty() {
                return Ok(FollowItem::Messages(messages));
            }
            if let (None, Some(watch)) = (&self.over, &self.watch) {
                let _hint = watch.wait(END_CHECK_INTERVAL);
            }
        }
    }

    /// Reads the messages since the last call. The conversation is opened as soon as it exists.
    fn messages(&mut self) -> Result<Vec<Message>, TranscriptError> {
        if self.transcript.is_none() {
            self.transcript = self.fleet.transcript(&self.target).ok();
        }
        let Some(transcript) = &mut self.transcript else { return Ok(Vec::new()) };
        self.watch = self.watch.take().or_else(|| transcript.watch().ok());
        transcript.more()
    }
}

/// Says why a conversation can no longer be followed.
#[must_use]
pub fn not_followed(fleet: &Fleet, error: FollowError) -> Failure {
    match error {
        FollowError::Unread(error) => unread_conversation(&error),
        FollowError::NotWaited(why) => not_waited(fleet, why),
        FollowError::WaiterDied => Failure::new(Kind::Failed, "waiting failed"),
    }
}

/// Says why a conversation cannot be read.
#[must_use]
pub fn unread_conversation(error: &TranscriptError) -> Failure {
    let kind = match error {
        TranscriptError::Hidden(_) => Kind::Unanswered,
        _ => Kind::Failed,
    };
    let failure = Failure::new(kind, error.to_string());
    match error {
        TranscriptError::Unwritten => failure.hint("most agents begin one with the first prompt"),
        _ => failure,
    }
}
