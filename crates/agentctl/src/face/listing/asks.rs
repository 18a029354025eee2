//! The fields of `agentctl asks`.

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::WaitingSession;
use agentctl_core::model::{Ask, AskChannel, Session};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, shown_sessions,
};
use crate::face::ask_summary_pieces;
use crate::text::with_tilde;

/// One ask, and its session as a table shows it.
pub struct AskListRow {
    /// The ask.
    pub ask: Ask,
    /// The id of the ask as a table shows it.
    pub shown_id: String,
    /// The id of its session, which every command accepts.
    pub session: Option<String>,
    /// The name of its session.
    pub name: Option<String>,
    /// The group of its session.
    pub group: Option<String>,
}

impl AskListRow {
    /// Makes the rows of a table; short ids of sessions need all history.
    #[must_use]
    pub fn rows(fleet: &Fleet, waiting: &[WaitingSession], has_short_ids: bool) -> Vec<Self> {
        let asks = || waiting.iter().flat_map(|row| row.asks.iter().map(|ask| (&row.session, ask)));
        let shown =
            shown_sessions(fleet, asks().map(|(_, ask)| ask.session_id.as_deref()), has_short_ids);
        let rows = asks().zip(shown).map(|((session, ask), shown)| Self {
            session: shown,
            shown_id: if has_short_ids { ask.short_id().to_owned() } else { ask.id.clone() },
            ..Self::of(session, ask.clone())
        });
        rows.collect()
    }

    /// Makes the row of one ask, with whole ids.
    #[must_use]
    pub fn of(session: &Session, ask: Ask) -> Self {
        Self {
            shown_id: ask.id.clone(),
            session: ask.session_id.clone(),
            name: session.name.clone(),
            group: session.group.clone(),
            ask,
        }
    }
}

impl ListRow for AskListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, row| FieldValue::Text(row.ask.id.clone()) },
        Field { name: "short_id", value: |_, row| FieldValue::Text(row.shown_id.clone()) },
        Field { name: "kind", value: |_, row| FieldValue::Text(row.ask.kind.word().to_owned()) },
        Field { name: "title", value: |_, row| FieldValue::Text(row.ask.title.clone()) },
        Field { name: "wants", value: |_, row| FieldValue::Texts(wants(&row.ask)) },
        Field { name: "session", value: |_, row| FieldValue::text(row.ask.session_id.clone()) },
        Field { name: "short_session", value: |_, row| FieldValue::text(session(row)) },
        Field { name: "name", value: |_, row| FieldValue::text(row.name.clone()) },
        Field { name: "group", value: |_, row| FieldValue::text(row.group.clone()) },
        Field { name: "adapter", value: |_, row| FieldValue::text(Some(row.ask.adapter)) },
        Field { name: "agent", value: |_, row| FieldValue::text(Some(row.ask.adapter)) },
        Field { name: "pid", value: pid },
        Field { name: "cwd", value: |_, row| FieldValue::text(row.ask.cwd.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "root", value: |_, row| FieldValue::Text(row.ask.root.clone()) },
        Field { name: "via", value: |_, row| FieldValue::text(row.ask.via.map(AskChannel::word)) },
        Field { name: "why_not", value: |_, row| FieldValue::text(row.ask.why_not.clone()) },
        Field { name: "since", value: |_, row| FieldValue::age(row.ask.since) },
        Field { name: "since_at", value: |_, row| FieldValue::moment(row.ask.since) },
        Field { name: "until_at", value: |_, row| FieldValue::moment(row.ask.until) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("ASK", "short_id"),
        Column::new("SINCE", "since").dropped(2),
        Column::new("AGENT", "agent").dropped(3),
        Column::new("SESSION", "short_session").cut(Cut::Right).dropped(4),
        Column::new("NAME", "name").cut(Cut::Right).dropped(5).optional(),
        Column::new("DIRECTORY", "directory").cut(Cut::Path).dropped(1),
        Column::new("WANTS", "wants").cut(Cut::Right).at_least(40),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("ASK", "short_id"),
        Column::new("SINCE", "since").dropped(2),
        Column::new("AGENT", "agent").dropped(1),
        Column::new("SESSION", "short_session").cut(Cut::Right).dropped(3),
        Column::new("NAME", "name").cut(Cut::Right).dropped(7).optional(),
        Column::new("PID", "pid").dropped(4),
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("VIA", "via").dropped(5),
        Column::new("UNTIL", "until_at").dropped(6),
        Column::new("WANTS", "wants").cut(Cut::Right),
    ];

    const PAINTED: &'static str = "short_id";

    fn id_text(&self) -> String {
        self.ask.id.clone()
    }

    fn status_argument(&self) -> Option<String> {
        let id = self.ask.session_id.as_deref();
        let session = id.map(|id| session_argument(Some(self.ask.adapter), id));
        session.or_else(|| self.ask.pid.map(|pid| pid.to_string()))
    }

    fn style(&self, _: &RowContext<'_>) -> Style {
        match self.ask.via {
            Some(_) => AnsiColor::Yellow.on_default().bold(),
            None => Style::new(),
        }
    }

    fn document(&self) -> &impl Serialize {
        &self.ask
    }
}

/// Returns the pieces of the line of an ask. A mark stands in front where it cannot be answered from here: the reason
/// is the last piece, which a narrow terminal cuts.
fn wants(ask: &Ask) -> Vec<String> {
    let mut pieces = ask_summary_pieces(ask);
    if let Some(first) = pieces.first_mut().filter(|_| ask.via.is_none()) {
        first.insert_str(0, "(elsewhere) ");
    }
    pieces
}

fn session(row: &AskListRow) -> Option<String> {
    row.session.clone().or_else(|| row.ask.pid.map(|pid| format!("pid {pid}")))
}

fn directory(context: &RowContext<'_>, row: &AskListRow) -> FieldValue {
    let home = &context.host.home;
    FieldValue::text(row.ask.cwd.as_deref().map(|cwd| with_tilde(home, cwd)))
}

fn pid(_: &RowContext<'_>, row: &AskListRow) -> FieldValue {
    row.ask.pid.map_or(FieldValue::Missing, |pid| FieldValue::Number(pid.into()))
}
