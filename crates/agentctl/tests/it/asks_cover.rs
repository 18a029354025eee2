//! Every kind of waiting of every agent has an ask, and no other session has one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{TestHome, eventually_or, sandboxed};

use crate::claude_code::{A, Claude, prompt, tool_use};
use crate::{
    assert_list_equals_status, codex, home, launched, openclaw_approvals, opencode_hosted, pi_kept,
};

/// The kinds of waiting that each agent has.
const KINDS: [(&str, &[&str]); 6] = [
    ("claude-code", &["dialog", "login", "permission", "plan", "question", "trust"]),
    ("codex", &["permission", "question"]),
    ("demo", &["permission", "question"]),
    ("openclaw", &["permission"]),
    ("opencode", &["permission", "question"]),
    ("pi", &["dialog"]),
];

/// The kinds of waiting that were seen, with their agents.
#[derive(Default)]
struct SeenKinds(BTreeSet<(String, String)>);

impl SeenKinds {
    /// Waits until this many sessions of a home wait, compares `list` with `asks`, and counts their kinds.
    fn count(&mut self, home: &TestHome, waiting: usize) {
        let listed = || home.run(&["list", "-a", "--json"]).stdout;
        let rows = eventually_or("the sessions wait", listed, || {
            let mut rows = home.run(&["list", "--json"]).sessions();
            rows.retain(|row| row["status"] == "waiting");
            (rows.len() == waiting).then_some(rows)
        });
        assert_list_equals_status(home);
        let document = home.run(&["asks", "--json"]).json();
        for row in rows {
            let asks = document["asks"].as_array().expect("asks").iter();
            let ask =
                asks.clone().find(|ask| ask["pid"] == row["pid"] && ask["session_id"] == row["id"]);
            let kind = |row: &Value| row["kind"].as_str().expect("a kind").to_owned();
            let agent = row["adapter"].as_str().expect("an agent").to_owned();
            assert_eq!(kind(ask.expect("an ask")), kind(&row["reason"]), "{agent}: {document}");
            self.0.insert((agent, kind(&row["reason"])));
        }
    }
}

fn claude_code(seen: &mut SeenKinds) {
    let question = json!({"questions": [{"question": "Which one?"}]});
    for (waiting_for, tool, input) in [
        ("permission prompt", "Bash", json!({"command": "make"})),
        ("input needed", "AskUserQuestion", question),
        ("permission prompt", "ExitPlanMode", json!({"plan": "do it all"})),
        ("dialog open", "Bash", json!({"command": "make"})),
    ] {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), tool_use("t1", tool, &input)]);
        let _agent = claude.live(A, &json!({"status": "waiting", "waitingFor": waiting_for}));
        seen.count(&claude.home, 1);
    }
    for has_login in [false, true] {
        let claude = Claude::new();
        let key = claude.home.at(".claude/sessions/{pid}.abc.key").to_string_lossy().into_owned();
        let settings = json!({"hasCompletedOnboarding": has_login, "projects": {}});
        claude.home.write(".claude.json", settings.to_string());
        let mut agent = claude.home.agent("claude", "ws", &["write", &key, "{}"]);
        agent.ready();
        seen.count(&claude.home, 1);
    }
}

fn codex(seen: &mut SeenKinds) {
    let home = home();
    let command = codex::call("exec_command", &json!({"cmd": "make"}));
    let question = json!({"questions": [{"question": "Which?"}]});
    let question = codex::call("request_user_input", &question);
    for (id, call) in [(codex::A, command), (codex::B, question)] {
        codex::rollout(&home, id, &[codex::started(), codex::asked("x"), call]);
    }
    let socket = home.at("run/s.sock");
    let active = |flag: &str| json!({"type": "active", "activeFlags": [flag]});
    let statuses =
        json!({codex::A: active("waitingOnApproval"), codex::B: active("waitingOnUserInput")});
    codex::serve_below(socket.clone(), "/srv".into(), statuses);
    let _agent = codex::server(&home, &[codex::A, codex::B], &socket);
    seen.count(&home, 2);
}

fn opencode(seen: &mut SeenKinds) {
    let (home, _store, _agent) = opencode_hosted::waiting();
    seen.count(&home, 2);
}

#[test]
fn every_kind_of_waiting_of_every_agent_has_an_ask() {
    sandboxed(|| {
        let mut seen = SeenKinds::default();
        claude_code(&mut seen);
        codex(&mut seen);
        let demo = home();
        launched::launch(&demo, "a", "x [[permit:true]]", &[]);
        launched::launch(&demo, "b", "x [[ask:Which?]]", &[]);
        seen.count(&demo, 2);
        opencode(&mut seen);
        let openclaw = openclaw_approvals::Asking::for_decisions(&["allow-once", "deny"]);
        seen.count(&openclaw.home, 1);
        let pi = home();
        pi_kept::pi(&pi, "1.5.0");
        pi_kept::kept(&pi, "first [[ask]]");
        seen.count(&pi, 1);
        let all = KINDS.iter().flat_map(|(agent, kinds)| {
            kinds.iter().map(|kind| ((*agent).to_owned(), (*kind).to_owned()))
        });
        assert_eq!(seen.0, all.collect());
    });
}
