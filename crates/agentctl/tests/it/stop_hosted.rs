//! Stopping a session in a shared server: the server is asked, and never signalled.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Agent, TestHome, sandboxed};

use crate::home;
use crate::stop::{lives, written_pid};

const A: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";
const B: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298c0";

fn rollout(home: &TestHome, id: &str, turn: &str) {
    let meta = json!({"timestamp": "2026-11-15T07:53:25.730Z", "ordinal": 0, "type": "session_meta",
        "payload": {"id": id, "session_id": id, "cwd": home.path(), "timestamp": "2026-11-15T07:53:25.730Z"}});
    let started = json!({"timestamp": "2026-11-15T07:54:00.000Z", "ordinal": 1, "type": "event_msg",
        "payload": {"type": "task_started", "turn_id": turn}});
    let path = format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-53-25-{id}.jsonl");
    home.write(&path, format!("{meta}\n{started}\n"));
}

/// The server's side of the socket: the requests it received, and its answers.
struct Server {
    asked: Arc<Mutex<Vec<Value>>>,
}

fn serve(path: PathBuf, obeys: bool) -> Server {
    let listener = UnixListener::bind(crate::codex::behind(&path)).expect("bound");
    let asked = Arc::new(Mutex::new(Vec::<Value>::new()));
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(mut socket) = tungstenite::accept(stream) else { continue };
            while let Ok(message) = socket.read() {
                let Ok(text) = message.to_text() else { continue };
                let Ok(request) = serde_json::from_str::<Value>(text) else { continue };
                let mut asked = heard.lock().expect("heard");
                let id = request["params"]["threadId"].as_str().unwrap_or_default().to_owned();
                let aborted = asked
                    .iter()
                    .any(|r| r["method"] == "turn/interrupt" && r["params"]["threadId"] == *id);
                asked.push(request.clone());
                drop(asked);
                let result = match request["method"].as_str() {
                    Some("initialize") => json!({"codexHome": "x"}),
                    Some("thread/read") => {
                        let status = if aborted && obeys {
                            json!({"type": "idle"})
                        } else {
                            json!({"type": "active", "activeFlags": []})
                        };
                        json!({"thread": {"id": id, "cwd": "/srv", "status": status}})
                    }
                    Some("turn/interrupt") => json!({}),
                    Some(_) if request["id"].is_u64() => {
                        let error = json!({"id": request["id"], "error": {"code": -32600, "message": "unknown"}});
                        let _gone = socket.send(tungstenite::Message::text(error.to_string()));
                        continue;
                    }
                    _ => continue,
                };
                let reply = json!({"id": request["id"], "result": result});
                let _gone = socket.send(tungstenite::Message::text(reply.to_string()));
            }
        }
    });
    Server { asked }
}

impl Server {
    fn interrupts(&self) -> Vec<Value> {
        let asked = self.asked.lock().expect("heard");
        asked
            .iter()
            .filter(|r| r["method"] == "turn/interrupt")
            .map(|r| r["params"].clone())
            .collect()
    }
}

/// A server process with two threads, each with a tool of its own.
fn hosted(home: &TestHome, socket: &std::path::Path) -> (Agent, [u32; 2]) {
    let listen = format!("unix://{}", socket.display());
    let tool = |id: &str| {
        let pid = home.at(&format!("pids/{id}"));
        format!(
            "CODEX_THREAD_ID={id} exec setsid sh -c 'echo $$ > {}; exec sleep 600'",
            pid.display()
        )
    };
    let locks = [A, B].map(|id| {
        home.at(&format!(".codex/thread-writer-locks/{id}.lock")).to_string_lossy().into_owned()
    });
    let starts = [tool(A), tool(B)];
    let mut script = vec![
        "app-server",
        "--listen",
        &listen,
        "lock",
        &locks[0],
        "lock",
        &locks[1],
        "start",
        &starts[0],
        "start",
        &starts[1],
    ];
    if crate::codex::behind(socket).exists() {
        script.extend(["relay", socket.to_str().expect("utf-8")]);
    }
    let mut server = home.agent("codex", "ws", &script);
    server.ready();
    let tools = [A, B].map(|id| written_pid(&home.path().join("pids").join(id)));
    (server, tools)
}

#[test]
fn a_hosted_session_is_interrupted_and_its_server_is_left_alone() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, "turn-a");
        rollout(&home, B, "turn-b");
        let socket = home.at("run/s.sock");
        let heard = serve(socket.clone(), true);
        let (server, tools) = hosted(&home, &socket);
        let said = home.run(&["stop", A]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let told = format!(
            "stopped codex {A}: its turn was interrupted; it stays idle in a server (pid {}) that other sessions share (1 process it had started)\n",
            server.pid()
        );
        assert_eq!(said.stdout, told);
        assert_eq!(heard.interrupts(), [json!({"threadId": A, "turnId": ""})]);
        assert!(lives(server.pid()), "it serves others");
        assert!(!lives(tools[0]) && lives(tools[1]), "only its own tool is ended");
        let rows = home.run(&["list", "-a", "--since", "all", "--json"]);
        assert_eq!(
            (&rows.session(A)["status"], &rows.session(B)["status"]),
            (&"idle".into(), &"running".into())
        );

        let again = home.run(&["stop", A]);
        assert!(
            again.stdout.starts_with(&format!("codex {A} was already idle; it stays")),
            "{again:?}"
        );
        let told = home.run(&["stop", A, "--force", "--json"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        let told = told.json();
        assert_eq!(
            (
                &told["stopped"][0]["rests_in"],
                &told["stopped"][0]["status"],
                &told["stopped"][0]["already"]
            ),
            (&server.pid().into(), &"idle".into(), &true.into())
        );
        assert!(lives(server.pid()) && lives(tools[1]), "not even by force");
    });
}

#[test]
fn a_server_that_ignores_the_request_is_reported() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, "turn-a");
        rollout(&home, B, "turn-b");
        let socket = home.at("run/s.sock");
        let _heard = serve(socket.clone(), false);
        let (server, tools) = hosted(&home, &socket);
        let said = home.run(&["stop", A, "--timeout", "3s"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("its turn continues"), "{said:?}");
        assert!(!said.stdout.contains("stopped"), "{said:?}");
        assert!(lives(server.pid()) && tools.iter().all(|t| lives(*t)));
    });
}

#[test]
fn a_hosted_session_without_a_socket_is_refused() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, "turn-a");
        rollout(&home, B, "turn-b");
        let (server, tools) = hosted(&home, &home.at("run/nobody.sock"));
        let said = home.run(&["stop", A]);
        assert_eq!(said.code, Some(5), "{said:?}");
        let error = home.run(&["stop", A, "--json"]);
        assert_eq!((error.code, &error.json()["error"]["code"]), (Some(5), &"refused".into()));
        assert!(lives(server.pid()) && tools.iter().all(|t| lives(*t)));
    });
}

#[test]
fn a_subagent_is_stopped_with_its_parent_only() {
    sandboxed(|| {
        let home = home();
        home.plant(&crate::fixtures_dir().join("codex/0.166.0"), ".");
        let parent = "01a1de39-552e-7a73-942c-691cb40a2da1";
        let child = "01a1de39-5612-7e93-becf-5f068a75076c";
        let locks = [parent, child].map(|id| {
            home.at(&format!(".codex/thread-writer-locks/{id}.lock")).to_string_lossy().into_owned()
        });
        let mut agent = home.agent("codex", "ws", &["exec", "lock", &locks[0], "lock", &locks[1]]);
        agent.ready();
        let said = home.run(&["stop", child]);
        assert_eq!(said.code, Some(5), "{said:?}");
        assert!(
            said.stderr.contains(&format!("stop {parent} instead")) && lives(agent.pid()),
            "{said:?}"
        );
        assert_eq!(home.run(&["stop", parent]).code, Some(0));
        assert!(!lives(agent.pid()));
    });
}
