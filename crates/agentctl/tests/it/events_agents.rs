//! `events` of every agent: changes of its own files and its own server, as edges.

use std::time::Duration;

use rusqlite::params;
use serde_json::{Value, json};
use testkit::gateway::{Gateway, Manner};
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{Claude, prompt, tool_use};
use crate::events::{Stream, is_of_session};
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
fn events_of_claude_code_come_from_its_live_record() {
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
        // A session whose last turn failed.
        let mut failed = claude_code::said("529 Overloaded");
        failed["isApiErrorMessage"] = true.into();
        claude.transcript(claude_code::B, &[prompt("fix it"), failed]);
        let mut agent = claude.live(claude_code::B, &json!({"status": "idle"}));
        stream.until(claude_code::B, &["started", "idle"]);
        agent.kill();
        let over = stream.until(claude_code::B, &["started", "idle", "error"]);
        assert_eq!(over["session"]["outcome"], "failed");
        let ids: std::collections::BTreeSet<String> =
            stream.heard().iter().map(|e| e["id"].to_string()).collect();
        assert_eq!(ids.len(), stream.heard().len(), "every edge has an id of its own");
    });
}

#[test]
fn a_dialog_before_the_session_is_reported_and_the_session_starts_once() {
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
        let nameless: Vec<Value> = nameless.filter(is_of_session).collect();
        assert_eq!(nameless.len(), 1, "{nameless:?}");
    });
}

#[test]
fn events_of_codex_come_from_its_lock_and_its_rollout() {
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
        codex::rollout(&home, codex::A, &[begun.clone(), asks, over, begun.clone()]);
        let mut told = vec!["started", "waiting", "idle", "running"];
        stream.until(codex::A, &told);
        // Its rollout cannot be found for a while.
        let day = home.path().join(".codex/sessions/2026/11/15");
        std::fs::rename(&day, home.path().join("elsewhere")).expect("moved");
        std::fs::write(&day, "a file in the directory's place").expect("written");
        told.push("unknown");
        stream.until(codex::A, &told);
        std::fs::remove_file(&day).expect("removed");
        std::fs::rename(home.path().join("elsewhere"), &day).expect("moved");
        told.push("running");
        stream.until(codex::A, &told);
        agent.kill();
        told.push("stopped");
        assert_eq!(stream.until(codex::A, &told)["session"]["outcome"], "killed");
        let failed = json!({"type": "task_complete", "turn_id": "t", "error": {"message": "no"}});
        codex::rollout(&home, codex::B, &[begun, failed]);
        let mut agent = codex::exec(&home, &[codex::B], &[]);
        stream.until(codex::B, &["started", "idle"]);
        agent.kill();
        let over = stream.until(codex::B, &["started", "idle", "error"]);
        assert_eq!(over["session"]["outcome"], "failed");
    });
}

#[test]
fn events_of_a_hosted_thread_come_from_its_server() {
    sandboxed(|| {
        let home = home();
        codex::rollout(&home, codex::A, &[codex::started(), codex::asked("x")]);
        let socket = home.at("run/s.sock");
        let idle = json!({"type": "idle"});
        let active = json!({"type": "active", "activeFlags": []});
        let server = crate::wait_codex::Server::start(socket.clone(), idle.clone());
        let mut agent = codex::server(&home, &[codex::A], &socket);
        // It is idle there, which is not work. No file changes from here on.
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
fn events_of_opencode_come_from_its_database_and_its_log() {
    sandboxed(|| {
        let (home, store, directory) = opencode::world();
        let stream = Stream::of(&home, &[]);
        store.session(opencode::A, &directory, None);
        store.message(opencode::A, 3_600_000, &opencode::answered("stop"));
        let mut agent = opencode::agent(&home, &[], &[works_on("aaaa0001", opencode::A)]);
        let mut told = vec!["started", "idle"];
        stream.until(opencode::A, &told);
        store.message(opencode::A, 0, &opencode::asked());
        told.push("running");
        stream.until(opencode::A, &told);
        let question = json!({"questions": [{"question": "Which?"}]});
        let state = json!({"status": "running", "input": question});
        store.tool(opencode::A, "question", &state);
        told.push("waiting");
        let asked = stream.until(opencode::A, &told);
        assert_eq!(asked["session"]["reason"]["kind"], "question");
        store.message(opencode::A, 0, &opencode::answered("stop"));
        told.push("idle");
        stream.until(opencode::A, &told);
        // The format of a future version is not known.
        store.message(opencode::A, 0, &json!({"role": "overseer", "time": {"created": 1}}));
        told.push("unknown");
        stream.until(opencode::A, &told);
        store.message(opencode::A, 0, &opencode::asked());
        told.push("running");
        stream.until(opencode::A, &told);
        let failed = json!({"role": "assistant", "time": {"completed": 2}, "error": {"name": "APIError", "data": {"message": "no"}}});
        let sql = "insert into message values ('msg_9999', ?1, ?2, ?2, ?3)";
        let row = params![opencode::A, opencode::now_ms(), failed.to_string()];
        store.connection.execute(sql, row).expect("a message");
        told.push("idle");
        stream.until(opencode::A, &told);
        agent.kill();
        told.push("error");
        assert_eq!(stream.until(opencode::A, &told)["session"]["outcome"], "failed");
        // A session whose last turn did not fail has stopped.
        store.session(opencode::B, &directory, None);
        let mut agent = opencode::agent(&home, &[], &[works_on("aaaa0002", opencode::B)]);
        stream.until(opencode::B, &["started", "idle"]);
        agent.kill();
        stream.until(opencode::B, &["started", "idle", "stopped"]);
    });
}

/// Adds a line to a session file of Pi.
fn add_to(file: &std::path::Path, parent: &str, id: &str, message: &Value) {
    use std::io::Write;
    // A person takes a while to write a prompt; only the time in the file counts.
    let at = agentctl_core::model::Time::from_millis(opencode::now_ms() + 3_000).expect("a time");
    let line = json!({"type": "message", "id": id, "parentId": parent, "timestamp": at, "message": message});
    let mut file = std::fs::OpenOptions::new().append(true).open(file).expect("there");
    file.write_all(format!("{line}\n").as_bytes()).expect("written");
}

#[test]
fn events_of_pi_come_from_its_session_file() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let ends = [("stop", "stopped", "finished"), ("error", "error", "failed")];
        for (id, (how, end, outcome)) in [pi::A, pi::B].into_iter().zip(ends) {
            let file = pi::place(&home, "ws", id);
            let noise = crate::pi_doubt::NOISE;
            let text = format!("f='{}'; {noise}; begin {id} \"$f\"", file.display());
            let mut agent = pi::start(&home, "ws", &[], &text);
            let mut told = vec!["started", "idle"];
            stream.until(id, &told);
            add_to(
                &file,
                "",
                "u1",
                &json!({"role": "user", "content": [{"type": "text", "text": "go"}]}),
            );
            told.push("running");
            stream.until(id, &told);
            // The format of a future version is not known.
            let answer = |how: &str| json!({"role": "assistant", "content": [], "model": "m", "stopReason": how, "errorMessage": "529"});
            add_to(&file, "u1", "a1", &answer("a new word"));
            told.push("unknown");
            stream.until(id, &told);
            add_to(&file, "a1", "a2", &answer(how));
            // After a failure it may retry: that stays unknown.
            if how == "stop" {
                told.push("idle");
                stream.until(id, &told);
            }
            agent.kill();
            told.push(end);
            let over = stream.until(id, &told);
            assert_eq!(
                (&over["adapter"], &over["session"]["outcome"]),
                (&json!("pi"), &json!(outcome))
            );
            // Start times have a grain of 20 ms: a process that begins within it may have written the file.
            let written = std::fs::metadata(&file).and_then(|m| m.modified()).expect("its time");
            eventually("the last write is older than the grain of start times", || {
                written.elapsed().ok().filter(|age| *age > Duration::from_millis(50))
            });
        }
    });
}

#[test]
fn events_of_the_demo_agent_come_from_its_live_record() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let root = ".local/share/agentctl-demo";
        let open = [
            r#"{"type":"session","cwd":"/work","model":"demo-1"}"#,
            r#"{"type":"prompt","id":"1","text":"x","at":"2026-01-01T00:00:00Z"}"#,
        ];
        let ends = [("finished", "stopped"), ("failed", "error")];
        for (state, end) in ends {
            let transcript =
                home.write(&format!("{root}/sessions/{state}.jsonl"), open.join("\n") + "\n");
            let live = format!(
                r#"{{"start_ticks":{{start}},"boot_id":"{{boot}}","machine_id":null,"pid_namespace":{{ns}},"session":"{state}","cwd":"/work","status":"running","detail":null,"started_ms":0}}"#
            );
            let path = home.at(&format!("{root}/live/{{pid}}.json"));
            let path = path.to_str().expect("utf-8");
            let mut agent = home.agent("agentctl", "work", &["demo-agent", "write", path, &live]);
            agent.ready();
            let record = path.replace("{pid}", &agent.pid().to_string());
            let mut told = vec!["started"];
            stream.until(state, &told);
            rewrite(&record, &[("status", json!("waiting")), ("detail", json!("go?"))]);
            told.push("waiting");
            let asked = stream.until(state, &told);
            assert_eq!(
                asked["session"]["reason"],
                json!({"kind": "question", "detail": "go?", "until": null})
            );
            for word in ["running", "idle"] {
                rewrite(&record, &[("status", json!(word)), ("detail", Value::Null)]);
                told.push(word);
                stream.until(state, &told);
            }
            // The writer of this record cannot be seen from here.
            for (machine, kind) in [(json!("another"), "unknown"), (Value::Null, "idle")] {
                rewrite(&record, &[("machine_id", machine)]);
                told.push(kind);
                stream.until(state, &told);
            }
            let over = json!({"type": "end", "state": state, "error": "no luck", "at": "2026-01-01T00:00:01Z"});
            std::fs::write(&transcript, format!("{}\n{over}\n", open.join("\n"))).expect("written");
            agent.kill();
            told.push(end);
            assert_eq!(stream.until(state, &told)["session"]["outcome"], state);
        }
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
fn events_of_openclaw_come_from_its_gateway() {
    sandboxed(|| {
        let (gateway, id) = (Gateway::start(), openclaw::A);
        let home = openclaw::beside(&gateway, "");
        let stream = listened(&home, &gateway);
        // An old conversation continues; a new one starts.
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
        let run = "dddddddd-0000-4000-8000-000000000004";
        stream.until(run, &["started"]);
        (job["status"], job["hasActiveRun"]) = ("failed".into(), false.into());
        serve(&gateway, vec![begins, job.clone()]);
        assert_eq!(stream.until(run, &["started", "error"])["session"]["outcome"], "failed");
        // It is gone: asked for by name, the gateway has it no more.
        serve(&gateway, vec![job]);
        let over = stream.until(fresh, &["started", "stopped"]);
        assert_eq!(over["session"]["outcome"], "unknown");
        assert_eq!(stream.kinds(id), ["running", "idle"], "what rests is nobody's work");
    });
}

#[test]
fn a_failing_gateway_ends_no_session() {
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
        // Changes meanwhile are reported when it is back.
        let mut done = openclaw::row(id, Some("done"), false);
        done["endedAt"] = 1_794_728_799_000_i64.into();
        gateway.world().rows = vec![done];
        let _back = gateway.again();
        stream.last(id, "idle");
    });
}

#[test]
fn a_silent_gateway_delays_no_other_agent() {
    sandboxed(|| {
        // A gateway that never answers, and a gateway that stops answering.
        let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = mute.local_addr().expect("an address").port();
        let gateway = Gateway::start();
        gateway.world().rows = vec![openclaw::row(openclaw::A, Some("running"), true)];
        let never = format!("[[openclaw.gateways]]\nurl = \"ws://127.0.0.1:{port}\"\n");
        for (table, falls_silent) in [(never, false), (openclaw::table(&gateway, ""), true)] {
            let claude = Claude::new();
            // Longer than any test waits: waiting for the gateway would report nothing.
            crate::configure(&claude.home, &[("gateway", "10m"), ("live", "10m")], &table);
            let stream = Stream::of(&claude.home, &[]);
            if falls_silent {
                gateway.behaves(Manner::NoAnswer);
                changed(&gateway);
            }
            claude.transcript(claude_code::A, &[prompt("fix it")]);
            let mut agent = claude.live(claude_code::A, &json!({"status": "busy"}));
            stream.until(claude_code::A, &["started"]);
            let record = claude.record_path.replace("{pid}", &agent.pid().to_string());
            rewrite(&record, &[("status", json!("idle"))]);
            stream.until(claude_code::A, &["started", "idle"]);
            agent.kill();
            stream.until(claude_code::A, &["started", "idle", "stopped"]);
            let theirs = stream.heard().into_iter().filter(|e| e["adapter"] == "openclaw");
            assert_eq!(theirs.count(), 0, "of what cannot be asked nothing is told");
        }
    });
}
