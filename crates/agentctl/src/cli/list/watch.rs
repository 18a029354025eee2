//! `agentctl list --watch`: the list again whenever something happens.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentctl_core::ask::Fleet;
use agentctl_core::events::Seen;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::{Fault, Listing, ProcId, ReasonKind, ServingProcess, Session, Time};

use super::super::shape::Form;
use super::super::stream_end;
use super::view::{PrintedView, Scene, ScreenView};
use super::{ListArgs, Watched, arranged};
use crate::face::{Feed, FeedItem, ListChanges, NotificationText, StreamEnd, TerminalSequence};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::{Screen, ScreenCalls, Ui};

/// How often the processes of a list on a screen are asked whether they were paused or continued.
const PAUSED_CHECK_PACE: Duration = Duration::from_secs(1);
/// History is read at most this often, because that costs much more than a look.
const HISTORY_PACE: Duration = Duration::from_secs(1);

/// Shows the list after every change, until the user leaves or the reader of stdout does.
pub(super) fn watch(ui: &mut Ui, fleet: &Fleet, args: &ListArgs, watched: &Watched) -> Outcome {
    let Watched { query, shape } = watched;
    if matches!(shape.form, Form::JsonLines) {
        let failure = Failure::new(Kind::Usage, "--watch cannot print -o jsonl");
        return Err(failure.hint("`--watch -o json` prints one document a line"));
    }
    let mut feed = Feed::open(fleet)?;
    let (end, closer) = (StreamEnd::default(), feed.closer());
    end.set_wake(move || closer.close());
    stream_end::on_reader_gone(&end);
    let is_json = matches!(shape.form, Form::Json);
    let screen = (ui.has_screen() && !is_json).then(|| open_screen(&feed, &end)).transpose()?;
    let limit = if screen.is_some() { PAUSED_CHECK_PACE } else { Duration::MAX };
    let mut history = History { fleet, query, read_at: None, is_due: false };
    let mut paused = PausedSessions::default();
    let mut faults = ReportedFaults::default();
    let mut changes = ListChanges::default();
    let mut shown: Option<Rows> = None;
    let mut view = match (screen, is_json) {
        (Some(screen), _) => View::Screen(Box::new(ScreenView::new(screen))),
        (None, true) => View::Json,
        (None, false) => View::Printed(PrintedView::default()),
    };
    loop {
        let (renewed, is_look) = match feed.next(history.limit(limit))? {
            FeedItem::Closed => return Ok(ExitCode::SUCCESS),
            FeedItem::Look(seen) => (history.rows(*seen), true),
            FeedItem::Nothing => {
                history.is_due |= paused.have_changed(fleet, shown.as_ref());
                (history.read_if_due(), false)
            }
        };
        let (is_renewed, mut has_changed) = (renewed.is_some(), false);
        if let Some(rows) = renewed {
            let rows = arranged(&fleet.host, shape, rows);
            if matches!(view, View::Json) && shown.as_ref().is_none_or(|s| !is_same_list(s, &rows))
            {
                ui.json_line(&rows)?;
                ui.flush()?;
            }
            has_changed = changes.compare(&rows);
            if ui.is_notified(args.bell) {
                notify(ui, fleet, &changes)?;
            }
            shown = Some(rows);
        }
        let Some(listing) = &shown else { continue };
        let scene =
            Scene { host: &fleet.host, args, shape, listing, changes: &changes, has_changed };
        match &mut view {
            View::Printed(printed) if is_renewed => printed.print(ui, &scene)?,
            // A look without new rows may have been caused by another size of the terminal.
            View::Screen(screen) if is_renewed || is_look => screen.paint(ui, &scene)?,
            View::Json | View::Printed(_) | View::Screen(_) => {}
        }
        if !matches!(view, View::Screen(_)) {
            ui.flush()?;
            faults.warn(ui, &listing.faults);
        }
    }
}

/// Notifies the terminal of the sessions that began to wait.
fn notify(ui: &mut Ui, fleet: &Fleet, changes: &ListChanges) -> std::io::Result<()> {
    for session in changes.began_to_wait() {
        let text = NotificationText::waiting(session);
        ui.raw(&TerminalSequence::of(&fleet.host).bytes(&text))?;
    }
    ui.flush()
}

/// The way in which the list is shown.
enum View {
    /// On the screen of a terminal.
    Screen(Box<ScreenView>),
    /// One list after another.
    Printed(PrintedView),
    /// One JSON document a line.
    Json,
}

fn open_screen(feed: &Feed, end: &StreamEnd) -> std::io::Result<Screen> {
    let (end, notifier) = (end.clone(), feed.notifier());
    let (leave, redraw) = (move || end.end(), move || notifier.notify());
    Screen::open(ScreenCalls { leave: Box::new(leave), redraw: Box::new(redraw) })
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

/// The faults that were reported.
#[derive(Default)]
struct ReportedFaults(Vec<Fault>);

impl ReportedFaults {
    /// Reports each fault when it appears.
    fn warn(&mut self, ui: &mut Ui, faults: &[Fault]) {
        for fault in faults.iter().filter(|fault| !self.0.contains(fault)) {
            ui.warn_fault(fault);
        }
        self.0 = faults.to_vec();
    }
}
