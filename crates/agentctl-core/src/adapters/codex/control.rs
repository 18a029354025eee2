//! How Codex is moved: `codex exec` with the prompt on stdin. The id cannot be chosen; the first
//! structured line tells it.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value;

use super::Codex;
use crate::adapters::control::{
    Abilities, Begin, Control, FirstWords, Handshake, Mark, Order, Permissions, Refusal, Start,
    Stop,
};
use crate::adapters::{Look, Root};
use crate::host::Host;
use crate::model::Session;
use crate::native::file;

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
        let mut args: Vec<OsString> = ["exec", "--json"].map(Into::into).to_vec();
        let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
        if let Some(model) = &order.model {
            say(&["--model", model]);
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
        // A thread of another home is continued there.
        let usual = host.var("CODEX_HOME").map(PathBuf::from);
        let usual = file::resolve_root(&usual.unwrap_or_else(|| host.home.join(".codex")));
        let moved = order.root.as_ref().filter(|root| **root != usual);
        let set = moved.map(|root| ("CODEX_HOME".into(), root.to_string_lossy().into()));
        let set = set.into_iter().collect();
        Ok(Start { program, args, set, unset: Vec::new(), id, keeps_name: false })
    }

    fn handshake(&self, _host: &Host, _order: &Order, words: &FirstWords<'_>) -> Handshake {
        let mut lines = words.json_lines();
        let started = lines.find(|line: &Value| line["type"] == "thread.started");
        match started.as_ref().and_then(|line| line["thread_id"].as_str()) {
            Some(id) => Handshake::Up(id.to_owned()),
            None => Handshake::Wait,
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
        let _ = (look, root, session);
        Stop::Refuse(String::new())
    }

    fn interrupt(&self, look: &Look, root: &Root, session: &Session) -> Result<String, String> {
        let _ = (look, root, session);
        Err(String::new())
    }

    fn marks(&self, session: &Session) -> Vec<Mark> {
        let _ = session;
        Vec::new()
    }

    fn own_variables(&self) -> &'static [&'static str] {
        &["CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI", "CODEX_VERSION"]
    }

    fn watched(&self, root: &Root, session: &Session) -> Vec<PathBuf> {
        let _ = session;
        vec![root.path.clone()]
    }
}
