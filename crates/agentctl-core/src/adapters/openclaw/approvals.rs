//! Approvals of commands: the requests that a gateway lists, and answers to them. Only a gateway whose
//! configuration says `approvals = true` is asked.
//!
//! A command waits only while a client with the capability for approvals is connected: that is the connection on
//! which we listen. A request is shown to the device that began its run, and to administrators.

use serde_json::{Map, Value, json};

use super::gateways::Gateway;
use super::wire::{Conversation, GatewayError, Scope, Shows};
use crate::adapters::Look;
use crate::adapters::answering::{Delivered, NotDelivered};
use crate::model::{
    Ask, AskChannel, AskChoice, AskKind, AskPart, AskScope, FaultCode, Reply, Session, Time,
    ToolCall, shorten,
};

/// Most requests of a gateway that are read.
const MAX_REQUESTS: usize = 1_000;
/// The fields of a request that describe the command.
const SHOWN: [&str; 9] = [
    "command",
    "commandArgv",
    "cwd",
    "host",
    "nodeId",
    "agentId",
    "resolvedPath",
    "envKeys",
    "warningText",
];

/// An open request.
#[derive(Clone, Debug)]
pub(super) struct Approval {
    id: String,
    /// The key of the session that waits.
    pub(super) key: String,
    /// The whole row, as the gateway gave it.
    row: Value,
}

impl Approval {
    /// Reads a row of the list; `None` for a row without an id or a session.
    fn of(row: &Value) -> Option<Self> {
        let id = row["id"].as_str().filter(|id| !id.is_empty())?.to_owned();
        let key = row["request"]["sessionKey"].as_str()?.to_owned();
        Some(Self { id, key, row: row.clone() })
    }

    fn request(&self) -> &Value {
        &self.row["request"]
    }

    /// Returns the command if this is a request in the form that is known here.
    fn command(&self) -> Option<&str> {
        let is_exec = self.row["approvalKind"] == "exec";
        self.request()["command"].as_str().filter(|_| is_exec && !self.choices().is_empty())
    }

    /// Returns the request in one line.
    pub(super) fn gist(&self) -> String {
        match self.command() {
            Some(command) => shorten(&format!("exec: {command}"), 200),
            None => "a request that is not known here".into(),
        }
    }

    /// Returns the decisions that the gateway offers.
    fn choices(&self) -> Vec<AskChoice> {
        let offered = self.request()["allowedDecisions"].as_array();
        let offers = |word: &str| offered.is_some_and(|all| all.iter().any(|one| one == word));
        let mut choices = Vec::new();
        if offers("allow-once") {
            choices.push(AskChoice::allow());
        }
        if offers("deny") {
            choices.push(AskChoice::deny());
        }
        if offers("allow-always") {
            let what = self.request()["resolvedPath"].as_str();
            let what = what.or_else(|| self.request()["command"].as_str()).unwrap_or_default();
            let rule = format!("allow-always: {}", shorten(what, 400));
            choices.push(AskChoice::always(1, rule, AskScope::User));
        }
        choices
    }

    /// Makes the ask of this request.
    pub(super) fn ask(&self, look: &Look, session: &Session) -> Ask {
        let mut ask = Ask::of(session);
        ask.kind = AskKind::Permission;
        let time = |value: &Value| value.as_i64().and_then(Time::from_millis);
        (ask.since, ask.until) = (time(&self.row["createdAtMs"]), time(&self.row["expiresAtMs"]));
        ask.then = Some("denied".into());
        match self.command() {
            Some(command) => self.describe(&mut ask, command),
            None => {
                ask.set_title(&self.gist());
                ask.parts = vec![AskPart::json(&self.row)];
                ask.why_not =
                    Some("this kind of request is not known here: answer it in OpenClaw".into());
            }
        }
        let says = format!("approval {} is open", shorten(&self.id, 80));
        ask.evidence.push(look.evidence("openclaw:exec.approval.list", says));
        ask.identify(session, &self.id);
        ask
    }

    fn describe(&self, ask: &mut Ask, command: &str) {
        let request = self.request();
        let shown = SHOWN.iter().filter(|field| !request[**field].is_null());
        let input: Map<String, Value> =
            shown.map(|field| ((*field).to_owned(), request[*field].clone())).collect();
        ask.set_tool(ToolCall {
            id: request["toolCallId"].as_str().map(str::to_owned),
            name: "exec".into(),
            input: input.into(),
        });
        ask.set_title(&self.gist());
        ask.cwd = request["cwd"].as_str().map(str::to_owned);
        ask.parts = vec![AskPart::command(command)];
        if let Some(warning) = request["warningText"].as_str().filter(|text| !text.is_empty()) {
            ask.parts.push(AskPart::text(warning));
        }
        if let Some(host) = request["host"].as_str() {
            ask.parts.push(AskPart::text(&format!("runs on: {}", shorten(host, 80))));
        }
        ask.choices = self.choices();
        ask.via = Some(AskChannel::Gateway);
    }
}

/// Reads the open requests that the gateway shows us.
pub(super) fn read(look: &Look, gateway: &Gateway) -> Result<Vec<Approval>, GatewayError> {
    let mut talk = Conversation::begin_as(look, gateway, Scope::Approvals, Shows::Device)?;
    open(&mut talk)
}

fn open(talk: &mut Conversation) -> Result<Vec<Approval>, GatewayError> {
    let told = talk.ask("exec.approval.list", &json!({}))?;
    let rows = told.as_array().ok_or_else(|| {
        GatewayError::new(FaultCode::Protocol, "the gateway's list of approvals is no list")
    })?;
    Ok(rows.iter().take(MAX_REQUESTS).filter_map(Approval::of).collect())
}

/// Hands an answer to the gateway. It says whether this answer was the one that counts.
pub(super) fn resolve(
    look: &Look,
    gateway: &Gateway,
    ask: &Ask,
    reply: &Reply,
) -> Result<Delivered, NotDelivered> {
    // Any other word would settle the request as denied.
    let decision = match reply {
        Reply::Allow => "allow-once",
        Reply::Always(_) => "allow-always",
        Reply::Deny { .. } => "deny",
        Reply::Stop | Reply::Fields(_) => {
            return Err(NotDelivered::NotOffered("it is allowed or denied".into()));
        }
    };
    let asked = json!({"id": ask.native, "kind": "exec", "decision": decision});
    let talk = Conversation::begin_as(look, gateway, Scope::Approvals, Shows::Device);
    let mut talk = talk.map_err(|trouble| NotDelivered::Refused(trouble.message))?;
    match talk.ask("approval.resolve", &asked) {
        Ok(told) if told["applied"] == true => Ok(match reply {
            // A denial has no field for words.
            Reply::Deny { message: Some(_) } => Delivered::TakenWithoutWords,
            _ => Delivered::Taken,
        }),
        Ok(told) if told["applied"] == false => {
            Err(NotDelivered::Refused(settled(&told["approval"])))
        }
        Ok(_) => Err(NotDelivered::Unclear("the gateway did not say whether it counts".into())),
        Err(trouble) => Err(look_again(look, gateway, ask, &trouble)),
    }
}

/// Says how a request was settled before an answer to it.
fn settled(approval: &Value) -> String {
    let status = approval["status"].as_str().unwrap_or_default();
    match status {
        "allowed" => "another answer was taken: it is allowed".into(),
        "denied" => "another answer was taken: it is denied".into(),
        "expired" => "it has expired, and is denied".into(),
        "cancelled" => "its run was ended, and the request with it".into(),
        _ => format!("it is not open any more ({})", shorten(status, 40)),
    }
}

/// Looks at the open requests after an answer that the gateway did not take or did not confirm.
fn look_again(look: &Look, gateway: &Gateway, ask: &Ask, trouble: &GatewayError) -> NotDelivered {
    let is_answered = matches!(trouble.code, FaultCode::Refused | FaultCode::Auth);
    match read(look, gateway) {
        Ok(open) if open.iter().any(|approval| approval.id == ask.native) => {
            NotDelivered::Refused(format!("it is still open: {}", trouble.message))
        }
        Ok(_) if is_answered && ask.until.is_some_and(|until| until <= look.now) => {
            NotDelivered::Refused("it has expired, and is denied".into())
        }
        Ok(_) if is_answered => NotDelivered::Gone,
        Ok(_) | Err(_) => NotDelivered::Unclear(trouble.message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_request_has_its_own_sentence() {
        let said = |status: &str| settled(&json!({"status": status}));
        assert!(said("allowed").contains("another answer"));
        assert!(said("denied").contains("another answer"));
        assert!(said("expired").contains("expired"));
        assert!(said("cancelled").contains("its run was ended"));
        assert!(said("new word").contains("(new word)"));
    }

    #[test]
    fn only_offered_decisions_of_known_requests_are_choices() {
        let approval = |kind: &str, offered: Value| {
            let request = json!({"sessionKey": "k", "command": "touch x", "resolvedPath": "/bin/touch", "allowedDecisions": offered});
            Approval::of(&json!({"id": "a", "approvalKind": kind, "request": request}))
                .expect("a request")
        };
        let keys = |approval: &Approval| {
            approval.choices().into_iter().map(|choice| choice.key).collect::<Vec<_>>()
        };
        let all = approval("exec", json!(["allow-once", "allow-always", "deny", "perhaps"]));
        assert_eq!(keys(&all), ["allow", "deny", "always:1"]);
        assert_eq!(all.command(), Some("touch x"));
        assert_eq!(keys(&approval("exec", json!(["deny"]))), ["deny"]);
        assert_eq!(approval("exec", Value::Null).command(), None, "no decision is assumed");
        assert_eq!(approval("plugin", json!(["allow-once"])).command(), None);
        assert!(Approval::of(&json!({"id": "a", "request": {}})).is_none());
    }
}
