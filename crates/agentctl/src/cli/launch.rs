//! `agentctl launch`: start a session, print its real id.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_core::adapters::control::{Begin, Order, Permissions};
use agentctl_core::adapters::{ALL, Adapter};
use agentctl_core::ask::Fleet;
use agentctl_core::fleet;
use agentctl_core::hooks::{self, Facts};
use agentctl_core::host::Host;
use agentctl_core::launch::{Launch, LaunchError, Launched, launch};
use agentctl_core::locks::{self, Holder};
use agentctl_core::model::{Callback, Locator, Session, Target};
use agentctl_core::runs::{HookMoment, Runs};
use agentctl_core::transcript::Transcript;
use agentctl_core::wait::{Enough, Until, Wish};
use clap::{Args, ValueEnum};

use super::logs::Form;
use super::wait::{self, Show};
use crate::config::{Defaults, Span};
use crate::failure::{Failure, Kind, Outcome};
use crate::rows;
use crate::ui::{Ui, age};

/// So long after its first words an agent's first record is waited for.
const FIRST_RECORD: Duration = Duration::from_secs(5);
/// The pause between two looks for it.
const FIRST_RECORD_PAUSE: Duration = Duration::from_millis(20);

/// Start a session and print its id
///
/// The agent runs on its own: it survives this command, this shell and everything else of agentctl. The
/// id is the agent's real one, alone on stdout, so that `id=$(agentctl launch …)` works.
#[derive(Args)]
pub(super) struct LaunchArgs {
    /// The agent (default: the configured one, else the first that is installed)
    adapter: Option<String>,
    /// What to do; `-` reads it from stdin
    #[arg(
        short,
        long,
        value_name = "TEXT",
        required_unless_present = "prompt_file",
        allow_hyphen_values = true
    )]
    prompt: Option<String>,
    /// Read what to do from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Where it works (default: here)
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Name the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// What launches and resumes have in common.
#[derive(Args)]
pub(super) struct Flags {
    /// The model, in the agent's own words
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Put it in a group, for `list --group` and `stop --all --group`
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Set a variable for the agent (repeatable); others may see this command line: a secret is better
    /// exported
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// What it may do without asking (default: the agent's own default)
    #[arg(long, value_enum)]
    permissions: Option<PermissionsArg>,
    /// Go in even where somebody works or a lock stands
    #[arg(long)]
    force: bool,
    /// Wait until the turn is over; the exit code says how (see `wait`)
    #[arg(long)]
    wait: bool,
    /// Show the conversation until the turn is over; the exit code says how
    #[arg(long)]
    follow: bool,
    /// With --wait or --follow: give up after this long, and leave it running
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Run this when the session has begun
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    on_create: Option<Words>,
    /// Run this when the agent has ended
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    on_complete: Option<Words>,
    /// The session to be told about this one: travels with it into events, webhooks and hooks
    #[arg(long, value_name = "ID", value_parser = callback)]
    callback_session: Option<String>,
    /// The agent to be told about this one
    #[arg(long, value_name = "NAME", value_parser = callback)]
    callback_agent: Option<String>,
    /// Print the session as one JSON object
    #[arg(long)]
    json: bool,
    /// Further arguments for the agent itself
    #[arg(last = true, value_name = "ARGS")]
    extra: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum PermissionsArg {
    /// The agent's own default
    Default,
    /// Files may be changed without asking
    Edits,
    /// Everything, without asking
    Bypass,
}

impl From<PermissionsArg> for Permissions {
    fn from(arg: PermissionsArg) -> Self {
        match arg {
            PermissionsArg::Default => Self::Default,
            PermissionsArg::Edits => Self::Edits,
            PermissionsArg::Bypass => Self::Bypass,
        }
    }
}

/// A hook as typed, split by shell-word rules; no shell runs it.
#[derive(Clone)]
struct Words(Vec<String>);

fn words(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("it is empty".into()),
        None => Err("a quote in it does not end".into()),
    }
}

fn callback(text: &str) -> Result<String, String> {
    Callback::check(text).map(|()| text.to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like NAME=VALUE".into()),
    }
}

/// What is launched, and what it is launched for.
pub(super) struct Wanted {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) prompt: Vec<u8>,
    pub(super) begin: Begin,
    pub(super) cwd: PathBuf,
    pub(super) name: Option<String>,
    pub(super) from: Option<Target>,
}

pub(super) fn cmd_launch(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    args: LaunchArgs,
) -> Outcome {
    let host = &fleet.host;
    let adapter = adapter(ui, host, defaults, args.adapter.as_deref())?;
    let hint = "say what to do: -p TEXT";
    let prompt = prompt(args.prompt.as_deref(), args.prompt_file.as_deref(), hint)?;
    if args.cwd.is_some() && is_remote(adapter) {
        return Err(no_directory(adapter));
    }
    let cwd = args.cwd.map_or_else(|| host.cwd.clone(), |dir| host.cwd.join(dir));
    let wanted = Wanted { adapter, prompt, begin: Begin::New, cwd, name: args.name, from: None };
    start(ui, fleet, defaults, args.flags, wanted)
}

/// Says whether an agent's sessions live in a server: no directory and no hook of ours concerns them.
pub(super) fn is_remote(adapter: &dyn Adapter) -> bool {
    adapter.control().is_some_and(|control| control.remote().is_some())
}

pub(super) fn no_directory(adapter: &dyn Adapter) -> Failure {
    let message = format!("{} works where its server says: --cwd cannot be heeded", adapter.name());
    Failure::new(Kind::Usage, message).hint("leave it out")
}

/// Hooks need somebody here who sees a session begin and end.
fn hooks_of(
    ui: &mut Ui,
    flags: &mut Flags,
    hooks: &crate::config::Hooks,
    adapter: &dyn Adapter,
) -> Result<[Option<Vec<String>>; 2], Failure> {
    let typed = [flags.on_create.take(), flags.on_complete.take()].map(|words| words.map(|w| w.0));
    if !is_remote(adapter) {
        let [create, complete] = typed;
        let configured = |hook: &Option<Vec<String>>| hook.clone();
        return Ok([
            create.or_else(|| configured(&hooks.on_create)),
            complete.or_else(|| configured(&hooks.on_complete)),
        ]);
    }
    if typed.iter().any(Option::is_some) {
        let message = format!("{} runs on a server: no hook is run for it", adapter.name());
        return Err(Failure::new(Kind::Usage, message).hint("leave the hook out"));
    }
    if hooks.on_create.is_some() || hooks.on_complete.is_some() {
        ui.note("it runs on a server: the configured hooks are not run for it");
    }
    Ok([None, None])
}

/// Returns the agent that was named, configured, or else is installed.
fn adapter(
    ui: &mut Ui,
    host: &Host,
    defaults: &Defaults,
    named: Option<&str>,
) -> Result<&'static dyn Adapter, Failure> {
    if let Some(name) = named.or(defaults.adapter.as_deref()) {
        let found = ALL.iter().find(|a| a.name() == name);
        return found.copied().ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|a| a.name()).collect();
            Failure::new(Kind::Usage, format!("there is no adapter named `{name}`"))
                .hint(format!("adapters: {}", known.join(", ")))
        });
    }
    let installed = |a: &&&'static dyn Adapter| {
        !a.is_built_in() && a.control().is_some() && a.installation(host).program.is_some()
    };
    match ALL.iter().find(installed) {
        Some(adapter) => {
            if !ui.wants_json() {
                ui.note(&format!("launching {}", adapter.name()));
            }
            Ok(*adapter)
        }
        None => Err(Failure::new(
            Kind::Failed,
            "no coding agent is installed, or none is on your PATH",
        )
        .hint("`agentctl launch demo -p …` needs none; `agentctl adapters` lists those we know")),
    }
}

/// Returns what was asked for: typed, from stdin, or from a file.
pub(super) fn prompt(
    text: Option<&str>,
    file: Option<&std::path::Path>,
    hint: &str,
) -> Result<Vec<u8>, Failure> {
    let bytes = match (text, file) {
        (Some("-"), _) => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(file)) => std::fs::read(file).map_err(|e| {
            Failure::new(Kind::Failed, format!("{} cannot be read: {e}", file.display()))
                .hint("give the prompt with -p TEXT, or name a file that is there")
        })?,
        (None, None) => Vec::new(),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::new(Kind::Usage, "the prompt is empty").hint(hint));
    }
    Ok(bytes)
}

/// Launches, tells, and stays as long as it was asked to.
pub(super) fn start(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    mut flags: Flags,
    wanted: Wanted,
) -> Outcome {
    let host = &fleet.host;
    if flags.timeout.is_some() && !(flags.wait || flags.follow) {
        return Err(Failure::new(Kind::Usage, "--timeout needs --wait or --follow")
            .hint("a launch itself is bounded by `launch` below [deadline]"));
    }
    let [on_create, on_complete] = hooks_of(ui, &mut flags, &defaults.hooks, wanted.adapter)?;
    let root = wanted.from.as_ref().map(|t| PathBuf::from(&t.root));
    // What goes on in a server goes on as it is: the defaults are for what begins.
    let goes_on = is_remote(wanted.adapter) && matches!(wanted.begin, Begin::Resume(_));
    let usual = if goes_on { &Defaults::default() } else { defaults };
    let order = Order {
        begin: wanted.begin,
        cwd: wanted.cwd,
        model: flags.model.or_else(|| usual.model.clone()),
        name: wanted.name,
        permissions: flags.permissions.map_or(usual.permissions, Into::into),
        extra: flags.extra,
        root,
    };
    let adapter = wanted.adapter;
    let asked = Launch {
        adapter,
        order,
        prompt: wanted.prompt,
        group: flags.group,
        env: flags.env,
        on_complete: on_complete.map(|hook| absolute(host, hook)),
        callback: Callback::of(flags.callback_session, flags.callback_agent),
        force: flags.force,
        from: wanted.from,
    };
    // Who follows a session that goes on is shown what comes, not what was.
    let resumed = matches!(asked.order.begin, Begin::Resume(_)).then_some(asked.from.as_ref());
    let mut transcript = resumed.flatten().and_then(|t| Transcript::open(host, ALL, t).ok());
    if let Some(open) = &mut transcript {
        let _seen = open.last_raw(1);
    }
    // What ended long ago makes room; a folder that cannot be tidied is no reason not to launch.
    let _untidied = Runs::of(host).evict(host, defaults.keep);
    let launched = launch(host, ALL, asked).map_err(|e| failed(host, e))?;
    let timeout = flags.timeout.map(|Span(span)| span);
    let wish = Wish { until: Until::TurnOver, enough: Enough::All, timeout };
    let (json, stay) = (flags.json, Stay::of(flags.wait, flags.follow));
    attend(ui, fleet, adapter, &launched, After { json, stay, wish, on_create, transcript })
}

/// How long a launch stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// It leaves once the id is told.
    Not,
    /// Until the turn is over.
    Waiting,
    /// Until then, showing what is said.
    Following,
}

impl Stay {
    fn of(wait: bool, follow: bool) -> Self {
        match (wait, follow) {
            (_, true) => Self::Following,
            (true, false) => Self::Waiting,
            (false, false) => Self::Not,
        }
    }
}

/// What is to be done once a session has begun.
struct After {
    json: bool,
    stay: Stay,
    wish: Wish,
    on_create: Option<Vec<String>>,
    transcript: Option<Transcript>,
}

/// Tells the id, runs the hook, and stays as long as it was asked to.
fn attend(
    ui: &mut Ui,
    fleet: &Fleet,
    adapter: &dyn Adapter,
    launched: &Launched,
    after: After,
) -> Outcome {
    let host = &fleet.host;
    for fault in &launched.faults {
        ui.warn_fault(fault);
    }
    for holder in &launched.exempt {
        ui.note(&format!("beside {}, which this was launched from", holder.what));
    }
    let stays = after.stay != Stay::Not;
    if after.on_create.is_none() && !after.json && !stays {
        // Its id is all that was asked for.
        return told(ui, launched, None, &after).map(|()| ExitCode::SUCCESS);
    }
    let target = target(host, adapter, launched);
    let session = target.as_ref().and_then(|t| fleet::inspect(host, ALL, t).session);
    // One document: with --wait it is the session as it was when the turn was over.
    let later = after.json && after.stay == Stay::Waiting;
    let said = if later { Ok(()) } else { told(ui, launched, session.as_ref(), &after) };
    // A reader that has gone is no reason to leave out the rest.
    if let Some(hook) = &after.on_create {
        created(ui, host, launched, session.as_ref(), hook);
    }
    if !stays {
        return said.map(|()| ExitCode::SUCCESS);
    }
    let Some(target) = target else {
        let why = format!("session {} began, but cannot be looked at from here", launched.session);
        return Err(Failure::new(Kind::Unanswered, why)
            .hint("its home may be another one: see `agentctl doctor`"));
    };
    let form = if after.json { Form::Json } else { Form::Human };
    if after.stay == Stay::Following {
        return wait::follow(ui, fleet, &target, after.wish, (form, after.transcript));
    }
    let ended = wait::wait_for(ui, fleet, std::slice::from_ref(&target), after.wish, Show::Nothing);
    if later {
        let session = fleet::inspect(host, ALL, &target).session;
        told(ui, launched, session.as_ref(), &after)?;
        return ended.or_else(|failure| Ok(failure.beside_data(ui)));
    }
    ended
}

/// A hook's own file is named from where the user stands, not from where the agent works.
fn absolute(host: &Host, mut hook: Vec<String>) -> Vec<String> {
    if let Some(program) = hook.first_mut().filter(|p| p.contains('/')) {
        *program = host.cwd.join(&*program).to_string_lossy().into_owned();
    }
    hook
}

/// Finds the new session. An agent may speak before it writes: its first record is waited for, unless it
/// has ended and will not write any more.
fn target(host: &Arc<Host>, adapter: &dyn Adapter, launched: &Launched) -> Option<Target> {
    let until = Instant::now() + FIRST_RECORD;
    loop {
        let has_ended = launched.run.as_ref().is_none_or(|run| run.ended().is_some());
        let found = find(host, adapter, launched);
        if found.is_some() || has_ended || Instant::now() >= until {
            return found;
        }
        std::thread::park_timeout(FIRST_RECORD_PAUSE);
    }
}

/// Looks for the new session among those of its agent.
fn find(host: &Arc<Host>, adapter: &dyn Adapter, launched: &Launched) -> Option<Target> {
    let named = format!("{}:{}", adapter.name(), launched.session);
    let mut found = agentctl_core::resolve::resolve(host, ALL, &named).targets;
    let same = |t: &Target| t.session.as_ref().is_some_and(|l: &Locator| l.id == launched.session);
    found.retain(same);
    found.into_iter().next()
}

fn told(
    ui: &mut Ui,
    launched: &Launched,
    session: Option<&Session>,
    after: &After,
) -> Result<(), Failure> {
    if after.stay == Stay::Following {
        ui.note(&format!("session {}", launched.session));
        return Ok(());
    }
    let written = match session {
        Some(session) if after.json => ui.json(session),
        _ if after.json => {
            let why = format!("session {} began, but cannot be looked at", launched.session);
            return Err(Failure::new(Kind::Unanswered, why));
        }
        _ => ui.line(&launched.session),
    };
    written.and_then(|()| ui.flush()).map_err(|error| {
        // It lives, and somebody must be able to find it.
        ui.note(&format!("session {}", launched.session));
        error.into()
    })
}

/// Runs the hook for a new session; what goes wrong with it is told and changes nothing.
fn created(
    ui: &mut Ui,
    host: &Host,
    launched: &Launched,
    session: Option<&Session>,
    hook: &[String],
) {
    let Some(run) = &launched.run else { return };
    let Some(spec) = run.spec() else { return };
    let facts = Facts::of(HookMoment::Create, &spec, Some(&launched.session), session);
    let report = hooks::run(host, HookMoment::Create, hook, &facts, run);
    if let Some(why) = report.failure() {
        ui.warn(&format!("the on-create hook failed: {why}"));
    }
}

/// Says who keeps a directory: id, pid and age, or the name on the lock.
fn held(host: &Host, holder: &Holder) -> String {
    let since = holder.since.map(|t| age(host.now(), t));
    let facts = [holder.pid.map(|p| format!("pid {p}")), since, holder.reason.clone()];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    match holder.kind {
        locks::Kind::Occupied => {
            let adapter = holder.adapter.unwrap_or("an agent");
            let session = holder.session.as_deref().unwrap_or("without a session yet");
            format!("occupied by {adapter} {session}{facts}")
        }
        locks::Kind::Manual => {
            format!("locked by {}{facts}", holder.by.as_deref().unwrap_or("somebody"))
        }
    }
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
            Failure::new(Kind::Failed, message).hint("name one that is there with --cwd")
        }
        LaunchError::Held { directory, holders } => {
            let by: Vec<String> = holders.iter().map(|h| held(host, h)).collect();
            let directory = rows::directory(host, &directory.to_string_lossy());
            let message = format!("{directory} is {}", by.join(" and "));
            let stop =
                holders.iter().find_map(|h| h.session.clone().or(h.pid.map(|p| p.to_string())));
            let failure = Failure::new(Kind::Refused, message);
            match stop {
                Some(id) => {
                    failure.hint(format!("`agentctl stop {id}` ends it; --force goes in beside it"))
                }
                None => failure.hint("`agentctl unlock` lifts it; --force goes in all the same"),
            }
        }
        LaunchError::Unanswered { agent, .. } => Failure::new(Kind::Unanswered, message)
            .hint(format!("`agentctl list -a --adapter {agent}` shows what there is")),
        LaunchError::Unsure { .. } => Failure::new(Kind::Refused, message)
            .hint("`agentctl doctor` shows what is wrong; --force goes in all the same"),
        LaunchError::Busy { .. } => Failure::new(Kind::Refused, message)
            .hint("try again when it is through; --force goes in all the same"),
        LaunchError::Unclear { .. } => Failure::new(Kind::Refused, message).hint("try again"),
        LaunchError::Objected { hint, .. } => {
            let failure = Failure::new(Kind::Refused, message);
            hint.iter().fold(failure, Failure::hint)
        }
        LaunchError::MayBeServed(_) => Failure::new(Kind::Refused, message)
            .hint("--force continues it all the same; end that process first if it does serve it"),
        LaunchError::Served(session) => {
            let id = session.id.clone().unwrap_or_default();
            Failure::new(Kind::Refused, message)
                .hint(format!("`agentctl stop {id}` first, or `resume --fork` where the agent can"))
        }
        LaunchError::Died { advice, .. }
        | LaunchError::Failed { advice, .. }
        | LaunchError::Unheard { advice, .. } => {
            let failure = Failure::new(Kind::Failed, message);
            match advice {
                Some(advice) => failure.hint(advice),
                None => failure.hint("`agentctl runs` shows where all it said is kept"),
            }
        }
        LaunchError::Silent { .. } => Failure::new(Kind::Failed, message)
            .hint("`launch = \"30s\"` below [deadline] in the configuration gives it longer"),
        LaunchError::Io { .. } => Failure::new(Kind::Failed, message),
    }
}
