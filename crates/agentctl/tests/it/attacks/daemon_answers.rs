//! Class: answers of a process of this user that listens in the daemon's place.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use agentctl_core::fleet::Rows;
use agentctl_core::model::Session;
use serde_json::{Value, json};
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt, said};
use crate::daemon::{SOCKET, Wire, started};
use crate::events::Stream;
use crate::home;
use crate::launched::launch;

/// Bytes that follow the answer to a request, and whether the connection stays open after them.
type Answer = (Vec<u8>, bool);

/// Listens in the daemon's place: answers `hello` as the daemon did, and every other request with this answer.
fn impostor(home: &TestHome, answer: Answer) {
    let socket = home.path().join(SOCKET);
    let _no_old_one = std::fs::remove_file(&socket);
    started(home);
    let hello = json!({"protocol": 1, "encoding": "postcard"});
    let welcome = Wire::open(home).ask("hello", &hello);
    assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    let _no_old_one = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(socket).expect("bound");
    let welcome = format!("{welcome}\n").into_bytes();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (welcome, answer) = (welcome.clone(), answer.clone());
            std::thread::spawn(move || answer_requests(&stream, &welcome, &answer));
        }
    });
}

fn answer_requests(mut stream: &UnixStream, welcome: &[u8], (answer, stays): &Answer) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        if request["method"] == "hello" {
            let _gone = stream.write_all(welcome);
            continue;
        }
        let _gone = stream.write_all(answer);
        if !stays {
            return;
        }
    }
}

/// The answer to `session.list` with one frame of these bytes.
fn list_of(frame: &[u8]) -> Answer {
    let head = json!({"jsonrpc": "2.0", "id": 2, "result": {"faults": [], "frames": 1}});
    let length = u32::try_from(frame.len()).expect("short").to_le_bytes();
    ([format!("{head}\n").as_bytes(), &length, frame].concat(), true)
}

/// Appends a number as postcard writes it.
fn push_varint(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        bytes.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits"));
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("there")
}

/// Returns a frame with one row whose own bytes were changed.
fn frame_with_row(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let session = json!({
        "id": "forged-id", "adapter": "claude-code", "root": "/forged", "status": "running",
        "processes": [], "hosted": false, "notes": ["forged note"], "evidence": [],
    });
    let session: Session = serde_json::from_value(session).expect("a session");
    let frame = Rows::of(&[session]).encode(0..1).expect("encoded");
    // The row ends with the number of its own bytes and those bytes; they begin with the id.
    let own = position(&frame, b"\x01\x09forged-id");
    let (mut length, row) = (Vec::new(), frame[own..].to_vec());
    push_varint(&mut length, row.len());
    let mut forged = frame[..own - length.len()].to_vec();
    let row = change(row);
    push_varint(&mut forged, row.len());
    [forged, row].concat()
}

fn claude() -> Claude {
    let claude = Claude::new();
    claude.transcript(A, &[prompt("fix it"), said("done")]);
    claude
}

/// Memory is proportional to the answer: a note has one byte there, and 24 in memory.
#[test]
fn a_row_with_millions_of_notes_costs_little_memory() {
    const NOTES: usize = 60_000_000;
    sandboxed(|| {
        let claude = claude();
        let frame = frame_with_row(|row| {
            let note = b"\x01\x0bforged note";
            let at = position(&row, note);
            let mut forged = row[..at].to_vec();
            push_varint(&mut forged, NOTES);
            forged.resize(forged.len() + NOTES, 0);
            [&forged, &row[at + note.len()..]].concat()
        });
        impostor(&claude.home, list_of(&frame));
        // An allocation beyond the limit ends the command.
        let output = claude.home.run_within(1000, &["list", "-a", "--since", "all", "--json"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let list = output.json();
        assert_eq!(list["sessions"][0]["id"], A, "the command looks by itself: {list}");
    });
}

/// A row that cannot be unpacked makes the answer invalid: the command looks by itself and hides nothing.
#[test]
fn an_answer_with_an_unreadable_row_is_not_used() {
    sandboxed(|| {
        let claude = claude();
        let changes: [fn(Vec<u8>) -> Vec<u8>; 3] = [
            |row| row[..row.len() - 1].to_vec(),
            |row| [row, vec![0]].concat(),
            |_| vec![0xff; 40],
        ];
        for change in changes {
            impostor(&claude.home, list_of(&frame_with_row(change)));
            let listed = claude.home.run(&["list", "-a", "--since", "all", "--json"]);
            assert_eq!(listed.code, Some(0), "{listed:?}");
            let ids: Vec<Value> = listed.sessions().iter().map(|row| row["id"].clone()).collect();
            assert_eq!(ids, [json!(A)]);
        }
        // The unchanged row is shown: the answers above were asked for and refused.
        impostor(&claude.home, list_of(&frame_with_row(|row| row)));
        let listed = claude.home.run(&["list", "-a", "--since", "all", "--json"]).sessions();
        assert_eq!(listed[0]["id"], "forged-id");
    });
}

/// A daemon that cannot be used is named once, and the events are found without it.
#[test]
fn events_are_found_without_a_daemon_that_answers_nonsense() {
    sandboxed(|| {
        let subscribed = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"subscribed\":true}}\n";
        let answers: [Answer; 5] = [
            (b"nonsense\n".to_vec(), true),
            (b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}\n".to_vec(), true),
            (format!("{subscribed}nonsense\n").into_bytes(), true),
            (Vec::new(), false),
            (subscribed.as_bytes().to_vec(), false),
        ];
        for answer in answers {
            let case = String::from_utf8_lossy(&answer.0).into_owned();
            let home = home();
            impostor(&home, answer);
            let stream = Stream::heard_from(&mut home.command(&["events"]));
            let warned = || stream.said().matches("warning: ").count();
            eventually(&format!("it warns: {case:?}"), || (warned() > 0).then_some(()));
            stream.settled();
            let id = launch(&home, "w", "x [[hang]]", &[]);
            eventually("events come", || {
                stream.kinds(&id).contains(&"started".to_owned()).then_some(())
            });
            assert_eq!(warned(), 1, "{case:?}: {}", stream.said());
            assert!(stream.said().contains("changes are found without it"), "{}", stream.said());
        }
    });
}
