//! `agentctl resume`: continue a session where it works, under the same id.

use std::path::PathBuf;

use agentctl_core::ask::{LaunchSubject, SendRequest};
use clap::Args;

use super::launch::{Flags, Wanted, prompt, start};
use crate::config::Loaded;
use crate::failure::Outcome;
use crate::ui::Ui;

/// Send a message to a session, live or ended
///
/// An ended session goes on in its own directory, under its own id, detached like a launch. A live session takes
/// the message by its own channel (`launch --keep`). The message counts as sent once the session's own record
/// holds it. A session that waits for a human takes none: answer its ask first.
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
    /// If the session is at work, wait until its turn is over
    #[arg(long)]
    when_idle: bool,
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn cmd_resume(ui: &mut Ui, loaded: &Loaded, args: ResumeArgs) -> Outcome {
    let prompt = prompt(Some(&args.message), None, "say something: resume ID MESSAGE")?;
    let session = args.id;
    if !args.fork && args.cwd.is_none() {
        let request = SendRequest {
            session: session.clone(),
            text: String::from_utf8_lossy(&prompt).into_owned(),
            when_idle: args.when_idle,
        };
        if let Some(outcome) = super::send::to_live(ui, &loaded.fleet(), &request, args.flags.json)
        {
            return outcome;
        }
    }
    let subject =
        if args.fork { LaunchSubject::Fork { session } } else { LaunchSubject::Resume { session } };
    // The name that was given at the launch stays with the earlier run.
    let wanted = Wanted { subject, prompt, cwd: args.cwd, name: None };
    start(ui, loaded, args.flags, wanted)
}
