//! `agentctl lock`, `unlock`, `locks`: manual locks of directories, and the agents that occupy
//! directories.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, LockRequest, UnlockRequest};
use clap::Args;

use super::shape::ShapeArgs;
use crate::config::Span;
use crate::face::{LockListRow, local_minute, not_locked};
use crate::failure::Outcome;
use crate::session_table;
use crate::ui::Ui;

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
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_lock(ui: &mut Ui, fleet: &Fleet, args: &LockArgs) -> Outcome {
    let host = &fleet.host;
    let request = LockRequest {
        directory: args.directory.clone(),
        by: args.by.clone(),
        reason: args.reason.clone(),
        ttl_ms: args.ttl.map(Span::millis),
    };
    let locked = fleet.lock(&request).map_err(|error| not_locked(host, error))?;
    let until = locked.lock.and_then(|lock| lock.holder.until);
    let end = until.map(|until| format!(" until {}", local_minute(until))).unwrap_or_default();
    ui.note(&format!("locked {}{end}", session_table::directory(host, &locked.directory)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_unlock(ui: &mut Ui, fleet: &Fleet, args: &UnlockArgs) -> Outcome {
    let host = &fleet.host;
    let request = UnlockRequest { directory: args.directory.clone() };
    let unlocked = fleet.unlock(&request).map_err(|error| not_locked(host, error))?;
    ui.note(&format!("unlocked {}", session_table::directory(host, &unlocked.directory)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_locks(ui: &mut Ui, fleet: &Fleet, args: &LocksArgs) -> Outcome {
    let (host, shape) = (&fleet.host, args.shape.shape::<LockListRow>()?);
    let mut report = fleet.locks();
    let is_empty = report.locks.is_empty();
    let locks = std::mem::take(&mut report.locks);
    let mut rows = LockListRow::all(fleet, locks, shape.shows_short_ids());
    shape.arrange(host, &mut rows);
    report.locks = rows.iter().map(|row| row.lock.clone()).collect();
    if is_empty && !shape.is_for_programs() {
        let whole = report.faults.is_empty();
        ui.note(if whole { "nothing is locked or occupied" } else { "no lock could be shown" });
    } else {
        shape.print(ui, host, &rows, &report)?;
    }
    Ok(super::answered(ui, &report.faults))
}
