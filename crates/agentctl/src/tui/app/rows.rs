//! The rows of the list: the filter, the selection, and the part that is visible.

use agentctl_core::model::{Ask, Locator, Status, Target};

use crate::face::exact_argument;
use crate::session_table::{ListWidths, ListedRow};

/// The identity of a session over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionKey {
    /// The adapter.
    pub(crate) adapter: &'static str,
    /// The home.
    pub(crate) root: String,
    /// The session; `None` for a process without one.
    pub(crate) id: Option<String>,
    /// The process, if there is no session.
    pub(crate) pid: Option<u32>,
    /// The session that it is a subagent of.
    pub(crate) parent: Option<String>,
}

impl SessionKey {
    /// Returns the session of a row.
    #[must_use]
    pub(crate) fn of(row: &ListedRow) -> Self {
        Self {
            adapter: row.adapter,
            root: row.root.clone(),
            id: row.id.clone(),
            pid: row.pid,
            parent: row.parent.clone(),
        }
    }

    /// Says whether a row is this session.
    #[must_use]
    pub(crate) fn is(&self, row: &ListedRow) -> bool {
        self.adapter == row.adapter
            && self.id == row.id
            && self.pid == row.pid
            && self.root == row.root
    }

    /// Returns the session for questions about it.
    #[must_use]
    pub(crate) fn target(&self) -> Target {
        let session =
            self.id.clone().map(|id| Locator { id, path: None, parent: self.parent.clone() });
        Target { adapter: self.adapter, root: self.root.clone(), session, pid: self.pid }
    }

    /// Returns the text that names it on the command line.
    #[must_use]
    pub(crate) fn argument(&self) -> String {
        exact_argument(&self.target())
    }
}

/// A row with the text that a filter searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopRow {
    /// The row.
    pub(crate) row: ListedRow,
    /// The session is not in the list any more; the row stays while it is selected.
    pub(crate) is_gone: bool,
    /// Status, agent, id, name, group, directory, reason and title, in lower case.
    search: String,
}

impl TopRow {
    /// Makes the text that a filter searches.
    #[must_use]
    pub(crate) fn new(row: ListedRow) -> Self {
        let texts = [
            row.status.word(),
            row.adapter,
            row.id.as_deref().unwrap_or_default(),
            row.name(),
            row.group.as_deref().unwrap_or_default(),
            row.directory(),
            row.what(),
        ];
        let search = texts.join("\n").to_lowercase();
        Self { row, is_gone: false, search }
    }

    /// Says whether the session waits for an answer, as far as the list says.
    #[must_use]
    pub(crate) fn waits(&self) -> bool {
        !self.is_gone && self.row.status == Status::Waiting
    }

    /// Says whether the session is known to have ended. A session that only left the list may still run.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        !self.row.status.is_live()
    }

    /// Says whether an ask is one of this session.
    #[must_use]
    pub(crate) fn asks(&self, ask: &Ask) -> bool {
        let row = &self.row;
        let is_same = if row.id.is_some() { row.id == ask.session_id } else { row.pid == ask.pid };
        row.adapter == ask.adapter && row.root == ask.root && is_same
    }
}

/// The words that a row must contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// As it was typed.
    pub(crate) text: String,
    words: Vec<String>,
    waiting_only: bool,
}

impl Filter {
    /// Reads a filter: words, and `!` for waiting sessions only.
    #[must_use]
    pub(crate) fn of(text: &str) -> Self {
        let mut filter = Self { text: text.trim().to_owned(), ..Self::default() };
        for word in text.to_lowercase().split_whitespace() {
            let rest = word.trim_start_matches('!');
            filter.waiting_only |= rest.len() < word.len();
            if !rest.is_empty() {
                filter.words.push(rest.to_owned());
            }
        }
        filter
    }

    fn admits(&self, row: &TopRow) -> bool {
        (!self.waiting_only || row.waits())
            && self.words.iter().all(|word| row.search.contains(word))
    }
}

/// The numbers of rows that are not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfSight {
    /// Above the first visible one.
    pub(crate) above: usize,
    /// Below the last visible one.
    pub(crate) below: usize,
    /// Those of them that wait.
    pub(crate) waiting: usize,
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct RowList {
    /// All rows, in the order of `list`.
    pub(crate) rows: Vec<TopRow>,
    /// The widest cells of all rows.
    all_widths: ListWidths,
    /// The widest cells of the rows that the filter admits.
    pub(crate) widths: ListWidths,
    /// The places of the rows that the filter admits.
    pub(crate) shown: Vec<usize>,
    /// The filter.
    pub(crate) filter: Filter,
    /// The selected session.
    key: Option<SessionKey>,
    /// Its place in `shown`.
    at: usize,
    /// The first visible place in `shown`.
    first: usize,
}

impl RowList {
    /// Takes a new list. Only the user moves the selection: a selected session that ended, or that the filter does
    /// not admit any more, stays until then. Says whether the selected row differs from before.
    pub(super) fn replace(&mut self, look: (Vec<TopRow>, ListWidths), has_children: bool) -> bool {
        let before = self.selected().cloned();
        let place = self.shown.get(self.at).copied().unwrap_or(0);
        (self.rows, self.all_widths) = look;
        if let Some(before) = &before {
            self.keep(before, place, has_children);
        }
        self.refresh(true);
        self.selected() != before.as_ref()
    }

    /// Finds the selected session in a new list, and adds it at its place if it ended.
    fn keep(&mut self, before: &TopRow, place: usize, has_children: bool) {
        let Some(key) = &self.key else { return };
        if self.rows.iter().any(|row| key.is(&row.row)) {
            return;
        }
        // A process may have begun its session.
        let is_process = |row: &&TopRow| {
            let row = &row.row;
            key.id.is_none() && row.adapter == key.adapter && row.process == key.pid
        };
        if let Some(row) = self.rows.iter().find(is_process) {
            self.key = Some(SessionKey::of(&row.row));
        } else if has_children || before.row.parent.is_none() {
            // Subagents that are hidden have not ended.
            let row = if before.is_gone {
                before.clone()
            } else {
                TopRow { is_gone: true, ..TopRow::new(before.row.clone().unlisted()) }
            };
            self.all_widths = self.all_widths.with(&row.row);
            self.rows.insert(place.min(self.rows.len()), row);
        }
    }

    /// Shows how the session of a row that is gone has ended.
    pub(super) fn take_ended(&mut self, ended: ListedRow) {
        // A session that is live after all is listed by the next look.
        if ended.status.is_live() {
            return;
        }
        let key = SessionKey::of(&ended);
        let mut rows = self.rows.iter_mut();
        if let Some(row) = rows.find(|row| row.is_gone && key.is(&row.row)) {
            self.all_widths = self.all_widths.with(&ended);
            self.widths = self.widths.with(&ended);
            *row = TopRow { is_gone: true, ..TopRow::new(ended.with_id_of(&row.row)) };
        }
    }

    /// Sets another filter, and keeps the selection if it is still shown.
    pub(super) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.refresh(false);
        self.drop_gone();
    }

    /// Removes the rows that were there for the selection only.
    fn drop_gone(&mut self) {
        let key = self.key.clone();
        let is_kept = |row: &TopRow| !row.is_gone || key.as_ref().is_some_and(|k| k.is(&row.row));
        if !self.rows.iter().all(is_kept) {
            self.rows.retain(is_kept);
            self.refresh(false);
        }
    }

    fn refresh(&mut self, keeps_selected: bool) {
        let key = self.key.take();
        let is_key = |at: &usize| key.as_ref().is_some_and(|key| key.is(&self.rows[*at].row));
        let is_shown =
            |at: &usize| self.filter.admits(&self.rows[*at]) || (keeps_selected && is_key(at));
        let shown: Vec<usize> = (0..self.rows.len()).filter(is_shown).collect();
        self.shown = shown;
        self.widths = if self.shown.len() == self.rows.len() {
            self.all_widths
        } else {
            ListWidths::of(self.shown.iter().map(|at| &self.rows[*at].row))
        };
        let place = self.shown.iter().position(is_key).unwrap_or(self.at);
        self.select(place);
    }

    /// Returns the selected row.
    #[must_use]
    pub(crate) fn selected(&self) -> Option<&TopRow> {
        self.shown.get(self.at).and_then(|at| self.rows.get(*at))
    }

    /// Returns the selected session.
    #[must_use]
    pub(crate) fn selected_key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    fn select(&mut self, place: usize) {
        self.at = place.min(self.shown.len().saturating_sub(1));
        self.key = self.selected().map(|row| SessionKey::of(&row.row));
    }

    /// Moves the selection for the user. The row that it leaves is removed if it was there for the selection only.
    fn move_to(&mut self, place: usize) {
        let before = self.at;
        self.select(place);
        if self.at != before {
            self.drop_gone();
            self.refresh(false);
        }
    }

    /// Selects the session of an ask; says whether it is shown.
    pub(super) fn select_asking(&mut self, ask: &Ask) -> bool {
        let place = self.shown.iter().position(|at| self.rows[*at].asks(ask));
        if let Some(place) = place {
            self.move_to(place);
        }
        place.is_some()
    }

    pub(super) fn step(&mut self, by: isize) {
        self.move_to(self.at.saturating_add_signed(by));
    }

    pub(super) fn select_visible(&mut self, line: usize) {
        if self.first + line < self.shown.len() {
            self.move_to(self.first + line);
        }
    }

    pub(super) fn scroll_to_selection(&mut self, height: usize) {
        let most = self.shown.len().saturating_sub(height);
        self.first = self.first.min(most).min(self.at);
        if height > 0 && self.at >= self.first + height {
            self.first = self.at + 1 - height;
        }
    }

    /// Returns the visible rows, and whether each is selected.
    pub(crate) fn visible(&self, height: u16) -> impl Iterator<Item = (bool, &TopRow)> {
        let last = self.shown.len().min(self.first + usize::from(height));
        let places = self.first.min(last)..last;
        places.filter_map(|place| Some((place == self.at, self.rows.get(*self.shown.get(place)?)?)))
    }

    /// Returns the rows that do not fit into this many lines.
    #[must_use]
    pub(crate) fn out_of_sight(&self, height: u16) -> OutOfSight {
        let last = self.shown.len().min(self.first + usize::from(height));
        let first = self.first.min(last);
        let waits = |at: &&usize| self.rows[**at].waits();
        let waiting = self.shown[..first].iter().chain(&self.shown[last..]).filter(waits).count();
        OutOfSight { above: first, below: self.shown.len() - last, waiting }
    }

    /// Returns the place of the selection, and the number of shown rows.
    #[must_use]
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.at + 1, self.shown.len())
    }
}
