//! `agentctl wait`: blocks until sessions reach a status; the exit code tells the result.

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use agentctl_core::ask::Fleet;
use agentctl_core::model::{Outcome as Ended, Session, Status, Target};
use agentctl_core::native::watch::Watch;
use agentctl_core::transcript::Transcript;
use agentctl_core::wait::{
    Awaited, End, Progress, Quorum, Until, WaitOptions, WaitVerdict, Waited,
};
use clap::{Args, ValueEnum};

use super::logs::{Form, Printer};
use crate::config::Span;
use crate::failure::{Failure, Kind, Outcome};
use crate::text::one_line;
use crate::ui::Ui;

/// Longest interval between two checks whether the turn is over; new messages wake the loop at once.
const FOLLOW_PACE: Duration = Duration::from_millis(100);

/// Wait until a turn is over, or a status is reached
///
/// Exit codes: 0 idle or finished (with --for: reached), 1 failed, killed or interrupted (with --for: it
/// can no longer be reached), 10 a human is needed first, 124 the time was up. Of several sessions each
/// must get there; one that needs a human is told at once. What is unknown is waited for.
#[derive(Args)]
pub(super) struct WaitArgs {
    /// Session ids or prefixes, names, pids, directories, or adapter:id
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Wait for this status instead; `stopped` means that nothing serves it any more
    #[arg(long = "for", value_name = "STATUS", value_enum)]
    status: Option<Wanted>,
    /// The first of them is enough
    #[arg(long)]
    any: bool,
    /// Give up after this time: 30s, 10m, 2h
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wanted {
    Running,
    Waiting,
    Idle,
    Stopped,
    Error,
}

impl From<Wanted> for Until {
    fn from(wanted: Wanted) -> Self {
        Self::Status(match wanted {
            Wanted::Running => Status::Running,
            Wanted::Waiting => Status::Waiting,
            Wanted::Idle => Status::Idle,
            Wanted::Stopped => Status::Stopped,
            Wanted::Error => Status::Error,
        })
    }
}

/// The output on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// One line for each session when it is decided.
    Lines,
    /// One JSON document at the end.
    Json,
    /// Nothing: the exit code tells, with a message on stderr.
    Nothing,
}

pub(super) fn cmd_wait(ui: &mut Ui, fleet: &Fleet, args: &WaitArgs) -> Outcome {
    let mut targets: Vec<Target> = Vec::new();
    for id in &args.ids {
        let (target, faults) = super::target(fleet, id)?;
        for fault in &faults {
            ui.warn_fault(fault);
        }
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    let wait_options = WaitOptions {
        until: args.status.map_or(Until::TurnOver, Until::from),
        quorum: if args.any { Quorum::Any } else { Quorum::All },
        timeout: args.timeout.map(|Span(time)| time),
    };
    wait_for(ui, fleet, &targets, wait_options, if args.json { Show::Json } else { Show::Lines })
}

/// Waits for these sessions and returns the exit code of the contract; `launch --wait` does the same.
pub(super) fn wait_for(
    ui: &mut Ui,
    fleet: &Fleet,
    targets: &[Target],
    wait_options: WaitOptions,
    show: Show,
) -> Outcome {
    let mut written = Ok(());
    let waited = fleet.wait(targets, wait_options, &mut |progress| {
        let said = say(ui, show, &progress);
        if written.is_ok() {
            written = said;
        }
    })?;
    written?;
    if show == Show::Json {
        ui.json(&fleet.wait_document(&waited))?;
    }
    let ended = ended(&waited, wait_options, show);
    // The process exits now: removing the watches would only delay it.
    agentctl_core::kernel::leave_quickly();
    std::mem::forget(waited.watched);
    ended
}

fn ended(waited: &Waited, wait_options: WaitOptions, show: Show) -> Outcome {
    if show == Show::Json {
        return Ok(ExitCode::from(kind(waited.end).map_or(0, Kind::exit_code)));
    }
    answer(waited, wait_options)
}

/// Shows a conversation as it is written until its turn is over; the exit code tells how it ended. An
/// open transcript continues at its position.
pub(super) fn follow(
    ui: &mut Ui,
    fleet: &Fleet,
    target: &Target,
    wait_options: WaitOptions,
    (form, mut transcript): (Form, Option<Transcript>),
) -> Outcome {
    let (sender, ended) = channel();
    let (asked, theirs) = (fleet.clone(), target.clone());
    std::thread::spawn(move || {
        let waited = asked.wait(&[theirs], wait_options, &mut |_| {});
        // The receiver may have gone.
        let _unheard = sender.send(waited);
    });
    let mut watch: Option<Watch> = None;
    let mut printer = Printer::beside_another_command(ui, form, fleet.host.now());
    loop {
        // The end is checked before the messages, so that no message is missed. Without a file watch
        // this check also waits.
        let patience = if watch.is_some() { Duration::ZERO } else { FOLLOW_PACE };
        let waited = match ended.recv_timeout(patience) {
            Ok(waited) => Some(waited?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(Kind::Failed, "waiting for it broke off"));
            }
        };
        if transcript.is_none() {
            transcript = fleet.transcript(target).ok();
        }
        watch = watch.or_else(|| transcript.as_ref()?.watch().ok());
        if let Some(transcript) = &mut transcript {
            printer.more(ui, transcript)?;
        }
        if let Some(waited) = waited {
            return answer(&waited, wait_options);
        }
        if let Some(watch) = &watch {
            let _hint = watch.wait(FOLLOW_PACE);
        }
    }
}

fn answer(waited: &Waited, wait_options: WaitOptions) -> Outcome {
    match waited.end {
        End::Reached => Ok(ExitCode::SUCCESS),
        End::Missed => Ok(ExitCode::from(Kind::Failed.exit_code())),
        End::Blocked => Err(blocked(waited)),
        End::TimedOut => Err(timed_out(waited, wait_options.timeout.unwrap_or_default())),
    }
}

fn kind(end: End) -> Option<Kind> {
    match end {
        End::Reached => None,
        End::Missed => Some(Kind::Failed),
        End::Blocked => Some(Kind::Blocked),
        End::TimedOut => Some(Kind::TimedOut),
    }
}

fn say(ui: &mut Ui, show: Show, progress: &Progress<'_>) -> std::io::Result<()> {
    match progress {
        Progress::Decided(session) => match show {
            Show::Lines => {
                ui.line(&line(session))?;
                ui.flush()?;
            }
            Show::Nothing if session.status != Status::Waiting => ui.note(&line(session)),
            Show::Json | Show::Nothing => {}
        },
        Progress::Unknown(session) => {
            let why = reason(session).unwrap_or_else(|| "no source says".to_owned());
            ui.note(&format!("what {} does is unknown ({why}): waiting goes on", name(session)));
        }
        Progress::NeedsHuman(session) => {
            ui.note(&format!("{}: waiting goes on", needs_human(session)));
        }
        Progress::Fault(fault) => ui.warn_fault(fault),
        Progress::Paced(why) => ui.note(&format!("{why}: looking once a second instead")),
    }
    Ok(())
}

/// Returns `2a658488  stopped  finished`.
fn line(session: &Session) -> String {
    let ended = session.outcome.map(|outcome| match (outcome, reason(session)) {
        (Ended::Failed, Some(why)) => why,
        (outcome, _) => outcome.word().to_owned(),
    });
    let more = ended.or_else(|| reason(session)).map(|m| format!("  {m}")).unwrap_or_default();
    format!("{}  {}{more}", name(session), session.status.word())
}

fn name(session: &Session) -> String {
    const SHORT: usize = 8;
    match (&session.id, session.pid) {
        (Some(id), _) => id.get(..SHORT).unwrap_or(id).to_owned(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "-".to_owned(),
    }
}

fn reason(session: &Session) -> Option<String> {
    let reason = session.reason.as_ref()?;
    let detail = reason.detail.as_ref().map(|d| format!(": {}", one_line(d)));
    Some(format!("{}{}", reason.kind.word(), detail.unwrap_or_default()))
}

fn needs_human(session: &Session) -> String {
    let why = reason(session).map(|r| format!(" ({r})")).unwrap_or_default();
    format!("{} waits for a human{why}", name(session))
}

fn blocked(waited: &Waited) -> Failure {
    let is_blocked = |s: &&Awaited| s.verdict == WaitVerdict::Blocked;
    let session = waited.sessions.iter().find(is_blocked).and_then(|s| s.session.as_ref());
    let message = session.map_or_else(|| "a human is needed first".to_owned(), needs_human);
    Failure::new(Kind::Blocked, message)
}

fn timed_out(waited: &Waited, after: Duration) -> Failure {
    let open = waited.sessions.iter().filter(|s| s.verdict == WaitVerdict::Pending);
    let open = open.map(|s| match &s.session {
        Some(session) => format!("{} is {}", name(session), session.status.word()),
        None => "one could not be looked at".to_owned(),
    });
    let open: Vec<String> = open.collect();
    let message = format!("gave up after {} s: {}", after.as_secs_f64(), open.join(", "));
    Failure::new(Kind::TimedOut, message)
}
