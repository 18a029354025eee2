//! The sentences of `asks`, `answer`, `approve` and `deny` when an answer is not taken.

use std::process::Stdio;

use serde_json::Value;
use testkit::{eventually, sandboxed};

use crate::events::Stream;
use crate::home;
use crate::inbox::{ask_of, id_of, mark_as_below, settle_elsewhere};
use crate::inbox_walk::HeldLock;
use crate::launched::launch;
use crate::wait::Running;

#[test]
fn the_loser_of_a_race_is_told_what_the_session_does_now() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]] [[hang]]", &[]);
        let ask = ask_of(&home, &id);
        let lock = HeldLock::of(&home, &ask);
        let mut command = home.command(&["answer", &id_of(&ask), "--deny"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let late = Running(command.spawn().expect("starts"));
        lock.until_waited_for(late.0.id());
        settle_elsewhere(&home, &ask);
        drop(lock);
        let told = late.output();
        assert_eq!(told.code, Some(4), "{}", told.stderr);
        assert!(told.stderr.contains("is not open any more"), "{}", told.stderr);
        assert!(told.stderr.contains(&format!("demo {id} is running now")), "{}", told.stderr);
    });
}

#[test]
fn a_session_in_the_place_of_an_ask_is_called_a_session() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]]", &["--name", "painter"]);
        ask_of(&home, &id);
        for (text, code) in [("painter", 2), (&id[..8], 2), (&id, 2)] {
            let told = home.run(&["answer", text, "--allow"]);
            assert_eq!(told.code, Some(code), "{}", told.stderr);
            let says = format!("`{text}` is a session, not an ask");
            assert!(told.stderr.contains(&says), "{}", told.stderr);
            let shows = format!("`agentctl asks {text}` shows what it asks");
            assert!(told.stderr.contains(&shows), "{}", told.stderr);
        }
        let told = home.run(&["answer", "deadbeef", "--allow"]);
        assert!(told.stderr.contains("no open ask has the id `deadbeef`"), "{}", told.stderr);
    });
}

#[test]
fn an_answer_whose_report_cannot_be_written_says_that_it_was_given() {
    sandboxed(|| {
        let home = home();
        for args in [&["answer", "--allow"][..], &["approve"]] {
            let id = launch(&home, "w", "x [[permit:true]]", &["--force"]);
            let ask = id_of(&ask_of(&home, &id));
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
            let mut command = home.command(args);
            command.arg(&ask).stdout(full).stderr(std::process::Stdio::piped());
            let told = command.spawn().expect("run").wait_with_output().expect("run");
            let words = String::from_utf8_lossy(&told.stderr).into_owned();
            assert_eq!(told.status.code(), Some(1), "{words}");
            assert!(words.contains("allowed"), "{args:?}: {words}");
            assert!(words.contains("stdout cannot be written: No space"), "{words}");
        }
    });
}

#[test]
fn the_ask_of_a_paused_session_is_not_called_settled() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]]", &[]);
        let ask = id_of(&ask_of(&home, &id));
        let pid = crate::launched::status(&home, &id)["pid"].as_i64().expect("a pid");
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("paused");
        eventually("it is paused", || {
            let row = crate::launched::status(&home, &id);
            (row["reason"]["kind"] == "paused").then_some(())
        });
        let command = format!("(`kill -CONT {}`)", pid.as_raw_nonzero());
        for args in [&["answer", "--allow"][..], &["asks"]] {
            let told = home.run(&[args, &[ask.as_str()]].concat());
            assert_eq!(told.code, Some(4), "{told:?}");
            assert!(told.stderr.contains(&command), "{told:?}");
        }
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("goes on");
        assert_eq!(home.run(&["answer", &ask, "--allow"]).code, Some(0));
    });
}

#[test]
fn an_agent_is_refused_before_its_answer_is_read() {
    sandboxed(|| {
        let mut home = home();
        let asking = launch(&home, "w", "x [[permit:true]]", &[]);
        let other = launch(&home, "v", "x [[hang]]", &[]);
        let ask = id_of(&ask_of(&home, &asking));
        mark_as_below(&mut home, &other);
        for decision in [&["--option", "1"][..], &["--always", "7"], &["--text", "t"]] {
            let told = home.run(&[&["answer", ask.as_str()], decision].concat());
            assert_eq!(told.code, Some(5), "{decision:?}: {}", told.stderr);
        }
    });
}

#[test]
fn the_name_and_the_group_of_a_session_stand_beside_its_asks() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]]", &["--name", "fixer", "--group", "g"]);
        let ask = id_of(&ask_of(&home, &id));
        let table = home.run(&["asks"]).stdout;
        assert!(table.contains("NAME") && table.contains("fixer"), "{table}");
        assert!(!table.contains(&ask), "{table}");
        for whole in [&["asks", "--no-trunc"][..], &["asks", "-o", "wide", "--no-trunc"]] {
            let table = home.run(whole).stdout;
            assert!(table.contains(&ask) && table.contains(&id), "{table}");
        }
        let page = home.run(&["asks", &ask]).stdout;
        assert!(page.contains(&format!("demo {id} (fixer)\n")), "{page}");
        assert!(page.contains("\nevidence\n") && page.contains("says: status waiting"), "{page}");
        let named = home.run(&["asks", "--format", "{name} {group}", "--sort", "name"]).stdout;
        assert_eq!(named, "fixer g\n");
    });
}

#[test]
fn a_watched_inbox_prints_no_document_twice() {
    sandboxed(|| {
        let home = home();
        let first = launch(&home, "w", "x [[permit:true]]", &[]);
        ask_of(&home, &first);
        let stream = Stream::heard_from(&mut home.command(&["asks", "-w", "--json"]));
        let of = |count: usize| {
            let is_of = |d: &Value| d["asks"].as_array().is_some_and(|asks| asks.len() == count);
            stream.heard().into_iter().filter(is_of).count()
        };
        eventually("the first list", || (of(1) > 0).then_some(()));
        // A session that asks nothing is read, and changes nothing here.
        let other = launch(&home, "v", "x [[hang]]", &[]);
        assert_eq!(home.run(&["stop", &other]).code, Some(0));
        let second = launch(&home, "u", "x [[permit:true]]", &[]);
        ask_of(&home, &second);
        eventually("the next list", || (of(2) > 0).then_some(()));
        assert_eq!(of(1), 1, "{:?}", stream.heard());
    });
}

#[test]
fn a_watched_ask_that_is_settled_ends_the_watch_well() {
    sandboxed(|| {
        let home = home();
        let asks = ["a", "b"].map(|w| {
            let id = launch(&home, w, "x [[permit:true]] [[hang]]", &[]);
            id_of(&ask_of(&home, &id))
        });
        let out = home.path().join("out");
        let mut command = home.command(&["asks", "-w", &asks[0], &asks[1]]);
        let stdout = std::fs::File::create(&out).expect("made");
        command.stdout(stdout).stderr(std::process::Stdio::piped());
        let watching = Running(command.spawn().expect("runs"));
        let shown =
            |text: &str| std::fs::read_to_string(&out).is_ok_and(|said| said.contains(text));
        eventually("both are shown", || shown(&asks[1][..8]).then_some(()));
        for ask in &asks {
            assert_eq!(home.run(&["answer", ask, "--allow"]).code, Some(0));
        }
        let told = watching.output();
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let last = format!("ask {} is settled\n", &asks[1][..8]);
        assert!(told.stderr.ends_with(&last), "{}", told.stderr);
        assert!(!told.stderr.contains("neither an open ask"), "{}", told.stderr);
        let never = home.run(&["asks", "-w", &asks[0]]);
        assert_eq!(never.code, Some(4), "it was settled before: {}", never.stderr);
    });
}

#[test]
fn several_answers_in_json_have_a_line_each_in_the_order_of_the_arguments() {
    sandboxed(|| {
        let home = home();
        let question = launch(&home, "q", "x [[ask:Why?]]", &[]);
        let question = id_of(&ask_of(&home, &question));
        let asks = ["a", "b"].map(|w| {
            let id = launch(&home, w, "x [[permit:true]] [[hang]]", &[]);
            id_of(&ask_of(&home, &id))
        });
        let told = home.run(&["approve", "--json", &asks[0], "deadbeef", &question, &asks[1]]);
        assert_eq!(told.code, Some(4), "the first failure: {}", told.stderr);
        let lines = told.stdout.lines().map(serde_json::from_str::<Value>);
        let lines: Vec<Value> = lines.collect::<Result<_, _>>().expect("a document a line");
        let gist = |line: &Value| {
            let text = line["ask"]["id"].as_str().or(line["error"]["code"].as_str());
            text.expect("an answer or an error").to_owned()
        };
        let gists: Vec<String> = lines.iter().map(gist).collect();
        assert_eq!(gists, [asks[0].as_str(), "ask_not_found", "usage", asks[1].as_str()]);
        let told = home.run(&["deny", "--json", "painter"]);
        assert_eq!((told.code, told.stdout.lines().count()), (Some(2), 1), "{}", told.stdout);
        let told = home.run(&["approve", "deadbeef", "zzzzzz", "beefdead"]);
        assert!(told.stderr.contains("zzzzzz"), "{}", told.stderr);
        let told = home.run(&["approve", "deadbeef", "beefdead"]).stderr;
        assert!(told.find("`deadbeef`") < told.find("`beefdead`"), "{told}");
    });
}

#[test]
fn a_selection_that_names_nothing_open_is_told_so() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &["--name", "notes", "--group", "real"]);
        let says = |args: &[&str], code: i32, text: &str| {
            let told = home.run(args);
            assert_eq!(told.code, Some(code), "{args:?}: {}", told.stderr);
            assert!(told.stderr.contains(text), "{args:?}: {}", told.stderr);
        };
        let short = home.run(&["list", "--format", "{short_id}"]).stdout;
        let name = format!("demo {}", short.trim());
        says(&["asks", "notes"], 0, &format!("notes ({name}) does not wait for you"));
        says(&["asks", &id], 0, &format!("{name} does not wait for you"));
        says(&["asks", ""], 4, "at least 6 characters");
        says(&["asks", "--group", "nosuch"], 4, "groups: real");
        says(&["asks", "--group", "real"], 0, "nothing that was selected waits");
        says(&["asks", "--cwd", "nosuch"], 4, "there is no directory `nosuch`");
        says(&["asks", "--hook", "-q"], 2, "--hook");
        says(&["answer", "zzz"], 2, "`zzz`");
        says(&["answer", "deadbeef"], 4, "`deadbeef`");
    });
}

#[test]
fn options_stand_apart_and_a_hint_names_the_ask() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Which colour?|Light red|Blue]]", &[]);
        let ask = id_of(&ask_of(&home, &id));
        let table = home.run(&["asks"]).stdout;
        assert!(table.contains("question: Which colour?  1 Light red  2 Blue\n"), "{table}");
        let short = &ask[..8];
        let told = home.run(&["answer", &ask, "--option", "3"]).stderr;
        assert!(told.contains(&format!("`agentctl asks {short}` shows them")), "{told}");
        let told = home.run(&["answer", &ask, "--field", "colour=1"]).stderr;
        assert!(told.contains("answer each: --field 1=VALUE"), "{told}");
        let told = home.run(&["answer", &ask, "--field", "colour"]).stderr;
        assert!(
            told.contains(&format!("`agentctl asks {ask}` shows the numbers of the questions")),
            "{told}"
        );
    });
}

/// The socket alone may be removed by anybody; the ask is open as long as its agent waits.
#[test]
fn an_open_ask_whose_socket_is_gone_is_not_called_settled() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:true]]", &["--keep"]);
        let ask = id_of(&ask_of(&home, &id));
        let live = home.path().join(".local/share/agentctl-demo/live");
        for entry in std::fs::read_dir(live).expect("there").flatten() {
            if entry.path().extension().is_some_and(|end| end == "sock") {
                std::fs::remove_file(entry.path()).expect("removed");
            }
        }
        let told = home.run(&["approve", &ask]);
        assert_eq!(told.code, Some(5), "{}", told.stderr);
        assert!(told.stderr.contains("its socket cannot be reached"), "{}", told.stderr);
        assert!(!told.stderr.contains("not open any more"), "{}", told.stderr);
        assert_eq!(home.run(&["asks", &ask]).code, Some(0), "it is still listed");
        let told = home.run(&["stop", "--turn", &id]);
        assert!(!told.stderr.contains("has ended"), "{}", told.stderr);
    });
}

/// A home with a path that does not fit into a socket address.
#[test]
fn an_ask_is_answered_in_a_home_with_a_long_path() {
    sandboxed(|| {
        let mut home = home();
        let long = home.path().join("h".repeat(90));
        std::fs::create_dir(&long).expect("made");
        home.set("HOME", long.to_string_lossy());
        let id = launch(&home, "w", "x [[permit:true]] [[hang]]", &["--keep"]);
        let ask = id_of(&ask_of(&home, &id));
        let told = home.run(&["approve", &ask]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
    });
}
