//! The stream of a page: what changed in the list, and the growth of one conversation.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentctl_core::model::{Target, Time};
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Web;
use super::board::LookData;
use super::documents::{PAGE_MESSAGES, target, view};
use super::keys::Claim;
use super::query::{QueryText, typed_session};
use super::reply::failed;
use crate::face::{Line, Talk, TalkGrowth, TalkPage};
use crate::failure::{Failure, Kind};
use crate::text::json_line;

/// Interval of the event that shows that the connection lives.
const BEAT_INTERVAL: Duration = Duration::from_secs(20);
/// Pause between two questions for a conversation that a server keeps.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// The data of the event `hello`, the first one of a stream.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HelloData<'a> {
    /// Orders are taken.
    control: bool,
    /// The home directory of the user.
    home: &'a str,
}

/// The data of the event `said`: new lines of the conversation that the stream follows.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SaidData<'a> {
    /// The session, as the stream was asked for it.
    id: &'a str,
    /// The lines replace everything that was shown.
    reset: bool,
    /// The lines.
    lines: &'a [Line],
    /// The place that the page before this one ends at.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a str>,
    /// The number of messages before the lines, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<usize>,
}

/// The data of the event `beat`, which shows that the connection lives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BeatData {
    /// The time of the server.
    at: Time,
}

/// One event of the stream: its name, and its data.
#[derive(JsonSchema)]
#[schemars(tag = "event", content = "data", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum StreamEvent<'a> {
    /// The first event.
    Hello(HelloData<'a>),
    /// Changes of the list.
    Look(LookData<'a>),
    /// New lines of a conversation.
    Said(SaidData<'a>),
    /// Every 20 seconds.
    Beat(BeatData),
}

/// Returns an event in the form of `text/event-stream`.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = json_line(data).unwrap_or_else(|_| "null".to_owned());
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// The events of one page, as the body of a response.
struct Events(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

/// Answers `/api/stream`. The claim is the token of the page; a caller on the private socket has none.
pub(super) async fn stream(web: &Arc<Web>, query: QueryText, claim: Option<Claim>) -> Response {
    let wanted = query.get("talk").map(str::to_owned);
    let talk = match wanted {
        None => None,
        Some(id) => {
            let (asked, name) = (Arc::clone(web), id.clone());
            let found =
                tokio::task::spawn_blocking(move || target(&asked, typed_session(&name))).await;
            match found {
                Ok(Ok(target)) => Some(Followed::new(id, target)),
                Ok(Err(failure)) => return failed(&failure),
                Err(_) => return failed(&Failure::new(Kind::Failed, "the question failed")),
            }
        }
    };
    // One event at a time: the next one is made when the page has taken this one, from the newest look.
    let (sender, receiver) = mpsc::channel(1);
    let page = Page { web: Arc::clone(web), claim, talk, seen: None, sender };
    tokio::spawn(page.run());
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store, no-transform"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(Events(receiver))).into_response()
}

/// One open page.
struct Page {
    web: Arc<Web>,
    claim: Option<Claim>,
    talk: Option<Followed>,
    /// The version of the look that it has seen.
    seen: Option<u64>,
    sender: mpsc::Sender<Bytes>,
}

/// The conversation that a page shows.
struct Followed {
    id: String,
    target: Target,
    talk: Option<Talk>,
    has_begun: bool,
    /// It is not asked for again before this time.
    earliest: Instant,
    /// Something may have been written since it was read.
    is_due: bool,
}

impl Followed {
    fn new(id: String, target: Target) -> Self {
        let earliest = Instant::now();
        Self { id, target, talk: None, has_begun: false, earliest, is_due: true }
    }

    /// Reads what was written since the last call; blocks.
    fn read(&mut self, web: &Web) -> Option<Bytes> {
        let growth = match &mut self.talk {
            Some(talk) => talk.grow(),
            None => match Talk::open(&web.fleet, &self.target, (PAGE_MESSAGES, view())) {
                Ok((talk, page)) => {
                    self.talk = Some(talk);
                    Ok(TalkGrowth::Anew(page))
                }
                // It may be written later. The page shows an empty conversation until then.
                Err(_) if self.has_begun => Ok(TalkGrowth::Nothing),
                Err(_) => Ok(TalkGrowth::Anew(TalkPage::default())),
            },
        };
        self.has_begun = true;
        let is_asked_for = self.talk.as_ref().is_some_and(Talk::is_asked_for);
        self.earliest = Instant::now() + if is_asked_for { ASK_PAUSE } else { Duration::ZERO };
        match growth {
            Ok(TalkGrowth::Nothing) => None,
            Ok(TalkGrowth::Lines(lines)) => Some(self.event(&lines, None)),
            Ok(TalkGrowth::Anew(page)) => Some(self.event(&page.lines, Some(&page))),
            Err(_) => {
                // It cannot be read any more; it is opened again.
                self.talk = None;
                None
            }
        }
    }

    fn event(&self, lines: &[Line], anew: Option<&TalkPage>) -> Bytes {
        let data = SaidData {
            id: &self.id,
            reset: anew.is_some(),
            lines,
            before: anew.and_then(|page| page.before.as_deref()),
            earlier: anew.map(|page| page.earlier),
        };
        event("said", &data)
    }
}

impl Page {
    /// Sends events until the page is closed or its token has ended.
    async fn run(mut self) {
        let home = self.web.fleet.host.home.to_string_lossy();
        let hello = HelloData { control: self.web.settings.control, home: &home };
        if self.sender.send(event("hello", &hello)).await.is_err() {
            return;
        }
        let Ok(_open) = self.web.feeder.join() else { return };
        let mut looks = self.web.feeder.board.looks();
        let mut beat = interval(BEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let closed = self.sender.clone();
        loop {
            if self.send_news().await.is_err() {
                return;
            }
            let due = self.talk.as_ref().filter(|talk| talk.is_due).map(|talk| talk.earliest);
            let due_talk = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = closed.closed() => return,
                looked = looks.changed() => {
                    if looked.is_err() {
                        return;
                    }
                    self.talk.iter_mut().for_each(|talk| talk.is_due = true);
                }
                () = due_talk => {}
                _ = beat.tick() => {
                    let still_right = self.claim.is_none_or(|claim| self.web.keys.holds(claim));
                    let at = self.web.fleet.host.now();
                    let beat = event("beat", &BeatData { at });
                    if !still_right || self.sender.send(beat).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Sends what is new. Fails if the page is closed.
    async fn send_news(&mut self) -> Result<(), ()> {
        if let Some((version, look)) = self.web.feeder.board.since(self.seen) {
            self.sender.send(look).await.map_err(|_| ())?;
            self.seen = Some(version);
        }
        let is_due = |talk: &Followed| talk.is_due && talk.earliest <= Instant::now();
        let Some(mut talk) = self.talk.take_if(|talk| is_due(talk)) else { return Ok(()) };
        talk.is_due = false;
        let web = Arc::clone(&self.web);
        let read = tokio::task::spawn_blocking(move || {
            let said = talk.read(&web);
            (talk, said)
        });
        let (talk, said) = read.await.map_err(|_| ())?;
        self.talk = Some(talk);
        match said {
            Some(said) => self.sender.send(said).await.map_err(|_| ()),
            None => Ok(()),
        }
    }
}
