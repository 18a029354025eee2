//! An app-server that carries out the order of one run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::Codex;
use super::process::{Role, is_codex, role};
use super::server::{self, Socket};
use crate::adapters::Look;
use crate::adapters::control::{Begin, Order, Permissions, PrivateServer, Refusal, Unbegun};
use crate::adapters::proof::server_itself;
use crate::kernel::Process;
use crate::model::ProcId;
use crate::talk::{Pushing, RpcSocket, TalkError};

/// Time of the whole conversation that begins a session.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for an error that ends the first turn at once: a missing key, an unknown model.
const FAILURE_GRACE: Duration = Duration::from_millis(400);

/// Returns the arguments of a server that listens on this socket.
pub(super) fn arguments(socket: &std::path::Path) -> Vec<std::ffi::OsString> {
    let mut listen = std::ffi::OsString::from("unix://");
    listen.push(socket);
    vec!["app-server".into(), "--listen".into(), listen]
}

impl PrivateServer for Codex {
    fn begin(
        &self,
        look: &Look,
        server: &ProcId,
        order: &Order,
        message: &str,
    ) -> Result<Option<String>, Unbegun> {
        let Some(to) = socket(look, server) else { return Ok(None) };
        // Until the server has introduced itself nothing of the order is sent.
        let Ok(mut socket) = server::visit(look, &to, BEGIN_TIMEOUT) else { return Ok(None) };
        let (method, params) = match &order.begin {
            Begin::New => ("thread/start", settings(order)),
            Begin::Resume(id) => ("thread/resume", of_thread(settings(order), id)),
            Begin::Fork(id) => ("thread/fork", of_thread(settings(order), id)),
        };
        let begun = socket.ask(method, &Value::Object(params)).map_err(unbegun)?;
        let Some(thread) = begun["thread"]["id"].as_str().map(str::to_owned) else {
            return Err(Unbegun::Unclear(format!("{method} was answered without a thread")));
        };
        if let Begin::Resume(wanted) = &order.begin
            && *wanted != thread
        {
            return Err(Unbegun::Unclear(format!("it continued {thread} instead of {wanted}")));
        }
        let turn = json!({
            "threadId": thread,
            "clientUserMessageId": uuid::Uuid::new_v4().to_string(),
            "input": [{ "type": "text", "text": message, "text_elements": [] }],
        });
        socket.ask("turn/start", &turn).map_err(unbegun)?;
        match failure(&mut socket, &thread) {
            Some(why) => Err(Unbegun::Refused(Refusal { message: why, hint: None })),
            None => Ok(Some(thread)),
        }
    }

    /// A thread that no client has subscribed to is unloaded after a minute of rest.
    fn needs_hold(&self) -> bool {
        true
    }

    fn hold(&self, look: &Look, server: &ProcId, session: &str) -> Option<Pushing> {
        let to = socket(look, server)?;
        let (kernel, thread) = (look.host.kernel.clone(), session.to_owned());
        Some(Pushing::new(to.name(), move |limit| {
            let mut socket = server::introduced(&to, &kernel, limit)?;
            let resume = json!({ "threadId": thread, "excludeTurns": true });
            socket.ask("thread/resume", &resume)?;
            socket.listen()
        }))
    }
}

/// Returns the socket of the server of a run.
fn socket(look: &Look, started: &ProcId) -> Option<Socket> {
    let is_server = |process: &Process| is_codex(process) && role(process) == Role::Server;
    let process = server_itself(look, started, &is_server)?;
    let path = process.argv.iter().find_map(|word| word.strip_prefix("unix://"))?;
    let path = PathBuf::from(path);
    // It is made when the server begins to listen.
    let is_there = std::fs::symlink_metadata(&path).is_ok();
    let path = if is_there { path } else { server::listening_path(look, process)? };
    Some(Socket::new(path, process.id.clone()))
}

/// Returns the settings of the thread. Settings that the further arguments of the launch give are left to them.
fn settings(order: &Order) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("cwd".into(), order.cwd.to_string_lossy().into());
    if let Some(model) = &order.model {
        settings.insert("model".into(), model.as_str().into());
    }
    let is_given = |key: &str| order.extra.iter().any(|word| word.to_string_lossy().contains(key));
    let (policy, sandbox) = match order.permissions {
        Permissions::Default | Permissions::Edits => ("on-request", "workspace-write"),
        Permissions::Bypass => ("never", "danger-full-access"),
    };
    if !is_given("approval_policy") {
        settings.insert("approvalPolicy".into(), policy.into());
    }
    if !is_given("sandbox_mode") {
        settings.insert("sandbox".into(), sandbox.into());
    }
    settings
}

fn of_thread(mut settings: Map<String, Value>, id: &str) -> Map<String, Value> {
    settings.insert("threadId".into(), id.into());
    settings
}

fn unbegun(error: TalkError) -> Unbegun {
    match error {
        TalkError::Refused(message) => Unbegun::Refused(Refusal { message, hint: None }),
        error => Unbegun::Unclear(error.to_string()),
    }
}

/// Waits a moment for the failure of the first turn.
fn failure(socket: &mut RpcSocket, thread: &str) -> Option<String> {
    let until = Instant::now() + FAILURE_GRACE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let message = socket.next_message(left).ok().flatten()?;
        let params = &message["params"];
        let has_failed = message["method"] == "turn/completed"
            && params["threadId"] == thread
            && params["turn"]["status"] == "failed";
        if has_failed {
            let why = params["turn"]["error"]["message"].as_str();
            return Some(why.unwrap_or("its first turn failed").to_owned());
        }
    }
}
