//! `agentctl man`: made from the command tree, so it cannot drift.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Outcome;
use crate::ui::Ui;

/// Print the manual page
#[derive(Args)]
pub(super) struct ManArgs {}

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
