//! Control of Pi: one prompt on stdin, its events as JSON on stdout, of which the first line names the
//! session; or RPC mode, where it stays.
//!
//! Since 0.76 the id may be chosen. Before that it is read from that first line: we write no file into
//! Pi's own directories (see docs/adr/0019).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::process::home;
use super::store::session_file;
use super::{Kind, PACKAGES, Pi, process, rpc};
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Refusal, Start, StartStdin, Stop,
};
use crate::adapters::{Look, Root, version_beside};
use crate::host::Host;
use crate::model::Session;
use crate::native::file;

/// The first version that lets the caller choose the id.
const CHOOSES_ID: [u64; 2] = [0, 76];
/// The first version that takes a name.
const TAKES_NAME: [u64; 2] = [0, 78];
/// Time to wait after the first line for the turn's first event, or for an error about a missing key.
pub(super) const FIRST_EVENT_GRACE: Duration = Duration::from_secs(3);

/// The signals that stop both programs.
///
/// On SIGTERM they end their tools, in less than 0.1 s. SIGINT would leave the tools running.
pub(in crate::adapters) const LADDER: &[(Signal, Duration)] =
    &[(Signal::TERM, Duration::from_secs(3))];

impl Control for Pi {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: true,
            edits: "the same: it never asks",
            bypass: "the same: it never asks",
            stop: "SIGTERM, then SIGKILL",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let (program, version) = installed(host)?;
        let mode: &[&str] = if order.keep { &["rpc"] } else { &["json", "-p"] };
        let mut args: Vec<OsString> = vec!["--mode".into()];
        args.extend(mode.iter().map(Into::into));
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        if let Some(model) = &order.model {
            say(&["--model", model]);
        }
        let keeps_name = order.name.is_some() && is_since(version.as_deref(), TAKES_NAME);
        if let Some(name) = order.name.as_deref().filter(|_| keeps_name) {
            say(&["--name", name]);
        }
        args.extend(order.extra.iter().cloned());
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        let id = match &order.begin {
            Begin::New if is_since(version.as_deref(), CHOOSES_ID) => {
                let id = uuid::Uuid::now_v7().to_string();
                say(&["--session-id", &id]);
                Some(id)
            }
            Begin::New => None,
            // By its file: Pi looks for an id in the project only; elsewhere it offers to fork the
            // session, gets no answer and exits with code 0.
            Begin::Resume(id) => {
                args.extend(["--session".into(), file_of(host, order, Kind::Pi, id)?.into()]);
                Some(id.clone())
            }
            Begin::Fork(id) => {
                args.extend(["--fork".into(), file_of(host, order, Kind::Pi, id)?.into()]);
                None
            }
        };
        let set = moved_home(host, order);
        let stdin = if order.keep { StartStdin::Pipe } else { StartStdin::Prompt };
        Ok(Start { program, args, set, unset: Vec::new(), id, keeps_name, stdin })
    }

    fn interactive_resume(&self, host: &Host, order: &Order) -> Option<Result<Start, Refusal>> {
        let file = file_of(host, order, Kind::Pi, order.session());
        let start = || Ok(self.start(host, order)?.with_args(["--session".into(), file?.into()]));
        Some(start())
    }

    fn first_line(&self, _order: &Order, prompt: &str) -> Vec<u8> {
        rpc::first_lines(prompt)
    }

    fn handshake(&self, _host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake {
        if order.keep { rpc::handshake(order, words) } else { handshake(order, words) }
    }

    fn advice(&self, words: &str) -> Option<&'static str> {
        advice(words)
    }

    fn stop(&self, _look: &Look, _root: &Root, _session: &Session) -> Stop {
        Stop::Signals(LADDER)
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        let id = session.id.iter();
        id.map(|id| Mark { name: "PI_SESSION_ID", value: id.clone() }).collect()
    }

    fn own_variables(&self) -> &'static [&'static str] {
        // PI_PROVIDER and PI_MODEL are not listed: users also set them for `pi_agent_rust`.
        &["PI_CODING_AGENT", "PI_SESSION_ID", "PI_SESSION_FILE", "PI_REASONING_LEVEL", "AI_AGENT"]
    }
}

fn installed(host: &Host) -> Result<(PathBuf, Option<String>), Refusal> {
    let version = |p: &Path| PACKAGES.iter().find_map(|name| version_beside(p, name));
    let mut first = None;
    for program in process::programs(host) {
        if let Some(version) = version(&program) {
            return Ok((program, Some(version)));
        }
        // A script is Pi's launcher of another kind of installation; a program file is not Pi.
        if first.is_none() && is_script(&program) {
            first = Some(program);
        }
    }
    first.map(|program| (program, None)).ok_or_else(|| {
        Refusal::new(
            "the program `pi` is not installed, or not on your PATH",
            "install Pi, or try `agentctl launch demo`",
        )
    })
}

/// Says whether a program is a script.
pub(in crate::adapters) fn is_script(program: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"#!"
}

fn is_since(version: Option<&str>, wanted: [u64; 2]) -> bool {
    let numbers = version.unwrap_or_default().split('.').map(|n| n.parse().ok());
    let numbers: Vec<u64> = numbers.take(2).map_while(|n| n).collect();
    numbers.len() == 2 && numbers[..] >= wanted[..]
}

/// Returns the home of an order.
fn root_of(host: &Host, order: &Order) -> Root {
    let path = order.home().map_or_else(|| home(host), Path::to_owned);
    Root::known(file::resolve_root(&path))
}

/// Finds the file of the session an order continues.
pub(in crate::adapters) fn file_of(
    host: &Host,
    order: &Order,
    kind: Kind,
    id: &str,
) -> Result<PathBuf, Refusal> {
    let root = root_of(host, order);
    session_file(host, &root, kind, id).ok_or_else(|| {
        let why = format!("the file of session {id} is not below {}", root.path().display());
        Refusal::new(why, "name its directory in PI_CODING_AGENT_SESSION_DIR")
    })
}

/// Returns the variable that makes it continue a session of another home there.
pub(in crate::adapters) fn moved_home(host: &Host, order: &Order) -> Vec<(String, String)> {
    let root = root_of(host, order);
    let moved = root.path() != file::resolve_root(&home(host));
    let set = moved.then(|| ("PI_CODING_AGENT_DIR".into(), root.path().to_string_lossy().into()));
    set.into_iter().collect()
}

/// Returns the failure of a resume that began another session.
pub(super) fn begins_other(order: &Order, id: &str) -> Option<Handshake> {
    let Begin::Resume(wanted) = &order.begin else { return None };
    let why = || format!("no session {wanted}; it began {id} instead");
    (wanted != id).then(|| Handshake::Failed(why()))
}

/// Interprets the first output: the first line is the session's header, printed before any model is
/// asked.
pub(in crate::adapters) fn handshake(order: &Order, words: &FirstWords<'_>) -> Handshake {
    let lines: Vec<Value> = words.json_lines().take(32).collect();
    let Some(id) = lines.iter().find(|l| l["type"] == "session").and_then(|l| l["id"].as_str())
    else {
        return Handshake::Wait;
    };
    if let Some(failure) = begins_other(order, id) {
        return failure;
    }
    // The last line only points to the documentation; the error itself is printed before it.
    let said = String::from_utf8_lossy(words.stderr);
    if let Some(refusal) = said.lines().find(|line| line.starts_with("No API key")) {
        return Handshake::Failed(refusal.to_owned());
    }
    let begun = lines.iter().any(|l| l["type"] == "agent_start");
    if begun {
        Handshake::Up(id.to_owned())
    } else {
        Handshake::Nearly(id.to_owned(), FIRST_EVENT_GRACE)
    }
}

/// Returns a hint for the user, from the last output of a failed launch.
pub(in crate::adapters) fn advice(words: &str) -> Option<&'static str> {
    let said = |text: &str| words.contains(text);
    if said("API key") || said("/login") || said("not authenticated") {
        Some("log in with `/login` in Pi, or set the key your provider wants")
    } else if said("Model") && said("not found") {
        Some("name another with --model; `pi --list-models` shows them")
    } else if said("Unknown option") {
        Some("this Pi is older than the option; leave it out, or update Pi")
    } else {
        None
    }
}
