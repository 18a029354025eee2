//! `agentctl diff`: what git says about the work of a session or a group.

use std::process::ExitCode;

use agentctl_core::ask::{DiffRequest, WorkDiff};
use anstyle::{AnsiColor, Style};
use clap::Args;

use crate::config::Loaded;
use crate::face::{diff_files, diff_heading, diff_remarks, no_diff};
use crate::failure::Outcome;
use crate::ui::Ui;

/// Show what changed in the working tree of a session or a group
///
/// git compares the files as they are now, also those that are not committed or not tracked, with the commit that
/// the work began at. Nothing is written into the repository. `agentctl changes` shows what the agent itself
/// recorded.
#[derive(Args)]
pub(super) struct DiffArgs {
    /// A session (id or prefix, name, pid, directory, @last, adapter:id), a group, or a worktree's name
    #[arg(value_name = "ID|GROUP", default_value = ".")]
    id: String,
    /// Print the patch, for `git apply`
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,
    /// Print the files with their numbers of lines (the default)
    #[arg(long)]
    stat: bool,
    /// Compare with this revision [default: where the work began]
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_diff(ui: &mut Ui, loaded: &Loaded, args: &DiffArgs) -> Outcome {
    let fleet = &loaded.fleet();
    let request = DiffRequest {
        of: args.id.clone(),
        base: args.base.clone(),
        patch: args.patch,
        prefix: loaded.defaults.worktree.prefix.clone(),
    };
    let document = fleet.diff(&request).map_err(|why| no_diff(fleet, &args.id, why))?;
    if args.json {
        ui.json(&document)?;
    } else {
        let has_several = document.diffs.len() > 1;
        for (at, diff) in document.diffs.iter().enumerate() {
            if args.patch {
                print_patch(ui, loaded, diff, has_several)?;
            } else {
                if at > 0 {
                    ui.line("")?;
                }
                print_files(ui, loaded, diff)?;
            }
        }
    }
    ui.flush()?;
    let code = super::answered(ui, &document.faults);
    let has_gaps = document
        .diffs
        .iter()
        .any(|diff| !diff.gaps.is_empty() || !diff.dirty_submodules.is_empty());
    Ok(if has_gaps && code == ExitCode::SUCCESS { ExitCode::from(3) } else { code })
}

/// Prints a patch as git wrote it. Everything else goes to stderr.
fn print_patch(
    ui: &mut Ui,
    loaded: &Loaded,
    diff: &WorkDiff,
    has_several: bool,
) -> std::io::Result<()> {
    if has_several {
        ui.flush()?;
        ui.note(&diff_heading(&loaded.host, diff));
    }
    let patch = diff.patch.clone().map(agentctl_core::ask::TextOrBytes::into_bytes);
    let patch = patch.unwrap_or_default();
    if ui.is_terminal() {
        for line in String::from_utf8_lossy(&patch).lines() {
            let style = match line.as_bytes().first() {
                Some(b'+') => AnsiColor::Green.on_default(),
                Some(b'-') => AnsiColor::Red.on_default(),
                Some(b'@') => AnsiColor::Cyan.on_default(),
                Some(b'd') => Style::new().bold(),
                _ => Style::new(),
            };
            let text = ui.paint(style, &crate::text::clean(line));
            ui.drawn(&format!("{text}\n"))?;
        }
    } else {
        ui.raw(&patch)?;
    }
    remark(ui, diff);
    Ok(())
}

fn print_files(ui: &mut Ui, loaded: &Loaded, diff: &WorkDiff) -> std::io::Result<()> {
    ui.line(&diff_heading(&loaded.host, diff))?;
    for line in diff_files(diff) {
        ui.line(&line)?;
    }
    ui.flush()?;
    remark(ui, diff);
    Ok(())
}

fn remark(ui: &mut Ui, diff: &WorkDiff) {
    for remark in diff_remarks(diff) {
        ui.warn(&remark);
    }
}
