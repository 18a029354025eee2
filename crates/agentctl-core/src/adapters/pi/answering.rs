//! Messages to live sessions of Pi: through the standard input of a session that was launched to stay. Pi itself
//! asks nobody; the dialogs of its extensions are shown and not answered.

use super::output::{self, Mode};
use super::{Pi, rpc};
use crate::adapters::answering::{
    Answering, AnsweringAbilities, Delivered, NotDelivered, NotSaid, Saying, Speech, SpokenMessage,
    StdinLine,
};
use crate::adapters::{Look, Root};
use crate::model::{Ask, Reply, Session};

/// Why there is nothing to answer.
const ASKS_NOBODY: &str = "Pi asks nobody for permission";

impl Answering for Pi {
    fn abilities(&self) -> AnsweringAbilities {
        AnsweringAbilities {
            asks: "-",
            messages: "with --keep",
            no_ask: Some(ASKS_NOBODY),
            no_keep: None,
        }
    }

    fn deliver(
        &self,
        _look: &Look,
        _root: &Root,
        _session: &Session,
        _ask: &Ask,
        _reply: &Reply,
    ) -> Result<Delivered, NotDelivered> {
        Err(NotDelivered::Refused(ASKS_NOBODY.into()))
    }

    fn speech(&self, look: &Look, _root: &Root, session: &Session) -> Speech {
        if rpc::kept(look, session).is_some() {
            return Speech::Now;
        }
        if is_single_prompt(look, session) {
            return Speech::one_shot();
        }
        Speech::Not {
            why: "it takes messages only in its own terminal, or from the program that started it"
                .into(),
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
        let process = rpc::kept(look, session).ok_or_else(NotSaid::not_kept)?.clone();
        let bytes = rpc::message(&message.id.to_string(), message.text);
        Ok(Saying::Line(StdinLine { process, bytes }))
    }

    fn end_turn(&self, look: &Look, _root: &Root, session: &Session) -> Result<(), NotSaid> {
        let Some(process) = rpc::kept(look, session) else {
            let why =
                "only a session that was launched with --keep ends its turn without its process";
            return Err(NotSaid::Refused(why.into()));
        };
        // While a dialog is open Pi does not respond to `abort`.
        if let Some(dialog) = output::dialog(look, process) {
            rpc::cancel(look, process, &dialog.id).map_err(NotSaid::Unclear)?;
        }
        rpc::request(look, process, "abort").map_err(NotSaid::Unclear)
    }
}

/// Says whether a process of a session works through one prompt and exits.
fn is_single_prompt(look: &Look, session: &Session) -> bool {
    session.processes.iter().any(|serving| {
        let first = output::first_of(look, &serving.id);
        first.is_some_and(|first| matches!(first.mode, Mode::SinglePrompt { .. }))
    })
}
