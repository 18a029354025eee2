//! `agentctl resume`: continue a session where it works, under the same id.

use std::path::PathBuf;

use agentctl_core::ask::{LaunchSubject, PromptContext, SendRequest};
use clap::Args;

use super::ids;
use super::launch::{Flags, ModelFlags, Wanted, prompt, start};
use crate::config::Loaded;
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Send a message to a session, live or ended
///
/// An ended session continues in its own directory, under its own id, in the background like `agentctl launch`. A
/// live session takes the message by its own channel (`launch --keep`); a session that waits for a human takes none
/// (exit code 10). The command returns once the agent has recorded the message.
#[derive(Args)]
pub(super) struct ResumeArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
    /// The message; `-` reads it from stdin
    #[arg(
        value_name = "MESSAGE",
        allow_hyphen_values = true,
        conflicts_with_all = ["prompt", "prompt_file"]
    )]
    message: Option<String>,
    /// The message as an option; without ID, for the only session in this directory
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the message from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Leave the session unchanged and continue in a copy with a new id
    #[arg(long)]
    fork: bool,
    /// Continue in another directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// If the session is at work, wait until its turn is over
    #[arg(long)]
    when_idle: bool,
    #[command(flatten)]
    choice: ModelFlags,
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn cmd_resume(ui: &mut Ui, loaded: &Loaded, args: ResumeArgs) -> Outcome {
    let text = args.message.or(args.prompt);
    if text.is_none() && args.prompt_file.is_none() {
        return Err(no_message(args.id.as_deref()));
    }
    let hint = "write `agentctl resume ID \"MESSAGE\"`";
    let prompt = prompt(text.as_deref(), args.prompt_file.as_deref(), hint)?;
    let session = super::named_or_here(args.id.as_deref()).to_owned();
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
    // The session keeps its name: names belong to sessions, not to runs.
    let context = PromptContext::default();
    let choice = (args.choice.permissions(), args.choice.model);
    let (cwd, name, worktree) = (args.cwd, None, None);
    let wanted = Wanted { subject, prompt, cwd, name, context, worktree, choice };
    start(ui, loaded, args.flags, wanted)
}

/// Says that the message is missing. A lone argument is the session, also where it looks like a message.
fn no_message(id: Option<&str>) -> Failure {
    match id {
        None => Failure::new(Kind::Usage, "no message is given")
            .hint("write `agentctl resume ID \"MESSAGE\"`, or `agentctl resume -p \"MESSAGE\"` for the only session in this directory"),
        Some(id) if id.contains(char::is_whitespace) => {
            Failure::new(Kind::Usage, format!("no session is named, or no message is given: `{id}`"))
                .hint(format!("write `agentctl resume ID \"{id}\"`, or `agentctl resume -p \"{id}\"` for the only session in this directory"))
        }
        Some(id) => Failure::new(Kind::Usage, format!("no message is given for the session `{id}`"))
            .hint(format!("write `agentctl resume {id} \"MESSAGE\"`")),
    }
}
