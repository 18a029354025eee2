//! `agentctl resume`: continue a session where it works, under the same id.

use std::path::PathBuf;

use agentctl_core::ask::{Fleet, LaunchSubject};
use clap::Args;

use super::launch::{Flags, Wanted, prompt, start};
use crate::config::Defaults;
use crate::failure::Outcome;
use crate::ui::Ui;

/// Continue a session with a message
///
/// It goes on in its own directory, under its own id, detached like a launch. A session that a live
/// process serves is not touched. The message counts as sent once the session's own record holds it.
#[derive(Args)]
pub(super) struct ResumeArgs {
    /// Session id or prefix, name, or adapter:id
    id: String,
    /// What to say; `-` reads it from stdin
    #[arg(allow_hyphen_values = true)]
    message: String,
    /// Leave the session as it is and go on in a copy with an id of its own
    #[arg(long)]
    fork: bool,
    /// Go on in another directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn cmd_resume(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    args: ResumeArgs,
) -> Outcome {
    let prompt = prompt(Some(&args.message), None, "say something: resume ID MESSAGE")?;
    let session = args.id;
    let subject =
        if args.fork { LaunchSubject::Fork { session } } else { LaunchSubject::Resume { session } };
    // The name that was given at the launch stays with the earlier run.
    let wanted = Wanted { subject, prompt, cwd: args.cwd, name: None };
    start(ui, fleet, defaults, args.flags, wanted)
}
