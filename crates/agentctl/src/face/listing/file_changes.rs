//! The fields of `agentctl changes`.

use agentctl_core::model::{ChangeKind, FileChanges};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext};
use crate::face::shown_path;

impl ListRow for FileChanges {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "path", value: |_, row| FieldValue::Text(shown_path(&row.path)) },
        Field {
            name: "from",
            value: |_, row| FieldValue::text(row.from.as_deref().map(shown_path)),
        },
        Field { name: "kind", value: |_, row| FieldValue::Text(row.kind.word().to_owned()) },
        Field { name: "edits", value: |_, row| FieldValue::Number(row.edits) },
        Field { name: "added", value: |_, row| number(row.added) },
        Field { name: "removed", value: |_, row| number(row.removed) },
        Field { name: "by", value: |_, row| FieldValue::Text(row.by.word().to_owned()) },
        Field { name: "told", value: |_, row| FieldValue::Text(row.told.word().to_owned()) },
        Field { name: "now", value: |_, row| FieldValue::Text(row.now.word().to_owned()) },
        Field { name: "first", value: |_, row| FieldValue::age(row.first_at) },
        Field { name: "first_at", value: |_, row| FieldValue::moment(row.first_at) },
        Field { name: "last", value: |_, row| FieldValue::age(row.last_at) },
        Field { name: "last_at", value: |_, row| FieldValue::moment(row.last_at) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("PATH", "path").cut(Cut::Path),
        Column::new("EDITS", "edits").dropped(3),
        Column::new("+", "added"),
        Column::new("-", "removed"),
        Column::new("BY", "by").dropped(1),
        Column::new("TOLD", "told").dropped(2),
        Column::new("NOW", "now"),
        Column::new("LAST", "last").dropped(4),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("KIND", "kind"),
        Column::new("PATH", "path").cut(Cut::Path),
        Column::new("FROM", "from").cut(Cut::Path).dropped(5),
        Column::new("EDITS", "edits").dropped(3),
        Column::new("+", "added"),
        Column::new("-", "removed"),
        Column::new("BY", "by").dropped(1),
        Column::new("TOLD", "told").dropped(2),
        Column::new("NOW", "now"),
        Column::new("FIRST", "first").dropped(6),
        Column::new("LAST", "last").dropped(4),
    ];

    const PAINTED: &'static str = "kind";

    fn id_text(&self) -> String {
        shown_path(&self.path)
    }

    fn status_argument(&self) -> Option<String> {
        None
    }

    fn style(&self, _: &RowContext<'_>) -> Style {
        match self.kind {
            ChangeKind::Added => AnsiColor::Green.on_default(),
            ChangeKind::Deleted => AnsiColor::Red.on_default(),
            ChangeKind::Changed | ChangeKind::Moved => Style::new(),
        }
    }

    fn document(&self) -> &impl Serialize {
        self
    }
}

fn number(count: Option<u64>) -> FieldValue {
    count.map_or(FieldValue::Missing, FieldValue::Number)
}
