//! `agentctl doctor`: the checks of this machine, the mechanisms in use, and missing parts.

use agentctl_core::ask::{Check, CheckState, DaemonState, DoctorContext, Fleet};
use agentctl_core::host::Host;
use agentctl_core::marks;
use anstyle::{AnsiColor, Style};
use clap::Args;

use crate::client::{Client, ClientError, HELLO_TIMEOUT};
use crate::daemon::status::DaemonStatus;
use crate::failure::Outcome;
use crate::place::Place;
use crate::protocol::{NoParams, Request};
use crate::text::one_line;
use crate::ui::Ui;

/// Show what was found on this machine and what is missing
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_doctor(ui: &mut Ui, fleet: &Fleet, args: &DoctorArgs) -> Outcome {
    let host = &fleet.host;
    let context = DoctorContext { configuration: crate::config::path(host), daemon: daemon(host) };
    let (document, faults) = fleet.doctor(&context);
    if args.json {
        ui.json(&document)?;
    } else {
        show(ui, &document.checks)?;
    }
    Ok(super::answered(ui, &faults))
}

/// Asks the daemon whether it notices changes by itself.
fn daemon(host: &Host) -> DaemonState {
    let asked = match host.var(marks::NO_DAEMON) {
        Some(_) => Err(ClientError::NotRunning),
        None => Client::connect(&Place::of(host), HELLO_TIMEOUT),
    };
    let asked = asked.and_then(|mut client| {
        client.call::<DaemonStatus>(&Request::DaemonStatus(NoParams {}), HELLO_TIMEOUT)
    });
    match asked {
        Ok(status) => DaemonState::Serves { trouble: status.trouble },
        Err(ClientError::NotRunning) => DaemonState::Absent,
        Err(error) => DaemonState::Silent(error.to_string()),
    }
}

fn show(ui: &mut Ui, checks: &[Check]) -> std::io::Result<()> {
    let mut area = "";
    for check in checks {
        if check.area != area {
            if !area.is_empty() {
                ui.line("")?;
            }
            area = &check.area;
            ui.line(&ui.paint(Style::new().bold(), area))?;
        }
        let (mark, style) = match check.state {
            CheckState::Ok => ("ok      ", AnsiColor::Green.on_default()),
            CheckState::Degraded => ("degraded", AnsiColor::Yellow.on_default()),
            CheckState::Absent => ("absent  ", Style::new().dimmed()),
            CheckState::Failed => ("failed  ", AnsiColor::Red.on_default()),
        };
        ui.line(&format!(
            "  {}  {}: {}",
            ui.paint(style, mark),
            one_line(&check.name),
            one_line(&check.detail)
        ))?;
        if let Some(hint) = &check.hint {
            ui.line(&format!("            {hint}"))?;
        }
    }
    ui.flush()
}
