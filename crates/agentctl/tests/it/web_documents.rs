//! The documents of `/api/*`: they equal those of the command line, and keep to their schemas.

use serde_json::{Value, json};
use testkit::{TestHome, sandboxed};

use crate::inbox::ask_of;
use crate::launched::launch;
use crate::schemas::violations;
use crate::web::{Web, ask_privately};
use crate::web_orders::Page;
use crate::{comparable, home};

/// Returns a document without what differs between two looks.
fn timeless(mut document: Value) -> Value {
    for name in ["sessions", "asks"] {
        for row in document[name].as_array_mut().into_iter().flatten() {
            *row = comparable(row);
        }
    }
    for evidence in document["evidence"].as_array_mut().into_iter().flatten() {
        evidence["at"] = Value::Null;
    }
    if document.get("duration_seconds").is_some() {
        document["duration_seconds"] = Value::Null;
    }
    document
}

#[test]
fn documents_equal_those_of_the_command_line() {
    sandboxed(|| {
        let home = home();
        let asking = launch(&home, "w", "x [[write:a.txt|one]] [[permit:touch x]]", &[]);
        ask_of(&home, &asking);
        let ended = launch(&home, "v", "x [[say:done]]", &[]);
        crate::launched::until_stopped(&home, &ended);
        let web = Web::start(&home, &[]);
        let token = web.token();
        let id = format!("demo:{asking}");
        for (path, args) in [
            ("/api/sessions".to_owned(), vec!["list"]),
            ("/api/sessions?all=true".to_owned(), vec!["list", "-a"]),
            ("/api/sessions?since=all".to_owned(), vec!["list", "--since", "all"]),
            ("/api/asks".to_owned(), vec!["asks"]),
            (format!("/api/session?id={id}"), vec!["status", &id]),
            (format!("/api/why?id={id}"), vec!["why", &id]),
            (format!("/api/changes?id={id}"), vec!["changes", &id]),
            (format!("/api/changes?id={id}&patch=true"), vec!["changes", &id, "--patch"]),
            (format!("/api/diff?id={id}"), vec!["diff", &id]),
            ("/api/session?id=none-such".to_owned(), vec!["status", "none-such"]),
        ] {
            let mut args = args;
            args.push("--json");
            let printed = home.run(&args);
            let answer = web.get(&token, &path);
            assert_eq!(timeless(answer.json()), timeless(printed.json()), "{path}");
            let code = match printed.code {
                Some(0) => 200,
                Some(4) => 404,
                Some(5) => 409,
                code => panic!("{args:?}: {code:?} {}", printed.stderr),
            };
            assert_eq!(answer.code, code, "{path}: {}", answer.body);
        }
        let begin = web.get(&token, "/api/begin").json();
        let demo = begin["adapters"].as_array().expect("adapters").iter();
        let demo = demo.into_iter().find(|row| row["name"] == "demo").expect("the demo");
        assert_eq!((&demo["can_launch"], &begin["control"]), (&json!(true), &json!(false)));
        assert!(begin["directories"].as_array().expect("some").len() >= 2, "{begin}");
        assert_eq!(web.get(&token, "/api/session").code, 400, "no id");
        assert_eq!(web.get(&token, "/api/sessions?since=x").code, 400);
        assert_eq!(web.get(&token, "/api/nothing").code, 404);
        assert_eq!(web.get("", "/nothing").code, 404, "without a token, too");
    });
}

#[test]
fn a_base_that_names_no_commit_is_named_as_in_the_address() {
    sandboxed(|| {
        let home = home();
        let cwd = crate::launched::folder(&home, "w");
        let git = std::process::Command::new("git").args(["init", "-q", &cwd]).status();
        assert!(git.expect("git").success());
        let id = launch(&home, "w", "x", &[]);
        let web = Web::start(&home, &[]);
        let answer = web.get(&web.token(), &format!("/api/diff?id={id}&base=nope"));
        assert_eq!(answer.code, 400, "{}", answer.body);
        assert_eq!(answer.json()["error"]["message"], "`base`: `nope` names no commit");
        let printed = home.run(&["diff", &id, "--base", "nope"]);
        assert!(printed.stderr.contains("--base: `nope` names no commit"), "{}", printed.stderr);
    });
}

#[test]
fn a_conversation_is_read_in_pages() {
    sandboxed(|| {
        let home = home();
        let says: Vec<String> = (0..30).map(|n| format!(" [[say:part {n}.]]")).collect();
        let id = launch(&home, "w", &format!("go{}", says.concat()), &[]);
        crate::launched::until_stopped(&home, &id);
        let web = Web::start(&home, &[]);
        let token = web.token();
        let mut texts = Vec::new();
        let mut before = String::new();
        loop {
            let page = web.get(&token, &format!("/api/talk?id=demo:{id}&n=7{before}")).json();
            let lines = page["lines"].as_array().expect("lines").iter();
            let text = lines.flat_map(|line| line["spans"].as_array().expect("spans"));
            let text: Vec<String> =
                text.map(|span| span["text"].as_str().expect("text").to_owned()).collect();
            texts.insert(0, text.concat());
            match page["before"].as_str() {
                Some(place) => before = format!("&before={place}"),
                None => break assert_eq!(page["earlier"], 0),
            }
            assert!(page["earlier"].as_u64() > Some(0), "{page}");
        }
        assert!(texts.len() > 3, "{} pages", texts.len());
        let whole = texts.concat();
        for n in 0..30 {
            assert_eq!(whole.matches(&format!("  part {n}.")).count(), 1, "{n}: {whole}");
        }
    });
}

/// Checks an answer against the schema that `agentctl schema NAME` prints.
fn keeps_to(home: &TestHome, schema: &str, answer: &Value) {
    let printed = home.run(&["schema", schema]);
    let wrong = violations(&printed.json(), answer);
    assert!(wrong.is_empty(), "{schema}: {wrong:?}\n{answer}");
}

#[test]
fn answers_of_the_server_keep_to_their_schemas() {
    sandboxed(|| {
        let home = home();
        let id =
            launch(&home, "w", "x [[say:**one** `two`]] [[tool:echo one]] [[permit:true]]", &[]);
        ask_of(&home, &id);
        let web = Web::start(&home, &[]);
        let paired = web.pair(&web.code).json();
        keeps_to(&home, "web-pair", &paired);
        let token = paired["token"].as_str().expect("a token");
        keeps_to(&home, "web-begin", &web.get(token, "/api/begin").json());
        let talk = web.get(token, &format!("/api/talk?id=demo:{id}&n=2")).json();
        assert!(talk["lines"].as_array().is_some_and(|lines| !lines.is_empty()), "{talk}");
        keeps_to(&home, "web-talk", &talk);
        keeps_to(&home, "web-server", &ask_privately(&home, "GET /api/server").json());
        keeps_to(&home, "web-link", &ask_privately(&home, "POST /api/link").json());
        keeps_to(&home, "error", &web.get("", "/api/asks").json());
        let mut page = Page::open(&web, token, &format!("?talk=demo:{id}"));
        let mut wanted = vec!["hello", "look", "said"];
        while !wanted.is_empty() {
            let (name, data) = page.next();
            wanted.retain(|other| *other != name);
            keeps_to(&home, "web-stream", &json!({"event": name, "data": data}));
        }
    });
}
