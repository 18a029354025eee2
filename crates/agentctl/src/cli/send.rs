//! `agentctl send` to a live session, and `agentctl stop --turn`.

use std::process::ExitCode;

use agentctl_core::ask::{Fleet, SendDocument, SendRequest};

use crate::face::{not_sent, sent_line, turn_ended_line, turn_not_ended, unconfirmed};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// Sends a message if the session lives; `None` if it is to be resumed.
pub(super) fn to_live(
    ui: &mut Ui,
    fleet: &Fleet,
    request: &SendRequest,
    json: bool,
) -> Option<Outcome> {
    match fleet.send(request) {
        Ok(document) => Some(report(ui, &document, json)),
        Err(why) if why.is_for_resume() => None,
        Err(why) => Some(Err(not_sent(fleet, &request.session, why))),
    }
}

fn report(ui: &mut Ui, document: &SendDocument, json: bool) -> Outcome {
    if json {
        ui.json(document)?;
    } else if document.confirmed {
        ui.line(&sent_line(document))?;
    }
    ui.flush()?;
    let Some(failure) = unconfirmed(document) else {
        return Ok(super::answered(ui, &document.faults));
    };
    if json { Ok(failure.beside_data(ui)) } else { Err(failure) }
}

/// Ends the turns of sessions; their processes stay. The first failure decides the exit code; the others are
/// reported.
pub(super) fn end_turns(ui: &mut Ui, fleet: &Fleet, texts: &[String], json: bool) -> Outcome {
    let mut failed: Option<Failure> = None;
    for text in texts {
        match fleet.end_turn(text) {
            Ok(document) if json => ui.json_line(&document)?,
            Ok(document) => {
                ui.line(&turn_ended_line(&document))?;
            }
            Err(why) => {
                let failure = turn_not_ended(fleet, text, why);
                if failed.is_none() {
                    failed = Some(failure);
                } else {
                    ui.error(failure.message());
                }
            }
        }
        ui.flush()?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}
