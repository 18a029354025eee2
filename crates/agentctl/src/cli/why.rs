//! `agentctl why`: the evidence behind a status, in sentences.

use agentctl_core::ask::Fleet;
use clap::Args;

use super::ids;
use crate::face::{unresolved, why_lines};
use crate::failure::Outcome;
use crate::ui::Ui;

/// Explain the status of a session: which source said what
///
/// Each line names a source (a file of the agent, a process, a server) and what it says.
#[derive(Args)]
pub(super) struct WhyArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_why(ui: &mut Ui, fleet: &Fleet, args: &WhyArgs) -> Outcome {
    let id = super::named_or_here(args.id.as_deref());
    let explained = fleet.why(id);
    let explained = explained.map_err(|not_one| unresolved(fleet, id, not_one))?;
    if args.json {
        ui.json(&explained.explanation)?;
    } else {
        for line in why_lines(&explained, ui.width().unwrap_or(usize::MAX)) {
            ui.line(&line)?;
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &explained.faults))
}
