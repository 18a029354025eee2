//! `agentctl why`: the evidence behind a status, in sentences.

use agentctl_core::ask::{ExplainedSession, Fleet};
use agentctl_core::model::Evidence;
use clap::Args;

use super::ids;
use crate::face::{ended_by_text, unresolved};
use crate::failure::Outcome;
use crate::text::{one_line, wrap};
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
    let ExplainedSession { explanation, notes, faults } = explained;
    if args.json {
        ui.json(&explanation)?;
    } else {
        let room = ui.width().unwrap_or(usize::MAX);
        for line in wrap(&explanation.verdict, room) {
            ui.line(&line)?;
        }
        ui.line("")?;
        if let Some(by) = &explanation.ended_by {
            ui.line(&format!("ended by: {}", one_line(&ended_by_text(by))))?;
            ui.line("")?;
        }
        let said = |e: &Evidence| format!("{} says: {}", one_line(&e.source), one_line(&e.says));
        let noted = notes.iter().map(|note| format!("note: {}", one_line(note)));
        for text in explanation.evidence.iter().map(said).chain(noted) {
            for (index, line) in wrap(&text, room.saturating_sub(4).max(20)).iter().enumerate() {
                let indent = if index == 0 { "  " } else { "    " };
                ui.line(&format!("{indent}{line}"))?;
            }
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &faults))
}
