//! Control of Codex: `codex exec` with the prompt on stdin. The id cannot be chosen; the first JSON
//! line on stdout names it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{Codex, VARIABLES};
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Permissions, PrivateServer,
    Refusal, Start, StartStdin, Stop,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::model::Session;
use crate::native::file;

/// Time to wait after the first line for an error about a missing key or the warning about an unknown
/// model; it follows within 50 ms, on a busy machine within some hundred.
const FIRST_LINE_GRACE: Duration = Duration::from_millis(400);
/// Time to wait for the model server after that warning: only the server's answer decides.
const SERVER_GRACE: Duration = Duration::from_secs(3);

impl Control for Codex {
    fn abilities(&self) -> Abilities {
        Abilities {
            fork: true,
            edits: "--sandbox workspace-write",
            bypass: "--dangerously-bypass-approvals-and-sandbox",
            stop: "SIGINT, SIGTERM, then SIGKILL; hosted threads by their server",
        }
    }

    fn start(&self, host: &Host, order: &Order) -> Result<Start, Refusal> {
        let program = host.which("codex").ok_or_else(|| {
            Refusal::new(
                "the program `codex` is not installed, or not on your PATH",
                "install Codex, or try `agentctl launch demo`",
            )
        })?;
        if order.is_attended() {
            return Ok(start_server(host, order, program));
        }
        let mut args: Vec<OsString> = ["exec", "--json"].map(Into::into).to_vec();
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        if let Some(model) = &order.model {
            // One word, so that a model name may begin with a dash.
            say(&[&format!("--model={model}")]);
        }
        match order.permissions {
            Permissions::Default => {}
            Permissions::Edits => say(&["--sandbox", "workspace-write"]),
            Permissions::Bypass => say(&["--dangerously-bypass-approvals-and-sandbox"]),
        }
        args.extend(order.extra.iter().cloned());
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        let id = match &order.begin {
            Begin::New => None,
            Begin::Resume(id) => {
                say(&["resume", id]);
                Some(id.clone())
            }
            Begin::Fork(from) => {
                say(&["fork", from]);
                None
            }
        };
        // The prompt is read from stdin.
        args.push("-".into());
        let set = moved_home(host, order);
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
        Some(start.map(|start| start.with_args(["resume".into(), order.session().into()])))
    }

    fn longest_prompt(&self) -> Option<usize> {
        // With a longer prompt it begins a thread, names it, and does not save it.
        Some(1 << 20)
    }

    fn handshake(&self, host: &Host, order: &Order, words: &FirstWords<'_>) -> Handshake {
        let lines: Vec<Value> = words.json_lines().collect();
        let started = lines.iter().find(|line| line["type"] == "thread.started");
        let Some(id) = started.and_then(|line| line["thread_id"].as_str()) else {
            return Handshake::Wait;
        };
        // Asked for a thread it does not know, it may begin another one without an error.
        if let Begin::Resume(wanted) = &order.begin
            && wanted != id
        {
            return Handshake::Failed(format!("no thread {wanted}; it began {id} instead"));
        }
        let failed = lines.iter().find(|line| line["type"] == "turn.failed");
        if let Some(message) = failed.and_then(|line| line["error"]["message"].as_str()) {
            return Handshake::Failed(message.to_owned());
        }
        let item = |line: &&Value| line["item"]["type"].as_str().is_some_and(|t| t != "error");
        if lines.iter().any(|line| item(&line)) {
            return Handshake::Up(id.to_owned());
        }
        let says =
            |text: &str| lines.iter().any(|l| l["item"]["message"].to_string().contains(text));
        match (&order.model, logged_in(host, order)) {
            (Some(_), _) if says("Model metadata for") => {
                Handshake::Nearly(id.to_owned(), SERVER_GRACE)
            }
            (Some(_), _) | (None, false) => Handshake::Nearly(id.to_owned(), FIRST_LINE_GRACE),
            (None, true) => Handshake::Up(id.to_owned()),
        }
    }

    fn advice(&self, words: &str) -> Option<&'static str> {
        let said = |text: &str| words.contains(text);
        if said("skip-git-repo-check") || said("trusted directory") {
            Some("launch in a git repository, or add `-- --skip-git-repo-check`")
        } else if said("active writer") {
            Some("another Codex has this thread open; `agentctl status` shows which")
        } else if said("401") || said("log in") || said("login") || said("Missing environment") {
            Some("run `codex login`, or set the key your provider wants")
        } else if said("model") && (said("not exist") || said("not found") || said("not supported"))
        {
            Some("name another with --model")
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
        &[
            "CODEX_THREAD_ID",
            "CODEX_SESSION_ID",
            "CODEX_TOOL_CALL_ID",
            "CODEX_CI",
            "CODEX_VERSION",
            "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
            "CODEX_MANAGED_BY_NPM",
            "CODEX_MANAGED_PACKAGE_ROOT",
        ]
    }
}

/// Returns the command of a server for one run: its socket has a name of its own.
fn start_server(host: &Host, order: &Order, program: PathBuf) -> Start {
    let name = uuid::Uuid::new_v4().simple().to_string();
    let socket = host.runtime().join(format!("{}.sock", &name[..12]));
    let mut args = super::private_server::arguments(&socket);
    args.extend(order.extra.iter().cloned());
    let id = match &order.begin {
        Begin::Resume(id) => Some(id.clone()),
        Begin::New | Begin::Fork(_) => None,
    };
    let set = moved_home(host, order);
    Start {
        program,
        args,
        set,
        unset: Vec::new(),
        id,
        keeps_name: false,
        stdin: StartStdin::Prompt,
    }
}

/// Returns the variable that makes Codex continue a thread of another home there.
fn moved_home(host: &Host, order: &Order) -> Vec<(String, String)> {
    let usual = file::resolve_root(&home(host));
    let moved = order.home().filter(|root| *root != usual);
    let set = moved.map(|root| ("CODEX_HOME".into(), root.to_string_lossy().into()));
    set.into_iter().collect()
}

/// Returns the home that a Codex started with this environment would use.
fn home(host: &Host) -> PathBuf {
    VARIABLES.get(host, "CODEX_HOME").map_or_else(|| host.home.join(".codex"), PathBuf::from)
}

/// Says whether there is a variable or file that Codex could log in with.
fn logged_in(host: &Host, order: &Order) -> bool {
    let home = order.home().map_or_else(|| home(host), Path::to_owned);
    VARIABLES.launch.iter().any(|key| VARIABLES.get(host, key).is_some())
        || home.join("auth.json").is_file()
}
