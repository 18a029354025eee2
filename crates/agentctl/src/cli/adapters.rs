//! `agentctl adapters`: the supported agents, installed or not, and the capabilities of each.

use std::process::ExitCode;

use agentctl_core::ask::{AdapterRow, AdaptersDocument, Fleet};
use agentctl_core::host::Host;
use clap::Args;

use super::listed::Listed;
use super::shape::{Form, Shape, ShapeArgs};
use super::watch::watch;
use crate::face::{CONTROL_COLUMNS, RowContext, asks_in_words, columns_table, messages_in_words};
use crate::failure::Outcome;
use crate::text::wrap;
use crate::ui::Ui;

/// Fewest columns of words beside the name of an agent.
const MIN_ROOM: usize = 10;

/// List supported agents and what agentctl can do with each
///
/// The first table shows what agentctl reads of each agent, the second what `launch --permissions` means for it,
/// and the last lines how `stop` ends it. With `-o wide` on a terminal the last lines show which asks can be answered
/// and which sessions take messages.
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
    let is_cut = matches!(shape.form, Form::WideTable) && shape.canvas(ui).width.is_some();
    if is_cut && shape.has_headers {
        show_answering(ui, &shape, &listed.rows)?;
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
    let stops = |row: &AdapterRow| {
        row.control.as_ref().map_or("not from here".to_owned(), |c| c.stop.clone())
    };
    show_words(ui, shape, rows, &[("stop", &stops)])?;
    ui.flush()
}

/// Shows for every agent whether it asks and is spoken to: a terminal leaves out the columns about that.
fn show_answering(
    ui: &mut Ui,
    shape: &Shape<AdapterRow>,
    rows: &[AdapterRow],
) -> std::io::Result<()> {
    ui.line("")?;
    show_words(ui, shape, rows, &[("asks", &asks_in_words), ("messages", &messages_in_words)])?;
    ui.flush()
}

/// The subject of a line about an agent, and its words.
type Words<'a> = (&'a str, &'a dyn Fn(&AdapterRow) -> String);

/// Shows lines of words about every agent, broken for the terminal.
fn show_words(
    ui: &mut Ui,
    shape: &Shape<AdapterRow>,
    rows: &[AdapterRow],
    subjects: &[Words<'_>],
) -> std::io::Result<()> {
    let names = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let longest = subjects.iter().map(|(subject, _)| subject.len()).max().unwrap_or_default();
    let indent = longest + 1 + names + 2;
    let room =
        shape.canvas(ui).width.map_or(usize::MAX, |all| all.saturating_sub(indent).max(MIN_ROOM));
    for (subject, words) in subjects {
        for row in rows {
            for (at, line) in wrap(&words(row), room).iter().enumerate() {
                let name = if at == 0 { format!("{subject} {}", row.name) } else { String::new() };
                ui.line(&format!("{name:<indent$}{line}"))?;
            }
        }
    }
    Ok(())
}
