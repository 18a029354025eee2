//! The fields of `agentctl runs`.

use agentctl_core::ask::{Fleet, RunRow};
use agentctl_core::resolve::unknown_sessions;
use anstyle::Style;
use serde::Serialize;

use super::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, shown_sessions,
};
use crate::face::exit_text;
use crate::text::with_tilde;

/// A run, and the part of its session's id that a table shows.
pub struct RunListRow {
    /// The run.
    pub run: RunRow,
    /// The id of its session, if `agentctl status` knows it. A launch that failed may have none.
    session: Option<String>,
    short_session: Option<String>,
}

impl RunListRow {
    /// Returns the rows of these runs. Short session ids are as long as every command needs to accept them.
    #[must_use]
    pub fn all(fleet: &Fleet, runs: Vec<RunRow>, has_short_ids: bool) -> Vec<Self> {
        let known = known_sessions(fleet, &runs);
        let sessions = known.iter().map(Option::as_deref);
        let shown = shown_sessions(fleet, sessions, has_short_ids);
        let row = |((run, session), short_session)| Self { run, session, short_session };
        runs.into_iter().zip(known.clone()).zip(shown).map(row).collect()
    }

    /// Returns the part of the session's id that a table shows.
    #[must_use]
    pub fn short_session(&self) -> Option<&str> {
        self.short_session.as_deref()
    }
}

/// Returns the session of each run; `None` where no source knows it.
fn known_sessions(fleet: &Fleet, runs: &[RunRow]) -> Vec<Option<String>> {
    let session = |run: &RunRow| Some((run.adapter.clone()?, run.session.clone()?));
    let sessions: Vec<Option<(String, String)>> = runs.iter().map(session).collect();
    let named: Vec<(&str, &str)> =
        sessions.iter().flatten().map(|(adapter, id)| (&**adapter, &**id)).collect();
    let unknown = unknown_sessions(fleet, &named);
    let known = |session: Option<(String, String)>| {
        session.filter(|session| !unknown.contains(session)).map(|(_, id)| id)
    };
    sessions.into_iter().map(known).collect()
}

impl ListRow for RunListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, row| FieldValue::Text(row.run.id.clone()) },
        Field { name: "session", value: |_, row| FieldValue::text(row.session.clone()) },
        Field { name: "short_session", value: |_, row| FieldValue::text(row.short_session()) },
        Field { name: "name", value: |_, row| FieldValue::text(row.run.name.clone()) },
        Field { name: "group", value: |_, row| FieldValue::text(row.run.group.clone()) },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.run.adapter.clone()) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.run.adapter.clone()) },
        Field { name: "cwd", value: |_, row| FieldValue::text(row.run.cwd.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "started", value: |_, row| FieldValue::age(row.run.started_at) },
        Field { name: "started_at", value: |_, row| FieldValue::moment(row.run.started_at) },
        Field { name: "ended", value: |_, row| FieldValue::age(row.run.ended_at) },
        Field { name: "ended_at", value: |_, row| FieldValue::moment(row.run.ended_at) },
        Field { name: "exit", value: |_, row| FieldValue::text(row.run.exit.and_then(exit_text)) },
        Field { name: "size", value: |_, row| FieldValue::Size(row.run.bytes) },
        Field { name: "bytes", value: |_, row| FieldValue::Number(row.run.bytes) },
        Field { name: "prompt", value: |_, row| FieldValue::text(row.run.prompt.clone()) },
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
        Column::new("PROMPT", "prompt").cut(Cut::Right).dropped(6),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("SESSION", "short_session"),
        Column::new("NAME", "name").cut(Cut::Right).dropped(2).optional(),
        Column::new("AGENT", "agent").dropped(3),
        Column::new("GROUP", "group").cut(Cut::Right).dropped(7),
        Column::new("STARTED", "started"),
        Column::new("ENDED", "ended").dropped(4),
        Column::new("EXIT", "exit"),
        Column::new("SIZE", "size").dropped(5),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("PROMPT", "prompt").cut(Cut::Right).dropped(6),
        Column::new("FOLDER", "folder").cut(Cut::Path).dropped(8),
    ];

    fn id_text(&self) -> String {
        self.session.clone().unwrap_or_else(|| self.run.id.clone())
    }

    fn key(&self) -> String {
        self.run.id.clone()
    }

    fn status_argument(&self) -> Option<String> {
        Some(session_argument(self.run.adapter.as_deref(), self.session.as_deref()?))
    }

    const PAINTED: &'static str = "exit";

    fn style(&self, _: &RowContext<'_>) -> Style {
        Style::new()
    }

    fn document(&self) -> &impl Serialize {
        &self.run
    }
}

fn directory(context: &RowContext<'_>, row: &RunListRow) -> FieldValue {
    FieldValue::text(row.run.cwd.as_deref().map(|cwd| with_tilde(&context.host.home, cwd)))
}

fn folder(context: &RowContext<'_>, row: &RunListRow) -> FieldValue {
    FieldValue::Text(with_tilde(&context.host.home, &row.run.directory))
}
