//! `--watch` of the lists other than `list`: the same screen, the same tables, the same documents.

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::events::{Stream, tell};
use crate::home;
use crate::launched::launch;
use crate::list_screen::{Watching, shows};
use crate::list_watch::PrintedTables;

fn lock(home: &TestHome, directory: &str) {
    home.write(&format!("{directory}/file"), "x");
    let locked = home.run(&["lock", directory, "--by", "me"]);
    assert_eq!(locked.code, Some(0), "{locked:?}");
}

fn unlock(home: &TestHome, directory: &str) {
    assert_eq!(home.run(&["unlock", directory]).code, Some(0));
}

#[test]
fn locks_on_a_terminal_are_clipped_and_marked_and_q_leaves_the_terminal_as_it_was() {
    sandboxed(|| {
        let mut home = home();
        for at in 0..6 {
            lock(&home, &format!("d{at}"));
        }
        let args = ["locks", "-w", "--sort=-directory"];
        let mut watching = Watching::start(&mut home, (80, 6), &args);
        let lines = watching.until("all is shown", |lines| shows(lines, "… 3 more"));
        assert!(lines[0].ends_with("locks: 6 · q quits"), "{lines:#?}");
        assert!(lines[1].starts_with("  KIND"), "{lines:#?}");
        assert_eq!(lines.len(), 6, "{lines:#?}");
        assert!(!lines.iter().any(|line| line.starts_with("* ")), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        lock(&home, "d9");
        let lines = watching.until("the new lock is shown", |lines| shows(lines, "/d9"));
        assert!(lines[2].starts_with("* manual") && lines[2].contains("/d9"), "{lines:#?}");
        assert!(lines[3].starts_with("  manual") && lines[3].contains("/d5"), "{lines:#?}");
        unlock(&home, "d9");
        watching.until("the lock is gone", |lines| !shows(lines, "/d9"));
        assert!(watching.is_raw());
        watching.press(b"q");
        let ended = eventually("it ends", || watching.child.try_wait().expect("asked"));
        assert_eq!(ended.code(), Some(0));
        eventually("the screen is left", || (!watching.screen().is_alternate()).then_some(()));
        let screen = watching.screen();
        assert_eq!((screen.lines(), screen.scrolled), (vec!["before".to_owned()], 0));
        assert!(!screen.is_cursor_hidden && !watching.is_raw());
    });
}

#[test]
fn ages_on_a_terminal_advance_while_nothing_happens() {
    sandboxed(|| {
        let mut home = home();
        lock(&home, "d");
        let watching = Watching::start(&mut home, (80, 6), &["locks", "-w"]);
        let first = watching.until("it is shown", |lines| shows(lines, "/d"));
        let lines = watching.until("its age is another one", |lines| lines[2] != first[2]);
        assert!(lines[2].starts_with("  manual"), "an age is no change: {lines:#?}");
        // A look without a reason comes after a minute.
        let seconds = |word: &str| word.strip_suffix('s').is_some_and(|n| n.parse::<u8>().is_ok());
        assert!(lines[2].split_whitespace().any(seconds), "{lines:#?}");
    });
}

/// A changed age is no change: a reader of the tables may take each one for news.
#[test]
fn off_a_terminal_locks_are_printed_only_when_more_than_an_age_changed() {
    sandboxed(|| {
        let home = home();
        lock(&home, "a");
        let age = || home.run(&["locks", "--sort", "directory", "-n", "1", "--format", "{since}"]);
        let printed =
            PrintedTables::start(&home, &["locks", "--watch", "--sort", "directory", "-n", "1"]);
        eventually("the first table", || (!printed.tables().is_empty()).then_some(()));
        let first = age().stdout;
        // A lock of another directory is a reason to look, and changes no row that is shown.
        let look = || {
            lock(&home, "b");
            unlock(&home, "b");
        };
        eventually("the age is another one", || {
            look();
            (age().stdout != first).then_some(())
        });
        look();
        unlock(&home, "a");
        let last = "nothing is locked or occupied";
        eventually("a change is printed", || (printed.tables().last()? == last).then_some(()));
        let tables = printed.tables();
        assert_eq!(tables.len(), 2, "{tables:#?}");
    });
}

#[test]
fn each_list_prints_a_document_a_line_and_no_document_twice() {
    sandboxed(|| {
        let home = home();
        let [runs, locks, fuses] = ["runs", "locks", "fuses"]
            .map(|list| Stream::from(&mut home.command(&[list, "--watch", "--json"])));
        let rows = |stream: &Stream, list: &str| -> Option<Vec<Value>> {
            stream.heard().pop()?[list].as_array().cloned()
        };
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        let has_session = |rows: &[Value]| rows.len() == 1 && rows[0]["session"] == *id;
        eventually("the run is listed", || has_session(&rows(&runs, "runs")?).then_some(()));
        eventually("its directory is occupied", || {
            has_session(&rows(&locks, "locks")?).then_some(())
        });
        lock(&home, "elsewhere");
        let set = home.run(&["fuse", "set", "elsewhere", "--ttl", "1h"]);
        let fuse = set.stdout.trim();
        eventually("the fuse is listed", || {
            (rows(&fuses, "fuses")?.first()?["id"] == fuse).then_some(())
        });
        unlock(&home, "elsewhere");
        assert_eq!(home.run(&["fuse", "cancel", fuse]).code, Some(0));
        tell(&home, &id, "go");
        eventually("the run has ended", || {
            (!rows(&runs, "runs")?.first()?["ended_at"].is_null()).then_some(())
        });
        for (stream, list) in [(&locks, "locks"), (&fuses, "fuses")] {
            eventually("the list is empty", || rows(stream, list)?.is_empty().then_some(()));
        }
        for stream in [&runs, &locks, &fuses] {
            let documents = stream.heard();
            let is_new = |pair: &[Value]| pair[0] != pair[1];
            assert!(documents.windows(2).all(is_new), "{documents:#?}");
        }
    });
}

#[test]
fn removed_runs_of_a_watched_session_leave_an_empty_list() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        eventually("it has ended", || {
            let runs = home.run(&["runs", &id, "--json"]).json();
            (!runs["runs"][0]["ended_at"].is_null()).then_some(())
        });
        let runs = Stream::from(&mut home.command(&["runs", &id, "--watch", "--json"]));
        assert_eq!(home.run(&["rm", &id]).code, Some(0));
        eventually("the list is empty", || {
            runs.heard().pop()?["runs"].as_array()?.is_empty().then_some(())
        });
    });
}

#[test]
fn json_lines_of_a_watched_list_are_refused_in_every_list() {
    sandboxed(|| {
        let home = home();
        for list in ["list", "runs", "locks", "fuses", "adapters"] {
            let refused = home.run(&[list, "--watch", "-o", "jsonl"]);
            assert_eq!(refused.code, Some(2), "{list}: {refused:?}");
            let sentence = "--watch and -o jsonl exclude each other: \
                            a row that leaves the list would have no line";
            // The error is JSON, too.
            assert!(refused.stdout.contains(sentence), "{list}: {}", refused.stdout);
        }
    });
}
