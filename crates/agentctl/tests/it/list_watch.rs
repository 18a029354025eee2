//! `list --watch`: the list again when something happens, and no look while nothing does.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::cli::planted;
use crate::events::{Stream, tell};
use crate::events_homes::watched_inodes;
use crate::home;
use crate::launched::{launch, status, until_asked};

/// Starts `list --watch --json` and returns once it sleeps.
fn watch(home: &TestHome, args: &[&str]) -> Stream {
    Stream::from(&mut home.command(&[&["list", "--watch", "--json"], args].concat()))
}

/// Waits until the newest list shows a session in this status.
fn shows(stream: &Stream, id: &str, status: &str) {
    eventually(&format!("{id} is {status}"), || {
        let newest = stream.heard().pop()?;
        let rows = newest["sessions"].as_array()?.clone();
        rows.iter().any(|row| row["id"] == id && row["status"] == status).then_some(())
    });
}

#[test]
fn a_session_is_listed_when_it_begins_and_goes_when_it_ends() {
    sandboxed(|| {
        let home = home();
        let (living, all) = (watch(&home, &[]), watch(&home, &["-a"]));
        let other = watch(&home, &["--adapter", "codex"]);
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        for stream in [&living, &all] {
            shows(stream, &id, "waiting");
        }
        tell(&home, &id, "go");
        eventually("it is gone from the list of live sessions", || {
            let newest = living.heard().pop()?;
            newest["sessions"].as_array()?.is_empty().then_some(())
        });
        shows(&all, &id, "stopped");
        assert!(other.heard().iter().all(|list| list["sessions"] == Value::Array(Vec::new())));
    });
}

#[test]
fn a_watched_list_is_the_list() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &["--group", "g"]);
        until_asked(&home, &id);
        for args in [&[][..], &["--group", "g"], &["--group", "h"], &["--status", "waiting"]] {
            let stream = watch(&home, args);
            eventually("the watched list is the list", || {
                let listed = home.run(&[&["list", "--json"], args].concat()).json();
                (timeless(stream.heard().pop()?) == timeless(listed)).then_some(())
            });
        }
    });
}

/// A name and a group are no events of a session, and lists show them.
#[test]
fn a_name_that_is_given_later_is_listed() {
    sandboxed(|| {
        let home = home();
        let (ended, live) =
            (launch(&home, "e", "x", &[]), launch(&home, "w", "x [[ask:go?]]", &[]));
        until_asked(&home, &live);
        let (living, all) = (watch(&home, &[]), watch(&home, &["-a"]));
        shows(&living, &live, "waiting");
        shows(&all, &ended, "stopped");
        // The look once a minute would find a name too, so the watch itself is checked.
        assert_eq!(home.run(&["name", &ended, "first"]).code, Some(0));
        let folder = home.path().join(".local/state/agentctl/names");
        let inode = std::fs::metadata(folder).expect("there").ino();
        for stream in [&living, &all] {
            eventually("the folder of the names is watched", || {
                watched_inodes(stream.pid()).contains(&inode).then_some(())
            });
        }
        for (id, streams) in [(&live, &[&living, &all][..]), (&ended, &[&all])] {
            let (name, group) = (format!("name-{id}"), format!("group-{id}"));
            assert_eq!(home.run(&["name", id, &name]).code, Some(0));
            assert_eq!(home.run(&["group", id, &group]).code, Some(0));
            for stream in streams {
                eventually("the newest list has the name and the group", || {
                    let newest = stream.heard().pop()?;
                    let rows = newest["sessions"].as_array()?.clone();
                    let is_named = |row: &Value| row["name"] == *name && row["group"] == *group;
                    rows.iter().any(|row| row["id"] == **id && is_named(row)).then_some(())
                });
            }
        }
    });
}

/// A look that finds the same prints nothing: a reader may take every document for a change.
#[test]
fn an_unchanged_document_is_printed_once() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]] [[hang]]", &[]);
        until_asked(&home, &id);
        for args in [&[][..], &["-a"]] {
            let stream = watch(&home, args);
            shows(&stream, &id, "waiting");
            // Reasons to look that change no list: a lock, and a session file without a new entry.
            for _ in 0..3 {
                let switches = stream.switches();
                home.write("elsewhere/file", "x");
                let locked = home.run(&["lock", "elsewhere", "--by", "me"]);
                assert_eq!(locked.code, Some(0), "{locked:?}");
                assert_eq!(home.run(&["unlock", "elsewhere"]).code, Some(0));
                eventually("it looks", || (stream.switches() > switches).then_some(()));
                stream.settled();
            }
            let documents: Vec<Value> = stream.heard().into_iter().map(timeless).collect();
            assert!(
                documents.windows(2).all(|pair| pair[0] != pair[1]),
                "{args:?}: {documents:#?}"
            );
        }
    });
}

/// Leaves out the evidence, which names the moment of the look.
fn timeless(mut list: Value) -> Value {
    for row in list["sessions"].as_array_mut().into_iter().flatten() {
        row["evidence"] = Value::Null;
    }
    list
}

#[test]
fn while_nothing_happens_there_is_no_look() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        // Its question would wake the stream.
        eventually("it asks", || (status(&home, &id)["status"] == "waiting").then_some(()));
        let stream = watch(&home, &[]);
        let (switches, lists) = (stream.switches(), stream.heard().len());
        // None of these changes what is listed.
        home.write("elsewhere/file", "x");
        assert_eq!(home.run(&["list", "--json"]).code, Some(0));
        stream.settled();
        assert_eq!((stream.switches(), stream.heard().len()), (switches, lists));
        tell(&home, &id, "go");
        eventually("a change is a reason", || (stream.heard().len() > lists).then_some(()));
    });
}

#[test]
fn it_ends_when_its_reader_leaves() {
    sandboxed(|| {
        let home = planted();
        let mut command = home.command(&["list", "-a", "--since", "all", "--watch", "--json"]);
        let mut watcher = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(watcher.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a list").expect("read");
        let list: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(list["sessions"].as_array().map(Vec::len), Some(70));
        // Nothing happens after this, so nothing more is written to the closed pipe.
        drop(lines);
        let ended = eventually("it ends", || watcher.try_wait().expect("asked"));
        assert_eq!(ended.code(), Some(0), "a reader that leaves is no error");
    });
}

/// A watched list that prints tables into a pipe.
pub(crate) struct PrintedTables {
    watcher: Child,
    said: Arc<Mutex<String>>,
}

impl PrintedTables {
    pub(crate) fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut command = home.command(args);
        let mut watcher = command.stdout(Stdio::piped()).spawn().expect("starts");
        let said = Arc::<Mutex<String>>::default();
        let (copy, mut out) = (Arc::clone(&said), watcher.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut chunk) {
                copy.lock().expect("whole").push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        });
        Self { watcher, said }
    }

    /// Returns the tables so far, without their ages.
    pub(crate) fn tables(&self) -> Vec<String> {
        self.said.lock().expect("whole").split_inclusive("\n\n").map(ageless).collect()
    }
}

impl Drop for PrintedTables {
    fn drop(&mut self) {
        let _ended = self.watcher.kill();
        let _reaped = self.watcher.wait();
    }
}

/// A changed age is no change: a reader of the tables may take each one for news.
#[test]
fn off_a_terminal_a_table_is_printed_only_when_something_changed() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:go?]] [[hang]]", &[]);
        until_asked(&home, &id);
        let age = || home.run(&["list", "--format", "{active}"]).stdout;
        let printed = PrintedTables::start(&home, &["list", "--watch"]);
        let tables = || printed.tables();
        eventually("the first table", || (!tables().is_empty()).then_some(()));
        let first = age();
        home.write("elsewhere/file", "x");
        // A lock is a reason to look, and changes no row.
        let look = || {
            assert_eq!(home.run(&["lock", "elsewhere", "--by", "me"]).code, Some(0));
            assert_eq!(home.run(&["unlock", "elsewhere"]).code, Some(0));
        };
        eventually("the age is another one", || {
            look();
            (age() != first).then_some(())
        });
        look();
        let count = tables().len();
        tell(&home, &id, "go");
        eventually("a change is printed", || (tables().len() > count).then_some(()));
        let tables = tables();
        assert!(tables.windows(2).all(|pair| pair[0] != pair[1]), "{tables:#?}");
    });
}

/// Returns a table without its ages.
fn ageless(table: &str) -> String {
    let is_age = |word: &str| {
        word.strip_suffix(['s', 'm', 'h', 'd']).is_some_and(|number| number.parse::<u32>().is_ok())
    };
    table.split_whitespace().filter(|word| !is_age(word)).collect::<Vec<_>>().join(" ")
}
