//! The fields of `agentctl list`, for templates, sorting and the wide table.

use agentctl_core::fleet::Rows;
use agentctl_core::model::{Outcome, Session, Status, Time};
use anstyle::Style;
use serde::Serialize;

use super::{depths, directory, what};
use crate::face::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, session_reason,
};
use crate::ui::Ui;

/// A session as a row of a list.
pub struct SessionRow {
    /// The session.
    pub session: Session,
    /// The part of its id that a table shows.
    short_id: Option<String>,
    /// Its indentation below its parent.
    depth: usize,
}

/// The fields that a list for the plain table leaves out.
pub const FIELDS_BEYOND_THE_TABLE: [&str; 3] = ["model", "prompt", "native_key"];

impl SessionRow {
    /// Returns a row without a table around it.
    #[must_use]
    pub fn alone(session: Session) -> Self {
        Self { session, short_id: None, depth: 0 }
    }

    /// Returns the rows of a list, one after another, with whole ids or short ones.
    pub fn all(rows: &Rows, has_whole_ids: bool) -> impl Iterator<Item = Self> {
        let depths = depths(rows);
        (0..rows.len()).filter_map(move |at| {
            let session = rows.get(at)?;
            let short_id = rows.short_id(at).filter(|_| !has_whole_ids).map(str::to_owned);
            Some(Self { session, short_id, depth: depths[at] })
        })
    }
}

impl ListRow for SessionRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, row| FieldValue::text(row.session.id.clone()) },
        Field { name: "short_id", value: |_, row| FieldValue::text(short_id(row)) },
        Field { name: "name", value: |_, row| FieldValue::text(row.session.name.clone()) },
        Field { name: "status", value: |_, row| status(&row.session) },
        Field { name: "reason", value: |_, row| FieldValue::text(session_reason(&row.session)) },
        Field { name: "what", value: |c, row| FieldValue::text(Some(what(c.host, &row.session))) },
        Field { name: "adapter", value: |_, row| FieldValue::text(Some(row.session.adapter)) },
        Field { name: "agent", value: |_, row| FieldValue::text(Some(row.session.adapter)) },
        Field { name: "pid", value: |_, row| pid(&row.session) },
        Field { name: "cwd", value: |_, row| FieldValue::text(row.session.cwd.clone()) },
        Field { name: "directory", value: short_directory },
        Field { name: "title", value: |_, row| FieldValue::text(row.session.title.clone()) },
        Field { name: "prompt", value: |_, row| FieldValue::text(row.session.prompt.clone()) },
        Field { name: "model", value: |_, row| FieldValue::text(row.session.model.clone()) },
        Field { name: "group", value: |_, row| FieldValue::text(row.session.group.clone()) },
        Field { name: "active", value: |_, row| FieldValue::age(newest(&row.session)) },
        Field {
            name: "last_activity_at",
            value: |_, row| FieldValue::moment(row.session.last_activity_at),
        },
        Field { name: "started", value: |_, row| FieldValue::age(row.session.started_at) },
        Field { name: "started_at", value: |_, row| FieldValue::moment(row.session.started_at) },
        Field { name: "ended", value: |_, row| FieldValue::age(row.session.ended_at) },
        Field { name: "ended_at", value: |_, row| FieldValue::moment(row.session.ended_at) },
        Field {
            name: "outcome",
            value: |_, row| FieldValue::text(row.session.outcome.map(Outcome::word)),
        },
        Field { name: "parent", value: |_, row| FieldValue::text(row.session.parent.clone()) },
        Field { name: "run", value: |_, row| FieldValue::text(row.session.run.clone()) },
        Field { name: "root", value: |_, row| FieldValue::Text(row.session.root.clone()) },
        Field {
            name: "native_key",
            value: |_, row| FieldValue::text(row.session.native_key.clone()),
        },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("NAME", "name").cut(Cut::Right).dropped(1).optional(),
        Column::new("STATUS", "status"),
        Column::new("AGENT", "agent").dropped(2),
        Column::new("ID", "short_id"),
        Column::new("ACTIVE", "active").dropped(4),
        Column::new("DIRECTORY", "directory").cut(Cut::Path).dropped(3),
        Column::new("WHAT", "what").cut(Cut::Right),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("NAME", "name").cut(Cut::Right).dropped(1).optional(),
        Column::new("STATUS", "status"),
        Column::new("AGENT", "agent").dropped(2),
        Column::new("ID", "short_id"),
        Column::new("ACTIVE", "active").dropped(4),
        Column::new("GROUP", "group").cut(Cut::Right).dropped(7),
        Column::new("MODEL", "model").cut(Cut::Right).dropped(8),
        Column::new("PID", "pid").dropped(6),
        Column::new("STARTED", "started").dropped(5),
        Column::new("DIRECTORY", "directory").cut(Cut::Path).dropped(3),
        Column::new("WHAT", "what").cut(Cut::Right),
    ];

    fn id_text(&self) -> String {
        let pid = || self.session.pid.map(|pid| pid.to_string());
        self.session.id.clone().or_else(pid).unwrap_or_default()
    }

    fn status_argument(&self) -> Option<String> {
        let id =
            self.session.id.as_deref().map(|id| session_argument(Some(self.session.adapter), id));
        id.or_else(|| self.session.pid.map(|pid| pid.to_string()))
    }

    const PAINTED: &'static str = "status";

    fn style(&self, _: &RowContext<'_>) -> Style {
        Ui::status_style(self.session.status)
    }

    fn mark(&self) -> &'static str {
        if self.session.status == Status::Waiting { "! " } else { "" }
    }

    fn document(&self) -> &impl Serialize {
        &self.session
    }
}

fn short_id(row: &SessionRow) -> Option<String> {
    let id = row.short_id.as_deref().or(row.session.id.as_deref());
    let id = match (id, row.session.pid) {
        (Some(id), _) => id.to_owned(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => return None,
    };
    Some(if row.depth == 0 { id } else { format!("{}└ {id}", "  ".repeat(row.depth - 1)) })
}

/// Returns the status, which is sorted in the order of a list: the sessions that need a person first.
fn status(session: &Session) -> FieldValue {
    let rank = Status::ALL.iter().position(|status| *status == session.status);
    let rank = rank.and_then(|rank| u8::try_from(rank).ok()).unwrap_or(u8::MAX);
    FieldValue::Ranked(rank, session.status.word())
}

fn pid(session: &Session) -> FieldValue {
    session.pid.map_or(FieldValue::Missing, |pid| FieldValue::Number(pid.into()))
}

fn short_directory(context: &RowContext<'_>, row: &SessionRow) -> FieldValue {
    FieldValue::text(row.session.cwd.as_deref().map(|cwd| directory(context.host, cwd)))
}

fn newest(session: &Session) -> Option<Time> {
    session.last_activity_at.or(session.started_at)
}
