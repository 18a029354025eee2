//! `agentctl asks`: everything that waits for a human.

use std::path::PathBuf;
use std::process::ExitCode;

use agentctl_core::ask::{
    AsksDocument, AsksRequest, Fleet, NotOne, UnresolvedText, WaitingSessions,
};
use agentctl_core::fleet::shortened;
use agentctl_core::inbox::can_name_an_ask;
use agentctl_core::model::{Ask, SCHEMA_VERSION};
use anstyle::{AnsiColor, Style};
use clap::Args;

use super::list::{adapter_name, resolved_directory};
use super::listed::Listed;
use super::shape::{Form, Shape, ShapeArgs};
use super::watch::watch;
use crate::face::{
    AskLineKind, AskListRow, AskPageForm, ask_page, full_name, no_open_ask_hint, paused_remark,
    unresolved,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Show what waits for a human, and how to answer it
///
/// Sessions of all agents, started by anyone. With an ask or a session: in full, with the whole command, change or
/// plan, and the commands that answer it.
#[derive(Args)]
pub(super) struct AsksArgs {
    /// Asks by at least 6 characters of their id, or sessions
    #[arg(value_name = "ASK|ID")]
    select: Vec<String>,
    /// Only asks of this agent
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only asks of sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only asks of sessions of this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Print the settings with which your own Claude Code sessions can be answered from here
    #[arg(long, conflicts_with_all = [
        "select", "adapter", "group", "cwd", "quiet", "output", "format", "sort", "reverse", "limit",
        "no_headers", "no_trunc", "watch",
    ])]
    hook: bool,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn cmd_asks(ui: &mut Ui, fleet: &Fleet, args: &AsksArgs) -> Outcome {
    if args.hook {
        let settings = fleet.ask_hook_settings();
        ui.json(&settings)?;
        if let Some(file) = settings.file.filter(|_| ui.is_terminal()) {
            ui.hint(&format!("merge this into {file}, beside hooks that are there"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let shape = args.shape.shape::<AskListRow>()?;
    if shape.is_watched {
        let mut watched = WatchedAsks::of(args);
        let outcome = watch(ui, fleet, &shape, || watched.listed(fleet, &shape));
        let Some(line) = watched.end() else { return outcome };
        ui.note(&line);
        return Ok(ExitCode::SUCCESS);
    }
    let asked = fleet.waiting(&request(args, &args.select));
    let waiting = asked.map_err(|found| not_found(fleet, found))?;
    let listed = listed(fleet, &shape, args, waiting)?;
    if matches!(shape.form, Form::Table) && !args.select.is_empty() && !listed.rows.is_empty() {
        for (at, row) in listed.rows.iter().enumerate() {
            if at > 0 {
                ui.line("")?;
            }
            print_page(ui, fleet, row, AskPageForm::Commands)?;
        }
        ui.flush()?;
    } else {
        listed.print(ui, &fleet.host, &shape)?;
    }
    Ok(super::answered(ui, &listed.faults))
}

type ListedAsks = Listed<AskListRow, AsksDocument>;

/// The list of asks again and again. The end of an ask that was named by its id is no error.
struct WatchedAsks<'a> {
    args: &'a AsksArgs,
    /// The texts whose asks are open, and those that name sessions.
    select: Vec<String>,
    /// The asks that were shown and that are named by their ids.
    seen: Vec<Ask>,
    /// A line for each ask that was settled meanwhile.
    settled: Vec<String>,
}

impl<'a> WatchedAsks<'a> {
    fn of(args: &'a AsksArgs) -> Self {
        Self { args, select: args.select.clone(), seen: Vec::new(), settled: Vec::new() }
    }

    /// Returns the list as it is now. It fails if nothing that was named is left: see [`WatchedAsks::end`].
    fn listed(&mut self, fleet: &Fleet, shape: &Shape<AskListRow>) -> Result<ListedAsks, Failure> {
        let mut select = self.select.clone();
        loop {
            let found = match fleet.waiting(&request(self.args, &select)) {
                Ok(waiting) => return self.shown(fleet, shape, waiting),
                Err(found) => found,
            };
            let named =
                |ask: &&Ask| can_name_an_ask(&found.text) && ask.id.starts_with(&found.text);
            let Some(ask) = self.seen.iter().find(named) else {
                return Err(not_found(fleet, found));
            };
            let everything =
                AsksRequest { adapter: Some(ask.adapter.to_owned()), ..AsksRequest::default() };
            let now = fleet.waiting(&everything).map_err(|found| not_found(fleet, found))?;
            if fleet.is_settled(ask, &now) {
                self.settled.push(format!("ask {} is settled", ask.short_id()));
                self.select.retain(|text| *text != found.text);
            }
            select.retain(|text| *text != found.text);
            if self.select.is_empty() {
                return Err(not_found(fleet, found));
            }
            if select.is_empty() {
                let waiting = WaitingSessions { rows: Vec::new(), faults: now.faults };
                return self.shown(fleet, shape, waiting);
            }
        }
    }

    fn shown(
        &mut self,
        fleet: &Fleet,
        shape: &Shape<AskListRow>,
        waiting: WaitingSessions,
    ) -> Result<ListedAsks, Failure> {
        for ask in waiting.rows.iter().flat_map(|row| &row.asks) {
            let is_named = self.select.iter().any(|text| ask.id.starts_with(text.as_str()));
            if is_named && !self.seen.iter().any(|seen| seen.id == ask.id) {
                self.seen.push(ask.clone());
            }
        }
        let mut listed = listed(fleet, shape, self.args, waiting)?;
        listed.remarks.clone_from(&self.settled);
        Ok(listed)
    }

    /// Returns the last line if every ask that was named is settled.
    fn end(&self) -> Option<String> {
        self.settled.last().filter(|_| self.select.is_empty()).cloned()
    }
}

fn listed(
    fleet: &Fleet,
    shape: &Shape<AskListRow>,
    args: &AsksArgs,
    WaitingSessions { rows, faults }: WaitingSessions,
) -> Result<ListedAsks, Failure> {
    let mut rows = AskListRow::rows(fleet, &rows, shape.shows_short_ids());
    shape.arrange(&fleet.host, &mut rows);
    let asks = rows.iter().map(|row| row.ask.clone()).collect();
    let document = AsksDocument { schema_version: SCHEMA_VERSION, asks, faults: faults.clone() };
    if rows.is_empty() && faults.is_empty() {
        check_filters(fleet, args)?;
    }
    let is_filtered = args.adapter.is_some() || args.group.is_some() || args.cwd.is_some();
    let empty = match (faults.is_empty(), args.select.as_slice()) {
        (false, _) => "no ask could be seen".into(),
        (true, _) if is_filtered => "nothing that was selected waits for you".into(),
        (true, []) => "nothing waits for you".into(),
        (true, [text]) => no_ask_of(fleet, text).into(),
        (true, _) => "none of them waits for you".into(),
    };
    Ok(Listed { title: "asks", rows, document, faults, remarks: Vec::new(), empty })
}

/// Checks that the group and the directory exist: a typing error must not look like an empty inbox.
fn check_filters(fleet: &Fleet, args: &AsksArgs) -> Result<(), Failure> {
    if let Some(group) = &args.group {
        super::group_members(fleet, group)?;
    }
    match &args.cwd {
        Some(cwd) if !cwd.exists() => {
            let message = format!("there is no directory `{}`", cwd.display());
            Err(Failure::new(Kind::NotFound, message))
        }
        _ => Ok(()),
    }
}

/// Says that a session has no open ask. The status of a paused session hides whether it waits.
fn no_ask_of(fleet: &Fleet, text: &str) -> String {
    let name = named_session(fleet, text);
    let session = fleet.target(text).ok().and_then(|found| fleet.inspect(&found.target).session);
    match session.as_ref().and_then(paused_remark) {
        Some(remark) => format!("{name} {remark}"),
        None => format!("{name} does not wait for you"),
    }
}

/// Returns a session as the user named it, with its id: `notes (demo 4a189564)`.
fn named_session(fleet: &Fleet, text: &str) -> String {
    let Ok(found) = fleet.target(text) else { return text.to_owned() };
    let target = found.target;
    let id = target.session.map(|locator| locator.id);
    let short = id.as_ref().and_then(|id| shortened(fleet, &[id]).into_iter().next());
    let name = full_name(target.adapter, short.as_deref(), target.pid);
    if id.is_some_and(|id| id.starts_with(text)) { name } else { format!("{text} ({name})") }
}

/// Says that a text names neither an open ask nor a session.
fn not_found(fleet: &Fleet, found: UnresolvedText) -> Failure {
    let UnresolvedText { text, why } = found;
    let hint = match &why {
        NotOne::Nothing if can_name_an_ask(&text) => {
            no_open_ask_hint(fleet)
        }
        NotOne::Nothing if !text.contains('/') => {
            "an ask is named by at least 6 characters of its id; `agentctl asks` shows what is open now".to_owned()
        }
        _ => return unresolved(fleet, &text, why),
    };
    let message = format!("neither an open ask nor a session matches `{text}`");
    Failure::new(Kind::NoAsk, message).hint(hint)
}

fn request(args: &AsksArgs, select: &[String]) -> AsksRequest {
    let cwd = args.cwd.as_deref().map(resolved_directory);
    AsksRequest {
        select: select.to_vec(),
        adapter: args.adapter.clone(),
        group: args.group.clone(),
        cwd,
    }
}

/// Prints one ask in full.
pub(super) fn print_page(
    ui: &mut Ui,
    fleet: &Fleet,
    row: &AskListRow,
    form: AskPageForm,
) -> std::io::Result<()> {
    for line in ask_page(&fleet.host, row, form) {
        let style = match line.kind {
            AskLineKind::Heading => AnsiColor::Yellow.on_default().bold(),
            AskLineKind::Added => AnsiColor::Green.on_default(),
            AskLineKind::Removed => AnsiColor::Red.on_default(),
            AskLineKind::Fact | AskLineKind::Remark => Style::new().dimmed(),
            AskLineKind::Text | AskLineKind::Prose | AskLineKind::Choice => Style::new(),
        };
        let text = crate::text::clean(&line.text);
        let text = ui.paint(style, &text);
        ui.drawn(&format!("{text}\n"))?;
    }
    Ok(())
}
