//! The fields of `agentctl worktree list`.

use agentctl_core::ask::{Fleet, WorktreeRow};
use agentctl_core::model::Status;
use agentctl_core::worktrees::{Merged, WorktreeState};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{
    Column, Cut, Field, FieldValue, ListRow, RowContext, session_argument, shown_sessions,
};
use crate::text::with_tilde;

/// A worktree, and the part of its session's id that a table shows.
pub struct WorktreeListRow {
    /// The worktree.
    pub worktree: WorktreeRow,
    short_session: Option<String>,
}

impl WorktreeListRow {
    /// Returns the rows of these worktrees. Short session ids are as long as every command needs to accept them.
    #[must_use]
    pub fn all(fleet: &Fleet, worktrees: Vec<WorktreeRow>, has_short_ids: bool) -> Vec<Self> {
        let sessions = worktrees.iter().map(|worktree| worktree.session.as_deref());
        let shown = shown_sessions(fleet, sessions, has_short_ids);
        let rows = worktrees.into_iter().zip(shown);
        rows.map(|(worktree, short_session)| Self { worktree, short_session }).collect()
    }
}

/// Returns a number, or [`FieldValue::Missing`].
fn number(count: Option<usize>) -> FieldValue {
    count.map_or(FieldValue::Missing, |count| FieldValue::Number(count as u64))
}

fn size(bytes: Option<u64>) -> FieldValue {
    bytes.map_or(FieldValue::Missing, FieldValue::Size)
}

fn short(commit: Option<&str>) -> FieldValue {
    FieldValue::text(commit.map(|commit| commit.chars().take(8).collect::<String>()))
}

impl ListRow for WorktreeListRow {
    const FIELDS: &'static [Field<Self>] = &[
        Field { name: "path", value: |_, row| FieldValue::text(row.worktree.path.clone()) },
        Field { name: "directory", value: directory },
        Field { name: "branch", value: |_, row| FieldValue::text(row.worktree.branch.clone()) },
        Field { name: "name", value: |_, row| FieldValue::text(row.worktree.name.clone()) },
        Field { name: "commit", value: |_, row| short(row.worktree.commit.as_deref()) },
        Field { name: "base", value: |_, row| short(row.worktree.base.as_deref()) },
        Field {
            name: "base_branch",
            value: |_, row| FieldValue::text(row.worktree.base_branch.clone()),
        },
        Field { name: "session", value: |_, row| FieldValue::text(row.worktree.session.clone()) },
        Field {
            name: "short_session",
            value: |_, row| FieldValue::text(row.short_session.clone()),
        },
        Field { name: "adapter", value: |_, row| FieldValue::text(row.worktree.adapter.clone()) },
        Field { name: "agent", value: |_, row| FieldValue::text(row.worktree.adapter.clone()) },
        Field {
            name: "status",
            value: |_, row| FieldValue::text(row.worktree.status.map(Status::word)),
        },
        Field { name: "dirty", value: |_, row| number(row.worktree.dirty) },
        Field { name: "untracked", value: |_, row| number(row.worktree.untracked) },
        Field { name: "ignored", value: |_, row| size(row.worktree.ignored_bytes) },
        Field { name: "unpushed", value: |_, row| number(row.worktree.unpushed) },
        Field { name: "submodules", value: |_, row| number(row.worktree.submodules) },
        Field { name: "merged", value: merged },
        Field { name: "locked", value: locked },
        Field { name: "size", value: |_, row| size(row.worktree.size) },
        Field { name: "age", value: |_, row| FieldValue::age(row.worktree.made_at) },
        Field { name: "made_at", value: |_, row| FieldValue::moment(row.worktree.made_at) },
        Field { name: "state", value: |_, row| FieldValue::text(Some(row.worktree.state.word())) },
        Field {
            name: "repository",
            value: |_, row| FieldValue::Text(row.worktree.repository.clone()),
        },
    ];

    const COLUMNS: &'static [Column] = &[
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("BRANCH", "branch").cut(Cut::Left),
        Column::new("STATE", "state"),
        Column::new("SESSION", "short_session").dropped(2),
        Column::new("STATUS", "status").dropped(3),
        Column::new("DIRTY", "dirty"),
        Column::new("NEW", "untracked"),
        Column::new("UNPUSHED", "unpushed").dropped(5),
        Column::new("MERGED", "merged").dropped(4),
        Column::new("AGE", "age").dropped(6),
    ];

    const WIDE_COLUMNS: &'static [Column] = &[
        Column::new("DIRECTORY", "directory").cut(Cut::Path),
        Column::new("BRANCH", "branch").cut(Cut::Left),
        Column::new("STATE", "state"),
        Column::new("AGENT", "agent").dropped(7),
        Column::new("SESSION", "short_session").dropped(2),
        Column::new("STATUS", "status").dropped(3),
        Column::new("DIRTY", "dirty"),
        Column::new("NEW", "untracked"),
        Column::new("IGNORED", "ignored").dropped(8),
        Column::new("UNPUSHED", "unpushed").dropped(5),
        Column::new("MERGED", "merged").dropped(4),
        Column::new("BASE", "base").dropped(9),
        Column::new("SUBMODULES", "submodules").dropped(10),
        Column::new("SIZE", "size").dropped(11),
        Column::new("AGE", "age").dropped(6),
        Column::new("LOCKED", "locked").cut(Cut::Right).dropped(12).optional(),
    ];

    fn id_text(&self) -> String {
        let worktree = &self.worktree;
        worktree.path.clone().or_else(|| worktree.branch.clone()).unwrap_or_default()
    }

    fn status_argument(&self) -> Option<String> {
        let session = self.worktree.session.as_deref()?;
        Some(session_argument(self.worktree.adapter.as_deref(), session))
    }

    const PAINTED: &'static str = "state";

    fn style(&self, _: &RowContext<'_>) -> Style {
        match self.worktree.state {
            WorktreeState::Ok => Style::new(),
            WorktreeState::Foreign => Style::new().dimmed(),
            WorktreeState::HalfMade | WorktreeState::Missing => AnsiColor::Yellow.on_default(),
        }
    }

    fn document(&self) -> &impl Serialize {
        &self.worktree
    }
}

fn directory(context: &RowContext<'_>, row: &WorktreeListRow) -> FieldValue {
    FieldValue::text(row.worktree.path.as_deref().map(|path| with_tilde(&context.host.home, path)))
}

fn merged(_: &RowContext<'_>, row: &WorktreeListRow) -> FieldValue {
    FieldValue::text(row.worktree.merged.map(Merged::word))
}

fn locked(_: &RowContext<'_>, row: &WorktreeListRow) -> FieldValue {
    match row.worktree.locked.as_deref() {
        None => FieldValue::Missing,
        Some("") => FieldValue::Text("yes".to_owned()),
        Some(reason) => FieldValue::Text(reason.to_owned()),
    }
}
