//! `agentctl status`: one session in full.

use agentctl_core::ask::{DetailedSession, Fleet, StatusDocument};
use agentctl_core::host::Host;
use clap::{Args, ValueEnum};

use super::ids;
use crate::face::{AgeForm, RowContext, Template, status_lines, unresolved};
use crate::failure::{Failure, Outcome};
use crate::session_table::SessionRow;
use crate::ui::Ui;

/// Show one session in full
///
/// Status and reason, directory, branch, model, processes, times, turns, tokens, cost, how it ended and by
/// whom, and its last message.
#[derive(Args)]
pub(super) struct StatusArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
    /// Output form
    #[arg(short, long, value_name = "FORM", value_enum, conflicts_with_all = ["format", "json"])]
    output: Option<OutputArg>,
    /// Print the session with a template of `list`: '{id} {status}'; `json` is the same as -o json
    ///
    /// The fields are those of `agentctl list --help`.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
    /// Print one JSON object (same as -o json)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputArg {
    /// One JSON object
    Json,
}

impl StatusArgs {
    fn wants_json(&self) -> bool {
        self.json || self.output.is_some() || self.format.as_deref() == Some("json")
    }

    /// Returns the template, checked before any source is asked.
    fn template(&self) -> Result<Option<Template<SessionRow>>, Failure> {
        let text = self.format.as_deref().filter(|text| *text != "json");
        text.map(super::shape::template).transpose()
    }
}

pub(super) fn cmd_status(ui: &mut Ui, fleet: &Fleet, args: &StatusArgs) -> Outcome {
    let host = &fleet.host;
    let template = args.template()?;
    let DetailedSession { document, faults, .. } =
        inspect(fleet, super::named_or_here(args.id.as_deref()))?;
    if args.wants_json() {
        ui.json(&document)?;
    } else if let Some(template) = template {
        let row = SessionRow::alone(document.session);
        ui.line(&template.line(&RowContext { host, now: host.now() }, &row))?;
        ui.flush()?;
    } else {
        for line in painted(ui, host, &document) {
            ui.line(&line)?;
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &faults))
}

/// Reads the session that the user named.
pub(super) fn inspect(fleet: &Fleet, text: &str) -> Result<DetailedSession, Failure> {
    fleet.status(text).map_err(|not_one| unresolved(fleet, text, not_one))
}

/// Returns the lines of a session with the colour of its status.
fn painted(ui: &Ui, host: &Host, document: &StatusDocument) -> Vec<String> {
    let mut lines = status_lines(host, document, ui.width(), AgeForm::Seconds);
    let status = document.session.status;
    // Painted after the lines were wrapped: escape codes take no columns.
    if let Some(first) = lines.first_mut() {
        let word = ui.paint(Ui::status_style(status), status.word());
        *first = first.replacen(status.word(), &word, 1);
    }
    lines
}
