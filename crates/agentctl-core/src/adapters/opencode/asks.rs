//! The asks of a session: the permission requests and questions that the server of its process lists.
//!
//! A process without a port tells only that it waits; such an ask has no row here.

use serde_json::{Map, Value};

use super::server::{self, Request, RequestKind};
use super::{NAME, OpenCodeStore};
use crate::adapters::{Found, fault};
use crate::model::{
    Ask, AskChannel, AskChoice, AskField, AskKind, AskOption, AskPart, AskScope, FaultCode,
    MAX_RULE_BYTES, Session, ToolCall,
};

/// Reads the open requests of a waiting session from its server.
pub(super) fn read(store: &OpenCodeStore<'_>, session: &Session) -> Found<Ask> {
    let (look, root) = (store.look, store.root);
    let (Some(id), Some(cwd)) = (&session.id, &session.cwd) else { return Found::default() };
    let Some(server) = server::of_session(look, root, session) else { return Found::default() };
    let open = match server::requests(&server, cwd, look.host.deadlines.live / 4) {
        Ok(open) => open,
        Err(error) => {
            let message = format!("its server did not say what it waits for: {error}");
            return Found::fault(fault(NAME, root, FaultCode::Unreachable, message));
        }
    };
    // The requests of a subagent are answered like those of the session that it works for.
    let is_its_own = |request: &&Request| {
        request.session() == id || store.backend().top(request.session()) == *id
    };
    let rows = open.iter().filter(is_its_own).map(|request| {
        let mut ask = describe(session, request);
        let says = format!("request {} is open", request.id());
        ask.evidence.push(look.evidence(format!("{NAME}:port"), says));
        ask
    });
    Found { rows: rows.collect(), ..Found::default() }
}

/// Describes one request.
pub(super) fn describe(session: &Session, request: &Request) -> Ask {
    let mut ask = Ask::of(session);
    ask.via = Some(AskChannel::Server);
    match request.kind {
        RequestKind::Permission => describe_permission(&mut ask, &request.body),
        RequestKind::Question => describe_question(&mut ask, &request.body),
    }
    ask.identify(session, request.id());
    ask
}

fn describe_permission(ask: &mut Ask, body: &Value) {
    let name = body["permission"].as_str().unwrap_or("permission");
    let (command, diff) = (body["metadata"]["command"].as_str(), body["metadata"]["diff"].as_str());
    ask.kind = AskKind::Permission;
    ask.set_tool(ToolCall {
        id: body["tool"]["callID"].as_str().map(str::to_owned),
        name: name.to_owned(),
        input: input(body),
    });
    let patterns = texts(&body["patterns"]);
    ask.set_title(&match command {
        Some(command) => format!("{name}: {command}"),
        None if patterns.is_empty() => name.to_owned(),
        None => format!("{name}: {}", patterns.join(", ")),
    });
    ask.parts = command.map(AskPart::command).into_iter().collect();
    if let Some(diff) = diff {
        let path = body["metadata"]["filepath"].as_str().map(str::to_owned);
        let path = path.unwrap_or_else(|| patterns.join(", "));
        ask.parts.push(AskPart::diff(&path, diff));
    }
    // A command is shown by itself, and so is a change; any other permission is shown in full.
    let is_shown = match name {
        "bash" => command.is_some(),
        "edit" | "write" | "patch" | "apply_patch" => diff.is_some(),
        _ => false,
    };
    if !is_shown && let Some(tool) = &ask.tool {
        ask.parts.push(AskPart::json(&tool.input));
    }
    ask.choices =
        vec![AskChoice::allow(), AskChoice::once("deny", "deny; without words this ends the turn")];
    let always = texts(&body["always"]);
    let rules: Vec<String> = always.iter().map(|rule| format!("{name}: {rule}")).collect();
    let rules = rules.join(", ");
    if !always.is_empty() && rules.len() <= MAX_RULE_BYTES {
        let mut choice = AskChoice::always(1, rules, AskScope::Project);
        choice.label = "always in this directory, until its server ends".into();
        ask.choices.push(choice);
    }
    ask.choices.push(AskChoice::stop());
}

/// Returns the arguments of the request: the details that the server gives, and its patterns.
fn input(body: &Value) -> Value {
    let mut input = match &body["metadata"] {
        Value::Object(details) => details.clone(),
        _ => Map::new(),
    };
    if let Some(patterns) = body.get("patterns") {
        input.entry("patterns").or_insert_with(|| patterns.clone());
    }
    Value::Object(input)
}

fn describe_question(ask: &mut Ask, body: &Value) {
    ask.kind = AskKind::Question;
    let questions = body["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    ask.fields = questions.iter().enumerate().map(|(at, question)| field(at, question)).collect();
    match ask.fields.first() {
        Some(first) => {
            let title = first.text.clone();
            ask.set_title(&title);
            ask.parts = ask.fields.iter().map(|field| AskPart::text(&field.text)).collect();
            ask.choices = vec![AskChoice::stop()];
        }
        // A question in a form that is not known here.
        None => {
            ask.parts = vec![AskPart::json(body)];
            ask.via = None;
            ask.why_not = Some("its question has a form that is not known here; answer it in a client of its server".into());
        }
    }
}

fn field(at: usize, question: &Value) -> AskField {
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    let options = question["options"].as_array().into_iter().flatten().filter_map(|option| {
        Some(AskOption { label: text(&option["label"])?, about: text(&option["description"]) })
    });
    AskField {
        id: (at + 1).to_string(),
        header: text(&question["header"]),
        text: text(&question["question"]).unwrap_or_default(),
        options: options.collect(),
        many: question["multiple"] == true,
        free_text: question["custom"] != false,
        secret: false,
    }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::blank_session;

    fn described(kind: RequestKind, body: Value) -> Ask {
        let mut session = blank_session(NAME, "/home/ada/.local/share/opencode".into());
        session.id = Some("ses_1".into());
        describe(&session, &Request { kind, body })
    }

    fn permission(name: &str, metadata: Value) -> Ask {
        let body = json!({
            "id": "per_1", "sessionID": "ses_1", "permission": name, "patterns": ["touch x"],
            "metadata": metadata, "always": ["touch *"], "tool": {"messageID": "m", "callID": "c"},
        });
        described(RequestKind::Permission, body)
    }

    #[test]
    fn a_command_is_shown_whole_with_the_rule_that_it_would_store() {
        let ask = permission("bash", json!({"command": "touch x; rm y"}));
        assert_eq!(ask.title, "bash: touch x; rm y");
        assert_eq!(ask.parts, [AskPart::command("touch x; rm y")]);
        assert_eq!(ask.native, "per_1");
        let always = ask.choices.iter().find(|choice| choice.key == "always:1").expect("offered");
        assert_eq!(always.rule.as_deref(), Some("bash: touch *"));
    }

    #[test]
    fn the_id_covers_the_command_and_the_request() {
        let ask = permission("bash", json!({"command": "touch x"}));
        assert_eq!(ask.id, permission("bash", json!({"command": "touch x"})).id);
        assert_ne!(ask.id, permission("bash", json!({"command": "touch y"})).id);
    }

    #[test]
    fn a_change_is_shown_as_a_diff_and_an_unknown_permission_in_full() {
        let ask = permission("edit", json!({"filepath": "/w/a", "diff": "-x\n+y\n"}));
        assert_eq!(ask.parts, [AskPart::diff("/w/a", "-x\n+y\n")]);
        let ask = permission("browser", json!({"url": "http://localhost"}));
        let all = json!({"url": "http://localhost", "patterns": ["touch x"]});
        assert_eq!(ask.parts, [AskPart::json(&all)]);
    }

    #[test]
    fn each_question_is_a_field_and_an_unknown_form_cannot_be_answered() {
        let sizes = json!({"question": "Which sizes?", "header": "Size", "multiple": true, "options": [{"label": "S"}]});
        let body = json!({"id": "que_1", "questions": [{"question": "Which colour?", "options": []}, sizes]});
        let ask = described(RequestKind::Question, body);
        let ids: Vec<&str> = ask.fields.iter().map(|field| field.id.as_str()).collect();
        assert_eq!((ids.as_slice(), ask.title.as_str()), (&["1", "2"][..], "Which colour?"));
        assert!(ask.fields[1].many && ask.fields[1].free_text && !ask.offers("allow"));
        let ask = described(RequestKind::Question, json!({"id": "que_1", "text": "?"}));
        assert!(ask.via.is_none() && ask.why_not.is_some(), "{ask:?}");
    }
}
