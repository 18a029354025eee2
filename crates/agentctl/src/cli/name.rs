//! `agentctl name` and `agentctl group`: a person's own words for a session.

use agentctl_core::ask::{Fleet, NamedSession};
use clap::Args;

use crate::face::not_named;
use crate::failure::Outcome;
use crate::text::one_line;
use crate::ui::Ui;

/// Name a session
///
/// The name belongs to the session: it is kept when the session is resumed, and when its runs are pruned.
/// It wins over the name that the agent itself shows. A name that a live session has is refused.
#[derive(Args)]
#[command(after_help = "Examples:
  agentctl name 2a658488 painter
  agentctl name . painter
  agentctl name painter --clear")]
pub(super) struct NameArgs {
    /// Session id or prefix, name, pid, directory (`.`), @last, or adapter:id
    id: String,
    /// The new name
    #[arg(value_name = "NAME", required_unless_present = "clear", conflicts_with = "clear")]
    name: Option<String>,
    /// Take the name away
    #[arg(long)]
    clear: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Put a session into a group
///
/// A session is in one group at most. The group is used by `list --group` and `stop --group`, and is kept
/// when the session is resumed and when its runs are pruned.
#[derive(Args)]
#[command(after_help = "Examples:
  agentctl group painter morning
  agentctl group painter --clear")]
pub(super) struct GroupArgs {
    /// Session id or prefix, name, pid, directory (`.`), @last, or adapter:id
    id: String,
    /// The group, in place of the one it is in
    #[arg(value_name = "GROUP", required_unless_present = "clear", conflicts_with = "clear")]
    group: Option<String>,
    /// Take it out of its group
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
