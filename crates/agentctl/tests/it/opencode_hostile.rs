//! OpenCode's store with hostile content.

use rusqlite::params;
use testkit::{TestHome, sandboxed};

use crate::opencode::{A, B, C, DATA, Store, answered, list, log, world};
use crate::{assert_list_equals_status, home};

/// A defect of a store, and the function that creates it.
type Breaks = (&'static str, fn(&TestHome));

#[test]
fn an_unreadable_store_is_a_fault_and_stops_no_session() {
    sandboxed(|| {
        let broken: [Breaks; 4] = [
            ("no database", |home| {
                home.write(&format!("{DATA}/opencode.db"), vec![b'x'; 8192]);
            }),
            ("a FIFO", |home| {
                let path = home.at(&format!("{DATA}/opencode.db"));
                let made = std::process::Command::new("mkfifo").arg(path).status();
                assert!(made.expect("mkfifo").success());
            }),
            ("a link", |home| {
                let real = home.write("elsewhere", "x");
                let link = home.at(&format!("{DATA}/opencode.db"));
                std::os::unix::fs::symlink(real, link).expect("linked");
            }),
            ("a log without its index", |home| {
                let writer = Store::new(home, "live.db");
                writer.session(A, "/a", None);
                let folder = home.at(&format!("{DATA}/x"));
                let folder = folder.parent().expect("a folder");
                for suffix in ["", "-wal"] {
                    let from = home.path().join(format!("live.db{suffix}"));
                    std::fs::copy(from, folder.join(format!("opencode.db{suffix}")))
                        .expect("copied");
                }
            }),
        ];
        for (what, breaks) in broken {
            let home = home();
            breaks(&home);
            let listed = list(&home);
            assert_eq!(listed.code, Some(3), "{what}: {}", listed.stdout);
            assert!(listed.sessions().is_empty(), "{what}");
            assert!(listed.stderr.contains("opencode.db"), "{what}: {}", listed.stderr);
            assert_eq!(home.run(&["status", A]).code, Some(3), "{what}");
            // The live process is known all the same; its state is not.
            let log = log(&home);
            let begun = ["keep", &log, "a line"];
            let mut agent =
                home.agent("opencode", "ws", &[&["run", "--session", A], &begun[..]].concat());
            agent.ready();
            let row = list(&home).session(A);
            assert_eq!(row["status"], "unknown", "{what}: {row}");
        }
    });
}

#[test]
fn rubbish_in_a_database_hides_only_its_own_row() {
    sandboxed(|| {
        let (home, store, directory) = world();
        for id in [A, B, C, "ses_number", "ses_deep"] {
            store.session(id, &directory, None);
        }
        store.message(A, 0, &answered("stop"));
        let raw = |id: &str, data: &str| {
            let sql = "insert into message values ('msg_' || ?1, ?1, 1, 1, ?2)";
            store.connection.execute(sql, params![id, data]).expect("a message");
        };
        raw(B, "{\"role\":\"assistant\",\"time\":{\"completed\":");
        raw(C, &format!("{{\"role\":\"user\",\"x\":\"{}\"}}", "y".repeat(3 << 20)));
        raw("ses_deep", &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
        store
            .connection
            .execute_batch(
                "update session set title = x'ff00', time_created = 'never', directory = 7 where id = 'ses_number';
                 insert into session select '../../etc', 's', null, directory, title, null, 0, 0, 0, 0, 0, 0, 1, 1 from session limit 1;
                 insert into session select x'00ff', 's', null, directory, title, null, 0, 0, 0, 0, 0, 0, 1, 1 from session limit 1;
                 insert into part values ('prt_x', 'msg_x', 'ses_x', 1, 1, 'no json');",
            )
            .expect("rubbish");
        let listed = list(&home);
        assert_eq!(listed.session(A)["outcome"], "finished", "{}", listed.stderr);
        assert_eq!(listed.sessions().len(), 5, "{}", listed.stdout);
        for id in [B, C, "ses_deep"] {
            let row = listed.session(id);
            assert_eq!(
                (&row["status"], &row["outcome"]),
                (&"stopped".into(), &"unknown".into()),
                "{id}"
            );
            let said = row["evidence"].to_string();
            assert!(said.contains("its newest message could not be read"), "{id}: {said}");
        }
        assert_list_equals_status(&home);
        for id in [A, B, C, "ses_number", "ses_deep"] {
            assert!(matches!(home.run(&["logs", id]).code, Some(0)), "{id}");
        }
    });
}
