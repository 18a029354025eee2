//! `agentctl launch`: start a session, print its real id.

mod flags;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::adapters::Adapter;
use agentctl_core::adapters::control::Begin;
use agentctl_core::ask::{Fleet, LaunchRequest, StartedSession, is_remote};
use agentctl_core::launch::StartedLaunch;
use agentctl_core::model::{Session, Target};
use agentctl_core::wait::{Quorum, Until, WaitOptions};
use clap::Args;

pub(super) use self::flags::Flags;
use super::logs::Form;
use super::wait::{self, Show};
use crate::config::{Defaults, Span};
use crate::face::{directory_on_server, no_adapter, not_started};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

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

/// The session that is launched or continued.
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
    let adapter = adapter(ui, fleet, defaults, args.adapter.as_deref())?;
    let hint = "say what to do: -p TEXT";
    let prompt = prompt(args.prompt.as_deref(), args.prompt_file.as_deref(), hint)?;
    if args.cwd.is_some() && is_remote(adapter) {
        return Err(directory_on_server(adapter));
    }
    let cwd = args.cwd.map_or_else(|| host.cwd.clone(), |dir| host.cwd.join(dir));
    let wanted = Wanted { adapter, prompt, begin: Begin::New, cwd, name: args.name, from: None };
    start(ui, fleet, defaults, args.flags, wanted)
}

/// Returns the adapter that was named, is configured, or else is the first installed one.
fn adapter(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    named: Option<&str>,
) -> Result<&'static dyn Adapter, Failure> {
    let chosen = fleet.choose_adapter(named, defaults);
    let chosen = chosen.map_err(|why| no_adapter(&why))?;
    if chosen.first_installed && !ui.wants_json() {
        ui.note(&format!("launching {}", chosen.adapter.name()));
    }
    Ok(chosen.adapter)
}

/// Returns the prompt: typed, from stdin, or from a file.
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

/// Launches, reports, and stays as long as the flags ask for.
pub(super) fn start(
    ui: &mut Ui,
    fleet: &Fleet,
    defaults: &Defaults,
    mut flags: Flags,
    wanted: Wanted,
) -> Outcome {
    if flags.timeout.is_some() && !(flags.wait || flags.follow) {
        return Err(Failure::new(Kind::Usage, "--timeout needs --wait or --follow")
            .hint("a launch itself is bounded by `launch` below [deadline]"));
    }
    let options = flags.options();
    if is_remote(wanted.adapter) && options.hooks.is_empty() && !defaults.hooks.is_empty() {
        ui.note("it runs on a server: the configured hooks are not run for it");
    }
    let Wanted { adapter, prompt, begin, cwd, name, from } = wanted;
    let request = LaunchRequest { adapter, prompt, begin, from, cwd, name, options };
    let started = fleet.start(request, defaults);
    let started = started.map_err(|why| not_started(&fleet.host, why))?;
    let timeout = flags.timeout.map(|Span(span)| span);
    let wait_options = WaitOptions { until: Until::TurnOver, quorum: Quorum::All, timeout };
    let (json, stay) = (flags.json, Stay::of(flags.wait, flags.follow));
    attend(ui, fleet, started, After { json, stay, wait_options })
}

/// How long a launch command stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// It exits once the id is printed.
    Not,
    /// Until the turn is over.
    Waiting,
    /// Until then, showing the conversation.
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

/// The tasks after a session has begun.
#[derive(Clone, Copy)]
struct After {
    json: bool,
    stay: Stay,
    wait_options: WaitOptions,
}

/// Prints the id, runs the hook, and stays as long as the flags ask for.
fn attend(ui: &mut Ui, fleet: &Fleet, mut started: StartedSession, after: After) -> Outcome {
    for fault in &started.launched.faults {
        ui.warn_fault(fault);
    }
    for holder in &started.launched.exempt {
        ui.note(&format!("beside {}, which this was launched from", holder.what));
    }
    let stays = after.stay != Stay::Not;
    if !started.has_hook() && !after.json && !stays {
        // Only the id is needed.
        return told(ui, &started.launched, None, after).map(|()| ExitCode::SUCCESS);
    }
    let target = fleet.find_started(&started);
    let session = target.as_ref().and_then(|target| fleet.inspect(target).session);
    // One document: with --wait it is the session at the end of the turn.
    let later = after.json && after.stay == Stay::Waiting;
    let said = if later { Ok(()) } else { told(ui, &started.launched, session.as_ref(), after) };
    // If the reader of stdout is gone, the rest is still done.
    if let Some(why) = fleet.run_on_create(&started, session.as_ref()) {
        ui.warn(&format!("the on-create hook failed: {why}"));
    }
    if !stays {
        return said.map(|()| ExitCode::SUCCESS);
    }
    let Some(target) = target else {
        let id = &started.launched.session;
        let why = format!("session {id} began, but cannot be looked at from here");
        return Err(Failure::new(Kind::Unanswered, why)
            .hint("its home may be another one: see `agentctl doctor`"));
    };
    if after.stay == Stay::Following {
        let form = if after.json { Form::Json } else { Form::Human };
        return wait::follow(
            ui,
            fleet,
            &target,
            after.wait_options,
            (form, started.transcript.take()),
        );
    }
    let ended =
        wait::wait_for(ui, fleet, std::slice::from_ref(&target), after.wait_options, Show::Nothing);
    if later {
        let session = fleet.inspect(&target).session;
        told(ui, &started.launched, session.as_ref(), after)?;
        return ended.or_else(|failure| Ok(failure.beside_data(ui)));
    }
    ended
}

fn told(
    ui: &mut Ui,
    launched: &StartedLaunch,
    session: Option<&Session>,
    after: After,
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
        // The session lives, and the user must be able to find it.
        ui.note(&format!("session {}", launched.session));
        error.into()
    })
}
