//! The thread that watches all sessions: the same rows as `list --watch`.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::ask::Fleet;
use agentctl_core::events::Notifier;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::model::{Fault, Time};

use super::app::{Look, Message, SessionKey, TopRow};
use super::newest::NewestLook;
use crate::face::{
    FeedCloser, ListChanges, ListItem, ListStream, NotificationText, TerminalSequence,
    USUAL_HISTORY, beginning, fault_text,
};
use crate::session_table::{ListWidths, ListedRow};
use crate::ui::Screen;

/// The sessions, before their thread runs.
pub(crate) struct Sessions {
    fleet: Fleet,
    stream: ListStream,
    settings_faults: Vec<Fault>,
    is_notified: bool,
}

/// The handle of the thread.
pub(crate) struct SessionsHandle {
    fleet: Fleet,
    wanted: Arc<Mutex<Query>>,
    notifier: Notifier,
    closer: FeedCloser,
    messages: Sender<Message>,
}

fn query(fleet: &Fleet, all: bool, children: bool) -> Query {
    let since = if all { beginning(fleet.host.now(), USUAL_HISTORY).ok().flatten() } else { None };
    Query {
        all,
        since_ms: since.map(Time::millis),
        children,
        for_table: true,
        short_ids: true,
        ..Query::default()
    }
}

impl Sessions {
    /// Begins to watch.
    pub(crate) fn open(
        fleet: &Fleet,
        settings_faults: Vec<Fault>,
        is_notified: bool,
    ) -> io::Result<Self> {
        let mut stream = ListStream::open(fleet, &query(fleet, false, false))?;
        stream.check_paused_sessions();
        Ok(Self { fleet: fleet.clone(), stream, settings_faults, is_notified })
    }

    /// Starts the thread.
    pub(crate) fn spawn(
        self,
        screen: Arc<Screen>,
        newest: NewestLook,
        messages: Sender<Message>,
    ) -> SessionsHandle {
        let handle = SessionsHandle {
            fleet: self.fleet.clone(),
            wanted: Arc::new(Mutex::new(query(&self.fleet, false, false))),
            notifier: self.stream.feed().notifier(),
            closer: self.stream.closer(),
            messages: messages.clone(),
        };
        let wanted = Arc::clone(&handle.wanted);
        std::thread::spawn(move || {
            let failed = self.watch(&screen, &wanted, (&newest, &messages)).err();
            if let Some(error) = failed {
                let warnings = vec![format!("changes are not noticed any more: {error}")];
                let _unheard = messages.send(Message::Warn(warnings));
            }
        });
        handle
    }

    fn watch(
        mut self,
        screen: &Screen,
        wanted: &Mutex<Query>,
        (newest, messages): (&NewestLook, &Sender<Message>),
    ) -> io::Result<()> {
        let mut changes = ListChanges::default();
        let mut query = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        loop {
            let look = match self.stream.next_item()? {
                ListItem::Closed => return Ok(()),
                ListItem::Nothing => continue,
                ListItem::Look => None,
                ListItem::Rows(rows) => {
                    changes.compare(&rows);
                    let look = self.look(&rows);
                    if self.is_notified {
                        self.notify(screen, &changes)?;
                    }
                    Some(look)
                }
            };
            let now = wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if now != query {
                // The list of the other query is the next item.
                self.stream.set_query(&now);
                query = now;
                continue;
            }
            let is_first = match look {
                Some(look) => newest.put_look(look),
                None => newest.put_asks(self.stream.asks().to_vec()),
            };
            if is_first && messages.send(Message::NewLook).is_err() {
                return Ok(());
            }
        }
    }

    fn look(&self, rows: &Rows) -> Look {
        let listed = ListedRow::all(&self.fleet.host, rows);
        let faults = rows.faults.iter().chain(&self.settings_faults);
        let trouble = self.stream.feed().trouble();
        let trouble = trouble.map(|why| format!("changes may be noticed late: {why}"));
        Look {
            widths: ListWidths::of(&listed),
            rows: listed.into_iter().map(TopRow::new).collect(),
            asks: self.stream.asks().to_vec(),
            warnings: faults.map(fault_text).chain(trouble).collect(),
        }
    }

    /// Notifies the terminal of the sessions that began to wait.
    fn notify(&self, screen: &Screen, changes: &ListChanges) -> io::Result<()> {
        for session in changes.began_to_wait() {
            let text = NotificationText::waiting(session);
            screen.write_frame(&TerminalSequence::of(&self.fleet.host).bytes(&text))?;
        }
        Ok(())
    }
}

impl SessionsHandle {
    /// Lists ended sessions and subagents, or not.
    pub(crate) fn set_query(&self, all: bool, children: bool) {
        let query = query(&self.fleet, all, children);
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = query;
        self.notifier.notify();
    }

    /// Reads on a thread of its own how a session ended that left the list. A session whose record is gone too keeps
    /// the row that it has.
    pub(crate) fn read_end(&self, session: SessionKey) {
        let (fleet, messages) = (self.fleet.clone(), self.messages.clone());
        std::thread::spawn(move || {
            let Ok(found) = fleet.status(&session.argument()) else { return };
            let rows = Rows::of(&[found.document.session]);
            if let Some(row) = ListedRow::all(&fleet.host, &rows).pop() {
                let _unheard = messages.send(Message::Ended(Box::new(row)));
            }
        });
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closer.close();
    }
}
