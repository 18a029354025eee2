//! `agentctl adapters`: the supported agents, installed or not, and the capabilities of each.

use std::process::ExitCode;

use agentctl_core::ask::{AdapterRow, Fleet};
use agentctl_core::host::Host;
use clap::Args;

use super::shape::{Form, Shape, ShapeArgs};
use crate::face::{CONTROL_COLUMNS, RowContext, columns_table};
use crate::failure::Outcome;
use crate::text::wrap;
use crate::ui::Ui;

/// List supported agents and what agentctl can do with each
///
/// The first table shows what agentctl reads of each agent, the second what `launch --permissions` means for it,
/// and the last lines how `stop` ends it.
#[derive(Args)]
pub(super) struct AdaptersArgs {
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_adapters(ui: &mut Ui, fleet: &Fleet, args: &AdaptersArgs) -> Outcome {
    let (host, shape) = (&fleet.host, args.shape.shape::<AdapterRow>()?);
    let mut document = fleet.adapters();
    shape.arrange(host, &mut document.adapters);
    shape.print(ui, host, &document.adapters, &document)?;
    if matches!(shape.form, Form::Table) && shape.has_headers {
        show_control(ui, host, &shape, &document.adapters)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_control(
    ui: &mut Ui,
    host: &Host,
    shape: &Shape<AdapterRow>,
    rows: &[AdapterRow],
) -> std::io::Result<()> {
    let context = RowContext { host, now: host.now() };
    let controlled = rows.iter().filter(|row| row.control.is_some());
    let table = columns_table(&context, CONTROL_COLUMNS, controlled);
    ui.line("")?;
    ui.drawn(&table.draw(shape.canvas(ui), true))?;
    ui.line("")?;
    let names = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    for row in rows {
        let how = row.control.as_ref().map_or("not from here", |can| can.stop.as_str());
        let indent = "stop ".len() + names + 2;
        let room =
            shape.canvas(ui).width.map_or(usize::MAX, |all| all.saturating_sub(indent).max(20));
        for (at, line) in wrap(how, room).iter().enumerate() {
            let name = if at == 0 { format!("stop {}", row.name) } else { String::new() };
            ui.line(&format!("{name:<indent$}{line}"))?;
        }
    }
    ui.flush()
}
