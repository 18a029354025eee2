//! `agentctl fuse set|extend|cancel`, `fuses`: timers with actions that a person sets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use agentctl_core::ask::Fleet;
use agentctl_core::fuses::{
    self, Action, Bound, Conditions, Fuse, FuseError, FuseOrder, FuseState, cancel, clear, extend,
    set,
};
use agentctl_core::host::Host;
use agentctl_core::{hooks, marks};
use anstyle::{AnsiColor, Style};
use clap::{Args, Subcommand};

use super::locks::{directory, short, shown};
use super::table;
use crate::config::{Loaded, Span, WebhookEndpoint};
use crate::face::{age, local_minute};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::text::one_line;
use crate::ui::Ui;

/// Longest label, in characters.
const MAX_LABEL_CHARS: usize = 200;
/// Longest command, in bytes.
const MAX_COMMAND_BYTES: usize = 16 << 10;
/// Longest address, in bytes.
const MAX_URL_BYTES: usize = 2000;
/// Time to live of a fuse without any condition.
const DEFAULT_TTL_MS: u64 = 10 * 60_000;
/// Shortest prefix of an id that is accepted.
const MIN_PREFIX_CHARS: usize = 4;

/// Set, extend or cancel a fuse: a timer with actions
#[derive(Subcommand)]
pub(super) enum FuseCommand {
    Set(SetArgs),
    Extend(ExtendArgs),
    Cancel(CancelArgs),
}

/// Set a fuse on a directory or a session, and print its id
///
/// It burns down when any one of its conditions comes true, and then does what --on-expire says, once.
/// That it did is told in any case, as the event `fuse.expired`. There is one fuse for a target and
/// label: setting it again replaces it. Times are those of the clock on the wall; what came due while
/// nobody was awake is done late, never early. What is not known makes no fuse burn down.
#[derive(Args)]
pub(super) struct SetArgs {
    /// The directory; the current one if not given. It need not exist
    #[arg(value_name = "DIR", conflicts_with = "session")]
    directory: Option<PathBuf>,
    /// A session instead of a directory: id or prefix, name, pid, or adapter:id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    when: WhenArgs,
    /// What is done then (repeat for more, done in this order): event | stop | run:COMMAND | webhook:URL
    ///
    /// `event` tells and does no more [default]. `stop` stops the session, or all that work in the
    /// directory, as `agentctl stop` does. `run:` splits COMMAND by shell-word rules and runs it without
    /// a shell, for at most 300 s, in the directory, with `AGENTCTL_FUSE_*` variables and the event as JSON
    /// on stdin; a command that was cut short is not repeated. `webhook:` posts the event to URL.
    #[arg(long, value_name = "ACTION", value_parser = action)]
    on_expire: Vec<Action>,
    /// A few words; a target can have one fuse for each label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

/// The conditions, as typed.
#[derive(Args)]
struct WhenArgs {
    /// After this time: 30m, 2h, 30d [default: 10m where no condition is given]
    #[arg(long, value_name = "SPAN")]
    ttl: Option<Span>,
    /// When the session, or every session in the directory, has been `idle` for this long by its own
    /// record's time; one that waits for a human is not idle
    #[arg(long, value_name = "SPAN")]
    idle: Option<Span>,
    /// When a process of the session, or of any session in the directory, has run for this long
    #[arg(long, value_name = "SPAN")]
    max_runtime: Option<Span>,
    /// When the session, or any session in the directory, has cost this many dollars; an unknown cost
    /// never counts
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
}

/// Start the time of a fuse again, or give it other conditions
///
/// Without a condition its --ttl starts again as it was. A condition that is given takes the place of
/// the old one; the others stay.
#[derive(Args)]
pub(super) struct ExtendArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    when: WhenArgs,
}

/// Cancel a fuse
#[derive(Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// The fuse, as typed.
#[derive(Args)]
struct WhichArgs {
    /// The directory, or the fuse's id or a prefix of it; the current directory if not given
    #[arg(value_name = "DIR|ID", conflicts_with = "session")]
    which: Option<PathBuf>,
    /// The session it is bound to
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The one of this label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

/// Show the fuses, the next to burn down first
///
/// One that was interrupted has burnt down, and whoever was at it was ended in the middle; a command that
/// was cut short is not repeated, and is shown for a week or until `agentctl fuse cancel`.
#[derive(Args)]
pub(super) struct FusesArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
        _ => Err("write event, stop, run:COMMAND or webhook:URL".into()),
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    amount.ok_or_else(|| "write an amount above nothing, like 5.00".into())
}

pub(super) fn cmd_fuse(ui: &mut Ui, loaded: &Loaded, command: FuseCommand) -> Outcome {
    let host = &loaded.host;
    match command {
        FuseCommand::Set(args) => {
            for action in &args.on_expire {
                check_address(&loaded.webhooks, action)?;
            }
            cmd_set(ui, &loaded.fleet(), args)
        }
        FuseCommand::Extend(args) => cmd_extend(ui, host, &args),
        FuseCommand::Cancel(args) => cmd_cancel(ui, host, &args),
    }
}

/// Checks that an event can be sent to an address, as far as that is known without a connection.
fn check_address(configured: &[WebhookEndpoint], action: &Action) -> Result<(), Failure> {
    let Action::Webhook { url } = action else { return Ok(()) };
    let wrong = |why: String| Failure::new(Kind::Usage, format!("--on-expire: the address: {why}"));
    let unreadable = |why| wrong(why).hint("write it like https://example.org/path");
    if url.len() > MAX_URL_BYTES {
        return Err(unreadable(format!("it is longer than {MAX_URL_BYTES} bytes")));
    }
    let endpoint = WebhookEndpoint::parse(url).map_err(unreadable)?;
    match endpoint.never() {
        // The settings of a configured endpoint were checked with the configuration.
        Some(why) if !configured.iter().any(|known| known.is_at(&endpoint)) => Err(wrong(why).hint(
            "a [[webhooks]] with this url and allow_private = true admits this machine and private networks",
        )),
        _ => Ok(()),
    }
}

fn cmd_set(ui: &mut Ui, fleet: &Fleet, args: SetArgs) -> Outcome {
    let host = &fleet.host;
    let label = short("--label", args.label.as_deref(), MAX_LABEL_CHARS)?;
    let mut when = conditions(host, &args.when)?;
    if when.is_empty() {
        when.ttl_ms = Some(DEFAULT_TTL_MS);
    }
    let on_expire = if args.on_expire.is_empty() { vec![Action::Event] } else { args.on_expire };
    let on_expire = on_expire.into_iter().map(|action| findable(host, action));
    let on_expire = on_expire.collect::<Result<Vec<_>, _>>()?;
    let bound = match &args.session {
        Some(text) => session(fleet, text)?,
        None => place(ui, host, args.directory.as_deref())?,
    };
    let (fuse, replaced) =
        set(host, FuseOrder { bound, label, when, on_expire }).map_err(failed)?;
    if let Some(replaced) = replaced {
        let text =
            format!("it takes the place of one set {} ago", age(host.now(), replaced.set_at));
        ui.note(&text);
    }
    ui.line(&fuse.id)?;
    ui.flush()?;
    say(ui, host, "set", &fuse);
    ensure_awake(ui, host);
    Ok(ExitCode::SUCCESS)
}

fn cmd_extend(ui: &mut Ui, host: &Arc<Host>, args: &ExtendArgs) -> Outcome {
    let change = conditions(host, &args.when)?;
    let Some(fuse) = find(host, &args.which)? else { return Err(none(host, &args.which)) };
    let fuse = extend(host, &fuse.id, change).map_err(|error| match error {
        FuseError::Timeless => {
            let message = format!("{} has no time that could start again", name(host, &fuse));
            Failure::new(Kind::Usage, message)
                .hint("give what is to change: --ttl, --idle, --max-runtime or --max-cost")
        }
        error => failed_one(host, &fuse, error),
    })?;
    say(ui, host, "extended", &fuse);
    ensure_awake(ui, host);
    Ok(ExitCode::SUCCESS)
}

fn cmd_cancel(ui: &mut Ui, host: &Arc<Host>, args: &CancelArgs) -> Outcome {
    let which = &args.which;
    let Some(fuse) = find(host, which)? else {
        // An unreadable fuse is in the file where a readable one would be.
        if which.session.is_none() {
            let directory = directory(host, which.which.as_deref())?;
            let bound = Bound::Directory(directory.to_string_lossy().into_owned());
            if clear(host, &bound, which.label.as_deref()).map_err(failed)? {
                ui.note(&format!(
                    "cancelled what could not be read of {}",
                    shown(host, &directory)
                ));
                return Ok(ExitCode::SUCCESS);
            }
        }
        return Err(none(host, which));
    };
    let fuse = cancel(host, &fuse.id).map_err(|error| failed_one(host, &fuse, error))?;
    ui.note(&format!("cancelled {}", name(host, &fuse)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_fuses(ui: &mut Ui, fleet: &Fleet, args: &FusesArgs) -> Outcome {
    let host = &fleet.host;
    let report = fleet.fuses();
    if args.json {
        ui.json(&report)?;
    } else if report.fuses.is_empty() {
        let whole = report.faults.is_empty();
        ui.note(if whole { "no fuse is set" } else { "no fuse could be shown" });
    } else {
        for line in lines(ui, host, &report.fuses) {
            ui.line(&line)?;
        }
        ui.flush()?;
        for fuse in &report.fuses {
            if let Some(note) = &fuse.note {
                ui.warn(&format!("{}: {note}", name(host, fuse)));
            }
        }
    }
    Ok(super::answered(ui, &report.faults))
}

/// Makes sure that a daemon runs: without it no fuse burns down.
fn ensure_awake(ui: &mut Ui, host: &Host) {
    if host.var(marks::NO_DAEMON).is_some() {
        ui.warn("no daemon is started (AGENTCTL_NO_DAEMON): nothing happens until one runs");
        return;
    }
    match crate::client::start::ensure(host) {
        Ok((client, true)) => ui.note(&format!("started the daemon, pid {}", client.welcome.pid)),
        Ok((_, false)) => {}
        Err(why) => {
            let failure = Failure::from(why);
            ui.warn(&format!("{failure}: nothing happens until a daemon runs"));
        }
    }
}

fn conditions(host: &Host, args: &WhenArgs) -> Result<Conditions, Failure> {
    let ms = |name: &str, span: Option<Span>| {
        let Some(Span(span)) = span else { return Ok(None) };
        if span.is_zero() {
            let message = format!("{name}: a fuse for no time at all is none");
            return Err(Failure::new(Kind::Usage, message));
        }
        let ms = u64::try_from(span.as_millis()).ok();
        let ms = ms.filter(|ms| fuses::after(host.now(), *ms).is_some());
        let far = || Failure::new(Kind::Usage, format!("{name}: {}", FuseError::TooFar));
        ms.map(Some).ok_or_else(far)
    };
    Ok(Conditions {
        ttl_ms: ms("--ttl", args.ttl)?,
        idle_ms: ms("--idle", args.idle)?,
        max_runtime_ms: ms("--max-runtime", args.max_runtime)?,
        max_cost_usd: args.max_cost,
    })
}

/// Returns the action with its program's absolute path: it is run much later, from another directory.
fn findable(host: &Host, action: Action) -> Result<Action, Failure> {
    let Action::Run { mut argv } = action else { return Ok(action) };
    if let Some(program) = argv.first_mut() {
        let path = hooks::program(host, program)
            .map_err(|why| Failure::new(Kind::Failed, format!("--on-expire: {why}")))?;
        *program = path.to_string_lossy().into_owned();
    }
    Ok(Action::Run { argv })
}

/// Returns the session to which a fuse is bound.
fn session(fleet: &Fleet, text: &str) -> Result<Bound, Failure> {
    let (target, _faults) = super::target(fleet, text)?;
    let Some(locator) = target.session else {
        let message = format!("`{text}` serves no session yet, so nothing can be bound to it");
        return Err(Failure::new(Kind::Failed, message).hint("set the fuse on its directory"));
    };
    Ok(Bound::Session { adapter: target.adapter.to_owned(), root: target.root, id: locator.id })
}

/// Returns the directory to which a fuse is bound.
fn place(ui: &mut Ui, host: &Host, given: Option<&Path>) -> Result<Bound, Failure> {
    let directory = directory(host, given)?;
    let name = shown(host, &directory);
    if !directory.exists() {
        ui.note(&format!("there is no directory {name} yet"));
    } else if !directory.is_dir() {
        return Err(Failure::new(Kind::Failed, format!("{name} is not a directory")));
    }
    match directory.into_os_string().into_string() {
        Ok(directory) => Ok(Bound::Directory(directory)),
        Err(_) => Err(Failure::new(Kind::Failed, format!("the name of {name} is not UTF-8"))),
    }
}

/// Finds the fuse that was named.
fn find(host: &Host, args: &WhichArgs) -> Result<Option<Fuse>, Failure> {
    let (all, faults) = fuses::all(host);
    if let Some(blind) = faults.iter().find(|fault| fault.hides_adapter()) {
        return Err(Failure::new(Kind::Unanswered, blind.message.clone()));
    }
    let begins = |id: &str, text: &str| {
        id == text || (text.chars().count() >= MIN_PREFIX_CHARS && id.starts_with(text))
    };
    let labelled =
        |f: &&Fuse| args.label.as_ref().is_none_or(|l| f.label.as_deref() == Some(l.trim()));
    let all: Vec<&Fuse> = all.iter().filter(labelled).collect();
    let mut found: Vec<&Fuse> = if let Some(text) = &args.session {
        let id = text.split_once(':').map_or(text.as_str(), |(_, id)| id);
        all.iter()
            .filter(|f| f.session.as_deref().is_some_and(|s| begins(s, id)))
            .copied()
            .collect()
    } else {
        let given = directory(host, args.which.as_deref())?;
        let here = |f: &&&Fuse| f.directory.as_ref().is_some_and(|d| Path::new(d) == given);
        all.iter().filter(here).copied().collect()
    };
    if let Some(text) = args.which.as_ref().and_then(|w| w.to_str()).filter(|_| found.is_empty()) {
        found = all.iter().filter(|f| begins(&f.id, text)).copied().collect();
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        several => {
            let message = format!("{} fuses are meant by that", several.len());
            let failure = several.iter().fold(Failure::new(Kind::Ambiguous, message), |f, fuse| {
                f.candidate(format!("{}  {}", fuse.id, name(host, fuse)))
            });
            Err(failure.hint("give its id, or --label"))
        }
    }
}

fn none(host: &Host, args: &WhichArgs) -> Failure {
    let what = match (&args.session, &args.which) {
        (Some(session), _) => format!("session `{session}`"),
        (None, which) => match directory(host, which.as_deref()) {
            Ok(directory) => shown(host, &directory),
            Err(failure) => return failure,
        },
    };
    let label = args.label.as_ref().map(|l| format!(" with the label `{l}`")).unwrap_or_default();
    Failure::new(Kind::NotFound, format!("there is no fuse on {what}{label}"))
        .hint("`agentctl fuses` shows them all")
}

fn failed(error: FuseError) -> Failure {
    match error {
        FuseError::Busy => Failure::new(Kind::Refused, "others are changing fuses; try again"),
        error => Failure::new(Kind::Failed, format!("the fuse: {error}")),
    }
}

fn failed_one(host: &Host, fuse: &Fuse, error: FuseError) -> Failure {
    let name = name(host, fuse);
    match error {
        // It burnt down or was cancelled at this moment.
        FuseError::Missing => Failure::new(Kind::NotFound, format!("{name} is gone")),
        FuseError::Firing => Failure::new(Kind::Refused, format!("{name} has burnt down already"))
            .hint("what it asks for is being done; `agentctl fuses` shows how far it is"),
        error => failed(error),
    }
}

/// Returns the name of a fuse for messages.
fn name(host: &Host, fuse: &Fuse) -> String {
    let label = fuse.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    one_line(&format!("the fuse on {}{label}", bound(host, fuse)))
}

fn bound(host: &Host, fuse: &Fuse) -> String {
    match (&fuse.directory, &fuse.session) {
        (Some(directory), _) => session_table::directory(host, directory),
        (None, Some(id)) => one_line(&format!("{} {id}", fuse.adapter.as_deref().unwrap_or("?"))),
        (None, None) => "-".into(),
    }
}

fn say(ui: &mut Ui, host: &Host, what: &str, fuse: &Fuse) {
    let until = fuse.due_at.map(|at| format!(", at {} at the latest", local_minute(at)));
    let text = format!(
        "{what} {}: {}{}; then {}",
        name(host, fuse),
        when(fuse),
        until.unwrap_or_default(),
        actions(fuse)
    );
    ui.note(&one_line(&text));
}

/// Returns its conditions in a few words: `ttl 2h, idle 30m`.
fn when(fuse: &Fuse) -> String {
    let spans =
        [("ttl", fuse.ttl_ms), ("idle", fuse.idle_ms), ("max-runtime", fuse.max_runtime_ms)];
    let spans = spans.into_iter().filter_map(|(name, ms)| Some(format!("{name} {}", span(ms?))));
    let cost = fuse.max_cost_usd.map(|usd| format!("max-cost ${usd}"));
    spans.chain(cost).collect::<Vec<_>>().join(", ")
}

/// Returns a span in the largest unit that divides it.
fn span(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = units.into_iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

fn actions(fuse: &Fuse) -> String {
    let words = fuse.on_expire.iter().map(|action| match action {
        Action::Event => "event".to_owned(),
        Action::Stop => "stop".to_owned(),
        Action::Run { argv } => {
            let argv = argv.iter().map(String::as_str);
            format!("run:{}", shlex::try_join(argv).unwrap_or_default())
        }
        Action::Webhook { url } => format!("webhook:{url}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

const HEADER: [&str; 5] = ["ID", "EXPIRES", "WHEN", "TARGET", "THEN"];

fn lines(ui: &Ui, host: &Host, fuses: &[Fuse]) -> Vec<String> {
    let now = host.now();
    let cells = |fuse: &Fuse| {
        let (style, expires) = match (fuse.state, fuse.due_at) {
            (FuseState::Burning, Some(at)) if at > now => (Style::new(), age(at, now)),
            (FuseState::Burning, Some(_)) => (AnsiColor::Yellow.on_default(), "due".to_owned()),
            (FuseState::Burning, None) => (Style::new(), "-".to_owned()),
            (state, _) => (AnsiColor::Yellow.on_default(), state.word().to_owned()),
        };
        let label = fuse.label.as_ref().map(|l| format!(" · {l}")).unwrap_or_default();
        let then = one_line(&format!("{}{label}", actions(fuse)));
        let id = fuse.id.get(..8).unwrap_or(&fuse.id).to_owned();
        (style, [id, expires, when(fuse), bound(host, fuse), then])
    };
    let rows: Vec<_> = fuses.iter().map(cells).collect();
    table::lines(ui, HEADER, &rows)
}
