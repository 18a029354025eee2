//! The fields of `agentctl locks`.

use agentctl_core::ask::Fleet;
use agentctl_core::locks::{Holder, Kind, Lock};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, shown_sessions,
};
use crate::face::{full_name, holder_text, local_minute};
use crate::text::with_tilde;

/// A lock, and the part of its session's id that a table shows.
pub struct LockListRow {
    /// The lock.
    pub lock: Lock,
    short_session: Option<String>,
}

impl LockListRow {
    /// Returns the rows of these locks. Short session ids are as long as every command needs to accept them.
    #[must_use]
    pub fn all(fleet: &Fleet, locks: Vec<Lock>, has_short_ids: bool) -> Vec<Self> {
        let sessions = locks.iter().map(|lock| lock.holder.session.as_deref());
        let shown = shown_sessions(fleet, sessions, has_short_ids);
        let rows = locks.into_iter().zip(shown);
        rows.map(|(lock, short_session)| Self { lock, short_session }).collect()
    }

    fn holder(&self) -> &Holder {
        &self.lock.holder
    }

    /// Returns the session with its pid, or the text of a lock by a person.
    fn who(&self) -> String {
        let holder = self.holder();
        match (holder.adapter, self.short_session.as_deref()) {
            (Some(adapter), Some(id)) => {
                let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                format!("{}{pid}", full_name(adapter, Some(id), None))
            }
            _ if holder.kind == Kind::Manual && holder.by.is_some() => locked_by(holder),
            _ => holder_text(holder),
        }
    }
}

/// Returns the name on a lock, its reason, and its end.
fn locked_by(holder: &Holder) -> String {
    let reason = holder.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let until = holder.until.map(|until| format!(" (until {})", local_minute(until)));
    format!("{}{reason}{}", holder.by.as_deref().unwrap_or_default(), until.unwrap_or_default())
}

impl ListRow for LockListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "kind", value: |_, row| FieldValue::text(Some(row.holder().kind.word())) },
        Field { name: "cwd", value: |_, row| FieldValue::Text(row.lock.directory.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "session", value: |_, row| FieldValue::text(row.holder().session.clone()) },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.holder().adapter) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.holder().adapter) },
        Field { name: "pid", value: pid },
        Field { name: "by", value: |_, row| FieldValue::text(row.holder().by.clone()) },
        Field { name: "reason", value: |_, row| FieldValue::text(row.holder().reason.clone()) },
        Field { name: "since", value: |_, row| FieldValue::age(row.holder().since) },
        Field { name: "since_at", value: |_, row| FieldValue::moment(row.holder().since) },
        Field { name: "until_at", value: |_, row| FieldValue::moment(row.holder().until) },
        Field { name: "who", value: |_, row| FieldValue::Text(row.who()) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("SINCE", "since").dropped(1),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("HELD BY", "who").cut(Cut::Right),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("SINCE", "since").dropped(1),
        Column::new("AGENT", "agent").dropped(2),
        Column::new("PID", "pid").dropped(3),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("SESSION", "session").cut(Cut::Right).dropped(4),
        Column::new("HELD BY", "who").cut(Cut::Right),
    ];

    fn id_text(&self) -> String {
        self.lock.directory.clone()
    }

    /// A directory can have several occupants and a lock.
    fn key(&self) -> String {
        let holder = self.holder();
        let process = holder.pid.map(|pid| pid.to_string());
        let holder_id = holder.session.clone().or(process).unwrap_or_default();
        format!("{} {holder_id} {}", holder.kind.word(), self.lock.directory)
    }

    fn status_argument(&self) -> Option<String> {
        let holder = self.holder();
        let session = holder.session.as_deref();
        let session = session.map(|id| session_argument(holder.adapter, id));
        session.or_else(|| holder.pid.map(|pid| pid.to_string()))
    }

    const PAINTED: &'static str = "kind";

    fn style(&self, _: &RowContext<'_>) -> Style {
        match self.holder().kind {
            Kind::Occupied => AnsiColor::Green.on_default(),
            Kind::Manual => AnsiColor::Yellow.on_default(),
        }
    }

    fn document(&self) -> &impl Serialize {
        &self.lock
    }
}

fn directory(context: &RowContext<'_>, row: &LockListRow) -> FieldValue {
    FieldValue::Text(with_tilde(&context.host.home, &row.lock.directory))
}

fn pid(_: &RowContext<'_>, row: &LockListRow) -> FieldValue {
    row.holder().pid.map_or(FieldValue::Missing, |pid| FieldValue::Number(pid.into()))
}
