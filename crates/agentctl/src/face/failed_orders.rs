//! The sentences that say why an order about a lock, a fuse or runs was not carried out.

use agentctl_core::ask::{
    Fleet, FuseOrderError, InvalidRequest, LockOrderError, NotOneFuse, PruneError, RequestField,
};
use agentctl_core::host::Host;

use super::{fuse_name, holder_text, unresolved};
use crate::failure::{Failure, Kind};
use crate::text::{path_word, with_tilde};

/// Says why a directory was not locked or unlocked.
#[must_use]
pub fn not_locked(host: &Host, error: LockOrderError) -> Failure {
    let name = |directory: &str| with_tilde(&host.home, directory);
    let failed = |message: String| Failure::new(Kind::Failed, message);
    match error {
        LockOrderError::Invalid(invalid) => {
            invalid_request(&invalid, "the time must be longer than zero")
        }
        LockOrderError::Locked(lock) => {
            let (name, holder) = (name(&lock.directory), holder_text(&lock.holder));
            let word = path_word(&host.home, &lock.directory);
            Failure::new(Kind::Refused, format!("{name} is already {holder}"))
                .hint(format!("`agentctl unlock {word}` removes the lock"))
        }
        LockOrderError::NotLocked { directory } => {
            Failure::new(Kind::NotFound, format!("{} is not locked", name(&directory)))
                .hint("`agentctl locks` shows what is locked or occupied")
        }
        LockOrderError::Busy { directory } => {
            let message =
                format!("another launch is in progress in {}; try again", name(&directory));
            Failure::new(Kind::Refused, message)
        }
        LockOrderError::Unreadable { why } => failed(why),
        LockOrderError::NoDirectory { directory } => {
            failed(format!("there is no directory {}", name(&directory)))
        }
        LockOrderError::NotADirectory { directory } => {
            failed(format!("{} is not a directory", name(&directory)))
        }
        LockOrderError::Failed { directory, why } => {
            failed(format!("the lock of {} cannot be changed: {why}", name(&directory)))
        }
    }
}

/// Says why the runs that have ended were not removed.
#[must_use]
pub fn not_pruned(error: PruneError) -> Failure {
    match error {
        PruneError::Unlisted(source) => source.into(),
        PruneError::Unremoved { directory, source } => {
            let message = format!("{} cannot be removed: {source}", directory.display());
            Failure::new(Kind::Failed, message).hint("make its folder writable")
        }
    }
}

/// Says why a fuse was not set, extended or cancelled.
#[must_use]
pub fn fuse_not_changed(fleet: &Fleet, error: FuseOrderError) -> Failure {
    let host = &fleet.host;
    let failed = |message: String| Failure::new(Kind::Failed, message);
    match error {
        FuseOrderError::Invalid(invalid) => {
            invalid_request(&invalid, "the time must be longer than zero")
        }
        FuseOrderError::NoProgram { why } => failed(format!("--on-expire: {why}")),
        FuseOrderError::NotOneSession(found) => unresolved(fleet, &found.text, found.why),
        FuseOrderError::NoSession { text } => {
            failed(format!("`{text}` has no session yet, so no fuse can be set on it"))
                .hint("set the fuse on its directory")
        }
        FuseOrderError::NotADirectory { directory } => {
            failed(format!("{} is not a directory", with_tilde(&host.home, &directory)))
        }
        FuseOrderError::NotUtf8 { directory } => {
            failed(format!("the name of {} is not UTF-8", with_tilde(&host.home, &directory)))
        }
        FuseOrderError::NotOneFuse(not_one) => not_one_fuse(host, not_one),
        FuseOrderError::Gone(fuse) => {
            Failure::new(Kind::NotFound, format!("{} is gone", fuse_name(host, &fuse)))
        }
        FuseOrderError::Firing(fuse) => {
            let message = format!("{} has already expired", fuse_name(host, &fuse));
            Failure::new(Kind::Refused, message)
                .hint("its actions are running; `agentctl fuses` shows their progress")
        }
        FuseOrderError::Timeless(fuse) => {
            let name = fuse_name(host, &fuse);
            Failure::new(Kind::Usage, format!("{name} has no --ttl that could start again"))
                .hint("name what to change: --ttl, --idle, --max-runtime or --max-cost")
        }
        FuseOrderError::Busy => {
            Failure::new(Kind::Refused, "another process is changing fuses; try again")
        }
        FuseOrderError::Failed { why } => failed(format!("the fuse: {why}")),
    }
}

fn not_one_fuse(host: &Host, not_one: NotOneFuse) -> Failure {
    match not_one {
        NotOneFuse::Nothing { session, directory, label } => {
            let what = match (session, directory) {
                (Some(session), _) => format!("session `{session}`"),
                (None, directory) => with_tilde(&host.home, &directory.unwrap_or_default()),
            };
            let label = label.map(|l| format!(" with the label `{l}`")).unwrap_or_default();
            Failure::new(Kind::NotFound, format!("there is no fuse on {what}{label}"))
                .hint("`agentctl fuses` shows them all")
        }
        NotOneFuse::Several(fuses) => {
            let message = format!("that matches {} fuses", fuses.len());
            let failure = fuses.iter().fold(Failure::new(Kind::Ambiguous, message), |f, fuse| {
                f.candidate(format!("{}  {}", fuse.id, fuse_name(host, fuse)))
            });
            failure.hint("give its id, or --label")
        }
        NotOneFuse::Unknown { why } => Failure::new(Kind::Unanswered, why),
        NotOneFuse::Invalid(invalid) => invalid_request(&invalid, ""),
    }
}

/// Says why a request cannot be carried out; `zero_time` says so about a time of zero.
fn invalid_request(invalid: &InvalidRequest, zero_time: &str) -> Failure {
    let message = match invalid {
        InvalidRequest::TooManyCharacters { field, limit } => {
            format!("{} is longer than {limit} characters", flag(*field))
        }
        InvalidRequest::TooManyBytes { field, limit } => {
            format!("{}: it is longer than {limit} bytes", flag(*field))
        }
        InvalidRequest::ZeroTime { field } => format!("{}: {zero_time}", flag(*field)),
        InvalidRequest::TooFar { field } => {
            format!("{}: the date is too far in the future", flag(*field))
        }
        InvalidRequest::NotAnAmount { field } => {
            format!("{}: write an amount above 0, like 5.00", flag(*field))
        }
        InvalidRequest::NoCurrentDirectory { why } => {
            let message = format!("the current directory no longer exists: {why}");
            return Failure::new(Kind::Failed, message)
                .hint("name the directory by its whole path");
        }
    };
    Failure::new(Kind::Usage, message)
}

fn flag(field: RequestField) -> &'static str {
    match field {
        RequestField::By => "--by",
        RequestField::Reason => "--reason",
        RequestField::Label => "--label",
        RequestField::Ttl => "--ttl",
        RequestField::Idle => "--idle",
        RequestField::MaxRuntime => "--max-runtime",
        RequestField::MaxCost => "--max-cost",
        RequestField::Command | RequestField::Url => "--on-expire",
    }
}
