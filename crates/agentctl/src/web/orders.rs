//! The orders of `/api/*`: the same as on the command line, with the same refusals.

use std::path::PathBuf;

use agentctl_core::adapters::control::Permissions;
use agentctl_core::ask::{
    AnswerRequest, LaunchOptions, LaunchRequest, LaunchSubject, PromptContext, SendRequest,
    StopRequest, StopSelection, TextOrBytes, WorktreeRequest,
};
use agentctl_core::inbox::Answerer;
use agentctl_core::stop::StopOptions;
use agentctl_core::worktrees::WorktreeOptions;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Web;
use super::gate::{answerer, check_not_from_agent};
use super::query::typed_session;
use super::reply::{Body, body};
use crate::face::{
    not_answered, not_sent, not_started, stop_failure, unconfirmed, unresolved, unseen_after_launch,
};
use crate::failure::{Failure, Kind};

/// The body of `/api/stop`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopOrder {
    id: String,
}

/// The body of `/api/launch`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchBody {
    adapter: Option<String>,
    prompt: String,
    cwd: PathBuf,
    permissions: Option<Permissions>,
    model: Option<String>,
    name: Option<String>,
    group: Option<String>,
    worktree: Option<WorktreeWish>,
    /// The agent may ask a human.
    #[serde(default)]
    ask: bool,
    /// The agent stays after its turn.
    #[serde(default)]
    keep: bool,
}

/// A worktree: `true` for one with a new name, or its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum WorktreeWish {
    Wanted(bool),
    Named(String),
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        // The message of the parser may repeat the body, which may hold a secret.
        let place = format!("line {}, column {}", error.line(), error.column());
        Failure::new(Kind::Usage, format!("the body cannot be read at {place}"))
            .hint("docs/WEB.md shows the fields of each order")
    })
}

/// Carries out `/api/answer`.
pub(super) fn answer(web: &Web, bytes: &[u8], caller: Option<Answerer>) -> Body {
    let request: AnswerRequest = read(bytes)?;
    let answerer = answerer(&web.fleet, caller);
    let answered = web.fleet.answer(&request, &answerer);
    body(&answered.map_err(|error| not_answered(&web.fleet, &request.ask, error))?)
}

/// Carries out `/api/send`. An ended session is resumed, as by the command.
pub(super) fn send(web: &Web, bytes: &[u8], caller: Option<&Answerer>) -> Body {
    check_not_from_agent(caller)?;
    let mut request: SendRequest = read(bytes)?;
    let session = typed_session(&request.session).to_owned();
    request.session = session;
    if request.text.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the message is empty"));
    }
    match web.fleet.send(&request) {
        Ok(document) => match unconfirmed(&document) {
            None => body(&document),
            Some(failure) => Err(failure),
        },
        Err(why) if why.is_for_resume() => {
            let subject = LaunchSubject::Resume { session: request.session };
            start(web, launch_request(subject, request.text))
        }
        Err(why) => Err(not_sent(&web.fleet, &request.session, why)),
    }
}

/// Carries out `/api/stop`.
pub(super) fn stop(web: &Web, bytes: &[u8], caller: Option<&Answerer>) -> Body {
    check_not_from_agent(caller)?;
    let StopOrder { id } = read(bytes)?;
    if id.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "no session is named"));
    }
    let select = StopSelection::Named(vec![typed_session(&id).to_owned()]);
    let request = StopRequest { select, options: StopOptions::default() };
    let targets = web.fleet.stop_targets(&request);
    let targets = targets.map_err(|found| unresolved(&web.fleet, &found.text, found.why))?;
    let document = web.fleet.stop(&targets, &mut |_| {});
    match stop_failure(&targets, &document) {
        Some(failure) => Err(failure),
        None => body(&document),
    }
}

/// Carries out `/api/launch`. The agent gets the environment of this server.
pub(super) fn launch(web: &Web, bytes: &[u8], caller: Option<&Answerer>) -> Body {
    check_not_from_agent(caller)?;
    let order: LaunchBody = read(bytes)?;
    if order.prompt.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the prompt is empty"));
    }
    if !order.cwd.is_absolute() {
        let what = format!("`{}` is not an absolute path", order.cwd.display());
        return Err(Failure::new(Kind::Usage, what));
    }
    let subject = LaunchSubject::New { adapter: order.adapter };
    let mut request = launch_request(subject, order.prompt);
    (request.cwd, request.name) = (Some(order.cwd), order.name);
    request.worktree = match order.worktree {
        None | Some(WorktreeWish::Wanted(false)) => None,
        Some(WorktreeWish::Wanted(true)) => Some(worktree(None)),
        Some(WorktreeWish::Named(name)) => Some(worktree(Some(name))),
    };
    let ask = web.loaded.defaults.ask.as_millis();
    request.options = LaunchOptions {
        model: order.model,
        permissions: order.permissions,
        group: order.group,
        ask_ms: order.ask.then(|| u64::try_from(ask).unwrap_or(u64::MAX)),
        keep: order.keep,
        ..LaunchOptions::default()
    };
    start(web, request)
}

fn worktree(name: Option<String>) -> WorktreeRequest {
    WorktreeRequest { name, options: WorktreeOptions::default() }
}

fn launch_request(subject: LaunchSubject, prompt: String) -> LaunchRequest {
    LaunchRequest {
        subject,
        prompt: TextOrBytes::Text(prompt),
        context: PromptContext::default(),
        cwd: None,
        name: None,
        look: true,
        worktree: None,
        options: LaunchOptions::default(),
    }
}

/// Starts an agent; the answer is its session, as `launch --json` prints it.
fn start(web: &Web, request: LaunchRequest) -> Body {
    web.loaded.check_launch()?;
    let launched = web.fleet.launch(&request, &web.loaded.defaults, &mut |_| {});
    let document = launched.map_err(|why| not_started(&web.fleet, why))?;
    let session = document.session.as_ref();
    body(session.ok_or_else(|| unseen_after_launch(&document.id))?)
}
