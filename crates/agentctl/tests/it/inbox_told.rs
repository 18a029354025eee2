//! What `asks`, `answer`, `approve` and `deny` say when an answer is not taken.

use std::process::Stdio;

use testkit::sandboxed;

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
