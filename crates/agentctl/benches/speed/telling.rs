//! The time from a change to its line in `agentctl events`, among 10,000 old sessions.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Timespec, inotify};
use serde_json::Value;

use crate::measure::{Beside, ours};
use crate::waiting::asleep;

/// An event that has not come by then was missed. It is less than the minute after which everything is looked at anew.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A stream of events with a reader.
pub(crate) struct Stream {
    running: Beside,
    lines: BufReader<ChildStdout>,
}

impl Stream {
    /// Begins to listen in this home.
    pub(crate) fn start(home: &Path) -> Self {
        Self::of(home, "started,running,waiting,idle,stopped")
    }

    /// Begins to listen to these types in this home.
    pub(crate) fn of(home: &Path, types: &str) -> Self {
        let mut command = ours(home, &["events", "--type", types]);
        command.env("AGENTCTL_NO_DAEMON", "1").stdout(Stdio::piped());
        let mut running = Beside::start(&mut command);
        asleep(running.child.id());
        let lines = BufReader::new(running.child.stdout.take().expect("piped"));
        Self { running, lines }
    }

    /// Reads until this event of that session, and returns it.
    pub(crate) fn until(&mut self, id: &str, kind: &str) -> Value {
        loop {
            if self.lines.buffer().is_empty() {
                let spoken =
                    poll(&mut [PollFd::new(self.lines.get_ref(), PollFlags::IN)], Some(&PATIENCE));
                assert_eq!(spoken, Ok(1), "no `{kind}` of {id}");
            }
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("it speaks");
            let event: Value = serde_json::from_str(&line).expect("an event");
            if event["session_id"] == id && event["type"] == kind {
                return event;
            }
        }
    }

    /// Returns once it sleeps.
    pub(crate) fn quiet(&self) {
        asleep(self.running.child.id());
    }
}

/// Causes a change and returns the time until its event.
pub(crate) fn told(stream: &mut Stream, id: &str, kind: &str, happens: impl FnOnce()) -> Duration {
    stream.quiet();
    let start = Instant::now();
    happens();
    stream.until(id, kind);
    start.elapsed()
}

/// Changes a file this many times, and returns the time of each until a program that only watches its
/// folder has noticed.
pub(crate) fn noticed(file: &Path, rounds: usize, mut change: impl FnMut(usize)) -> Vec<Duration> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).expect("events");
    let folder = file.parent().expect("a folder");
    inotify::add_watch(&watch, folder, inotify::WatchFlags::MODIFY).expect("watched");
    let (sender, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch, &mut space);
        while events.next().is_ok() && sender.send(Instant::now()).is_ok() {}
    });
    let one = |round| {
        while seen.try_recv().is_ok() {}
        let start = Instant::now();
        change(round);
        seen.recv().expect("noticed").saturating_duration_since(start)
    };
    (0..rounds).map(one).collect()
}

/// Writes another status into a live record of Claude Code, in place, as it does itself.
pub(crate) fn rewrite(record: &Path, status: &str) {
    let text = std::fs::read_to_string(record).expect("there");
    let mut record_now: Value = serde_json::from_str(&text).expect("a record");
    record_now["status"] = status.into();
    // A process started for one prompt is not idle before that prompt has arrived.
    record_now["entrypoint"] = "cli".into();
    record_now["waitingFor"] = "permission prompt".into();
    std::fs::write(record, record_now.to_string()).expect("written");
}
