//! `events` of every agent: what its own files and its own server tell, as edges.

use rusqlite::params;
use serde_json::{Value, json};
use testkit::gateway::{Gateway, Manner};
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{Claude, prompt, tool_use};
use crate::events::Stream;
use crate::opencode::{self, works_on};
use crate::{claude_code, codex, home, openclaw, pi};

/// Changes a field of a live record, in place, as the agent does.
fn rewrite(path: &str, change: &[(&str, Value)]) {
    let text = std::fs::read_to_string(path).expect("there");
    let mut record: Value = serde_json::from_str(&text).expect("a record");
    for (key, value) in change {
        record[*key] = value.clone();
    }
    std::fs::write(path, record.to_string()).expect("written");
}

#[test]
fn claude_code_is_told_by_its_live_record() {
    sandboxed(|| {
        let claude = Claude::new();
        // Its home is not there yet.
        let stream = Stream::of(&claude.home, &[]);
        let open = [prompt("fix it"), tool_use("t1", "Bash", &json!({"command": "npm test"}))];
        claude.transcript(claude_code::A, &open);
        let mut agent = claude.live(claude_code::A, &json!({"status": "busy"}));
        stream.until(claude_code::A, &["started"]);
        let record = claude.record_path.replace("{pid}", &agent.pid().to_string());
        let asks = [("status", json!("waiting")), ("waitingFor", json!("permission prompt"))];
        rewrite(&record, &asks);
        let asked = stream.until(claude_code::A, &["started", "waiting"]);
        assert_eq!(asked["session"]["reason"]["detail"], "Bash: npm test");
        // The same words again are no edge; other words are.
        rewrite(&record, &[("updatedAt", json!(1))]);
        rewrite(&record, &[("waitingFor", json!("dialog open"))]);
        stream.until(claude_code::A, &["started", "waiting", "waiting"]);
        rewrite(&record, &[("status", json!("busy"))]);
        stream.until(claude_code::A, &["started", "waiting", "waiting", "running"]);
        rewrite(&record, &[("status", json!("idle"))]);
        stream.until(claude_code::A, &["started", "waiting", "waiting", "running", "idle"]);
        rewrite(&record, &[("status", json!("a new word"))]);
        let all = ["started", "waiting", "waiting", "running", "idle", "unknown"];
        stream.until(claude_code::A, &all);
        agent.kill();
        let over = stream.until(claude_code::A, &[&all[..], &["stopped"]].concat());
        assert_eq!(over["session"]["outcome"], "killed");
        assert_eq!(over["session"]["exit"], Value::Null);
        let ids: std::collections::BTreeSet<String> =
            stream.heard().iter().map(|e| e["id"].to_string()).collect();
        assert_eq!(ids.len(), stream.heard().len(), "every edge has an id of its own");
    });
}

#[test]
fn a_dialog_before_there_is_a_session_is_told_and_the_session_starts_once() {
    sandboxed(|| {
        let claude = Claude::new();
        let stream = Stream::of(&claude.home, &[]);
        let key = claude.record_path.replace(".json", &format!(".{}.key", "a".repeat(64)));
        claude.home.write(".claude.json", json!({"hasCompletedOnboarding": true}).to_string());
        let mut agent = claude.home.agent("claude", "ws", &["write", &key, "{}"]);
        agent.ready();
        let asked = eventually("somebody is needed", || {
            stream.heard().into_iter().find(|e| e["type"] == "session.waiting")
        });
        assert_eq!(asked["session_id"], Value::Null);
        assert_eq!(asked["session"]["pid"], agent.pid());
        // Its record comes when the dialog is over; here another process of the same name writes it.
        let _second = claude.live(claude_code::A, &json!({"status": "idle"}));
        stream.until(claude_code::A, &["started", "idle"]);
        agent.kill();
        claude.home.write(".claude/sessions/rubbish", "x");
        let mut third = claude.live(claude_code::B, &json!({"status": "busy"}));
        stream.until(claude_code::B, &["started"]);
        third.kill();
        stream.until(claude_code::B, &["started", "stopped"]);
        let nameless = stream.heard().into_iter().filter(|e| e["session_id"].is_null());
        let nameless: Vec<Value> = nameless.filter(|e| e["lock"].is_null()).collect();
        assert_eq!(nameless.len(), 1, "{nameless:?}");
    });
}

#[test]
fn codex_is_told_by_its_lock_and_its_rollout() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let (begun, asks) = (codex::started(), json!({"questions": [{"question": "Which?"}]}));
        let asks = codex::call("request_user_input", &asks);
        let over = json!({"type": "task_complete", "turn_id": "t"});
        codex::rollout(&home, codex::A, std::slice::from_ref(&begun));
        let mut agent = codex::exec(&home, &[codex::A], &[]);
        stream.until(codex::A, &["started"]);
        codex::rollout(&home, codex::A, &[begun.clone(), asks.clone()]);
        let asked = stream.until(codex::A, &["started", "waiting"]);
        assert_eq!(asked["session"]["reason"]["detail"], "Which?");
        codex::rollout(&home, codex::A, &[begun.clone(), asks.clone(), over.clone()]);
        stream.until(codex::A, &["started", "waiting", "idle"]);
        codex::rollout(&home, codex::A, &[begun.clone(), asks, over, begun]);
        stream.until(codex::A, &["started", "waiting", "idle", "running"]);
        agent.kill();
        let told = stream.until(codex::A, &["started", "waiting", "idle", "running", "stopped"]);
        assert_eq!(told["session"]["outcome"], "killed");
    });
}

#[test]
fn a_thread_in_a_server_is_told_by_the_servers_word() {
    sandboxed(|| {
        let home = home();
        codex::rollout(&home, codex::A, &[codex::started(), codex::asked("x")]);
        let socket = home.at("run/s.sock");
        let listen = format!("unix://{}", socket.display());
        let idle = json!({"type": "idle"});
        let active = json!({"type": "active", "activeFlags": []});
        let server = crate::wait_codex::Server::start(socket, idle.clone());
        let mut agent = codex::exec(&home, &[codex::A], &["app-server", "--listen", &listen]);
        // It rests there: nobody's work. No file changes from here on.
        let stream = Stream::of(&home, &[]);
        server.change(active.clone());
        stream.until(codex::A, &["running"]);
        server.change(json!({"type": "active", "activeFlags": ["waitingOnApproval"]}));
        stream.until(codex::A, &["running", "waiting"]);
        server.change(idle);
        stream.until(codex::A, &["running", "waiting", "idle"]);
        server.change(active);
        stream.until(codex::A, &["running", "waiting", "idle", "running"]);
        agent.kill();
        let told = stream.until(codex::A, &["running", "waiting", "idle", "running", "stopped"]);
        assert_eq!(told["session"]["outcome"], "killed");
    });
}

#[test]
fn opencode_is_told_by_its_database_and_its_log() {
    sandboxed(|| {
        let (home, store, directory) = opencode::world();
        let stream = Stream::of(&home, &[]);
        // It is there before it is asked: a question from before its time is nobody's work.
        let mut agent = opencode::held(&home, &[works_on("aaaa0001", opencode::A)]);
        store.session(opencode::A, &directory, None);
        let _question = store.message(opencode::A, 0, &opencode::asked());
        agent.go_on();
        stream.until(opencode::A, &["started"]);
        let question = json!({"questions": [{"question": "Which?"}]});
        let state = json!({"status": "running", "input": question});
        store.tool(opencode::A, "question", &state);
        let asked = stream.until(opencode::A, &["started", "waiting"]);
        assert_eq!(asked["session"]["reason"]["kind"], "question");
        store.message(opencode::A, 0, &opencode::answered("stop"));
        stream.until(opencode::A, &["started", "waiting", "idle"]);
        store.message(opencode::A, 0, &opencode::asked());
        stream.until(opencode::A, &["started", "waiting", "idle", "running"]);
        let failed = json!({"role": "assistant", "time": {"completed": 2}, "error": {"name": "APIError", "data": {"message": "no"}}});
        let sql = "insert into message values ('msg_9999', ?1, ?2, ?2, ?3)";
        let row = params![opencode::A, opencode::now_ms(), failed.to_string()];
        store.connection.execute(sql, row).expect("a message");
        stream.until(opencode::A, &["started", "waiting", "idle", "running", "idle"]);
        agent.kill();
        let all = ["started", "waiting", "idle", "running", "idle", "error"];
        assert_eq!(stream.until(opencode::A, &all)["session"]["outcome"], "failed");
    });
}

#[test]
fn pi_is_told_by_its_session_file() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let file = pi::place(&home, "ws", pi::A);
        // Header and question come at once: a session without a question is idle, and that would be told.
        let folder = file.parent().expect("a folder").display();
        let text = format!(
            "begin {} ../new; user ../new 1 go; mkdir -p '{folder}'; mv ../new '{}'",
            pi::A,
            file.display()
        );
        let mut agent = pi::start(&home, "ws", &[], &text);
        stream.until(pi::A, &["started"]);
        let answer = json!({"type": "message", "id": "a1", "parentId": "u1", "timestamp": "2099-01-01T00:00:00.000Z",
            "message": {"role": "assistant", "content": [], "model": "m", "stopReason": "stop"}});
        let mut lines = std::fs::read_to_string(&file).expect("there");
        lines.push_str(&format!("{answer}\n"));
        std::fs::write(&file, lines).expect("written");
        stream.until(pi::A, &["started", "idle"]);
        agent.kill();
        let over = stream.until(pi::A, &["started", "idle", "stopped"]);
        assert_eq!(
            (&over["adapter"], &over["session"]["outcome"]),
            (&json!("pi"), &json!("finished"))
        );
    });
}

fn changed(gateway: &Gateway) {
    gateway.push(&json!({"type": "event", "event": "sessions.changed", "payload": {}}));
}

/// Gives the gateway these rows and says so.
fn serve(gateway: &Gateway, rows: Vec<Value>) {
    gateway.world().rows = rows;
    changed(gateway);
}

fn listened(home: &TestHome, gateway: &Gateway) -> Stream {
    let stream = Stream::of(home, &["--adapter", "openclaw"]);
    eventually("it is listened to", || {
        let asked = &gateway.world().asked;
        asked.iter().any(|(method, _)| method == "sessions.subscribe").then_some(())
    });
    stream
}

#[test]
fn openclaw_is_told_by_its_gateways_word() {
    sandboxed(|| {
        let (gateway, id) = (Gateway::start(), openclaw::A);
        let home = openclaw::beside(&gateway, "");
        let stream = listened(&home, &gateway);
        // A conversation of long ago goes on; one that begins now starts.
        serve(&gateway, vec![openclaw::row(id, Some("running"), true)]);
        stream.until(id, &["running"]);
        serve(&gateway, vec![openclaw::row(id, Some("failed"), false)]);
        let rests = stream.until(id, &["running", "idle"]);
        assert_eq!(rests["session"]["outcome"], "failed", "how its turn ended");
        let fresh = "cccccccc-0000-4000-8000-000000000003";
        let mut begins = openclaw::row(fresh, Some("running"), true);
        begins["createdAt"] = (opencode::now_ms() + 60_000).into();
        let mut job = openclaw::row("dddddddd-0000-4000-8000-000000000004", Some("running"), true);
        job["createdAt"] = begins["createdAt"].clone();
        job["classification"] = "cron".into();
        job["key"] = "agent:main:cron:job-1:run:dddddddd".into();
        job["isBackground"] = true.into();
        serve(&gateway, vec![begins.clone(), job.clone()]);
        stream.until(fresh, &["started"]);
        stream.until("dddddddd-0000-4000-8000-000000000004", &["started"]);
        // It is gone: asked for by name, the gateway has it no more.
        serve(&gateway, vec![job]);
        let over = stream.until(fresh, &["started", "stopped"]);
        assert_eq!(over["session"]["outcome"], "unknown");
        assert_eq!(stream.kinds(id), ["running", "idle"], "what rests is nobody's work");
    });
}

#[test]
fn a_gateway_that_fails_ends_nothing() {
    sandboxed(|| {
        let (gateway, id) = (Gateway::start(), openclaw::A);
        gateway.world().rows = vec![openclaw::row(id, Some("running"), true)];
        let home = home();
        crate::configure(&home, &[("gateway", "1s")], &openclaw::table(&gateway, ""));
        let stream = listened(&home, &gateway);
        // How often it was late besides is its own affair, and this machine's.
        for manner in [Manner::HangUp, Manner::Rubbish, Manner::NoAnswer, Manner::NoList] {
            gateway.behaves(manner);
            changed(&gateway);
            stream.last(id, "unknown");
            gateway.behaves(Manner::Well);
            changed(&gateway);
            stream.last(id, "running");
        }
        gateway.end();
        stream.last(id, "unknown");
        let told = stream.kinds(id);
        assert!(told.iter().all(|kind| kind == "unknown" || kind == "running"), "{told:?}");
        // What it did meanwhile is told when it is back.
        let mut done = openclaw::row(id, Some("done"), false);
        done["endedAt"] = 1_794_728_799_000_i64.into();
        gateway.world().rows = vec![done];
        let _back = gateway.again();
        stream.last(id, "idle");
    });
}
