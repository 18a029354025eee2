//! Launches of several agents: the ids on stdout as the agents begin, everything else on stderr.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use agentctl_core::ask::{
    Fleet, GroupLaunchDocument, GroupLaunchNews, GroupLaunchRequest, LaunchedSlot, PlanPlace,
    WaitRequest,
};
use agentctl_core::launch::matrix::{FilePrompt, Matrix, MatrixOrigins};
use agentctl_core::text::shell_word;

use super::super::interrupt::Interrupt;
use super::super::say;
use super::super::wait::{self, Show};
use super::{After, LaunchArgs, Stay, flushed, with_fuse};
use crate::config::Loaded;
use crate::face::{
    IdleFuse, group_not_started, idle_fuse, left_behind, making_line, matrix_failure, plan_lines,
    slot_failure, slot_started_line, worktree_line,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Refuses options that name or show one session, in a launch of a group. A group may have one agent only.
pub(super) fn check_options(args: &LaunchArgs, after: After) -> Result<(), Failure> {
    let refused = |option: &str, hint: &str| {
        let message = format!(
            "{option} is for one agent, and --times, --matrix or a second --adapter launches a group"
        );
        Err(Failure::new(Kind::Usage, message).hint(hint))
    };
    if args.worktree.worktree.as_ref().is_some_and(Option::is_some) {
        return refused("--worktree=NAME", "--group names their worktrees and branches");
    }
    if args.name.is_some() {
        return refused("--name", "--group names them together");
    }
    if after.stay == Stay::Following {
        let hint = "leave it out; `agentctl logs -f --group GROUP` follows them all";
        return refused("--follow", hint);
    }
    Ok(())
}

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
    (name, place): (Option<&str>, &PlanPlace),
) -> Outcome {
    let fleet = loaded.fleet();
    let plan = fleet.plan_launch(request, name, place, &loaded.defaults);
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
    after: After,
) -> Outcome {
    let fleet = &loaded.fleet();
    request.look = after.stay != Stay::Not;
    let mut told = Told { printed: Ok(()), fuse_lines: HashSet::new(), fuse_failed: None };
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let launched = fleet.launch_group(&request, &loaded.defaults, &mut |news| {
        told.hear(ui, fleet, after, news);
    });
    let launched = launched.map_err(|why| group_not_started(fleet, origins, why));
    let document = interrupt.end(ui, launched)?;
    let message = match document.started() {
        0 => "interrupted: no agent was started".to_owned(),
        count => {
            format!("interrupted: {count} of {} agents began, and go on", document.slots.len())
        }
    };
    interrupt.set_last_words(message.clone());
    summarise(ui, &document, after.stay);
    if after.json && (after.stay == Stay::Not || fleet.cancellation.is_cancelled()) {
        ui.json(&document)?;
    }
    interrupt.end_called_off(ui, &message)?;
    let code = exit_code(document.started(), document.slots.len());
    let code = with_fuse(code, told.fuse_failed);
    if after.stay == Stay::Not || document.started() == 0 {
        return told.printed.map(|()| code);
    }
    attend(ui, fleet, &document, after).map(
        |waited| {
            if waited == ExitCode::SUCCESS { code } else { waited }
        },
    )
}

/// The results of the reports during a launch.
struct Told {
    /// The result of printing the last id.
    printed: Result<(), Failure>,
    /// The lines about idle fuses and their daemon: it is the same for all of them.
    fuse_lines: HashSet<String>,
    /// Nothing ends a session when it is idle, although that was wanted.
    fuse_failed: Option<Kind>,
}

impl Told {
    fn hear(&mut self, ui: &mut Ui, fleet: &Fleet, after: After, news: GroupLaunchNews<'_>) {
        match news {
            GroupLaunchNews::Worktree(news) => {
                if let Some(line) = making_line(&news).filter(|_| ui.shows_progress()) {
                    ui.note(&line);
                }
            }
            GroupLaunchNews::Made(made) => {
                for made in made {
                    ui.note(&worktree_line(&fleet.host, made));
                }
                if let Some(remark) = made.first().and_then(left_behind) {
                    ui.note(&remark);
                }
                let mut warnings: Vec<&String> =
                    made.iter().flat_map(|made| &made.warnings).collect();
                warnings.dedup();
                for warning in warnings {
                    ui.warn(warning);
                }
            }
            GroupLaunchNews::Started { adapter, id, name, .. } => {
                ui.note(&slot_started_line(adapter, id, name));
                if !after.json {
                    let written = ui.line(id);
                    self.printed = flushed(ui, id, written);
                }
            }
            GroupLaunchNews::Failed { slot, adapter, why, kept } => {
                let (message, hints) = slot_failure(fleet, (slot, adapter), why, kept.as_ref());
                ui.error(&message);
                for hint in hints {
                    ui.hint(&hint);
                }
            }
            GroupLaunchNews::HookFailed { slot, why } => {
                ui.warn(&format!("slot {slot}: the on-create hook failed: {why}"));
            }
            GroupLaunchNews::Fault(fault) => ui.warn_fault(fault),
            GroupLaunchNews::IdleFuse { id, idle_ms, set, .. } => {
                let IdleFuse { line, failed } = idle_fuse(fleet, (id, idle_ms), set);
                self.fuse_failed = self.fuse_failed.or(failed);
                if let Some(line) = line.filter(|line| self.fuse_lines.insert(line.text.clone())) {
                    say(ui, &line);
                }
            }
        }
    }
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
    let word = shell_word(group);
    // A name that begins with a dash would be read as an option.
    let (wait, compare) = if group.starts_with('-') {
        (format!("--group={word}"), format!("`agentctl compare{verify} -- {word}`"))
    } else {
        (format!("--group {word}"), format!("`agentctl compare {word}{verify}`"))
    };
    if stay == Stay::Not {
        ui.hint(&format!("`agentctl wait {wait}`, then {compare}"));
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
