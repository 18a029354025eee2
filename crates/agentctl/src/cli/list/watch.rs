//! `agentctl list --watch`: the list again whenever something happens.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::events::Seen;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::{Fault, Listing, ProcId, ReasonKind, ServingProcess, Session, Time};

use super::super::stream_end;
use super::{ListArgs, empty};
use crate::face::{Feed, FeedItem, NewlyWaiting, StreamEnd, TerminalSequence};
use crate::failure::{Failure, Outcome};
use crate::session_table;
use crate::ui::Ui;

/// How often the ages on a screen are drawn again.
const AGES_PACE: Duration = Duration::from_secs(1);
/// History is read at most this often, because that costs much more than a look.
const HISTORY_PACE: Duration = Duration::from_secs(1);

/// Prints the list after every look, until it is interrupted or its reader leaves.
pub(super) fn watch(ui: &mut Ui, fleet: &Fleet, args: &ListArgs, query: &Query) -> Outcome {
    let json = args.json;
    let mut feed = Feed::open(fleet)?;
    let (end, closer) = (StreamEnd::default(), feed.closer());
    end.set_wake(move || closer.close());
    stream_end::on_reader_gone(&end);
    // The ages on a screen grow while nothing happens. They are drawn again without a look.
    let limit = if ui.is_terminal() && !json { AGES_PACE } else { Duration::MAX };
    let mut history = History { fleet, query, read_at: None, is_due: false };
    let mut paused = PausedSessions::default();
    let mut screen = Screen::default();
    let mut newly_waiting = NewlyWaiting::default();
    let mut shown: Option<Rows> = None;
    loop {
        let renewed = match feed.next(history.limit(limit))? {
            FeedItem::Closed => return Ok(ExitCode::SUCCESS),
            FeedItem::Look(seen) => history.rows(*seen),
            FeedItem::Nothing => {
                history.is_due |= paused.have_changed(fleet, shown.as_ref());
                history.read_if_due()
            }
        };
        if let Some(rows) = renewed {
            if json && shown.as_ref().is_none_or(|shown| !is_same_list(shown, &rows)) {
                ui.json_line(&rows)?;
            }
            if ui.is_notified(args.bell) {
                for text in newly_waiting.step(rows.live()) {
                    ui.raw(&TerminalSequence::of(&fleet.host).bytes(&text))?;
                }
            }
            shown = Some(rows);
        }
        let Some(listing) = &shown else { continue };
        if !json {
            screen.paint(ui, fleet, args, listing)?;
        }
        ui.flush()?;
        screen.warn(ui, &listing.faults);
    }
}

/// Says whether two lists show the same. The times of evidence are left out: most are the moment of the look.
fn is_same_list(before: &Rows, now: &Rows) -> bool {
    let timeless = |mut session: Session| {
        for evidence in &mut session.evidence {
            evidence.at = Time(jiff::Timestamp::UNIX_EPOCH);
        }
        session
    };
    before.faults == now.faults && before.iter().map(timeless).eq(now.iter().map(timeless))
}

/// The live sessions that were stopped by a signal, or continued, since they were listed. The kernel announces
/// neither SIGSTOP nor SIGCONT, so the list is compared with the processes.
#[derive(Default)]
struct PausedSessions {
    /// The processes whose state the last check did not find in the list, and whether each was paused.
    differing: HashSet<(ProcId, bool)>,
}

impl PausedSessions {
    /// Says whether the list must be made again. A list that was made again and still differs, because it shows
    /// another reason than the pause, is not made a third time.
    fn have_changed(&mut self, fleet: &Fleet, listing: Option<&Rows>) -> bool {
        let kernel = &fleet.host.kernel;
        let is_paused = |process: &ServingProcess| {
            let now = kernel.process(process.id.pid).ok().flatten();
            now.is_some_and(|now| now.id == process.id && now.paused)
        };
        let mut differing = HashSet::new();
        for session in listing.into_iter().flat_map(Rows::live) {
            let was = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Paused);
            let is = session.processes.iter().any(is_paused);
            if is != was {
                differing.extend(session.processes.into_iter().map(|process| (process.id, is)));
            }
        }
        let before = std::mem::replace(&mut self.differing, differing);
        !self.differing.is_subset(&before)
    }
}

/// The source of the rows: a look, or a list of its own for history, which a look does not read.
struct History<'a> {
    fleet: &'a Fleet,
    query: &'a Query,
    read_at: Option<Instant>,
    /// Something has changed since history was read.
    is_due: bool,
}

impl History<'_> {
    /// Returns the rows after a look; `None` if history was read too recently to be read again.
    fn rows(&mut self, seen: Seen) -> Option<Rows> {
        if !self.query.all && !self.query.children {
            return Some(self.query.select(Listing { faults: seen.faults, ..seen.listing }));
        }
        self.is_due = true;
        self.read_if_due()
    }

    /// Reads history if something has changed and the pace allows it.
    fn read_if_due(&mut self) -> Option<Rows> {
        if !self.is_due || !self.pause_left().is_zero() {
            return None;
        }
        (self.is_due, self.read_at) = (false, Some(Instant::now()));
        Some(self.fleet.rows(self.query))
    }

    /// Returns how long the next look may be awaited: until history may be read, if it is due.
    fn limit(&self, usual: Duration) -> Duration {
        if self.is_due { usual.min(self.pause_left()) } else { usual }
    }

    fn pause_left(&self) -> Duration {
        self.read_at.map_or(Duration::ZERO, |at| HISTORY_PACE.saturating_sub(at.elapsed()))
    }
}

/// The output that was printed last.
#[derive(Default)]
struct Screen {
    table: Option<String>,
    faults: Vec<Fault>,
}

impl Screen {
    /// Prints the table if it differs from the last one.
    fn paint(
        &mut self,
        ui: &mut Ui,
        fleet: &Fleet,
        args: &ListArgs,
        listing: &Rows,
    ) -> Result<(), Failure> {
        ui.measure_again();
        let table = session_table::drawn(ui.canvas(), &fleet.host, listing);
        if self.table.as_ref() == Some(&table) {
            return Ok(());
        }
        if ui.is_terminal() {
            ui.clear_screen()?;
            // The warnings were cleared too.
            self.faults.clear();
        }
        if table.is_empty() {
            for line in empty(args, &listing.faults) {
                ui.line(&line)?;
            }
        }
        ui.drawn(&table)?;
        if !ui.is_terminal() {
            ui.line("")?;
        }
        self.table = Some(table);
        Ok(())
    }

    /// Reports each fault when it appears.
    fn warn(&mut self, ui: &mut Ui, faults: &[Fault]) {
        for fault in faults.iter().filter(|fault| !self.faults.contains(fault)) {
            ui.warn_fault(fault);
        }
        self.faults = faults.to_vec();
    }
}
