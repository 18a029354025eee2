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
        for (text, code) in [("painter", 2), (&id[..8], 4), (&id, 2)] {
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
        let told = home.run(&["answer", &ask, "--field", "colour"]).stderr;
        assert!(told.contains(&format!("`agentctl asks {ask}` shows the ids")), "{told}");
    });
}
