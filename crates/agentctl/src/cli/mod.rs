//! The command tree and its dispatch: one file per command, one line each here.

mod adapters;
mod answer;
mod asks;
mod attach;
mod changes;
mod colour;
mod compare;
mod completions;
mod config;
mod daemon;
mod demo;
mod diff;
mod doctor;
mod events;
mod fuses;
mod help;
mod ids;
mod interrupt;
mod launch;
mod list;
mod listed;
mod locks;
mod logs;
mod man;
mod mcp;
mod name;
mod notify;
mod resume;
mod runs;
mod schema;
mod send;
mod service;
mod shape;
mod status;
mod stop;
mod stream_end;
mod top;
mod usage;
mod version;
mod wait;
mod watch;
mod web;
mod why;
mod worktree;

use std::ffi::OsString;
use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::Query;
use agentctl_core::model::{Fault, Session, Target, Time};
use agentctl_core::resolve::HERE;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::Loaded;
use crate::face::{OutputKind, OutputLine, USUAL_HISTORY, groups_hint, no_group, unresolved};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Launch, watch, stop and resume every coding agent on this machine
///
/// agentctl reads the agents' own files and the process table each time it is called, so it also shows sessions
/// that were started without it. An unknown status is shown as `unknown`. Without a command, on a terminal,
/// `agentctl top` is shown.
#[derive(Parser)]
#[command(name = "agentctl", version, max_term_width = 100)]
struct Cli {
    /// When to use colour
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        global = true,
        default_value_t,
        display_order = 900
    )]
    color: colour::ColourArg,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(visible_aliases = ["ps", "ls"])]
    List(list::ListArgs),
    #[command(visible_aliases = ["inspect", "show"])]
    Status(status::StatusArgs),
    Why(why::WhyArgs),
    #[command(visible_aliases = ["peek", "tail"])]
    Logs(logs::LogsArgs),
    Changes(changes::ChangesArgs),
    #[command(visible_alias = "run")]
    Launch(Box<launch::LaunchArgs>),
    #[command(visible_alias = "send")]
    Resume(resume::ResumeArgs),
    Attach(attach::AttachArgs),
    Wait(wait::WaitArgs),
    Top(top::TopArgs),
    Diff(diff::DiffArgs),
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    Compare(compare::CompareArgs),
    #[command(visible_alias = "inbox")]
    Asks(asks::AsksArgs),
    Answer(answer::AnswerArgs),
    Approve(answer::ApproveArgs),
    Deny(answer::DenyArgs),
    Name(name::NameArgs),
    Group(name::GroupArgs),
    #[command(visible_alias = "kill")]
    Stop(stop::StopArgs),
    Events(events::EventsArgs),
    Locks(locks::LocksArgs),
    Lock(locks::LockArgs),
    Unlock(locks::UnlockArgs),
    #[command(subcommand)]
    Fuse(fuses::FuseCommand),
    Fuses(fuses::FusesArgs),
    Runs(runs::RunsArgs),
    Prune(runs::PruneArgs),
    Rm(runs::RmArgs),
    Mcp(mcp::McpArgs),
    Daemon(daemon::DaemonArgs),
    Web(web::WebArgs),
    #[command(subcommand)]
    Notify(notify::NotifyCommand),
    Doctor(doctor::DoctorArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Adapters(adapters::AdaptersArgs),
    Demo(demo::DemoArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Version(version::VersionArgs),
    #[command(name = agentctl_core::adapters::demo::SUBCOMMAND, hide = true)]
    DemoAgent(crate::demo::agent::AgentArgs),
}

/// Parses and runs one command line.
pub fn run(args: impl Iterator<Item = OsString>, ui: &mut Ui) -> Outcome {
    let args: Vec<OsString> = args.collect();
    if let Some(outcome) = completions::answered(ui, &args) {
        return outcome;
    }
    ui.set_json(shape::wants_json(&args));
    let colour = colour::asked(&args);
    if let Some(colour) = colour {
        ui.set_colour(colour);
    }
    let command = || Cli::command().color(colour.unwrap_or_default().into());
    let matches = command().try_get_matches_from(&args);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(mut cli) => {
            match &mut cli.command {
                Command::Resume(resume) => resume.set_verb(&args),
                Command::Launch(launch) => {
                    if let Some((option, word)) = usage::value_apart(&command(), &args)
                        && launch.names_agent(&word)
                    {
                        return Err(usage::needs_equals(&option, &word));
                    }
                }
                _ => {}
            }
            dispatch(ui, cli.command)
        }
        Err(_) if names_no_command(&args) && top::is_possible(ui) => {
            dispatch(ui, Command::Top(top::TopArgs::default()))
        }
        Err(error) => usage::answer(ui, &command, args, error),
    }
}

/// Says whether a command line has nothing but, perhaps, a choice of colour.
fn names_no_command(args: &[OsString]) -> bool {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    match words.as_slice() {
        [] => args.len() <= 1,
        [colour] => colour.starts_with("--color="),
        [colour, _] => *colour == "--color",
        _ => false,
    }
}

impl Command {
    /// Says whether it changes something, so that its report must not be lost with stdout.
    fn is_order(&self) -> bool {
        match self {
            Self::Worktree(command) => command.is_order(),
            Self::Daemon(args) => args.is_order(),
            Self::Launch(_)
            | Self::Resume(_)
            | Self::Stop(_)
            | Self::Answer(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Name(_)
            | Self::Group(_)
            | Self::Lock(_)
            | Self::Unlock(_)
            | Self::Fuse(_)
            | Self::Prune(_)
            | Self::Rm(_)
            | Self::Notify(_) => true,
            _ => false,
        }
    }
}

fn dispatch(ui: &mut Ui, command: Command) -> Outcome {
    if command.is_order() {
        ui.report_order();
    }
    match command {
        Command::List(args) => with_settings(ui, list::cmd_list, &args),
        Command::Status(args) => with_fleet(ui, status::cmd_status, &args),
        Command::Why(args) => with_fleet(ui, why::cmd_why, &args),
        Command::Logs(args) => with_fleet(ui, logs::cmd_logs, &args),
        Command::Changes(args) => with_fleet(ui, changes::cmd_changes, &args),
        Command::Launch(args) => {
            let loaded = for_launch(ui)?;
            launch::cmd_launch(ui, &loaded, *args)
        }
        Command::Resume(args) => {
            let loaded = for_launch(ui)?;
            resume::cmd_resume(ui, &loaded, args)
        }
        Command::Runs(args) => {
            let loaded = loaded(ui)?;
            runs::cmd_runs(ui, &loaded.fleet(), &loaded.defaults, &args)
        }
        Command::Prune(args) => without_sources(ui, runs::cmd_prune, &args),
        Command::Rm(args) => with_fleet(ui, runs::cmd_rm, &args),
        Command::Attach(args) => with_settings(ui, attach::cmd_attach, &args),
        Command::Stop(args) => with_fleet(ui, stop::cmd_stop, &args),
        Command::Events(args) => with_fleet(ui, events::cmd_events, &args),
        Command::Name(args) => with_fleet(ui, name::cmd_name, &args),
        Command::Group(args) => with_fleet(ui, name::cmd_group, &args),
        Command::Top(args) => with_settings(ui, top::cmd_top, &args),
        Command::Wait(args) => with_fleet(ui, wait::cmd_wait, &args),
        Command::Diff(args) => with_settings(ui, diff::cmd_diff, &args),
        Command::Compare(args) => with_settings(ui, compare::cmd_compare, &args),
        Command::Worktree(command) => with_settings(ui, worktree::cmd_worktree, &command),
        Command::Asks(args) => with_fleet(ui, asks::cmd_asks, &args),
        Command::Answer(args) => with_fleet(ui, answer::cmd_answer, &args),
        Command::Approve(args) => with_fleet(ui, answer::cmd_approve, &args),
        Command::Deny(args) => with_fleet(ui, answer::cmd_deny, &args),
        Command::Lock(args) => without_sources(ui, locks::cmd_lock, &args),
        Command::Unlock(args) => without_sources(ui, locks::cmd_unlock, &args),
        Command::Locks(args) => with_fleet(ui, locks::cmd_locks, &args),
        Command::Daemon(args) => {
            // Unsafe settings are reported by the command itself: a daemon in the background has only
            // its log.
            let loaded = crate::config::load_all()?;
            daemon::cmd_daemon(ui, loaded, &args)
        }
        Command::Web(args) => web::cmd_web(ui, &args),
        Command::Notify(command) => {
            let loaded = crate::config::load_all()?;
            notify::cmd_notify(ui, &loaded, &command)
        }
        Command::Fuse(command) => {
            let loaded = loaded(ui)?;
            fuses::cmd_fuse(ui, &loaded, command)
        }
        Command::Fuses(args) => {
            let loaded = loaded(ui)?;
            fuses::cmd_fuses(ui, &loaded, &args)
        }
        Command::Doctor(args) => {
            let loaded = crate::config::load_all()?;
            let outcome = doctor::cmd_doctor(ui, &loaded, &args);
            with_missing_sources(&loaded, outcome)
        }
        Command::Config(command) => {
            let loaded = crate::config::load_all()?;
            config::cmd_config(ui, &loaded, &command)
        }
        Command::Mcp(args) => {
            let loaded = loaded(ui)?;
            mcp::cmd_mcp(ui, loaded, args)
        }
        Command::Adapters(args) => without_sources(ui, adapters::cmd_adapters, &args),
        Command::Demo(args) => without_sources(ui, demo::cmd_demo, &args),
        Command::Schema(args) => schema::cmd_schema(ui, &args),
        Command::Completions(args) => completions::cmd_completions(ui, &args),
        Command::Man(args) => man::cmd_man(ui, &args),
        Command::Version(_) => version::cmd_version(ui),
        Command::DemoAgent(args) => crate::demo::agent::run(&crate::config::host()?, &args),
    }
}

/// Runs a command that looks for sessions. If the homes or servers of the configuration cannot be read, its
/// answer may lack some of them, and the exit code says so.
fn with_fleet<A>(ui: &mut Ui, command: fn(&mut Ui, &Fleet, &A) -> Outcome, args: &A) -> Outcome {
    let loaded = loaded(ui)?;
    let outcome = command(ui, &loaded.fleet(), args);
    with_missing_sources(&loaded, outcome)
}

/// Does the same for a command that also needs the settings themselves.
fn with_settings<A>(
    ui: &mut Ui,
    command: fn(&mut Ui, &Loaded, &A) -> Outcome,
    args: &A,
) -> Outcome {
    let loaded = loaded(ui)?;
    let outcome = command(ui, &loaded, args);
    with_missing_sources(&loaded, outcome)
}

/// Turns a complete answer, or the absence of a session, into a partial answer if sources may be missing.
fn with_missing_sources(loaded: &Loaded, outcome: Outcome) -> Outcome {
    if !loaded.sources_may_be_missing() {
        return outcome;
    }
    match outcome {
        Ok(code) if code == ExitCode::SUCCESS => Ok(ExitCode::from(Kind::Unanswered.exit_code())),
        Err(failure) if failure.is_not_found() => {
            let message = format!("{}, and not every source is known", failure.message());
            Err(Failure::new(Kind::Unanswered, message)
                .hint("`agentctl config check` shows what is wrong with the configuration"))
        }
        outcome => outcome,
    }
}

/// Runs a command whose answer does not depend on the configured homes and servers.
fn without_sources<A>(
    ui: &mut Ui,
    command: fn(&mut Ui, &Fleet, &A) -> Outcome,
    args: &A,
) -> Outcome {
    let fleet = loaded(ui)?.fleet();
    command(ui, &fleet, args)
}

/// Reads environment and configuration, and warns about unsafe settings.
fn loaded(ui: &mut Ui) -> Result<Loaded, Failure> {
    let loaded = crate::config::load_all()?;
    warn_of_settings(ui, &loaded);
    ui.set_notifies(loaded.notify.as_ref().is_some_and(|notify| notify.terminal));
    Ok(loaded)
}

/// Reads environment and configuration for a command that starts an agent. It fails if a setting of launches
/// cannot be used, or if another user could have written the hooks.
fn for_launch(ui: &mut Ui) -> Result<Loaded, Failure> {
    let loaded = crate::config::load_all()?;
    loaded.check_launch()?;
    warn_of_settings(ui, &loaded);
    Ok(loaded)
}

fn warn_of_settings(ui: &mut Ui, loaded: &Loaded) {
    for finding in &loaded.findings {
        ui.warn(&finding.sentence());
    }
    for warning in &loaded.warnings {
        ui.warn(warning);
    }
}

/// Returns the clap command, for the man page and completions.
fn command() -> clap::Command {
    Cli::command()
}

/// Finds the session that the user named.
fn target(fleet: &Fleet, text: &str) -> Result<(Target, Vec<Fault>), Failure> {
    let found = fleet.target(text).map_err(|not_one| unresolved(fleet, text, not_one))?;
    Ok((found.target, found.faults))
}

/// Finds the sessions of a group: the live ones, and those that ended in the last days.
fn group_members(fleet: &Fleet, group: &str) -> Result<(Vec<Target>, Vec<Fault>), Failure> {
    let since_ms = list::since(&fleet.host, USUAL_HISTORY)?.map(Time::millis);
    // One list has both the members and the groups of the hint.
    let rows = fleet.rows(&Query { all: true, since_ms, ..Query::default() });
    let is_member = |session: &Session| session.group.as_deref() == Some(group);
    let members = rows.iter().filter(is_member).map(|session| session.target());
    let members: Vec<Target> = members.collect();
    if !members.is_empty() {
        return Ok((members, rows.faults));
    }
    let groups = fleet.known_groups(rows.iter().filter_map(|session| session.group));
    if !groups.contains(group) {
        return Err(no_group(group, groups).beside(rows.faults));
    }
    let message = format!("no session of the last days is in the group `{group}`");
    let failure = Failure::new(Kind::NotFound, message).beside(rows.faults);
    Err(failure.hint(groups_hint(groups)))
}

/// Says that a group has no session of the last days, or is not known, and which groups are; none if it has a session.
fn unknown_group(fleet: &Fleet, group: Option<&String>) -> Option<[String; 2]> {
    let failure = group_members(fleet, group?).err()?;
    Some([failure.message().to_owned(), failure.first_hint().unwrap_or_default().to_owned()])
}

/// Returns the text that names a session; without one, the only session of this directory is meant.
fn named_or_here(text: Option<&str>) -> &str {
    text.unwrap_or(HERE)
}

/// Prints a line about the result of an order.
fn print(ui: &mut Ui, line: &OutputLine) -> std::io::Result<()> {
    match line.kind {
        OutputKind::Line => return ui.line(&line.text),
        OutputKind::Note | OutputKind::Warning | OutputKind::Error => say(ui, line),
    }
    Ok(())
}

/// Writes a line to stderr.
fn say(ui: &mut Ui, line: &OutputLine) {
    match line.kind {
        OutputKind::Line | OutputKind::Note => ui.note(&line.text),
        OutputKind::Warning => ui.warn(&line.text),
        OutputKind::Error => ui.error(&line.text),
    }
}

/// Reports failed sources and returns the exit code that says so.
fn answered(ui: &mut Ui, faults: &[Fault]) -> ExitCode {
    for fault in faults {
        ui.warn_fault(fault);
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Unanswered.exit_code()) }
}
