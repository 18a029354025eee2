//! OpenCode alive: processes distinguished by their position in the shared log, their arguments, their
//! tools.

use std::path::PathBuf;

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use testkit::{Agent, Output, TestHome, eventually, sandboxed};

use crate::{assert_list_equals_status, home};

pub(crate) const A: &str = "ses_e21d53d21ffenJ928Bg2VLqUAA";
pub(crate) const B: &str = "ses_e21d53d21ffenJ928Bg2VLqUAB";
pub(crate) const C: &str = "ses_e21d53d21ffenJ928Bg2VLqUAC";
pub(crate) const DATA: &str = ".local/share/opencode";

/// The columns that OpenCode 1.18 has and we read, with its own indices.
const SCHEMA: &str = "
create table session (id text primary key, slug text not null, parent_id text, directory text not null, title text not null,
  model text, cost real default 0 not null, tokens_input integer default 0 not null,
  tokens_output integer default 0 not null, tokens_reasoning integer default 0 not null,
  tokens_cache_read integer default 0 not null, tokens_cache_write integer default 0 not null,
  time_created integer not null, time_updated integer not null);
create table message (id text primary key, session_id text not null, time_created integer not null,
  time_updated integer not null, data text not null);
create table part (id text primary key, message_id text not null, session_id text not null,
  time_created integer not null, time_updated integer not null, data text not null);
create index m on message (session_id, time_created, id);
create index p on part (message_id, id);";

/// A database with a live writer.
pub(crate) struct Store {
    pub(crate) connection: Connection,
    count: std::cell::Cell<i64>,
}

pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    i64::try_from(since.as_millis()).expect("fits")
}

impl Store {
    pub(crate) fn new(home: &TestHome, path: &str) -> Self {
        let connection = Connection::open(home.at(path)).expect("made");
        connection.pragma_update(None, "journal_mode", "WAL").expect("wal");
        connection.execute_batch(SCHEMA).expect("a schema");
        Self { connection, count: std::cell::Cell::new(0) }
    }

    /// Adds a session that is older than any process of the test.
    pub(crate) fn session(&self, id: &str, directory: &str, parent: Option<&str>) {
        self.session_made(id, directory, parent, 3_600_000);
    }

    /// Adds a session that was created this many milliseconds ago.
    pub(crate) fn session_made(
        &self,
        id: &str,
        directory: &str,
        parent: Option<&str>,
        ago_ms: i64,
    ) {
        let now = now_ms() - ago_ms;
        self.connection
            .execute(
                "insert into session values (?1, 'quiet-fox', ?2, ?3, 'a title', null, 0.5, 10, 4, 1, 3, 2, ?4, ?4)",
                params![id, parent, directory, now],
            )
            .expect("a session");
    }

    /// Adds a message, begun this many milliseconds ago, and returns its id.
    pub(crate) fn message(&self, session: &str, ago_ms: i64, data: &Value) -> String {
        let (at, count) = (now_ms() - ago_ms, self.count.get());
        self.count.set(count + 1);
        let id = format!("msg_{count:04}");
        self.connection
            .execute(
                "insert into message values (?1, ?2, ?3, ?3, ?4)",
                params![id, session, at, data.to_string()],
            )
            .expect("a message");
        id
    }

    pub(crate) fn part(&self, session: &str, message: &str, data: &Value) {
        let count = self.count.get();
        self.count.set(count + 1);
        self.connection
            .execute(
                "insert into part values (?1, ?2, ?3, ?4, ?4, ?5)",
                params![format!("prt_{count:04}"), message, session, now_ms(), data.to_string()],
            )
            .expect("a part");
    }

    /// Adds an answer that is in this tool call.
    pub(crate) fn tool(&self, session: &str, tool: &str, state: &Value) {
        let message = self.message(session, 0, &working());
        self.part(session, &message, &json!({"type": "tool", "tool": tool, "state": state}));
    }
}

pub(crate) fn asked() -> Value {
    json!({"role": "user", "time": {"created": 1}})
}

pub(crate) fn working() -> Value {
    json!({"role": "assistant", "time": {"created": 1}})
}

pub(crate) fn answered(finish: &str) -> Value {
    json!({"role": "assistant", "time": {"created": 1, "completed": 2}, "finish": finish})
}

pub(crate) fn log(home: &TestHome) -> String {
    home.at(&format!("{DATA}/log/opencode.log")).to_string_lossy().into_owned()
}

pub(crate) fn line(run: &str, rest: &str) -> String {
    format!("timestamp=2026-11-15T07:45:06.222Z level=INFO run={run} {rest}")
}

/// A line of a process that was written after every message of the test.
pub(crate) fn later_line(run: &str, rest: &str) -> String {
    format!("timestamp=2199-01-01T00:00:00.000Z level=INFO run={run} {rest}")
}

pub(crate) fn works_on(run: &str, id: &str) -> String {
    line(run, &format!("message=loop session.id={id} step=0"))
}

/// Starts an OpenCode with these arguments that has written these lines into the shared log.
pub(crate) fn agent(home: &TestHome, args: &[&str], lines: &[String]) -> Agent {
    let (log, database) = (log(home), home.at(&format!("{DATA}/opencode.db")));
    let database = database.to_string_lossy().into_owned();
    let mut script: Vec<&str> = args.to_vec();
    // Its session must be in the log before it can serve anything.
    for line in lines {
        script.extend(["keep", &log, line]);
    }
    script.extend(["open", &database]);
    let mut agent = home.agent("opencode", "ws", &script);
    agent.ready();
    agent
}

pub(crate) fn world() -> (TestHome, Store, String) {
    let home = home();
    let store = Store::new(&home, &format!("{DATA}/opencode.db"));
    let directory = home.path().join("ws").to_string_lossy().into_owned();
    (home, store, directory)
}

pub(crate) fn list(home: &TestHome) -> Output {
    home.run(&["list", "-a", "--since", "all", "--json"])
}

pub(crate) fn said(row: &Value) -> (String, String) {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    (text(&row["status"]), text(&row["reason"]["kind"]))
}

#[test]
fn the_log_position_distinguishes_processes_of_one_directory() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let mut agents = Vec::new();
        for (id, run) in [(A, "aaaa0001"), (B, "aaaa0002"), (C, "aaaa0003")] {
            store.session(id, &directory, None);
            let lines = [line(run, "message=init"), works_on(run, id)];
            agents.push((id, agent(&home, &["run", "hello"], &lines)));
        }
        // The last writer does not decide for the others.
        for (id, _) in &agents {
            store.message(id, 0, &working());
        }
        let listed = list(&home);
        for (id, agent) in &agents {
            let row = listed.session(id);
            assert_eq!((&row["pid"], &row["status"]), (&agent.pid().into(), &"running".into()));
            assert_eq!((&row["hosted"], &row["cwd"]), (&false.into(), &directory.as_str().into()));
        }
        assert_eq!(listed.sessions().len(), 3, "{}", listed.stdout);
        assert_list_equals_status(&home);
        agents[1].1.kill();
        let left = list(&home).session(B);
        assert_eq!((&left["status"], &left["outcome"]), (&"stopped".into(), &"killed".into()));
        assert_eq!(list(&home).session(A)["status"], "running");
        let status = home.run(&["status", A, "--json"]).json();
        assert_eq!(
            status["tokens"],
            json!({"input": 10, "output": 5, "cache_read": 3, "cache_write": 2})
        );
    });
}

#[test]
fn a_terminal_serves_the_session_it_is_in_and_those_it_left_at_work() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let run = "aaaa0001";
        let over = line(run, &format!("message=\"exiting loop\" session.id={A}"));
        let lines = [works_on(run, A), over, works_on(run, B), works_on(run, C)];
        for id in [A, B, C] {
            store.session(id, &directory, None);
        }
        let agent = agent(&home, &[], &lines);
        for (id, message) in [(A, answered("stop")), (B, working()), (C, answered("stop"))] {
            store.message(id, 0, &message);
        }
        let listed = list(&home);
        // It may have gone back there: that shows only after the next prompt.
        let left = listed.session(A);
        assert_eq!((said(&left).0.as_str(), &left["pid"]), ("unknown", &Value::Null), "{left}");
        for (id, status) in [(B, "running"), (C, "idle")] {
            let row = listed.session(id);
            assert_eq!((&row["status"], &row["pid"]), (&status.into(), &agent.pid().into()));
        }
        assert_list_equals_status(&home);
    });
}

#[test]
fn every_state_of_a_terminal_is_distinguished() {
    sandboxed(|| {
        let tool = |tool: &str, state: Value| json!({"type": "tool", "tool": tool, "state": state});
        let shell = tool(
            "bash",
            json!({"status": "running", "input": {"command": "make"}, "metadata": {"output": ""}}),
        );
        let question = tool(
            "question",
            json!({"status": "running", "input": {"questions": [{"question": "Which?"}]}}),
        );
        let refused = tool(
            "bash",
            json!({"status": "error", "error": "The user rejected permission to use this specific tool call."}),
        );
        let failed = json!({"role": "assistant", "time": {"completed": 2}, "error": {"name": "APIError", "data": {"message": "no"}}});
        let aborted = json!({"role": "assistant", "time": {"completed": 2}, "error": {"name": "MessageAbortedError", "data": {}}});
        let cases = [
            (asked(), None, ("running", "-"), ("stopped", "killed")),
            (working(), None, ("running", "-"), ("stopped", "killed")),
            (working(), Some(&shell), ("running", "tool"), ("stopped", "killed")),
            (working(), Some(&question), ("waiting", "question"), ("stopped", "killed")),
            (answered("stop"), None, ("idle", "-"), ("stopped", "finished")),
            (answered("length"), None, ("idle", "-"), ("stopped", "finished")),
            (answered("tool-calls"), None, ("running", "-"), ("stopped", "killed")),
            (answered("tool-calls"), Some(&refused), ("idle", "-"), ("stopped", "finished")),
            (failed, None, ("idle", "-"), ("error", "failed")),
            (aborted, None, ("idle", "-"), ("stopped", "interrupted")),
        ];
        for (message, part, alive, dead) in cases {
            let (home, store, directory) = world();
            store.session(A, &directory, None);
            let mut agent = agent(&home, &[], &[works_on("aaaa0001", A)]);
            let id = store.message(A, 0, &message);
            if let Some(part) = part {
                store.part(A, &id, part);
            }
            let row = list(&home).session(A);
            assert_eq!(said(&row), (alive.0.to_owned(), alive.1.to_owned()), "{message} {part:?}");
            assert_list_equals_status(&home);
            agent.kill();
            let row = list(&home).session(A);
            assert_eq!(row["status"], dead.0, "{message} {part:?}");
            assert_eq!(row["outcome"], dead.1, "{message} {part:?}");
        }
    });
}

#[test]
fn waiting_is_reported_only_if_a_source_shows_it() {
    sandboxed(|| {
        let ask = |what: &str| {
            line(
                "aaaa0001",
                &format!("message=asking id=per_1 permission={what} patterns=\"[\\\"x\\\"]\""),
            )
        };
        let (quiet, begun) = (
            json!({"status": "running", "input": {"command": "make"}}),
            json!({"status": "running", "input": {"command": "make"}, "metadata": {"output": ""}}),
        );
        let went_on = works_on("aaaa0001", A);
        let terminal: &[&str] = &[];
        let run: &[&str] = &["run", "x"];
        let cases = [
            (terminal, vec![ask("bash")], &quiet, ("waiting", "permission")),
            (terminal, vec![], &quiet, ("running", "tool")),
            (terminal, vec![ask("bash")], &begun, ("running", "tool")),
            (terminal, vec![ask("bash"), went_on], &quiet, ("running", "tool")),
            // Nothing shows when a fetch has been allowed: it may be at it.
            (terminal, vec![ask("webfetch")], &quiet, ("running", "tool")),
            // Without a terminal no user is asked: it is refused at once.
            (run, vec![ask("bash")], &quiet, ("running", "tool")),
        ];
        for (index, (args, lines, state, expected)) in cases.iter().enumerate() {
            let (home, store, directory) = world();
            store.session(A, &directory, None);
            let mut all = vec![works_on("aaaa0001", A)];
            all.extend(lines.iter().cloned());
            let _agent = agent(&home, args, &all);
            store.tool(A, "bash", state);
            let row = list(&home).session(A);
            assert_eq!(said(&row), (expected.0.to_owned(), expected.1.to_owned()), "case {index}");
            let noted = row["notes"].to_string().contains("asked for a permission");
            assert_eq!(noted, index == 4, "case {index}: {}", row["notes"]);
            assert_list_equals_status(&home);
        }
    });
}

#[test]
fn a_failed_model_call_that_is_not_tried_again_yet_is_a_retry() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        let failed = line(
            "aaaa0001",
            &format!(
                "message=\"stream error\" session.id={A} agent=build error.error=\"AI_APICallError: 429\""
            ),
        );
        let _agent = agent(&home, &[], &[works_on("aaaa0001", A), failed]);
        store.message(A, 0, &working());
        let row = list(&home).session(A);
        assert_eq!(said(&row), ("running".into(), "retrying".into()));
        assert_eq!(row["reason"]["detail"], "AI_APICallError: 429");
        // Its end is in the record: then that counts.
        store.message(A, 0, &answered("stop"));
        assert_eq!(said(&list(&home).session(A)), ("idle".into(), "-".into()));
    });
}

#[test]
fn arguments_count_for_run_and_for_a_terminal_that_has_not_moved_on() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.session(B, &directory, None);
        // It has written since, and nothing of the open turn: a process that died has left that.
        store.message(A, 60_000, &working());
        let mut terminal = agent(&home, &["-s", A], &[later_line("aaaa0001", "message=init")]);
        let row = list(&home).session(A);
        assert_eq!(
            (said(&row), &row["pid"]),
            (("idle".into(), "-".into()), &terminal.pid().into())
        );
        terminal.kill();
        // In a terminal the user may switch to another session.
        let mut moved = agent(&home, &["-s", A], &[works_on("aaaa0002", B)]);
        store.message(B, 0, &working());
        assert_eq!(list(&home).session(B)["pid"], moved.pid());
        assert_eq!(list(&home).session(A)["status"], "unknown", "it may have gone back there");
        moved.kill();
        let mut resumed = agent(&home, &["run", "--session", A, "more"], &[]);
        let row = list(&home).session(A);
        assert_eq!(
            (said(&row), &row["pid"]),
            (("running".into(), "starting".into()), &resumed.pid().into())
        );
        store.message(A, 0, &asked());
        assert_eq!(said(&list(&home).session(A)), ("running".into(), "starting".into()));
        store.message(A, 0, &working());
        assert_eq!(said(&list(&home).session(A)), ("running".into(), "-".into()));
        // A fork is not the session it comes from.
        resumed.kill();
        let mut fork =
            agent(&home, &["run", "--fork", "--session", A], &[line("aaaa0003", "message=init")]);
        assert_eq!(list(&home).session(A)["pid"], Value::Null);
        let rows = list(&home).sessions();
        let row = rows.iter().find(|r| r["pid"] == fork.pid()).expect("a row of its own");
        assert_eq!(
            (row["id"].clone(), said(row)),
            (Value::Null, ("running".into(), "starting".into()))
        );
        fork.kill();
        // Two at the same time: one row, and both are named.
        let one = agent(&home, &["run", "--session", A], &[]);
        let two = agent(&home, &["run", "-s", A], &[]);
        let row = list(&home).session(A);
        assert_eq!(row["processes"].as_array().map(Vec::len), Some(2), "{row}");
        drop((one, two));
    });
}

#[test]
fn a_process_of_which_nothing_is_known_leaves_its_directory_in_doubt() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.session(B, "/elsewhere", None);
        let mut silent = agent(&home, &["run", "x"], &[]);
        store.message(A, 0, &answered("stop"));
        store.message(B, 0, &answered("stop"));
        let listed = list(&home);
        let row = listed.session(A);
        assert_eq!(said(&row), ("unknown".into(), "ambiguous".into()));
        assert!(
            row["reason"]["detail"].as_str().is_some_and(|d| d.contains(&silent.pid().to_string()))
        );
        assert_eq!(listed.session(B)["status"], "stopped", "it is another directory's");
        assert_list_equals_status(&home);
        silent.kill();
        assert_eq!(list(&home).session(A)["status"], "stopped");
        // Its child process identifies it.
        store.message(A, 0, &asked());
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let tool = "exec sleep 86399";
        let mut found =
            home.agent("opencode", "ws", &["run", "x", "open", &database, "start", tool]);
        found.ready();
        store.tool(
            A,
            "bash",
            &json!({"status": "running", "input": {"command": "sleep 86399"}, "metadata": {}}),
        );
        let row = eventually("its tool is seen", || {
            Some(list(&home).session(A)).filter(|row| row["status"] == "running")
        });
        assert_eq!(row["pid"], found.pid());
    });
}

#[test]
fn a_session_without_a_log_line_may_belong_to_any_process() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let mut run = agent(&home, &["run", "x"], &[line("aaaa0001", "message=init")]);
        // The database is written before the log.
        store.session_made(A, &directory, None, 0);
        store.session_made(B, "/elsewhere", None, 0);
        let listed = list(&home);
        assert_eq!(said(&listed.session(A)), ("unknown".into(), "ambiguous".into()));
        assert_eq!(listed.session(B)["status"], "stopped", "it does not work there");
        assert_eq!(home.run(&["resume", A, "x", "--cwd", &directory]).code, Some(5));
        assert_list_equals_status(&home);
        run.kill();
        assert_eq!(list(&home).session(A)["status"], "stopped");
        // A process that has written since would have mentioned it.
        let _idle = agent(&home, &[], &[later_line("aaaa0002", "message=init")]);
        store.session_made(C, &directory, None, 0);
        assert_eq!(list(&home).session(C)["status"], "stopped");
    });
}

#[test]
fn subagents_are_below_their_parent_and_their_work_is_its_work() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.session(B, &directory, Some(A));
        store.session(C, &directory, Some(B));
        let lines = [works_on("aaaa0001", A), works_on("aaaa0001", B), works_on("aaaa0001", C)];
        let mut agent = agent(&home, &["run", "x"], &lines);
        store.tool(A, "task", &json!({"status": "running", "input": {"description": "sub job"}, "metadata": {"sessionId": B}}));
        store.message(B, 0, &working());
        let top = list(&home).sessions();
        assert_eq!(top.len(), 1, "{top:?}");
        assert_eq!((&top[0]["id"], &top[0]["pid"]), (&A.into(), &agent.pid().into()));
        let tree = home.run(&["list", "--tree", "--json"]);
        assert_eq!(
            (&tree.session(B)["parent"], &tree.session(B)["status"]),
            (&A.into(), &"running".into())
        );
        assert_eq!(tree.session(C)["parent"], B);
        let status = home.run(&["status", A, "--json"]).json();
        assert_eq!((&status["tokens"]["input"], &status["cost_usd"]), (&30.into(), &1.5.into()));
        let refused = home.run(&["stop", B]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        agent.kill();
        assert_eq!(home.run(&["status", B, "--json"]).json()["status"], "stopped");
    });
}

#[test]
fn before_1_18_each_process_has_a_log_and_a_name_of_its_own() {
    sandboxed(|| {
        let (home, store, directory) = world();
        let database = home.at(&format!("{DATA}/opencode.db")).to_string_lossy().into_owned();
        let mut agents = Vec::new();
        for (id, log) in [(A, "2026-11-15T145617.log"), (B, "2026-11-15T145618.log")] {
            store.session(id, &directory, None);
            let log = home.at(&format!("{DATA}/log/{log}")).to_string_lossy().into_owned();
            let line = format!(
                "INFO  2026-11-15T14:57:16 +0ms service=session.prompt step=0 sessionID={id} loop"
            );
            let script = ["run", "x", "open", &database, "keep", &log, &line];
            let mut agent = home.agent(".opencode", "ws", &script);
            agent.ready();
            store.message(id, 0, &working());
            agents.push((id, agent));
        }
        for (id, agent) in &agents {
            let row = list(&home).session(id);
            assert_eq!((&row["status"], &row["pid"]), (&"running".into(), &agent.pid().into()));
        }
    });
}

#[test]
fn helpers_clients_and_idle_servers_are_no_sessions() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        // Older than any of them beyond doubt: start times have a grain.
        store.connection.execute("update session set time_created = 1", []).expect("aged");
        store.message(A, 0, &answered("stop"));
        let words: [&[&str]; 6] = [
            &["run", "--attach", "http://127.0.0.1:4096", "--session", A, "x"],
            &["attach", "http://127.0.0.1:4096"],
            &["models"],
            &["import", "/dev/stdin"],
            &["--version"],
            &["serve", "--port", "0"],
        ];
        let lines = [line("aaaa0001", "message=init")];
        let _agents: Vec<Agent> = words.iter().map(|args| agent(&home, args, &lines)).collect();
        let rows = list(&home).sessions();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((&rows[0]["id"], &rows[0]["status"]), (&A.into(), &"stopped".into()));
    });
}

#[test]
fn homes_come_from_the_environment_and_from_live_processes() {
    sandboxed(|| {
        let (mut home, store, directory) = world();
        store.session(A, &directory, None);
        let moved = Store::new(&home, "moved/opencode/opencode.db");
        moved.session(B, "/b", None);
        let other = Store::new(&home, "other.sqlite");
        other.session(C, "/c", None);
        let channel = Store::new(&home, &format!("{DATA}/opencode-dev.db"));
        channel.session("ses_channel", "/d", None);
        let ids = |home: &TestHome| -> Vec<String> {
            let rows = list(home).sessions();
            rows.iter().filter_map(|r| r["id"].as_str().map(str::to_owned)).collect()
        };
        let has = |home: &TestHome, id: &str| ids(home).iter().any(|i| i == id);
        assert!(has(&home, A) && has(&home, "ses_channel") && !has(&home, B) && !has(&home, C));
        // Homes that only live processes name.
        let place = home.path();
        let at = |path: &str| -> PathBuf { place.join(path) };
        let (data, database) = (at("moved"), at("other.sqlite"));
        home.set("XDG_DATA_HOME", data.to_string_lossy());
        let one = agent(&home, &["run", "--session", B], &[]);
        assert!(has(&home, B) && !has(&home, A), "XDG_DATA_HOME is honoured");
        home.set("XDG_DATA_HOME", "");
        let row = list(&home).session(B);
        assert_eq!(
            (&row["pid"], &row["root"]),
            (&one.pid().into(), &at("moved/opencode").to_string_lossy().as_ref().into())
        );
        home.set("OPENCODE_DB", database.to_string_lossy());
        assert!(has(&home, C), "OPENCODE_DB is honoured");
        let two = agent(&home, &["run", "--session", C], &[]);
        home.set("OPENCODE_DB", "");
        assert_eq!(list(&home).session(C)["pid"], two.pid());
        assert_list_equals_status(&home);
        drop((one, two));
        assert!(!has(&home, B) && !has(&home, C) && has(&home, A));
    });
}

#[test]
fn a_live_database_is_read_and_left_as_it_is() {
    sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &answered("stop"));
        let folder = home.path().join(DATA);
        let picture = || {
            let mut all: Vec<_> = std::fs::read_dir(&folder)
                .expect("listed")
                .flatten()
                .map(|e| (e.file_name(), e.metadata().expect("there").len()))
                .collect();
            all.sort();
            all
        };
        let before = picture();
        for args in [&["list", "-a"][..], &["status", A], &["logs", A], &["why", A], &["doctor"]] {
            let _answer = home.run(args);
        }
        assert_eq!(picture(), before);
        store.session(B, &directory, None);
        assert_eq!(list(&home).sessions().len(), 2, "the writer's newest row is seen");
    });
}
