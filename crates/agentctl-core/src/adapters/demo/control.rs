//! Control of the demo agent, as simple as it can be.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::Signal;

use super::{Demo, SUBCOMMAND, home};
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Refusal, Start, StartStdin, Stop,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::marks::DEMO_PID;
use crate::model::Session;
use crate::native::file;

impl Control for Demo {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: false,
            edits: "the same: it needs no permission",
            bypass: "the same: it needs no permission",
            stop: "SIGTERM, then SIGKILL",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let (how, id) = match &order.begin {
            Begin::New => ("--session-id", uuid::Uuid::new_v4().to_string()),
            Begin::Resume(id) => ("--resume", id.clone()),
            Begin::Fork(_) => {
                let why = "the demo agent cannot fork a session";
                return Err(Refusal::new(why, "leave --fork out once the session has ended"));
            }
        };
        let mut args: Vec<OsString> =
            [SUBCOMMAND, "--prompt", "-", how, &id].map(Into::into).to_vec();
        if let Some(model) = &order.model {
            args.extend(["--model", model].map(Into::into));
        }
        if order.keep {
            args.push("--stay".into());
        }
        if let Some(limit) = order.ask {
            let limit = limit.as_millis().to_string();
            args.extend(["--answer-within-ms", &limit].map(Into::into));
        }
        args.extend(order.extra.iter().cloned());
        // A session of another home is continued there.
        let moved = order.home().filter(|root| *root != file::resolve_root(&home(host)));
        let data = moved.and_then(|root| root.parent());
        let set = data.map(|d| ("XDG_DATA_HOME".into(), d.to_string_lossy().into_owned()));
        Ok(Start {
            program: host.program.clone(),
            args,
            set: set.into_iter().collect(),
            unset: Vec::new(),
            id: Some(id),
            keeps_name: false,
            stdin: StartStdin::Prompt,
        })
    }

    fn handshake(&self, _host: &Host, _order: &Order, words: &FirstWords<'_>) -> Handshake {
        let text = String::from_utf8_lossy(words.stdout);
        let first = text.split_once('\n').map(|(line, _)| line);
        match first.and_then(|line| line.strip_prefix("session ")) {
            Some(id) => Handshake::Up(id.to_owned()),
            None => Handshake::Wait,
        }
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        let pids = session.processes.iter().map(|process| process.id.pid);
        pids.map(|pid| Mark { name: DEMO_PID, value: pid.to_string() }).collect()
    }

    fn own_variables(&self) -> &'static [&'static str] {
        &[DEMO_PID]
    }

    fn stop(&self, _look: &Look, _root: &Root, _session: &Session) -> Stop {
        // On SIGTERM it exits in order and ends its tool.
        const LADDER: &[(Signal, Duration)] = &[(Signal::TERM, Duration::from_secs(2))];
        Stop::Signals(LADDER)
    }
}
