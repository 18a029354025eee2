//! `send --when-idle`: the end of the turn is awaited before the message is handed over.

use testkit::{eventually, sandboxed};

use crate::home;
use crate::inbox_walk::Typing;
use crate::launched::{status, until_stopped};
use crate::send::kept;

#[test]
fn when_idle_waits_for_the_end_of_the_turn() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        assert_eq!(home.run(&["send", &id, "slow [[delay:1]] [[say:two]]"]).code, Some(0));
        let sent = home.run(&["send", &id, "late [[say:three]]", "--when-idle"]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        assert!(sent.stdout.contains("turn begun"), "{}", sent.stdout);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

#[test]
fn a_session_that_is_stopped_while_its_turn_is_awaited_is_not_resumed() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        assert_eq!(home.run(&["send", &id, "go [[hang]]"]).code, Some(0));
        let mut sending = Typing::start(&home, &["send", &id, "more", "--when-idle"]);
        sending.until_shown("is at work: the message is sent when its turn is over");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!(sending.code(), Some(5));
        sending.until_shown("has ended while the end of its turn was awaited: nothing was sent");
        until_stopped(&home, &id);
    });
}

#[test]
fn the_wait_for_the_end_of_the_turn_has_the_timeout_of_the_command() {
    sandboxed(|| {
        let home = home();
        let id = kept(&home, "w", "x [[say:one]]");
        assert_eq!(home.run(&["send", &id, "go [[hang]]"]).code, Some(0));
        eventually("its turn has begun", || {
            (status(&home, &id)["status"] == "running").then_some(())
        });
        let late = home.run(&["send", &id, "more", "--when-idle", "--wait", "--timeout", "1s"]);
        assert_eq!(late.code, Some(124), "{late:?}");
        assert!(late.stderr.contains("nothing was sent"), "{late:?}");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}
