//! The result as a table of Markdown, to be pasted as it is.

/// One line of the result.
pub(crate) struct Row {
    /// The measured command.
    pub(crate) what: String,
    /// The reference of the comparison.
    pub(crate) reference: String,
    /// The reference's figure.
    pub(crate) theirs: String,
    /// Our figure.
    pub(crate) ours: String,
    /// The two compared.
    pub(crate) result: String,
    /// The promise; empty if there is none.
    pub(crate) target: String,
    /// Whether the promise is kept; `None` where nothing is promised.
    pub(crate) kept: Option<bool>,
}

const TITLES: [&str; 7] = ["what", "reference", "reference ms", "ours ms", "result", "target", ""];

/// Lays the rows out, columns aligned.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let cells: Vec<[String; 7]> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        widest.max(TITLES[column].len()).max(3)
    };
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = line(&TITLES.map(str::to_owned));
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    out.push_str(&format!("| {} |\n", rules.join(" | ")));
    for row in &cells {
        out.push_str(&line(row));
    }
    out
}

fn cells(row: &Row) -> [String; 7] {
    let kept = match row.kept {
        Some(true) => "ok",
        Some(false) => "**MISSED**",
        None => "",
    };
    [
        row.what.clone(),
        row.reference.clone(),
        row.theirs.clone(),
        row.ours.clone(),
        row.result.clone(),
        row.target.clone(),
        kept.to_owned(),
    ]
}
