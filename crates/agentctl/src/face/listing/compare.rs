//! The fields of `agentctl compare`.

use agentctl_core::ask::{CompareRow, Merges, Verification};
use agentctl_core::model::{Outcome, Status};
use anstyle::Style;
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument};
use crate::text::with_tilde;

/// The work of one slot of a group.
pub struct CompareListRow(pub CompareRow);

fn number(count: usize) -> FieldValue {
    FieldValue::Number(count as u64)
}

/// Returns a number of files, or nothing for none.
fn some(count: usize) -> FieldValue {
    if count == 0 { FieldValue::Missing } else { number(count) }
}

fn time(ms: Option<u64>) -> FieldValue {
    FieldValue::text(ms.map(|ms| match ms / 1000 {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }))
}

fn verify(verify: Option<&Verification>) -> FieldValue {
    FieldValue::text(verify.map(|verify| match verify.exit {
        Some(0) => format!("ok {}s", verify.duration_ms / 1000),
        Some(code) => format!("fail {code}"),
        None => "failed".to_owned(),
    }))
}

fn merges(merges: Option<&Merges>) -> FieldValue {
    FieldValue::text(merges.map(|merges| match merges.conflicts.len() {
        0 => "clean".to_owned(),
        1 => "1 conflict".to_owned(),
        count => format!("{count} conflicts"),
    }))
}

impl ListRow for CompareListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "slot", value: |_, row| FieldValue::Text(row.0.slot.clone()) },
        Field { name: "path", value: |_, row| FieldValue::Text(row.0.path.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "branch", value: |_, row| FieldValue::text(row.0.branch.clone()) },
        Field { name: "session", value: |_, row| FieldValue::text(row.0.session.clone()) },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.0.adapter.clone()) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.0.adapter.clone()) },
        Field { name: "status", value: |_, row| FieldValue::text(row.0.status.map(Status::word)) },
        Field {
            name: "outcome",
            value: |_, row| FieldValue::text(row.0.outcome.map(Outcome::word)),
        },
        Field { name: "time", value: |_, row| time(row.0.duration_ms) },
        Field { name: "tokens", value: tokens },
        Field { name: "cost", value: cost },
        Field {
            name: "commits",
            value: |_, row| row.0.commits.map_or(FieldValue::Missing, number),
        },
        Field { name: "files", value: |_, row| number(row.0.files) },
        Field { name: "added", value: |_, row| FieldValue::Number(row.0.added) },
        Field { name: "removed", value: |_, row| FieldValue::Number(row.0.removed) },
        Field { name: "dirty", value: |_, row| some(row.0.dirty) },
        Field { name: "verify", value: |_, row| verify(row.0.verify.as_ref()) },
        Field { name: "merges", value: |_, row| merges(row.0.merges.as_ref()) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("SLOT", "slot").cut(Cut::Right),
        Column::new("STATUS", "status"),
        Column::new("OUTCOME", "outcome").dropped(4),
        Column::new("TIME", "time").dropped(3),
        Column::new("COST", "cost").dropped(2),
        Column::new("COMMITS", "commits"),
        Column::new("FILES", "files"),
        Column::new("+", "added"),
        Column::new("-", "removed"),
        Column::new("DIRTY", "dirty"),
        Column::new("VERIFY", "verify").optional(),
        Column::new("MERGES", "merges"),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("SLOT", "slot").cut(Cut::Right),
        Column::new("DIRECTORY", "directory").cut(Cut::Path).dropped(7),
        Column::new("AGENT", "agent").dropped(6),
        Column::new("STATUS", "status"),
        Column::new("OUTCOME", "outcome").dropped(4),
        Column::new("TIME", "time").dropped(3),
        Column::new("TOKENS", "tokens").dropped(5),
        Column::new("COST", "cost").dropped(2),
        Column::new("COMMITS", "commits"),
        Column::new("FILES", "files"),
        Column::new("+", "added"),
        Column::new("-", "removed"),
        Column::new("DIRTY", "dirty"),
        Column::new("VERIFY", "verify").optional(),
        Column::new("MERGES", "merges"),
    ];

    fn id_text(&self) -> String {
        self.0.path.clone()
    }

    fn status_argument(&self) -> Option<String> {
        Some(session_argument(self.0.adapter.as_deref(), self.0.session.as_deref()?))
    }

    const PAINTED: &'static str = "status";

    fn style(&self, _: &RowContext<'_>) -> Style {
        Style::new()
    }

    fn document(&self) -> &impl Serialize {
        &self.0
    }
}

fn directory(context: &RowContext<'_>, row: &CompareListRow) -> FieldValue {
    FieldValue::Text(with_tilde(&context.host.home, &row.0.path))
}

/// Returns the number of input and output tokens, without those of caches.
fn tokens(_: &RowContext<'_>, row: &CompareListRow) -> FieldValue {
    row.0
        .tokens
        .map_or(FieldValue::Missing, |t| FieldValue::Number(t.input.saturating_add(t.output)))
}

fn cost(_: &RowContext<'_>, row: &CompareListRow) -> FieldValue {
    FieldValue::text(row.0.cost_usd.map(|usd| format!("${usd:.2}")))
}
