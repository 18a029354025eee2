//! An idle thread in a server of this machine is still tracked (W18).

use std::time::Instant;

use agentctl_core::events::edges::{Edges, LookupResult};
use agentctl_core::model::{Outcome, ServingProcess, Session, Status};

use super::{kinds, look, process, session, time};

fn thread(status: Status, server: Option<u32>) -> Session {
    let mut row = session("one", Some("a"), status);
    row.started_at = Some(time(-3600));
    row.hosted = server.is_some();
    row.pid = server;
    row.processes =
        server.into_iter().map(|pid| ServingProcess::proved(process(pid, pid.into()))).collect();
    row.outcome = (!status.is_live()).then_some(Outcome::Finished);
    row
}

fn step(edges: &mut Edges, at: i64, rows: Vec<Session>) -> Vec<&'static str> {
    let mut look = look(at, Instant::now(), rows);
    for key in edges.missing(&look.sessions) {
        let over = thread(Status::Stopped, None);
        look.named.insert(key, LookupResult::Seen(Box::new(over)));
    }
    kinds(&edges.step(look))
}

#[test]
fn an_idle_thread_ends_with_its_server() {
    let mut edges = Edges::default();
    assert_eq!(step(&mut edges, 0, vec![thread(Status::Running, Some(7))]), [""; 0]);
    assert_eq!(step(&mut edges, 1, vec![thread(Status::Idle, Some(7))]), ["session.idle"]);
    assert_eq!(step(&mut edges, 2, vec![thread(Status::Idle, Some(7))]), [""; 0]);
    assert_eq!(step(&mut edges, 3, vec![]), ["session.stopped"]);
    assert_eq!(step(&mut edges, 4, vec![]), [""; 0]);
    // Another server takes it up: it begins again, and then it works.
    let told = step(&mut edges, 5, vec![thread(Status::Idle, Some(8))]);
    assert_eq!(told, ["session.started", "session.idle"]);
    assert_eq!(step(&mut edges, 6, vec![thread(Status::Running, Some(8))]), ["session.running"]);
    assert_eq!(step(&mut edges, 7, vec![]), ["session.stopped"]);
    let told = step(&mut edges, 8, vec![thread(Status::Running, Some(9))]);
    assert_eq!(told, ["session.started"], "it was over, and works again");
}

#[test]
fn a_thread_that_was_idle_at_the_first_look_is_tracked_too() {
    let mut edges = Edges::default();
    assert_eq!(step(&mut edges, 0, vec![thread(Status::Idle, Some(7))]), [""; 0]);
    assert_eq!(step(&mut edges, 1, vec![thread(Status::Running, Some(7))]), ["session.running"]);
    assert_eq!(step(&mut edges, 2, vec![thread(Status::Idle, Some(7))]), ["session.idle"]);
    assert_eq!(step(&mut edges, 3, vec![]), ["session.stopped"]);
}
