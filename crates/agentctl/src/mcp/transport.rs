//! The transport of the server: lines of JSON on standard input and output.
//!
//! A line that is no message does not end the server, and neither does a notification before the first request.
//! The end of the input is told to the calls that wait for sessions; all other calls are answered before the server
//! ends, so that the requests of a file can be piped into it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use tokio::sync::watch;

use super::limits::MAX_LINE_BYTES;

/// How long requests are answered after the end of the input.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause between two looks for requests without an answer.
const LAST_ANSWERS_PAUSE: Duration = Duration::from_millis(5);

/// Standard input and output of this process.
pub(super) struct StdioTransport {
    lines: AsyncRwTransport<RoleServer, StdioReader, StdioWriter>,
    /// The first request has arrived.
    has_begun: bool,
    /// The requests without an answer.
    open: HashSet<RequestId>,
    /// When the input ended.
    ended_at: Option<Instant>,
    ended: watch::Sender<bool>,
}

impl StdioTransport {
    /// Takes standard input and output. `ended` becomes true at the end of the input.
    pub(super) fn new(ended: watch::Sender<bool>) -> Self {
        let (reader, writer) = stdio_pipes();
        let lines = AsyncRwTransport::new_server(reader, writer);
        let lines = lines.with_max_line_length(MAX_LINE_BYTES);
        Self { lines, has_begun: false, open: HashSet::new(), ended_at: None, ended }
    }

    /// Remembers which requests have no answer yet.
    fn count(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                self.has_begun = true;
                self.open.insert(request.id.clone());
            }
            // The library answers no request that was cancelled.
            ClientJsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            _ => {}
        }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.open.remove(id);
        }
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        while self.ended_at.is_none() {
            let Some(message) = self.lines.receive().await else {
                self.ended_at = Some(Instant::now());
                self.ended.send_replace(true);
                break;
            };
            self.count(&message);
            // The library ends the server when the first message is not a request.
            if self.has_begun {
                return Some(message);
            }
        }
        let is_late = |ended: Instant| ended.elapsed() >= LAST_ANSWERS_TIMEOUT;
        while !self.open.is_empty() && !self.ended_at.is_some_and(is_late) {
            // An answer interrupts this: the library polls again after it has sent one.
            tokio::time::sleep(LAST_ANSWERS_PAUSE).await;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
