//! `agentctl compare`: the work of a group, side by side.

use agentctl_core::ask::{CompareDocument, CompareRequest, CompareRow, Fleet};
use clap::Args;

use super::interrupt::Interrupt;
use super::listed::Listed;
use super::shape::{Shape, ShapeArgs};
use super::watch::watch;
use crate::config::Loaded;
use crate::face::{CompareListRow, no_diff};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Compare the work of the sessions of a group
///
/// One row for each worktree: how its session ended, its commits and changes, whether they merge with the branch that
/// it began from, and with --verify whether a command succeeds in it. Tokens and cost are those of `status`.
#[derive(Args)]
pub(super) struct CompareArgs {
    /// The group, or the part of the worktrees' names before the `/`
    #[arg(value_name = "GROUP")]
    group: String,
    /// Run this command in each worktree, one after the other (no shell)
    #[arg(long, value_name = "COMMAND", conflicts_with = "watch")]
    verify: Option<String>,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_compare(ui: &mut Ui, loaded: &Loaded, args: &CompareArgs) -> Outcome {
    let fleet = loaded.fleet();
    let shape = args.shape.shape::<CompareListRow>()?;
    let words = args.verify.as_deref().map(|text| {
        let words = shlex::split(text).filter(|words| !words.is_empty());
        words.ok_or_else(|| {
            Failure::new(Kind::Usage, format!("--verify: `{text}` is no command"))
                .hint("name a program with its arguments; for a shell write `sh -c '…'`")
        })
    });
    let request = CompareRequest {
        group: args.group.clone(),
        verify: words.transpose()?.unwrap_or_default(),
        prefix: loaded.defaults.worktree.prefix.clone(),
    };
    if shape.is_watched {
        return watch(ui, &fleet, &shape, || listed(&fleet, &shape, &request, &mut |_| {}));
    }
    let shows_progress = ui.shows_progress();
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let listed = listed(&fleet, &shape, &request, &mut |slot| {
        if shows_progress {
            ui.note(&format!("{slot}: running the verification"));
        }
    });
    let listed = interrupt.end(ui, listed)?;
    listed.print(ui, &loaded.host, &shape)?;
    if !shape.is_for_programs() {
        listed.remarks.iter().for_each(|remark| ui.warn(remark));
    }
    Ok(super::answered(ui, &listed.faults))
}

fn listed(
    fleet: &Fleet,
    shape: &Shape<CompareListRow>,
    request: &CompareRequest,
    tell: &mut dyn FnMut(&str),
) -> Result<Listed<CompareListRow, CompareDocument>, Failure> {
    let document = fleet.compare(request, tell);
    let mut document = document.map_err(|why| no_diff(fleet, &request.group, why))?;
    let slots = std::mem::take(&mut document.slots);
    let mut rows: Vec<CompareListRow> = slots.into_iter().map(CompareListRow).collect();
    shape.arrange(&fleet.host, &mut rows);
    document.slots = rows.iter().map(|row| row.0.clone()).collect();
    let faults = document.faults.clone();
    let remarks = rows.iter().filter_map(|row| failed_verification(&row.0)).collect();
    let empty = "the group has no sessions or worktrees";
    Ok(Listed { title: "compare", rows, document, faults, remarks, empty: empty.into() })
}

/// Returns the last lines that a failed verification printed.
fn failed_verification(row: &CompareRow) -> Option<String> {
    let verify = row.verify.as_ref()?;
    let (slot, output) = (&row.slot, verify.output.as_ref()?);
    let end = verify.exit.map_or_else(String::new, |code| format!(" (exit code {code})"));
    Some(format!("the verification of {slot} failed{end}: {output}"))
}
