//! Refusals of the MCP server: each reaches its client, and names only what a client has.

use serde_json::{Value, json};
use testkit::{eventually, sandboxed};

use crate::launched::{folder, launch, until_stopped};
use crate::mcp_client::{Mcp, tool_call};
use crate::{configure, home};

#[test]
fn hints_name_tools_and_arguments_that_exist() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[answers]\nagents = \"others\"\n");
        let id = launch(&home, "shop", "x [[ask:Which colour?|Red|Blue]] [[hang]]", &[]);
        let mut server = Mcp::start(&home, &["--allow-control"]);
        let shop = folder(&home, "shop");
        let held = server.error("launch", json!({"adapter": "demo", "prompt": "x", "cwd": shop}));
        assert_eq!(held["code"], "refused", "{held}");
        assert_eq!(held["hint"], "name another directory with `cwd`, or set `worktree`", "{held}");
        let option = json!({"adapter": "demo", "prompt": "x", "cwd": shop, "model": "--help"});
        assert_eq!(server.error("launch", option)["hint"], "name a model");
        let absent = server.error("launch", json!({"prompt": "x", "cwd": folder(&home, "none")}));
        assert_eq!(absent["hint"], "`adapter` = `demo` needs none", "{absent}");
        let nameless = server.error("get_session", json!({"id": ""}));
        assert_eq!(nameless["hint"], "`list_sessions` shows the ids", "{nameless}");
        let ask = eventually("an ask", || {
            let asks = server.document("list_asks", json!({"session": id}));
            asks["asks"][0]["id"].as_str().map(str::to_owned)
        });
        let wrong = server.error("answer", json!({"ask": ask, "reply": "allow"}));
        assert_eq!(wrong["hint"], "`list_asks` shows its `choices` and `fields`", "{wrong}");
        // The hint names the tool `answer` if it is offered.
        let waiting = server.error("send", json!({"id": id, "text": "more"}));
        assert_eq!(waiting["code"], "waiting", "{waiting}");
        assert_eq!(waiting["hint"], "`list_asks` shows it; `answer` answers it", "{waiting}");
        configure(&home, &[], "");
        let mut server = Mcp::start(&home, &["--allow-control"]);
        let waiting = server.error("send", json!({"id": id, "text": "more"}));
        assert_eq!(waiting["hint"], "`list_asks` shows it; a person answers it", "{waiting}");
        let order = json!({"adapter": "codex", "prompt": "x", "cwd": folder(&home, "other")});
        let missing = server.error("launch", order);
        let hint = "install Codex, or try `adapter` = `demo`";
        assert_eq!(missing["hint"], hint, "{missing}");
    });
}

/// A typing error in a group is no empty list, and an empty list says that ended sessions are not in it.
#[test]
fn a_group_that_does_not_exist_is_named() {
    sandboxed(|| {
        let home = home();
        let _inside = launch(&home, "shop/inside", "x [[hang]]", &["--group", "login"]);
        let outside = launch(&home, "outside", "x", &["--group", "secret"]);
        until_stopped(&home, &outside);
        let mut server = Mcp::start(&home, &[]);
        let unknown = server.error("list_sessions", json!({"group": "logn"}));
        assert_eq!(unknown["code"], "session_not_found", "{unknown}");
        assert_eq!(unknown["message"], "there is no group `logn`", "{unknown}");
        assert_eq!(unknown["hint"], "groups: login, secret", "{unknown}");
        let ended = server.document("list_sessions", json!({"group": "secret"}));
        let hint = "only live sessions were looked at; `all` adds those that have ended";
        assert_eq!((&ended["total"], &ended["hint"]), (&json!(0), &json!(hint)), "{ended}");
        let all = server.document("list_sessions", json!({"group": "secret", "all": true}));
        assert_eq!((&all["total"], &all["hint"]), (&json!(1), &Value::Null), "{all}");
        let none = json!({"group": "login", "status": ["idle"]});
        assert_eq!(server.document("list_sessions", none)["hint"], Value::Null);
        // A group outside of the scope is as unknown as one that does not exist.
        let shop = folder(&home, "shop");
        let mut narrow = Mcp::start(&home, &["--scope", &shop]);
        assert_eq!(narrow.document("list_sessions", json!({"group": "login"}))["total"], 1);
        for group in ["secret", "logn"] {
            let unknown = narrow.error("list_sessions", json!({"group": group}));
            assert_eq!(unknown["message"], format!("there is no group `{group}`"));
            assert_eq!(unknown["hint"], "groups: login", "{unknown}");
        }
    });
}

/// A typing error in a directory is no empty list, and `~/` is the home as in a shell.
#[test]
fn a_directory_that_does_not_exist_is_named() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "shop", "x [[hang]]", &[]);
        let mut server = Mcp::start(&home, &["--allow-control"]);
        let shown = server.document("list_sessions", json!({"cwd": "~/shop"}));
        assert_eq!(shown["sessions"][0]["id"], json!(id), "{shown}");
        let absent = server.error("list_sessions", json!({"cwd": "~/shpo"}));
        assert_eq!(absent["code"], "usage", "{absent}");
        let path = home.path().join("shpo").display().to_string();
        assert_eq!(absent["message"], format!("`cwd`: there is no directory {path}"));
        let empty = server.document("list_sessions", json!({"cwd": "~"}));
        assert_eq!(empty["total"], 0, "{empty}");
        folder(&home, "other");
        let order = json!({"adapter": "demo", "prompt": "x", "cwd": "~/other"});
        let launched = server.document("launch", order);
        let other = home.path().join("other").display().to_string();
        assert_eq!(launched["session"]["cwd"], json!(other), "{launched}");
        let busy = server.error("send", json!({"id": id, "text": "more"}));
        let hint = "`wait_for` waits until it has ended, then `send` resumes it; `launch` with `keep` starts one that stays";
        assert_eq!(busy["hint"], hint, "{busy}");
        // A directory that is gone keeps its sessions.
        let gone = home.path().join("gone");
        let last = launch(&home, "gone", "x", &[]);
        until_stopped(&home, &last);
        std::fs::remove_dir_all(&gone).expect("removed");
        let shown = server.document("list_sessions", json!({"cwd": "~/gone", "all": true}));
        assert_eq!(shown["sessions"][0]["id"], json!(last), "{shown}");
        // Whether a directory outside of the scope exists is not said.
        let mut narrow = Mcp::start(&home, &["--scope", &other]);
        for cwd in ["~/shpo", "~/shop"] {
            assert_eq!(narrow.document("list_sessions", json!({"cwd": cwd}))["total"], 0);
        }
    });
}

#[test]
fn an_answer_with_a_field_that_is_unknown_is_refused() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[answers]\nagents = \"others\"\n");
        let mut server = Mcp::start(&home, &["--allow-control"]);
        for (id, reply) in [
            (10, json!({"deny": {"message": "x", "y": 1}})),
            (11, json!({"fields": [{"field": "q", "values": ["Red"], "y": 1}]})),
        ] {
            server.send(&tool_call(
                id,
                "answer",
                json!({"ask": "0123456789abcdef", "reply": reply}),
            ));
            let answer = server.message();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32602)));
            assert!(answer["error"]["message"].to_string().contains("`y`"), "{answer}");
        }
        for reply in [json!({"deny": {"message": "x"}}), json!({"deny": {}})] {
            let known = server.error("answer", json!({"ask": "0123456789abcdef", "reply": reply}));
            assert_eq!(known["code"], "ask_not_found", "{known}");
        }
    });
}

#[test]
fn a_request_that_cannot_be_parsed_is_answered_if_its_id_can_be_read() {
    sandboxed(|| {
        let home = home();
        let mut server = Mcp::start(&home, &[]);
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let bad: [&[u8]; 4] = [br#""\ud83d""#, deep.as_bytes(), b"1e999", b"\"\xff\""];
        for (id, bad) in (100..).zip(bad) {
            let begin = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"#;
            server.write(&[begin, bad, format!("}},\"id\":{id}}}\n").as_bytes()].concat());
            server.write(b"rubbish \xff\n{\"params\":{\"id\":7},}\n");
            let answer: Value = server.message();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32600)));
        }
        assert_eq!(server.document("list_sessions", json!({}))["sessions"], json!([]));
        assert_eq!(server.end(), (Vec::new(), Some(0)));
    });
}
