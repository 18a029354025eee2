//! `agentctl lock`, `unlock`, `locks`: manual locks of directories, and the agents that occupy
//! directories.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentctl_core::ask::Fleet;
use agentctl_core::host::Host;
use agentctl_core::kernel::user_name;
use agentctl_core::locks::{self, Holder, Kind as Why, Lock, LockError};
use agentctl_core::model::Time;
use anstyle::AnsiColor;
use clap::Args;

use super::table;
use crate::config::Span;
use crate::face::{age, local_minute};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::text::one_line;
use crate::ui::Ui;

/// Longest reason, in characters.
const MAX_REASON_CHARS: usize = 2000;
/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Keep launches out of a directory until it is unlocked
///
/// A lock is your word, not a process: it stays until `agentctl unlock` or until its time is over. A
/// directory in which an agent works can be locked too: that keeps the next one out.
#[derive(Args)]
pub(super) struct LockArgs {
    /// The directory; the current one if not given
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Who locks it; your user name if not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// For how long: 30m, 2h, 7d; until it is unlocked if not given
    #[arg(long, value_name = "SPAN")]
    ttl: Option<Span>,
}

/// Take the lock from a directory
#[derive(Args)]
pub(super) struct UnlockArgs {
    /// The directory; the current one if not given
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Show which directories are occupied or locked, and by whom
///
/// A directory is occupied while an agent works in it, whoever started it, and free when the last one has
/// ended. `manual` is what somebody said with `agentctl lock`.
#[derive(Args)]
pub(super) struct LocksArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn cmd_lock(ui: &mut Ui, fleet: &Fleet, args: &LockArgs) -> Outcome {
    let host = &fleet.host;
    let directory = directory(host, args.directory.as_deref())?;
    let named = host.var("USER").or_else(|| host.var("LOGNAME")).map(str::to_owned);
    let user = || named.or_else(|| user_name(host.kernel.uid()));
    let by = args.by.clone().or_else(user);
    let by = short("--by", by.as_deref(), MAX_NAME_CHARS)?;
    let reason = short("--reason", args.reason.as_deref(), MAX_REASON_CHARS)?;
    let until = args.ttl.map(|span| until(host, span)).transpose()?;
    let lock = locks::lock(host, &directory, by, reason, until)
        .map_err(|error| failure(host, &directory, error))?;
    let end = lock.holder.until.map(|until| format!(" until {}", local_minute(until)));
    ui.note(&format!("locked {}{}", shown(host, &directory), end.unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_unlock(ui: &mut Ui, fleet: &Fleet, args: &UnlockArgs) -> Outcome {
    let host = &fleet.host;
    let directory = directory(host, args.directory.as_deref())?;
    locks::unlock(host, &directory).map_err(|error| failure(host, &directory, error))?;
    ui.note(&format!("unlocked {}", shown(host, &directory)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_locks(ui: &mut Ui, fleet: &Fleet, args: &LocksArgs) -> Outcome {
    let host = &fleet.host;
    let report = fleet.locks();
    if args.json {
        ui.json(&report)?;
    } else if report.locks.is_empty() {
        let whole = report.faults.is_empty();
        ui.note(if whole { "nothing is locked or occupied" } else { "no lock could be shown" });
    } else {
        for line in table(ui, host, &report.locks) {
            ui.line(&line)?;
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &report.faults))
}

/// Returns the real path of the directory. Fails if the current directory is needed and was removed: no
/// other directory may be used instead.
pub(super) fn directory(host: &Host, given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(path) if path.is_absolute() => Ok(locks::real_path(host, path)),
        relative => match std::env::current_dir() {
            Ok(here) => Ok(locks::real_path(host, &here.join(relative.unwrap_or(Path::new(""))))),
            Err(error) => Err(Failure::new(
                Kind::Failed,
                format!("the current directory is no more: {error}"),
            )
            .hint("name the directory by its whole path")),
        },
    }
}

/// Returns a text if it is given and not blank; an error if it is too long.
pub(super) fn short(
    name: &str,
    text: Option<&str>,
    most: usize,
) -> Result<Option<String>, Failure> {
    let Some(text) = text.map(str::trim).filter(|t| !t.is_empty()) else { return Ok(None) };
    if text.chars().count() <= most {
        return Ok(Some(text.to_owned()));
    }
    Err(Failure::new(Kind::Usage, format!("{name} is longer than {most} characters")))
}

fn until(host: &Host, Span(span): Span) -> Result<Time, Failure> {
    if span.is_zero() {
        return Err(Failure::new(Kind::Usage, "--ttl: a lock for no time at all locks nothing"));
    }
    let end = i64::try_from(span.as_millis()).ok().and_then(|s| host.now().millis().checked_add(s));
    end.and_then(Time::from_millis)
        .ok_or_else(|| Failure::new(Kind::Usage, "--ttl: no calendar reaches that far"))
}

fn failure(host: &Host, directory: &Path, error: LockError) -> Failure {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let name = shown(host, directory);
    match error {
        LockError::Locked(lock) => {
            Failure::new(Kind::Refused, format!("{name} is locked already: {}", who(&lock.holder)))
                .hint(format!("`agentctl unlock {name}` removes the lock"))
        }
        LockError::NotLocked(_) => Failure::new(Kind::Failed, format!("{name} is not locked"))
            .hint("`agentctl locks` shows what is locked or occupied"),
        LockError::Busy(_) => {
            Failure::new(Kind::Refused, format!("a launch is at work in {name}; try again"))
        }
        LockError::Unreadable(why) => Failure::new(Kind::Failed, why),
        LockError::Io(_, error) if error.kind() == NotFound && !directory.exists() => {
            Failure::new(Kind::Failed, format!("there is no directory {name}"))
        }
        LockError::Io(_, error) if error.kind() == NotADirectory && !directory.is_dir() => {
            Failure::new(Kind::Failed, format!("{name} is not a directory"))
        }
        LockError::Io(_, error) => {
            Failure::new(Kind::Failed, format!("the lock of {name} cannot be changed: {error}"))
        }
    }
}

pub(super) fn shown(host: &Host, directory: &Path) -> String {
    session_table::directory(host, &directory.to_string_lossy())
}

/// Returns the holder of a directory, and until when.
fn who(holder: &Holder) -> String {
    let left = holder.until.map(|until| format!(" (until {})", local_minute(until)));
    one_line(&format!("{}{}", holder.what, left.unwrap_or_default()))
}

const HEADER: [&str; 4] = ["KIND", "SINCE", "DIRECTORY", "WHO"];

fn table(ui: &Ui, host: &Host, locks: &[Lock]) -> Vec<String> {
    let now = host.now();
    let cells = |lock: &Lock| {
        let since = lock.holder.since.map_or_else(|| "-".to_owned(), |since| age(now, since));
        let directory = session_table::directory(host, &lock.directory);
        let style = match lock.holder.kind {
            Why::Occupied => AnsiColor::Green.on_default(),
            Why::Manual => AnsiColor::Yellow.on_default(),
        };
        (style, [lock.holder.kind.word().to_owned(), since, directory, who(&lock.holder)])
    };
    let rows: Vec<_> = locks.iter().map(cells).collect();
    table::lines(ui, HEADER, &rows)
}
