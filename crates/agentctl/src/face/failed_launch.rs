//! Launches in words: remarks on the way, and why one failed, what to do about it, and with which exit code.

use agentctl_core::adapters::ALL;
use agentctl_core::ask::{ContextError, Fleet, LaunchNews, NoAdapter, NotContinued, NotStarted};
use agentctl_core::host::Host;
use agentctl_core::launch::LaunchError;
use agentctl_core::runs::Attendance;
use agentctl_core::text::shell_word;

use super::fuses::span;
use super::holders::holder_in_sentence;
use super::{kept_worktree_hint, not_made, refused_word, session_word, unresolved};
use crate::failure::{Failure, Kind};
use crate::text::{nearest, path_word, with_tilde};

/// Returns a remark about a launch that is on its way; `None` where the report is a fault or a result.
#[must_use]
pub fn launch_remark(news: &LaunchNews<'_>) -> Option<String> {
    match news {
        LaunchNews::FirstInstalled { adapter } => Some(format!("launching {adapter}")),
        LaunchNews::HooksNotRun => {
            Some("it runs on a server: the configured hooks are not run for it".to_owned())
        }
        LaunchNews::AsBefore(again) => Some(as_before(again)),
        LaunchNews::Beside(holder) => {
            Some(format!("beside {}, which this was launched from", holder.what))
        }
        LaunchNews::WorktreeKept { made, why } => {
            let (path, hint) = (made.path.display(), kept_worktree_hint(&made.name));
            Some(format!("the worktree {path} is kept: {why}; {hint}"))
        }
        LaunchNews::WorktreeRemoved { made } => {
            Some(format!("the worktree {} is removed again", made.path.display()))
        }
        _ => None,
    }
}

/// Says what a session that goes on has of its last run.
fn as_before(again: &Attendance) -> String {
    let idle = again.keep_idle_ms.map(|idle_ms| format!("={}", span(idle_ms)));
    let keep = again.keep.then(|| format!("--keep{}", idle.unwrap_or_default()));
    let flags = keep.into_iter().chain(again.ask_ms.map(|_| "--ask".to_owned()));
    format!("it goes on with {}, like its last run", flags.collect::<Vec<_>>().join(" and "))
}

/// Says that an agent on a server cannot be given a directory.
fn directory_on_server(adapter: &str) -> Failure {
    let message = format!(
        "{adapter} runs on a server, which chooses the directory: --cwd and --worktree are not supported"
    );
    Failure::new(Kind::Usage, message).hint("leave it out")
}

/// Returns the hint for a word that is not an adapter: the adapter that was probably meant, and all of them.
#[must_use]
pub fn adapters_hint(word: &str) -> String {
    let known: Vec<_> = ALL.iter().map(|adapter| adapter.name()).collect();
    let all = format!("adapters: {}", known.join(", "));
    match nearest(word, known) {
        Some(meant) => format!("did you mean `{meant}`? {all}"),
        None => all,
    }
}

/// Says why no agent could be chosen.
fn no_adapter(why: &NoAdapter) -> Failure {
    match why {
        NoAdapter::Unknown(name) => {
            Failure::new(Kind::Usage, format!("there is no adapter named `{name}`"))
                .hint(adapters_hint(name))
        }
        NoAdapter::NoneInstalled => Failure::new(
            Kind::Failed,
            "no coding agent is installed, or none is on your PATH",
        )
        .hint("`agentctl launch demo -p …` needs none; `agentctl adapters` lists the supported agents"),
    }
}

/// Says why a session cannot go on.
fn not_continued(fleet: &Fleet, text: &str, why: NotContinued) -> Failure {
    match why {
        NotContinued::NotOne(not_one) => unresolved(fleet, text, not_one),
        NotContinued::NoSession { pid } => {
            Failure::new(Kind::Refused, format!("pid {pid} has no session yet"))
                .hint("`agentctl list` shows when it does")
        }
        NotContinued::Subagent { id, parent } => {
            Failure::new(Kind::Refused, format!("{id} is a subagent of {parent}")).hint(format!(
                "`agentctl resume {} …` continues the session it belongs to",
                shell_word(&parent)
            ))
        }
        NotContinued::DirectoryOnServer(adapter) => directory_on_server(adapter),
        NotContinued::UnknownDirectory { id } => {
            Failure::new(Kind::Failed, format!("the directory of session {id} is unknown"))
                .hint("name the directory with --cwd")
        }
    }
}

/// Says that a session has begun and that no source of this host shows it.
#[must_use]
pub fn unseen_after_launch(id: &str) -> Failure {
    let message = format!("session {id} started, but no source on this machine shows it");
    let failure = Failure::new(Kind::Unanswered, message).unclear();
    failure.hint("its home may be another one: see `agentctl doctor`")
}

/// Says why an order was not carried out.
#[must_use]
pub fn not_started(fleet: &Fleet, why: NotStarted) -> Failure {
    match why {
        NotStarted::NoAdapter(why) => no_adapter(&why),
        NotStarted::NotContinued { text, why } => not_continued(fleet, &text, why),
        NotStarted::DirectoryOnServer(agent) => directory_on_server(agent),
        NotStarted::HookOnServer(agent) => {
            let message = format!("{agent} runs on a server: no hook is run for it");
            Failure::new(Kind::Usage, message).hint("leave the hook out")
        }
        NotStarted::AskLimit(agent) => {
            let message =
                format!("--ask takes no time with {agent}: its server waits without a limit");
            Failure::new(Kind::Usage, message).hint("use --ask alone")
        }
        NotStarted::CannotAskOrStay(refusal) => {
            let failure = Failure::new(Kind::Refused, refusal.message);
            refusal.hint.into_iter().fold(failure, Failure::hint)
        }
        NotStarted::ModelIsOption(model) => {
            let message = format!(
                "`{model}` is no model: it begins with a dash, and the agent would read it as an option"
            );
            Failure::new(Kind::Usage, message)
                .hint("name a model, or give options of the agent after `--`")
        }
        NotStarted::Hook { moment, why } => {
            let message = format!("nothing was launched: the {} hook: {why}", moment.word());
            Failure::new(Kind::Failed, message)
                .hint("to run a program that is installed later, use `sh -c '…'`")
        }
        NotStarted::Words(why) => refused_word(&why),
        NotStarted::Context(why) => no_context(&why),
        NotStarted::Slots(why) => Failure::new(Kind::Usage, why.to_string()).hint(why.hint()),
        NotStarted::InSlot { slot, why } => {
            not_started(fleet, *why).within(&format!("slot {slot}"))
        }
        NotStarted::NoPrompt => Failure::new(Kind::Usage, "no prompt is given")
            .hint("give it with -p, or write it into the matrix file"),
        NotStarted::Worktree(error) => not_made(&fleet.host, &error),
        NotStarted::WorktreeOfContinued => {
            Failure::new(Kind::Usage, "a session that goes on works in its own directory")
                .hint("leave the worktree out, or launch a new session")
        }
        NotStarted::Failed(error) => failed(&fleet.host, error),
    }
}

/// Says why the context of a prompt could not be put together.
fn no_context(why: &ContextError) -> Failure {
    let kind = if why.is_usage() { Kind::Usage } else { Kind::Failed };
    Failure::new(kind, why.to_string()).hint(why.hint())
}

/// Says why a launch failed, what to do about it, and with which exit code.
fn failed(host: &Host, error: LaunchError) -> Failure {
    let message = error.to_string();
    match error {
        LaunchError::Refused(refusal) => {
            let failure = Failure::new(Kind::Failed, message);
            match refusal.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        LaunchError::Unheeded { why, .. } => {
            Failure::new(Kind::Usage, message).hint(format!("leave it out: {why}"))
        }
        LaunchError::Directory { .. } => {
            Failure::new(Kind::Failed, message).hint("name another directory with --cwd")
        }
        LaunchError::Held { directory, holders } => {
            let by: Vec<String> = holders.iter().map(|h| holder_in_sentence(host, h)).collect();
            let path = directory.to_string_lossy();
            let shown = with_tilde(&host.home, &path);
            let message = format!("{shown} is {}", by.join(" and "));
            let stop =
                holders.iter().find_map(|h| h.session.clone().or(h.pid.map(|p| p.to_string())));
            let failure = Failure::new(Kind::Refused, message);
            match stop {
                Some(id) => failure.hint(format!(
                    "`agentctl stop {}` ends it; --force launches beside it",
                    shell_word(&id)
                )),
                None => failure.hint(format!(
                    "`agentctl unlock {}` removes the lock; --force launches anyway",
                    path_word(&host.home, &path)
                )),
            }
        }
        LaunchError::Unanswered { agent, .. } => Failure::new(Kind::Unanswered, message)
            .unclear()
            .hint(format!("`agentctl list -a --adapter {agent}` lists its sessions")),
        LaunchError::Unsure { .. } => Failure::new(Kind::Refused, message)
            .hint("`agentctl doctor` shows what is wrong; --force launches anyway"),
        LaunchError::Busy { .. } => {
            Failure::new(Kind::Refused, message).hint("try again later; --force launches anyway")
        }
        LaunchError::Unclear { .. } => Failure::new(Kind::Refused, message).hint("try again"),
        LaunchError::Objected { hint, .. } => {
            let failure = Failure::new(Kind::Refused, message);
            hint.iter().fold(failure, Failure::hint)
        }
        LaunchError::MayBeServed(_) => Failure::new(Kind::Refused, message)
            .hint("--force resumes it anyway; if that process runs the session, stop it first"),
        LaunchError::Served(session) => {
            let id = session_word(&session);
            Failure::new(Kind::Refused, message).hint(format!(
                "`agentctl stop {id}` first, or `resume --fork` where the agent supports it"
            ))
        }
        LaunchError::Died { advice, .. }
        | LaunchError::Failed { advice, .. }
        | LaunchError::Unheard { advice, .. } => {
            let failure = Failure::new(Kind::Failed, message);
            advice
                .into_iter()
                .fold(failure, Failure::hint)
                .hint("`agentctl runs @last --stderr` shows its whole output")
        }
        LaunchError::Silent { .. } => Failure::new(Kind::Failed, message)
            .hint("`launch = \"30s\"` below [deadline] in the configuration gives it longer"),
        LaunchError::TooDeep { .. } | LaunchError::TooManyChildren { .. } => {
            Failure::new(Kind::Refused, message).hint(
                "a person can launch it, or raise [limits] in the configuration of the first agent",
            )
        }
        LaunchError::UnknownDepth { .. } => {
            Failure::new(Kind::Refused, message).hint("a person can launch it from a terminal")
        }
        LaunchError::CalledOff { .. } | LaunchError::NotBegun { .. } | LaunchError::Io { .. } => {
            Failure::new(Kind::Failed, message)
        }
    }
}
