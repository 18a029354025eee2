//! OpenCode's server: many sessions, one process, and only that process knows the state of each.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::opencode::{
    A, B, DATA, Store, answered, asked, line, list, log, working, works_on, world,
};
use crate::stop::{lives, written_pid};
use crate::wait::Running;

/// Starts a server that has worked on these sessions, and answers with the files of its folder.
pub(crate) fn server(home: &TestHome, ids: &[&str]) -> Agent {
    let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
    let (log, folder) = (log(home), home.at("answers/asked"));
    let folder = folder.parent().expect("a folder").to_string_lossy().into_owned();
    let lines: Vec<String> = ids.iter().map(|id| works_on("bbbb0001", id)).collect();
    // A tool of one of its sessions carries the pid that all of them share.
    let tool = format!("echo $$ > {folder}/tool; exec sleep 600");
    let mut script = vec!["serve", "--port", "0"];
    // Versions before 1.2 keep a file for each session instead.
    if Path::new(&database).exists() {
        script.extend(["open", &database]);
    }
    script.extend(["answer", &folder, "env", "OPENCODE_PID", "{pid}", "start", &tool]);
    for line in &lines {
        script.extend(["keep", &log, line]);
    }
    let mut agent = home.agent("opencode", "srv", &script);
    agent.ready();
    agent
}

pub(crate) fn says(home: &TestHome, route: &str, answer: &Value) {
    home.write(&format!("answers/{route}"), answer.to_string());
}

/// Two sessions at work in a server, by their record.
pub(crate) fn hosted() -> (TestHome, Store, Agent) {
    let (home, store, directory) = world();
    for id in [A, B] {
        store.session(id, &directory, None);
    }
    let agent = server(&home, &[A, B]);
    for id in [A, B] {
        store.message(id, 0, &working());
    }
    says(&home, "session.status", &json!({A: {"type": "busy"}, B: {"type": "busy"}}));
    says(&home, "permission", &json!([]));
    says(&home, "question", &json!([]));
    (home, store, agent)
}

/// Two sessions in a server, of which one waits for a permission and the other one for an answer.
pub(crate) fn waiting() -> (TestHome, Store, Agent) {
    let (home, store, agent) = hosted();
    let permission =
        json!({"id": "per_1", "sessionID": A, "permission": "bash", "patterns": ["make"]});
    says(&home, "permission", &json!([permission]));
    let question = json!({"id": "q", "sessionID": B, "questions": [{"question": "Which?"}]});
    says(&home, "question", &json!([question]));
    (home, store, agent)
}

#[test]
fn the_servers_answer_decides_each_session() {
    sandboxed(|| {
        let (home, store, agent) = hosted();
        let row = |id: &str| {
            let row = list(&home).session(id);
            assert_eq!((&row["hosted"], &row["pid"]), (&true.into(), &agent.pid().into()));
            assert_ne!(row["cwd"], home.path().join("srv").to_string_lossy().as_ref());
            let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            (text(&row["status"]), text(&row["reason"]["kind"]), text(&row["reason"]["detail"]))
        };
        let is = |status: &str, kind: &str, detail: &str| {
            (status.to_owned(), kind.to_owned(), detail.to_owned())
        };
        assert_eq!(row(A), is("running", "-", "-"));
        says(
            &home,
            "permission",
            &json!([{"id": "per_1", "sessionID": A, "permission": "bash", "patterns": ["make"]}]),
        );
        assert_eq!(row(A), is("waiting", "permission", "bash: make"));
        assert_eq!(row(B), is("running", "-", "-"));
        says(
            &home,
            "question",
            &json!([{"id": "q", "sessionID": B, "questions": [{"question": "Which?"}]}]),
        );
        assert_eq!(row(B), is("waiting", "question", "Which?"));
        says(&home, "question", &json!([]));
        says(
            &home,
            "session.status",
            &json!({B: {"type": "retry", "attempt": 2, "message": "429", "next": 1_794_750_463_871_i64}}),
        );
        assert_eq!(row(B), is("running", "retrying", "429"));
        assert_eq!(list(&home).session(B)["reason"]["until"], "2026-11-15T13:47:43.871Z");
        // A request that an abort left over is ignored.
        assert_eq!(row(A), is("idle", "-", "-"));
        // Idle in a shared server: history until the next prompt.
        let live = home.run(&["list", "--json"]).sessions();
        assert_eq!(live.len(), 1, "{live:?}");
        crate::assert_list_equals_status(&home);
        // A subagent's wait is the wait of the session it works for.
        store.session("ses_child", "/x", Some(A));
        says(&home, "session.status", &json!({A: {"type": "busy"}, "ses_child": {"type": "busy"}}));
        says(
            &home,
            "permission",
            &json!([{"id": "per_2", "sessionID": "ses_child", "permission": "edit", "patterns": []}]),
        );
        assert_eq!(row(A), is("waiting", "permission", "edit"));
    });
}

#[test]
fn the_password_is_the_servers_own_and_every_question_names_its_folder() {
    sandboxed(|| {
        let (mut home, store, directory) = world();
        store.session(A, &directory, None);
        home.set("OPENCODE_SERVER_PASSWORD", "geheim");
        let _agent = server(&home, &[A]);
        home.set("OPENCODE_SERVER_PASSWORD", "");
        says(&home, "session.status", &json!({A: {"type": "busy"}}));
        says(&home, "permission", &json!([]));
        let listed = list(&home);
        assert_eq!((listed.session(A)["status"].clone(), listed.code), ("running".into(), Some(0)));
        let asked = std::fs::read_to_string(home.path().join("answers/asked")).expect("asked");
        let folder = directory.replace('/', "%2F");
        for question in asked.lines() {
            assert!(question.contains("Authorization: Basic b3BlbmNvZGU6Z2VoZWlt|"), "{question}");
            assert!(question.contains(&format!("?directory={folder} HTTP")), "{question}");
        }
        assert!(!listed.stdout.contains("geheim") && !listed.stderr.contains("geheim"));
    });
}

#[test]
fn a_server_that_does_not_answer_is_a_fault_and_its_log_decides() {
    sandboxed(|| {
        let (home, store, agent) = hosted();
        std::fs::remove_file(home.path().join("answers/session.status")).expect("removed");
        store.message(B, 0, &answered("stop"));
        let listed = list(&home);
        assert_eq!(listed.code, Some(3), "{}", listed.stdout);
        assert!(
            listed.stderr.contains("did not say what it serves and waits for"),
            "{}",
            listed.stderr
        );
        assert_eq!(listed.session(A)["status"], "running");
        assert_eq!(listed.session(B)["status"], "idle");
        assert_eq!(listed.session(B)["pid"], agent.pid());
    });
}

#[test]
fn a_stop_asks_the_server_and_sends_no_signal() {
    sandboxed(|| {
        let (home, store, mut agent) = hosted();
        // It accepts the request, and the turn continues.
        says(&home, &format!("session.{A}.abort"), &json!(true));
        let stubborn = home.run(&["stop", A, "--timeout", "3s"]);
        assert_eq!(stubborn.code, Some(1), "{}", stubborn.stderr);
        assert!(lives(agent.pid()));
        let asked = std::fs::read_to_string(home.path().join("answers/asked")).expect("asked");
        assert!(
            asked.lines().any(|l| l.starts_with(&format!("POST /session/{A}/abort?directory="))),
            "{asked}"
        );
        // It obeys.
        says(&home, "session.status", &json!({B: {"type": "busy"}}));
        let stopped = home.run(&["stop", A]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(lives(agent.pid()), "the server serves others");
        let tool = written_pid(&home.path().join("answers/tool"));
        assert!(lives(tool), "it may be the other's");
        assert_eq!(list(&home).session(B)["status"], "running");
        // A tool of another session in the same server carries the same mark.
        let refused = home.run(&["stop", B, "--timeout", "300ms"]);
        assert_eq!(refused.code, Some(1), "the server knows no such route: {}", refused.stderr);
        assert!(lives(agent.pid()));
        agent.kill();
        store.message(B, 0, &answered("stop"));
        eventually("both have ended", || {
            let listed = list(&home);
            let ended = |id: &str| listed.session(id)["status"] == "stopped";
            (ended(A) && ended(B)).then_some(())
        });
    });
}

#[test]
fn a_server_that_does_not_listen_cannot_be_asked_and_is_not_signalled() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        let log = log(&home);
        let lines = [line("bbbb0002", "message=init"), works_on("bbbb0002", A)];
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let script = ["acp", "open", &database, "keep", &log, &lines[0], "keep", &log, &lines[1]];
        let mut agent = home.agent("opencode", "srv", &script);
        agent.ready();
        store.message(A, 0, &working());
        let listed = list(&home);
        assert_eq!((listed.session(A)["status"].clone(), listed.code), ("running".into(), Some(0)));
        let refused = home.run(&["stop", A]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(lives(agent.pid()));
    });
}

/// A server that does not answer may serve any session of its home: none that nothing else proves is over.
#[test]
fn no_session_is_over_while_a_server_of_its_home_does_not_answer() {
    sandboxed(|| {
        for (id, record) in [(A, answered("stop")), (B, working())] {
            let (home, store, directory) = world();
            crate::configure(&home, &[("live", "6s"), ("all", "8s")], "");
            store.session(id, &directory, None);
            // Its last activity is older than the server: a server may continue a session of any age.
            store.message(id, 60_000, &record);
            let ended = list(&home).session(id);
            assert_eq!(ended["status"], "stopped", "no process lives: {ended}");
            says(&home, "session.status", &json!({}));
            says(&home, "permission", &json!([]));
            let mut agent = server(&home, &[]);
            let pid = agent.pid();
            let assert_in_doubt = |when: &str| {
                let row = list(&home).session(id);
                assert_eq!(row["status"], "unknown", "{when}: {row}");
                assert!(row["reason"]["detail"].to_string().contains(&pid.to_string()), "{row}");
                let stop = home.run(&["stop", id]);
                assert_ne!(stop.code, Some(0), "{when}: {}{}", stop.stdout, stop.stderr);
                assert!(!stop.stdout.contains("already"), "{when}: {}", stop.stdout);
                assert!(lives(pid), "{when}");
            };
            std::fs::remove_file(home.path().join("answers/session.status")).expect("removed");
            assert_in_doubt("it refuses to answer");
            says(&home, "session.status", &json!({}));
            crate::daemon::signal(pid, rustix::process::Signal::STOP);
            assert_in_doubt("it is paused");
            crate::daemon::signal(pid, rustix::process::Signal::CONT);
            agent.kill();
            assert_eq!(list(&home).session(id)["status"], "stopped", "the server has ended");
        }
    });
}

#[test]
fn a_message_waits_for_the_end_of_the_turn_if_that_is_ordered() {
    sandboxed(|| {
        let (home, store, _agent) = hosted();
        let route = format!("session.{A}.prompt_async");
        says(&home, &route, &json!(true));
        let prompts = || {
            let asked = std::fs::read_to_string(home.path().join("answers/asked"));
            let prompt = format!("POST /session/{A}/prompt_async?");
            asked.expect("asked").lines().filter(|line| line.starts_with(&prompt)).count()
        };
        let refused = home.run(&["send", A, "hello"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains("--when-idle"), "{}", refused.stderr);
        let mut command = home.command(&["send", A, "hello", "--when-idle"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let sender = Running(command.spawn().expect("started")).asleep();
        assert_eq!(prompts(), 0, "the turn is not over");
        says(&home, "session.status", &json!({B: {"type": "busy"}}));
        store.message(A, 0, &answered("stop"));
        eventually("it is handed over", || (prompts() == 1).then_some(()));
        says(&home, "session.status", &json!({A: {"type": "busy"}, B: {"type": "busy"}}));
        let message = store.message(A, 0, &asked());
        store.part(A, &message, &json!({"type": "text", "text": "hello"}));
        let sent = sender.output();
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert_eq!(prompts(), 1, "once");
    });
}

/// The server is asked at every look, so the log of its questions counts the lists.
#[test]
fn a_group_without_a_session_costs_one_list_of_all_sessions() {
    sandboxed(|| {
        let (home, _store, _agent) = hosted();
        let questions = |args: &[&str]| {
            let asked = || std::fs::read_to_string(home.path().join("answers/asked"));
            let before = asked().unwrap_or_default().lines().count();
            let _listed = home.run(args);
            asked().expect("asked").lines().count() - before
        };
        let live = questions(&["list", "--json"]);
        let all = questions(&["list", "-a", "--json"]);
        assert!(live > 0 && all > 0, "{live} {all}");
        assert_eq!(questions(&["list", "--group", "gone", "--json"]), live + all);
        assert_eq!(questions(&["wait", "--group", "gone"]), all);
    });
}
