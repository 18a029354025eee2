//! `agentctl name` and `agentctl group`: a person's own words for a session.

use agentctl_core::ask::{Fleet, NamedSession};
use clap::Args;

use super::ids;
use crate::face::not_named;
use crate::failure::Outcome;
use crate::text::one_line;
use crate::ui::Ui;

/// Name a session
///
/// The name belongs to the session and survives resume and prune. It takes precedence over the name that the
/// agent itself shows. A name that a live session has is refused (exit code 5).
#[derive(Args)]
pub(super) struct NameArgs {
    #[arg(value_name = "ID", help = ids::ONE)]
    id: String,
    /// The new name
    #[arg(value_name = "NAME", required_unless_present = "clear", conflicts_with = "clear")]
    name: Option<String>,
    /// Remove the name
    #[arg(long)]
    clear: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Put a session into a group
///
/// A session is in one group at most. `list`, `logs`, `events`, `asks`, `wait` and `stop` take --group. The group
/// survives resume and prune.
#[derive(Args)]
pub(super) struct GroupArgs {
    #[arg(value_name = "ID", help = ids::ONE)]
    id: String,
    /// The group; replaces the group the session is in
    #[arg(value_name = "GROUP", required_unless_present = "clear", conflicts_with = "clear")]
    group: Option<String>,
    /// Remove the session from its group
    #[arg(long)]
    clear: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_name(ui: &mut Ui, fleet: &Fleet, args: &NameArgs) -> Outcome {
    let named = fleet.name(&args.id, args.name.as_deref());
    let named = named.map_err(|why| not_named(fleet, &args.id, why))?;
    let line = match &named.name {
        Some(name) => format!("named {} {}: {}", named.adapter, named.id, one_line(name)),
        None => format!("{} {} has no name now", named.adapter, named.id),
    };
    say(ui, &named, &line, args.json)
}

pub(super) fn cmd_group(ui: &mut Ui, fleet: &Fleet, args: &GroupArgs) -> Outcome {
    let grouped = fleet.group(&args.id, args.group.as_deref());
    let grouped = grouped.map_err(|why| not_named(fleet, &args.id, why))?;
    let line = match &grouped.group {
        Some(group) => {
            format!("{} {} is in group {}", grouped.adapter, grouped.id, one_line(group))
        }
        None => format!("{} {} is in no group now", grouped.adapter, grouped.id),
    };
    say(ui, &grouped, &line, args.json)
}

fn say(ui: &mut Ui, named: &NamedSession, line: &str, json: bool) -> Outcome {
    if json {
        ui.json(named)?;
    } else {
        ui.line(line)?;
        ui.flush()?;
    }
    Ok(super::answered(ui, &named.faults))
}
