//! `agentctl resume`: continue a session where it works, under the same id.

use std::path::PathBuf;

use agentctl_core::adapters::control::Begin;
use agentctl_core::ask::{Fleet, InspectedSession, is_remote};
use clap::Args;

use super::launch::{Flags, Wanted, prompt, start};
use super::status::inspect;
use crate::config::Defaults;
use crate::face::{directory_on_server, no_session};
use crate::failure::{Failure, Kind, Outcome};
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
    let host = &fleet.host;
    let InspectedSession { target, session, faults } = inspect(fleet, &args.id)?;
    for fault in &faults {
        ui.warn_fault(fault);
    }
    let Some(id) = session.id.clone() else {
        let pid = session.pid.unwrap_or_default();
        return Err(Failure::new(Kind::Refused, format!("pid {pid} serves no session yet"))
            .hint("`agentctl list` shows when it does"));
    };
    if let Some(parent) = &session.parent {
        return Err(Failure::new(Kind::Refused, format!("{id} is a subagent of {parent}"))
            .hint(format!("`agentctl resume {parent} …` continues the session it belongs to")));
    }
    let adapter = fleet.adapter(session.adapter).ok_or_else(|| no_session(&args.id))?;
    let cwd = match (args.cwd, &session.cwd) {
        // It goes on in its server, which knows where.
        (None, None) if is_remote(adapter) => host.cwd.clone(),
        (Some(_), _) if is_remote(adapter) => return Err(directory_on_server(adapter)),
        (Some(dir), _) => host.cwd.join(dir),
        (None, Some(dir)) => PathBuf::from(dir),
        (None, None) => {
            return Err(Failure::new(
                Kind::Failed,
                format!("where session {id} worked is not known"),
            )
            .hint("name the directory with --cwd"));
        }
    };
    let prompt = prompt(Some(&args.message), None, "say something: resume ID MESSAGE")?;
    let begin = if args.fork { Begin::Fork(id) } else { Begin::Resume(id) };
    // It continues as what it was: a name given at its launch stays with its run.
    let wanted = Wanted { adapter, prompt, begin, cwd, name: None, from: Some(target) };
    start(ui, fleet, defaults, args.flags, wanted)
}
