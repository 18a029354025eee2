//! Control of OpenCode: `opencode run` with the prompt on stdin, in a session whose id we chose.
//!
//! `run` prints nothing before the model answers, so the session is created beforehand: `opencode
//! import` takes an empty session under the id it is given. From then on the id is in the agent's
//! arguments.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};

use super::database::{Database, SLUG};
use super::home::{self, Home};
use super::{NAME, OpenCode, VARIABLES, private_server};
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Permissions, Preparation,
    PrivateServer, Refusal, Start, StartStdin, Stop,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::model::{ReasonKind, Session, Time};
use crate::native::file;

impl Control for OpenCode {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: true,
            edits: "OPENCODE_PERMISSION edit=allow",
            bypass: "--auto",
            stop: "SIGTERM, then SIGKILL; hosted sessions by their server",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let program = host.which("opencode").ok_or_else(|| {
            Refusal::new(
                "the program `opencode` is not installed, or not on your PATH",
                "install OpenCode, or try `agentctl launch demo`",
            )
        })?;
        if order.is_attended() {
            return start_server(host, order, program);
        }
        let mut args: Vec<OsString> = ["run", "--format", "json"].map(Into::into).to_vec();
        let id = match &order.begin {
            Begin::New => Some(new_id(host.now())),
            Begin::Resume(id) => {
                own_directory(host, order, id)?;
                Some(id.clone())
            }
            Begin::Fork(from) => {
                own_directory(host, order, from)?;
                args.extend(["--fork", "--session", from].map(Into::into));
                None
            }
        };
        if let Some(id) = &id {
            args.extend(["--session", id].map(Into::into));
        }
        if let Some(model) = &order.model {
            // One word, so that a model name may begin with a dash.
            args.push(format!("--model={model}").into());
        }
        let mut set = elsewhere(host, order);
        // OpenCode trusts this variable more than its working directory. If it names another folder,
        // `run` listens there and never receives the events of its own session.
        set.push(("PWD".into(), order.cwd.to_string_lossy().into_owned()));
        match order.permissions {
            Permissions::Default => {}
            Permissions::Edits => set.push(("OPENCODE_PERMISSION".into(), edits(host))),
            Permissions::Bypass => args.push("--auto".into()),
        }
        args.extend(order.extra.iter().cloned());
        Ok(Start {
            program,
            args,
            set,
            unset: Vec::new(),
            id,
            keeps_name: false,
            stdin: StartStdin::Prompt,
        })
    }

    fn interactive_resume(&self, host: &Host, order: &Order) -> Option<Result<Start, Refusal>> {
        let start = self.start(host, order);
        Some(start.map(|start| start.with_args(["--session".into(), order.session().into()])))
    }

    fn prepare(&self, host: &Host, order: &Order, start: &Start) -> Vec<Preparation> {
        let (Begin::New, Some(id)) = (&order.begin, &start.id) else { return Vec::new() };
        let now = host.now();
        let session = json!({
            "info": {
                "id": id,
                "slug": SLUG,
                "projectID": "global",
                "directory": order.cwd.to_string_lossy(),
                // OpenCode replaces this title by a generated one later.
                "title": format!("New session - {now}"),
                "version": "1.0.0",
                "time": { "created": now.millis(), "updated": now.millis() },
            },
            "messages": [],
        });
        let args = ["import", "/dev/stdin"].map(Into::into).to_vec();
        let input = session.to_string().into_bytes();
        vec![Preparation { program: start.program.clone(), args, input }]
    }

    fn handshake(&self, _host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake {
        for line in words.json_lines() {
            if line["type"] == "error" {
                return Handshake::Failed(error(&line["error"]));
            }
            let Some(id) = line["sessionID"].as_str() else { continue };
            if let Begin::Resume(wanted) = &order.begin
                && wanted != id
            {
                return Handshake::Failed(format!("no session {wanted}; it began {id} instead"));
            }
            return Handshake::Up(id.to_owned());
        }
        Handshake::Wait
    }

    /// It serves its session from the start; an unknown model is refused seconds later.
    fn is_up(&self, session: &Session) -> bool {
        session.reason.as_ref().is_none_or(|reason| reason.kind != ReasonKind::Starting)
    }

    fn advice(&self, words: &str) -> Option<&'static str> {
        let said = |text: &str| words.to_lowercase().contains(text);
        if said("session not found") {
            Some("`agentctl list -a` shows the sessions there are")
        } else if said("modelnotfound") || said("model not found") {
            Some("name another with --model PROVIDER/MODEL; `opencode models` lists them")
        } else if said("401") || said("api key") || said("unauthorized") || said("providerauth") {
            Some("run `opencode auth login`")
        } else {
            None
        }
    }

    fn stop(&self, look: &Look, root: &Root, session: &Session) -> Stop {
        super::stop::plan(look, root, session)
    }

    fn interrupt(&self, look: &Look, root: &Root, session: &Session) -> Result<String, String> {
        super::stop::interrupt(look, root, session)
    }

    fn private_server(&self) -> Option<&dyn PrivateServer> {
        Some(self)
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        super::stop::marks(session)
    }

    fn own_variables(&self) -> &'static [&'static str] {
        &["OPENCODE", "OPENCODE_PID"]
    }
}

/// Returns the command of a server for one run.
fn start_server(host: &Host, order: &Order, program: std::path::PathBuf) -> Result<Start, Refusal> {
    let id = match &order.begin {
        Begin::New => None,
        Begin::Resume(id) => {
            own_directory(host, order, id)?;
            Some(id.clone())
        }
        Begin::Fork(from) => {
            own_directory(host, order, from)?;
            None
        }
    };
    let mut args: Vec<OsString> = private_server::ARGUMENTS.map(Into::into).to_vec();
    args.extend(order.extra.iter().cloned());
    let mut set = elsewhere(host, order);
    set.push(("PWD".into(), order.cwd.to_string_lossy().into_owned()));
    set.extend(private_server::variables(host, order));
    let keeps_name = order.begin == Begin::New;
    Ok(Start { program, args, set, unset: Vec::new(), id, keeps_name, stdin: StartStdin::Prompt })
}

fn error(said: &Value) -> String {
    let text = said["data"]["message"].as_str().or(said["message"].as_str());
    let name = said["name"].as_str();
    match (name, text) {
        (Some(name), Some(text)) if !text.contains(name) => format!("{name}: {text}"),
        (_, Some(text)) => text.to_owned(),
        (Some(name), None) => name.to_owned(),
        (None, None) => said.to_string(),
    }
}

/// Makes an id in OpenCode's format: newer sessions sort first.
fn new_id(now: Time) -> String {
    const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let moment = !(now.millis().cast_unsigned() << 12) & 0xFFFF_FFFF_FFFF;
    let chance = uuid::Uuid::new_v4();
    let chance = chance.as_bytes().iter().take(14).map(|b| char::from(SIGNS[usize::from(*b) % 62]));
    format!("ses_{moment:012x}{}", chance.collect::<String>())
}

/// Refuses another directory: the turn would run in the session's own directory, and `run` would never
/// end.
fn own_directory(host: &Host, order: &Order, id: &str) -> Result<(), Refusal> {
    let root = order.home().map_or_else(|| Home::usual(host).root, Path::to_owned);
    let deadline = std::time::Instant::now() + host.deadlines.live;
    let database = Database::open(&home::database(&root), host.kernel.uid(), deadline);
    let row = database.ok().and_then(|database| database.fresh(id).ok().flatten());
    let Some(directory) = row.and_then(|row| row.directory) else { return Ok(()) };
    if file::resolve_root(Path::new(&directory)) == order.cwd {
        return Ok(());
    }
    let message = format!("OpenCode continues a session only where it began, in {directory}");
    Err(Refusal::new(message, "leave --cwd out"))
}

/// Returns the variables that make it continue a session of another home there.
fn elsewhere(host: &Host, order: &Order) -> Vec<(String, String)> {
    let usual = Home::usual(host);
    let Some(root) = order.home().filter(|root| *root != usual.root) else {
        return Vec::new();
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    match root.parent() {
        Some(above) if root.is_dir() && root.ends_with(NAME) => {
            let mut set = vec![("XDG_DATA_HOME".to_owned(), text(above))];
            if VARIABLES.get(host, "OPENCODE_DB").is_some() {
                set.push(("OPENCODE_DB".to_owned(), text(&home::database(root))));
            }
            set
        }
        _ => vec![("OPENCODE_DB".to_owned(), text(&home::database(root)))],
    }
}

/// Returns the permissions that are set already, plus `edit`.
fn edits(host: &Host) -> String {
    let set =
        VARIABLES.get(host, "OPENCODE_PERMISSION").and_then(|text| serde_json::from_str(text).ok());
    let mut rules: serde_json::Map<String, Value> = set.unwrap_or_default();
    rules.insert("edit".into(), "allow".into());
    Value::Object(rules).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_session_id;

    #[test]
    fn an_id_has_the_agents_format_and_newer_ids_sort_first() {
        let at = |ms: i64| new_id(Time::from_millis(ms).expect("a time"));
        // 1794728706782 is `e21d53d21ffe` in a session that OpenCode made itself.
        let (earlier, later) = (at(1_794_728_706_782), at(1_794_728_706_783));
        assert!(earlier.starts_with("ses_e21d53d21"), "{earlier}");
        assert!(later < earlier, "{later} {earlier}");
        assert!(is_session_id(&later) && later.len() == 30, "{later}");
        assert_ne!(at(1), at(1));
    }
}
