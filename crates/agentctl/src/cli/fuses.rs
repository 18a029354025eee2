//! `agentctl fuse set|extend|cancel`, `fuses`: timers with actions that a person sets.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{
    ExtendFuseRequest, Fleet, FuseRequest, FuseSelector, FusesDocument, MAX_COMMAND_BYTES,
};
use agentctl_core::fuses::{Action, Conditions, Fuse};
use agentctl_core::host::Host;
use clap::{Args, Subcommand};

use super::ids;
use super::listed::Listed;
use super::shape::{Shape, ShapeArgs};
use super::watch::watch;
use crate::config::{Loaded, Span};
use crate::face::{
    FuseListRow, FuseSessions, FuseSet, age, extend_fuse, fuse_actions, fuse_conditions, fuse_name,
    fuse_not_changed, local_minute, set_fuse,
};
use crate::failure::{Kind, Outcome};
use crate::session_table;
use crate::text::one_line;
use crate::ui::Ui;

/// Set, extend or cancel a fuse: a timer or budget with actions
///
/// A fuse is bound to a directory or a session. When its time or budget runs out, it stops the agent, runs a
/// command or calls a webhook. `agentctl fuses` lists them.
#[derive(Subcommand)]
pub(super) enum FuseCommand {
    Set(SetArgs),
    Extend(ExtendArgs),
    Cancel(CancelArgs),
}

/// Set a fuse on a directory or a session, and print its id
///
/// The fuse expires when one of its conditions is met. Then the actions of --on-expire are run once, and the event
/// `fuse.expired` is sent. There is one fuse per target and label: setting it again replaces it. Setting a fuse
/// starts the daemon, which fires fuses; a fuse that expired while no daemon ran fires late, never early. An
/// unknown cost or status never expires a fuse.
#[derive(Args)]
pub(super) struct SetArgs {
    /// The directory, which need not exist yet [default: the current one]
    #[arg(value_name = "DIR", conflicts_with = "session")]
    directory: Option<PathBuf>,
    #[arg(long, value_name = "ID", help = ids::INSTEAD_OF_DIRECTORY)]
    session: Option<String>,
    #[command(flatten)]
    when: WhenArgs,
    /// Action: event, stop, run:COMMAND or webhook:URL (repeatable, run in this order) [default: event]
    ///
    /// `event`: only send the event. `stop`: stop the session, or all sessions in the directory, like
    /// `agentctl stop`. `run:COMMAND`: split COMMAND like a shell and run it without one, in the directory,
    /// for at most 300 s, with `AGENTCTL_FUSE_*` variables and the event as JSON on stdin; an interrupted
    /// command is not repeated. `webhook:URL`: post the event to URL.
    #[arg(long, value_name = "ACTION", value_parser = action)]
    on_expire: Vec<Action>,
    /// Label; a target can have one fuse per label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The conditions, as typed.
#[derive(Args)]
struct WhenArgs {
    /// Expire after this time: 30m, 2h, 30d [default: 10m if there is no other condition]
    #[arg(long, value_name = "SPAN")]
    ttl: Option<Span>,
    /// Expire when the session, or every session in the directory, has been idle for this time; a session that
    /// waits for a human is not idle
    #[arg(long, value_name = "SPAN")]
    idle: Option<Span>,
    /// Expire when a process of the session, or of any session in the directory, has run for this time
    #[arg(long, value_name = "SPAN")]
    max_runtime: Option<Span>,
    /// Expire when the session, or any session in the directory, has cost this many dollars; an unknown cost
    /// never counts
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
}

impl WhenArgs {
    fn conditions(&self) -> Conditions {
        Conditions {
            ttl_ms: self.ttl.map(Span::millis),
            idle_ms: self.idle.map(Span::millis),
            max_runtime_ms: self.max_runtime.map(Span::millis),
            max_cost_usd: self.max_cost,
        }
    }
}

/// Restart the timer of a fuse, or change its conditions
///
/// Without a condition the --ttl of the fuse starts again. A given condition replaces the old one; the others
/// stay.
#[derive(Args)]
pub(super) struct ExtendArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    when: WhenArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Cancel a fuse
///
/// Exit code 4 if there is no such fuse.
#[derive(Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The fuse, as typed.
#[derive(Args)]
struct WhichArgs {
    /// The directory, or the id (or prefix) of the fuse [default: the current directory]
    #[arg(value_name = "DIR|ID", conflicts_with = "session")]
    which: Option<PathBuf>,
    #[arg(long, value_name = "ID", help = ids::BOUND_TO)]
    session: Option<String>,
    /// The fuse with this label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

impl WhichArgs {
    fn selector(self) -> FuseSelector {
        let Self { which, session, label } = self;
        FuseSelector { session, directory_or_id: which, label }
    }
}

/// List fuses, the next to expire first
///
/// `interrupted`: the fuse expired, and the daemon ended while its actions ran; a command that was interrupted is
/// not repeated. Such a fuse is listed for a week or until `agentctl fuse cancel`.
#[derive(Args)]
pub(super) struct FusesArgs {
    #[command(flatten)]
    shape: ShapeArgs,
}

/// An action of `--on-expire`, as it is typed and completed.
pub(super) struct ActionWord {
    /// The word; with a colon if a value follows it.
    pub(super) word: &'static str,
    /// The name of the value.
    value: &'static str,
    /// The effect of the action.
    pub(super) what: &'static str,
}

pub(super) const ACTIONS: [ActionWord; 4] = [
    ActionWord { word: "event", value: "", what: "only report that the fuse has expired" },
    ActionWord {
        word: "stop",
        value: "",
        what: "stop the session, or all sessions in the directory",
    },
    ActionWord { word: "run:", value: "COMMAND", what: "run a command" },
    ActionWord { word: "webhook:", value: "URL", what: "post the event to a URL" },
];

/// Returns the forms of an action as an enumeration.
fn action_forms() -> String {
    let forms = ACTIONS.map(|action| format!("{}{}", action.word, action.value));
    let [first, second, third, last] = forms;
    format!("{first}, {second}, {third} or {last}")
}

fn action(text: &str) -> Result<Action, String> {
    match text.split_once(':') {
        None if text == "event" => Ok(Action::Event),
        None if text == "stop" => Ok(Action::Stop),
        Some(("run", _)) if text.len() > MAX_COMMAND_BYTES => {
            Err(format!("it is longer than {MAX_COMMAND_BYTES} bytes; write it into a script"))
        }
        Some(("run", command)) => match shlex::split(command) {
            Some(argv) if !argv.is_empty() => Ok(Action::Run { argv }),
            Some(_) => Err("the command is empty".into()),
            None => Err("a quote in it does not end".into()),
        },
        // Whether the address can be used is checked later, in one place.
        Some(("webhook", url)) if ["https://", "http://"].iter().any(|s| url.starts_with(s)) => {
            Ok(Action::Webhook { url: url.to_owned() })
        }
        Some(("webhook", _)) => Err("write the address like https://example.org/path".into()),
        _ => Err(format!("write {}", action_forms())),
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    amount.ok_or_else(|| format!("`{text}` is not an amount above 0; write it like 5.00"))
}

pub(super) fn cmd_fuse(ui: &mut Ui, loaded: &Loaded, command: FuseCommand) -> Outcome {
    match command {
        FuseCommand::Set(args) => cmd_set(ui, loaded, args),
        FuseCommand::Extend(args) => cmd_extend(ui, loaded, args),
        FuseCommand::Cancel(args) => cmd_cancel(ui, &loaded.fleet(), args),
    }
}

fn cmd_set(ui: &mut Ui, loaded: &Loaded, args: SetArgs) -> Outcome {
    let host = &loaded.host;
    let SetArgs { directory, session, when, on_expire, label, json } = args;
    let request = FuseRequest { session, directory, label, when: when.conditions(), on_expire };
    let changed = set_fuse(loaded, &request)?;
    let set = &changed.document;
    if json {
        ui.json(set)?;
        return say_daemon(ui, &changed);
    }
    if let Some(directory) = set.fuse.directory.as_ref().filter(|_| set.directory_is_missing) {
        let name = session_table::directory(host, directory);
        ui.note(&format!("there is no directory {name} yet"));
    }
    if let Some(replaced) = &set.replaced {
        let text = format!(
            "replaced the fuse that was set {} ago ({}; on expiry: {}); --label keeps both",
            age(host.now(), replaced.set_at),
            fuse_conditions(replaced),
            fuse_actions(replaced)
        );
        ui.note(&one_line(&text));
    }
    ui.line(&set.fuse.id)?;
    ui.flush()?;
    say(ui, host, "set", &changed)
}

fn cmd_extend(ui: &mut Ui, loaded: &Loaded, args: ExtendArgs) -> Outcome {
    let (which, change) = (args.which.selector(), args.when.conditions());
    let extended = extend_fuse(loaded, &ExtendFuseRequest { which, change })?;
    if args.json {
        ui.json(&extended.document)?;
        return say_daemon(ui, &extended);
    }
    say(ui, &loaded.host, "extended", &extended)
}

fn cmd_cancel(ui: &mut Ui, fleet: &Fleet, args: CancelArgs) -> Outcome {
    let host = &fleet.host;
    let json = args.json;
    let cancelled = fleet.cancel_fuse(&args.which.selector());
    let cancelled = cancelled.map_err(|error| fuse_not_changed(fleet, error))?;
    if json {
        ui.json(&cancelled)?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.note(&match &cancelled.fuse {
        Some(fuse) => format!("cancelled {}", fuse_name(host, fuse)),
        None => {
            let directory = cancelled.directory.unwrap_or_default();
            let name = session_table::directory(host, &directory);
            format!("removed the unreadable fuse of {name}")
        }
    });
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_fuses(ui: &mut Ui, loaded: &Loaded, args: &FusesArgs) -> Outcome {
    let (fleet, shape) = (&loaded.fleet(), args.shape.shape::<FuseListRow>()?);
    if shape.is_watched {
        return watch(ui, fleet, &shape, || Ok(listed(loaded, fleet, &shape)));
    }
    let listed = listed(loaded, fleet, &shape);
    listed.print(ui, &fleet.host, &shape)?;
    if !shape.is_for_programs() {
        listed.remarks.iter().for_each(|remark| ui.warn(remark));
    }
    let is_looked = looks_for_sessions(&shape, &listed.document);
    let outcome = Ok(super::answered(ui, &listed.faults));
    if is_looked { super::with_missing_sources(loaded, outcome) } else { outcome }
}

/// Says whether the form shows the states of sessions: only then are sessions looked for.
fn looks_for_sessions(shape: &Shape<FuseListRow>, document: &FusesDocument) -> bool {
    shape.uses("session_state") && document.fuses.iter().any(|fuse| fuse.session.is_some())
}

fn listed(
    loaded: &Loaded,
    fleet: &Fleet,
    shape: &Shape<FuseListRow>,
) -> Listed<FuseListRow, FusesDocument> {
    let host = &fleet.host;
    let mut document = fleet.fuses();
    let is_looked = looks_for_sessions(shape, &document);
    let sessions = is_looked.then(|| FuseSessions::look(fleet, !loaded.sources_may_be_missing()));
    if let Some(sessions) = &sessions {
        document.faults.extend(sessions.faults.iter().cloned());
    }
    let (fuses, faults) = (std::mem::take(&mut document.fuses), document.faults.clone());
    let mut rows = FuseListRow::all(fleet, fuses, sessions.as_ref(), shape.shows_short_ids());
    shape.arrange(host, &mut rows);
    document.fuses = rows.iter().map(|row| row.fuse.clone()).collect();
    let remark =
        |fuse: &Fuse| fuse.note.as_ref().map(|note| format!("{}: {note}", fuse_name(host, fuse)));
    let remarks = document.fuses.iter().filter_map(remark).collect();
    let empty = if faults.is_empty() { "no fuse is set" } else { "no fuse could be shown" };
    Listed { title: "fuses", rows, document, faults, remarks, empty: empty.into() }
}

/// Describes the changed fuse.
fn say(ui: &mut Ui, host: &Host, what: &str, set: &FuseSet) -> Outcome {
    let fuse = &set.document.fuse;
    let until = fuse.due_at.map(|at| format!(", expires at {}", local_minute(at)));
    let text = format!(
        "{what} {}: {}{}; on expiry: {}",
        fuse_name(host, fuse),
        fuse_conditions(fuse),
        until.unwrap_or_default(),
        fuse_actions(fuse)
    );
    ui.note(&one_line(&text));
    say_daemon(ui, set)
}

/// Reports on stderr the daemon and the sources that could not be asked.
fn say_daemon(ui: &mut Ui, set: &FuseSet) -> Outcome {
    if let Some(line) = set.daemon.line() {
        super::print(ui, &line)?;
    }
    for fault in &set.document.faults {
        ui.warn_fault(fault);
    }
    if set.daemon.has_failed() {
        return Ok(ExitCode::from(Kind::Unanswered.exit_code()));
    }
    Ok(ExitCode::SUCCESS)
}
