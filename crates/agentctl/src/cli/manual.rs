//! `agentctl completions`: made from the command tree, so that it cannot differ from it.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Outcome;
use crate::ui::Ui;

/// Print a completion script for a shell
#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub(super) fn cmd_completions(ui: &mut Ui, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "agentctl", &mut script);
    ui.raw(&script)?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}
