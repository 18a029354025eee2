//! `agentctl doctor`: the checks of this machine, the mechanisms in use, and missing parts.

use agentctl_core::ask::{Check, CheckState, DoctorContext};
use anstyle::{AnsiColor, Style};
use clap::Args;

use crate::config::Loaded;
use crate::face::doctor_context;
use crate::failure::Outcome;
use crate::text::{one_line, wrap};
use crate::ui::Ui;

/// Check this machine for problems and suggest fixes
///
/// Shows which agents, versions and homes were found on this machine, which mechanisms are in use, and what is
/// missing.
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_doctor(ui: &mut Ui, loaded: &Loaded, args: &DoctorArgs) -> Outcome {
    let has_screen = Some(super::top::is_possible(ui));
    let context = DoctorContext { has_screen, ..doctor_context(loaded) };
    let document = loaded.fleet().doctor(&context);
    if args.json {
        ui.json(&document)?;
    } else {
        show(ui, &document.checks)?;
    }
    Ok(super::answered(ui, &document.faults))
}

fn show(ui: &mut Ui, checks: &[Check]) -> std::io::Result<()> {
    const INDENT: &str = "            ";
    let room = ui.width().map_or(usize::MAX, |width| width.saturating_sub(INDENT.len()).max(20));
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
        let text = format!("{}: {}", one_line(&check.name), one_line(&check.detail));
        let mark = ui.paint(style, mark);
        for (at, line) in wrap(&text, room).iter().enumerate() {
            let front = if at == 0 { format!("  {mark}  ") } else { INDENT.to_owned() };
            ui.line(&format!("{front}{line}"))?;
        }
        for line in check.hint.iter().flat_map(|hint| wrap(hint, room)) {
            ui.line(&format!("{INDENT}{line}"))?;
        }
    }
    ui.flush()
}
