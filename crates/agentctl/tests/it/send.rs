//! `send`: messages to live sessions, and `stop --turn`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::daemon::signal;
use crate::home;
use crate::inbox::ask_of;
use crate::inbox_bars::rounds;
use crate::launched::{folder, launch, status, until_said, until_stopped};
use crate::wait::Running;

pub(crate) fn kept(home: &TestHome, cwd: &str, prompt: &str) -> String {
    let id = launch(home, cwd, prompt, &["--keep"]);
    eventually("it rests", || (status(home, &id)["status"] == "idle").then_some(()));
    id
}

/// Returns the texts of the user in a conversation, and how often each is there.
fn said(home: &TestHome, id: &str) -> BTreeMap<String, usize> {
    let lines = home.run(&["logs", id, "-n", "100000", "--json"]).stdout;
    let mut texts = BTreeMap::new();
    for line in lines.lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        if message["role"] == "user" {
            *texts.entry(message["text"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    texts
}

#[test]
fn a_kept_session_takes_messages_at_rest_and_at_work() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let sent = home.run(&["send", &id, "more [[delay:2]] [[say:two]]"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert!(sent.stdout.contains("turn begun"), "{}", sent.stdout);
        let json = home.run(&["send", &id, "again [[say:three]]", "--json"]);
        let told = json.json();
        assert_eq!((&told["confirmed"], &told["how"]), (&Value::Bool(true), &"steered".into()));
        until_said(&home, &id, "three");
        assert!(said(&home, &id).values().all(|times| *times == 1), "{:?}", said(&home, &id));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!(home.run(&["send", &id, "back [[say:four]]"]).code, Some(0), "it is resumed");
        until_said(&home, &id, "four");
    });
}

#[test]
fn a_session_that_waits_takes_no_message_and_its_ask_stays() {
    sandboxed(|| {
        let home = home();
        for (cwd, flags) in [("w", &["--keep"][..]), ("v", &[][..])] {
            let id = launch(&home, cwd, "x [[permit:true]] [[hang]]", flags);
            let ask = ask_of(&home, &id);
            for verb in ["send", "resume"] {
                let refused = home.run(&[verb, &id, "yes"]);
                assert_eq!(refused.code, Some(10), "{}", refused.stderr);
                let short = &ask["id"].as_str().expect("an id")[..6];
                assert!(refused.stderr.contains(short), "{}", refused.stderr);
            }
            assert_eq!(ask_of(&home, &id)["id"], ask["id"]);
            assert_eq!(home.run(&["stop", &id]).code, Some(0));
        }
    });
}

#[test]
fn a_one_shot_run_takes_no_message() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        let refused = home.run(&["send", &id, "hello"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains("--keep"), "{}", refused.stderr);
        let command = format!("`agentctl send {id} \"MESSAGE\"`");
        assert!(refused.stderr.contains(&command), "{}", refused.stderr);
        assert_eq!(said(&home, &id).len(), 1);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn many_senders_at_once_lose_and_double_nothing() {
    const SENDERS: usize = 4;
    let messages = rounds(60).div_ceil(SENDERS);
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:ready]]");
        let script = |sender: usize| {
            (0..messages)
                .map(|at| format!("m{sender}-{at} [[delay:0.01]] [[say:ok]]"))
                .collect::<Vec<_>>()
        };
        let mut confirmed = Vec::new();
        for at in 0..messages {
            let running: Vec<(String, Running)> = (0..SENDERS)
                .map(|sender| {
                    let text = script(sender)[at].clone();
                    let mut command = home.command(&["send", &id, &text]);
                    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
                    (text, Running(child.expect("runs")))
                })
                .collect();
            for (text, child) in running {
                let output: Output = child.output();
                assert!(matches!(output.code, Some(0 | 1)), "{output:?}");
                if output.code == Some(0) {
                    confirmed.push(text);
                }
            }
        }
        let texts = said(&home, &id);
        assert!(texts.values().all(|times| *times == 1), "{texts:?}");
        for text in &confirmed {
            assert_eq!(texts.get(text), Some(&1), "{text}");
        }
        assert!(!confirmed.is_empty());
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn stop_turn_ends_the_tool_and_keeps_the_process() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let pid = status(&home, &id)["pid"].clone();
        assert_eq!(home.run(&["send", &id, "go [[tool:sleep 100]]"]).code, Some(0));
        eventually("the tool runs", || {
            (status(&home, &id)["reason"]["kind"] == "tool").then_some(())
        });
        let ended = home.run(&["stop", "--turn", &id]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        eventually("it rests", || (status(&home, &id)["status"] == "idle").then_some(()));
        assert_eq!(status(&home, &id)["pid"], pid);
        let idle = home.run(&["stop", "--turn", &id]);
        assert_eq!(idle.code, Some(1), "no turn is running");
        assert!(idle.stderr.contains(&format!("`agentctl stop {id}`")), "{}", idle.stderr);
        let other = launch(&home, "v", "x [[hang]]", &["--keep"]);
        eventually("its turn has begun", || {
            (status(&home, &other)["status"] == "running").then_some(())
        });
        let both = home.run(&["stop", "--turn", &id, &other]);
        assert_eq!(both.code, Some(1), "{}", both.stderr);
        assert!(both.stdout.contains(&other), "the other turn is ended all the same");
        for id in [&id, &other] {
            assert_eq!(home.run(&["stop", id]).code, Some(0));
        }
        until_stopped(&home, &id);
    });
}

#[test]
fn a_paused_session_gets_no_order_that_it_would_carry_out_later() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        assert_eq!(home.run(&["send", &id, "go [[tool:sleep 100]]"]).code, Some(0));
        eventually("the tool runs", || {
            (status(&home, &id)["reason"]["kind"] == "tool").then_some(())
        });
        let pid = u32::try_from(status(&home, &id)["pid"].as_u64().expect("a pid")).expect("small");
        signal(pid, Signal::STOP);
        eventually("it is paused", || {
            (status(&home, &id)["reason"]["kind"] == "paused").then_some(())
        });
        let refused = home.run(&["stop", "--turn", &id]);
        // Before anything is asserted: the sandbox of a failed test waits for a stopped process.
        signal(pid, Signal::CONT);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("`kill -CONT {pid}`")), "{}", refused.stderr);
        eventually("the tool goes on", || {
            (status(&home, &id)["reason"]["kind"] == "tool").then_some(())
        });
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn whether_a_turn_is_running_is_not_claimed_where_the_status_is_unknown() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let pid = status(&home, &id)["pid"].clone();
        let path = format!(".local/share/agentctl-demo/live/{pid}.json");
        let record = std::fs::read_to_string(home.path().join(&path)).expect("a record");
        home.write(&path, "{");
        let row = status(&home, &id);
        assert_eq!(row["status"], "unknown", "{row}");
        let told = home.run(&["stop", "--turn", &id]);
        assert_eq!(told.code, Some(3), "{}", told.stderr);
        assert!(told.stderr.contains("has a running turn is not known ("), "{}", told.stderr);
        assert!(told.stderr.contains(&format!("`agentctl why {id}`")), "{}", told.stderr);
        home.write(&path, record);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

/// The socket of an agent that another process has replaced by its own: nothing is sent to it.
#[test]
fn a_forged_socket_gets_nothing_and_that_is_known() {
    sandboxed(|| {
        let home = home();
        let asking = launch(&home, "w", "x [[permit:true]] [[hang]]", &[]);
        let ask = ask_of(&home, &asking)["id"].as_str().expect("an id").to_owned();
        let idle = kept(&home, "v", "x [[say:one]]");
        let forge = |id: &str| {
            let socket =
                format!(".local/share/agentctl-demo/live/{}.sock", status(&home, id)["pid"]);
            let path = home.path().join(socket);
            std::fs::rename(&path, path.with_extension("own")).expect("it listens");
            (std::os::unix::net::UnixListener::bind(&path).expect("bound"), path)
        };
        let forged = [forge(&asking), forge(&idle)];
        let orders: [&[&str]; 3] =
            [&["answer", &ask, "--allow"], &["stop", "--turn", &asking], &["send", &idle, "hello"]];
        for order in orders {
            let told = home.run(order);
            assert_eq!(told.code, Some(5), "{order:?}: {}", told.stderr);
            assert!(told.stderr.contains("is served by another process"), "{}", told.stderr);
        }
        for (_listener, path) in forged {
            std::fs::rename(path.with_extension("own"), &path).expect("put back");
        }
        assert_eq!(home.run(&["answer", &ask, "--allow"]).code, Some(0));
        for id in [&asking, &idle] {
            assert_eq!(home.run(&["stop", id]).code, Some(0));
        }
    });
}

/// Returns the idle times of the fuses that end kept sessions.
fn idle_fuses(home: &TestHome) -> Vec<u64> {
    let fuses = home.run(&["fuses", "--json"]).json()["fuses"].as_array().cloned();
    let kept = fuses.unwrap_or_default().into_iter().filter(|fuse| fuse["label"] == "keep");
    kept.filter_map(|fuse| fuse["idle_ms"].as_u64()).collect()
}

#[test]
fn a_kept_session_that_ended_is_kept_again_and_asks_as_before() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let id = launch(&home, "w", "x [[say:one]]", &["--keep=30m", "--ask=1h"]);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        until_stopped(&home, &id);
        assert!(idle_fuses(&home).is_empty(), "the limit is over with the run");
        let sent = home.run(&["send", &id, "back [[say:two]]", "--wait"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        let told = "it goes on with --keep=30m and --ask, like its last run";
        assert!(sent.stderr.contains(told), "{}", sent.stderr);
        assert!(sent.stderr.contains("AGENTCTL_NO_DAEMON"), "its fuse needs one: {}", sent.stderr);
        assert_eq!(status(&home, &id)["status"], "idle", "it stays");
        assert_eq!(idle_fuses(&home), [1_800_000]);
        assert_eq!(home.run(&["send", &id, "p [[permit:true]]"]).code, Some(0));
        assert!(ask_of(&home, &id)["until"].is_string(), "it does not wait without a limit");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        until_stopped(&home, &id);
        let sent = home.run(&["resume", &id, "--keep=5m", "three"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert!(sent.stderr.contains("it goes on with --ask, like"), "{}", sent.stderr);
        assert_eq!(idle_fuses(&home), [300_000], "a flag comes first");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        until_stopped(&home, &id);
        let sent = home.run(&["resume", &id, "--keep", "four"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert!(idle_fuses(&home).is_empty(), "it stays without a limit");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn a_kept_session_has_its_limit_when_its_id_is_printed() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        folder(&home, "w");
        let mut command = home.command(&["launch", "demo", "--cwd", "w", "--keep=30m", "-p", "x"]);
        let mut launcher = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut line = String::new();
        let stdout = launcher.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("read");
        // Killed before it can do anything else.
        launcher.kill().expect("killed");
        launcher.wait().expect("waited");
        assert_eq!(idle_fuses(&home), [1_800_000]);
        assert_eq!(home.run(&["stop", line.trim()]).code, Some(0));
    });
}

#[test]
fn a_session_that_was_not_kept_is_not_kept_by_a_message() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:one]]", &[]);
        until_stopped(&home, &id);
        let sent = home.run(&["send", &id, "back [[say:two]]", "--wait"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert!(!sent.stderr.contains("last run"), "{}", sent.stderr);
        until_stopped(&home, &id);
    });
}

#[test]
fn agents_that_cannot_ask_or_stay_refuse_the_flags() {
    sandboxed(|| {
        let home = home();
        for flag in ["--ask", "--keep"] {
            let refused = home.run(&["launch", "pi-rust", flag, "-p", "x"]);
            assert_eq!(refused.code, Some(5), "{}", refused.stderr);
            assert!(refused.stderr.contains(flag), "{}", refused.stderr);
        }
        let bypass = ["launch", "demo", "--ask", "--permissions", "bypass", "-p", "x"];
        let refused = home.run(&bypass);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains("nothing is asked"), "{}", refused.stderr);
    });
}

#[test]
fn a_message_to_a_live_session_is_waited_for_and_followed() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let waited = home.run(&["send", &id, "more [[delay:0.3]] [[say:two]]", "--wait"]);
        assert_eq!(waited.code, Some(0), "{}", waited.stderr);
        assert!(waited.stdout.contains("turn begun"), "{}", waited.stdout);
        assert!(home.run(&["logs", &id]).stdout.contains("two"), "the turn is over");
        let json = home.run(&["send", &id, "y [[delay:0.3]] [[say:three]]", "--wait", "--json"]);
        let told = json.json();
        let facts = (&told["confirmed"], &told["session"]["status"]);
        assert_eq!(facts, (&Value::Bool(true), &"idle".into()), "{}", json.stderr);
        let followed = home.run(&["send", &id, "z [[delay:0.3]] [[say:four]]", "--follow"]);
        assert_eq!(followed.code, Some(0), "{}", followed.stderr);
        assert!(followed.stdout.contains("four"), "{}", followed.stdout);
        assert!(!followed.stdout.contains("three"), "only what follows: {}", followed.stdout);
        let late = home.run(&["send", &id, "h [[hang]]", "--wait", "--timeout", "1s"]);
        assert_eq!(late.code, Some(124), "{}", late.stderr);
        assert_eq!(home.run(&["stop", "--turn", &id]).code, Some(0));
        let asked = home.run(&["send", &id, "p [[permit:true]]", "--wait"]);
        assert_eq!(asked.code, Some(10), "{}", asked.stderr);
        let ask = ask_of(&home, &id)["id"].as_str().expect("an id")[..6].to_owned();
        assert!(asked.stderr.contains(&ask), "{}", asked.stderr);
        assert_eq!(home.run(&["send", &id, "m", "--timeout", "1s"]).code, Some(2));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn a_live_session_takes_a_group_and_refuses_options_for_a_process() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        let options: [&[&str]; 9] = [
            &["--model", "m"],
            &["--permissions", "edits"],
            &["--ask"],
            &["--keep=5m"],
            &["--env", "A=b"],
            &["--on-create", "true"],
            &["--on-complete", "true"],
            &["--callback-session", "c"],
            &["--", "--foo"],
        ];
        for option in options {
            let args = [&["send", &id, "no [[say:never]]"], option].concat();
            let refused = home.run(&args);
            assert_eq!(refused.code, Some(5), "{option:?}: {}", refused.stderr);
            let word = option[0].split('=').next().expect("a word");
            assert!(refused.stderr.contains(word), "{option:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("is live"), "{option:?}: {}", refused.stderr);
        }
        assert_eq!(home.run(&["send", &id, "no", "--group", " "]).code, Some(2));
        assert_eq!(said(&home, &id).len(), 1, "nothing was sent");
        let sent = home.run(&["send", &id, "yes [[say:two]]", "--group", "crew"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert_eq!(status(&home, &id)["group"], "crew");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        let resumed = home.run(&["send", &id, "back [[say:three]]", "--model", "m", "--wait"]);
        assert_eq!(resumed.code, Some(0), "an ended session takes them: {}", resumed.stderr);
    });
}

#[test]
fn the_hint_of_a_wait_names_the_ask_of_the_session_that_it_prints() {
    sandboxed(|| {
        let home = home();
        let asks: Vec<(String, String)> = ["a", "b", "c"]
            .map(|w| {
                let id = launch(&home, w, "x [[permit:true]] [[hang]]", &["--group", "zz"]);
                let ask = ask_of(&home, &id)["id"].as_str().expect("an id")[..8].to_owned();
                (id, ask)
            })
            .into();
        let ask_of_printed = |text: &str| {
            let printed = asks.iter().find(|(id, _)| text.contains(id.as_str()));
            printed.expect("a session is printed").1.clone()
        };
        let waited = home.run(&["wait", "--group", "zz"]);
        assert_eq!(waited.code, Some(10), "{}", waited.stderr);
        let ask = ask_of_printed(&waited.stdout);
        assert!(waited.stderr.contains(&format!("answer {ask}")), "{}", waited.stderr);
        // The order of the arguments decides, not how long each waits.
        for (id, ask) in &asks {
            let others = asks.iter().map(|(other, _)| other.as_str()).filter(|other| other != id);
            let args: Vec<&str> = ["wait", id].into_iter().chain(others).collect();
            let waited = home.run(&args);
            assert!(waited.stdout.starts_with(id.as_str()), "{}", waited.stdout);
            assert!(waited.stderr.contains(&format!("answer {ask}")), "{}", waited.stderr);
        }
        let (id, ask) = &asks[2];
        let first = |args: &[&str]| {
            let document = home.run(&[&["wait", id, "--json"], args].concat()).json();
            document["asks"][0]["id"].as_str().unwrap_or_default().to_owned()
        };
        assert!(first(&["--for", "waiting"]).starts_with(ask.as_str()), "it is reached");
        let late = first(&["--for", "idle", "--timeout", "1s"]);
        assert!(late.starts_with(ask.as_str()), "it is timed out");
        assert_eq!(home.run(&["stop", "--group", "zz", "-y"]).code, Some(0));
    });
}

#[test]
fn stop_turn_takes_a_selection_and_asks_for_a_confirmation() {
    sandboxed(|| {
        let home = home();
        let idle = kept(&home, "v", "x [[say:one]]");
        assert_eq!(home.run(&["group", &idle, "g"]).code, Some(0));
        let none = home.run(&["stop", "--turn", "--group", "g", "-y"]);
        assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{}", none.stderr);
        assert!(none.stderr.contains("no turn to end"), "{}", none.stderr);
        let busy = launch(&home, "w", "x [[hang]]", &["--keep", "--group", "g"]);
        eventually("its turn has begun", || {
            (status(&home, &busy)["status"] == "running").then_some(())
        });
        let refused = home.run(&["stop", "--turn", "--all"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert_eq!(status(&home, &busy)["status"], "running");
        let ended = home.run(&["stop", "--turn", "--group", "g", "-y", "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let told = ended.json();
        let facts = (&told["session"]["id"], &told["session"]["status"]);
        assert_eq!(facts, (&busy.as_str().into(), &"idle".into()), "looked at again");
        let unknown = home.run(&["stop", "--group", "nosuch", "-y"]);
        assert_eq!(unknown.code, Some(4), "{}", unknown.stderr);
        assert!(unknown.stderr.contains("there is no group `nosuch`"), "{}", unknown.stderr);
        assert!(unknown.stderr.contains("groups: g"), "{}", unknown.stderr);
        let nowhere = home.run(&["list", "--cwd", "/no/such/directory", "-q"]);
        assert!(nowhere.stderr.contains("there is no directory /no/such"), "{}", nowhere.stderr);
        assert_eq!(home.run(&["stop", "--group", "g", "-y"]).code, Some(0));
        assert_eq!(home.run(&["stop", "--group", "g", "-y"]).code, Some(0), "nothing is left");
    });
}
