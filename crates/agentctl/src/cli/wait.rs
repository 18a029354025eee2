//! `agentctl wait`: blocks until sessions reach a status; the exit code tells the result.

use std::process::ExitCode;

use agentctl_core::ask::{Fleet, WaitDocument, WaitRequest, WaitTarget};
use agentctl_core::model::Status;
use agentctl_core::transcript::Transcript;
use agentctl_core::wait::{End, Progress, Quorum, Until};
use clap::{Args, ValueEnum};

use super::ids;
use super::logs::{Form, Printer};
use crate::config::Span;
use crate::face::{
    Follow, FollowItem, blocked_hint, not_followed, not_waited, wait_failure, wait_kind, wait_line,
    wait_remark,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Wait until sessions finish their turn or reach a status
///
/// With several sessions all of them must get there. A session that needs a human ends the wait at once. A
/// session whose status is unknown is waited for.
#[derive(Args)]
pub(super) struct WaitArgs {
    #[arg(value_name = "ID", help = ids::SEVERAL_OR_HERE)]
    ids: Vec<String>,
    /// Wait for this status instead; `stopped`: no process runs the session any more
    #[arg(long = "for", value_name = "STATUS", value_enum)]
    status: Option<Wanted>,
    /// Wait for the sessions of this group, also those that ended in the last 7 days
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Return as soon as one of them is done
    #[arg(long)]
    any: bool,
    /// Give up after this time (30s, 10m, 2h): exit code 124
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wanted {
    Running,
    Waiting,
    Idle,
    Stopped,
    Error,
}

impl From<Wanted> for Until {
    fn from(wanted: Wanted) -> Self {
        Self::Status(match wanted {
            Wanted::Running => Status::Running,
            Wanted::Waiting => Status::Waiting,
            Wanted::Idle => Status::Idle,
            Wanted::Stopped => Status::Stopped,
            Wanted::Error => Status::Error,
        })
    }
}

/// The output on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// One line for each session when it is decided.
    Lines,
    /// One JSON document at the end.
    Json,
    /// Nothing: the exit code tells, with a message on stderr.
    Nothing,
}

pub(super) fn cmd_wait(ui: &mut Ui, fleet: &Fleet, args: &WaitArgs) -> Outcome {
    let mut targets: Vec<WaitTarget> = args.ids.iter().cloned().map(WaitTarget::Text).collect();
    if let Some(group) = &args.group {
        let (members, faults) = super::group_members(fleet, group)?;
        targets.extend(members.iter().filter_map(WaitTarget::of));
        for fault in &faults {
            ui.warn_fault(fault);
        }
    } else if targets.is_empty() {
        targets.push(WaitTarget::Text(super::named_or_here(None).to_owned()));
    }
    let request = WaitRequest {
        targets,
        until: args.status.map_or(Until::TurnOver, Until::from),
        quorum: if args.any { Quorum::Any } else { Quorum::All },
        timeout_ms: args.timeout.map(Span::millis),
        figures: args.json,
    };
    let show = if args.json { Show::Json } else { Show::Lines };
    let document = wait_for(ui, fleet, &request, show)?;
    if args.json {
        ui.json(&document)?;
        return Ok(ExitCode::from(wait_kind(document.end).map_or(0, Kind::exit_code)));
    }
    if document.end == End::Blocked {
        // The line of the session says already that a human is needed.
        if let Some(hint) = blocked_hint(&document) {
            ui.hint(&hint);
        }
        return Ok(ExitCode::from(Kind::Blocked.exit_code()));
    }
    answer(&document, &request)
}

/// Waits for these sessions and shows the progress; `launch --wait` does the same.
pub(super) fn wait_for(
    ui: &mut Ui,
    fleet: &Fleet,
    request: &WaitRequest,
    show: Show,
) -> Result<WaitDocument, Failure> {
    let mut written = Ok(());
    let waited = fleet.wait(request, &mut |progress| {
        let said = say(ui, show, &progress);
        if written.is_ok() {
            written = said;
        }
    });
    let document = waited.map_err(|why| not_waited(fleet, why))?;
    written?;
    Ok(document)
}

/// Shows a conversation as it is written until its turn is over; the exit code tells how it ended. An
/// open transcript continues at its position.
pub(super) fn follow(
    ui: &mut Ui,
    fleet: &Fleet,
    request: &WaitRequest,
    (form, transcript): (Form, Option<Transcript>),
) -> Outcome {
    let begun = Follow::begin(fleet, request, transcript);
    let mut follow = begun.map_err(|why| not_waited(fleet, why))?;
    let mut printer = Printer::beside_another_command(ui, form, fleet.host.now());
    loop {
        match follow.next_item().map_err(|error| not_followed(fleet, error))? {
            FollowItem::Messages(messages) => printer.print(ui, &messages)?,
            FollowItem::Over(document) => return answer(&document, request),
        }
    }
}

/// Returns the exit code of the contract for the end of a wait.
pub(super) fn answer(document: &WaitDocument, request: &WaitRequest) -> Outcome {
    match wait_failure(document, request) {
        Some(failure) => Err(failure),
        None => Ok(ExitCode::from(wait_kind(document.end).map_or(0, Kind::exit_code))),
    }
}

fn say(ui: &mut Ui, show: Show, progress: &Progress<'_>) -> std::io::Result<()> {
    match progress {
        Progress::Decided(session) => match show {
            Show::Lines => {
                ui.line(&wait_line(session))?;
                ui.flush()?;
            }
            Show::Nothing if session.status != Status::Waiting => ui.note(&wait_line(session)),
            Show::Json | Show::Nothing => {}
        },
        Progress::Fault(fault) => ui.warn_fault(fault),
        _ => {
            if let Some(remark) = wait_remark(progress) {
                ui.note(&remark);
            }
        }
    }
    Ok(())
}
