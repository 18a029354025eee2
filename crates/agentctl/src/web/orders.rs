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
    hint_with_arguments, launch_with_notes, not_answered, not_sent, not_started, stop_failure,
    unconfirmed, unresolved, unseen_after_launch,
};
use crate::failure::{Failure, Kind};

/// The body of `/api/send`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendOrder {
    session: String,
    text: String,
}

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
        let place = format!("line {}, column {}", error.line(), error.column());
        let why = wrong_field(&error.to_string()).map(|why| format!(": {why}")).unwrap_or_default();
        Failure::new(Kind::Usage, format!("the body cannot be read at {place}{why}"))
            .hint("docs/WEB.md shows the fields of each order")
    })
}

/// Returns the part of the parser's message about an unknown or missing field. Other messages may repeat values of the
/// body, which may hold a secret.
fn wrong_field(message: &str) -> Option<&str> {
    const MAX_NAME_BYTES: usize = 64;
    ["unknown field `", "missing field `"].iter().find_map(|start| {
        let name = message.strip_prefix(start)?;
        let end = name.find('`').filter(|end| *end <= MAX_NAME_BYTES)?;
        message.get(..=start.len() + end)
    })
}

/// Carries out `/api/answer`.
pub(super) fn answer(web: &Web, bytes: &[u8], caller: Option<Answerer>) -> Body {
    let request: AnswerRequest = read(bytes)?;
    let answerer = answerer(&web.fleet, caller);
    let answered = web.fleet.answer(&request, &answerer);
    let failure = |error| not_answered(&web.fleet, &request.ask, error).map_hints(answer_hint);
    body(&answered.map_err(failure)?)
}

/// Returns the hint of an answer that was not delivered: the flags that an ask takes are no replies.
fn answer_hint(hint: &str) -> Option<String> {
    let own =
        hint.starts_with("it takes --").then_some("`/api/asks` shows its `choices` and `fields`");
    hint_with_arguments(own.unwrap_or(hint), &[])
}

/// Carries out `/api/send`. An ended session is resumed, as by the command.
pub(super) fn send(web: &Web, bytes: &[u8], caller: Option<&Answerer>) -> Body {
    check_not_from_agent(caller)?;
    let hint = |hint: &str| hint_with_arguments(message_hint(hint), &[]);
    sent(web, bytes).map_err(|failure| failure.map_hints(hint))
}

/// Returns the hint of a message that was not sent: ways that are commands with flags become orders of the page.
fn message_hint(hint: &str) -> &str {
    const OWN_HINTS: [(&str, &str); 4] = [
        ("`agentctl answer ", "answer it in the inbox"),
        (
            "`agentctl wait ",
            "a message after its end resumes it; a launch with `keep` starts one that stays",
        ),
        ("`agentctl send --fork ", "stop it first: a message then resumes it"),
        ("`launch --keep` starts", "a launch with `keep` starts a session that takes messages"),
    ];
    let own = OWN_HINTS.iter().find(|(part, _)| hint.contains(part));
    own.map_or(hint, |(_, own)| own)
}

fn sent(web: &Web, bytes: &[u8]) -> Body {
    let SendOrder { session, text } = read(bytes)?;
    let session = typed_session(&session).to_owned();
    // Waiting for the end of a turn would hold a thread of the server, and might send to a session that has ended since.
    let request = SendRequest { session, text, when_idle: false, idle_timeout_ms: None };
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
            let mut launch = launch_request(subject, request.text);
            launch.options.permissions = web.loaded.permissions_from_afar(None);
            start(web, launch)
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

/// The flags of the command line that are fields of `/api/launch`.
const LAUNCH_FIELDS: [&str; 9] =
    ["adapter", "ask", "cwd", "group", "keep", "model", "name", "permissions", "worktree"];

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
    // A token is no proof that its owner gives the order: a proxy and a lost phone have one too.
    if order.permissions == Some(Permissions::Bypass) {
        let what = "an agent with all permissions is not launched from the page";
        return Err(Failure::new(Kind::Refused, what)
            .hint("run `agentctl launch --permissions bypass` in a terminal"));
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
        permissions: web.loaded.permissions_from_afar(order.permissions),
        group: order.group,
        ask_ms: order.ask.then(|| u64::try_from(ask).unwrap_or(u64::MAX)),
        keep: order.keep,
        ..LaunchOptions::default()
    };
    let hint = |hint: &str| hint_with_arguments(hint, &LAUNCH_FIELDS);
    start(web, request).map_err(|failure| failure.map_hints(hint))
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
    let launched = launch_with_notes(&web.fleet, &request, &web.loaded.defaults);
    let document = launched.map_err(|why| not_started(&web.fleet, why))?;
    let session = document.session.as_ref();
    body(session.ok_or_else(|| unseen_after_launch(&document.id))?)
}
