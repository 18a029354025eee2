//! The Unix socket of `agentctl web --listen unix:PATH`.

use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{eventually, sandboxed};

use crate::home;

/// The socket is removed at the end, unless something else has its place by then.
#[test]
fn a_server_that_ends_removes_its_own_socket_and_no_other() {
    sandboxed(|| {
        let home = home();
        let path = home.path().join("page.sock");
        let listen = format!("unix:{}", path.display());
        for is_replaced in [false, true] {
            let mut command = home.command(&["web", "--listen", &listen, "--name", "box.example"]);
            let mut server = command.stdout(Stdio::null()).spawn().expect("started");
            eventually("it listens", || UnixStream::connect(&path).ok());
            let other = is_replaced.then(|| {
                std::fs::remove_file(&path).expect("removed");
                UnixListener::bind(&path).expect("bound")
            });
            let pid = Pid::from_raw(server.id().cast_signed()).expect("a pid");
            // The server may still be about to say that it serves.
            eventually("its private socket", || {
                home.path().join(".local/state/agentctl/run/web.sock").exists().then_some(())
            });
            kill_process(pid, Signal::TERM).expect("signalled");
            assert_eq!(server.wait().expect("ended").code(), Some(0));
            assert_eq!(path.exists(), is_replaced, "replaced: {is_replaced}");
            drop(other);
        }
    });
}
