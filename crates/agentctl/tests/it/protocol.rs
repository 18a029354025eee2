//! The protocol of the daemon's socket: its codes, its methods and the page that describes them.

use agentctl::protocol::Request;
use agentctl_core::fleet::Rows;
use serde_json::{Value, json};
use testkit::sandboxed;

use crate::cli::planted;
use crate::daemon::{Wire, started};
use crate::inbox::ask_of;
use crate::launched::launch;
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

/// Returns a session without the times of the look.
fn comparable(mut session: Value) -> Value {
    for evidence in session["evidence"].as_array_mut().into_iter().flatten() {
        evidence["at"] = Value::Null;
    }
    session
}

#[test]
fn a_question_on_the_socket_has_the_answer_of_its_command() {
    sandboxed(|| {
        let mut home = planted();
        let launched = home.run(&["launch", "demo", "-p", "hello", "--wait", "--group", "g"]);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        // A source that fails is told beside the sessions of the others.
        std::fs::remove_dir_all(home.path().join(".claude/projects")).expect("removed");
        home.write(".claude/projects", "a file in the directory's place");
        started(&home);
        let mut wire = Wire::greeted(&home);
        let status = wire.ask("daemon.status", &json!({}))["result"].clone();
        let mut printed = home.run(&["daemon", "status", "--json"]).json();
        printed["same_world"] = Value::Null;
        assert_eq!(status, printed, "daemon.status");
        home.set("AGENTCTL_NO_DAEMON", "1");
        for (params, command) in [
            (json!({"all": true}), &["list", "-a", "--since", "all", "--json"][..]),
            (json!({"all": true, "group": "g"}), &["list", "-a", "--group", "g", "--json"]),
            (
                json!({"statuses": ["stopped"], "all": true, "adapter": "demo"}),
                &[
                    "list",
                    "--status",
                    "stopped",
                    "--since",
                    "all",
                    "-a",
                    "--adapter",
                    "demo",
                    "--json",
                ],
            ),
        ] {
            let told = wire.ask("session.list", &params)["result"].clone();
            let printed = home.run(command).json();
            let rows = |list: &Value| {
                let rows = list["sessions"].as_array().expect("rows").iter().cloned();
                rows.map(comparable).collect::<Vec<_>>()
            };
            assert!(!rows(&printed).is_empty(), "{command:?}");
            assert_eq!(rows(&told), rows(&printed), "{command:?}");
            assert_eq!(told["faults"], printed["faults"], "{command:?}");
        }
        let told = wire.ask("session.list", &json!({"all": true}))["result"].clone();
        assert_eq!(told["faults"][0]["adapter"], "claude-code", "{told}");
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

#[test]
fn the_asks_on_the_socket_are_those_of_the_command() {
    sandboxed(|| {
        let home = crate::home();
        started(&home);
        let asking = [("v", "x [[permit:true]]"), ("w", "x [[ask:Which?]]")];
        let [first, second] = asking.map(|(cwd, prompt)| launch(&home, cwd, prompt, &[]));
        for id in [&first, &second] {
            ask_of(&home, id);
        }
        let mut wire = Wire::greeted(&home);
        for (params, args, count) in [
            (json!({}), &["asks", "--json"][..], 2),
            (json!({"adapter": "demo"}), &["asks", "--adapter", "demo", "--json"], 2),
            (json!({"adapter": "codex"}), &["asks", "--adapter", "codex", "--json"], 0),
            (json!({"session": first}), &["asks", &first, "--json"], 1),
        ] {
            let asks = |document: &Value| {
                let rows = document["asks"].as_array().expect("asks").iter().cloned();
                rows.map(comparable).collect::<Vec<_>>()
            };
            let told = wire.ask("ask.list", &params)["result"].clone();
            let printed = home.run(args).json();
            assert_eq!(asks(&told), asks(&printed), "{args:?}");
            assert_eq!(asks(&told).len(), count, "{params}");
            assert_eq!(told["faults"], printed["faults"], "{params}");
        }
        for wrong in [json!({"session": "nothing-like-it"}), json!({"sessions": []})] {
            assert_eq!(wire.ask("ask.list", &wrong)["error"]["code"], -32602, "{wrong}");
        }
    });
}
