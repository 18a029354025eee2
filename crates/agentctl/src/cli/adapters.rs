//! `agentctl adapters`: the agents supported, installed or not, and what each can do.

use std::process::ExitCode;

use agentctl_core::adapters::ALL;
use agentctl_core::adapters::control::Abilities;
use agentctl_core::ask::Fleet;
use agentctl_core::model::SCHEMA_VERSION;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Outcome;
use crate::ui::Ui;

/// Show the agents supported and what is known of each
#[derive(Args)]
pub(super) struct AdaptersArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The answer to `adapters --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    schema_version: u32,
    /// One row per agent.
    adapters: Vec<Row>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    /// The name on the command line.
    name: &'static str,
    /// A program of it is on the PATH.
    installed: bool,
    /// Its version, where a file beside it says so.
    version: Option<String>,
    /// The program.
    program: Option<String>,
    /// Sees live sessions, whoever started them.
    live: bool,
    /// Sees ended sessions.
    history: bool,
    /// When it can tell that a human is needed.
    waiting: &'static str,
    /// Counts tokens.
    tokens: bool,
    /// Knows the agent's own cost figure.
    cost: bool,
    /// Sees subagents.
    subagents: bool,
    /// How it is moved; null where it can only be looked at.
    control: Option<Control>,
}

/// How an agent is launched, resumed and stopped.
#[derive(Serialize, JsonSchema)]
struct Control {
    /// `launch` starts it.
    launch: bool,
    /// `resume` continues its sessions.
    resume: bool,
    /// `resume --fork` copies them.
    fork: bool,
    /// What `--permissions edits` means to it.
    edits: &'static str,
    /// What `--permissions bypass` means to it.
    bypass: &'static str,
    /// How `stop` ends it.
    stop: &'static str,
}

impl From<Abilities> for Control {
    fn from(can: Abilities) -> Self {
        let Abilities { fork, edits, bypass, stop } = can;
        Self { launch: true, resume: true, fork, edits, bypass, stop }
    }
}

pub(super) fn cmd_adapters(ui: &mut Ui, fleet: &Fleet, args: &AdaptersArgs) -> Outcome {
    let host = &fleet.host;
    let rows: Vec<Row> = ALL
        .iter()
        .map(|adapter| {
            let (can, found) = (adapter.capabilities(), adapter.installation(host));
            Row {
                name: adapter.name(),
                installed: found.program.is_some(),
                version: found.version,
                program: found.program.map(|p| p.to_string_lossy().into_owned()),
                live: can.live,
                history: can.history,
                waiting: can.waiting,
                tokens: can.tokens,
                cost: can.cost,
                subagents: can.subagents,
                control: adapter.control().map(|c| c.abilities().into()),
            }
        })
        .collect();
    if args.json {
        ui.json(&Report { schema_version: SCHEMA_VERSION, adapters: rows })?;
        return Ok(ExitCode::SUCCESS);
    }
    let yes = |b: bool| if b { "yes" } else { "-" };
    ui.line("AGENT        INSTALLED  LIVE  HISTORY  TOKENS  COST  SUBAGENTS  WAITING")?;
    for row in &rows {
        let installed = match (&row.version, row.installed) {
            (Some(version), true) => version.as_str(),
            (None, true) => "yes",
            _ => "-",
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
        let how = row.control.as_ref().map_or("not from here", |can| can.stop);
        ui.line(&format!("stop {:<11}  {how}", row.name))?;
    }
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}
