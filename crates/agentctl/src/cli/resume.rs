//! `agentctl resume`: continue a session where it works, under the same id.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use agentctl_core::ask::{Fleet, LaunchSubject, PromptContext, SendRequest};
use agentctl_core::kernel::{OwnStdin, own_stdin};
use agentctl_core::text::shell_word;
use clap::Args;

use super::ids;
use super::launch::{Flags, ModelFlags, PromptWord, Wanted, prompt, prompt_word, start};
use super::send::Sending;
use crate::config::Loaded;
use crate::face::{not_sent, only_for_start};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Send a message to a session, live or ended
///
/// An ended session continues in its own directory, under its own id, in the background like `agentctl launch`. A
/// live session takes the message by its own channel (`launch --keep`); a session that waits for a human takes none
/// (exit code 10). The command returns once the agent has recorded the message; with --wait or --follow, once the turn
/// that holds it is over. Options for the agent's process, such as --model, are refused for a live session.
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
    /// If the session is at work, wait until its turn is over (with --wait, --timeout limits this too)
    #[arg(long)]
    when_idle: bool,
    #[command(flatten)]
    choice: ModelFlags,
    #[command(flatten)]
    flags: Flags,
    /// The name of the command as it was typed.
    #[arg(skip = "resume")]
    verb: &'static str,
}

impl ResumeArgs {
    /// Remembers which of the names of the command was typed, for its hints.
    pub(super) fn set_verb(&mut self, args: &[OsString]) {
        let typed = args.iter().skip(1).find(|word| *word == "send" || *word == "resume");
        self.verb = if typed.is_some_and(|word| word == "send") { "send" } else { "resume" };
    }
}

pub(super) fn cmd_resume(ui: &mut Ui, loaded: &Loaded, args: ResumeArgs) -> Outcome {
    let outcome = resume(ui, loaded, args);
    if matches!(own_stdin(), OwnStdin::File | OwnStdin::Pipe) && ui.typed_bytes() > 0 {
        ui.warn(
            "the text on stdin was not read and not sent; `-` in the place of the message reads it",
        );
    }
    outcome
}

fn resume(ui: &mut Ui, loaded: &Loaded, args: ResumeArgs) -> Outcome {
    let text = args.message.or(args.prompt);
    if text.is_none() && args.prompt_file.is_none() {
        return Err(no_message(args.verb, args.id.as_deref()));
    }
    let prompt = prompt(text.as_deref(), args.prompt_file.as_deref(), &PromptWord::MESSAGE)?;
    let session = super::named_or_here(args.id.as_deref()).to_owned();
    let after = args.flags.after()?;
    let is_for_live = !args.fork && args.cwd.is_none();
    match args.choice.first_given().or(args.flags.only_for_start()) {
        Some(option) if is_for_live => check_ended(&loaded.fleet(), &session, option)?,
        None if is_for_live => {
            let request = SendRequest {
                session: session.clone(),
                text: message_text(&loaded.fleet(), &session, &prompt)?,
                when_idle: args.when_idle,
                idle_timeout_ms: after.timeout_ms,
            };
            let group = args.flags.group().map(str::to_owned);
            let sending = Sending { request, after, group };
            if let Some(outcome) = sending.to_live(ui, &loaded.fleet()) {
                return outcome;
            }
        }
        _ => {}
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

/// Returns the text of a message. A live session takes text only; a process that is started gets the bytes as they are.
fn message_text(fleet: &Fleet, session: &str, message: &[u8]) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(message);
    if matches!(text, Cow::Owned(_)) && fleet.live_receiver(session).is_ok() {
        let failure = Failure::new(Kind::Usage, "the message is not UTF-8; nothing was sent");
        return Err(failure.hint("`iconv -f latin1 -t utf-8` turns a text in Latin-1 into UTF-8"));
    }
    Ok(text.into_owned())
}

/// Checks that a message starts a process, which can take this option.
fn check_ended(fleet: &Fleet, session: &str, option: &str) -> Result<(), Failure> {
    match fleet.live_receiver(session) {
        Ok(live) => Err(only_for_start(&live, option)),
        // The resume says why it refuses.
        Err(why) if why.is_for_resume() => Ok(()),
        Err(why) => Err(not_sent(fleet, session, why)),
    }
}

/// Says that the message is missing. A lone argument is the session, also where it looks like a message.
fn no_message(verb: &str, id: Option<&str>) -> Failure {
    let here = "for the only session in this directory";
    match id {
        None => Failure::new(Kind::Usage, "no message is given").hint(format!(
            "write `agentctl {verb} ID \"MESSAGE\"`, or `agentctl {verb} -p \"MESSAGE\"` {here}"
        )),
        Some(id) if id.contains(char::is_whitespace) => {
            let message = format!("no session is named, or no message is given: `{id}`");
            let text = prompt_word(id);
            Failure::new(Kind::Usage, message).hint(format!(
                "write `agentctl {verb} ID {text}`, or `agentctl {verb} -p {text}` {here}"
            ))
        }
        Some(id) => {
            Failure::new(Kind::Usage, format!("no message is given for the session `{id}`"))
                .hint(format!("write `agentctl {verb} {} \"MESSAGE\"`", shell_word(id)))
        }
    }
}
