//! `logs -f`: goes on with new messages until every session has ended.
//!
//! One thread waits for changes of files, one for the end of the sessions; both wake the thread that prints.

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use agentctl_core::ask::{Fleet, WaitRequest, WaitTarget};
use agentctl_core::model::{Fault, Target};
use agentctl_core::native::watch::Watch;
use agentctl_core::transcript::{TranscriptError, watch_all};
use agentctl_core::wait::{Progress, Until};

use super::Source;
use crate::face::{not_waited, session_ended, session_waits};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// Longest time between two reads, for file systems without events.
const SAFETY_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two reads if there are no file events at all.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A reason to read or to say something.
enum Wake {
    /// A file changed.
    Changed,
    /// A session waits or has ended.
    Said(String),
    /// A source failed.
    Fault(Fault),
    /// Every session has ended, or their end cannot be waited for.
    Over(Result<(), Failure>),
}

/// Starts one watch for all conversations.
pub(super) fn watch(sources: &[Source]) -> Result<Watch, TranscriptError> {
    watch_all(sources.iter().map(|source| &source.transcript))
}

pub(super) fn follow(
    ui: &mut Ui,
    fleet: &Fleet,
    mut sources: Vec<Source>,
    watch: Result<Watch, TranscriptError>,
) -> Outcome {
    if let Err(error) = &watch {
        ui.note(&format!(
            "file events are not available ({error}): checking once a second instead"
        ));
    }
    let (sender, wakes) = channel();
    let targets: Vec<Target> = sources.iter().map(|source| source.target.clone()).collect();
    await_end(fleet.clone(), targets, sender.clone());
    let interval = if watch.is_ok() { SAFETY_INTERVAL } else { POLL_INTERVAL };
    if let Ok(watch) = watch {
        std::thread::spawn(move || {
            // Until the reader is gone.
            while sender.send(Wake::Changed).is_ok() {
                let _hint = watch.wait(SAFETY_INTERVAL);
            }
        });
    }
    let mut is_silent = false;
    loop {
        let wake = match wakes.recv_timeout(interval) {
            Ok(wake) => wake,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Wake::Changed,
        };
        // Messages that were written before the end are shown before it.
        read(ui, &mut sources, &mut is_silent)?;
        match wake {
            Wake::Changed => {}
            Wake::Said(text) => ui.note(&text),
            Wake::Fault(fault) => ui.warn_fault(&fault),
            Wake::Over(ended) => {
                ended?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Prints what was appended. A server that does not answer now may answer later: this is reported once.
fn read(ui: &mut Ui, sources: &mut [Source], is_silent: &mut bool) -> Result<(), Failure> {
    for source in sources {
        match source.printer.more(ui, &mut source.transcript) {
            Err(failure) if failure.is_unanswered() => {
                if !std::mem::replace(is_silent, true) {
                    ui.warn(failure.message());
                }
            }
            shown => {
                shown?;
                *is_silent = false;
            }
        }
    }
    Ok(())
}

/// Waits in another thread until every session has ended, and reports each that waits or ends.
fn await_end(fleet: Fleet, targets: Vec<Target>, sender: Sender<Wake>) {
    std::thread::spawn(move || {
        let until = Until::Status(agentctl_core::model::Status::Stopped);
        let targets = targets.iter().filter_map(WaitTarget::of).collect();
        let request = WaitRequest { targets, until, ..WaitRequest::default() };
        let waited = fleet.wait(&request, &mut |progress| {
            let wake = match progress {
                Progress::Decided(session) => Wake::Said(session_ended(&fleet, session)),
                Progress::NeedsHuman(session) => Wake::Said(session_waits(&fleet, session)),
                Progress::Fault(fault) => Wake::Fault(fault.clone()),
                Progress::Unknown(_) | Progress::Paced(_) => return,
            };
            // The reader may be gone.
            let _unheard = sender.send(wake);
        });
        let _unheard =
            sender.send(Wake::Over(waited.map(drop).map_err(|why| not_waited(&fleet, why))));
    });
}
