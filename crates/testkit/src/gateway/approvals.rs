//! Requests for the approval of commands: the clients that see them, and how they end.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The requests.
#[derive(Debug, Default)]
pub struct Approvals {
    /// The open ones, as the gateway lists them.
    pub open: Vec<Value>,
    /// The settled ones, by id.
    pub settled: BTreeMap<String, Value>,
    /// The connection is closed once after an answer was taken, before that is said.
    pub lost_answer: bool,
}

impl Approvals {
    /// Opens a request for a command of the session with this key; it offers these decisions.
    pub fn ask(&mut self, id: &str, key: &str, command: &str, decisions: &[&str]) {
        let request = json!({
            "command": command, "cwd": "/srv/ws", "host": "gateway", "security": "allowlist", "ask": "always",
            "warningText": null, "allowedDecisions": decisions, "agentId": "main",
            "resolvedPath": "/usr/bin/touch", "sessionKey": key, "sessionId": null, "runId": "r1",
            "toolCallId": "call_1",
        });
        self.open.push(json!({
            "approvalKind": "exec", "id": id, "request": request,
            "createdAtMs": 1_794_843_666_516_i64, "expiresAtMs": 4_102_444_800_000_i64,
        }));
    }

    /// Ends a request without an answer.
    pub fn end(&mut self, id: &str, status: &str, reason: &str) {
        self.open.retain(|row| row["id"] != id);
        let ended = json!({"id": id, "status": status, "decision": "deny", "reason": reason});
        self.settled.insert(id.to_owned(), ended);
    }

    /// Answers a question about approvals, as far as this client may see them.
    pub(super) fn answer(
        &mut self,
        method: &str,
        params: &Value,
        client: &Value,
        owners: &BTreeMap<String, Value>,
    ) -> Result<Value, Value> {
        let has = |scope: &str| client["scopes"].to_string().contains(scope);
        if !has("operator.approvals") {
            let details = json!({"code": "MISSING_SCOPE"});
            let message = "missing scope: operator.approvals";
            return Err(json!({"code": "FORBIDDEN", "message": message, "details": details}));
        }
        let device = &client["device"]["id"];
        let is_seen = |row: &Value| {
            let key = row["request"]["sessionKey"].as_str().unwrap_or_default();
            let owner = owners.get(key).filter(|owner| owner.is_string());
            has("operator.admin") || owner == Some(device)
        };
        if method == "exec.approval.list" {
            return Ok(self.open.iter().filter(|row| is_seen(row)).cloned().collect());
        }
        let id = params["id"].as_str().unwrap_or_default();
        if let Some(settled) = self.settled.get(id) {
            return Ok(json!({"applied": false, "approval": settled}));
        }
        let Some(at) = self.open.iter().position(|row| row["id"] == id && is_seen(row)) else {
            let details = json!({"code": "APPROVAL_NOT_FOUND"});
            return Err(
                json!({"code": "INVALID_REQUEST", "message": "unknown", "details": details}),
            );
        };
        self.open.remove(at);
        let (status, reason) = match params["decision"].as_str() {
            Some("allow-once" | "allow-always") => ("allowed", "user"),
            Some("deny") => ("denied", "user"),
            _ => ("denied", "malformed-verdict"),
        };
        let settled =
            json!({"id": id, "status": status, "decision": params["decision"], "reason": reason});
        self.settled.insert(id.to_owned(), settled.clone());
        Ok(json!({"applied": true, "approval": settled}))
    }
}
