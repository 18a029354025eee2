//! The documents of `/api/*`: the questions of the command line, asked of the same `Fleet`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_core::ask::{AsksRequest, ChangesRequest, DiffRequest, Fleet, NoDiff};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::kernel::give_back_memory;
use agentctl_core::model::{Target, Time};
use axum::body::Bytes;
use axum::response::Response;

use super::Web;
use super::query::QueryText;
use super::reply::{Body, body, failed, ok};
use crate::face::{
    NoBeginning, SessionList, USUAL_HISTORY, View, begin_choices, beginning, changes_not_told,
    no_diff, no_such_base, session_list, talk_page, unread_conversation, unresolved,
};
use crate::failure::{Failure, Kind};

/// A list with ended sessions is given to all callers for this long.
const HISTORY_FRESHNESS: Duration = Duration::from_secs(1);
/// Free memory that is kept after a list with ended sessions.
const MAX_FREE_MEMORY_BYTES: u64 = 4 << 20;
/// Messages of a page of a conversation.
pub(super) const PAGE_MESSAGES: usize = 40;
/// Most messages of a page.
const MAX_PAGE_MESSAGES: usize = 500;

/// The last list with ended sessions. Many pages that open at once share one answer.
pub(super) type History = Arc<tokio::sync::Mutex<Option<(String, Instant, Bytes)>>>;

/// Answers `/api/sessions`.
pub(super) async fn sessions(web: &Arc<Web>, query: QueryText) -> Response {
    if !query.flag("all") && query.get("since").is_none() {
        return web.blocking(move |web| list(web, &Query::default())).await;
    }
    // The thread that makes the list keeps the lock: it works on after the client has left.
    let mut last = Arc::clone(&web.history).lock_owned().await;
    // A page asks again because a name was given: the list from before is not its answer.
    let name = format!("{:?} {}", query.get("since"), web.feeder.name_changes());
    if let Some((of, at, bytes)) = last.as_ref()
        && *of == name
        && at.elapsed() < HISTORY_FRESHNESS
    {
        return ok(bytes.clone());
    }
    let shared = Arc::clone(web);
    let answer = web.blocking_body((), move |web| {
        let since = query.get("since").unwrap_or(USUAL_HISTORY).to_owned();
        let begin = beginning(web.fleet.host.now(), &since).map_err(|NoBeginning| {
            let what = format!("`since`: `{since}` is neither a span nor a date nor a time");
            Failure::new(Kind::Usage, what).hint("write it like 30d, 12h, 2026-11-01, 16:00 or all")
        })?;
        let since_ms = begin.map(Time::millis);
        let bytes = list(web, &Query { all: true, since_ms, ..Query::default() })?;
        *last = Some((name, Instant::now(), bytes.clone()));
        tokio::spawn(forget_history(shared));
        Ok(bytes)
    });
    match answer.await {
        Ok(bytes) => ok(bytes),
        Err(failure) => failed(&failure),
    }
}

/// Gives the memory of a list with ended sessions back to the system once it is not fresh any more.
async fn forget_history(web: Arc<Web>) {
    tokio::time::sleep(HISTORY_FRESHNESS).await;
    let mut last = web.history.lock().await;
    if last.as_ref().is_some_and(|(_, at, _)| at.elapsed() >= HISTORY_FRESHNESS) {
        *last = None;
    }
    drop(tokio::task::spawn_blocking(|| give_back_memory(MAX_FREE_MEMORY_BYTES)));
}

fn list(web: &Web, query: &Query) -> Body {
    let SessionList { mut rows, .. } = session_list(&web.fleet, query);
    rows.faults.extend(web.loaded.source_faults());
    let rows: &Rows = &rows;
    body(rows)
}

/// Answers `/api/session`.
pub(super) fn session(web: &Web, query: &QueryText) -> Body {
    let id = query.session()?;
    let found = web.fleet.status(id).map_err(|why| unresolved(&web.fleet, id, why))?;
    body(&found.document)
}

/// Answers `/api/why`.
pub(super) fn why(web: &Web, query: &QueryText) -> Body {
    let id = query.session()?;
    let found = web.fleet.why(id).map_err(|why| unresolved(&web.fleet, id, why))?;
    body(&found.explanation)
}

/// Answers `/api/asks`.
pub(super) fn asks(web: &Web) -> Body {
    let asked = web.fleet.asks(&AsksRequest::default());
    let found = asked.map_err(|found| unresolved(&web.fleet, &found.text, found.why))?;
    body(&found)
}

/// Answers `/api/changes`.
pub(super) fn changes(fleet: &Fleet, query: &QueryText) -> Body {
    let session = query.session()?.to_owned();
    let request = ChangesRequest { session, patch: query.flag("patch") };
    let told = fleet.changes(&request);
    body(&told.map_err(|why| changes_not_told(fleet, &request.session, why))?)
}

/// Answers `/api/diff`.
pub(super) fn diff(web: &Web, fleet: &Fleet, query: &QueryText) -> Body {
    let of = query.session()?.to_owned();
    let prefix = web.loaded.defaults.worktree.prefix.clone();
    let base = query.get("base").map(str::to_owned);
    let request = DiffRequest { of, base, patch: query.flag("patch"), prefix };
    let told = fleet.diff(&request);
    let document = told.map_err(|why| match why {
        NoDiff::NoSuchBase(revision) => no_such_base("`base`", &revision),
        why => no_diff(fleet, &request.of, why),
    })?;
    body(&document)
}

/// Answers `/api/begin`.
pub(super) fn begin(web: &Web) -> Body {
    let permissions = web.loaded.defaults.permissions;
    body(&begin_choices(&web.fleet, permissions, web.settings.control))
}

/// Answers `/api/talk`.
pub(super) fn talk(web: &Web, query: &QueryText) -> Body {
    let target = target(web, query.session()?)?;
    let count = query.number("n")?.map_or(PAGE_MESSAGES, |n| usize::try_from(n).unwrap_or(0));
    let count = count.clamp(1, MAX_PAGE_MESSAGES);
    let before = query.number("before")?;
    let page = talk_page(&web.fleet, &target, (count, before), &view());
    body(&page.map_err(|error| unread_conversation(&error))?)
}

/// Finds the session that a text names.
pub(super) fn target(web: &Web, id: &str) -> Result<Target, Failure> {
    let found = web.fleet.target(id).map_err(|why| unresolved(&web.fleet, id, why))?;
    Ok(found.target)
}

/// Returns the layout of conversations: the browser breaks the lines.
pub(super) fn view() -> View {
    let unfold = "agentctl logs --full";
    View { width: None, is_full: false, has_styles: true, unfold, today: None }
}
