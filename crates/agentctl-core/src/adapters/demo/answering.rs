//! The asks of the demo agent, and its socket, which takes the answers.

use std::time::Duration;

use super::format::{ASK_NOT_OPEN, Live, LiveAsk, SocketAnswer, SocketOrder, SocketReply};
use super::{Demo, MAX_LIVE_BYTES};
use crate::adapters::answering::{
    Answering, AnsweringAbilities, Delivered, NotDelivered, NotSaid, Saying, Speech, SpokenMessage,
};
use crate::adapters::{Found, Look, Root, skipped};
use crate::kernel::Liveness;
use crate::model::{
    Ask, AskChannel, AskChoice, AskField, AskPart, AskScope, MAX_RULE_BYTES, Reply, Session, Time,
    ToolCall,
};
use crate::native::file;
use crate::talk::{TalkError, line};

/// Time for the agent to reply to one line.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the open ask of a waiting session from its live record.
pub(super) fn asks(look: &Look, root: &Root, session: &Session) -> Found<Ask> {
    let Some(pid) = session.pid else { return Found::default() };
    let path = root.path().join("live").join(format!("{pid}.json"));
    let live = match file::read_small(&path, look.host.kernel.uid(), MAX_LIVE_BYTES) {
        Err(file::Skip::Missing) => return Found::default(),
        Err(skip) => return Found::fault(skipped("demo", root, &path, &skip)),
        Ok(bytes) => serde_json::from_slice::<Live>(&bytes).ok(),
    };
    let open = live.filter(|live| session.id.as_ref() == Some(&live.session));
    let Some(open) = open.and_then(|live| live.ask) else { return Found::default() };
    let mut ask = Ask::of(session);
    ask.via = Some(AskChannel::Socket);
    match &open.command {
        Some(command) => describe_permission(&mut ask, &open, command),
        None => {
            ask.set_title(&open.text);
            ask.parts = vec![AskPart::text(&open.text)];
            let question = AskField::question("answer", &open.text, open.options.clone());
            ask.fields = vec![AskField { secret: open.secret, ..question }];
            ask.choices = vec![AskChoice::stop()];
        }
    }
    if let Some(until) = open.until_ms.and_then(Time::from_millis) {
        (ask.until, ask.then) = (Some(until), Some("denied".into()));
    }
    ask.identify(session, &open.id);
    Found { rows: vec![ask], ..Found::default() }
}

fn describe_permission(ask: &mut Ask, open: &LiveAsk, command: &str) {
    let input = serde_json::json!({ "command": command });
    ask.set_tool(ToolCall { id: Some(open.id.clone()), name: "shell".into(), input });
    ask.parts = vec![AskPart::command(command)];
    ask.choices = vec![AskChoice::allow(), AskChoice::deny()];
    if command.len() <= MAX_RULE_BYTES {
        ask.choices.push(AskChoice::always(1, command, AskScope::Session));
    }
    ask.choices.push(AskChoice::stop());
}

impl Answering for Demo {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities { asks: "all", messages: "with --keep", no_ask: None, no_keep: None }
    }

    fn deliver(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        let mut answer = SocketAnswer { ask: ask.native.clone(), ..SocketAnswer::default() };
        match reply {
            Reply::Allow => answer.allow = Some(true),
            Reply::Always(_) => (answer.allow, answer.always) = (Some(true), true),
            Reply::Deny { message } => {
                (answer.allow, answer.message) = (Some(false), message.clone());
            }
            Reply::Stop => answer.stop = true,
            Reply::Fields(fields) => {
                let values = fields.iter().flat_map(|field| field.values.iter().cloned());
                answer.text = Some(values.collect::<Vec<_>>().join(", "));
            }
        }
        let sent = send(look, root, session, &SocketOrder::Answer(answer));
        let reply = sent.map_err(|why| match why {
            NotSent::Ended => NotDelivered::Gone,
            NotSent::Unheard(why) => NotDelivered::Refused(why),
            NotSent::Unclear(why) => NotDelivered::Unclear(why),
        })?;
        match reply.why {
            _ if reply.taken => Ok(Delivered::Taken),
            Some(why) if why == ASK_NOT_OPEN => Err(NotDelivered::Gone),
            why => Err(NotDelivered::Refused(why.unwrap_or_default())),
        }
    }

    fn speech(&self, look: &Look, root: &Root, session: &Session) -> Speech {
        match live_of(look, root, session) {
            Some(live) if live.stays => Speech::Now,
            _ => Speech::one_shot(),
        }
    }

    fn say(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        message: &SpokenMessage<'_>,
    ) -> Result<Saying, NotSaid> {
        let order =
            SocketOrder::Message { id: message.id.to_string(), text: message.text.to_owned() };
        let reply = send(look, root, session, &order)?;
        if reply.taken {
            Ok(Saying::Taken)
        } else {
            Err(NotSaid::Refused(reply.why.unwrap_or_default()))
        }
    }

    fn end_turn(&self, look: &Look, root: &Root, session: &Session) -> Result<(), NotSaid> {
        let reply = send(look, root, session, &SocketOrder::Interrupt {})?;
        if reply.taken { Ok(()) } else { Err(NotSaid::Refused(reply.why.unwrap_or_default())) }
    }
}

fn live_of(look: &Look, root: &Root, session: &Session) -> Option<Live> {
    let path = root.path().join("live").join(format!("{}.json", session.pid?));
    let bytes = file::read_small(&path, look.host.kernel.uid(), MAX_LIVE_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Why the agent has not replied to an order.
enum NotSent {
    /// Its process has ended.
    Ended,
    /// Its process lives, and nothing was sent to it.
    Unheard(String),
    /// It is not known whether it has the order.
    Unclear(String),
}

impl From<NotSent> for NotSaid {
    fn from(why: NotSent) -> Self {
        match why {
            NotSent::Ended => Self::Refused("it has ended".into()),
            NotSent::Unheard(why) => Self::Refused(why),
            NotSent::Unclear(why) => Self::Unclear(why),
        }
    }
}

/// Sends one line to the agent and reads its reply.
fn send(
    look: &Look,
    root: &Root,
    session: &Session,
    order: &SocketOrder,
) -> Result<SocketReply, NotSent> {
    let serving = session.processes.first().ok_or(NotSent::Ended)?;
    let kernel = &look.host.kernel;
    let path = root.path().join("live").join(format!("{}.sock", serving.id.pid));
    let sent = line::exchange(&path, kernel, &serving.id, order, REPLY_TIMEOUT);
    sent.map_err(|error| match error {
        // A process that has ended takes its socket with it; a socket alone may be removed by anybody.
        TalkError::Unreachable(_) if kernel.liveness(&serving.id) == Liveness::Gone => {
            NotSent::Ended
        }
        TalkError::Unreachable(error) => {
            NotSent::Unheard(format!("its socket cannot be reached: {error}"))
        }
        // Another process has put its own socket there.
        error if error.is_unsent() => NotSent::Unheard(error.to_string()),
        error => NotSent::Unclear(error.to_string()),
    })
}
