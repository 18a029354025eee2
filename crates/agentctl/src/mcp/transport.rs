//! The transport of the server: lines of JSON on standard input and output.
//!
//! A line that is no message does not end the server, and neither does a notification before the first request.
//! The end of the input is told to the calls that wait for sessions; all other calls are answered before the server
//! ends, so that the requests of a file can be piped into it.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, watch};

use super::incoming::Incoming;
use super::lines::Lines;

/// How long requests are answered after the end of the input.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_mins(1);

/// Standard input and output of this process.
pub(super) struct StdioTransport {
    lines: Lines<StdioReader>,
    /// `None` once the transport is closed.
    writer: Arc<Mutex<Option<StdioWriter>>>,
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
        Self {
            lines: Lines::new(reader),
            writer: Arc::new(Mutex::new(Some(writer))),
            has_begun: false,
            open: HashSet::new(),
            ended_at: None,
            ended,
        }
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

    /// Returns the next message; `None` at the end of the input. Requests that are not of the protocol are answered.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match Incoming::of(&self.lines.next().await.ok()??) {
                Incoming::Message(message) => return Some(*message),
                Incoming::Nothing => {}
                Incoming::Wrong(answer) => {
                    let (writer, line) =
                        (Arc::clone(&self.writer), serde_json::to_vec(&answer).ok()?);
                    // On a task of its own: this call may be cancelled, and half a line is no protocol.
                    tokio::spawn(async move { write_line(&writer, line).await })
                        .await
                        .ok()?
                        .ok()?;
                }
            }
        }
    }
}

/// Writes one line of the protocol.
async fn write_line(
    writer: &Mutex<Option<StdioWriter>>,
    mut line: Vec<u8>,
) -> Result<(), io::Error> {
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    writer.write_all(&line).await?;
    writer.flush().await
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

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
        let writer = Arc::clone(&self.writer);
        let line = serde_json::to_vec(&message);
        async move { write_line(&writer, line?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        while self.ended_at.is_none() {
            let Some(message) = self.next_message().await else {
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
        if !self.open.is_empty() {
            // An answer interrupts this: the library calls again after it has sent one.
            let passed = self.ended_at.map(|ended| ended.elapsed()).unwrap_or_default();
            tokio::time::sleep(LAST_ANSWERS_TIMEOUT.saturating_sub(passed)).await;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}
