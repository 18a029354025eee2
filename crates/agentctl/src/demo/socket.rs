//! The socket of the agent: one connection carries one order, and gets one line in reply.
//!
//! A line that begins with `{` is an order in JSON. Everything else is text that a person typed: it is read to
//! its end and gets no reply.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agentctl_core::adapters::demo::{SocketOrder, SocketReply};
use agentctl_core::talk::SocketPath;

use super::agent::Event;
use super::home::Home;

/// Longest order or text.
const MAX_ORDER_BYTES: u64 = 8 << 20;
/// Time for one connection to send its order.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to write a reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// An order of another process, and the way to reply to it.
pub(super) struct Request {
    pub(super) order: SocketOrder,
    reply: Sender<SocketReply>,
    /// The reply is on its way: the agent may exit at once after that.
    written: Receiver<()>,
}

impl Request {
    /// Replies that the agent has taken the order.
    pub(super) fn take(self) {
        self.reply(true, None);
    }

    /// Replies that the agent refuses the order.
    pub(super) fn refuse(self, why: &str) {
        self.reply(false, Some(why.to_owned()));
    }

    fn reply(self, taken: bool, why: Option<String>) {
        // The other process may have ended.
        let _unheard = self.reply.send(SocketReply { taken, why });
        let _late = self.written.recv_timeout(WRITE_TIMEOUT);
    }
}

/// Listens on the socket of this process and sends every order into the channel.
pub(super) fn listen(home: &Home, pid: u32, sender: &Sender<Event>) -> io::Result<()> {
    home.remove_live(pid);
    let listener = UnixListener::bind(SocketPath::new(&home.socket(pid))?.path())?;
    std::fs::set_permissions(home.socket(pid), std::fs::Permissions::from_mode(0o600))?;
    let to = sender.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let to = to.clone();
            // A connection that sends nothing must not keep the others waiting.
            std::thread::spawn(move || serve(stream, &to));
        }
    });
    Ok(())
}

fn serve(stream: UnixStream, to: &Sender<Event>) -> Option<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?.take(MAX_ORDER_BYTES));
    let first = *reader.fill_buf().ok()?.first()?;
    if first != b'{' {
        let mut text = String::new();
        reader.read_to_string(&mut text).ok()?;
        return to.send(Event::Told(text)).ok();
    }
    // Dropped at the end of this function, after the reply was written.
    let _sent: Sender<()>;
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok()?;
    let reply = match serde_json::from_slice::<SocketOrder>(&line) {
        Err(error) => SocketReply { taken: false, why: Some(format!("no order: {error}")) },
        Ok(order) => {
            let ((reply, replied), (sent, written)) = (channel(), channel());
            _sent = sent;
            to.send(Event::Order(Request { order, reply, written })).ok()?;
            let unanswered = SocketReply { taken: false, why: Some("the agent has ended".into()) };
            replied.recv().unwrap_or(unanswered)
        }
    };
    let mut bytes = serde_json::to_vec(&reply).ok()?;
    bytes.push(b'\n');
    (&stream).write_all(&bytes).ok()
}
