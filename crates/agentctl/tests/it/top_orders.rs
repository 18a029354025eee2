//! Orders of `agentctl top` on a pseudo-terminal: their keys, and what became of them in the agents' own records.

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Dice, TestHome, eventually, sandboxed};

use crate::claude_code_asks::{Asking, hook_input};
use crate::daemon::signal;
use crate::home;
use crate::launched::{folder, launch, script, status, until_said, until_stopped};
use crate::list_screen::Watching;
use crate::top::Eye;

/// Waits until a session has this status.
#[track_caller]
fn until_status(home: &TestHome, id: &str, word: &str) {
    eventually(&format!("it is {word}"), || (status(home, id)["status"] == word).then_some(()));
}

/// Returns the prompts and messages of the user in a conversation.
fn said(home: &TestHome, id: &str) -> Vec<String> {
    let lines = home.run(&["logs", id, "--json", "-n", "1000"]).stdout;
    let messages = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let users = messages.filter(|message| message["role"] == "user");
    users.map(|message| message["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_message_is_sent_to_a_kept_session_once() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[say:one]]", &["--keep"]);
        until_status(&home, &id, "idle");
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the session is idle", |text| text.contains("1 idle"));
        eye.press("smore [[say:two]]\r");
        eye.until("it says so", |text| text.contains(&format!("sent  {id}  (turn begun)")));
        until_said(&home, &id, "two");
        assert_eq!(said(&home, &id), ["x [[say:one]]", "more [[say:two]]"]);
        eye.press("q");
    });
}

#[test]
fn an_ended_session_is_resumed_with_a_message() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[say:one]]", &[]);
        until_stopped(&home, &id);
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the list is shown", |text| text.contains("nothing is running"));
        eye.press("H");
        eye.until("the session is listed", |text| text.contains(&id[..8]));
        eye.press("sagain [[say:two]]\r");
        eye.until("it says so", |text| text.contains(&format!("resumed  {id}")));
        until_said(&home, &id, "two");
        assert_eq!(said(&home, &id), ["x [[say:one]]", "again [[say:two]]"]);
        eye.press("q");
    });
}

#[test]
fn a_session_is_stopped_after_a_question_only() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_said(&home, &id, "[[hang]]");
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the session works", |text| text.contains("1 running"));
        eye.press("x");
        let question = format!("y stops {}", &id[..8]);
        eye.until("it is asked", |text| text.contains(&question));
        eye.press("n");
        eye.until("it is cancelled", |text| text.contains("nothing was stopped"));
        assert_eq!(status(&home, &id)["status"], "running");
        eye.press("x");
        eye.until("it is asked", |text| text.contains(&question));
        eye.press("y");
        eye.until("it says so", |text| text.contains(&format!("stopped demo {id}")));
        let ended = until_stopped(&home, &id);
        assert_eq!(ended["ended_by"]["kind"], "stop", "{ended}");
        eye.press("q");
    });
}

#[test]
fn a_turn_is_ended_and_the_session_stays() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[hang]]", &["--keep"]);
        until_said(&home, &id, "[[hang]]");
        let pid = status(&home, &id)["pid"].clone();
        let eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the session works", |text| text.contains("1 running"));
        eye.press("X");
        eye.until("it is asked", |text| text.contains(&format!("y ends the turn of {}", &id[..8])));
        eye.press("y");
        eye.until("it says so", |text| text.contains(&format!("ended the turn of demo {id}")));
        until_status(&home, &id, "idle");
        assert_eq!(status(&home, &id)["pid"], pid, "the same process");
        let record = home.at(&format!(".local/share/agentctl-demo/sessions/{id}.jsonl"));
        let record = std::fs::read_to_string(record).expect("its record");
        assert!(record.contains(r#""state":"interrupted""#), "{record}");
        eye.press("q");
    });
}

/// Plants an ended session whose agent begins only when the file `go` is there, and then fails.
fn failing(home: &mut TestHome) -> String {
    home.set("ANTHROPIC_API_KEY", "k");
    let id = "0c2f8f8e-1111-4222-8333-123456789abc".to_owned();
    let cwd = folder(home, "w");
    let slug: String =
        cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let at = format!("{:.3}", jiff::Timestamp::now());
    let line = serde_json::json!({
        "type": "user", "message": {"role": "user", "content": "first"}, "uuid": "u",
        "timestamp": at, "cwd": cwd, "sessionId": id,
    });
    home.write(&format!(".claude/projects/{slug}/{id}.jsonl"), format!("{line}\n"));
    let go = home.path().join("go");
    script(home, "claude", &format!("until rm {} 2>&-; do sleep 0.02; done; exit 1", go.display()));
    id
}

#[test]
fn each_order_is_waited_for_also_after_one_that_failed() {
    sandboxed(|| {
        let mut home = home();
        let id = failing(&mut home);
        let mut eye = Eye::start(&mut home, (100, 30), &["top"]);
        eye.until("the list is shown", |text| text.contains("nothing is running"));
        eye.press("H");
        eye.until("the session is listed", |text| text.contains(&id[..8]));
        eye.press("sagain\r");
        for round in 0..3 {
            eye.until("it is on its way", |text| text.contains("is being sent"));
            signal(eye.child.id(), Signal::INT);
            eventually("it waits for the order", || {
                let left = eye.child.try_wait().expect("asked");
                assert!(left.is_none(), "round {round}: {left:?}, and the result was lost");
                eye.text().contains("top leaves once it is done").then_some(())
            });
            home.write("go", "");
            eye.until("its failure is shown", |text| text.contains("error:"));
            // The text of the refused message stands there again.
            eye.until("it is typed again", |text| text.trim_end().ends_with(": again"));
            eye.press("\r");
        }
        eye.until("it is on its way", |text| text.contains("is being sent"));
        signal(eye.child.id(), Signal::INT);
        eye.until("it waits for the order", |text| text.contains("top leaves once it is done"));
        signal(eye.child.id(), Signal::INT);
        assert!(eye.child.wait().expect("ends").success(), "the second one leaves at once");
        eye.is_given_back();
        home.write("go", "");
    });
}

#[test]
fn a_session_that_begins_to_wait_notifies_the_terminal_on_request() {
    const SEQUENCE: &str = "\u{1b}]9;demo needs you: question: go?";
    sandboxed(|| {
        let mut home = home();
        home.set("TERM", "xterm-256color");
        let bell = Watching::start(&mut home, (100, 20), &["top", "--bell"]);
        let quiet = Watching::start(&mut home, (100, 20), &["top"]);
        let text = |watching: &Watching| {
            String::from_utf8_lossy(&watching.said.lock().expect("whole")).into_owned()
        };
        for watching in [&bell, &quiet] {
            eventually("it is shown", || text(watching).contains("running").then_some(()));
        }
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        eventually("the terminal is notified", || text(&bell).contains(SEQUENCE).then_some(()));
        eventually("the question is shown", || text(&quiet).contains("go?").then_some(()));
        assert!(!text(&quiet).contains("\u{1b}]9;") && !text(&quiet).contains('\u{7}'));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        for watching in [&bell, &quiet] {
            watching.press(b"q");
        }
    });
}

/// Labels that are numbers, and words that are one: an answer is what was chosen and typed.
#[test]
fn several_questions_are_answered_with_the_chosen_options_and_the_typed_words() {
    let question = |text: &str, labels: &[&str]| {
        let option = |label: &&str| serde_json::json!({"label": label, "description": "x"});
        let options: Vec<Value> = labels.iter().map(option).collect();
        serde_json::json!({"question": text, "header": "x", "options": options, "multiSelect": false})
    };
    let mut input = hook_input("");
    input["tool_name"] = "AskUserQuestion".into();
    input["tool_input"] = serde_json::json!({"questions": [
        question("How many?", &["3", "2", "1"]), question("Which port?", &["80", "443"]),
    ]});
    sandboxed(|| {
        for size in [(80, 24), (60, 15)] {
            let more = serde_json::json!({"status": "busy", "entrypoint": "sdk-cli"});
            let mut asking = Asking::new(&more, input.to_string().as_bytes());
            asking.ask();
            let eye = Eye::start(&mut asking.claude.home, size, &["top"]);
            eye.until("the ask is shown", |text| text.contains("How many?"));
            eye.press("\r");
            eye.until("the ask has the focus", |text| text.contains("question 1 of 2:"));
            // Its end must have been shown.
            eye.press("G");
            eye.answer("1", |text| text.contains("question 2 of 2:"));
            eye.answer("m", |text| text.contains("answer: "));
            // Ctrl-U clears a second `m`, which was pressed before the line was shown.
            eye.press("\x158080\r");
            let decision = eventually("it is delivered", || {
                serde_json::from_str::<Value>(&asking.decision()).ok()
            });
            let answers = &decision["hookSpecificOutput"]["decision"]["updatedInput"]["answers"];
            let expected = serde_json::json!({"How many?": "3", "Which port?": "8080"});
            assert_eq!(*answers, expected, "{decision}");
            eye.press("q");
        }
    });
}

/// Signals come at any moment: before the screen is entered, while it is, and after the first frame.
#[test]
fn however_often_it_is_started_and_ended_no_terminal_stays_raw() {
    sandboxed(|| {
        let mut home = home();
        let mut dice = Dice::new();
        let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
        for round in 0..20 {
            let mut eye = Eye::start(&mut home, (80, 24), &["top"]);
            let end = match dice.below(3) {
                0 => {
                    eye.until("it is shown", |text| text.contains("? help"));
                    eye.press("q");
                    "q".to_owned()
                }
                moment => {
                    if moment == 1 {
                        eye.until("it is shown", |text| text.contains("? help"));
                    }
                    let end = dice.pick(&signals);
                    signal(eye.child.id(), end);
                    format!("{end:?} at moment {moment}")
                }
            };
            let status = eye.child.wait().expect("ends");
            println!("round {round} of seed {}: {end}: {status}", dice.seed);
            eye.is_restored();
        }
    });
}
