//! `agentctl send` to a live session, and `agentctl stop --turn`.

use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, SendDocument, SendRequest, SendStep, TurnEndDocument, TurnNotEnded, WaitRequest,
    WaitTarget, check_group,
};
use agentctl_core::model::{Session, Status};
use agentctl_core::transcript::Transcript;
use agentctl_core::wait::Until;

use super::launch::{After, Stay};
use super::logs::Form;
use super::wait::{self, Show};
use crate::face::{
    awaits_turn_line, not_named, not_sent, refused_word, sent_line, turn_ended_line,
    turn_not_ended, unconfirmed,
};
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

/// The longest time for which the status of a session is behind its record.
const STATUS_LAG_MS: u64 = 1000;

/// A message to a live session, and the tasks after it.
pub(super) struct Sending {
    pub(super) request: SendRequest,
    pub(super) after: After,
    /// The group that the session is put into.
    pub(super) group: Option<String>,
}

impl Sending {
    /// Sends the message if the session lives; `None` if it is to be resumed.
    pub(super) fn to_live(&self, ui: &mut Ui, fleet: &Fleet) -> Option<Outcome> {
        if let Some(Err(why)) = self.group.as_deref().map(check_group) {
            return Some(Err(refused_word(&why)));
        }
        let mut conversation = None;
        let shows_progress = ui.shows_progress();
        let mut tell = |step: SendStep<'_>| match step {
            SendStep::AwaitsTurn(session) if shows_progress => ui.note(&awaits_turn_line(session)),
            SendStep::AwaitsTurn(_) => {}
            SendStep::HandedOver(begun) => conversation = Some(*begun),
        };
        match fleet.send_telling(&self.request, &mut tell) {
            Ok(document) => Some(self.attend(ui, fleet, document, conversation)),
            Err(why) if why.is_for_resume() => None,
            Err(why) => Some(Err(not_sent(fleet, &self.request.session, why))),
        }
    }

    /// Reports a message that was handed over, and stays as long as the flags ask for.
    fn attend(
        &self,
        ui: &mut Ui,
        fleet: &Fleet,
        document: SendDocument,
        conversation: Option<Transcript>,
    ) -> Outcome {
        let (json, stay) = (self.after.json, self.after.stay);
        let failure = unconfirmed(&document).map_or_else(|| self.grouped(fleet).err(), Some);
        let is_last = failure.is_some() || stay == Stay::Not;
        if json && is_last {
            ui.json(&document)?;
        } else if !json && document.confirmed && stay == Stay::Following {
            ui.note(&sent_line(&document));
        } else if !json && document.confirmed {
            ui.line(&sent_line(&document))?;
        }
        ui.flush()?;
        match (failure, document.wait_target()) {
            (Some(failure), _) if json => Ok(failure.beside_data(ui)),
            (Some(failure), _) => Err(failure),
            (None, Some(target)) if stay != Stay::Not => {
                until_begun(fleet, &document, &target);
                self.stay(ui, fleet, (document, target), conversation)
            }
            _ => Ok(super::answered(ui, &document.faults)),
        }
    }

    /// Waits until the turn that holds the message is over, or shows the conversation until then.
    fn stay(
        &self,
        ui: &mut Ui,
        fleet: &Fleet,
        (mut document, target): (SendDocument, WaitTarget),
        conversation: Option<Transcript>,
    ) -> Outcome {
        let json = self.after.json;
        let mut request = self.after.request(target);
        if self.after.stay == Stay::Following {
            let form = if json { Form::Json } else { Form::Human };
            return wait::follow(ui, fleet, &request, (form, conversation));
        }
        request.figures = json;
        let waited = wait::wait_for(ui, fleet, &request, Show::Nothing)?;
        let ended = wait::answer(&waited, &request);
        if !json {
            return ended;
        }
        document.session = waited.sessions.into_iter().next().unwrap_or(document.session);
        ui.json(&document)?;
        ended.or_else(|failure| Ok(failure.beside_data(ui)))
    }

    /// Puts the session into the group.
    fn grouped(&self, fleet: &Fleet) -> Result<(), Failure> {
        let Some(group) = &self.group else { return Ok(()) };
        let session = &self.request.session;
        fleet.group(session, Some(group)).map_err(|why| not_named(fleet, session, why))?;
        Ok(())
    }
}

/// Waits until a turn that a message begins shows in the status. Some agents record the message first, and a session
/// that is still idle for a moment would count as a turn that is over.
fn until_begun(fleet: &Fleet, document: &SendDocument, target: &WaitTarget) {
    let seen = fleet.inspect(&document.session.target()).session;
    if seen.is_none_or(|session| session.status != Status::Idle) {
        return;
    }
    let request = WaitRequest {
        targets: vec![target.clone()],
        until: Until::Status(Status::Running),
        timeout_ms: Some(STATUS_LAG_MS),
        ..WaitRequest::default()
    };
    // A short turn may be over already.
    let _over = fleet.wait(&request, &mut |_| {});
}

/// The sessions whose turns are to be ended.
pub(super) enum Turns<'a> {
    /// Those that these texts name.
    Named(&'a [String]),
    /// These, which were confirmed.
    Of(&'a [Session]),
}

/// Ends the turns of sessions; their processes stay. The first failure decides the exit code; the others are
/// reported.
pub(super) fn end_turns(ui: &mut Ui, fleet: &Fleet, turns: &Turns<'_>, json: bool) -> Outcome {
    let mut failed = None;
    match turns {
        Turns::Named(texts) => {
            for text in *texts {
                told(ui, (fleet, text, json), fleet.end_turn(text), &mut failed)?;
            }
        }
        Turns::Of(sessions) => {
            for session in *sessions {
                let text = session.id.as_deref().unwrap_or_default();
                let ended = fleet.end_turn_of(&session.target(), Vec::new());
                told(ui, (fleet, text, json), ended, &mut failed)?;
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn told(
    ui: &mut Ui,
    (fleet, text, json): (&Fleet, &str, bool),
    ended: Result<TurnEndDocument, TurnNotEnded>,
    failed: &mut Option<Failure>,
) -> Result<(), Failure> {
    match ended {
        Ok(document) if json => ui.json_line(&document)?,
        Ok(document) => ui.line(&turn_ended_line(&document))?,
        Err(why) => {
            let failure = turn_not_ended(fleet, text, why);
            if failed.is_none() {
                *failed = Some(failure);
            } else {
                ui.error(failure.message());
            }
        }
    }
    Ok(ui.flush()?)
}
