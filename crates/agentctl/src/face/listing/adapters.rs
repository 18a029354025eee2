//! The fields of `agentctl adapters`.

use agentctl_core::ask::{AdapterAnswering, AdapterControl, AdapterRow};
use anstyle::Style;
use serde::Serialize;

use super::{Column, Cut, Field, FieldValue, ListRow, RowContext};

impl ListRow for AdapterRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "name", value: |_, row| FieldValue::Text(row.name.clone()) },
        Field { name: "installed", value: |_, row| installed(row) },
        Field { name: "version", value: |_, row| FieldValue::text(row.version.clone()) },
        Field { name: "program", value: |_, row| FieldValue::text(row.program.clone()) },
        Field { name: "live", value: |_, row| FieldValue::yes(row.live) },
        Field { name: "history", value: |_, row| FieldValue::yes(row.history) },
        Field { name: "tokens", value: |_, row| FieldValue::yes(row.tokens) },
        Field { name: "cost", value: |_, row| FieldValue::yes(row.cost) },
        Field { name: "subagents", value: |_, row| FieldValue::yes(row.subagents) },
        Field { name: "changes", value: |_, row| FieldValue::text(row.changes.clone()) },
        Field { name: "waiting", value: |_, row| FieldValue::Text(row.waiting.clone()) },
        Field { name: "asks", value: |_, row| FieldValue::text(answering(row, |a| &a.asks)) },
        Field {
            name: "messages",
            value: |_, row| FieldValue::text(answering(row, |a| &a.messages)),
        },
        Field { name: "fork", value: |_, row| FieldValue::yes(control(row, |c| c.fork)) },
        Field { name: "edits", value: |_, row| FieldValue::text(words(row, |c| &c.edits)) },
        Field { name: "bypass", value: |_, row| FieldValue::text(words(row, |c| &c.bypass)) },
        Field { name: "stop", value: |_, row| FieldValue::text(words(row, |c| &c.stop)) },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("AGENT", "name"),
        Column::new("INSTALLED", "installed").cut(Cut::Right),
        Column::new("LIVE", "live").dropped(5),
        Column::new("HISTORY", "history").dropped(4),
        Column::new("TOKENS", "tokens").dropped(3),
        Column::new("COST", "cost").dropped(2),
        Column::new("SUBAGENTS", "subagents").dropped(6),
        Column::new("WAITING", "waiting").cut(Cut::Right),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("AGENT", "name"),
        Column::new("INSTALLED", "installed").cut(Cut::Right),
        Column::new("LIVE", "live").dropped(5),
        Column::new("HISTORY", "history").dropped(4),
        Column::new("TOKENS", "tokens").dropped(3),
        Column::new("COST", "cost").dropped(2),
        Column::new("SUBAGENTS", "subagents").dropped(6),
        Column::new("FORK", "fork").dropped(7),
        Column::new("CHANGES", "changes").dropped(8),
        Column::new("WAITING", "waiting").cut(Cut::Right),
        Column::new("ASKS", "asks").cut(Cut::Right).dropped(13),
        Column::new("MESSAGES", "messages").cut(Cut::Right).dropped(14),
        Column::new("PERMISSIONS EDITS", "edits").cut(Cut::Right).dropped(9),
        Column::new("PERMISSIONS BYPASS", "bypass").cut(Cut::Right).dropped(10),
        Column::new("STOP", "stop").cut(Cut::Right).dropped(11),
        Column::new("PROGRAM", "program").cut(Cut::Path).dropped(12),
    ];

    fn id_text(&self) -> String {
        self.name.clone()
    }

    fn status_argument(&self) -> Option<String> {
        // No session is named here; the name is what `launch` and `--adapter` accept.
        Some(self.name.clone())
    }

    const PAINTED: &'static str = "name";

    fn style(&self, _: &RowContext<'_>) -> Style {
        Style::new()
    }

    fn document(&self) -> &impl Serialize {
        self
    }
}

/// The columns of the table about `--permissions`.
pub const CONTROL_COLUMNS: &[Column] = &[
    Column::new("AGENT", "name"),
    Column::new("FORK", "fork").dropped(1),
    Column::new("--permissions edits", "edits").cut(Cut::Right).dropped(2),
    Column::new("--permissions bypass", "bypass").cut(Cut::Right).dropped(3),
];

fn installed(row: &AdapterRow) -> FieldValue {
    match (&row.version, row.installed) {
        (Some(version), true) => FieldValue::Text(version.clone()),
        (None, true) => FieldValue::Text("yes".into()),
        _ => FieldValue::Missing,
    }
}

fn control(row: &AdapterRow, ability: impl Fn(&AdapterControl) -> bool) -> bool {
    row.control.as_ref().is_some_and(ability)
}

/// Returns words about its asks or messages; a dash stands for none.
fn answering(row: &AdapterRow, words: impl Fn(&AdapterAnswering) -> &String) -> Option<String> {
    row.answering.as_ref().map(|answering| words(answering).clone()).filter(|words| words != "-")
}

/// Returns in words which asks of an agent can be answered.
#[must_use]
pub fn asks_in_words(row: &AdapterRow) -> String {
    let why = row.answering.as_ref().and_then(|answering| answering.no_ask.as_deref());
    let none = || why.map_or("asks nobody".to_owned(), |why| format!("none: {why}"));
    answering(row, |a| &a.asks).unwrap_or_else(none)
}

/// Returns in words which sessions of an agent take messages while they live.
#[must_use]
pub fn messages_in_words(row: &AdapterRow) -> String {
    answering(row, |a| &a.messages).unwrap_or_else(|| "takes none".to_owned())
}

fn words(row: &AdapterRow, words: impl Fn(&AdapterControl) -> &String) -> Option<String> {
    row.control.as_ref().map(|control| words(control).clone())
}
