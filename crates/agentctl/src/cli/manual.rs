//! `agentctl completions` and `agentctl man`: made from the command tree, so they cannot drift.

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

/// Print the manual page
#[derive(Args)]
pub(super) struct ManArgs {}

pub(super) fn cmd_completions(ui: &mut Ui, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "agentctl", &mut script);
    ui.raw(&script)?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_man(ui: &mut Ui, _args: &ManArgs) -> Outcome {
    let mut page = Vec::new();
    let command = super::command();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        let man = clap_mangen::Man::new(sub.clone());
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    ui.raw(&page)?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}
