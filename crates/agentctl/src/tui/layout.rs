//! The lines of the screen that each pane has.

use super::keys::Focus;

/// The smallest terminal that anything is drawn on.
pub(crate) const MIN_COLUMNS: u16 = 30;
/// The fewest lines that anything is drawn on.
pub(crate) const MIN_LINES: u16 = 6;
/// A detail with fewer lines shows nothing useful.
const MIN_DETAIL: u16 = 2;
/// With fewer lines either the list or the detail is shown.
const BOTH_LINES: u16 = 12;

/// Some lines of the screen, over its whole width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Band {
    /// The first line.
    pub(crate) top: u16,
    /// The number of lines.
    pub(crate) height: u16,
}

/// The panes of the screen. A pane without lines is not drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The counts.
    pub(crate) header: Band,
    /// The heading of the list.
    pub(crate) heading: Band,
    /// The rows of the list.
    pub(crate) list: Band,
    /// The warning about a source.
    pub(crate) warning: Band,
    /// The names of the details.
    pub(crate) bar: Band,
    /// The detail.
    pub(crate) detail: Band,
    /// The name of the ask.
    pub(crate) ask_bar: Band,
    /// The text of the ask.
    pub(crate) ask: Band,
    /// The keys that answer it.
    pub(crate) ask_keys: Band,
    /// Notices, questions, and the line that is typed.
    pub(crate) footer: Band,
}

/// The lines that the panes have to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Rows of the list.
    pub(crate) rows: usize,
    /// Lines of the warning.
    pub(crate) warning: u16,
    /// Lines of the ask; `None` without one.
    pub(crate) ask: Option<usize>,
    /// Lines of its keys.
    pub(crate) ask_keys: u16,
    /// Lines of the footer.
    pub(crate) footer: u16,
    /// The pane with the focus.
    pub(crate) focus: Focus,
    /// The detail has the whole screen.
    pub(crate) is_zoomed: bool,
    /// The detail is the ask.
    pub(crate) is_ask_detail: bool,
}

impl Layout {
    /// Divides a screen; `None` if it is too small.
    #[must_use]
    pub(crate) fn of((columns, lines): (u16, u16), needs: &Needs) -> Option<Self> {
        if columns < MIN_COLUMNS || lines < MIN_LINES {
            return None;
        }
        let mut next = 0;
        let mut take = |height: u16| {
            let band = Band { top: next, height };
            next += height;
            band
        };
        let footer = needs.footer.clamp(1, most_footer_lines(lines));
        let body = lines - 1 - footer;
        let shows_detail = lines >= BOTH_LINES || needs.is_zoomed || needs.focus != Focus::List;
        let shows_list = !needs.is_zoomed && (lines >= BOTH_LINES || needs.focus == Focus::List);
        let rows = u16::try_from(needs.rows.max(2)).unwrap_or(u16::MAX);
        let mut list = match (shows_list, shows_detail) {
            (false, _) => 0,
            (true, false) => body - 1,
            (true, true) => rows.min((body * 4 / 10).max(3)),
        };
        let heading = u16::from(shows_list);
        let warning = if shows_list && shows_detail { needs.warning } else { 0 };
        let mut bar = u16::from(shows_detail);
        if let (Focus::Ask, Some(ask)) = (needs.focus, wanted_lines(needs)) {
            // An ask that is read gets the lines that it lacks: the bar of a detail without lines, then those of the
            // list but the selection.
            let content = body.saturating_sub(heading + list + warning + bar);
            let detail = if needs.is_ask_detail { 0 } else { MIN_DETAIL };
            if content < ask.saturating_add(detail) {
                let missing = ask.saturating_sub(content + bar);
                list -= missing.min(list.saturating_sub(1));
                bar = 0;
            }
        }
        let mut layout = Self {
            header: take(1),
            heading: take(heading),
            list: take(list),
            warning: take(warning),
            ..Self::default()
        };
        if shows_detail {
            layout.bar = take(bar);
            let content = body.saturating_sub(heading + list + warning + bar);
            let ask = ask_lines(content, needs);
            layout.detail = take(content - ask);
            layout.ask_bar = take(ask.min(1));
            let keys = needs.ask_keys.min(ask.saturating_sub(2));
            layout.ask = take(ask.saturating_sub(1 + keys));
            layout.ask_keys = take(keys);
        }
        layout.footer = Band { top: lines - footer, height: footer };
        Some(layout)
    }
}

/// Returns how many lines the footer may have: the half, as far as the panes keep what they need.
fn most_footer_lines(lines: u16) -> u16 {
    /// The header, the list with its heading and a warning, and the detail.
    const PANES: u16 = 8;
    if lines < BOTH_LINES { lines.saturating_sub(4) } else { (lines / 2).min(lines - PANES) }
}

/// Returns how many lines the ask has with its name and its keys; `None` without one.
fn wanted_lines(needs: &Needs) -> Option<u16> {
    let text = u16::try_from(needs.ask?).unwrap_or(u16::MAX);
    Some(text.saturating_add(1 + needs.ask_keys))
}

/// Returns how many of the lines of the detail the ask gets.
fn ask_lines(content: u16, needs: &Needs) -> u16 {
    let Some(wanted) = wanted_lines(needs) else { return 0 };
    if needs.is_ask_detail {
        return content;
    }
    let most = match needs.focus {
        Focus::Ask => content,
        Focus::List => (content * 6 / 10).max(content.min(4)),
        Focus::Detail => {
            (content * 6 / 10).max(content.min(4)).min(content.saturating_sub(MIN_DETAIL))
        }
    };
    let ask = wanted.min(most);
    if content - ask < MIN_DETAIL && needs.focus == Focus::Ask { content } else { ask }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_never_overlap_and_fill_the_screen() {
        for lines in MIN_LINES..70 {
            for rows in [0, 1, 5, 10_000] {
                for ask in [None, Some(1), Some(7), Some(4_000)] {
                    for focus in [Focus::List, Focus::Detail, Focus::Ask] {
                        for is_zoomed in [false, true] {
                            let is_ask_detail = ask.is_some() && rows == 5;
                            let needs = Needs {
                                rows,
                                warning: u16::from(rows == 1),
                                ask,
                                ask_keys: 2,
                                footer: if rows == 5 {
                                    2
                                } else {
                                    u16::try_from(rows).expect("few")
                                },
                                focus,
                                is_zoomed,
                                is_ask_detail,
                            };
                            check(lines, &needs);
                        }
                    }
                }
            }
        }
        assert_eq!(Layout::of((29, 24), &few()), None);
        assert_eq!(Layout::of((80, 5), &few()), None);
    }

    fn few() -> Needs {
        Needs {
            rows: 1,
            warning: 0,
            ask: None,
            ask_keys: 0,
            footer: 1,
            focus: Focus::List,
            is_zoomed: false,
            is_ask_detail: false,
        }
    }

    fn check(lines: u16, needs: &Needs) {
        let layout = Layout::of((60, lines), needs).expect("large enough");
        let bands = [
            layout.header,
            layout.heading,
            layout.list,
            layout.warning,
            layout.bar,
            layout.detail,
            layout.ask_bar,
            layout.ask,
            layout.ask_keys,
        ];
        let mut next = 0;
        for band in bands.iter().filter(|band| band.height > 0) {
            assert_eq!(band.top, next, "{lines} {needs:?} {layout:?}");
            next += band.height;
        }
        assert!(next <= layout.footer.top, "{lines} {needs:?} {layout:?}");
        assert_eq!(layout.footer.top + layout.footer.height, lines);
        let (true, Some(text)) = (needs.focus == Focus::Ask, needs.ask) else { return };
        if lines >= 8 {
            assert!(layout.ask.height > 0, "{lines} {needs:?} {layout:?}");
        }
        let is_cut = usize::from(layout.ask.height) < text;
        assert!(!is_cut || layout.list.height <= 1, "{lines} {needs:?} {layout:?}");
    }
}
