//! The transport of the server: lines of JSON on standard input and output.
//!
//! A line that is no message does not end the server, and neither does a notification before the first request.
//! The end of the input is told to the calls that still wait.

use rmcp::RoleServer;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use tokio::sync::watch;

use super::limits::MAX_LINE_BYTES;

/// Standard input and output of this process.
pub(super) struct StdioTransport {
    lines: AsyncRwTransport<RoleServer, StdioReader, StdioWriter>,
    /// The first request has arrived.
    has_begun: bool,
    ended: watch::Sender<bool>,
}

impl StdioTransport {
    /// Takes standard input and output. `ended` becomes true at the end of the input.
    pub(super) fn new(ended: watch::Sender<bool>) -> Self {
        let (reader, writer) = stdio_pipes();
        let lines = AsyncRwTransport::new_server(reader, writer);
        let lines = lines.with_max_line_length(MAX_LINE_BYTES);
        Self { lines, has_begun: false, ended }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.lines.receive().await else {
                self.ended.send_replace(true);
                return None;
            };
            self.has_begun |= matches!(message, ClientJsonRpcMessage::Request(_));
            // The library ends the server when the first message is not a request.
            if self.has_begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
