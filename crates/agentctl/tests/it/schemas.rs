//! The JSON schemas: `docs/schema` is current, and real answers follow the schemas.

use std::collections::BTreeSet;

use agentctl::config::ConfigDocument;
use agentctl::protocol::{DaemonChange, DaemonStatus};
use agentctl::web::Links;
use agentctl_core::ask::{
    AdaptersDocument, AnswerDocument, AsksDocument, CancelledFuseDocument, ChangesDocument,
    CleanDocument, CompareDocument, DiffDocument, DoctorDocument, FuseDocument, FusesDocument,
    GroupLaunchDocument, LaunchPlan, LockDocument, LocksDocument, NamedSession, PruneDocument,
    RunsDocument, SendDocument, StatusDocument, StopDocument, TakeDocument, TurnEndDocument,
    WaitDocument, WhyDocument, WorktreesDocument,
};
use agentctl_core::events::Event;
use agentctl_core::model::{Listing, Message};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::events::Stream;
use crate::inbox::{ask_of, id_of};
use crate::launched::{launch, status};
use crate::source::workspace;
use crate::web::{Web, ask_privately};
use crate::{fixtures_dir, home};

/// Compares a value with a schema and returns the violations. It knows the keywords that our schemas
/// use; an object may have no property that the schema does not describe.
struct Check<'a> {
    root: &'a Value,
    wrong: Vec<String>,
}

/// Returns what of a value does not keep to a schema.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    Check::of(schema, value)
}

impl Check<'_> {
    fn of(root: &Value, value: &Value) -> Vec<String> {
        let mut check = Check { root, wrong: Vec::new() };
        check.value(root, value, "");
        check.wrong
    }

    fn value(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.root.pointer(reference.trim_start_matches('#'));
            let target = target.unwrap_or_else(|| panic!("{reference} is not in the schema"));
            return self.value(&target.clone(), value, at);
        }
        for list in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[list].as_array() {
                let fits = |choice: &Value| {
                    let mut check = Check { root: self.root, wrong: Vec::new() };
                    check.value(&merged(schema, choice), value, at);
                    check.wrong.is_empty()
                };
                if !choices.iter().any(fits) {
                    self.wrong.push(format!("{at}: {value} fits none of {list}"));
                }
                return;
            }
        }
        self.kind(schema, value, at);
        match value {
            Value::Object(object) => self.object(schema, object, at),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(&schema["items"], item, &format!("{at}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn kind(&mut self, schema: &Value, value: &Value, at: &str) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(n) if n.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_kind = |name: &Value| name == kind || (name == "number" && kind == "integer");
        let fits = match &schema["type"] {
            Value::Null => true,
            Value::Array(kinds) => kinds.iter().any(is_kind),
            one => is_kind(one),
        };
        let listed = schema["enum"].as_array().is_none_or(|all| all.contains(value));
        let constant = schema.get("const").is_none_or(|constant| constant == value);
        if !(fits && listed && constant) {
            self.wrong.push(format!("{at}: {value} is not what {schema} describes"));
        }
    }

    fn object(&mut self, schema: &Value, object: &Map<String, Value>, at: &str) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                self.wrong.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, value) in object {
            let at = format!("{at}/{name}");
            let described = schema["properties"].get(name);
            match described.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(true)) => {}
                Some(schema) if !schema.is_boolean() => self.value(&schema.clone(), value, &at),
                // A value of any shape, as the input of a tool is.
                _ if schema.as_bool() == Some(true) || schema.get("type").is_none() => {}
                _ => self.wrong.push(format!("{at} is not described")),
            }
        }
    }
}

/// Returns a choice of `oneOf` merged with the properties beside it.
fn merged(schema: &Value, choice: &Value) -> Value {
    let mut both = choice.clone();
    if let (Some(more), Some(own)) = (schema["properties"].as_object(), both.as_object_mut()) {
        let properties = own.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.extend(more.clone());
        }
    }
    both
}

#[test]
fn the_schemas_in_the_docs_are_those_that_the_program_prints() {
    sandboxed(|| {
        let printed = home().run(&["schema"]).json();
        let printed = printed.as_object().expect("schemas");
        let folder = workspace().join("docs/schema");
        for (name, schema) in printed {
            let path = folder.join(format!("{name}.json"));
            let text = std::fs::read_to_string(&path);
            let text = text.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let kept: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(&kept, schema, "docs/schema/{name}.json is stale: run `just schema`");
        }
        let files = std::fs::read_dir(folder).expect("listed").count();
        assert_eq!(files, printed.len(), "docs/schema holds a schema that is not printed");
    });
}

/// The schemas of answers to a page, which `web_documents.rs::answers_of_the_server_keep_to_their_schemas` checks.
const OF_A_PAGE: [&str; 4] = ["web-pair", "web-server", "web-stream", "web-talk"];

/// Documents of one schema, with its name.
type Answers = Vec<(&'static str, Vec<Value>)>;

/// The documents of every command and of the web server, by the schema that describes them. Each schema that the
/// program prints has a document here.
fn answers(home: &TestHome) -> Answers {
    [answers_of_commands(home), answers_of_live_sessions(home), answers_of_a_web_server(home)]
        .concat()
}

/// The documents about a session that asks and a session that takes messages, and the events of both.
fn answers_of_live_sessions(home: &TestHome) -> Answers {
    let stream = Stream::of(home, &[]);
    let asking = launch(home, "asking", "x [[permit:true]] [[hang]]", &[]);
    let ask = id_of(&ask_of(home, &asking));
    let kept = launch(home, "messages", "x [[say:one]]", &["--keep"]);
    eventually("it rests", || (status(home, &kept)["status"] == "idle").then_some(()));
    let one = |args: &[&str]| vec![home.run(args).json()];
    let mut answers = vec![
        ("asks", one(&["asks", "--json"])),
        ("answer", one(&["answer", &ask, "--allow", "--json"])),
        ("send", one(&["send", &kept, "more [[say:two]]", "--json"])),
        ("name", one(&["name", &kept, "writer", "--json"])),
        ("group", one(&["group", &kept, "morning", "--json"])),
        ("send", one(&["send", &kept, "more [[hang]]", "--json"])),
        ("stop-turn", one(&["stop", "--turn", &kept, "--json"])),
        ("stop", one(&["stop", &asking, "--json"])),
        ("stop", one(&["stop", &kept, "--json"])),
    ];
    stream.last(&asking, "stopped");
    stream.last(&kept, "stopped");
    answers.push(("event", stream.heard()));
    answers
}

/// The documents that only the web server answers with.
fn answers_of_a_web_server(home: &TestHome) -> Answers {
    let web = Web::start(home, &[]);
    let token = web.token();
    vec![
        ("web-begin", vec![web.get(&token, "/api/begin").json()]),
        ("web-link", vec![ask_privately(home, "POST /api/link").json()]),
    ]
}

/// The documents of the commands that need no live session.
fn answers_of_commands(home: &TestHome) -> Answers {
    let all = home.run(&["list", "-a", "--since", "all", "--json"]);
    let ids: Vec<String> =
        all.sessions().iter().filter_map(|s| Some(s["id"].as_str()?.to_owned())).collect();
    std::fs::create_dir_all(home.path().join("kept")).expect("made");
    let _repository = (!home.path().join("repository").exists())
        .then(|| testkit::Repository::new(&home.at("repository")));
    let prompt = "x [[write:one.txt|one]] [[say:done]]";
    let group = ["launch", "demo", "--times", "2", "-p", prompt, "--cwd", "repository", "--wait"];
    let group = home.run(&[&group[..], &["--json"]].concat()).json();
    let name = group["group"].as_str().expect("a group").to_owned();
    let written: Vec<String> = group["slots"]
        .as_array()
        .expect("slots")
        .iter()
        .map(|slot| slot["session"].as_str().expect("a session").to_owned())
        .collect();
    let in_repository = |args: &[&str]| -> Vec<Value> {
        let mut command = home.command(args);
        let output: Output = command.current_dir(home.path().join("repository")).output().into();
        vec![output.json()]
    };
    let one = |args: &[&str]| vec![home.run(args).json()];
    let each = |command: &str| -> Vec<Value> {
        ids.iter().map(|id| home.run(&[command, id, "--json"]).json()).collect()
    };
    let logs: Vec<Value> = ids
        .iter()
        .flat_map(|id| {
            let text = home.run(&["logs", id, "--json"]).stdout;
            text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect::<Vec<Value>>()
        })
        .collect();
    vec![
        ("launch-plan", one(&["launch", "demo", "-p", "x", "--dry-run", "--json"])),
        ("diff", in_repository(&["diff", &name, "--json"])),
        ("diff", in_repository(&["diff", &written[0], "--patch", "--json"])),
        ("compare", in_repository(&["compare", &name, "--verify", "true", "--json"])),
        ("changes", one(&["changes", &written[0], "--json"])),
        ("changes", one(&["changes", &written[0], "--patch", "--json"])),
        ("worktree-list", in_repository(&["worktree", "list", "--json"])),
        (
            "worktree-take",
            in_repository(&["worktree", "take", &written[0], "--with-uncommitted", "--json"]),
        ),
        ("worktree-clean", in_repository(&["worktree", "clean", "--group", &name, "--json"])),
        ("launch-group", vec![group]),
        ("list", vec![all.json()]),
        ("status", each("status")),
        ("why", each("why")),
        ("wait", each("wait")),
        ("stop", each("stop")),
        ("logs", logs),
        ("lock", one(&["lock", "kept", "--by", "me", "--reason", "mine", "--json"])),
        ("locks", one(&["locks", "--json"])),
        ("unlock", one(&["unlock", "kept", "--json"])),
        ("fuse-set", one(&["fuse", "set", "kept", "--ttl", "2h", "--json"])),
        ("fuse-extend", one(&["fuse", "extend", "kept", "--json"])),
        ("fuses", one(&["fuses", "--json"])),
        ("fuse-cancel", one(&["fuse", "cancel", "kept", "--json"])),
        ("daemon-start", one(&["daemon", "start", "--json"])),
        ("doctor", one(&["doctor", "--json"])),
        ("adapters", one(&["adapters", "--json"])),
        ("runs", one(&["runs", "--json"])),
        ("prune", one(&["prune", "-y", "--json"])),
        ("daemon", one(&["daemon", "status", "--json"])),
        ("daemon-stop", one(&["daemon", "stop", "--json"])),
        ("daemon-stop", one(&["daemon", "stop", "--json"])),
        ("daemon", one(&["daemon", "status", "--json"])),
        ("config", one(&["config", "show", "--json"])),
        ("error", one(&["status", "nosuch", "--json"])),
    ]
}

#[test]
fn answers_keep_to_their_schemas() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let schemas = home.run(&["schema"]).json();
        let answers = answers(&home);
        let printed = schemas.as_object().expect("schemas").keys().map(String::as_str);
        let printed: BTreeSet<&str> = printed.collect();
        let mut checked: BTreeSet<&str> = answers.iter().map(|(name, _)| *name).collect();
        checked.extend(OF_A_PAGE);
        assert_eq!(checked, printed, "each schema needs a document in `answers`");
        for (name, documents) in answers {
            assert!(!documents.is_empty(), "no document of {name}");
            for document in documents {
                let wrong = Check::of(&schemas[name], &document);
                assert_eq!(wrong, Vec::<String>::new(), "{name}: {document:#}");
            }
        }
    });
}

/// Reads a document as its type and writes it again.
fn written_again(name: &str, document: &Value) -> Value {
    fn again<T: DeserializeOwned + Serialize>(document: &Value) -> Value {
        let read: T = serde_json::from_value(document.clone()).expect("it can be read");
        serde_json::to_value(read).expect("it can be written")
    }
    match name {
        "launch-plan" => again::<LaunchPlan>(document),
        "launch-group" => again::<GroupLaunchDocument>(document),
        "diff" => again::<DiffDocument>(document),
        "compare" => again::<CompareDocument>(document),
        "changes" => again::<ChangesDocument>(document),
        "worktree-list" => again::<WorktreesDocument>(document),
        "worktree-take" => again::<TakeDocument>(document),
        "worktree-clean" => again::<CleanDocument>(document),
        "list" => again::<Listing>(document),
        "status" => again::<StatusDocument>(document),
        "why" => again::<WhyDocument>(document),
        "wait" => again::<WaitDocument>(document),
        "stop" => again::<StopDocument>(document),
        "stop-turn" => again::<TurnEndDocument>(document),
        "logs" => again::<Message>(document),
        "asks" => again::<AsksDocument>(document),
        "answer" => again::<AnswerDocument>(document),
        "send" => again::<SendDocument>(document),
        "name" | "group" => again::<NamedSession>(document),
        "event" => again::<Event>(document),
        "web-link" => again::<Links>(document),
        "lock" | "unlock" => again::<LockDocument>(document),
        "fuse-set" | "fuse-extend" => again::<FuseDocument>(document),
        "fuse-cancel" => again::<CancelledFuseDocument>(document),
        "daemon-start" | "daemon-stop" => again::<DaemonChange>(document),
        "locks" => again::<LocksDocument>(document),
        "fuses" => again::<FusesDocument>(document),
        "doctor" => again::<DoctorDocument>(document),
        "adapters" => again::<AdaptersDocument>(document),
        "runs" => again::<RunsDocument>(document),
        "prune" => again::<PruneDocument>(document),
        "daemon" => again::<DaemonStatus>(document),
        "config" => again::<ConfigDocument>(document),
        // These are only printed.
        "error" | "web-begin" => document.clone(),
        other => panic!("no type is named for {other}"),
    }
}

#[test]
fn every_document_can_be_read_and_written_again() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let launched = home.run(&["launch", "demo", "-p", "hello", "--wait"]);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let fuse = home.command(&["fuse", "set", "--ttl", "1h"]);
        let fuse = { fuse }.env("AGENTCTL_NO_DAEMON", "1").output().expect("runs");
        assert!(fuse.status.success(), "{fuse:?}");
        for (name, documents) in answers(&home) {
            for document in documents {
                assert_eq!(written_again(name, &document), document, "{name}");
            }
        }
    });
}

#[test]
fn a_document_that_does_not_fit_its_schema_is_found() {
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}},
    });
    assert_eq!(Check::of(&schema, &json!({"a": "x", "b": [1]})), Vec::<String>::new());
    let bad =
        [json!({}), json!({"a": "y"}), json!({"a": "x", "b": ["1"]}), json!({"a": "x", "c": 1})];
    for document in bad {
        assert_eq!(Check::of(&schema, &document).len(), 1, "{document}");
    }
}
