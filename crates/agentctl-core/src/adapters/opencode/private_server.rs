//! A server that carries out the order of one run: `opencode serve` on a free port of the loopback, with a
//! password that only its environment holds.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::home::{Role, is_opencode};
use super::server::{self, PromptedSession, escape};
use super::{OpenCode, VARIABLES};
use crate::adapters::Look;
use crate::adapters::control::{Begin, Order, Permissions, PrivateServer, Refusal, Unbegun};
use crate::adapters::proof::server_itself;
use crate::host::Host;
use crate::kernel::Process;
use crate::model::ProcId;
use crate::talk::TalkError;

/// Time for the first call: a server that is starting may never answer it.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for each call that begins the session: the first prompt of a new server is slow.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(40);

/// Time for the first turn to begin: on a loaded machine a new server needs more than five seconds.
const TURN_TIMEOUT: Duration = Duration::from_secs(40);

/// The arguments of the server.
pub(super) const ARGUMENTS: [&str; 5] = ["serve", "--hostname", "127.0.0.1", "--port", "0"];

/// Permissions that change nothing and are not asked for.
const HARMLESS: [&str; 8] =
    ["read", "glob", "grep", "list", "todowrite", "todoread", "skill", "question"];

/// Returns the variables of the server: a password, and the permissions that it asks for.
pub(super) fn variables(host: &Host, order: &Order) -> Vec<(String, String)> {
    let password = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    vec![
        ("OPENCODE_SERVER_PASSWORD".into(), password),
        ("OPENCODE_PERMISSION".into(), rules(host, order.permissions)),
    ]
}

/// Returns the rules of the server; rules that the user has set in the environment count more.
fn rules(host: &Host, permissions: Permissions) -> String {
    let mut rules = Map::new();
    let any = if permissions == Permissions::Bypass { "allow" } else { "ask" };
    rules.insert("*".into(), any.into());
    for name in HARMLESS {
        rules.insert(name.into(), "allow".into());
    }
    if permissions == Permissions::Edits {
        rules.insert("edit".into(), "allow".into());
    }
    let given = VARIABLES.get(host, "OPENCODE_PERMISSION");
    let given: Option<Map<String, Value>> = given.and_then(|text| serde_json::from_str(text).ok());
    rules.extend(given.into_iter().flatten());
    Value::Object(rules).to_string()
}

impl PrivateServer for OpenCode {
    fn begin(
        &self,
        look: &Look,
        server: &ProcId,
        order: &Order,
        message: &str,
    ) -> Result<Option<String>, Unbegun> {
        let is_server =
            |process: &Process| is_opencode(process) && Role::of(process) == Role::Server;
        let Some(process) = server_itself(look, server, &is_server) else { return Ok(None) };
        let Some(server) = server::of(look, process).ok().flatten() else { return Ok(None) };
        let folder = format!("?directory={}", escape(&order.cwd.to_string_lossy()));
        // Nothing of the order is sent before the server has answered once.
        if server.get(&format!("/session/status{folder}"), FIRST_CALL_TIMEOUT).is_err() {
            return Ok(None);
        }
        let id = match &order.begin {
            Begin::New => {
                let title = order.name.as_ref().map(|name| json!({ "title": name }));
                let path = format!("/session{folder}");
                let made = server.post_json(&path, &title.unwrap_or(json!({})), BEGIN_TIMEOUT);
                id_of(&made.map_err(unbegun)?)?
            }
            Begin::Resume(id) => {
                let path = format!("/session/{}{folder}", escape(id));
                id_of(&server.get(&path, BEGIN_TIMEOUT).map_err(unbegun)?)?
            }
            Begin::Fork(id) => {
                let path = format!("/session/{}/fork{folder}", escape(id));
                id_of(&server.post_json(&path, &json!({}), BEGIN_TIMEOUT).map_err(unbegun)?)?
            }
        };
        let mut prompt = json!({ "parts": [{ "type": "text", "text": message }] });
        if let Some(model) = &order.model {
            let Some((provider, model)) = model.split_once('/') else {
                let why = format!("the model `{model}` names no provider");
                return Err(Refusal::new(why, "name it as PROVIDER/MODEL").into());
            };
            prompt["model"] = json!({ "providerID": provider, "modelID": model });
        }
        let path = format!("/session/{}/prompt_async{folder}", escape(&id));
        let session = PromptedSession::before_prompt(&server, &order.cwd.to_string_lossy(), &id);
        server.post_json(&path, &prompt, BEGIN_TIMEOUT).map_err(unbegun)?;
        session.until_turn_begins(TURN_TIMEOUT);
        Ok(Some(id))
    }
}

fn id_of(session: &Value) -> Result<String, Unbegun> {
    let id = session["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Unbegun::Unclear("its server named no session".into()))
}

fn unbegun(error: TalkError) -> Unbegun {
    match error {
        TalkError::NotFound => Refusal::new(
            "it has no such session",
            "`agentctl list -a` shows the sessions there are",
        )
        .into(),
        TalkError::Refused(message) => Unbegun::Refused(Refusal { message, hint: None }),
        error => Unbegun::Unclear(error.to_string()),
    }
}
