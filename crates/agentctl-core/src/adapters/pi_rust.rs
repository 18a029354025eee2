//! `pi_agent_rust`, the port of Pi that keeps its sessions in Pi's own store.
//!
//! It writes the same lines into the same folders and names its files by a shorter id; [`super::pi`]
//! reads them. Its command line was read in its source and never tried with the program itself: a
//! launch counts only once the process has named its session. See `docs/agents/pi-rust.md`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::answering::{Answering, AnsweringAbilities, NotAnswering};
use super::changes::{ChangeNote, ChangesTold};
use super::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Order, Permissions, Refusal, Start,
    StartStdin, Stop,
};
use super::pi::{self, Kind, PACKAGES};
use super::{Adapter, Capabilities, Installation, Look, Root, Store, Variables, version_beside};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::{Message, Session};

/// Nothing is known about asks and messages of `pi_agent_rust`.
static ANSWERING: NotAnswering = NotAnswering {
    abilities: AnsweringAbilities {
        asks: "-",
        messages: "-",
        no_ask: Some("how it asks for permission is not known"),
        no_keep: Some("whether it takes messages while it lives is not known"),
    },
    why: "whether it takes messages while it lives is not known",
};

/// The adapter.
pub struct PiRust;

impl Adapter for PiRust {
    fn name(&self) -> &'static str {
        Kind::PiRust.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "not known",
            tokens: true,
            cost: true,
            subagents: false,
            changes: ChangesTold::Arguments,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        pi::is_candidate(brief)
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        pi::homes(host)
    }

    fn is_own_program(&self, _look: &Look, process: &Process) -> bool {
        pi::is_own_program(process, Kind::PiRust)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        pi::home_of(look, process)
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        pi::roots(look)
    }

    fn installation(&self, host: &Host) -> Installation {
        Installation { program: program(host), version: None }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(pi::PiStore::open(Kind::PiRust, look, root))
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        pi::read_message(line)
    }

    fn changes(&self, line: &[u8]) -> Vec<ChangeNote> {
        pi::read_changes(line)
    }

    fn variables(&self) -> &'static Variables {
        &pi::VARIABLES
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(&ANSWERING)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

/// Returns the first program file called `pi` that is not Pi: neither a script nor in Pi's package.
fn program(host: &Host) -> Option<PathBuf> {
    let is_pi = |program: &PathBuf| {
        pi::is_script(program) || PACKAGES.iter().any(|p| version_beside(program, p).is_some())
    };
    pi::programs(host).find(|program| !is_pi(program))
}

impl Control for PiRust {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: false,
            edits: "--approval-mode write",
            bypass: "--yolo",
            stop: "SIGTERM, then SIGKILL",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let program = program(host).ok_or_else(|| {
            Refusal::new(
                "the program `pi` of pi_agent_rust is not installed, or not on your PATH",
                "install it, or launch `pi`",
            )
        })?;
        let mut args: Vec<OsString> = ["--mode", "json", "--print"].map(Into::into).to_vec();
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        if let Some(model) = &order.model {
            say(&["--model", model]);
        }
        match order.permissions {
            Permissions::Default => {}
            Permissions::Edits => say(&["--approval-mode", "write"]),
            Permissions::Bypass => say(&["--yolo"]),
        }
        args.extend(order.extra.iter().cloned());
        let id = match &order.begin {
            Begin::New => None,
            Begin::Resume(id) => {
                args.extend([
                    "--session".into(),
                    pi::file_of(host, order, Kind::PiRust, id)?.into(),
                ]);
                Some(id.clone())
            }
            Begin::Fork(_) => {
                let why = "pi_agent_rust has no option that forks a session";
                return Err(Refusal::new(why, "leave --fork out once the session has ended"));
            }
        };
        // Inside a Pi session these variables are set for tools; pi-rust would read them as a choice of
        // model.
        let inside_pi = pi::VARIABLES.get(host, "PI_SESSION_ID").is_some();
        let unset =
            if inside_pi { vec!["PI_PROVIDER".into(), "PI_MODEL".into()] } else { Vec::new() };
        let set = pi::moved_home(host, order);
        Ok(Start { program, args, set, unset, id, keeps_name: false, stdin: StartStdin::Prompt })
    }

    fn interactive_resume(&self, host: &Host, order: &Order) -> Option<Result<Start, Refusal>> {
        let file = pi::file_of(host, order, Kind::PiRust, order.session());
        let start = || Ok(self.start(host, order)?.with_args(["--session".into(), file?.into()]));
        Some(start())
    }

    fn handshake(&self, _host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake {
        pi::handshake(order, words)
    }

    fn advice(&self, words: &str) -> Option<&'static str> {
        pi::advice(words)
    }

    fn stop(&self, _look: &Look, _root: &Root, _session: &Session) -> Stop {
        Stop::Signals(pi::LADDER)
    }
}
