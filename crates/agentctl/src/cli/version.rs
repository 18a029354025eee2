//! `agentctl version`: the same as `agentctl --version`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Outcome;
use crate::ui::Ui;

/// Print the version
#[derive(Args)]
pub(super) struct VersionArgs {}

pub(super) fn cmd_version(ui: &mut Ui) -> Outcome {
    ui.line(concat!("agentctl ", env!("CARGO_PKG_VERSION")))?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}
