//! The templates of `--format`: `{field}`, `{field:10}`, `\t`, `\n`, `\\`, `{{`, `}}`, and `table …`.

use super::table::{Cut, TextTable};
use super::{Field, ListRow, RowContext, UnknownField, field};
use crate::text::{columns, fit};

/// The fields whose end distinguishes them.
const PATH_FIELDS: [&str; 6] = ["cwd", "directory", "folder", "program", "root", "target"];

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A field that does not exist.
    Field(UnknownField),
    /// A brace without its partner, a width that is no number, no field at all, or a template of Go.
    Syntax(String),
}

/// A template that is printed once for each row.
pub struct Template<R: 'static> {
    pieces: Vec<Piece<R>>,
    is_table: bool,
}

enum Piece<R: 'static> {
    Literal(String),
    /// A tab: it ends a cell of a table.
    Tab,
    Value {
        field: &'static Field<R>,
        width: Option<usize>,
    },
}

impl<R: ListRow> Template<R> {
    /// Reads a template. With `table ` in front, its cells are separated by tabs and printed as aligned columns.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.contains("{{.") || text.contains("{{ .") {
            return Err(TemplateError::Syntax(format!(
                "`{text}` is a template of Go; write {{id}}"
            )));
        }
        let (text, is_table) = match text.strip_prefix("table ") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            match (c, rest[length..].chars().next()) {
                ('{' | '}', Some(next)) if next == c => {
                    literal.push(c);
                    length = 2;
                }
                ('\\', Some('n')) => {
                    literal.push('\n');
                    length = 2;
                }
                ('\\', Some('\\')) => {
                    literal.push('\\');
                    length = 2;
                }
                ('\\', Some('t')) | ('\t', _) => {
                    length = if c == '\t' { 1 } else { 2 };
                    end_literal(&mut pieces, &mut literal);
                    pieces.push(Piece::Tab);
                }
                ('}', _) => return Err(TemplateError::Syntax("a `}` without a `{`".into())),
                ('{', _) => {
                    let end = rest
                        .find('}')
                        .ok_or_else(|| TemplateError::Syntax(format!("`{rest}` is not closed")))?;
                    end_literal(&mut pieces, &mut literal);
                    pieces.push(value(&rest[1..end])?);
                    length = end + 1;
                }
                (other, _) => literal.push(other),
            }
            rest = &rest[length..];
        }
        end_literal(&mut pieces, &mut literal);
        if !pieces.iter().any(|piece| matches!(piece, Piece::Value { .. })) {
            return Err(TemplateError::Syntax(format!("`{text}` names no field; write {{id}}")));
        }
        Ok(Self { pieces, is_table })
    }

    /// Says whether the template prints aligned columns.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.is_table
    }

    /// Returns the fields of the template, in order.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field<R>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value { field, .. } => Some(*field),
            Piece::Literal(_) | Piece::Tab => None,
        })
    }

    /// Says whether the template uses one of these fields.
    #[must_use]
    pub fn uses(&self, names: &[&str]) -> bool {
        self.fields().any(|field| names.contains(&field.name))
    }

    /// Returns the text of one row.
    #[must_use]
    pub fn line(&self, context: &RowContext<'_>, row: &R) -> String {
        self.cells(context, row).join("\t")
    }

    /// Returns an empty table with the columns of the template.
    #[must_use]
    pub fn table(&self) -> TextTable {
        let name = |field: &Field<R>| field.name.replace('_', " ").to_uppercase();
        let cut = |header: String| {
            let is_path = PATH_FIELDS.iter().any(|field| header.eq_ignore_ascii_case(field));
            (header, if is_path { Cut::Path } else { Cut::Right })
        };
        let mut cell = 0;
        let painted = self.pieces.iter().find_map(|piece| match piece {
            Piece::Value { field, .. } if field.name == R::PAINTED => Some(cell),
            Piece::Tab => {
                cell += 1;
                None
            }
            _ => None,
        });
        TextTable::new(self.cells_of(name).into_iter().map(cut).collect(), painted)
    }

    /// Returns the cells of one row; the whole text is one cell if the template has no tab.
    #[must_use]
    pub fn cells(&self, context: &RowContext<'_>, row: &R) -> Vec<String> {
        self.cells_of(|field| (field.value)(context, row).line(context.now))
    }

    fn cells_of(&self, text: impl Fn(&Field<R>) -> String) -> Vec<String> {
        let mut cells = vec![String::new()];
        for piece in &self.pieces {
            let Some(cell) = cells.last_mut() else { return cells };
            match piece {
                Piece::Literal(literal) => cell.push_str(literal),
                Piece::Tab => cells.push(String::new()),
                Piece::Value { field, width: None } => cell.push_str(&text(field)),
                Piece::Value { field, width: Some(width) } => {
                    let text = fit(&text(field), *width);
                    let gap = width.saturating_sub(columns(&text));
                    cell.push_str(&text);
                    cell.extend(std::iter::repeat_n(' ', gap));
                }
            }
        }
        cells
    }
}

fn end_literal<R>(pieces: &mut Vec<Piece<R>>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal)));
    }
}

fn value<R: ListRow>(inside: &str) -> Result<Piece<R>, TemplateError> {
    const MAX_WIDTH: usize = 1000;
    let (name, width) = match inside.split_once(':') {
        None => (inside, None),
        Some((name, width)) => {
            let number = width.parse().ok().filter(|width| (1..=MAX_WIDTH).contains(width));
            let number = number.ok_or_else(|| {
                TemplateError::Syntax(format!("`{width}` is no width from 1 to {MAX_WIDTH}"))
            })?;
            (name, Some(number))
        }
    };
    let field = field(name.trim()).map_err(TemplateError::Field)?;
    Ok(Piece::Value { field, width })
}
