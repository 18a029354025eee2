//! `agentctl adapters`: the supported agents, installed or not, and the capabilities of each.

use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use clap::Args;

use crate::failure::Outcome;
use crate::text::in_one_line;
use crate::ui::Ui;

/// Show the agents supported and what is known of each
#[derive(Args)]
pub(super) struct AdaptersArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_adapters(ui: &mut Ui, fleet: &Fleet, args: &AdaptersArgs) -> Outcome {
    let document = fleet.adapters();
    if args.json {
        ui.json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = document.adapters;
    let yes = |b: bool| if b { "yes" } else { "-" };
    ui.line("AGENT        INSTALLED  LIVE  HISTORY  TOKENS  COST  SUBAGENTS  WAITING")?;
    for row in &rows {
        let installed = match (&row.version, row.installed) {
            (Some(version), true) => in_one_line(version),
            (None, true) => "yes".into(),
            _ => "-".into(),
        };
        ui.line(&format!(
            "{:<11}  {:<9}  {:<4}  {:<7}  {:<6}  {:<4}  {:<9}  {}",
            row.name,
            installed,
            yes(row.live),
            yes(row.history),
            yes(row.tokens),
            yes(row.cost),
            yes(row.subagents),
            row.waiting
        ))?;
    }
    ui.line("")?;
    ui.line("AGENT        FORK  --permissions edits            --permissions bypass")?;
    for row in &rows {
        let Some(can) = &row.control else { continue };
        ui.line(&format!(
            "{:<11}  {:<4}  {:<29}  {}",
            row.name,
            yes(can.fork),
            can.edits,
            can.bypass
        ))?;
    }
    ui.line("")?;
    for row in &rows {
        let how = row.control.as_ref().map_or("not from here", |can| can.stop.as_str());
        ui.line(&format!("stop {:<11}  {how}", row.name))?;
    }
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}
