//! `agentctl lock`, `unlock`, `locks`: manual locks of directories, and the agents that occupy
//! directories.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{Fleet, LockOrderError, LockRequest, LocksDocument, UnlockRequest};
use clap::Args;

use super::listed::Listed;
use super::shape::{Shape, ShapeArgs};
use super::watch::watch;
use crate::config::Span;
use crate::face::{LockListRow, local_minute, not_locked};
use crate::failure::Outcome;
use crate::session_table;
use crate::ui::Ui;

/// Lock a directory: launches into it are refused
///
/// The lock stays until `agentctl unlock` or until --ttl is over; no process holds it. A directory in which an
/// agent works can be locked, too: it keeps out the next one.
#[derive(Args)]
pub(super) struct LockArgs {
    /// The directory [default: the current one]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Name of the owner of the lock [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Reason, shown to those whose launch is refused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Remove the lock after this time: 30m, 2h, 7d [default: never]
    #[arg(long, value_name = "SPAN")]
    ttl: Option<Span>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Unlock a directory
///
/// Exit code 4 if it is not locked.
#[derive(Args)]
pub(super) struct UnlockArgs {
    /// The directory [default: the current one]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// List occupied and locked directories
///
/// A directory is occupied while a live agent works in it, and free when the last one has ended. Locks set with
/// `agentctl lock` are of the kind `manual`.
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
    let locked = fleet.lock(&request).map_err(|error| {
        let is_missing = matches!(error, LockOrderError::NoDirectory { .. });
        let failure = not_locked(host, error);
        let is_listing = args
            .directory
            .as_ref()
            .is_some_and(|name| ["ls", "list"].iter().any(|word| name.as_os_str() == *word));
        if is_missing && is_listing {
            failure.hint("`agentctl locks` lists what is locked or occupied")
        } else {
            failure
        }
    })?;
    if args.json {
        ui.json(&locked)?;
        return Ok(ExitCode::SUCCESS);
    }
    let until = locked.lock.and_then(|lock| lock.holder.until);
    let end = until.map(|until| format!(" until {}", local_minute(until))).unwrap_or_default();
    ui.note(&format!("locked {}{end}", session_table::directory(host, &locked.directory)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_unlock(ui: &mut Ui, fleet: &Fleet, args: &UnlockArgs) -> Outcome {
    let host = &fleet.host;
    let request = UnlockRequest { directory: args.directory.clone() };
    let unlocked = fleet.unlock(&request).map_err(|error| not_locked(host, error))?;
    if args.json {
        ui.json(&unlocked)?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.note(&format!("unlocked {}", session_table::directory(host, &unlocked.directory)));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cmd_locks(ui: &mut Ui, fleet: &Fleet, args: &LocksArgs) -> Outcome {
    let shape = args.shape.shape::<LockListRow>()?;
    if shape.is_watched {
        return watch(ui, fleet, &shape, || Ok(listed(fleet, &shape)));
    }
    let listed = listed(fleet, &shape);
    listed.print(ui, &fleet.host, &shape)?;
    Ok(super::answered(ui, &listed.faults))
}

fn listed(fleet: &Fleet, shape: &Shape<LockListRow>) -> Listed<LockListRow, LocksDocument> {
    let mut document = fleet.locks();
    let (locks, faults) = (std::mem::take(&mut document.locks), document.faults.clone());
    let mut rows = LockListRow::all(fleet, locks, shape.shows_short_ids());
    shape.arrange(&fleet.host, &mut rows);
    document.locks = rows.iter().map(|row| row.lock.clone()).collect();
    let whole = faults.is_empty();
    let empty = if whole { "nothing is locked or occupied" } else { "no lock could be shown" };
    Listed { title: "locks", rows, document, faults, remarks: Vec::new(), empty: empty.into() }
}
