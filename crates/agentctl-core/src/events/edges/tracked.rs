//! The state of one session from look to look, and what was reported about it.

use std::time::Instant;

use super::LaunchInfo;
use super::telling::process_text;
use crate::model::{ReasonKind, Session, Status, Time};

/// The state of a session, and what was reported about it.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) session: Session,
    /// The status that the events so far amount to; `None` while there was none.
    pub(super) told: Option<Told>,
    /// The time of the last event.
    pub(super) told_at: Option<Time>,
    /// Since when its status is unknown.
    pub(super) doubt: Option<Instant>,
    /// A prompt that is not reported yet.
    pub(super) held: Option<Held>,
    pub(super) launch: Option<LaunchInfo>,
    /// The process that served it last.
    pub(super) process: String,
    /// Number of edges since its newest entry; it makes their ids differ.
    pub(super) count: u32,
}

impl Tracked {
    pub(super) fn new(session: Session, launch: Option<LaunchInfo>) -> Self {
        let told = Some(Told::of(&session));
        let process = process_text(&session).unwrap_or_default();
        Self { session, told, told_at: None, doubt: None, held: None, launch, process, count: 0 }
    }

    /// Says whether its status, or its prompt, was reported already.
    pub(super) fn is_told(&self) -> bool {
        let now = Told::of(&self.session);
        self.told.as_ref().is_some_and(|told| match (told.status, now.status) {
            (Status::Waiting, Status::Waiting) => told.prompt.is_same(&now.prompt),
            (before, now) => before == now,
        })
    }

    /// Records that its current status was reported, or needs no report.
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

/// The last report.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) status: Status,
    /// The prompt, where the status is `waiting`.
    prompt: Prompt,
}

impl Told {
    fn of(session: &Session) -> Self {
        Self { status: session.status, prompt: Prompt::of(session) }
    }

    /// Returns the report that the event `session.started` amounts to.
    pub(super) fn running() -> Self {
        Self { status: Status::Running, prompt: Prompt::default() }
    }
}

/// A prompt without a detail: the live source says that a human is needed, and the record with the detail
/// may not be written yet.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) since: Instant,
    pub(super) at: Time,
    /// The session when the prompt was first seen.
    pub(super) session: Session,
}

/// The identity of a prompt.
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

    /// Says whether this may be the same prompt. A part that is missing in one of the two looks is no
    /// difference: it may be newer, or gone from the record before the live source changes.
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

    /// Adds the parts that an earlier look found of the same prompt.
    fn add(&mut self, earlier: Self) {
        self.detail = self.detail.take().or(earlier.detail);
        self.call = self.call.take().or(earlier.call);
    }
}
