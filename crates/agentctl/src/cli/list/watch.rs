//! `agentctl list --watch`: the list again whenever something happens.

use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::Rows;
use agentctl_core::model::Fault;

use super::super::shape::Form;
use super::super::stream_end;
use super::view::{PrintedView, Scene, ScreenView};
use super::{ListArgs, Watched, arranged};
use crate::face::{
    Feed, ListChanges, ListItem, ListStream, NotificationText, StreamEnd, TerminalSequence,
    is_same_list,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::{Screen, ScreenCalls, Ui};

/// Shows the list after every change, until the user leaves or the reader of stdout does.
pub(super) fn watch(ui: &mut Ui, fleet: &Fleet, args: &ListArgs, watched: &Watched) -> Outcome {
    let Watched { query, shape, settings_faults } = watched;
    if matches!(shape.form, Form::JsonLines) {
        let why = "a session that leaves the list would have no line";
        let failure =
            Failure::new(Kind::Usage, format!("--watch and -o jsonl exclude each other: {why}"));
        return Err(failure.hint(
            "`list --watch -o json` prints the whole list a line, `events --json` one change a line",
        ));
    }
    let mut stream = ListStream::open(fleet, query)?;
    let (end, closer) = (StreamEnd::default(), stream.closer());
    end.set_wake(move || closer.close());
    stream_end::on_reader_gone(&end);
    let is_json = matches!(shape.form, Form::Json);
    let screen =
        (ui.has_screen() && !is_json).then(|| open_screen(stream.feed(), &end)).transpose()?;
    if screen.is_some() {
        stream.check_paused_sessions();
    }
    // The user has been warned of the settings before.
    let mut faults = ReportedFaults(settings_faults.clone());
    let mut changes = ListChanges::default();
    let mut shown: Option<Rows> = None;
    let mut view = match (screen, is_json) {
        (Some(screen), _) => View::Screen(Box::new(ScreenView::new(screen))),
        (None, true) => View::Json,
        (None, false) => View::Printed(PrintedView::default()),
    };
    loop {
        let (renewed, is_look) = match stream.next_item(shown.as_ref())? {
            ListItem::Closed => return Ok(ExitCode::SUCCESS),
            ListItem::Rows(rows) => (Some(rows), false),
            ListItem::Look => (None, true),
            ListItem::Nothing => (None, false),
        };
        let (is_renewed, mut has_changed) = (renewed.is_some(), false);
        if let Some(mut rows) = renewed {
            rows.faults.extend(settings_faults.iter().cloned());
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
            View::Screen(screen) if is_renewed || is_look || screen.is_due(fleet.host.now()) => {
                screen.paint(ui, &scene)?;
            }
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

/// The faults that were reported.
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
