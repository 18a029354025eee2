//! Class: tables of the kernel that list objects of all users: any user can make them long (F2, F3).

use std::net::TcpListener;

use agentctl_core::kernel::Kernel;
use testkit::{Agent, TestHome, sandboxed};

use crate::codex::{A, exec, rollout, started};
use crate::opencode::{self, answered};
use crate::{configure, home};

/// Starts processes that are no agents and have this many descriptors each.
fn crowd(home: &TestHome, processes: u8, kind: &str, many: &str) -> Vec<Agent> {
    let start = |n: u8| {
        let folder = home.at(&format!("crowd/{n}/x")).parent().expect("a folder").to_owned();
        std::fs::create_dir_all(&folder).expect("made");
        let folder = folder.to_string_lossy().into_owned();
        let network = (n + 1).to_string();
        let word = if kind == "listeners" { &network } else { &folder };
        home.agent("crowd", "elsewhere", &["crowd", kind, many, word])
    };
    let mut crowd: Vec<Agent> = (0..processes).map(start).collect();
    for process in &mut crowd {
        process.ready();
    }
    crowd
}

/// F2: the list of file locks is as long as all users make it.
#[test]
fn ninety_thousand_file_locks_hide_no_codex_session() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("live", "6s"), ("all", "6s")], "");
        rollout(&home, A, &[started()]);
        let _codex = exec(&home, &[A], &["exec"]);
        let _crowd = crowd(&home, 5, "flocks", "19000");
        for command in [&["list", "--json"][..], &["list", "-a", "--json"]] {
            let listed = home.run(command);
            assert_eq!(listed.session(A)["status"], "running", "{}", listed.stderr);
        }
    });
}

/// F3: a table of more than a mebibyte is read to its end.
#[test]
fn twenty_thousand_listeners_hide_no_listener() {
    sandboxed(|| {
        let home = home();
        let _crowd = crowd(&home, 2, "listeners", "10000");
        let kernel = Kernel::open().expect("a kernel");
        let ours: Vec<TcpListener> =
            (0..16).map(|_| TcpListener::bind("127.0.0.1:0").expect("bound")).collect();
        let me = kernel.process(std::process::id()).expect("readable").expect("alive").id;
        let found = kernel.listening(&me).expect("readable");
        for listener in &ours {
            let at = listener.local_addr().expect("an address");
            assert!(found.contains(&at), "{at} is missing");
        }
    });
}

/// F3: if only the port of a server shows that it serves a session, a port that does not answer does
/// not mean that the session has ended.
#[test]
fn a_session_of_a_server_that_cannot_be_asked_is_unknown() {
    sandboxed(|| {
        let (home, store, directory) = opencode::world();
        configure(&home, &[("live", "6s"), ("all", "6s")], "");
        store.session(opencode::A, &directory, None);
        store.session(opencode::B, "/elsewhere", None);
        store.session(opencode::C, "/elsewhere", None);
        // Clocks move: an old entry does not prove that the server left the session alone.
        store.message(opencode::B, 3_000_000, &answered("stop"));
        let _server = opencode::agent(&home, &["serve", "mute"], &[]);
        store.message(opencode::A, 3_000_000, &answered("stop"));
        store.message(opencode::C, 0, &answered("stop"));
        let listed = opencode::list(&home);
        for id in [opencode::A, opencode::B, opencode::C] {
            assert_eq!(listed.session(id)["status"], "unknown", "{id}: {}", listed.stderr);
        }
        let stopped = home.run(&["stop", opencode::A]);
        assert_ne!(stopped.code, Some(0), "{}", stopped.stdout);
    });
}
