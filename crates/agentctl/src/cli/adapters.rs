//! `agentctl adapters`: the supported agents, installed or not, and the capabilities of each.

use std::process::ExitCode;

use agentctl_core::ask::{AdapterRow, AdaptersDocument, Fleet};
use agentctl_core::host::Host;
use clap::Args;

use super::listed::Listed;
use super::shape::{Form, Shape, ShapeArgs};
use super::watch::watch;
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
    let shape = args.shape.shape::<AdapterRow>()?;
    if shape.is_watched {
        return watch(ui, fleet, &shape, || Ok(listed(fleet, &shape)));
    }
    let listed = listed(fleet, &shape);
    listed.print(ui, &fleet.host, &shape)?;
    if matches!(shape.form, Form::Table) && shape.has_headers {
        show_control(ui, &fleet.host, &shape, &listed.rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(fleet: &Fleet, shape: &Shape<AdapterRow>) -> Listed<AdapterRow, AdaptersDocument> {
    let mut document = fleet.adapters();
    shape.arrange(&fleet.host, &mut document.adapters);
    let rows = document.adapters.clone();
    let (faults, remarks) = (Vec::new(), Vec::new());
    Listed {
        title: "adapters",
        rows,
        document,
        faults,
        remarks,
        empty: "no agent is supported".into(),
    }
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
