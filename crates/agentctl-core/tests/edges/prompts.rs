//! One prompt is one `session.waiting`, and the times of a stream never run backwards (W19).

use std::time::{Duration, Instant};

use agentctl_core::events::Event;
use agentctl_core::events::edges::{DOUBT_TIMEOUT, Edges, Key, LookupResult};
use agentctl_core::model::{Outcome, Reason, ReasonKind, ServingProcess, Session, Status};

use super::{kinds, look, process, session, time};

/// A session that is served by one process all the time.
fn served(status: Status) -> Session {
    let mut row = session("one", Some("a"), status);
    (row.pid, row.processes) = (Some(7), vec![ServingProcess::proved(process(7, 70))]);
    row
}

fn asking(kind: ReasonKind, detail: Option<&str>) -> Session {
    let mut row = served(Status::Waiting);
    row.reason = Some(Reason { kind, detail: detail.map(str::to_owned), until: None });
    row
}

fn permission(detail: Option<&str>) -> Session {
    asking(ReasonKind::Permission, detail)
}

/// Looks at one session, each time a given number of milliseconds after the first look.
struct Stream {
    edges: Edges,
    start: Instant,
}

impl Stream {
    fn new() -> Self {
        let mut stream = Self { edges: Edges::default(), start: Instant::now() };
        assert_eq!(stream.step(0, vec![served(Status::Running)]), []);
        stream
    }

    fn step(&mut self, ms: u64, rows: Vec<Session>) -> Vec<Event> {
        let mut look = look(i64::try_from(ms / 1000).expect("small"), self.start, rows);
        look.moment = self.start + Duration::from_millis(ms);
        look.at = agentctl_core::model::Time::from_millis(
            time(0).millis() + i64::try_from(ms).expect("small"),
        )
        .expect("a time");
        for key in self.edges.missing(&look.sessions) {
            let mut over = served(Status::Stopped);
            (over.pid, over.processes, over.outcome) = (None, vec![], Some(Outcome::Finished));
            look.named.insert(key, LookupResult::Seen(Box::new(over)));
        }
        self.edges.step(look)
    }

    fn told(&mut self, ms: u64, row: Session) -> Vec<&'static str> {
        kinds(&self.step(ms, vec![row]))
    }
}

fn detail(event: &Event) -> Option<&str> {
    event.session.as_ref()?.reason.as_ref()?.detail.as_deref()
}

/// W19: the live record shows `waiting` before the transcript shows why.
#[test]
fn a_prompt_is_reported_once_with_a_detail_that_comes_later() {
    let mut stream = Stream::new();
    assert_eq!(stream.told(1000, permission(None)), [""; 0], "the detail may be on its way");
    assert!(stream.edges.held_since().is_some(), "the next look must come in time");
    let told = stream.step(1100, vec![permission(Some("Bash: npm test"))]);
    assert_eq!(kinds(&told), ["session.waiting"]);
    assert_eq!(detail(&told[0]), Some("Bash: npm test"));
    assert_eq!(stream.edges.held_since(), None);
    assert_eq!(stream.told(1200, permission(None)), [""; 0], "it asks the same");
    assert_eq!(stream.told(2000, permission(Some("Bash: npm test"))), [""; 0]);
    assert_eq!(stream.told(2100, permission(Some("Edit: a.rs"))), ["session.waiting"]);
}

#[test]
fn a_prompt_without_a_detail_is_reported_once_after_a_delay() {
    let mut stream = Stream::new();
    assert_eq!(stream.told(1000, permission(None)), [""; 0]);
    let told = stream.step(1250, vec![permission(None)]);
    assert_eq!((kinds(&told), detail(&told[0])), (vec!["session.waiting"], None));
    assert_eq!(told[0].at.millis(), time(1).millis(), "when it was seen to ask");
    // Its detail is known at last: it is the same prompt.
    assert_eq!(stream.told(3000, permission(Some("Bash: ls"))), [""; 0]);
    assert_eq!(stream.told(3100, permission(Some("Bash: rm"))), ["session.waiting"]);
    assert_eq!(DOUBT_TIMEOUT, Duration::from_millis(250));
}

#[test]
fn a_prompt_answered_before_its_detail_is_known_is_reported() {
    for (row, after) in [
        (Some(served(Status::Running)), "session.running"),
        (Some(served(Status::Idle)), "session.idle"),
        (Some(asking(ReasonKind::Plan, Some("the plan"))), "session.waiting"),
        (None, "session.stopped"),
    ] {
        let mut stream = Stream::new();
        assert_eq!(stream.told(1000, permission(None)), [""; 0]);
        let told = stream.step(1100, row.into_iter().collect());
        if after == "session.waiting" {
            // The prompt's own call is its detail.
            assert_eq!((kinds(&told), detail(&told[0])), (vec![after], Some("the plan")));
        } else {
            assert_eq!(kinds(&told), ["session.waiting", after]);
        }
    }
}

#[test]
fn the_same_prompt_is_reported_again_after_work_in_between() {
    let mut stream = Stream::new();
    assert_eq!(stream.told(1000, permission(Some("Bash: ls"))), ["session.waiting"]);
    assert_eq!(stream.told(1100, served(Status::Running)), ["session.running"]);
    assert_eq!(stream.told(1200, permission(Some("Bash: ls"))), ["session.waiting"]);
    assert_eq!(
        stream.told(1300, asking(ReasonKind::Dialog, Some("Bash: ls"))),
        ["session.waiting"]
    );
}

/// Two prompts with the same text and no look in between: the id of the call distinguishes them.
#[test]
fn another_call_with_the_same_text_is_another_prompt() {
    let mut stream = Stream::new();
    let call = |id: &str, detail| {
        let mut row = permission(detail);
        row.open_call = Some(id.to_owned());
        row
    };
    assert_eq!(stream.told(1000, call("t1", Some("Bash: ls"))), ["session.waiting"]);
    assert_eq!(stream.told(1100, call("t1", Some("Bash: ls -l"))), [""; 0], "the same call");
    assert_eq!(stream.told(1200, permission(Some("Bash: ls -l"))), [""; 0]);
    assert_eq!(stream.told(1300, call("t2", Some("Bash: ls -l"))), ["session.waiting"]);
    // The result of the call is written before the next one is.
    assert_eq!(stream.told(1400, permission(None)), [""; 0]);
    assert_eq!(stream.told(1500, call("t3", Some("Bash: ls -l"))), ["session.waiting"]);
}

/// W19: an entry of the transcript may be older than the last reported event.
#[test]
fn times_never_run_backwards() {
    let mut stream = Stream::new();
    let second = |s| Some(time(s));
    let mut last = None;
    let mut other = session("two", Some("b"), Status::Running);
    other.processes = vec![ServingProcess::proved(process(8, 80))];
    let rows = [
        (2000, served(Status::Idle), second(1)),
        (3000, served(Status::Running), second(1)),
        // Written before it was seen to run.
        (4000, permission(Some("Bash: ls")), second(2)),
        // A clock that is ahead is not believed.
        (5000, served(Status::Idle), second(3600)),
        (6000, served(Status::Running), second(3)),
        (7000, served(Status::Idle), second(4)),
    ];
    let mut count = 0;
    for (ms, mut row, written) in rows {
        row.last_activity_at = written;
        let mut other = other.clone();
        other.status = if ms % 2000 == 0 { Status::Idle } else { Status::Running };
        for event in stream.step(ms, vec![row, other]) {
            assert!(Some(event.at) >= last, "{event:?} after {last:?}");
            assert!(event.at.millis() <= time(0).millis() + i64::try_from(ms).expect("small"));
            (last, count) = (Some(event.at), count + 1);
        }
    }
    assert!(count >= 12, "{count}");
    // The clock is set back.
    let told = stream.step(1500, vec![served(Status::Running)]);
    assert!(!told.is_empty() && told.iter().all(|event| Some(event.at) >= last), "{told:?}");
}

/// A terminal leaves a session and comes back to it: no file distinguishes the two lives.
#[test]
fn no_event_id_is_reported_twice() {
    let mut stream = Stream::new();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..5 {
        let ms = 1000 * round;
        for (ms, rows) in [
            (ms, vec![served(Status::Idle)]),
            (ms + 300, vec![]),
            (ms + 600, vec![served(Status::Idle)]),
        ] {
            for event in stream.step(ms, rows) {
                assert!(ids.insert(event.id.clone()), "{event:?}");
            }
        }
    }
    assert_eq!(Key::of(&served(Status::Idle)).expect("a key").id(), Some("a"));
}

#[test]
fn an_entry_that_was_written_while_the_look_read_is_dated_by_itself() {
    let start = Instant::now();
    let mut edges = Edges::default();
    let row = |status, entry| {
        let mut row = session("one", Some("s"), status);
        row.last_activity_at = Some(time(entry));
        row
    };
    edges.step(look(100, start, vec![row(Status::Running, 90)]));
    // The look began at 200 and had read everything at 210; the entry was written at 205.
    let mut second = look(200, start, vec![row(Status::Idle, 205)]);
    second.until = time(210);
    let told = edges.step(second);
    assert_eq!(told.iter().map(|event| event.at).collect::<Vec<_>>(), [time(205)]);
}

/// A prompt is left with Esc, and nothing is written: the entry that dated the prompt does not date the
/// idle state.
#[test]
fn a_rest_without_a_new_entry_is_dated_by_the_look_and_not_by_the_prompt() {
    let mut stream = Stream::new();
    let entry = agentctl_core::model::Time::from_millis(time(0).millis() + 900);
    let mut asks = permission(Some("Bash: ls"));
    asks.last_activity_at = entry;
    let told = stream.step(1000, vec![asks]);
    assert_eq!((kinds(&told), Some(told[0].at)), (vec!["session.waiting"], entry));
    let mut rests = served(Status::Idle);
    rests.last_activity_at = entry;
    let told = stream.step(3000, vec![rests]);
    assert_eq!(kinds(&told), ["session.idle"]);
    assert_eq!(told[0].at.millis(), time(3).millis(), "when it was seen to rest");
}
