//! The tools that act: launch, send, stop and answer. Each gives one order to the fleet.

use std::path::{Path, PathBuf};

use agentctl_core::ask::{
    AnswerDocument, AnswerRequest, AsksRequest, Fleet, LaunchDocument, LaunchOptions,
    LaunchRequest, LaunchSubject, NotStarted, PromptContext, SendRequest, StopDocument,
    StopRequest, StopSelection, TextOrBytes, WordRefusal, WorktreeRequest,
};
use agentctl_core::stop::StopOptions;
use agentctl_core::worktrees::make;

use super::caller::{check_not_above, check_runs_not_above};
use super::documents::SentDocument;
use super::requests::{LaunchAgent, SendMessage, StopSessions, named_directory};
use super::scope::Scope;
use super::tools::{Answered, Cancelled};
use super::{Shared, limits};
use crate::face::{
    launch_with_notes, not_answered, not_made, not_sent, not_started, refused_word, stop_failure,
    stop_kind, unconfirmed, unresolved,
};
use crate::failure::{Failure, Kind};

/// `launch`: the order of `agentctl launch`, without force, without further arguments and never with all
/// permissions.
pub(super) fn launch(
    shared: &Shared,
    request: LaunchAgent,
    _cancelled: &Cancelled,
) -> Result<Answered<LaunchDocument>, Failure> {
    shared.loaded.check_launch()?;
    if request.prompt.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the prompt is empty"));
    }
    let (fleet, defaults) = (shared.loaded.fleet(), &shared.loaded.defaults);
    let cwd = directory(shared, &fleet, request.cwd.as_deref())?;
    let worktree = request.worktree();
    let worktree =
        worktree.map(|worktree| in_scope(shared, &fleet, cwd.as_deref(), worktree)).transpose()?;
    let launch = LaunchRequest {
        subject: LaunchSubject::New { adapter: request.adapter },
        prompt: TextOrBytes::Text(request.prompt),
        context: PromptContext::default(),
        cwd,
        name: request.name,
        look: true,
        worktree,
        options: LaunchOptions {
            model: request.model,
            group: request.group,
            permissions: shared.loaded.permissions_from_afar(request.permissions.map(Into::into)),
            ask_ms: request
                .ask
                .then(|| u64::try_from(defaults.ask.as_millis()).unwrap_or(u64::MAX)),
            keep: request.keep,
            ..LaunchOptions::default()
        },
    };
    start(shared, &fleet, &launch).map(Answered::from)
}

fn start(
    shared: &Shared,
    fleet: &Fleet,
    launch: &LaunchRequest,
) -> Result<LaunchDocument, Failure> {
    let launched = launch_with_notes(fleet, launch, &shared.loaded.defaults);
    launched.map_err(|why| match why {
        NotStarted::Words(why) => refused_word_in_scope(&shared.scope, &why),
        why => not_started(fleet, why),
    })
}

/// Says why a session cannot have this name, without naming a session outside of the scope.
fn refused_word_in_scope(scope: &Scope, why: &WordRefusal) -> Failure {
    let name = match why {
        WordRefusal::Taken { name, session } if !scope.admits(session.cwd.as_deref()) => name,
        WordRefusal::BeginsId { text, .. } if scope.directory().is_some() => text,
        _ => return refused_word(why),
    };
    let message = format!("the name `{name}` is taken");
    Failure::new(Kind::Refused, message).hint("choose another name")
}

/// Returns the directory of a launch; a failure if it is outside of the scope.
fn directory(
    shared: &Shared,
    fleet: &Fleet,
    cwd: Option<&str>,
) -> Result<Option<PathBuf>, Failure> {
    let path = named_directory(&fleet.host, cwd.unwrap_or_default());
    let Some(scope) = shared.scope.directory() else { return Ok(cwd.map(|_| path)) };
    let real = std::fs::canonicalize(&path).unwrap_or(path);
    if shared.scope.admits(real.to_str()) {
        return Ok(Some(real));
    }
    let message = format!("{} is outside of the scope of this server", real.display());
    Err(Failure::new(Kind::Refused, message)
        .hint(format!("name a directory in {}", scope.display())))
}

/// Returns the request for a worktree with its directory fixed; a failure if that is outside of the scope. The
/// default directory is beside the repository, which may be outside although the repository is inside.
fn in_scope(
    shared: &Shared,
    fleet: &Fleet,
    cwd: Option<&Path>,
    mut worktree: WorktreeRequest,
) -> Result<WorktreeRequest, Failure> {
    let Some(scope) = shared.scope.directory() else { return Ok(worktree) };
    let cwd = cwd.unwrap_or(&fleet.host.cwd);
    let directory = make::directory(&fleet.host, cwd, &shared.loaded.defaults.worktree);
    let directory = directory.map_err(|error| not_made(&fleet.host, &error))?;
    if !shared.scope.admits(directory.to_str()) {
        let message = format!(
            "the worktree would be made in {}, outside of the scope of this server",
            directory.display()
        );
        return Err(Failure::new(Kind::Refused, message).hint(format!(
            "launch without `worktree`; a person can set `dir` below [worktree] in the configuration to a directory in {}",
            scope.display()
        )));
    }
    worktree.options.directory = Some(directory);
    Ok(worktree)
}

/// `send`: the order of `agentctl send`. A session that has ended is resumed.
pub(super) fn send(
    shared: &Shared,
    request: SendMessage,
    _cancelled: &Cancelled,
) -> Result<Answered<SentDocument>, Failure> {
    if request.text.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the message is empty"));
    }
    let fleet = shared.loaded.fleet();
    let session = shared.named(&fleet, &request.id)?;
    let found = fleet.target(&session).map_err(|why| unresolved(&fleet, &session, why))?;
    let caller = fleet.answerer(std::process::id());
    check_not_above(&caller, &[found.target], "no message was sent to")?;
    let message = SendRequest {
        session: session.clone(),
        text: request.text.clone(),
        when_idle: false,
        idle_timeout_ms: None,
    };
    match fleet.send(&message) {
        Ok(document) => {
            let failure = unconfirmed(&document);
            match failure {
                Some(failure) => Err(failure),
                None => Ok(SentDocument { sent: Some(document), resumed: None }.into()),
            }
        }
        Err(why) if why.is_for_resume() => resume(shared, &fleet, session, request.text),
        Err(why) => Err(not_sent(&fleet, &session, why)),
    }
}

fn resume(
    shared: &Shared,
    fleet: &Fleet,
    session: String,
    text: String,
) -> Result<Answered<SentDocument>, Failure> {
    shared.loaded.check_launch()?;
    let resume = LaunchRequest {
        subject: LaunchSubject::Resume { session },
        prompt: TextOrBytes::Text(text),
        context: PromptContext::default(),
        cwd: None,
        name: None,
        look: true,
        worktree: None,
        options: LaunchOptions {
            permissions: shared.loaded.permissions_from_afar(None),
            ..LaunchOptions::default()
        },
    };
    let resumed = start(shared, fleet, &resume)?;
    Ok(SentDocument { sent: None, resumed: Some(resumed) }.into())
}

/// `stop`: the order of `agentctl stop`, without force.
pub(super) fn stop(
    shared: &Shared,
    request: StopSessions,
    _cancelled: &Cancelled,
) -> Result<Answered<StopDocument>, Failure> {
    limits::ids(&request.ids)?;
    let fleet = shared.loaded.fleet();
    let ids: Result<Vec<String>, Failure> =
        request.ids.iter().map(|id| shared.named(&fleet, id)).collect();
    let order = StopRequest { select: StopSelection::Named(ids?), options: StopOptions::default() };
    let targets = fleet.stop_targets(&order);
    let targets = targets.map_err(|found| unresolved(&fleet, &found.text, found.why))?;
    let caller = fleet.answerer(std::process::id());
    check_not_above(&caller, &targets.targets, "not stopped:")?;
    check_runs_not_above(&caller, &targets.runs)?;
    if shared.scope.directory().is_some() && !targets.runs.is_empty() {
        // A launched agent without a session has no directory that could be checked.
        let message = "a launched agent without a session is outside of the scope of this server";
        return Err(Failure::new(Kind::NotFound, message));
    }
    let document = fleet.stop(&targets, &mut |_| ());
    if let Some(failure) = stop_failure(&targets, &document) {
        return Err(failure);
    }
    let has_failed = stop_kind(&targets, &document).is_some();
    Ok(Answered { document, has_failed })
}

/// `answer`: the order of `agentctl answer`.
pub(super) fn answer(
    shared: &Shared,
    request: AnswerRequest,
    _cancelled: &Cancelled,
) -> Result<Answered<AnswerDocument>, Failure> {
    let fleet = shared.loaded.fleet();
    if shared.scope.directory().is_some() {
        let asks = AsksRequest { select: vec![request.ask.clone()], ..AsksRequest::default() };
        let asks = fleet.asks(&asks).map(|document| document.asks).unwrap_or_default();
        if asks.is_empty() || asks.iter().any(|ask| !shared.scope.admits(ask.cwd.as_deref())) {
            let message = format!("no open ask has the id `{}`", request.ask);
            return Err(
                Failure::new(Kind::NoAsk, message).hint("`list_asks` shows what is open now")
            );
        }
    }
    let caller = fleet.answerer(std::process::id());
    let document = fleet.answer(&request, &caller);
    document.map(Answered::from).map_err(|error| not_answered(&fleet, &request.ask, error))
}
