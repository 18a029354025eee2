//! `asks`, `answer`, `approve`, `deny`: everything that waits for a human, and answers that are taken once.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::events::Stream;
use crate::home;
use crate::inbox_bars::rounds;
use crate::launched::{folder, launch, status, until_said, until_stopped};
use crate::wait::Running;

/// Waits until a session has an ask, and returns the ask.
pub(crate) fn ask_of(home: &TestHome, session: &str) -> Value {
    eventually("the session asks", || {
        let document = home.run(&["asks", "--json"]).json();
        let asks = document["asks"].as_array().expect("asks").clone();
        asks.into_iter().find(|ask| ask["session_id"] == session)
    })
}

pub(crate) fn id_of(ask: &Value) -> String {
    ask["id"].as_str().expect("an id").to_owned()
}

fn answer(home: &TestHome, ask: &Value, decision: &[&str]) -> Output {
    let id = id_of(ask);
    home.run(&[&["answer", id.as_str()], decision].concat())
}

fn live_record(home: &TestHome, pid: &Value) -> Value {
    let path = format!(".local/share/agentctl-demo/live/{pid}.json");
    serde_json::from_slice(&fs::read(home.path().join(path)).expect("a record")).expect("JSON")
}

/// Sends one line to the socket of the demo agent that asks, and returns its reply.
fn say_to_demo(home: &TestHome, ask: &Value, line: &Value) -> Value {
    let socket = format!(".local/share/agentctl-demo/live/{}.sock", ask["pid"]);
    let mut stream = UnixStream::connect(home.path().join(socket)).expect("it listens");
    writeln!(stream, "{line}").expect("sent");
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).expect("a reply");
    serde_json::from_str(&reply).expect("JSON")
}

/// Answers an ask of the demo agent without this program, as its own terminal would.
pub(crate) fn settle_elsewhere(home: &TestHome, ask: &Value) {
    let native = live_record(home, &ask["pid"])["ask"]["id"].clone();
    let taken = say_to_demo(home, ask, &json!({"answer": {"ask": native, "allow": true}}));
    assert_eq!(taken["taken"], true);
}

/// Sets the mark of a living agent, as a process that the agent has started has it.
pub(crate) fn mark_as_below(home: &mut TestHome, session: &str) {
    let pid = status(home, session)["pid"].to_string();
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("it lives");
    let environ = String::from_utf8_lossy(&environ).into_owned();
    let marker = environ.split('\0').find_map(|v| v.strip_prefix("AGENTCTL_RUN="));
    home.set("AGENTCTL_RUN", marker.expect("a marker"));
}

#[test]
fn a_permission_is_listed_in_full_and_runs_once_it_is_allowed() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch hello]] [[say:done]]", &[]);
        let ask = ask_of(&home, &id);
        let whole = (&ask["kind"], &ask["title"], &ask["via"], &ask["why_not"]);
        let expected = (&json!("permission"), &json!("shell: touch hello"), &json!("socket"));
        assert_eq!(whole, (expected.0, expected.1, expected.2, &Value::Null));
        assert_eq!(ask["tool"]["input"], json!({"command": "touch hello"}));
        assert_eq!(ask["parts"], json!([{"kind": "command", "text": "touch hello", "cut": false}]));
        let keys: Vec<&Value> =
            ask["choices"].as_array().expect("choices").iter().map(|c| &c["key"]).collect();
        assert_eq!(keys, ["allow", "deny", "always:1", "stop"]);
        assert_eq!(status(&home, &id)["reason"]["kind"], "permission");
        assert!(!home.path().join("w/hello").exists());
        let page = home.run(&["asks", &id_of(&ask)[..8]]).stdout;
        assert!(page.contains("  touch hello\n") && page.contains("--always 1"), "{page}");
        let taken = answer(&home, &ask, &["--allow", "--json"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert!(taken.json()["moved"]["says"].is_string(), "{}", taken.stdout);
        until_stopped(&home, &id);
        assert!(home.path().join("w/hello").exists());
        let again = answer(&home, &ask, &["--allow"]);
        assert_eq!(again.code, Some(4), "{}", again.stderr);
        assert_eq!(home.run(&["asks", "--json"]).json()["asks"], json!([]));
    });
}

#[test]
fn a_denial_goes_on_with_the_words_and_stop_ends_the_turn() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch no]] [[say:after]]", &[]);
        let denied = answer(&home, &ask_of(&home, &id), &["--deny", "--message", "not today"]);
        assert_eq!(denied.code, Some(0), "{}", denied.stderr);
        until_said(&home, &id, "after");
        let said = home.run(&["logs", &id, "--json"]).stdout;
        assert!(said.contains("denied: not today"), "{said}");
        assert!(!home.path().join("w/no").exists());
        let id = launch(&home, "v", "x [[permit:touch no]] [[say:never]]", &[]);
        assert_eq!(answer(&home, &ask_of(&home, &id), &["--stop"]).code, Some(0));
        until_stopped(&home, &id);
        assert_eq!(status(&home, &id)["outcome"], "interrupted");
    });
}

#[test]
fn words_that_no_decision_delivers_are_refused() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch no]] [[hang]]", &[]);
        let ask = ask_of(&home, &id);
        let none: &[&str] = &[];
        for decision in [&["--allow"][..], &["--stop"], &["--always", "1"], &["--text", "t"], none]
        {
            let refused = answer(&home, &ask, &[decision, &["--message", "words"]].concat());
            assert_eq!(refused.code, Some(2), "{decision:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("--message goes only with --deny"), "{decision:?}");
        }
        assert_eq!(ask_of(&home, &id)["id"], ask["id"], "nothing was answered");
    });
}

#[test]
fn always_stores_the_rule_that_was_shown() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:echo a >> f]] [[permit:echo a >> f]]", &[]);
        let ask = ask_of(&home, &id);
        assert_eq!(ask["choices"][2]["rule"], "echo a >> f");
        assert_eq!(answer(&home, &ask, &["--always", "2"]).code, Some(2), "there is no rule 2");
        assert_eq!(answer(&home, &ask, &["--always", "1"]).code, Some(0));
        until_stopped(&home, &id);
        assert_eq!(fs::read_to_string(home.path().join("w/f")).expect("ran twice"), "a\na\n");
    });
}

#[test]
fn a_question_takes_an_option_by_number_or_its_own_words() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Which colour?|Red|Blue]]", &[]);
        let ask = ask_of(&home, &id);
        assert_eq!(ask["fields"][0]["options"][1]["label"], "Blue");
        let refused = answer(&home, &ask, &["--allow"]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("--option 1"), "{}", refused.stderr);
        assert_eq!(answer(&home, &ask, &["--option", "3"]).code, Some(2));
        assert_eq!(answer(&home, &ask, &["--option", "2"]).code, Some(0));
        until_stopped(&home, &id);
        assert!(home.run(&["logs", &id, "--json"]).stdout.contains("\"Blue\""));
        let id = launch(&home, "v", "x [[ask:Why?]]", &[]);
        let ask = ask_of(&home, &id);
        assert_eq!(answer(&home, &ask, &["--text", "-1 because $(x)"]).code, Some(0));
        until_stopped(&home, &id);
        assert!(home.run(&["logs", &id, "--json"]).stdout.contains("-1 because $(x)"));
    });
}

#[test]
fn an_ask_is_named_by_its_id_and_never_by_its_session() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]]", &["--name", "painter"]);
        let ask = ask_of(&home, &id);
        let pid = ask["pid"].to_string();
        let five = &id_of(&ask)[..5];
        for text in [id.as_str(), "painter", &pid, "@last", ".", five, "ABCDEF", "zzzzzz"] {
            let refused = home.run(&["answer", text, "--allow"]);
            assert!(matches!(refused.code, Some(2 | 4)), "{text}: {:?}", refused.code);
        }
        assert_eq!(home.run(&["answer"]).code, Some(2), "no decision off a terminal");
        assert_eq!(home.run(&["answer", &id_of(&ask)[..6]]).code, Some(2));
        assert_eq!(ask_of(&home, &id)["id"], ask["id"], "nothing was answered");
        let rows = home.run(&["asks", "painter", "-q"]).stdout;
        assert_eq!(rows.trim(), id_of(&ask), "asks shows the asks of a session");
        assert_eq!(home.run(&["approve", &id_of(&ask)[..6]]).code, Some(0));
    });
}

#[test]
fn what_waits_and_what_asks_are_the_same_sessions() {
    sandboxed(|| {
        let home = home();
        for (at, prompt) in
            ["[[permit:true]]", "[[ask:a?]]", "[[hang]]", "[[ask:b?|c|d]]"].iter().enumerate()
        {
            launch(&home, &format!("w{at}"), &format!("x {prompt}"), &[]);
        }
        eventually("three wait", || {
            let listed = home.run(&["list", "--json"]).sessions();
            let waiting = listed.iter().filter(|s| s["status"] == "waiting").map(|s| &s["id"]);
            let mut waiting: Vec<String> = waiting.map(Value::to_string).collect();
            waiting.sort();
            let document = home.run(&["asks", "--json"]).json();
            let asks = document["asks"].as_array().expect("asks").iter();
            let mut asking: Vec<String> = asks.map(|ask| ask["session_id"].to_string()).collect();
            asking.sort();
            (waiting.len() == 3 && waiting == asking).then_some(())
        });
    });
}

#[test]
fn of_many_answers_at_once_exactly_one_is_taken() {
    const ANSWERERS: usize = 8;
    sandboxed(|| {
        let home = home();
        for round in 0..rounds(12) {
            let cwd = format!("w{round}");
            let prompt = "x [[permit:echo ran >> ran]] [[say:after]]";
            let id = launch(&home, &cwd, prompt, &[]);
            let ask = id_of(&ask_of(&home, &id));
            let started: Vec<Running> = (0..ANSWERERS)
                .map(|at| {
                    let decision = if at % 2 == 0 { "--allow" } else { "--deny" };
                    let mut command = home.command(&["answer", &ask, decision]);
                    Running(
                        command
                            .stdout(Stdio::piped())
                            .stderr(Stdio::piped())
                            .spawn()
                            .expect("runs"),
                    )
                })
                .collect();
            let outputs: Vec<Output> = started.into_iter().map(Running::output).collect();
            let taken: Vec<&Output> = outputs.iter().filter(|o| o.code == Some(0)).collect();
            assert_eq!(taken.len(), 1, "{outputs:?}");
            let lost = outputs.iter().filter(|o| o.code != Some(0));
            assert!(lost.into_iter().all(|o| matches!(o.code, Some(1 | 4 | 5))), "{outputs:?}");
            until_stopped(&home, &id);
            let ran = fs::read_to_string(home.path().join(&cwd).join("ran")).unwrap_or_default();
            let allowed = taken[0].stdout.starts_with("allowed");
            assert_eq!(ran, if allowed { "ran\n" } else { "" }, "{outputs:?}");
        }
    });
}

#[test]
fn the_mark_of_a_launched_agent_refuses_an_answer_also_after_its_end() {
    sandboxed(|| {
        let mut home = home();
        let asking = launch(&home, "w", "x [[permit:true]]", &[]);
        let other = launch(&home, "v", "x [[hang]]", &[]);
        let ask = id_of(&ask_of(&home, &asking));
        let pid = status(&home, &other)["pid"].to_string();
        mark_as_below(&mut home, &other);
        let refused = home.run(&["answer", &ask, "--allow"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let raw = Pid::from_raw(pid.parse().expect("a pid")).expect("a pid");
        kill_process(raw, Signal::KILL).expect("it lives");
        until_stopped(&home, &other);
        let refused = home.run(&["answer", &ask, "--allow"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("has ended and started this process"),
            "{}",
            refused.stderr
        );
    });
}

#[test]
fn the_id_of_an_ask_covers_the_call_and_its_input() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]] [[permit:true]]", &[]);
        let first = ask_of(&home, &id);
        assert_eq!(answer(&home, &first, &["--allow"]).code, Some(0));
        let second = eventually("the next ask", || {
            let ask = ask_of(&home, &id);
            (ask["id"] != first["id"]).then_some(ask)
        });
        assert_eq!(first["title"], second["title"], "the same text");
        assert_eq!(answer(&home, &first, &["--deny"]).code, Some(4), "the first is settled");
        assert_eq!(answer(&home, &second, &["--allow"]).code, Some(0));
    });
}

#[test]
fn a_long_command_is_shown_whole_or_cannot_be_allowed() {
    sandboxed(|| {
        let home = home();
        let long = format!("true {}; echo the end", "x".repeat(100_000));
        let id = launch(&home, "w", &format!("x [[permit:{long}]]"), &[]);
        let ask = ask_of(&home, &id);
        assert_eq!(ask["parts"][0]["text"], long);
        let page = home.run(&["asks", &id_of(&ask)]).stdout;
        assert!(page.contains("; echo the end\n"), "the end is shown");
        assert_eq!(answer(&home, &ask, &["--deny"]).code, Some(0));
        let longer = format!("touch made; true {}", "x".repeat(1 << 20));
        let prompt = format!("x [[permit:{longer}]]");
        let id = launch_from_file(&home, "w2", &prompt);
        let ask = ask_of(&home, &id);
        assert_eq!(ask["parts"][0]["cut"], true);
        let keys = ask["choices"].as_array().expect("a list").iter().map(|choice| &choice["key"]);
        assert_eq!(keys.collect::<Vec<_>>(), ["deny", "stop"]);
        assert_eq!(answer(&home, &ask, &["--allow"]).code, Some(2), "nobody has seen it whole");
        assert!(!home.path().join("w2/made").exists());
        assert_eq!(answer(&home, &ask, &["--deny"]).code, Some(0));
    });
}

/// Launches with a prompt that is too long for an argument.
fn launch_from_file(home: &TestHome, directory: &str, prompt: &str) -> String {
    home.write("prompt.txt", prompt);
    let cwd = home.path().join(directory);
    std::fs::create_dir_all(&cwd).expect("made");
    let file = home.path().join("prompt.txt").display().to_string();
    let args = ["launch", "demo", "--cwd", directory, "--ask", "--prompt-file", &file];
    let launched = home.run(&args);
    assert_eq!(launched.code, Some(0), "{}", launched.stderr);
    launched.stdout.trim().to_owned()
}

#[test]
fn a_span_of_zero_is_refused_before_anything_starts() {
    sandboxed(|| {
        let home = home();
        for flag in ["--keep=0s", "--ask=0s"] {
            let refused = home.run(&["launch", "demo", flag, "-p", "x"]);
            assert_eq!(refused.code, Some(2), "{flag}: {}", refused.stderr);
            assert!(refused.stderr.contains("longer than zero"), "{}", refused.stderr);
        }
        assert_eq!(home.run(&["list", "-q", "-a"]).stdout, "", "nothing was started");
    });
}

#[test]
fn hostile_text_of_an_ask_is_shown_as_text() {
    sandboxed(|| {
        let home = home();
        let evil = "printf '\x1b]0;owned\x07\u{202e}' # \x1b[2J";
        let id = launch(&home, "w", &format!("x [[permit:{evil}]]"), &[]);
        let ask = ask_of(&home, &id);
        for args in [vec!["asks"], vec!["asks", ask["id"].as_str().expect("id")]] {
            let shown = home.run(&args).stdout;
            let is_bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!shown.contains(is_bad), "{shown:?}");
        }
        assert_eq!(answer(&home, &ask, &["--deny"]).code, Some(0));
    });
}

#[test]
fn a_command_is_shown_with_its_line_breaks_and_carriage_returns() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:echo safe\r\nrm -rf x\r# y]]", &[]);
        let page = home.run(&["asks", &id_of(&ask_of(&home, &id))]).stdout;
        assert!(page.contains("\n  echo safe\\r\n  rm -rf x\\r# y\n"), "{page}");
        assert!(page.contains("always: echo safe\\r\\nrm -rf x\\r# y, for"), "{page}");
    });
}

#[test]
fn the_socket_of_the_demo_takes_only_the_open_ask() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Which?|Red|Blue]]", &[]);
        let ask = ask_of(&home, &id);
        let live = live_record(&home, &ask["pid"]);
        let native = live["ask"]["id"].as_str().expect("an id").to_owned();
        let say = |line: &Value| say_to_demo(&home, &ask, line);
        assert_eq!(say(&json!({"answer": {"ask": "other", "text": "Red"}}))["taken"], false);
        assert_eq!(say(&json!({"rubbish": 1}))["taken"], false);
        assert_eq!(say(&json!({"message": {"id": "1", "text": "hello"}}))["taken"], false);
        assert_eq!(say(&json!({"answer": {"ask": native, "text": "Blue"}}))["taken"], true);
        until_stopped(&home, &id);
        let told =
            ["\"Blue\"", "hello"].map(|t| home.run(&["logs", &id, "--json"]).stdout.contains(t));
        assert_eq!(told, [true, false]);
    });
}

#[test]
fn opened_and_settled_are_events_and_wait_names_the_ask() {
    sandboxed(|| {
        let home = home();
        let stream = Stream::of(&home, &[]);
        let id = launch(&home, "w", "x [[permit:true]] [[hang]]", &[]);
        let ask = ask_of(&home, &id);
        let until = |kind: &str| -> Value {
            eventually(kind, || stream.heard().into_iter().find(|event| event["type"] == kind))
        };
        let opened = until("ask.opened");
        assert_eq!(opened["id"], format!("{}-opened", id_of(&ask)));
        assert_eq!((&opened["session_id"], &opened["ask"]["id"]), (&ask["session_id"], &ask["id"]));
        let waited = home.run(&["wait", &id]);
        assert_eq!(waited.code, Some(10));
        assert!(waited.stderr.contains(&id_of(&ask)[..8]), "{}", waited.stderr);
        assert_eq!(answer(&home, &ask, &["--allow"]).code, Some(0));
        let settled = until("ask.settled");
        assert_eq!(settled["id"], format!("{}-settled", id_of(&ask)));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn several_asks_are_answered_and_a_typing_error_answers_none() {
    sandboxed(|| {
        let home = home();
        let asks = ["a", "b", "c"].map(|w| {
            let id = launch(&home, w, "x [[permit:touch yes]] [[hang]]", &["--name", w]);
            id_of(&ask_of(&home, &id))
        });
        let question = launch(&home, "d", "x [[ask:Why?]]", &[]);
        let question = id_of(&ask_of(&home, &question));
        let open = || home.run(&["asks", "-q"]).stdout.lines().count();
        for wrong in ["painter", "zzzzzzzz", "12345", "ABCDEF"] {
            assert_eq!(home.run(&["approve", &asks[0], wrong]).code, Some(2), "{wrong}");
        }
        assert_eq!(open(), 4, "nothing was answered");
        // The first failure is a question (2); the second is an ask that does not exist (4).
        let mixed = home.run(&["approve", &question, &asks[0], "deadbeef", &asks[1]]);
        assert_eq!(mixed.code, Some(2), "{}", mixed.stderr);
        assert!(mixed.stderr.contains("deadbeef"), "{}", mixed.stderr);
        assert_eq!(mixed.stdout.lines().count(), 2, "{}", mixed.stdout);
        let twice = home.run(&["deny", &asks[2], &asks[2][..8]]);
        assert_eq!(twice.code, Some(0), "{}", twice.stderr);
        assert_eq!(open(), 1);
    });
}

#[test]
fn a_text_that_names_no_ask_is_told_so_and_an_empty_answer_is_none() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Why?]]", &["--name", "painter"]);
        let ask = id_of(&ask_of(&home, &id));
        let shown = home.run(&["asks", "deadbeef"]);
        assert_eq!(shown.code, Some(4));
        assert!(shown.stderr.contains("settled already"), "{}", shown.stderr);
        let shown = home.run(&["asks", &ask[..5]]);
        assert_eq!(shown.code, Some(4));
        assert!(shown.stderr.contains("at least 6 characters"), "{}", shown.stderr);
        let none = home.run(&["asks", "--adapter", "codex"]);
        assert!(none.stderr.contains("nothing that was selected"), "{}", none.stderr);
        for empty in ["", "  "] {
            assert_eq!(home.run(&["answer", &ask, "--text", empty]).code, Some(2));
        }
        let answered = home.run(&["answer", &ask, "--text", "so", "--json"]).json();
        assert_eq!(answered["session"]["name"], "painter");
    });
}

#[test]
fn a_time_for_answers_is_refused_where_it_would_not_be_kept() {
    sandboxed(|| {
        let home = home();
        let cwd = folder(&home, "w");
        for agent in ["codex", "opencode"] {
            for (flag, is_refused) in [("--ask=2h", true), ("--ask", false)] {
                let told = home.run(&["launch", agent, flag, "-p", "x", "--cwd", &cwd]);
                let message = "its server waits without a limit";
                assert_eq!(told.stderr.contains(message), is_refused, "{}", told.stderr);
                assert_eq!(told.code == Some(2), is_refused, "{}", told.stderr);
            }
        }
    });
}

#[test]
fn the_demo_agent_waits_for_an_answer_as_long_as_it_was_told() {
    sandboxed(|| {
        let home = home();
        let script = "x [[permit:touch no]] [[ask:Why?]] [[say:after]]";
        let id = launch(&home, "w", script, &["--ask=1s"]);
        until_stopped(&home, &id);
        let said = home.run(&["logs", &id, "--json"]).stdout;
        assert!(said.contains("denied: nobody answered in time"), "{said}");
        assert!(!home.path().join("w/no").exists());
        let hours = |flags: &[&str]| {
            let id = launch(&home, "v", "x [[permit:touch no]]", flags);
            let ask = ask_of(&home, &id);
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
            let moment = |key: &str| ask[key].as_str().and_then(|at| at.parse::<Timestamp>().ok());
            let (since, until) = (moment("since").expect("a moment"), moment("until"));
            let hours = until.map(|until| until.duration_since(since).as_secs_f64() / 3600.0);
            (hours.map(f64::round), ask["then"].clone())
        };
        assert_eq!(hours(&["--ask"]), (Some(24.0), json!("denied")), "the usual time");
        assert_eq!(hours(&["--ask=2h"]), (Some(2.0), json!("denied")));
        assert_eq!(hours(&[]), (None, Value::Null), "no limit");
    });
}
