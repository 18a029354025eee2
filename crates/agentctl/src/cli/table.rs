//! A table whose second to last column is a path and whose last column is a sentence: these two are
//! shortened on a narrow terminal. Piped output is never shortened.

use anstyle::Style;

use crate::text::{columns, fit, fit_path};
use crate::ui::Ui;

/// Renders rows as aligned lines, each with the style of its first cell.
pub(super) fn lines<const N: usize>(
    ui: &Ui,
    header: [&str; N],
    rows: &[(Style, [String; N])],
) -> Vec<String> {
    let mut widths = header.map(columns);
    for (_, row) in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns(cell));
        }
    }
    if let Some(total) = ui.width() {
        shrink(&mut widths, total);
    }
    let bold = Style::new().bold();
    let mut lines = vec![line(ui, &header.map(str::to_owned), &widths, [bold, bold])];
    lines.extend(rows.iter().map(|(style, row)| line(ui, row, &widths, [*style, Style::new()])));
    lines
}

fn shrink<const N: usize>(widths: &mut [usize; N], total: usize) {
    let [fixed @ .., path, words] = widths.as_mut_slice() else { return };
    let taken = fixed.iter().sum::<usize>() + 2 * (N - 1);
    let room = total.saturating_sub(taken);
    if *path + *words > room {
        *path = (*path).min((room / 3).max(12));
        *words = room.saturating_sub(*path).max(12);
    }
}

fn line<const N: usize>(
    ui: &Ui,
    row: &[String; N],
    widths: &[usize; N],
    [first, rest]: [Style; 2],
) -> String {
    let mut out = String::new();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = match ui.width() {
            None => cell.clone(),
            Some(_) if index + 2 == N => fit_path(cell, *width),
            Some(_) => fit(cell, *width),
        };
        ui.canvas().paint_onto(&mut out, if index == 0 { first } else { rest }, &text);
        out.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&text)) + 2));
    }
    out.truncate(out.trim_end().len());
    out
}
