//! `events` on a terminal, and its filters by session, group and directory.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};

use testkit::{eventually, sandboxed};

use crate::events::{Stream, tell};
use crate::home;
use crate::launched::{folder, launch, until_asked};
use crate::terminal::Terminal;

#[test]
fn on_a_terminal_an_event_is_one_line_for_people() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        for (args, is_json) in [(&["events"][..], false), (&["events", "--json"], true)] {
            let terminal = Terminal::open(70);
            let mut child = terminal.start(&mut home, args);
            let said = Arc::<Mutex<String>>::default();
            let (copy, mut reader) = (Arc::clone(&said), File::from(terminal.controller));
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = reader.read(&mut chunk) {
                    copy.lock().expect("whole").push_str(&String::from_utf8_lossy(&chunk[..read]));
                }
            });
            let directory = if is_json { "json" } else { "people" };
            let name = ["--name", "painter"];
            let name = if is_json { &[][..] } else { &name[..] };
            let id = launch(&home, directory, "paint it [[ask:Which colour?]]", name);
            let line = eventually("it waits", || {
                let said = said.lock().expect("whole").clone();
                let waits = |line: &&str| line.contains("waiting") && line.contains(&id[..8]);
                said.lines().find(waits).map(str::to_owned)
            });
            let clock = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == ':');
            if is_json {
                assert!(line.starts_with('{'), "{line}");
            } else {
                let words: Vec<&str> = line.split_whitespace().collect();
                assert!(clock(words[0]), "{line}");
                assert_eq!(
                    words[1..6],
                    ["waiting", "painter", "demo", &id[..8], "~/people"],
                    "{line}"
                );
                assert_eq!(home.run(&["status", words[4]]).code, Some(0), "the id can be typed");
                assert!(line.contains("question: Wh"), "{line}");
                assert!(line.chars().count() <= 70, "{line}");
            }
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    });
}

#[test]
fn events_are_narrowed_to_a_session_a_group_and_a_directory() {
    sandboxed(|| {
        let home = home();
        let one = launch(&home, "one", "x [[ask:go?]]", &["--group", "g", "--name", "painter"]);
        let two = launch(&home, "two", "x [[ask:go?]]", &["--group", "h"]);
        for id in [&one, &two] {
            until_asked(&home, id);
        }
        let directory = folder(&home, "one");
        let filters = [["--session", "painter"], ["--group", "g"], ["--cwd", &directory]];
        let streams = filters.map(|filter| Stream::of(&home, &filter));
        let all = Stream::of(&home, &[]);
        tell(&home, &two, "go");
        let stops = |stream: &Stream, id: &str| {
            let last = || stream.kinds(id).pop().filter(|kind| kind == "stopped");
            eventually("its end is told", || last().map(drop));
        };
        stops(&all, &two);
        tell(&home, &one, "go");
        for (stream, filter) in streams.iter().zip(filters) {
            stops(stream, &one);
            let others = stream.heard().into_iter().filter(|e| e["session_id"] != one.as_str());
            assert_eq!(others.count(), 0, "{filter:?}");
        }
        assert_eq!(home.run(&["events", "--session", "nosuchsession"]).code, Some(4));
    });
}
