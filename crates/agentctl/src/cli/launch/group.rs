//! Launches of several agents: the ids on stdout as the agents begin, everything else on stderr.

use std::path::Path;
use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, GroupLaunchDocument, GroupLaunchNews, GroupLaunchRequest, LaunchedSlot, PlanPlace,
    WaitRequest,
};
use agentctl_core::launch::matrix::{FilePrompt, Matrix, MatrixOrigins};

use super::super::wait::{self, Show};
use super::interrupt::Interrupt;
use super::{After, Stay, end_when_idle, flushed};
use crate::config::{Loaded, Span};
use crate::face::{
    group_not_started, left_behind, making_line, matrix_failure, plan_lines, slot_failure,
    slot_started_line,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Adds a matrix file to a request. A prompt on the command line replaces that of the file. Returns where the values
/// stand in the file.
pub(super) fn add_matrix(
    fleet: &Fleet,
    request: &mut GroupLaunchRequest,
    file: &Path,
) -> Result<MatrixOrigins, Failure> {
    let prompt = if request.prompt.is_some() { FilePrompt::Overridden } else { FilePrompt::Used };
    let matrix = Matrix::read(&fleet.host, file, prompt);
    Ok(request.add_matrix(matrix.map_err(|error| matrix_failure(&error))?))
}

/// Prints what would be launched, and starts nothing.
pub(super) fn dry_run(
    ui: &mut Ui,
    loaded: &Loaded,
    (request, origins): (&GroupLaunchRequest, &MatrixOrigins),
    place: &PlanPlace,
) -> Outcome {
    let fleet = loaded.fleet();
    let plan = fleet.plan_launch(request, place, &loaded.defaults);
    let plan = plan.map_err(|why| group_not_started(&fleet, origins, why))?;
    if ui.wants_json() {
        ui.json(&plan)?;
    } else {
        for line in plan_lines(&plan) {
            ui.line(&line)?;
        }
    }
    let wrong = plan.slots.iter().filter(|slot| slot.error.is_some()).count();
    Ok(exit_code(plan.slots.len() - wrong, plan.slots.len()))
}

/// Returns the exit code: 0 if all slots are well, 3 if some are, 1 if none is.
fn exit_code(well: usize, all: usize) -> ExitCode {
    ExitCode::from(match well {
        _ if well == all => 0,
        0 => Kind::Failed.exit_code(),
        _ => Kind::Unanswered.exit_code(),
    })
}

/// Launches several agents, and waits for them if the flags ask for that.
pub(super) fn start(
    ui: &mut Ui,
    loaded: &Loaded,
    (mut request, origins): (GroupLaunchRequest, &MatrixOrigins),
    (after, idle): (After, Option<Span>),
) -> Outcome {
    if after.stay == Stay::Following {
        let message = "--follow shows one conversation, and this launch has several";
        return Err(Failure::new(Kind::Usage, message)
            .hint("leave it out; `agentctl logs -f --group GROUP` follows them all"));
    }
    let fleet = &loaded.fleet();
    request.look = after.stay != Stay::Not || idle.is_some();
    let mut printed = Ok(());
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let launched = fleet.launch_group(&request, &loaded.defaults, &mut |news| {
        if let Some(result) = hear(ui, fleet, after, news) {
            printed = result;
        }
    });
    let launched = launched.map_err(|why| group_not_started(fleet, origins, why));
    let document = interrupt.end(ui, launched)?;
    if let Some(idle) = idle {
        for slot in &document.slots {
            if let Some(session) = &slot.session {
                end_when_idle(ui, loaded, (slot.adapter, session), idle)?;
            }
        }
    }
    summarise(ui, &document, after.stay);
    if after.json && after.stay == Stay::Not {
        ui.json(&document)?;
    }
    let code = exit_code(document.started(), document.slots.len());
    if after.stay == Stay::Not || document.started() == 0 {
        return printed.map(|()| code);
    }
    attend(ui, fleet, &document, after).map(
        |waited| {
            if waited == ExitCode::SUCCESS { code } else { waited }
        },
    )
}

/// Tells one report. Returns the result of printing an id.
fn hear(
    ui: &mut Ui,
    fleet: &Fleet,
    after: After,
    news: GroupLaunchNews<'_>,
) -> Option<Result<(), Failure>> {
    match news {
        GroupLaunchNews::Worktree(news) => {
            if let Some(line) = making_line(&news).filter(|_| ui.shows_progress()) {
                ui.note(&line);
            }
        }
        GroupLaunchNews::Made(made) => {
            if let Some(remark) = made.first().and_then(left_behind) {
                ui.note(&remark);
            }
            let mut warnings: Vec<&String> = made.iter().flat_map(|made| &made.warnings).collect();
            warnings.dedup();
            for warning in warnings {
                ui.warn(warning);
            }
        }
        GroupLaunchNews::Started { adapter, id, name, .. } => {
            ui.note(&slot_started_line(adapter, id, name));
            if !after.json {
                let written = ui.line(id);
                return Some(flushed(ui, id, written));
            }
        }
        GroupLaunchNews::Failed { slot, adapter, why, kept } => {
            let (message, hint) = slot_failure(fleet, (slot, adapter), why, kept.as_deref());
            ui.error(&message);
            if let Some(hint) = hint {
                ui.hint(&hint);
            }
        }
        GroupLaunchNews::HookFailed { slot, why } => {
            ui.warn(&format!("slot {slot}: the on-create hook failed: {why}"));
        }
        GroupLaunchNews::Fault(fault) => ui.warn_fault(fault),
    }
    None
}

/// Says how many agents began, and which commands go on from here.
fn summarise(ui: &mut Ui, document: &GroupLaunchDocument, stay: Stay) {
    let GroupLaunchDocument { group, slots, verify, .. } = document;
    if document.started() == 0 {
        return;
    }
    ui.note(&format!("group {group}: {} of {} started", document.started(), slots.len()));
    let verify = verify.as_ref().and_then(|argv| {
        let words = shlex::try_join(argv.iter().map(String::as_str)).ok()?;
        Some(format!(" --verify {}", shlex::try_quote(&words).ok()?))
    });
    let verify = verify.unwrap_or_default();
    let compare = format!("`agentctl compare {group}{verify}`");
    if stay == Stay::Not {
        ui.hint(&format!("`agentctl wait --group {group}`, then {compare}"));
    } else {
        ui.hint(&format!("when they are done: {compare}"));
    }
}

/// Waits until the turns of all sessions are over.
fn attend(ui: &mut Ui, fleet: &Fleet, document: &GroupLaunchDocument, after: After) -> Outcome {
    let targets: Vec<_> = document.slots.iter().filter_map(LaunchedSlot::wait_target).collect();
    let timeout_ms = after.timeout_ms;
    let request =
        WaitRequest { targets, timeout_ms, figures: after.json, ..WaitRequest::default() };
    let waited = wait::wait_for(ui, fleet, &request, Show::Nothing)?;
    let ended = wait::answer(&waited, &request);
    if after.json {
        ui.json(document)?;
        return ended.or_else(|failure| Ok(failure.beside_data(ui)));
    }
    ended
}
