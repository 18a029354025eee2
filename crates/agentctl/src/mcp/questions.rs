//! The tools that only read. Each asks one question of the fleet.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agentctl_core::ask::{AsksRequest, Fleet, WaitDocument, WaitRequest, WaitTarget, WhyDocument};
use agentctl_core::fleet::Query;
use agentctl_core::model::{Ask, SCHEMA_VERSION, Session};
use agentctl_core::wait::{End, Quorum};

use super::documents::{
    AskListDocument, LogDocument, SessionDocument, SessionsDocument, WaitedDocument,
};
use super::requests::{GetSession, ListAsks, ListSessions, ReadLog, WaitFor, groups_since_ms};
use super::tools::{Answered, Cancelled};
use super::{Shared, limits, log_page};
use crate::face::{no_group, not_waited, session_list, unresolved};
use crate::failure::{Failure, Kind};

/// `list_sessions`: the question of `agentctl list`.
pub(super) fn list_sessions(
    shared: &Shared,
    request: ListSessions,
    _cancelled: &Cancelled,
) -> Result<Answered<SessionsDocument>, Failure> {
    let limit =
        limits::count("limit", request.limit, (limits::USUAL_SESSIONS, limits::MAX_SESSIONS))?;
    let fleet = shared.loaded.fleet();
    let query = request.query(&fleet)?;
    let rows = session_list(&fleet, &query).rows;
    let mut faults = rows.faults.clone();
    faults.extend(shared.loaded.source_faults());
    let faults = shared.scope.faults(faults);
    let admitted = rows.iter().filter(|session| shared.scope.admits(session.cwd.as_deref()));
    let (mut sessions, mut total) = (Vec::new(), 0);
    for session in admitted {
        total += 1;
        if total <= limit {
            sessions.push(shared.scope.shown(without_evidence(session)));
        }
    }
    // A directory that is gone may still have sessions. Of one outside of the scope nothing is said.
    if let Some(cwd) = query.cwd.as_deref().filter(|cwd| total == 0 && !Path::new(cwd).is_dir())
        && shared.scope.admits(Some(cwd))
    {
        let failure = Failure::new(Kind::Usage, format!("`cwd`: there is no directory {cwd}"));
        return Err(failure.hint("without `cwd` the sessions of all directories are listed"));
    }
    if let (0, true, Some(group)) = (total, faults.is_empty(), query.group.as_deref()) {
        check_group(shared, &fleet, group, groups_since_ms(&fleet, &query)?)?;
    }
    let hint = (total == 0 && request.leaves_out_ended())
        .then(|| "only live sessions were looked at; `all` adds those that have ended".to_owned());
    let truncated = total > sessions.len();
    let schema_version = SCHEMA_VERSION;
    let document = SessionsDocument { schema_version, sessions, truncated, total, hint, faults };
    Ok(document.into())
}

/// Fails if there is no group with this name. Of a group that has sessions only outside of the scope nothing is said.
fn check_group(
    shared: &Shared,
    fleet: &Fleet,
    group: &str,
    since_ms: Option<i64>,
) -> Result<(), Failure> {
    let query = Query { all: true, since_ms, ..Query::default() };
    let rows = session_list(fleet, &query).rows;
    let admitted = rows.iter().filter(|session| shared.scope.admits(session.cwd.as_deref()));
    let admitted = admitted.filter_map(|session| session.group);
    let groups = if shared.scope.directory().is_none() {
        fleet.known_groups(admitted)
    } else {
        admitted.collect()
    };
    if groups.contains(group) { Ok(()) } else { Err(no_group(group, groups)) }
}

fn without_evidence(mut session: Session) -> Session {
    session.evidence.clear();
    session
}

/// `get_session`: the questions of `agentctl status` and `agentctl why`, of one look.
pub(super) fn get_session(
    shared: &Shared,
    request: GetSession,
    _cancelled: &Cancelled,
) -> Result<Answered<SessionDocument>, Failure> {
    let fleet = shared.loaded.fleet();
    let text = shared.named(&fleet, &request.id)?;
    let found = fleet.status(&text).map_err(|why| unresolved(&fleet, &text, why))?;
    let (mut document, faults) = (found.document, shared.scope.faults(found.faults));
    let why = WhyDocument::of(&document.session).verdict;
    document.session = shared.scope.shown(document.session);
    Ok(SessionDocument { session: document, why, faults }.into())
}

/// `read_log`: the question of `agentctl logs`.
pub(super) fn read_log(
    shared: &Shared,
    request: ReadLog,
    _cancelled: &Cancelled,
) -> Result<Answered<LogDocument>, Failure> {
    let last = limits::count("last", request.last, (limits::USUAL_MESSAGES, limits::MAX_MESSAGES))?;
    let fleet = shared.loaded.fleet();
    let text = shared.named(&fleet, &request.id)?;
    log_page::page(&fleet, &text, last, request.before.as_deref()).map(Answered::from)
}

/// `wait_for`: the question of `agentctl wait`, in slices, so that a cancelled wait ends soon.
pub(super) fn wait_for(
    shared: &Shared,
    request: WaitFor,
    cancelled: &Cancelled,
) -> Result<Answered<WaitedDocument>, Failure> {
    limits::ids(&request.ids)?;
    let seconds = request.seconds.unwrap_or(limits::MAX_WAIT_SECONDS);
    if !(1..=limits::MAX_WAIT_SECONDS).contains(&seconds) {
        let most = limits::MAX_WAIT_SECONDS;
        let message = format!("`seconds` is {seconds}: it must be between 1 and {most}");
        return Err(Failure::new(Kind::Usage, message).hint("call the tool again to wait longer"));
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let fleet = shared.loaded.fleet();
    let mut faults = Vec::new();
    let mut targets = Vec::new();
    for id in &request.ids {
        let text = shared.named(&fleet, id)?;
        let found = fleet.target(&text).map_err(|why| unresolved(&fleet, &text, why))?;
        faults.extend(found.faults);
        targets.extend(WaitTarget::of(&found.target));
    }
    let quorum = if request.any { Quorum::Any } else { Quorum::All };
    let mut waiting = WaitRequest {
        targets,
        until: request.until.into(),
        quorum,
        timeout_ms: None,
        figures: true,
    };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let slice = left.min(limits::WAIT_SLICE);
        waiting.timeout_ms = u64::try_from(slice.as_millis()).ok();
        let waited = fleet.wait(&waiting, &mut |_| ()).map_err(|why| not_waited(&fleet, why))?;
        let is_over = waited.end != End::TimedOut || until <= Instant::now();
        if is_over || cancelled.load(Ordering::Relaxed) {
            faults.extend(waited.faults.iter().cloned());
            faults.sort();
            faults.dedup();
            let mut document = waited_document(waited);
            document.faults = shared.scope.faults(faults);
            document.sessions =
                document.sessions.into_iter().map(|session| shared.scope.shown(session)).collect();
            return Ok(document.into());
        }
    }
}

fn waited_document(waited: WaitDocument) -> WaitedDocument {
    WaitedDocument {
        schema_version: waited.schema_version,
        reached: waited.end == End::Reached,
        end: waited.end,
        sessions: waited.sessions.into_iter().map(without_evidence).collect(),
        verdicts: waited.verdicts,
        asks: waited.asks,
        faults: waited.faults,
    }
}

/// `list_asks`: the question of `agentctl asks`.
pub(super) fn list_asks(
    shared: &Shared,
    request: ListAsks,
    _cancelled: &Cancelled,
) -> Result<Answered<AskListDocument>, Failure> {
    let fleet = shared.loaded.fleet();
    let session = request.session.as_deref().map(|text| shared.named(&fleet, text)).transpose()?;
    let asks = AsksRequest { select: session.into_iter().collect(), ..AsksRequest::default() };
    let document = fleet.asks(&asks);
    let mut document = document.map_err(|found| unresolved(&fleet, &found.text, found.why))?;
    document.asks.retain(|ask: &Ask| shared.scope.admits(ask.cwd.as_deref()));
    document.faults = shared.scope.faults(document.faults);
    let truncated = document.asks.len() > limits::MAX_ASKS;
    document.asks.truncate(limits::MAX_ASKS);
    Ok(AskListDocument { document, truncated }.into())
}
