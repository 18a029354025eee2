//! Waiting for Codex: a thread of its own process, and a thread in a server that announces changes.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::sandboxed;

use crate::codex::{A, asked, behind, call, exec, rollout, started};
use crate::home;
use crate::wait::{assert_said, wait};

/// An app-server's socket: answers with the last status it was given and announces changes to all
/// subscribers.
#[derive(Clone)]
pub(crate) struct Server {
    status: Arc<Mutex<Value>>,
    listeners: Arc<Mutex<Vec<UnixStream>>>,
}

impl Server {
    pub(crate) fn start(path: PathBuf, status: Value) -> Self {
        let listener = UnixListener::bind(behind(&path)).expect("bound");
        let status = Arc::new(Mutex::new(status));
        let server = Self { status, listeners: Arc::default() };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.converse(stream));
            }
        });
        server
    }

    fn converse(&self, stream: UnixStream) {
        let own = stream.try_clone().expect("cloned");
        let Ok(mut socket) = tungstenite::accept(stream) else { return };
        while let Ok(message) = socket.read() {
            let Ok(request) = serde_json::from_str::<Value>(message.to_text().unwrap_or_default())
            else {
                continue;
            };
            let result = match request["method"].as_str() {
                Some("initialize") => json!({"codexHome": "x"}),
                Some("thread/read") => {
                    let status = self.status.lock().expect("sound").clone();
                    json!({"thread": {"id": A, "cwd": "/srv", "status": status}})
                }
                Some("initialized") => {
                    self.listeners.lock().expect("sound").push(own.try_clone().expect("cloned"));
                    continue;
                }
                _ => continue,
            };
            let reply = json!({"id": request["id"], "result": result}).to_string();
            if socket.send(tungstenite::Message::text(reply)).is_err() {
                return;
            }
        }
    }

    /// Changes the status and announces it in a frame, as a server does.
    pub(crate) fn change(&self, status: Value) {
        *self.status.lock().expect("sound") = status;
        let text = json!({"method": "thread/status/changed", "params": {}}).to_string();
        let length = u8::try_from(text.len()).expect("short");
        for listener in self.listeners.lock().expect("sound").iter_mut() {
            // Clients that only asked a question have disconnected.
            let _gone = listener.write_all(&[&[0x81, length], text.as_bytes()].concat());
        }
    }
}

#[test]
fn a_hosted_thread_is_waited_for_by_messages_of_its_server() {
    sandboxed(|| {
        let home = home();
        let open = [started(), asked("x"), call("exec_command", &json!({"cmd": "make"}))];
        rollout(&home, A, &open);
        let socket = home.at("run/s.sock");
        let active = json!({"type": "active", "activeFlags": []});
        let server = Server::start(socket.clone(), active.clone());
        let mut agent = crate::codex::server(&home, &[A], &socket);
        // No file changes from here on.
        let waiter = wait(&home, &[A]).asleep();
        server.change(json!({"type": "active", "activeFlags": ["waitingOnApproval"]}));
        let line =
            "01a1de32-5fe1-74e1-aa0a-48f1eed298bf  waiting  permission: exec_command: make\n";
        assert_said(&waiter.output(), 10, line);
        let waiter = wait(&home, &[A, "--for", "running"]).asleep();
        server.change(active);
        assert_eq!(waiter.output().code, Some(0));
        let waiter = wait(&home, &[A]).asleep();
        let other = wait(&home, &[A, "--for", "stopped"]).asleep();
        server.change(json!({"type": "idle"}));
        assert_said(&waiter.output(), 0, "01a1de32-5fe1-74e1-aa0a-48f1eed298bf  idle\n");
        let other = other.asleep();
        agent.kill();
        assert_eq!(other.output().code, Some(0));
    });
}

#[test]
fn a_server_without_a_subscription_is_polled() {
    sandboxed(|| {
        let home = home();
        rollout(&home, A, &[started()]);
        let socket = home.at("run/s.sock");
        // It accepts and never answers; the client waits for a quarter of this time.
        crate::configure(&home, &[("live", "12s")], "");
        let _listener = UnixListener::bind(behind(&socket)).expect("bound");
        let _agent = crate::codex::server(&home, &[A], &socket);
        let waiter = wait(&home, &[A]).asleep();
        rollout(&home, A, &[started(), json!({"type": "task_complete"})]);
        let said = waiter.output();
        assert_said(&said, 0, "01a1de32-5fe1-74e1-aa0a-48f1eed298bf  idle\n");
        assert!(said.stderr.contains("checking once a second instead"), "{}", said.stderr);
        assert!(said.stderr.contains("did not say whether anyone is needed"), "{}", said.stderr);
    });
}

#[test]
fn a_thread_of_its_own_process_is_over_when_that_has_exited() {
    sandboxed(|| {
        let failed =
            json!({"type": "task_complete", "turn_id": "t", "error": {"message": "quota"}});
        for (last, code) in [(json!({"type": "task_complete", "turn_id": "t"}), 0), (failed, 1)] {
            let home = home();
            let mut agent = exec(&home, &[A], &["exec"]);
            // Neither a rollout nor its folder yet.
            let waiter = wait(&home, &[A]).asleep();
            // Its lines are not older than its process.
            let write = |lines: &[Value]| {
                let path = rollout(&home, A, lines);
                let text = std::fs::read_to_string(&path).expect("there");
                std::fs::write(path, text.replace("2026-11-15T07:54", "2099-01-01T00:00"))
                    .expect("written");
            };
            let waiter = waiter.through(|| write(&[started(), asked("x")]));
            let mut waiter = waiter.through(|| write(&[started(), asked("x"), last]));
            assert_eq!(home.run(&["status", A, "--json"]).json()["status"], "idle");
            assert!(waiter.0.try_wait().expect("asked").is_none(), "how it ended is told later");
            agent.kill();
            assert_eq!(waiter.output().code, Some(code));
        }
    });
}
