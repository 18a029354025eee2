//! `agentctl changes`: the files that a session changed, as the agent's own records tell it.

use agentctl_core::ask::{ChangesDocument, ChangesRequest, Fleet};
use agentctl_core::model::FileChanges;
use clap::Args;

use super::ids;
use super::listed::Listed;
use super::shape::{Form, Shape, ShapeArgs};
use super::watch::watch;
use crate::face::{changes_not_told, patch_comment, unrecorded_lines};
use crate::failure::{Failure, Kind, Outcome};
use crate::text::clean;
use crate::ui::Ui;

/// Show the files that a session changed, as its agent recorded it
///
/// Only what the agent's own records say, subagents included; refused and failed edits do not count. The last
/// line counts the shell commands that left no record. NOW compares the file with the state that the record
/// leaves it in.
#[derive(Args)]
pub(super) struct ChangesArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
    /// Print the changes in their order as patches for `git apply`
    ///
    /// A change that cannot be applied is a line that begins with `#` and gives the reason. On a terminal control
    /// characters are shown as \x1b. With --json the document has the field `patches`.
    #[arg(short, long, conflicts_with_all = ["watch", "quiet", "sort", "limit"])]
    patch: bool,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_changes(ui: &mut Ui, fleet: &Fleet, args: &ChangesArgs) -> Outcome {
    let shape = args.shape.shape::<FileChanges>()?;
    let id = super::named_or_here(args.id.as_deref()).to_owned();
    let request = ChangesRequest { session: id, patch: args.patch };
    if args.patch {
        return print_patches(ui, fleet, &shape, &request);
    }
    if shape.is_watched {
        return watch(ui, fleet, &shape, || listed(fleet, &shape, &request));
    }
    let listed = listed(fleet, &shape, &request)?;
    listed.print(ui, &fleet.host, &shape)?;
    if !shape.is_for_programs() {
        for line in unrecorded_lines(&listed.document) {
            ui.line(&line)?;
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &listed.faults))
}

fn document(fleet: &Fleet, request: &ChangesRequest) -> Result<ChangesDocument, Failure> {
    fleet.changes(request).map_err(|why| changes_not_told(fleet, &request.session, why))
}

fn listed(
    fleet: &Fleet,
    shape: &Shape<FileChanges>,
    request: &ChangesRequest,
) -> Result<Listed<FileChanges, ChangesDocument>, Failure> {
    let mut document = document(fleet, request)?;
    shape.arrange(&fleet.host, &mut document.files);
    let (rows, faults) = (document.files.clone(), document.faults.clone());
    let empty = "no change of a file is recorded";
    Ok(Listed {
        title: "changes",
        rows,
        document,
        faults,
        remarks: Vec::new(),
        empty: empty.into(),
    })
}

/// Prints the changes as patches: unchanged if they are piped, with control characters neutralised on a terminal.
fn print_patches(
    ui: &mut Ui,
    fleet: &Fleet,
    shape: &Shape<FileChanges>,
    request: &ChangesRequest,
) -> Outcome {
    let document = match shape.form {
        Form::Json | Form::Table => document(fleet, request)?,
        _ => {
            let failure = Failure::new(Kind::Usage, "--patch is a form of its own");
            return Err(failure.hint("`agentctl changes ID --patch --json` has both"));
        }
    };
    if matches!(shape.form, Form::Json) {
        ui.json(&document)?;
        ui.flush()?;
        return Ok(super::answered(ui, &document.faults));
    }
    for patch in document.patches.iter().flatten() {
        if let Some(comment) = patch_comment(patch) {
            ui.line(&comment)?;
        }
        let text = patch.patch.as_deref().unwrap_or_default();
        if ui.is_terminal() {
            ui.drawn(&clean(text))?;
        } else {
            ui.raw(text.as_bytes())?;
        }
    }
    for line in unrecorded_lines(&document) {
        ui.line(&format!("# {line}"))?;
    }
    ui.flush()?;
    Ok(super::answered(ui, &document.faults))
}
