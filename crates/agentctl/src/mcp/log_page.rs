//! A page of a conversation, and the cursor that names the messages before it.
//!
//! A cursor holds the digest of the oldest message of a page and its distance from the end. A conversation only
//! grows at its end, so the message is found again at that distance or further from the end.

use std::hash::{DefaultHasher, Hash, Hasher};

use agentctl_core::ask::{Fleet, LogsDocument, LogsRequest, NoLogs};
use agentctl_core::model::{Message, SCHEMA_VERSION};
use agentctl_core::transcript::{Limit, Selection};

use super::bounded::cut_message;
use super::documents::{LogDocument, LogMessage};
use crate::face::{unread_conversation, unresolved};
use crate::failure::{Failure, Kind};

/// Messages that may have been added between two pages before the whole conversation is read.
const GROWTH: usize = 100;

/// The place of the oldest message of a page.
struct Cursor {
    /// How many messages from the end it was at least.
    distance: usize,
    digest: u64,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let (distance, digest) = text.split_once('-')?;
        Some(Self {
            distance: distance.parse().ok()?,
            digest: u64::from_str_radix(digest, 16).ok()?,
        })
    }

    fn write(&self) -> String {
        format!("{}-{:016x}", self.distance, self.digest)
    }
}

/// Reads the last messages, or those before a cursor.
pub(super) fn page(
    fleet: &Fleet,
    session: &str,
    last: usize,
    before: Option<&str>,
) -> Result<LogDocument, Failure> {
    let unknown = || {
        let message = format!("`before`: `{}` names no page", before.unwrap_or_default());
        Failure::new(Kind::Usage, message).hint("give the `before` of an earlier result")
    };
    let cursor = before.map(|text| Cursor::parse(text).ok_or_else(unknown)).transpose()?;
    let skip = cursor.as_ref().map_or(0, |cursor| cursor.distance + GROWTH);
    // One message more tells whether there are messages before the page.
    let wanted = Limit::Messages(skip.saturating_add(last + 1));
    let mut document = read(fleet, session, wanted)?;
    let end = match &cursor {
        None => document.messages.len(),
        Some(cursor) => match place(&document.messages, cursor) {
            Some(end) if end > last || document.messages.len() < skip + last + 1 => end,
            _ => {
                document = read(fleet, session, Limit::None)?;
                place(&document.messages, cursor).ok_or_else(unknown)?
            }
        },
    };
    let start = end.saturating_sub(last);
    let oldest = document.messages.get(start).filter(|_| start > 0);
    let distance = document.messages.len() - start;
    let before = oldest.map(|oldest| Cursor { distance, digest: digest(oldest) }.write());
    let messages = document.messages.drain(start..end).map(bounded).collect();
    let (schema_version, faults) = (SCHEMA_VERSION, document.faults);
    Ok(LogDocument { schema_version, messages, before, faults })
}

fn read(fleet: &Fleet, session: &str, limit: Limit) -> Result<LogsDocument, Failure> {
    let selection = Selection { limit, ..Selection::default() };
    let request = LogsRequest { session: session.to_owned(), selection };
    fleet.logs(&request).map_err(|why| match why {
        NoLogs::NotOne(why) => unresolved(fleet, session, why),
        NoLogs::Unread(error) => unread_conversation(&error),
    })
}

/// Returns the index of the message of a cursor.
fn place(messages: &[Message], cursor: &Cursor) -> Option<usize> {
    let newest = messages.len().checked_sub(cursor.distance)?;
    let candidates = messages.get(..=newest)?;
    candidates.iter().rposition(|message| digest(message) == cursor.digest)
}

/// Returns the digest of a message without its tokens, which depend on the part that was read.
fn digest(message: &Message) -> u64 {
    let message = Message { usage: None, ..message.clone() };
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&message).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn bounded(message: Message) -> LogMessage {
    let (message, cut) = cut_message(serde_json::to_value(message).unwrap_or_default());
    LogMessage { message, cut }
}
