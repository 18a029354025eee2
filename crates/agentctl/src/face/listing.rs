//! Lists that a user can shape: named fields of each kind of row, templates, sorting and tables.
//!
//! Every listing command uses the same fields for `--format`, `--sort` and the columns of its table, so that a
//! column that can be seen can also be named. The fields are listed in docs/FORMAT.md.

mod adapters;
mod asks;
mod compare;
mod field;
mod file_changes;
mod fuses;
mod locks;
mod runs;
mod sorting;
mod table;
mod template;
mod worktrees;

use agentctl_core::ask::Fleet;
use agentctl_core::fleet::shortened;
use agentctl_core::model::Target;
use anstyle::Style;
use serde::Serialize;

pub use self::adapters::{CONTROL_COLUMNS, asks_in_words, messages_in_words};
pub use self::asks::AskListRow;
pub use self::compare::CompareListRow;
use self::field::field;
pub use self::field::{Field, FieldValue, RowContext, UnknownField, field_names};
pub use self::fuses::{FuseListRow, FuseSessions};
pub use self::locks::LockListRow;
pub use self::runs::RunListRow;
pub use self::sorting::{Arrangement, SortKey};
pub use self::table::{Column, Cut, TextTable, columns_table, columns_table_with};
pub use self::template::{Template, TemplateError};
pub use self::worktrees::WorktreeListRow;

/// A row of a list.
pub trait ListRow: Sized + 'static {
    /// The fields of this kind of row, in the order of the documentation.
    const FIELDS: &'static [Field<Self>];
    /// The columns of the table.
    const COLUMNS: &'static [Column];
    /// The columns of the table with `-o wide`.
    const WIDE_COLUMNS: &'static [Column];

    /// Returns the text of `-q`: the whole id, or the pid of a process without a session.
    fn id_text(&self) -> String;

    /// Returns the identity of the row over time, by which two lists are compared. The default is its id.
    fn key(&self) -> String {
        self.id_text()
    }

    /// Returns the text of `-o name`, which `agentctl status` accepts; `None` if the row has no session.
    fn status_argument(&self) -> Option<String>;

    /// The field whose column has the style of the row.
    const PAINTED: &'static str;

    /// Returns the style of the painted column.
    fn style(&self, context: &RowContext<'_>) -> Style;

    /// Returns the mark in front of the painted column of a table: it tells without colour that the row needs a person.
    fn mark(&self) -> &'static str {
        ""
    }

    /// Returns the row as it stands in the JSON document.
    fn document(&self) -> &impl Serialize;
}

/// Returns the session ids of rows as a table shows them. Only short ids need to be compared with all others.
fn shown_sessions<'a>(
    fleet: &Fleet,
    sessions: impl Iterator<Item = Option<&'a str>>,
    has_short_ids: bool,
) -> Vec<Option<String>> {
    let sessions: Vec<Option<&str>> = sessions.collect();
    let ids: Vec<&str> = sessions.iter().copied().flatten().collect();
    let mut shown = if has_short_ids && !ids.is_empty() {
        shortened(fleet, &ids).into_iter()
    } else {
        ids.into_iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
    };
    sessions.iter().map(|session| session.and_then(|_| shown.next())).collect()
}

/// Returns the argument that names a session for `agentctl status`.
#[must_use]
pub fn session_argument(adapter: Option<&str>, id: &str) -> String {
    adapter.map_or_else(|| id.to_owned(), |adapter| format!("{adapter}:{id}"))
}

/// Returns the argument that names exactly this session or process, also if two homes share the id.
#[must_use]
pub fn exact_argument(target: &Target) -> String {
    match (&target.session, target.pid) {
        (Some(locator), _) => format!("{}:{}@{}", target.adapter, locator.id, target.root),
        (None, pid) => pid.map(|pid| pid.to_string()).unwrap_or_default(),
    }
}
