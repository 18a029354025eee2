//! The panes: the focus, scrolling, and the mouse.

use super::{App, Detail, Filter};
use crate::tui::keys::Focus;
use crate::tui::layout::Band;

impl App {
    /// Opens the ask of a waiting row, else gives the detail the whole screen.
    pub(super) fn open(&mut self) {
        if self.focus == Focus::List && self.ask.is_some() {
            self.focus = Focus::Ask;
        } else if self.list.selected().is_some() {
            self.is_zoomed = true;
            if self.focus == Focus::List {
                self.focus = Focus::Detail;
            }
        }
    }

    pub(super) fn back(&mut self) {
        if self.is_zoomed {
            self.is_zoomed = false;
            if self.focus == Focus::Detail {
                self.focus = Focus::List;
            }
        } else if self.focus != Focus::List {
            self.focus = Focus::List;
        } else {
            self.list.set_filter(Filter::default());
        }
    }

    pub(super) fn next_pane(&mut self, by: isize) {
        let mut panes = vec![Focus::List, Focus::Ask, Focus::Detail];
        if self.ask.is_none() {
            panes.remove(1);
        } else if self.detail == Detail::Ask {
            panes.remove(2);
        }
        if self.is_zoomed {
            panes.remove(0);
        }
        let at = panes.iter().position(|pane| *pane == self.focus).unwrap_or(0);
        let count = isize::try_from(panes.len()).unwrap_or(1);
        let next = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count);
        self.focus = panes[usize::try_from(next).unwrap_or(0)];
    }

    pub(super) fn page_lines(&self) -> isize {
        let layout = self.layout.unwrap_or_default();
        let lines = match self.focus {
            Focus::List => layout.list.height,
            Focus::Detail => layout.detail.height,
            Focus::Ask => layout.ask.height,
        };
        isize::try_from(lines.saturating_sub(1).max(1)).unwrap_or(1)
    }

    pub(super) fn step(&mut self, by: isize) {
        match self.focus {
            Focus::List => self.list.step(by),
            Focus::Detail if self.detail == Detail::Talk => {
                self.talk.scroll(by, usize::from(self.layout.unwrap_or_default().detail.height));
            }
            Focus::Detail => self.page.scroll(by),
            Focus::Ask => self.scroll_ask(by),
        }
    }

    pub(super) fn jump(&mut self, to_end: bool) {
        let far = isize::MAX / 2;
        self.step(if to_end { far } else { -far });
    }

    pub(super) fn click(&mut self, line: u16) {
        let (Some(layout), Some(pane)) = (self.layout, self.pane_at(line)) else { return };
        self.focus = pane;
        if pane == Focus::List {
            self.list.select_visible(usize::from(line - layout.list.top));
        }
    }

    /// Scrolls the pane under the mouse; the focus stays.
    pub(super) fn wheel(&mut self, is_down: bool, line: u16) {
        let Some(pane) = self.pane_at(line) else { return };
        let focus = std::mem::replace(&mut self.focus, pane);
        self.step(if is_down { 3 } else { -3 });
        self.focus = focus;
    }

    /// Returns the pane that a line of the screen belongs to, with its bar.
    fn pane_at(&self, line: u16) -> Option<Focus> {
        let layout = self.layout?;
        let is_in = |band: Band| (band.top..band.top + band.height).contains(&line);
        if is_in(layout.list) {
            Some(Focus::List)
        } else if is_in(layout.detail) || is_in(layout.bar) {
            Some(Focus::Detail)
        } else if self.ask.is_some() && (is_in(layout.ask) || is_in(layout.ask_bar)) {
            Some(Focus::Ask)
        } else {
            None
        }
    }
}
