//! Interim: just enough of `Control` to stop sessions. To be replaced by each adapter's own `control.rs`.

use std::path::PathBuf;

use super::control::{
    Abilities, Control, FirstWords, Handshake, Mark, Order, Refusal, Start, Stop,
};
use super::{Look, Root, claude_code, codex, demo};
use crate::host::Host;
use crate::model::Session;

macro_rules! interim {
    () => {
        fn abilities(&self) -> Abilities {
            Abilities { fork: false, edits: "", bypass: "", stop: "" }
        }

        fn start(&self, _: &Host, _: &Order) -> Result<Start, Refusal> {
            Err(Refusal::new("not yet", "not yet"))
        }

        fn handshake(&self, _: &FirstWords<'_>) -> Handshake {
            Handshake::Wait
        }

        fn watched(&self, _: &Root, _: &Session) -> Vec<PathBuf> {
            Vec::new()
        }
    };
}

impl Control for claude_code::ClaudeCode {
    interim!();

    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop {
        claude_code::stop::plan(look, root, session)
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        claude_code::stop::marks(session)
    }
}

impl Control for codex::Codex {
    interim!();

    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop {
        codex::stop::plan(look, root, session)
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        codex::stop::marks(session)
    }

    fn interrupt(&self, look: &Look, root: &Root, session: &Session) -> Result<String, String> {
        codex::stop::interrupt(look, root, session)
    }
}

impl Control for demo::Demo {
    interim!();

    fn stop(&self, _: &Look, _: &Root, _: &Session) -> Stop {
        demo::plan()
    }
}
