//! The flags that every listing command has: which form is printed, in which order, and how many rows.

use agentctl_core::host::Host;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::face::{
    Arrangement, Column, ListRow, RowContext, SortKey, Template, TemplateError, UnknownField,
    columns_table,
};
use crate::failure::{Failure, Kind};
use crate::ui::{Canvas, Ui};

/// The flags of a listing command, as typed.
#[derive(Args, Clone)]
#[command(next_help_heading = "Output options")]
pub(super) struct ShapeArgs {
    /// Print only whole ids: of sessions (or their pids), asks, fuses; names of adapters; paths of changed files;
    /// directories of locks, worktrees and `compare`
    #[arg(short, long, conflicts_with_all = ["output", "format", "json"])]
    quiet: bool,
    /// Output form
    #[arg(short, long, value_name = "FORM", value_enum, conflicts_with = "format")]
    output: Option<OutputArg>,
    /// Print each row with a template: '{id} {status}' or 'table {id}\t{status}'
    ///
    /// `{field}` is a value, `{field:10}` the value padded to 10 columns, `\t` a tab, `\n` a newline, `{{` a
    /// brace. `table` in front aligns the columns that tabs separate and adds a heading. `json` is the same as
    /// -o json.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
    /// Sort by a field; `--sort=-KEY` sorts in descending order
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    /// Print at most N rows
    #[arg(short = 'n', long = "limit", value_name = "N")]
    limit: Option<usize>,
    /// Do not print the heading
    #[arg(long)]
    no_headers: bool,
    /// Do not cut columns to the width of the terminal; print whole ids
    #[arg(long)]
    no_trunc: bool,
    /// Print one JSON document (same as -o json)
    #[arg(long)]
    json: bool,
    /// Redraw the list when something changes, until `q` or Ctrl-C
    ///
    /// On a terminal the list has a screen of its own. Off a terminal a new list is printed when more than an
    /// age has changed. With --json one document is printed on a line.
    #[arg(short, long)]
    watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputArg {
    /// The table with more columns
    Wide,
    /// One JSON document
    Json,
    /// One JSON object per line
    Jsonl,
    /// The session of each row, as `agentctl status` accepts it
    Name,
}

/// The form that is printed.
pub(super) enum Form<R: 'static> {
    Table,
    WideTable,
    Json,
    JsonLines,
    Names,
    Ids,
    Template(Template<R>),
}

/// The flags of a listing command, checked.
pub(super) struct Shape<R: 'static> {
    pub(super) form: Form<R>,
    pub(super) arrangement: Arrangement<R>,
    pub(super) has_headers: bool,
    pub(super) is_whole: bool,
    /// The list is shown again whenever it changes.
    pub(super) is_watched: bool,
}

impl ShapeArgs {
    /// Checks the flags, before any source is asked.
    pub(super) fn shape<R: ListRow>(&self) -> Result<Shape<R>, Failure> {
        let sort = self.sort.as_deref().map(SortKey::parse).transpose();
        let sort = sort.map_err(|unknown| unknown_field("--sort", "key", &unknown))?;
        let arrangement = Arrangement { sort, is_reversed: self.reverse, limit: self.limit };
        let form = self.form()?;
        if self.watch && matches!(form, Form::JsonLines) {
            return Err(watched_json_lines());
        }
        let (has_headers, is_whole) = (!self.no_headers, self.no_trunc);
        Ok(Shape { form, arrangement, has_headers, is_whole, is_watched: self.watch })
    }

    fn form<R: ListRow>(&self) -> Result<Form<R>, Failure> {
        match self.format.as_deref() {
            None => {}
            // Docker's names of two forms.
            Some("json") => return Ok(Form::Json),
            Some("table") => return Ok(Form::Table),
            Some(text) => return template(text).map(Form::Template),
        }
        match self.output {
            Some(OutputArg::Json) => Ok(Form::Json),
            Some(other) if self.json => {
                let name = other.to_possible_value().map(|v| v.get_name().to_owned());
                let message = format!("--json and -o {} are two forms", name.unwrap_or_default());
                Err(Failure::new(Kind::Usage, message).hint("leave one of them out"))
            }
            None if self.json => Ok(Form::Json),
            Some(OutputArg::Wide) => Ok(Form::WideTable),
            Some(OutputArg::Jsonl) => Ok(Form::JsonLines),
            Some(OutputArg::Name) => Ok(Form::Names),
            None if self.quiet => Ok(Form::Ids),
            None => Ok(Form::Table),
        }
    }
}

/// Reads the template of `--format`.
pub(super) fn template<R: ListRow>(text: &str) -> Result<Template<R>, Failure> {
    Template::parse(text).map_err(|error| match error {
        TemplateError::Field(unknown) => unknown_field("--format", "field", &unknown),
        TemplateError::Syntax(why) => {
            let failure = Failure::new(Kind::Usage, format!("--format: {why}"));
            failure.hint("write fields like {id}, and {{ for a brace")
        }
    })
}

fn watched_json_lines() -> Failure {
    let why = "a row that leaves the list would have no line";
    let message = format!("--watch and -o jsonl exclude each other: {why}");
    Failure::new(Kind::Usage, message).hint(
        "`--watch -o json` prints the whole list a line, `agentctl events --json` one change a line",
    )
}

fn unknown_field(flag: &str, what: &str, unknown: &UnknownField) -> Failure {
    let message = format!("{flag}: there is no {what} `{}`", unknown.name);
    Failure::new(Kind::Usage, message).hint(format!("{what}s: {}", unknown.known.join(", ")))
}

impl<R: ListRow> Shape<R> {
    /// Says whether the form is for programs: an empty list is then printed without a word.
    pub(super) fn is_for_programs(&self) -> bool {
        match &self.form {
            Form::Table | Form::WideTable => false,
            Form::Template(template) => !template.is_table(),
            Form::Json | Form::JsonLines | Form::Names | Form::Ids => true,
        }
    }

    /// Says whether a field is shown, or decides the order.
    pub(super) fn uses(&self, field: &str) -> bool {
        let has = |columns: &[Column]| columns.iter().any(|column| column.field == field);
        let is_shown = match &self.form {
            Form::Table => has(R::COLUMNS),
            Form::WideTable => has(R::WIDE_COLUMNS),
            Form::Template(template) => template.uses(&[field]),
            Form::Json | Form::JsonLines | Form::Names | Form::Ids => false,
        };
        is_shown || self.arrangement.sort.as_ref().is_some_and(|key| key.name() == field)
    }

    /// Says whether a field of the document is printed, or decides the order.
    pub(super) fn needs(&self, field: &str) -> bool {
        matches!(self.form, Form::Json | Form::JsonLines) || self.uses(field)
    }

    /// Says whether the form shows shortened ids. To shorten them all history is read.
    pub(super) fn shows_short_ids(&self) -> bool {
        let is_shown = match &self.form {
            Form::Table | Form::WideTable => true,
            Form::Template(template) => {
                template.uses(&["short_id", "short_session", "target", "who"])
            }
            Form::Json | Form::JsonLines | Form::Names | Form::Ids => false,
        };
        is_shown && !self.is_whole
    }

    /// Returns the properties of the output: without a width if nothing is to be cut.
    pub(super) fn canvas(&self, ui: &Ui) -> Canvas {
        let canvas = ui.canvas();
        if self.is_whole { Canvas { width: None, ..canvas } } else { canvas }
    }

    /// Sorts and cuts the rows of a document.
    pub(super) fn arrange(&self, host: &Host, rows: &mut Vec<R>) {
        self.arrangement.apply(&RowContext { host, now: host.now() }, rows);
    }

    /// Prints rows. `document` is the whole answer, for `-o json`; its rows are the same.
    pub(super) fn print(
        &self,
        ui: &mut Ui,
        host: &Host,
        rows: &[R],
        document: &impl Serialize,
    ) -> Result<(), Failure> {
        match &self.form {
            Form::Json => ui.json(document)?,
            Form::JsonLines => rows.iter().try_for_each(|row| ui.json_line(row.document()))?,
            _ => ui.drawn(&self.text(self.canvas(ui), host, rows.iter()))?,
        }
        Ok(ui.flush()?)
    }

    /// Returns rows as lines; nothing for the forms in JSON.
    pub(super) fn text<'a>(
        &self,
        canvas: Canvas,
        host: &Host,
        rows: impl Iterator<Item = &'a R>,
    ) -> String {
        let context = &RowContext { host, now: host.now() };
        match &self.form {
            Form::Json | Form::JsonLines => String::new(),
            Form::Table => columns_table(context, R::COLUMNS, rows).draw(canvas, self.has_headers),
            Form::WideTable => {
                columns_table(context, R::WIDE_COLUMNS, rows).draw(canvas, self.has_headers)
            }
            Form::Ids => lines(rows.map(ListRow::id_text)),
            Form::Names => lines(rows.filter_map(ListRow::status_argument)),
            Form::Template(template) if template.is_table() => {
                let mut table = template.table();
                for row in rows {
                    table.push(row.style(context), template.cells(context, row));
                }
                table.draw(canvas, self.has_headers)
            }
            Form::Template(template) => lines(rows.map(|row| template.line(context, row))),
        }
    }
}

fn lines(rows: impl Iterator<Item = String>) -> String {
    rows.fold(String::new(), |mut text, row| {
        text.push_str(&row);
        text.push('\n');
        text
    })
}

/// Says whether a command line asks for JSON: errors are then printed as JSON too.
pub(super) fn wants_json(args: &[std::ffi::OsString]) -> bool {
    let args: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let args: Vec<&str> = args.into_iter().take_while(|arg| *arg != "--").collect();
    let is_json = |form: &str| matches!(form.trim_start_matches('='), "json" | "jsonl");
    args.iter().enumerate().any(|(at, arg)| match *arg {
        "--json" | "--format=json" => true,
        "-o" | "--output" => args.get(at + 1).is_some_and(|form| is_json(form)),
        "--format" => args.get(at + 1) == Some(&"json"),
        other => {
            let form = other.strip_prefix("--output=").or_else(|| other.strip_prefix("-o"));
            form.is_some_and(is_json)
        }
    })
}
