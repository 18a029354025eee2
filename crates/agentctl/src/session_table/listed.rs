//! Rows that an interface keeps and draws by itself: the same cells as the table, made once per change.

use agentctl_core::fleet::Rows;
use agentctl_core::host::Host;
use agentctl_core::model::{Status, Time};

use super::{
    ACTIVE, COLUMNS, DIRECTORY, HEADER, ID, NAME, STATUS, WHAT, cells, depths, leave_out, shrink,
};
use crate::text::{columns, fit, fit_path, one_line};

/// A session as a row of a list that an interface keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRow {
    /// The adapter.
    pub adapter: &'static str,
    /// The home.
    pub root: String,
    /// The whole id.
    pub id: Option<String>,
    /// The process, if there is no session.
    pub pid: Option<u32>,
    /// The process, with or without a session.
    pub process: Option<u32>,
    /// The session that it is a subagent of.
    pub parent: Option<String>,
    /// The status.
    pub status: Status,
    /// When it was last active: its cell is made when it is drawn.
    pub active: Option<Time>,
    /// The group.
    pub group: Option<String>,
    /// The title; empty without one.
    title: String,
    /// All cells but the age.
    cells: [String; COLUMNS],
}

/// The widths of the columns of a list: those of the table, and GROUP, which stands behind ID on a wide screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListWidths {
    cells: [usize; COLUMNS],
    group: usize,
}

/// Fewest columns of a screen with a column of groups.
const GROUP_SCREEN: usize = 117;
/// Widest column of groups.
const MAX_GROUP_WIDTH: usize = 24;
const GROUP: &str = "GROUP";

impl Default for ListWidths {
    fn default() -> Self {
        Self::of([])
    }
}

/// One cell of a line: its text without the gap behind it, and whether it is the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCell {
    /// The text, padded to the width of its column.
    pub text: String,
    /// It is the status, which has its own colour.
    pub is_status: bool,
}

impl ListedRow {
    /// Returns the rows of a list.
    #[must_use]
    pub fn all(host: &Host, rows: &Rows) -> Vec<Self> {
        let (depths, now) = (depths(rows), host.now());
        let row = |at: usize| {
            let session = rows.get(at)?;
            let mut cells = cells((host, now), &session, depths[at], rows.short_id(at))
                .map(std::borrow::Cow::into_owned);
            cells[ACTIVE].clear();
            Some(Self {
                adapter: session.adapter,
                root: session.root,
                process: session.pid,
                pid: if session.id.is_some() { None } else { session.pid },
                id: session.id,
                parent: session.parent,
                status: session.status,
                active: session.last_activity_at.or(session.started_at),
                group: session.group.as_deref().map(one_line),
                title: session.title.as_deref().map(one_line).unwrap_or_default(),
                cells,
            })
        };
        (0..rows.len()).filter_map(row).collect()
    }

    /// Returns the row of a session that the list does not have any more. The list does not say how it ended.
    #[must_use]
    pub fn unlisted(mut self) -> Self {
        "ended".clone_into(&mut self.cells[STATUS]);
        self.cells[WHAT] = match self.title.as_str() {
            "" => "gone".to_owned(),
            title => format!("gone · {title}"),
        };
        self
    }

    /// Returns the row with the id as another list shows it.
    #[must_use]
    pub fn with_id_of(mut self, other: &Self) -> Self {
        self.cells[ID].clone_from(&other.cells[ID]);
        self
    }

    /// Returns the part of the id that the list shows, or the pid, without its indentation.
    #[must_use]
    pub fn short_id(&self) -> &str {
        self.cells[ID].trim_start_matches([' ', '└'])
    }

    /// Returns the name that a person gave it; empty without one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.cells[NAME]
    }

    /// Returns the directory as the list shows it.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.cells[DIRECTORY]
    }

    /// Returns the reason and the title.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.cells[WHAT]
    }

    /// Returns the cells of its line; `age` is the cell of its last activity.
    #[must_use]
    pub fn line(&self, widths: ListWidths, age: &str) -> Vec<LineCell> {
        let mut cells: [&str; COLUMNS] = std::array::from_fn(|at| self.cells[at].as_str());
        cells[ACTIVE] = age;
        line(cells, self.group.as_deref().unwrap_or_default(), widths)
    }
}

impl ListWidths {
    /// Returns the widest cell of each column of these rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a ListedRow>) -> Self {
        // Ages have at most four characters.
        let mut widths = HEADER.map(columns);
        let (mut has_names, mut group) = (false, 0);
        for row in rows {
            has_names |= !row.cells[NAME].is_empty();
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(columns(cell));
            }
            if let Some(name) = row.group.as_deref() {
                group = group.max(columns(name)).max(GROUP.len());
            }
        }
        if !has_names {
            widths[NAME] = 0;
        }
        Self { cells: widths, group }
    }

    /// Returns the widths with room for one more row.
    #[must_use]
    pub fn with(self, row: &ListedRow) -> Self {
        let row = Self::of([row]);
        let cells = std::array::from_fn(|at| self.cells[at].max(row.cells[at]));
        Self { cells, group: self.group.max(row.group) }
    }

    /// Fits the columns into a number of terminal columns, as the table of `list` does.
    #[must_use]
    pub fn fitted(self, total: usize) -> Self {
        let mut cells = self.cells;
        let group = if total < GROUP_SCREEN { 0 } else { self.group.min(MAX_GROUP_WIDTH) };
        let total = if group > 0 { total - group - 2 } else { total };
        let what = cells[WHAT];
        shrink(&mut cells, total);
        leave_out(&mut cells, what, total);
        Self { cells, group }
    }

    /// Returns the cells of the heading.
    #[must_use]
    pub fn heading(self) -> Vec<LineCell> {
        line(HEADER, GROUP, self)
    }
}

fn line(cells: [&str; COLUMNS], group: &str, widths: ListWidths) -> Vec<LineCell> {
    let shown = cells.iter().zip(widths.cells).enumerate().filter(|(_, (_, width))| *width > 0);
    let cell = |(at, (cell, width)): (usize, (&&str, usize))| {
        let cell = if cell.is_empty() { "-" } else { cell };
        let text = if at == DIRECTORY { fit_path(cell, width) } else { fit(cell, width) };
        let gap = if at == WHAT { 0 } else { width.saturating_sub(columns(&text)) };
        LineCell { text: format!("{text}{}", " ".repeat(gap)), is_status: at == STATUS }
    };
    let mut line: Vec<LineCell> = shown.map(cell).collect();
    if widths.group > 0 {
        let group = fit(if group.is_empty() { "-" } else { group }, widths.group);
        let gap = " ".repeat(widths.group.saturating_sub(columns(&group)));
        let behind_id = widths.cells[..=ID].iter().filter(|width| **width > 0).count();
        line.insert(behind_id, LineCell { text: format!("{group}{gap}"), is_status: false });
    }
    line
}
