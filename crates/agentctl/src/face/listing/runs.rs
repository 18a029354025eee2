//! The fields of `agentctl runs`.

use agentctl_core::ask::RunRow;
use anstyle::Style;
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument};
use crate::face::exit_text;
use crate::text::with_tilde;

/// Number of characters of a session id in the table.
const SHORT: usize = 8;

impl ListRow for RunRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, run| FieldValue::Text(run.id.clone()) },
        Field { name: "session", value: |_, run| FieldValue::text(run.session.clone()) },
        Field { name: "short_session", value: |_, run| FieldValue::text(short_session(run)) },
        Field { name: "name", value: |_, run| FieldValue::text(run.name.clone()) },
        Field { name: "group", value: |_, run| FieldValue::text(run.group.clone()) },
        Field { name: "adapter", value: |_, run| FieldValue::text(run.adapter.clone()) },
        Field { name: "agent", value: |_, run| FieldValue::text(run.adapter.clone()) },
        Field { name: "cwd", value: |_, run| FieldValue::text(run.cwd.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "started", value: |_, run| FieldValue::age(run.started_at) },
        Field { name: "started_at", value: |_, run| FieldValue::moment(run.started_at) },
        Field { name: "ended", value: |_, run| FieldValue::age(run.ended_at) },
        Field { name: "ended_at", value: |_, run| FieldValue::moment(run.ended_at) },
        Field { name: "exit", value: |_, run| FieldValue::text(run.exit.and_then(exit_text)) },
        Field { name: "size", value: |_, run| FieldValue::Size(run.bytes) },
        Field { name: "bytes", value: |_, run| FieldValue::Number(run.bytes) },
        Field { name: "folder", value: folder },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("SESSION", "short_session"),
        Column::new("NAME", "name").cut(Cut::Right).dropped(2).optional(),
        Column::new("AGENT", "agent").dropped(3),
        Column::new("STARTED", "started"),
        Column::new("ENDED", "ended").dropped(4),
        Column::new("EXIT", "exit"),
        Column::new("SIZE", "size").dropped(5),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("SESSION", "short_session"),
        Column::new("NAME", "name").cut(Cut::Right).dropped(2).optional(),
        Column::new("AGENT", "agent").dropped(3),
        Column::new("GROUP", "group").cut(Cut::Right).dropped(6),
        Column::new("STARTED", "started"),
        Column::new("ENDED", "ended").dropped(4),
        Column::new("EXIT", "exit"),
        Column::new("SIZE", "size").dropped(5),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("FOLDER", "folder").cut(Cut::Path).dropped(7),
    ];

    fn id_text(&self) -> String {
        self.session.clone().unwrap_or_else(|| self.id.clone())
    }

    fn status_argument(&self) -> Option<String> {
        Some(session_argument(self.adapter.as_deref(), self.session.as_deref()?))
    }

    fn style(&self, _: &RowContext<'_>) -> Style {
        Style::new()
    }

    fn document(&self) -> &impl Serialize {
        self
    }
}

fn short_session(run: &RunRow) -> Option<&str> {
    let id = run.session.as_deref()?;
    Some(id.get(..SHORT).unwrap_or(id))
}

fn directory(context: &RowContext<'_>, run: &RunRow) -> FieldValue {
    FieldValue::text(run.cwd.as_deref().map(|cwd| with_tilde(&context.host.home, cwd)))
}

fn folder(context: &RowContext<'_>, run: &RunRow) -> FieldValue {
    FieldValue::Text(with_tilde(&context.host.home, &run.directory))
}
