//! Stopping a session on a remote server: ask the server to end the run, then look again.
//!
//! Only a new look counts. If the server does not answer, the session's status is unknown, never stopped.

use std::time::{Duration, Instant};

use super::{Report, STOP_TIMEOUT, StopOptions, StopVerdict};
use crate::adapters::control::Control;
use crate::adapters::{Adapter, Root};
use crate::fleet::{self, Fleet, Inspected};
use crate::model::{Fault, ReasonKind, Session, Status, Target};

/// Interval between two questions whether the run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Says whether a run of the session, or of one of its subagents, is active.
fn works(session: &Session) -> bool {
    let below = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
    matches!(session.status, Status::Running | Status::Waiting)
        || (session.status == Status::Idle && below)
}

pub(super) fn stop(
    fleet: &Fleet,
    target: &Target,
    (adapter, control): (&'static dyn Adapter, &dyn Control),
    inspected: Inspected,
    options: StopOptions,
) -> Report {
    let Some(session) = inspected.session.clone() else {
        return Report::bare(StopVerdict::Already, inspected);
    };
    if session.status == Status::Unknown {
        let why = session.reason.as_ref().and_then(|r| r.detail.clone());
        let why = why.unwrap_or_else(|| "no source says".into());
        return Report::bare(StopVerdict::Unknown(why), inspected);
    }
    if !works(&session) {
        return Report::bare(StopVerdict::Already, inspected);
    }
    let until = Instant::now() + options.timeout().unwrap_or(STOP_TIMEOUT);
    let look = fleet::look(fleet, until.saturating_duration_since(Instant::now()));
    let roots = fleet::roots_of(fleet, adapter.name(), fleet.host.deadlines.live).rows;
    let root = Root::find(&roots, &session.root);
    let below = session.reason.as_ref().is_some_and(|r| r.kind == ReasonKind::Background);
    let asked = control.interrupt(&look, &root, &session);
    let mut report = Report::bare(StopVerdict::Already, inspected);
    let mut last: Option<Session>;
    loop {
        let seen = fleet::inspect(fleet, target);
        let silent = seen.faults.iter().find(|f| f.adapter == adapter.name()).cloned();
        last = seen.session;
        report.verdict = match (&last, silent) {
            (Some(now), None) if now.status == Status::Unknown => {
                let why = now.reason.as_ref().and_then(|r| r.detail.clone());
                StopVerdict::Unknown(why.unwrap_or_else(|| "no source says".into()))
            }
            (Some(now), None) if works(now) => match &asked {
                Err(why) => StopVerdict::Failed(why.clone()),
                Ok(_) => StopVerdict::Failed(
                    "its server accepted the request, but the session keeps working".into(),
                ),
            },
            (_, None) => StopVerdict::Stopped,
            (_, Some(fault)) => {
                let Fault { message, .. } = &fault;
                let why = format!("its server could not be asked again: {message}");
                report.faults.push(fault);
                StopVerdict::Unknown(why)
            }
        };
        let settled = matches!(report.verdict, StopVerdict::Stopped) || asked.is_err();
        if settled || Instant::now() >= until {
            break;
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    if report.verdict == StopVerdict::Stopped {
        report.faults.retain(|f| f.adapter != adapter.name());
        if below {
            report.notes.push("its subagents were stopped with it".to_owned());
        }
    }
    report.after = last;
    report.faults.sort();
    report.faults.dedup();
    report
}
