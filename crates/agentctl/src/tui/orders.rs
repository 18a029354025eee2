//! Orders to sessions and asks, each on a thread of its own: the same questions and the same sentences as the
//! command line.

use std::sync::mpsc::Sender;

use agentctl_core::ask::{
    AnswerDocument, AnswerRequest, Fleet, LaunchNews, LaunchOptions, LaunchRequest, LaunchSubject,
    PromptContext, SendRequest, StopRequest, StopSelection,
};
use agentctl_core::model::Reply;
use agentctl_core::stop::StopOptions;

use super::World;
use super::app::{FailedOrder, Message, Order, OrderResult};
use crate::face::{
    answered_line, idle_fuse, launch_remark, not_answered, not_sent, not_started, sent_line,
    stop_failure, stop_lines, survivor_lines, turn_ended_line, turn_not_ended, unconfirmed,
    unresolved,
};
use crate::failure::Failure;

/// Starts orders.
pub(crate) struct Orders {
    world: World,
    messages: Sender<Message>,
}

impl Orders {
    /// Makes a starter of orders.
    pub(crate) fn new(world: World, messages: Sender<Message>) -> Self {
        Self { world, messages }
    }

    /// Starts an order; its result is a message.
    pub(crate) fn start(&self, order: Order) {
        let (world, messages) = (self.world.clone(), self.messages.clone());
        std::thread::spawn(move || {
            let lines = carry_out(&world, &order).map_err(|failure| failed(&failure));
            let _unheard = messages.send(Message::Done(OrderResult { order, lines }));
        });
    }
}

fn carry_out(world: &World, order: &Order) -> Result<Vec<String>, Failure> {
    let fleet = &world.fleet;
    match order {
        Order::Answer { ask, reply } => answer(fleet, ask, reply),
        Order::Send { session, text } => send(world, &session.argument(), text),
        Order::Stop(session) => stop(fleet, &session.argument()),
        Order::EndTurn(session) => end_turn(fleet, &session.argument()),
    }
}

/// Returns a failure as the command line prints it.
fn failed(failure: &Failure) -> FailedOrder {
    let mut lines = vec![format!("error: {}", failure.message())];
    lines.extend(failure.first_hint().map(|hint| format!("hint: {hint}")));
    FailedOrder { lines, is_unclear: failure.is_unclear() }
}

fn answer(fleet: &Fleet, ask: &str, reply: &Reply) -> Result<Vec<String>, Failure> {
    let answerer = fleet.answerer(std::process::id());
    let request = AnswerRequest { ask: ask.to_owned(), reply: reply.clone() };
    let document: AnswerDocument =
        fleet.answer(&request, &answerer).map_err(|error| not_answered(fleet, ask, error))?;
    let lost = document.words_lost.then(|| {
        "the agent has no field for the words of a denial: they were not delivered".to_owned()
    });
    Ok(std::iter::once(answered_line(&document)).chain(lost).collect())
}

/// Sends a message to a live session; an ended one is resumed with it.
fn send(world: &World, session: &str, text: &str) -> Result<Vec<String>, Failure> {
    let fleet = &world.fleet;
    let request = SendRequest {
        session: session.to_owned(),
        text: text.to_owned(),
        when_idle: false,
        idle_timeout_ms: None,
    };
    match fleet.send(&request) {
        Ok(document) => match unconfirmed(&document) {
            None => Ok(vec![sent_line(&document)]),
            Some(failure) => Err(failure),
        },
        Err(why) if why.is_for_resume() => resume(world, session, text),
        Err(why) => Err(not_sent(fleet, session, why)),
    }
}

fn resume(world: &World, session: &str, text: &str) -> Result<Vec<String>, Failure> {
    if let Some(refusal) = &world.launch_refusal {
        return Err(refusal.clone());
    }
    let request = LaunchRequest {
        subject: LaunchSubject::Resume { session: session.to_owned() },
        prompt: text.as_bytes().to_vec().into(),
        context: PromptContext::default(),
        cwd: None,
        name: None,
        look: false,
        worktree: None,
        options: LaunchOptions::default(),
    };
    let mut lines = Vec::new();
    let launched = world.fleet.launch(&request, &world.defaults, &mut |news| match news {
        LaunchNews::HookFailed(why) => lines.push(format!("the on-create hook failed: {why}")),
        LaunchNews::Started { .. } | LaunchNews::FirstInstalled { .. } => {}
        LaunchNews::IdleFuse { id, idle_ms, set } => {
            lines.extend(idle_fuse(&world.fleet, (id, idle_ms), set).line.map(|line| line.text));
        }
        news => lines.extend(launch_remark(&news)),
    });
    let document = launched.map_err(|why| not_started(&world.fleet, why))?;
    lines.insert(0, format!("resumed  {}", document.id));
    Ok(lines)
}

fn stop(fleet: &Fleet, session: &str) -> Result<Vec<String>, Failure> {
    let select = StopSelection::Named(vec![session.to_owned()]);
    let request = StopRequest { select, options: StopOptions::default() };
    let targets = fleet.stop_targets(&request);
    let targets = targets.map_err(|found| unresolved(fleet, &found.text, found.why))?;
    let mut lines = Vec::new();
    let document = fleet.stop(&targets, &mut |news| {
        lines.extend(stop_lines(&targets, news).into_iter().map(|line| line.text));
    });
    if let Some(failure) = stop_failure(&targets, &document) {
        return Err(failure);
    }
    lines.extend(survivor_lines(&document).into_iter().map(|line| line.text));
    Ok(lines)
}

fn end_turn(fleet: &Fleet, session: &str) -> Result<Vec<String>, Failure> {
    let ended = fleet.end_turn(session);
    let document = ended.map_err(|why| turn_not_ended(fleet, session, why))?;
    Ok(vec![turn_ended_line(&document)])
}
