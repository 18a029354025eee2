//! The Unix socket of `agentctl web --listen unix:PATH`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::{eventually, sandboxed};

use crate::home;
use crate::web::{Web, exchange};

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
                fs::remove_file(&path).expect("removed");
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

/// The socket belongs to this user alone. Where a person opens it to others, the user of the process that connects
/// decides, as on a port.
#[test]
#[ignore = "needs root: another user connects"]
fn a_process_of_another_user_needs_to_be_a_proxy_on_a_socket_too() {
    sandboxed(|| {
        let other = testkit::another_user();
        let home = home();
        let open = |path: &std::path::Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        open(&home.path(), 0o755);
        let client = home.at("client");
        fs::copy(testkit::fake_agent(), &client).expect("copied");
        open(&client, 0o755);
        let said = home.at("said");
        fs::create_dir(&said).expect("made");
        other.give(&said);
        let path = home.at("page.sock");
        let listen = format!("unix:{}", path.display());
        for (users, wanted) in [("", "403"), ("proxy_users = [\"nobody\"]", "200")] {
            crate::configure(&home, &[], &format!("[web]\n{users}\n"));
            let web = Web::start_at(&home, &listen, &["--name", "box.example"]);
            let body = json!({"code": web.code}).to_string();
            let pair = format!(
                "POST /api/pair HTTP/1.1\r\nHost: box.example\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let paired = exchange(UnixStream::connect(&path).expect("a listener"), &pair);
            let token = paired.json()["token"].as_str().expect("a token").to_owned();
            open(&path, 0o666);
            let request = format!(
                "GET /api/asks HTTP/1.1\r\nHost: box.example\r\nAuthorization: Bearer {token}\r\n\r"
            );
            let own =
                exchange(UnixStream::connect(&path).expect("a listener"), &format!("{request}\n"));
            assert_eq!(own.code, 200, "{}", own.body);
            let file = said.join(wanted);
            let mut command = other.command(&client);
            command.args(["tell", path.to_str().expect("UTF-8"), &request]);
            command.arg(&file).arg("exit").arg("0");
            assert!(command.status().expect("runs").success());
            let line = fs::read_to_string(&file).expect("a reply");
            assert!(line.contains(wanted), "{users}: {line}");
        }
    });
}
