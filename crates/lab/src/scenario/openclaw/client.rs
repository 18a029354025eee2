//! The oracle's own client of the real gateway, which shares no code with agentctl.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{PORT, TOKEN};
use crate::stage::Trouble;

/// One connection, with every right.
pub(super) struct Client {
    socket: WebSocket<TcpStream>,
    count: u64,
}

impl Client {
    /// Connects; an error says why not, or not yet.
    pub(super) fn connect() -> Result<Self, Trouble> {
        let stream = TcpStream::connect(("127.0.0.1", PORT)).map_err(|e| e.to_string())?;
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).map_err(|e| e.to_string())?;
        let url = format!("ws://127.0.0.1:{PORT}/");
        let (socket, _) = tungstenite::client(url, stream).map_err(|e| e.to_string())?;
        let mut client = Self { socket, count: 0 };
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator", "caps": [],
            "client": {"id": "cli", "version": "0.0.1", "platform": "linux", "mode": "cli"},
            "scopes": ["operator.read", "operator.write", "operator.admin"],
            "auth": {"token": TOKEN},
        });
        client.ask("connect", params)?;
        Ok(client)
    }

    /// Asks one question.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Result<Value, Trouble> {
        self.count += 1;
        let id = self.count.to_string();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.socket.send(Message::text(frame.to_string())).map_err(|e| format!("{method}: {e}"))?;
        loop {
            let Message::Text(text) = self.socket.read().map_err(|e| format!("{method}: {e}"))?
            else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if answer["type"] == "res" && answer["id"] == *id {
                return match answer["ok"].as_bool() {
                    Some(true) => Ok(answer["payload"].clone()),
                    _ => Err(format!("{method}: {}", answer["error"])),
                };
            }
        }
    }

    /// Returns the row of a session.
    pub(super) fn row(&mut self, id: &str) -> Result<Value, Trouble> {
        let list = self.ask("sessions.list", json!({"limit": 500, "archived": "all"}))?;
        let rows = list["sessions"].as_array().cloned().unwrap_or_default();
        Ok(rows.into_iter().find(|row| row["sessionId"] == id).unwrap_or_default())
    }
}
