//! `agentctl worktree clean`: removes worktrees of which everything is elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{CleanDocument, CleanRequest, Fleet};
use agentctl_core::worktrees::{CleanAction, CleanNews, CleanSelection};
use clap::Args;

use super::super::interrupt::Interrupt;
use crate::config::Loaded;
use crate::face::{clean_line, finished_line, not_cleaned, rescue_lines, rescued_line};
use crate::failure::{Failure, Kind, Outcome};
use crate::text::counted;
use crate::ui::Ui;

/// Remove worktrees of which everything is elsewhere
///
/// A worktree goes only if no session or process is in it, all files are committed, and its commits are on its base
/// branch (also squashed), on another branch or on a remote. Everything else is kept, with the reason. Without a
/// name all worktrees of agentctl are looked at; on a terminal it asks first. --ignored without a name and --rescued
/// can lose something: off a terminal they need -y. Exit code 5 if a named worktree is kept.
#[derive(Args)]
pub(in crate::cli) struct WorktreeCleanArgs {
    /// Directories, names or branches of worktrees; also branches of agentctl without one
    #[arg(value_name = "PATH|NAME", conflicts_with_all = ["merged", "ended", "group"])]
    names: Vec<String>,
    /// Only worktrees whose commits are in the branch that they began from
    #[arg(long, conflicts_with_all = ["ended", "group"])]
    merged: bool,
    /// Only worktrees in which a session worked and none is live
    #[arg(long, conflicts_with = "group")]
    ended: bool,
    /// The worktrees of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Delete rescue refs that are older than 90 days, and no worktree
    #[arg(long, conflicts_with_all = ["names", "merged", "ended", "group", "keep_branch", "ignored"])]
    rescued: bool,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Leave the branches
    #[arg(long)]
    keep_branch: bool,
    /// Remove named worktrees with work in them, after saving it in a rescue ref
    #[arg(long, requires = "names")]
    force: bool,
    /// Remove ignored files too, such as .env
    #[arg(long)]
    ignored: bool,
    /// A directory of the repository [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Do not ask for confirmation; required off a terminal for --rescued, and for --ignored without a name
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl WorktreeCleanArgs {
    fn which(&self) -> CleanSelection {
        match (&self.group, self.merged, self.ended) {
            _ if self.rescued => CleanSelection::Rescued,
            _ if !self.names.is_empty() => CleanSelection::Named(self.names.clone()),
            (Some(group), _, _) => CleanSelection::Group(group.clone()),
            (_, true, _) => CleanSelection::Merged,
            (_, _, true) => CleanSelection::Ended,
            _ => CleanSelection::All,
        }
    }

    /// Says whether it must be confirmed: on a terminal what acts on more than was named, and everywhere what can
    /// lose something that is nowhere else.
    fn needs_consent(&self, ui: &Ui) -> bool {
        let is_asked = self.yes || self.dry_run || !self.names.is_empty();
        let can_lose = self.rescued || self.ignored;
        let converses = ui.converses() && !self.json;
        !is_asked && (can_lose || (converses && self.group.is_none()))
    }
}

pub(super) fn cmd_clean(ui: &mut Ui, loaded: &Loaded, args: &WorktreeCleanArgs) -> Outcome {
    let mut request = CleanRequest {
        directory: args.cwd.clone(),
        which: args.which(),
        dry_run: args.dry_run,
        keep_branch: args.keep_branch,
        force: args.force,
        ignored: args.ignored,
        settings: loaded.defaults.worktree.clone(),
    };
    let fleet = loaded.fleet();
    if args.needs_consent(ui) {
        request.dry_run = true;
        let preview = run(ui, &fleet, &request)?;
        if removed(&preview) > 0 {
            confirm(ui, loaded, args, &preview)?;
        }
        request.dry_run = false;
    }
    let interrupt = Interrupt::listen(&fleet.cancellation)?;
    let document = run(ui, &fleet, &request)?;
    if args.json {
        ui.json(&document)?;
    } else {
        print(ui, loaded, &document, args.rescued)?;
    }
    interrupt.end_called_off(ui, "interrupted: worktrees that are not listed are as they were")?;
    let kept = document.worktrees.iter().any(|row| row.named && row.action == CleanAction::Kept);
    let stays = document.rescued.iter().any(|rescued| !rescued.deleted);
    let all_stay = removed(&document) == 0 && !document.worktrees.is_empty();
    if !args.json
        && all_stay
        && let Some(hint) = next_step(&document, args.force)
    {
        ui.hint(&hint);
    }
    let code = super::super::answered(ui, &document.faults);
    Ok(if kept || stays { ExitCode::from(Kind::Refused.exit_code()) } else { code })
}

/// Says what can be done with worktrees that are kept. Without a directory there is nothing to compare or to take.
fn next_step(document: &CleanDocument, is_forced: bool) -> Option<String> {
    let mut steps = Vec::new();
    let has_directory = |path: &PathBuf| path.symlink_metadata().is_ok();
    if document.worktrees.iter().any(|row| row.path.as_ref().is_some_and(has_directory)) {
        steps.push("`agentctl diff NAME` shows the work of a worktree");
        steps.push("`agentctl worktree take NAME` takes it into its branch");
    }
    if !is_forced && document.worktrees.iter().any(|row| row.forcible) {
        steps.push("`agentctl worktree clean NAME --force` removes it after saving it");
    }
    let (last, first) = steps.split_last()?;
    let and = if first.len() > 1 { ", and " } else { ", " };
    let first = first.join(", ");
    let steps = if first.is_empty() { (*last).to_owned() } else { format!("{first}{and}{last}") };
    Some(format!("no worktree was removed: {steps}"))
}

fn run(ui: &mut Ui, fleet: &Fleet, request: &CleanRequest) -> Result<CleanDocument, Failure> {
    let shows_progress = ui.shows_progress() && ui.is_terminal();
    let mut tell = |news: CleanNews| {
        if let (true, CleanNews::Removing(path)) = (shows_progress, &news) {
            ui.note(&format!("removing {}", path.display()));
        }
    };
    fleet.clean_worktrees(request, &mut tell).map_err(|error| not_cleaned(&fleet.host, &error))
}

fn removed(document: &CleanDocument) -> usize {
    let worktrees = document.worktrees.iter().filter(|row| row.action == CleanAction::Removed);
    worktrees.count() + document.rescued.len()
}

/// Shows what is to be removed. On a terminal the user must confirm; elsewhere `-y` is required.
fn confirm(
    ui: &mut Ui,
    loaded: &Loaded,
    args: &WorktreeCleanArgs,
    preview: &CleanDocument,
) -> Result<(), Failure> {
    let count = removed(preview);
    let noun = if args.rescued { "rescue ref" } else { "worktree" };
    let what = counted(count, noun);
    if !args.json {
        print(ui, loaded, preview, args.rescued)?;
    }
    if args.json || !ui.converses() {
        let message = format!("nothing was removed: removing {what} needs a confirmation");
        let failure = Failure::new(Kind::Refused, message).hint(if args.rescued {
            "add -y to confirm; on a terminal this command asks"
        } else {
            "add -y to confirm, or name the worktrees; on a terminal this command asks"
        });
        let rows = preview.worktrees.iter().filter(|row| row.action == CleanAction::Removed);
        let names = rows.filter_map(|row| row.name.clone());
        let refs = preview.rescued.iter().map(|rescued| rescued.reference.clone());
        let names = names.chain(refs).filter(|_| args.json);
        return Err(names.fold(failure, Failure::candidate));
    }
    if ui.confirm(&format!("remove {what}?"))? {
        return Ok(());
    }
    Err(Failure::new(Kind::Refused, "nothing was removed"))
}

fn print(
    ui: &mut Ui,
    loaded: &Loaded,
    document: &CleanDocument,
    is_rescued: bool,
) -> std::io::Result<()> {
    for rescued in &document.rescued {
        ui.line(&rescued_line(rescued, document.dry_run))?;
    }
    if is_rescued && document.rescued.is_empty() {
        ui.note("there are no rescue refs that are older than 90 days");
    } else if !is_rescued && document.worktrees.is_empty() {
        ui.note("there are no such worktrees");
    }
    for row in &document.worktrees {
        let (word, rest) = clean_line(&loaded.host, row, document.dry_run);
        ui.hanging_line(&word, &rest)?;
        for line in rescue_lines(row) {
            ui.line(&line)?;
        }
    }
    for path in &document.finished {
        ui.line(&finished_line(&loaded.host, path, document.dry_run))?;
    }
    ui.flush()?;
    for warning in &document.warnings {
        ui.warn(warning);
    }
    for row in &document.worktrees {
        for warning in &row.warnings {
            ui.warn(warning);
        }
    }
    Ok(())
}
