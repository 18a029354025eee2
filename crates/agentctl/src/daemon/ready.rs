//! Reports to the process that started the daemon that it serves, or why it does not.

use std::fs::File;

use crate::client::start::{READY, REFUSED};

/// Reports that the daemon serves: on the `--ready` pipe and to the service manager.
pub(super) fn report_ready(ready: Option<File>, manager: Option<&str>) {
    use std::io::Write;
    if let Some(mut pipe) = ready {
        // The starting process may have exited.
        let _gone = pipe.write_all(READY);
    }
    if let Some(manager) = manager {
        let _gone = notify(manager, b"READY=1\n");
    }
}

/// Reports on the `--ready` pipe that the daemon does not serve with its configuration.
pub fn report_refusal(ready: Option<File>, why: &str) {
    use std::io::Write;
    if let Some(mut pipe) = ready {
        // The starting process may have exited.
        let _gone = pipe.write_all(&[REFUSED, why.as_bytes()].concat());
    }
}

/// Sends one message to the service manager (`sd_notify`).
fn notify(manager: &str, words: &[u8]) -> std::io::Result<()> {
    let socket = std::os::unix::net::UnixDatagram::unbound()?;
    match manager.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            socket.send_to_addr(words, &address)?;
        }
        _ => {
            socket.send_to(words, manager)?;
        }
    }
    Ok(())
}
