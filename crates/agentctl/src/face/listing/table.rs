//! Tables of any columns that fit the terminal: wide columns are cut first, then columns are left out. Piped
//! output is neither cut nor left out.

use anstyle::Style;

use super::{FieldValue, ListRow, RowContext, field};
use crate::face::AgeForm;
use crate::text::{columns, fit, fit_path};
use crate::ui::Canvas;

/// A column that is cut keeps at least this width; before it becomes narrower, columns are left out.
const MIN_CUT_WIDTH: usize = 16;
/// The space between two columns.
const GAP: usize = 2;

/// How the texts of a column are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// They are not.
    Never,
    /// At their end.
    Right,
    /// At their beginning.
    Left,
    /// A path at its beginning, since the end of a path distinguishes it; any other text at its end.
    Path,
}

/// A column of a table: a field, its heading, and what happens to it on a narrow terminal.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub header: &'static str,
    /// The name of the field.
    pub field: &'static str,
    /// How its texts are shortened.
    pub cut: Cut,
    /// The column with the highest number is left out first; 0 is never left out.
    pub dropped: u8,
    /// The column is left out if no row has a value.
    pub is_optional: bool,
    /// It keeps at least this width as long as other columns can be cut or left out.
    pub least: usize,
}

impl Column {
    /// Returns a column that is neither cut nor left out.
    #[must_use]
    pub const fn new(header: &'static str, field: &'static str) -> Self {
        Self {
            header,
            field,
            cut: Cut::Never,
            dropped: 0,
            is_optional: false,
            least: MIN_CUT_WIDTH,
        }
    }

    /// Returns the column with another way to shorten it.
    #[must_use]
    pub const fn cut(self, cut: Cut) -> Self {
        Self { cut, ..self }
    }

    /// Returns the column with a rank in the order in which columns are left out.
    #[must_use]
    pub const fn dropped(self, dropped: u8) -> Self {
        Self { dropped, ..self }
    }

    /// Returns the column with another width that it keeps as long as other columns can be cut or left out.
    #[must_use]
    pub const fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// Returns the column, left out if no row has a value.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

/// A table of texts.
pub struct TextTable {
    columns: Vec<TableColumn>,
    /// The column that has the style of its row.
    painted: Option<usize>,
    rows: Vec<(Style, Vec<String>)>,
}

struct TableColumn {
    header: String,
    cut: Cut,
    dropped: u8,
    least: usize,
    /// Its width; 0 if it is left out.
    width: usize,
}

impl TextTable {
    /// Returns an empty table with these headings. The column at `painted` has the style of its row.
    #[must_use]
    pub fn new(columns: Vec<(String, Cut)>, painted: Option<usize>) -> Self {
        let column =
            |(header, cut)| TableColumn { header, cut, dropped: 0, least: MIN_CUT_WIDTH, width: 0 };
        Self { columns: columns.into_iter().map(column).collect(), painted, rows: Vec::new() }
    }

    /// Adds a row; the style is that of its painted cell.
    pub fn push(&mut self, style: Style, cells: Vec<String>) {
        self.rows.push((style, cells));
    }

    /// Returns the table as text, with one line for each row.
    #[must_use]
    pub fn draw(mut self, canvas: Canvas, has_headers: bool) -> String {
        self.measure(has_headers);
        if let Some(total) = canvas.width {
            fit_columns(&mut self.columns, total);
        }
        let mut out = String::new();
        if has_headers {
            let bold = Style::new().bold();
            let headers: Vec<String> = self.columns.iter().map(|c| c.header.clone()).collect();
            self.line(&mut out, canvas, &headers, [bold, bold]);
        }
        for (style, cells) in &self.rows {
            self.line(&mut out, canvas, cells, [*style, Style::new()]);
        }
        out
    }

    fn measure(&mut self, has_headers: bool) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let header = if has_headers { columns(&column.header) } else { 0 };
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(at));
            let widest = cells.map(|cell| columns(cell)).max().unwrap_or_default();
            column.width = header.max(widest).max(1);
        }
    }

    fn line(&self, out: &mut String, canvas: Canvas, cells: &[String], styles: [Style; 2]) {
        let columns_shown = cells.iter().zip(&self.columns).enumerate();
        for (at, (cell, column)) in columns_shown.filter(|(_, (_, c))| c.width > 0) {
            let style = if self.painted == Some(at) { styles[0] } else { styles[1] };
            let text = match (canvas.width, column.cut) {
                (None, _) => cell.clone(),
                (Some(_), Cut::Left) => fit_path(cell, column.width),
                (Some(_), Cut::Path) if cell.starts_with(['/', '~']) => {
                    fit_path(cell, column.width)
                }
                (Some(_), _) => fit(cell, column.width),
            };
            canvas.paint_onto(out, style, &text);
            out.extend(std::iter::repeat_n(' ', column.width.saturating_sub(columns(&text)) + GAP));
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// Fits the columns into a width.
fn fit_columns(all: &mut [TableColumn], total: usize) {
    while used(all) > total {
        // The widest column that can still be cut loses what is too much, down to the next widest one.
        let least = |c: &TableColumn| columns(&c.header).max(c.least);
        let can_be_cut = |c: &&mut TableColumn| c.cut != Cut::Never && c.width > least(c);
        if let Some(widest) = all.iter_mut().filter(can_be_cut).max_by_key(|c| c.width) {
            widest.width = widest.width.min(total.max(1)).saturating_sub(1).max(least(widest));
            continue;
        }
        let can_be_dropped = |c: &&mut TableColumn| c.dropped > 0 && c.width > 0;
        match all.iter_mut().filter(can_be_dropped).max_by_key(|c| c.dropped) {
            Some(column) => column.width = 0,
            None => break,
        }
    }
    cut_the_rest(all, total);
}

/// Cuts the widest column again and again, so that no line is longer than the terminal. Columns that are never cut
/// before are the last.
fn cut_the_rest(all: &mut [TableColumn], total: usize) {
    const NARROWEST: usize = 4;
    for is_last_resort in [false, true] {
        while used(all) > total {
            let can_be_cut = |c: &&mut TableColumn| {
                if is_last_resort {
                    c.width > 1
                } else {
                    c.cut != Cut::Never && c.width > NARROWEST
                }
            };
            match all.iter_mut().filter(can_be_cut).max_by_key(|c| c.width) {
                Some(widest) => widest.width -= 1,
                None => break,
            }
        }
    }
}

fn used(all: &[TableColumn]) -> usize {
    let shown = all.iter().filter(|column| column.width > 0);
    let (widths, count) = shown.fold((0, 0), |(sum, count), c| (sum + c.width, count + 1));
    widths + GAP * usize::saturating_sub(count, 1)
}

/// Returns a table of these columns.
#[must_use]
pub fn columns_table<'a, R: ListRow>(
    context: &RowContext<'_>,
    wanted: &[Column],
    rows: impl Iterator<Item = &'a R>,
) -> TextTable {
    columns_table_with(AgeForm::Seconds, context, wanted, rows)
}

/// Returns a table of these columns, with ages of this form.
#[must_use]
pub fn columns_table_with<'a, R: ListRow>(
    ages: AgeForm,
    context: &RowContext<'_>,
    wanted: &[Column],
    rows: impl Iterator<Item = &'a R>,
) -> TextTable {
    let fields: Vec<_> = wanted.iter().map(|column| field::<R>(column.field).ok()).collect();
    let mut table = TextTable { columns: Vec::new(), painted: None, rows: Vec::new() };
    let mut has_value = vec![false; wanted.len()];
    for row in rows {
        let cells: Vec<String> = fields
            .iter()
            .zip(&mut has_value)
            .map(|(field, has_value)| {
                let value = field.map_or(FieldValue::Missing, |field| (field.value)(context, row));
                let line = value.line_with(ages, context.now);
                *has_value |= !line.is_empty();
                let is_painted = field.is_some_and(|field| field.name == R::PAINTED);
                match (line.is_empty(), is_painted) {
                    (true, _) => "-".to_owned(),
                    (false, true) => format!("{}{line}", row.mark()),
                    (false, false) => line,
                }
            })
            .collect();
        table.push(row.style(context), cells);
    }
    let is_shown: Vec<bool> =
        wanted.iter().zip(&has_value).map(|(column, has)| *has || !column.is_optional).collect();
    for (_, cells) in &mut table.rows {
        let mut shown = is_shown.iter();
        cells.retain(|_| shown.next().copied().unwrap_or(true));
    }
    let shown = wanted.iter().zip(&is_shown).filter(|(_, is_shown)| **is_shown);
    table.painted = shown.clone().position(|(column, _)| column.field == R::PAINTED);
    table.columns = shown
        .map(|(column, _)| TableColumn {
            header: column.header.to_owned(),
            cut: column.cut,
            dropped: column.dropped,
            least: column.least,
            width: 0,
        })
        .collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(width: usize, cut: Cut, dropped: u8) -> TableColumn {
        TableColumn { header: "H".into(), cut, dropped, least: MIN_CUT_WIDTH, width }
    }

    #[test]
    fn a_column_with_a_least_width_is_cut_after_the_others() {
        let mut all = [
            column(8, Cut::Never, 0),
            column(30, Cut::Path, 1),
            column(20, Cut::Right, 2),
            TableColumn { least: 40, ..column(90, Cut::Right, 0) },
        ];
        let widths = |all: &[TableColumn]| all.iter().map(|c| c.width).collect::<Vec<_>>();
        fit_columns(&mut all, 80);
        assert_eq!(widths(&all), [8, 16, 0, 40]);
        fit_columns(&mut all, 60);
        assert_eq!(widths(&all), [8, 0, 0, 40]);
        fit_columns(&mut all, 40);
        assert_eq!(widths(&all), [8, 0, 0, 30]);
    }

    #[test]
    fn wide_columns_are_cut_before_columns_are_left_out() {
        let mut all = [
            column(8, Cut::Never, 0),
            column(30, Cut::Path, 0),
            column(6, Cut::Never, 1),
            column(50, Cut::Right, 0),
        ];
        let widths = |all: &[TableColumn]| all.iter().map(|c| c.width).collect::<Vec<_>>();
        fit_columns(&mut all, 80);
        assert_eq!((used(&all), widths(&all)), (80, vec![8, 30, 6, 30]));
        fit_columns(&mut all, 60);
        assert_eq!((used(&all), widths(&all)), (60, vec![8, 20, 6, 20]));
        fit_columns(&mut all, 50);
        assert_eq!((used(&all), widths(&all)), (44, vec![8, 16, 0, 16]));
        fit_columns(&mut all, 20);
        assert_eq!(used(&all), 20);
    }
}
