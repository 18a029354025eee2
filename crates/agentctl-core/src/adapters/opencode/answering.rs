//! Answers and messages to the sessions of a process with a port: a server, or a terminal with `--port`.
//!
//! The server is the arbiter: it takes the first reply to a request and refuses every other one. Older servers say
//! yes to every reply: see [`arbiter`].

use std::time::Duration;

use serde_json::{Value, json};

use super::OpenCode;
use super::arbiter;
use super::asks::describe;
use super::home::Role;
use super::server::{self, PromptedSession, RequestKind, escape};
use crate::adapters::answering::{
    Answering, AnsweringAbilities, Delivered, NotDelivered, NotSaid, Saying, Speech, SpokenMessage,
};
use crate::adapters::{Look, Root};
use crate::model::{Ask, AskField, FieldAnswer, Reply, Session};
use crate::talk::TalkError;

/// Time for the server to take an answer or a message.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the turn of a message to begin; after it the message counts as sent all the same.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

impl Answering for OpenCode {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities {
            asks: "with --ask or --keep, or where its process has a port",
            messages: "at rest, with --keep or where its process has a port",
            no_ask: None,
            no_keep: None,
        }
    }

    fn limits_asks(&self) -> bool {
        // Its server waits without a limit.
        false
    }

    fn deliver(
        &self,
        look: &Look,
        root: &Root,
        session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        let server = server::of_session(look, root, session);
        let server = server.ok_or_else(|| {
            NotDelivered::without_channel(look, session, "its process has no port any more")
        })?;
        let cwd = session.cwd.as_deref().ok_or(NotDelivered::Gone)?;
        let open = server::requests(&server, cwd, REPLY_TIMEOUT)
            .map_err(|error| NotDelivered::Refused(format!("nothing was sent: {error}")))?;
        let request = open.iter().find(|request| request.id() == ask.native);
        let request = request.ok_or(NotDelivered::Gone)?;
        if describe(session, request).id != ask.id {
            let why = "its request is not the one that was shown; nothing was sent";
            return Err(NotDelivered::Refused(why.into()));
        }
        let (route, body) = match (request.kind, reply) {
            (RequestKind::Permission, Reply::Allow) => ("reply", json!({ "reply": "once" })),
            (RequestKind::Permission, Reply::Always(_)) => ("reply", json!({ "reply": "always" })),
            (RequestKind::Permission, Reply::Deny { message: Some(message) }) => {
                ("reply", json!({ "reply": "reject", "message": message }))
            }
            // Without a message the turn ends.
            (RequestKind::Permission, Reply::Deny { message: None } | Reply::Stop) => {
                ("reply", json!({ "reply": "reject" }))
            }
            (RequestKind::Question, Reply::Stop) => ("reject", json!({})),
            (RequestKind::Question, Reply::Fields(given)) => {
                ("reply", json!({ "answers": answers(&ask.fields, given) }))
            }
            _ => return Err(NotDelivered::NotOffered("it does not take this answer".into())),
        };
        let kind = match request.kind {
            RequestKind::Permission => "permission",
            RequestKind::Question => "question",
        };
        let id = escape(request.id());
        let path = format!("/{kind}/{id}/{route}?directory={}", escape(cwd));
        match server.post_json(&path, &body, REPLY_TIMEOUT) {
            Ok(_) => arbiter::confirm(&server, cwd, request, (&path, &body), reply),
            Err(TalkError::NotFound) => {
                Err(NotDelivered::Refused("it was settled meanwhile by another answer".into()))
            }
            Err(error @ (TalkError::Refused(_) | TalkError::Stranger(_))) => {
                Err(NotDelivered::Refused(error.to_string()))
            }
            Err(error) => Err(NotDelivered::Unclear(error.to_string())),
        }
    }

    fn speech(&self, look: &Look, root: &Root, session: &Session) -> Speech {
        if server::of_session(look, root, session).is_some() {
            return Speech::WhenIdle("OpenCode may leave a message to a running turn unanswered");
        }
        let serving = session.processes.first().map(|serving| serving.id.pid);
        let process = serving.and_then(|pid| look.host.kernel.process(pid).ok().flatten());
        match process.as_ref().map(Role::of) {
            Some(Role::Terminal) => Speech::Not {
                why: "it takes messages only in its own terminal: its process has no port".into(),
                hint: Some("a terminal started with `opencode --port 0` takes messages".into()),
            },
            Some(Role::Server) => {
                Speech::Not { why: "its server does not listen on this machine".into(), hint: None }
            }
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
        let refused = |why: &str| NotSaid::Refused(why.to_owned());
        let id = session.id.as_deref().ok_or_else(|| refused("it has no session"))?;
        let server = server::of_session(look, root, session);
        let server = server.ok_or_else(|| refused("its process has no port"))?;
        let folder = session.cwd.as_deref().map(|cwd| format!("?directory={}", escape(cwd)));
        let path = format!("/session/{}/prompt_async{}", escape(id), folder.unwrap_or_default());
        let body: Value = json!({ "parts": [{ "type": "text", "text": message.text }] });
        let folder = session.cwd.as_deref().unwrap_or_default();
        let prompted = PromptedSession::before_prompt(&server, folder, id);
        match server.post_json(&path, &body, REPLY_TIMEOUT) {
            Ok(_) => {
                prompted.until_turn_begins(TURN_TIMEOUT);
                Ok(Saying::Taken)
            }
            Err(error @ (TalkError::Refused(_) | TalkError::Stranger(_) | TalkError::NotFound)) => {
                Err(NotSaid::Refused(error.to_string()))
            }
            Err(error) => Err(NotSaid::Unclear(error.to_string())),
        }
    }

    fn end_turn(&self, look: &Look, root: &Root, session: &Session) -> Result<(), NotSaid> {
        if server::of_session(look, root, session).is_none() {
            let why = "its process has no port: only its end ends its turn";
            return Err(NotSaid::Refused(why.into()));
        }
        super::stop::end_turn(look, root, session)
    }
}

/// Returns one list of labels per question, in the order of the questions.
fn answers(fields: &[AskField], given: &[FieldAnswer]) -> Vec<Vec<String>> {
    let of = |field: &AskField| given.iter().find(|answer| answer.field == field.id);
    fields.iter().map(|field| of(field).map(|a| a.values.clone()).unwrap_or_default()).collect()
}
