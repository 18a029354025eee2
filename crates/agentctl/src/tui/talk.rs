//! The thread that reads and follows the conversation of the selected session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use agentctl_core::ask::Fleet;

use super::app::{Message, TalkRequest};
use crate::face::{Line, Talk, TalkGrowth, TalkPage, View, local_date};

/// A conversation is watched once it was selected for this long: who moves through the list opens no watches.
const SETTLE: Duration = Duration::from_millis(250);
/// Time between two reads after a change, for file systems without events and for servers. It doubles with each read that
/// finds nothing.
const SAFETY_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time between two reads.
const MAX_SAFETY_INTERVAL: Duration = Duration::from_secs(40);
/// A conversation that is not written yet is looked for this often.
const UNWRITTEN_INTERVAL: Duration = Duration::from_secs(5);

/// An order to the thread.
enum Wake {
    Read(TalkRequest),
    Changed,
}

/// The handle of the thread.
pub(crate) struct Talks {
    orders: Sender<Wake>,
}

impl Talks {
    /// Starts the thread.
    pub(crate) fn spawn(fleet: Fleet, has_styles: bool, messages: Sender<Message>) -> Self {
        let (orders, wakes) = channel();
        let talks = Self { orders: orders.clone() };
        std::thread::spawn(move || {
            let thread = TalkThread { fleet, has_styles, messages, orders };
            thread.run(&wakes);
        });
        talks
    }

    /// Reads another conversation from now on.
    pub(crate) fn read(&self, request: TalkRequest) {
        let _gone = self.orders.send(Wake::Read(request));
    }
}

struct TalkThread {
    fleet: Fleet,
    has_styles: bool,
    messages: Sender<Message>,
    orders: Sender<Wake>,
}

/// The conversation that is followed.
struct Followed {
    request: TalkRequest,
    /// `None` if it cannot be read yet.
    talk: Option<Talk>,
    /// Ends the thread that watches its files.
    watch: Option<WatchEnd>,
}

/// Ends a thread that watches files when it is dropped.
struct WatchEnd(Arc<AtomicBool>);

impl Drop for WatchEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl TalkThread {
    fn run(&self, wakes: &Receiver<Wake>) {
        let mut followed: Option<Followed> = None;
        let mut safety_interval = SAFETY_INTERVAL;
        loop {
            let wait = match &followed {
                None => Duration::MAX,
                Some(followed) if followed.talk.is_none() => UNWRITTEN_INTERVAL,
                Some(followed) if followed.watch.is_none() => SETTLE,
                Some(_) => safety_interval,
            };
            match wakes.recv_timeout(wait) {
                Ok(Wake::Read(request)) => {
                    // Only the newest request matters.
                    let newest = wakes.try_iter().filter_map(|wake| match wake {
                        Wake::Read(request) => Some(request),
                        Wake::Changed => None,
                    });
                    let request = newest.last().unwrap_or(request);
                    drop(followed.take());
                    followed = Some(self.begin(request));
                    safety_interval = SAFETY_INTERVAL;
                }
                Ok(Wake::Changed) => {
                    self.go_on(followed.as_mut());
                    safety_interval = SAFETY_INTERVAL;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(followed) = &mut followed {
                        self.settle(followed);
                    }
                    let has_grown = self.go_on(followed.as_mut());
                    safety_interval = if has_grown {
                        SAFETY_INTERVAL
                    } else {
                        (safety_interval * 2).min(MAX_SAFETY_INTERVAL)
                    };
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn begin(&self, request: TalkRequest) -> Followed {
        let view = View {
            width: Some(request.width),
            is_full: false,
            has_styles: self.has_styles,
            unfold: "agentctl logs --full",
            today: Some(local_date(self.fleet.host.now())),
        };
        let opened = Talk::open(&self.fleet, &request.session.target(), (request.count, view));
        let (talk, lines) = match opened {
            Ok((talk, page)) => {
                let lines = page_lines(&talk, page);
                (Some(talk), Ok(lines))
            }
            Err(error) => (None, Err(error.to_string())),
        };
        self.send(&request, true, lines);
        Followed { request, talk, watch: None }
    }

    /// Watches the files of a conversation that has been selected for a while.
    fn settle(&self, followed: &mut Followed) {
        let Some(talk) = &followed.talk else {
            // It may be written by now.
            let mut again = self.begin(followed.request.clone());
            std::mem::swap(followed, &mut again);
            return;
        };
        if followed.watch.is_some() {
            return;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        if let Ok(watch) = talk.watch() {
            let (orders, is_over) = (self.orders.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    if watch.wait(SAFETY_INTERVAL)
                        && !is_over.load(Ordering::SeqCst)
                        && orders.send(Wake::Changed).is_err()
                    {
                        return;
                    }
                }
            });
        }
        followed.watch = Some(WatchEnd(is_over));
    }

    /// Shows the growth of the conversation, or all of it if it was written anew. Says whether anything was new.
    fn go_on(&self, followed: Option<&mut Followed>) -> bool {
        let Some(Followed { request, talk: Some(talk), .. }) = followed else { return true };
        match talk.grow() {
            Ok(TalkGrowth::Nothing) => return false,
            Ok(TalkGrowth::Lines(lines)) => self.send(request, false, Ok(lines)),
            Ok(TalkGrowth::Anew(page)) => {
                let lines = page_lines(talk, page);
                self.send(request, true, Ok(lines));
            }
            Err(error) => self.send(request, false, Err(error.to_string())),
        }
        true
    }

    fn send(&self, request: &TalkRequest, is_whole: bool, lines: Result<Vec<Line>, String>) {
        let request = request.clone();
        let _unheard = self.messages.send(Message::Talk { request, is_whole, lines });
    }
}

/// Returns the lines of a page, below the line about the messages before it.
fn page_lines(talk: &Talk, page: TalkPage) -> Vec<Line> {
    let earlier = talk.earlier_line(&page, "k scrolls up");
    earlier.into_iter().chain(page.lines).collect()
}
