//! Answers and messages to live sessions of Claude Code: through our asker, or through the standard input of a
//! session that was launched to stay.

use super::{ClaudeCode, asks, frames, receipts};
use crate::adapters::answering::{
    Answering, AnsweringAbilities, Delivered, Echo, NotDelivered, NotSaid, Saying, Speech,
    SpokenMessage, StdinLine,
};
use crate::adapters::asker::{AskHook, askers_of};
use crate::adapters::{Look, Root};
use crate::model::{Ask, AskChannel, Reply, Session};

impl Answering for ClaudeCode {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities {
            asks: "with --ask or --keep; terminals with the hook of `asks --hook`",
            messages: "with --keep",
            no_ask: None,
            no_keep: None,
        }
    }

    fn deliver(
        &self,
        look: &Look,
        _root: &Root,
        session: &Session,
        ask: &Ask,
        reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        if ask.via == Some(AskChannel::Stdin) {
            let process = frames::kept(look, session).ok_or(NotDelivered::Gone)?.clone();
            let line = frames::answer(look, session, ask, reply).ok_or(NotDelivered::Gone)?;
            let line = line.map(|bytes| Delivered::Line(StdinLine { process, bytes }));
            return line.map_err(NotDelivered::NotOffered);
        }
        let mut askers = session.processes.iter().flat_map(|p| askers_of(look, &p.id));
        let asker = askers.find(|asker| asker.ask == ask.native).ok_or(NotDelivered::Gone)?;
        self.decision(&asker.held.input, reply).map_err(NotDelivered::NotOffered)?;
        let socket = asker.held.socket;
        Ok(Delivered::ToAsker { asker: asker.process, socket, ask: asker.ask })
    }

    fn echo(&self, look: &Look, session: &Session, ask: &Ask, line: &[u8]) -> Echo {
        frames::echo(look, session, ask, line)
    }

    fn ask_hook(&self) -> Option<&dyn AskHook> {
        Some(self)
    }

    fn speech(&self, look: &Look, _root: &Root, session: &Session) -> Speech {
        if frames::kept(look, session).is_some() {
            return Speech::Now;
        }
        if asks::is_headless(look, session) {
            return Speech::one_shot();
        }
        let why = "it takes messages only in its own terminal".to_owned();
        Speech::Not {
            why,
            hint: Some("`launch --keep` starts a session that takes messages".into()),
        }
    }

    fn say(
        &self,
        look: &Look,
        _root: &Root,
        session: &Session,
        message: &SpokenMessage<'_>,
    ) -> Result<Saying, NotSaid> {
        let process = frames::kept(look, session).ok_or_else(NotSaid::not_kept)?.clone();
        let bytes = frames::message(message.id, message.text);
        Ok(Saying::Line(StdinLine { process, bytes }))
    }

    fn is_receipt(&self, line: &[u8], message: &SpokenMessage<'_>) -> bool {
        receipts::is_receipt(line, message)
    }

    fn end_turn(&self, look: &Look, _root: &Root, session: &Session) -> Result<(), NotSaid> {
        let Some(process) = frames::kept(look, session) else {
            let why =
                "only a session that was launched with --keep ends its turn without its process";
            return Err(NotSaid::Refused(why.into()));
        };
        frames::request(look, process, "interrupt").map_err(NotSaid::Unclear)
    }
}
