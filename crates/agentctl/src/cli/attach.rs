//! `agentctl attach`: the terminal of a session.

use std::convert::Infallible;
use std::ffi::OsString;

use agentctl_core::ask::{Attachment, AttachmentWay, OpenCommand, SessionTerminal};
use agentctl_core::host::Host;
use agentctl_core::kernel::{EnvChanges, become_command};
use agentctl_core::model::Session;
use clap::Args;

use super::ids;
use crate::config::Loaded;
use crate::face::{TmuxPane, not_started, session_word, tmux_pane_of};
use crate::failure::{Failure, Kind, Outcome};
use crate::text::one_line;
use crate::ui::Ui;

/// Open a session in a terminal
///
/// Ended session: run the agent's own interactive resume (`claude --resume`, `codex resume`, …) in the session's
/// directory. Live session in tmux: select its pane. Other live session: print which terminal it runs in.
#[derive(Args)]
pub(super) struct AttachArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
}

pub(super) fn cmd_attach(ui: &mut Ui, loaded: &Loaded, args: &AttachArgs) -> Outcome {
    let fleet = &loaded.fleet();
    let attachment = fleet.attachment(super::named_or_here(args.id.as_deref()));
    let attachment = attachment.map_err(|why| not_started(fleet, why))?;
    let Attachment { session, way, faults } = attachment;
    for fault in &faults {
        ui.warn_fault(fault);
    }
    match way {
        AttachmentWay::Open(command) => {
            // Like `resume`, this starts an agent. A terminal that has the session needs no setting.
            loaded.check_launch()?;
            match open(ui, &session, command)? {}
        }
        AttachmentWay::NoInterface => Err(no_interface(&session)),
        AttachmentWay::Terminal(terminal) => go_to(ui, &fleet.host, &session, &terminal),
        AttachmentWay::NoTerminal { pid, launched } => {
            Err(without_terminal(&session, pid, launched))
        }
        AttachmentWay::Server { pid } => Err(in_server(&session, pid)),
    }
}

/// Replaces this program by the agent.
fn open(ui: &mut Ui, session: &Session, command: OpenCommand) -> Result<Infallible, Failure> {
    let id = name(session);
    if !ui.converses() {
        let message = format!("{id} has ended, and its agent needs a terminal to open it");
        let id = session_word(session);
        return Err(Failure::new(Kind::Refused, message).hint(format!(
            "run this in a terminal, or `agentctl resume {id} MESSAGE` to continue without one"
        )));
    }
    ui.flush()?;
    let OpenCommand { program, args, set, unset, cwd } = command;
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    let set = set.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let error = become_command(&program, &args, &EnvChanges { set, unset }, &cwd);
    let message = format!("{} could not be started: {error}", program.display());
    Err(Failure::new(Kind::Failed, message))
}

/// Selects the tmux pane of a terminal, or says where the terminal is.
fn go_to(ui: &mut Ui, host: &Host, session: &Session, terminal: &SessionTerminal) -> Outcome {
    let pane = tmux_pane_of(host, &terminal.tty).map_err(|why| Failure::new(Kind::Failed, why))?;
    let inside_tmux = host.var("TMUX").is_some_and(|tmux| !tmux.is_empty());
    match pane {
        Some(pane) if inside_tmux || ui.converses() => select(ui, host, &pane, inside_tmux),
        Some(TmuxPane { pane, .. }) => {
            let message = format!("{} runs in the tmux pane {pane}", name(session));
            Err(Failure::new(Kind::Refused, message)
                .hint(format!("run this in a terminal, or `tmux attach -t '{pane}'`")))
        }
        None => {
            let by = terminal.program.as_deref().map(|p| format!(", {}", one_line(p)));
            let message = format!(
                "{} runs in another terminal: {} (pid {}{})",
                name(session),
                terminal.tty.display(),
                terminal.pid,
                by.unwrap_or_default()
            );
            let hint = "go to that terminal; only tmux panes can be selected from here";
            Err(Failure::new(Kind::Refused, message).hint(hint))
        }
    }
}

fn select(ui: &mut Ui, host: &Host, pane: &TmuxPane, inside_tmux: bool) -> Outcome {
    let missing = || Failure::new(Kind::Failed, "the program `tmux` is not on your PATH");
    let program = host.which("tmux").ok_or_else(missing)?;
    let args: Vec<OsString> =
        pane.select_args(inside_tmux).into_iter().map(OsString::from).collect();
    ui.flush()?;
    let error = become_command(&program, &args, &EnvChanges::default(), &host.cwd);
    Err(Failure::new(Kind::Failed, format!("{} could not be started: {error}", program.display())))
}

fn no_interface(session: &Session) -> Failure {
    let id = name(session);
    let message =
        format!("{id} cannot be opened: {} has no interface in a terminal", session.adapter);
    let id = session_word(session);
    Failure::new(Kind::Refused, message)
        .hint(format!("`agentctl resume {id} MESSAGE` continues it, `agentctl logs {id}` shows it"))
}

fn without_terminal(session: &Session, pid: u32, launched: bool) -> Failure {
    let id = name(session);
    let why = if launched { "it was launched without a terminal" } else { "it has no terminal" };
    let message = format!("{id} runs in process {pid}: {why}");
    let id = session_word(session);
    Failure::new(Kind::Refused, message).hint(format!(
        "`agentctl logs -f {id}` follows it; once it has ended, `agentctl attach {id}` opens it"
    ))
}

fn in_server(session: &Session, pid: Option<u32>) -> Failure {
    let id = name(session);
    let place = pid.map_or_else(
        || format!("a server of {}", session.adapter),
        |pid| format!("the {} server {pid}", session.adapter),
    );
    let message = format!("{id} runs in {place} and has no terminal of its own");
    let id = session_word(session);
    Failure::new(Kind::Refused, message)
        .hint(format!("`agentctl logs -f {id}` follows it; a client of that server can open it"))
}

fn name(session: &Session) -> String {
    match (&session.id, session.pid) {
        (Some(id), _) => id.clone(),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => session.adapter.to_owned(),
    }
}
