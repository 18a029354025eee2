//! `agentctl list --watch`: the list again whenever something happens.

use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::Rows;

use super::super::shape::Form;
use super::super::stream_end;
use super::super::watch::view::{Reported, View};
use super::view::Scene;
use super::{ListArgs, Watched, arranged};
use crate::face::{
    ListChanges, ListItem, ListStream, NotificationText, StreamEnd, TerminalSequence, is_same_list,
};
use crate::failure::Outcome;
use crate::ui::Ui;

/// Shows the list after every change, until the user leaves or the reader of stdout does.
pub(super) fn watch(ui: &mut Ui, fleet: &Fleet, args: &ListArgs, watched: &Watched) -> Outcome {
    let Watched { query, shape, settings_faults } = watched;
    let mut stream = ListStream::open(fleet, query)?;
    let (end, closer) = (StreamEnd::default(), stream.closer());
    end.set_wake(move || closer.close());
    stream_end::on_reader_gone(&end);
    let is_json = matches!(shape.form, Form::Json);
    let mut view = View::open(ui, is_json, stream.feed(), &end)?;
    if view.is_screen() {
        stream.check_paused_sessions();
    }
    // The user has been warned of the settings before.
    let mut faults = Reported(settings_faults.clone());
    let mut changes = ListChanges::default();
    let mut shown: Option<Rows> = None;
    loop {
        let (renewed, is_look) = match stream.next_item()? {
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
                screen.paint(ui, fleet.host.now(), &scene)?;
            }
            View::Json | View::Printed(_) | View::Screen(_) => {}
        }
        if !view.is_screen() {
            ui.flush()?;
            for fault in faults.new_ones(&listing.faults) {
                ui.warn_fault(&fault);
            }
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
