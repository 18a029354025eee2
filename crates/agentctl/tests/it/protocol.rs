//! The protocol of the daemon's socket: its codes, its methods and the page that describes them.

use agentctl::protocol::Request;
use agentctl_core::fleet::Rows;
use serde_json::{Value, json};
use testkit::sandboxed;

use crate::cli::planted;
use crate::daemon::{Wire, started};
use crate::source::workspace;

#[test]
fn the_page_lists_every_method() {
    let page = std::fs::read_to_string(workspace().join("docs/PROTOCOL.md")).expect("there");
    let section = page.split("\n## Methods\n").nth(1).expect("the section");
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let listed: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(listed, Request::METHODS, "docs/PROTOCOL.md and the enum differ");
}

/// Returns a document without the times of the look, and of `doctor` only the checks and their states.
fn comparable(mut document: Value) -> Value {
    for evidence in document["evidence"].as_array_mut().into_iter().flatten() {
        evidence["at"] = Value::Null;
    }
    for check in document["checks"].as_array_mut().into_iter().flatten() {
        check["detail"] = Value::Null;
    }
    document
}

#[test]
fn a_question_on_the_socket_has_the_answer_of_its_command() {
    sandboxed(|| {
        let home = planted();
        std::fs::create_dir_all(home.path().join("kept")).expect("made");
        let locked = home.run(&["lock", "kept", "--by", "me"]);
        assert_eq!(locked.code, Some(0), "{locked:?}");
        let launched = home.run(&["launch", "demo", "-p", "hello", "--wait"]);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let fuse = home.run(&["fuse", "set", "kept", "--ttl", "1h"]);
        assert_eq!(fuse.code, Some(0), "{fuse:?}");
        let id = "45454545";
        let mut wire = Wire::greeted(&home);
        let logs = home.run(&["logs", id, "-n", "3", "--json"]).stdout;
        let lines = logs.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let printed: Vec<Value> = lines.collect();
        assert_eq!(printed.len(), 3, "{logs}");
        let told = wire.ask("session.logs", &json!({"id": id, "count": 3}));
        assert_eq!(told["result"]["messages"], json!(printed), "session.logs");
        for (method, params, command) in [
            ("session.why", json!({"id": id}), &["why", id, "--json"][..]),
            ("lock.list", json!({}), &["locks", "--json"]),
            ("fuse.list", json!({}), &["fuses", "--json"]),
            ("run.list", json!({}), &["runs", "--json"]),
            ("adapter.list", json!({}), &["adapters", "--json"]),
            ("machine.doctor", json!({}), &["doctor", "--json"]),
        ] {
            let told = wire.ask(method, &params);
            let printed = home.run(command).json();
            assert!(printed.get("error").is_none(), "{method}: {printed}");
            assert_eq!(comparable(told["result"].clone()), comparable(printed), "{method}");
        }
    });
}

#[test]
fn no_match_and_several_matches_have_different_codes() {
    sandboxed(|| {
        let home = planted();
        started(&home);
        let mut wire = Wire::greeted(&home);
        let none = wire.ask("session.status", &json!({"id": "nosuchsession"}));
        assert_eq!(none["error"]["code"], -32004, "{none}");
        let several = wire.ask("session.status", &json!({"id": "01a1de2c"}));
        assert_eq!(several["error"]["code"], -32005, "{several}");
        assert_eq!(several["error"]["message"], "`01a1de2c` fits 7 sessions");
    });
}

#[test]
fn a_session_behind_a_failed_source_is_null_beside_the_fault() {
    sandboxed(|| {
        let home = planted();
        std::fs::remove_dir_all(home.path().join(".claude/projects")).expect("removed");
        home.write(".claude/projects", "a file in the directory's place");
        started(&home);
        let mut wire = Wire::greeted(&home);
        let hidden = wire.ask("session.status", &json!({"id": "45454545"}));
        assert!(hidden["result"]["session"].is_null(), "{hidden}");
        assert_eq!(hidden["result"]["faults"][0]["adapter"], "claude-code", "{hidden}");
    });
}

/// The encoding that `hello` asks for changes the answer to `session.list`, and nothing else.
#[test]
fn a_packed_list_is_the_list() {
    sandboxed(|| {
        let home = planted();
        started(&home);
        let query = json!({"all": true, "children": true});
        let document = Wire::greeted(&home).ask("session.list", &query)["result"].clone();
        assert_eq!(document["sessions"].as_array().map(Vec::len), Some(72), "with subagents");
        let mut wire = Wire::open(&home);
        let welcome = wire.ask("hello", &json!({"protocol": 1, "encoding": "postcard"}));
        assert_eq!(welcome["result"]["encoding"], "postcard");
        for _ in 0..2 {
            let head = wire.ask("session.list", &query)["result"].clone();
            assert_eq!(head, json!({"faults": document["faults"], "frames": 1}));
            let mut rows = Rows::of(&[]);
            rows.add_encoded(&wire.frame(), usize::MAX).expect("rows");
            let packed = serde_json::to_value(rows.into_listing().sessions).expect("JSON");
            let packed = packed.as_array().expect("rows").iter().cloned().map(comparable);
            let listed = document["sessions"].as_array().expect("rows").iter().cloned();
            assert!(packed.eq(listed.map(comparable)), "the same sessions");
            assert_eq!(wire.ask("daemon.status", &json!({}))["result"]["running"], true);
        }
        let plain = Wire::open(&home).ask("hello", &json!({"protocol": 1}));
        assert_eq!(plain["result"]["encoding"], "json", "unless it is asked for");
        let unknown = json!({"protocol": 1, "encoding": "xml"});
        assert_eq!(Wire::open(&home).ask("hello", &unknown)["error"]["code"], -32602);
    });
}
