//! What is known of one session from look to look, and what was told of it.

use std::time::Instant;

use super::Life;
use super::telling::process_text;
use crate::model::{ReasonKind, Session, Status, Time};

/// How a session stands, and what was told of it.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) session: Session,
    /// The status that a listener knows who heard every event; `None` while nothing was told.
    pub(super) told: Option<Told>,
    /// When that began, where it was told.
    pub(super) told_at: Option<Time>,
    /// Since when it cannot be told what it does.
    pub(super) doubt: Option<Instant>,
    /// A prompt that is not told yet.
    pub(super) held: Option<Held>,
    pub(super) life: Option<Life>,
    /// The process that served it when it was last seen to be served.
    pub(super) process: String,
    /// So many edges since its newest entry: they are told apart by that.
    pub(super) count: u32,
}

impl Standing {
    pub(super) fn new(session: Session, life: Option<Life>) -> Self {
        let told = Some(Told::of(&session));
        let process = process_text(&session).unwrap_or_default();
        Self { session, told, told_at: None, doubt: None, held: None, life, process, count: 0 }
    }

    /// Says whether this status, or this prompt, was told already.
    pub(super) fn is_told(&self) -> bool {
        let now = Told::of(&self.session);
        self.told.as_ref().is_some_and(|told| match (told.status, now.status) {
            (Status::Waiting, Status::Waiting) => told.prompt.is_same(&now.prompt),
            (before, now) => before == now,
        })
    }

    /// Notes that the status as it is now was told, or needs no telling.
    pub(super) fn note_told(&mut self) {
        let mut now = Told::of(&self.session);
        if let Some(told) = self.told.take().filter(|told| told.status == Status::Waiting)
            && now.status == Status::Waiting
            && told.prompt.is_same(&now.prompt)
        {
            now.prompt.add(told.prompt);
        }
        self.told = Some(now);
    }
}

/// What was told last.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) status: Status,
    /// What it asked, where the status is `waiting`.
    prompt: Prompt,
}

impl Told {
    fn of(session: &Session) -> Self {
        Self { status: session.status, prompt: Prompt::of(session) }
    }

    /// What a listener knows who heard that a session has started.
    pub(super) fn running() -> Self {
        Self { status: Status::Running, prompt: Prompt::default() }
    }
}

/// A prompt without a detail: the live source says that a human is needed, and the record that says
/// for what may be written in this moment.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) since: Instant,
    pub(super) at: Time,
    /// The session as it was then.
    pub(super) session: Session,
}

/// What tells one prompt from the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Prompt {
    kind: Option<ReasonKind>,
    detail: Option<String>,
    /// The call that is open, where the record names it.
    call: Option<String>,
}

impl Prompt {
    fn of(session: &Session) -> Self {
        let reason = session.reason.as_ref();
        Self {
            kind: reason.map(|reason| reason.kind),
            detail: reason.and_then(|reason| reason.detail.clone()),
            call: session.open_call.clone(),
        }
    }

    /// Says whether this may be the same prompt. A part that one of the two looks did not know is no
    /// difference: it may have come since, or be gone from the record before the live source says so.
    fn is_same(&self, now: &Self) -> bool {
        let same_words = match (&self.detail, &now.detail) {
            (Some(before), Some(now)) => before == now,
            _ => true,
        };
        let same_call = match (&self.call, &now.call) {
            (Some(before), Some(now)) => before == now,
            _ => same_words,
        };
        self.kind == now.kind && same_call
    }

    /// Adds what an earlier look knew of the same prompt.
    fn add(&mut self, earlier: Self) {
        self.detail = self.detail.take().or(earlier.detail);
        self.call = self.call.take().or(earlier.call);
    }
}
