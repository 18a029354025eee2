//! `events` says each thing once and to its end: one prompt, one `waiting`; a thread in a server that
//! dies (W18, W19).

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::{eventually, sandboxed};

use crate::claude_code::{self, Claude, prompt, tool_use};
use crate::events::Stream;
use crate::{codex, home};

fn result(call: &str) -> Value {
    let result = json!([{"type": "tool_result", "tool_use_id": call, "content": "done"}]);
    json!({"type": "user", "message": {"role": "user", "content": result}})
}

/// A call of a message of its own.
fn asks(call: &str) -> Value {
    let mut line = tool_use(call, "Bash", &json!({"command": "npm test"}));
    line["message"]["id"] = call.into();
    line
}

/// Changes the live record in place, as the agent does.
fn says(record: &PathBuf, status: &str) {
    let text = std::fs::read_to_string(record).expect("there");
    let mut live: Value = serde_json::from_str(&text).expect("a record");
    live["status"] = status.into();
    live["waitingFor"] = "permission prompt".into();
    let mut file = std::fs::File::create(record).expect("there");
    file.write_all(live.to_string().as_bytes()).expect("written");
}

fn details(stream: &Stream) -> Vec<Value> {
    let heard = stream.heard().into_iter().filter(|e| e["type"] == "session.waiting");
    heard.map(|e| e["session"]["reason"]["detail"].clone()).collect()
}

/// W19: the live record shows that a human is needed before the transcript shows why; two prompts
/// follow each other without a look in between that shows work.
#[test]
fn each_prompt_of_claude_code_is_reported_once() {
    sandboxed(|| {
        let claude = Claude::new();
        let stream = Stream::of(&claude.home, &[]);
        let id = claude_code::A;
        let mut lines = vec![prompt("fix it")];
        claude.transcript(id, &lines);
        let mut agent = claude.live(id, &json!({"status": "busy"}));
        stream.until(id, &["started"]);
        let record = PathBuf::from(claude.record_path.replace("{pid}", &agent.pid().to_string()));
        says(&record, "waiting");
        // However late its detail comes, it is one prompt.
        lines.push(asks("t1"));
        claude.transcript(id, &lines);
        stream.until(id, &["started", "waiting"]);
        // The same words, and another call.
        lines.push(result("t1"));
        claude.transcript(id, &lines);
        lines.push(asks("t2"));
        claude.transcript(id, &lines);
        stream.until(id, &["started", "waiting", "waiting"]);
        says(&record, "busy");
        stream.until(id, &["started", "waiting", "waiting", "running"]);
        // Without any detail it is reported too.
        lines.push(result("t2"));
        claude.transcript(id, &lines);
        says(&record, "waiting");
        stream.until(id, &["started", "waiting", "waiting", "running", "waiting"]);
        lines.push(asks("t3"));
        claude.transcript(id, &lines);
        agent.kill();
        stream.until(id, &["started", "waiting", "waiting", "running", "waiting", "stopped"]);
        let told = details(&stream);
        assert_eq!(told[1], "Bash: npm test", "{told:?}");
        let heard = stream.heard();
        for pair in heard.windows(2) {
            assert!(pair[0]["at"].as_str() <= pair[1]["at"].as_str(), "{pair:?}");
        }
    });
}

/// W18: a server that talks to its editor only, on its own stdin and stdout.
#[test]
fn an_idle_thread_ends_with_its_server_and_starts_in_the_next() {
    sandboxed(|| {
        let home = home();
        let complete = json!({"type": "task_complete", "turn_id": "t"});
        let done = [codex::started(), codex::asked("x"), complete];
        codex::rollout(&home, codex::A, &done);
        let stream = Stream::of(&home, &[]);
        let mut server = codex::exec(&home, &[codex::A], &["app-server"]);
        let rests = stream.until(codex::A, &["started", "idle"]);
        assert_eq!(
            (&rests["session"]["hosted"], &rests["session"]["pid"]),
            (&json!(true), &json!(server.pid()))
        );
        server.kill();
        let mut told = vec!["started", "idle", "stopped"];
        assert_eq!(stream.until(codex::A, &told)["session"]["outcome"], "finished");
        let mut server = codex::exec(&home, &[codex::A], &["app-server"]);
        told.extend(["started", "idle"]);
        stream.until(codex::A, &told);
        let again = [&done[..], &[codex::started()]].concat();
        codex::rollout(&home, codex::A, &again);
        told.push("running");
        stream.until(codex::A, &told);
        codex::rollout(&home, codex::A, &done);
        told.push("idle");
        stream.until(codex::A, &told);
        // It is not work, and occupies no directory.
        assert_eq!(home.run(&["list", "--json"]).sessions().len(), 0);
        server.kill();
        told.push("stopped");
        stream.until(codex::A, &told);
        let ids: std::collections::BTreeSet<String> =
            stream.heard().iter().map(|e| e["id"].to_string()).collect();
        assert_eq!(ids.len(), stream.heard().len(), "every edge has an id of its own");
        eventually("nothing else is told", || (stream.kinds(codex::A) == told).then_some(()));
    });
}
