//! `agentctl list`: what lives, and on request what has ended.

mod view;
mod watch;

use std::path::{Path, PathBuf};

use agentctl_core::adapters::{ALL, adapter_called};
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::host::Host;
use agentctl_core::model::{Fault, Status, Time};
use clap::{Args, ValueEnum};

use super::shape::{Form, Shape, ShapeArgs};
use crate::config::Loaded;
use crate::face::{
    Field, FieldValue, NoBeginning, RowContext, SessionList, SortKey, USUAL_HISTORY, beginning,
    session_list,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table::{self, FIELDS_BEYOND_THE_TABLE, SessionRow, TableForm};
use crate::ui::{Canvas, Ui};

/// List live sessions
///
/// Sessions that were started without agentctl are listed, too. Sessions that wait for you come first. Without -a, ended sessions are left out. A live session is waiting,
/// running, idle with a process of its own, or unknown; an agent process without a session yet is listed with
/// its pid.
#[derive(Args)]
pub(super) struct ListArgs {
    /// Also list ended sessions that were active in the last 7 days
    #[arg(short, long)]
    all: bool,
    /// Also list ended sessions active since then: a span (30d), a date (2026-11-01), a time (16:00) or `all`; implies -a
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only sessions of this agent, by adapter name (`agentctl adapters`)
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only sessions with this status (repeatable, or separated by commas)
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',')]
    status: Vec<StatusArg>,
    /// Only sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Show subagents under their parent, and launched agents under the agent that launched them
    #[arg(long)]
    tree: bool,
    /// With --watch, on a terminal: ring the bell and send a notification (OSC 9 or 777) when a session starts
    /// to wait for you
    #[arg(long, requires = "watch")]
    bell: bool,
    #[command(flatten)]
    shape: ShapeArgs,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum StatusArg {
    Waiting,
    Running,
    Idle,
    Unknown,
    Error,
    Stopped,
}

impl From<StatusArg> for Status {
    fn from(arg: StatusArg) -> Self {
        match arg {
            StatusArg::Waiting => Self::Waiting,
            StatusArg::Running => Self::Running,
            StatusArg::Idle => Self::Idle,
            StatusArg::Unknown => Self::Unknown,
            StatusArg::Error => Self::Error,
            StatusArg::Stopped => Self::Stopped,
        }
    }
}

pub(super) fn adapter_name(text: &str) -> Result<String, String> {
    if let Some(adapter) = adapter_called(ALL, text) {
        return Ok(adapter.name().to_owned());
    }
    let known: Vec<_> = ALL.iter().map(|a| a.name()).collect();
    Err(format!("there is no adapter `{text}`; adapters: {}", known.join(", ")))
}

pub(super) fn cmd_list(ui: &mut Ui, loaded: &Loaded, args: &ListArgs) -> Outcome {
    let (host, fleet) = (&loaded.host, &loaded.fleet());
    let shape = args.shape.shape::<SessionRow>()?;
    let query = query(host, args, &shape)?;
    let settings_faults = loaded.source_faults();
    if shape.is_watched {
        return watch::watch(ui, fleet, args, &Watched { query, shape, settings_faults });
    }
    let SessionList { mut rows, warning } = session_list(fleet, &query);
    let asked_faults = rows.faults.clone();
    rows.faults.extend(settings_faults);
    if let Some(warning) = warning {
        ui.warn(&warning);
    }
    if let Some(directory) = args.cwd.as_deref().filter(|cwd| rows.is_empty() && !cwd.exists()) {
        // A directory that is gone may still have sessions, but not this one.
        ui.warn(&format!("there is no directory {}", directory.display()));
    }
    if rows.is_empty() {
        // An empty list is an answer, so that a script can wait for a group to end; a typing error is told beside it.
        if let Some([why, groups]) = super::unknown_group(fleet, args.group.as_ref()) {
            ui.warn(&why);
            ui.note(&groups);
        }
        if !shape.is_for_programs() {
            for line in empty(args, &rows.faults) {
                ui.note(&line);
            }
        }
    }
    let listing = arranged(host, &shape, rows);
    show(ui, host, &shape, &listing)?;
    // The user has been warned of the settings before.
    let code = super::answered(ui, &asked_faults);
    // The process ends now: giving back thousands of rows one by one would only delay it.
    std::mem::forget(listing);
    Ok(code)
}

/// A list that is shown again and again: its filter, and its form.
struct Watched {
    query: Query,
    shape: Shape<SessionRow>,
    /// The settings because of which sources may be missing.
    settings_faults: Vec<Fault>,
}

/// Sorts and cuts the rows, if that was asked for. Each row is unpacked only to read its key.
fn arranged(host: &Host, shape: &Shape<SessionRow>, rows: Rows) -> Rows {
    let context = RowContext { host, now: host.now() };
    let value = |at: usize, field: &Field<SessionRow>| {
        let row = rows.get(at).map(SessionRow::alone);
        row.map_or(FieldValue::Missing, |row| (field.value)(&context, &row))
    };
    match shape.arrangement.places(rows.len(), value) {
        Some(places) => rows.at(&places),
        None => rows,
    }
}

fn query(host: &Host, args: &ListArgs, shape: &Shape<SessionRow>) -> Result<Query, Failure> {
    let ended = args.status.iter().any(|s| !Status::from(*s).is_live());
    let all = args.all || args.since.is_some() || ended;
    let since = args.since.as_deref().unwrap_or(USUAL_HISTORY);
    let since_ms = if all { self::since(host, since)?.map(Time::millis) } else { None };
    let cwd = args.cwd.as_deref().map(resolved_directory);
    Ok(Query {
        all,
        since_ms,
        adapter: args.adapter.clone(),
        statuses: args.status.iter().map(|s| Status::from(*s)).collect(),
        group: args.group.clone(),
        cwd,
        children: args.tree,
        resting: false,
        for_table: needs_table_fields_only(shape),
        short_ids: shape.shows_short_ids(),
    })
}

/// Returns a directory with links resolved.
pub(super) fn resolved_directory(directory: &Path) -> String {
    match std::fs::canonicalize(directory) {
        Ok(real) => real.to_string_lossy().into_owned(),
        // A directory that is gone may still have sessions.
        Err(_) => directory.to_string_lossy().into_owned(),
    }
}

/// Reads the value of `--since`; `None` is all history.
pub(super) fn since(host: &Host, text: &str) -> Result<Option<Time>, Failure> {
    beginning(host.now(), text).map_err(|NoBeginning| {
        let message = format!("--since: `{text}` is neither a span nor a date nor a time");
        Failure::new(Kind::Usage, message).hint("write it like 30d, 12h, 2026-11-01, 16:00 or all")
    })
}

/// Says whether the fields of the plain table are enough: the others are most of the memory of a long list.
fn needs_table_fields_only(shape: &Shape<SessionRow>) -> bool {
    let sort = shape.arrangement.sort.as_ref().map(SortKey::name);
    let form = match &shape.form {
        Form::Table | Form::Names | Form::Ids => true,
        Form::WideTable | Form::Json | Form::JsonLines => false,
        Form::Template(template) => !template.uses(&FIELDS_BEYOND_THE_TABLE),
    };
    form && sort.is_none_or(|key| !FIELDS_BEYOND_THE_TABLE.contains(&key))
}

fn show(
    ui: &mut Ui,
    host: &Host,
    shape: &Shape<SessionRow>,
    listing: &Rows,
) -> Result<(), Failure> {
    match &shape.form {
        Form::Json => return Ok(ui.json(listing)?),
        Form::JsonLines => listing.iter().try_for_each(|session| ui.json_line(&session))?,
        Form::Table => {
            let form = table_form(shape, shape.canvas(ui));
            session_table::draw(form, host, listing, &mut |part| ui.drawn(part))?;
        }
        _ if listing.is_empty() => {}
        _ => ui.drawn(&drawn(shape, shape.canvas(ui), host, listing))?,
    }
    Ok(ui.flush()?)
}

fn table_form(shape: &Shape<SessionRow>, canvas: Canvas) -> TableForm {
    TableForm { canvas, has_headers: shape.has_headers, has_whole_ids: shape.is_whole }
}

/// Returns the lines of a list in any form but JSON.
fn drawn(shape: &Shape<SessionRow>, canvas: Canvas, host: &Host, listing: &Rows) -> String {
    if matches!(shape.form, Form::Table) {
        return session_table::drawn(table_form(shape, canvas), host, listing);
    }
    let rows: Vec<SessionRow> = SessionRow::all(listing, shape.is_whole).collect();
    shape.text(canvas, host, rows.iter())
}

fn empty(args: &ListArgs, faults: &[Fault]) -> Vec<String> {
    if !faults.is_empty() {
        return vec!["no session could be shown".into()];
    }
    let narrowed = args.adapter.is_some()
        || !args.status.is_empty()
        || args.cwd.is_some()
        || args.group.is_some();
    if narrowed {
        let mut lines = vec!["no session matches these filters".to_owned()];
        if !args.all && args.since.is_none() && args.status.is_empty() {
            lines.push("only live sessions were looked at; add --all for ended ones".into());
        }
        return lines;
    }
    let names: Vec<_> = ALL.iter().map(|a| a.name()).collect();
    let what = if args.all || args.since.is_some() {
        "no session of"
    } else {
        "nothing is running: looked for live sessions of"
    };
    let next = if args.all || args.since.is_some() {
        "`agentctl doctor` shows which homes were searched; `agentctl demo` starts a few demo agents"
    } else {
        "`agentctl list --all` shows ended sessions; `agentctl demo` starts a few demo agents"
    };
    vec![format!("{what} {}", names.join(", ")), next.into()]
}
