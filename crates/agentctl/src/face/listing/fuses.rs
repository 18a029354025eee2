//! The fields of `agentctl fuses`.

use agentctl_core::fuses::{Fuse, FuseState};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument};
use crate::face::{age, fuse_actions, fuse_conditions};
use crate::text::with_tilde;

/// Fewest characters of an id in the table.
const SHORT: usize = 8;

/// A fuse, and how much of its id and of its session's id distinguishes it from the other fuses.
pub struct FuseListRow {
    /// The fuse.
    pub fuse: Fuse,
    id_length: usize,
    session_length: usize,
}

impl FuseListRow {
    /// Returns the rows of these fuses.
    #[must_use]
    pub fn all(fuses: Vec<Fuse>) -> Vec<Self> {
        let ids: Vec<String> = fuses.iter().map(|fuse| fuse.id.clone()).collect();
        let sessions: Vec<String> = fuses.iter().filter_map(|fuse| fuse.session.clone()).collect();
        let row = |fuse: Fuse| {
            let id_length = distinct_length(&fuse.id, &ids);
            let session = fuse.session.as_deref().unwrap_or_default();
            let session_length = distinct_length(session, &sessions);
            Self { fuse, id_length, session_length }
        };
        fuses.into_iter().map(row).collect()
    }
}

/// Returns how many bytes of an id no other id begins with: at least eight, and no more than it has.
fn distinct_length(id: &str, all: &[String]) -> usize {
    let common = |other: &String| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let longest = all.iter().filter(|other| *other != id).map(common).max();
    longest.map_or(SHORT, |length| (length + 1).max(SHORT)).min(id.len())
}

impl ListRow for FuseListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "id", value: |_, row| FieldValue::Text(row.fuse.id.clone()) },
        Field { name: "short_id", value: short_id },
        Field { name: "state", value: |_, row| FieldValue::text(Some(row.fuse.state.word())) },
        Field { name: "expires", value: |c, row| FieldValue::text(expires(c, &row.fuse)) },
        Field { name: "due_at", value: |_, row| FieldValue::moment(row.fuse.due_at) },
        Field { name: "set_at", value: |_, row| FieldValue::Moment(row.fuse.set_at) },
        Field { name: "when", value: |_, row| FieldValue::Text(fuse_conditions(&row.fuse)) },
        Field { name: "target", value: target },
        Field { name: "cwd", value: |_, row| FieldValue::text(row.fuse.directory.clone()) },
        Field { name: "session", value: |_, row| FieldValue::text(row.fuse.session.clone()) },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.fuse.adapter.clone()) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.fuse.adapter.clone()) },
        Field { name: "then", value: |_, row| FieldValue::Text(fuse_actions(&row.fuse)) },
        Field { name: "label", value: |_, row| FieldValue::text(row.fuse.label.clone()) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("ID", "short_id"),
        Column::new("EXPIRES", "expires"),
        Column::new("WHEN", "when").cut(Cut::Right).dropped(1),
        Column::new("TARGET", "target").cut(Cut::Path),
        Column::new("THEN", "then").cut(Cut::Right).dropped(2),
        Column::new("LABEL", "label").cut(Cut::Right).dropped(3).optional(),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("ID", "id"),
        Column::new("EXPIRES", "expires"),
        Column::new("STATE", "state").dropped(4),
        Column::new("SET AT", "set_at").dropped(5),
        Column::new("WHEN", "when").cut(Cut::Right).dropped(1),
        Column::new("TARGET", "target").cut(Cut::Path),
        Column::new("THEN", "then").cut(Cut::Right).dropped(2),
        Column::new("LABEL", "label").cut(Cut::Right).dropped(3),
    ];

    fn id_text(&self) -> String {
        self.fuse.id.clone()
    }

    fn status_argument(&self) -> Option<String> {
        Some(session_argument(self.fuse.adapter.as_deref(), self.fuse.session.as_deref()?))
    }

    fn style(&self, context: &RowContext<'_>) -> Style {
        let burns = self.fuse.state == FuseState::Burning;
        let is_due = self.fuse.due_at.is_some_and(|at| at <= context.now);
        if burns && !is_due { Style::new() } else { AnsiColor::Yellow.on_default() }
    }

    fn document(&self) -> &impl Serialize {
        &self.fuse
    }
}

fn short_id(_: &RowContext<'_>, row: &FuseListRow) -> FieldValue {
    FieldValue::text(Some(row.fuse.id.get(..row.id_length).unwrap_or(&row.fuse.id)))
}

/// Returns the time that is left, or the progress of a fuse that has expired.
fn expires(context: &RowContext<'_>, fuse: &Fuse) -> Option<String> {
    match (fuse.state, fuse.due_at) {
        (FuseState::Burning, Some(at)) if at > context.now => Some(age(at, context.now)),
        (FuseState::Burning, Some(_)) => Some("due".into()),
        (FuseState::Burning, None) => None,
        (state, _) => Some(state.word().to_owned()),
    }
}

/// Returns the directory or the session, with an id that can be typed.
fn target(context: &RowContext<'_>, row: &FuseListRow) -> FieldValue {
    let fuse = &row.fuse;
    match (&fuse.directory, &fuse.session) {
        (Some(directory), _) => FieldValue::Text(with_tilde(&context.host.home, directory)),
        (None, Some(id)) => {
            let short = id.get(..row.session_length).unwrap_or(id);
            FieldValue::Text(session_argument(fuse.adapter.as_deref(), short))
        }
        (None, None) => FieldValue::Missing,
    }
}
