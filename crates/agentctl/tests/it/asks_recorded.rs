//! Every recorded home with fake live processes on its sessions, of which a half waits: exactly those have asks.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually_or, sandboxed};

use crate::fixtures::{agents_with_homes, cases, planted};
use crate::{assert_list_equals_status, claude_code, codex, launched, opencode_hosted, pi_kept};

/// The state that a fake live process reports for a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Permission,
    Question,
    Busy,
    Idle,
}

/// Gives each recorded session a state, in turn. The first session of each home waits.
fn said(ids: &[String]) -> Vec<(&str, Says)> {
    let order = [Says::Permission, Says::Busy, Says::Question, Says::Idle];
    ids.iter().map(String::as_str).zip(order.into_iter().cycle()).collect()
}

/// Starts a Claude Code for each session.
fn claude_code_on(home: &TestHome, sessions: &[(&str, Says)]) -> Vec<Agent> {
    let path = home.at(".claude/sessions/{pid}.json").to_string_lossy().into_owned();
    let cwd = home.path().join("ws").to_string_lossy().into_owned();
    let live = |(id, says): &(&str, Says)| {
        let more = match says {
            Says::Permission => json!({"status": "waiting", "waitingFor": "permission prompt"}),
            Says::Question => json!({"status": "waiting", "waitingFor": "input needed"}),
            Says::Busy => json!({"status": "busy"}),
            Says::Idle => json!({"status": "idle"}),
        };
        let record = claude_code::record(id, &cwd, &more);
        let mut agent = home.agent("claude", "ws", &["write", &path, &record]);
        agent.ready();
        agent
    };
    sessions.iter().map(live).collect()
}

/// Starts a server of Codex that holds all sessions.
fn codex_on(home: &TestHome, sessions: &[(&str, Says)]) -> Vec<Agent> {
    let status = |says: Says| match says {
        Says::Permission => json!({"type": "active", "activeFlags": ["waitingOnApproval"]}),
        Says::Question => json!({"type": "active", "activeFlags": ["waitingOnUserInput"]}),
        Says::Busy => json!({"type": "active", "activeFlags": []}),
        Says::Idle => json!({"type": "idle"}),
    };
    let statuses: Value =
        sessions.iter().map(|(id, says)| ((*id).to_owned(), status(*says))).collect();
    let socket = home.at("run/s.sock");
    codex::serve_below(socket.clone(), "/srv".into(), statuses);
    let ids: Vec<&str> = sessions.iter().map(|(id, _)| *id).collect();
    vec![codex::server(home, &ids, &socket)]
}

/// Starts a server of OpenCode that works on all sessions.
fn opencode_on(home: &TestHome, sessions: &[(&str, Says)]) -> Vec<Agent> {
    let ids: Vec<&str> = sessions.iter().map(|(id, _)| *id).collect();
    let server = opencode_hosted::server(home, &ids);
    let of = |wanted: Says| sessions.iter().filter(move |(_, says)| *says == wanted);
    let permission = |(id, _): &(&str, Says)| json!({"id": format!("per_{id}"), "sessionID": id, "permission": "bash", "patterns": ["make"]});
    let question = |(id, _): &(&str, Says)| json!({"id": format!("que_{id}"), "sessionID": id, "questions": [{"question": "Which?"}]});
    let busy = sessions.iter().filter(|(_, says)| *says != Says::Idle);
    let busy: Value = busy.map(|(id, _)| ((*id).to_owned(), json!({"type": "busy"}))).collect();
    let says = |route: &str, answer: Value| opencode_hosted::says(home, route, &answer);
    says("session.status", busy);
    says("permission", of(Says::Permission).map(permission).collect());
    says("question", of(Says::Question).map(question).collect());
    vec![server]
}

/// Starts the fake live processes of an agent in its recorded home; returns the sessions that wait.
fn populated(
    agent: &str,
    home: &TestHome,
    sessions: &[(&str, Says)],
) -> (BTreeSet<String>, Vec<Agent>) {
    let waits = |(_, says): &&(&str, Says)| matches!(says, Says::Permission | Says::Question);
    let waiting = sessions.iter().filter(waits).map(|(id, _)| (*id).to_owned()).collect();
    let none = BTreeSet::new();
    match agent {
        "claude-code" => (waiting, claude_code_on(home, sessions)),
        "codex" => (waiting, codex_on(home, sessions)),
        // A session of OpenCode before 1.2 is only found in the process that has its log open.
        "opencode" if !home.path().join(".local/share/opencode/opencode.db").exists() => {
            (none, opencode_on(home, sessions))
        }
        "opencode" => (waiting, opencode_on(home, sessions)),
        // Only its kept sessions wait, for an extension.
        "pi" => {
            pi_kept::pi(home, "1.5.0");
            (BTreeSet::from([pi_kept::kept(home, "first [[ask]]")]), Vec::new())
        }
        "demo" => {
            let launch = |name: &str, prompt: &str| launched::launch(home, name, prompt, &[]);
            let waiting = [launch("a", "x [[permit:true]]"), launch("b", "x [[ask:Which?]]")];
            launch("c", "x [[hang]]");
            (BTreeSet::from(waiting), Vec::new())
        }
        // Nothing is known of what it asks.
        "pi-rust" => (none, Vec::new()),
        other => panic!("{other} has recorded homes and no fake live processes here"),
    }
}

#[test]
fn in_every_recorded_home_exactly_what_waits_has_asks() {
    sandboxed(|| {
        let mut seen = BTreeSet::new();
        for agent in agents_with_homes() {
            for case in cases(agent) {
                let home = planted(agent, &case);
                let all = home.run(&["list", "-a", "--since", "all", "--json"]).sessions();
                let own = all.iter().filter(|row| row["parent"].is_null());
                let ids: Vec<String> =
                    own.filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
                let sessions = said(&ids);
                let (expected, _agents) = populated(agent, &home, &sessions);
                let listed = || home.run(&["list", "--json"]).stdout;
                let rows =
                    eventually_or(&format!("{agent} {case}: {expected:?} wait"), listed, || {
                        let mut rows = home.run(&["list", "--json"]).sessions();
                        rows.retain(|row| row["status"] == "waiting");
                        let ids = rows.iter().filter_map(|row| row["id"].as_str());
                        (ids.map(str::to_owned).collect::<BTreeSet<_>>() == expected)
                            .then_some(rows)
                    });
                assert_list_equals_status(&home);
                let kinds = rows.iter().map(|row| row["reason"]["kind"].as_str().expect("a kind"));
                seen.extend(kinds.map(|kind| format!("{agent} {kind}")));
            }
        }
        let wanted = [
            "claude-code permission",
            "claude-code question",
            "codex permission",
            "codex question",
            "demo permission",
            "demo question",
            "opencode permission",
            "opencode question",
            "pi dialog",
        ];
        assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    });
}
