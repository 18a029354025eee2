//! `agentctl logs`: prints conversations for people or programs; `-f` follows them by file events.

mod follow;
mod printer;
mod selection;

use agentctl_core::ask::Fleet;
use agentctl_core::model::{Fault, Target};
use agentctl_core::names::Names;
use agentctl_core::transcript::{Page, Selection, Transcript};
use clap::Args;

pub(super) use self::printer::{Form, Printer};
use self::selection::{Count, RoleArg};
use super::ids;
use crate::face::{messages_by_time, session_labels, unread_conversation};
use crate::failure::{Failure, Kind, Outcome};
use crate::ui::Ui;

/// Show the conversation of a session
///
/// On a terminal the last turn is shown, in a pager (PAGER) if it is longer than the screen. Long tool output
/// is folded; --full unfolds it. The messages of several sessions are interleaved by time, each line prefixed
/// with its session.
#[derive(Args)]
pub(super) struct LogsArgs {
    #[arg(value_name = "ID", help = ids::SEVERAL_OR_HERE)]
    ids: Vec<String>,
    /// Show the last N messages, or `all` [default: 20 with --json or when piped]
    #[arg(short = 'n', long = "lines", visible_alias = "tail", value_name = "N")]
    count: Option<Count>,
    /// Show the last N turns, each from its prompt on [default: 1 on a terminal]
    #[arg(long, value_name = "N", conflicts_with = "count")]
    turns: Option<usize>,
    /// Only messages since then: a span (30m), a date (2026-11-01) or a time (16:00)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only messages of this role (repeatable, or separated by commas)
    #[arg(long = "role", value_name = "ROLE", value_enum, value_delimiter = ',')]
    roles: Vec<RoleArg>,
    /// Hide tool calls and their results
    #[arg(long)]
    no_tools: bool,
    /// Show everything: do not fold or cut long output
    #[arg(long)]
    full: bool,
    /// Show the sessions of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Follow: print new messages as they are written, until the session ends
    #[arg(short, long)]
    follow: bool,
    /// Print one JSON object per message
    #[arg(long)]
    json: bool,
    /// Print the lines of the agent's own file; on a terminal control characters are shown as \x1b
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Do not use a pager
    #[arg(long)]
    no_pager: bool,
}

/// One of the conversations that are shown.
struct Source {
    target: Target,
    transcript: Transcript,
    printer: Printer,
}

pub(super) fn cmd_logs(ui: &mut Ui, fleet: &Fleet, args: &LogsArgs) -> Outcome {
    let form = match (args.json, args.raw) {
        (true, _) => Form::Json,
        (_, true) => Form::Raw,
        _ => Form::Human,
    };
    let selection = selection::selection(ui, &fleet.host, args, form)?;
    let (targets, faults) = targets(fleet, args)?;
    if form == Form::Raw && targets.len() > 1 {
        return Err(Failure::new(Kind::Usage, "--raw shows one session only"));
    }
    let mut sources = open(ui, fleet, &targets, (form, args.full))?;
    for source in &mut sources {
        source.printer.select(selection.clone());
    }
    // The watch is set before the first read, so that no message in between is missed.
    let watch = args.follow.then(|| follow::watch(&sources));
    let long = show(ui, args, &mut sources, &selection)?;
    ui.paged(&fleet.host, &long)?;
    let Some(watch) = watch else { return Ok(super::answered(ui, &faults)) };
    for fault in &faults {
        ui.warn_fault(fault);
    }
    follow::follow(ui, fleet, sources, watch)
}

/// Finds the sessions that are meant, each once.
fn targets(fleet: &Fleet, args: &LogsArgs) -> Result<(Vec<Target>, Vec<Fault>), Failure> {
    let (mut targets, mut faults): (Vec<Target>, Vec<Fault>) = (Vec::new(), Vec::new());
    let mut add = |target: Target| {
        if !targets.contains(&target) {
            targets.push(target);
        }
    };
    let here = [super::named_or_here(None).to_owned()];
    let ids = if args.ids.is_empty() && args.group.is_none() { &here[..] } else { &args.ids };
    for id in ids {
        let (target, hidden) = super::target(fleet, id)?;
        add(target);
        faults.extend(hidden);
    }
    if let Some(group) = &args.group {
        let (members, hidden) = super::group_members(fleet, group)?;
        members.into_iter().for_each(add);
        faults.extend(hidden);
    }
    Ok((targets, faults))
}

/// Opens the conversations. An unreadable conversation is an error if it is the only one, else a warning.
fn open(
    ui: &mut Ui,
    fleet: &Fleet,
    targets: &[Target],
    (form, full): (Form, bool),
) -> Result<Vec<Source>, Failure> {
    let labels = session_labels(&Names::of(&fleet.host), targets);
    let mut sources = Vec::new();
    for (target, label) in targets.iter().zip(labels) {
        let transcript = match fleet.transcript(target) {
            Ok(transcript) => transcript,
            Err(error) if targets.len() == 1 => return Err(unread_conversation(&error)),
            Err(error) => {
                let id = label.map(|label| label.short).unwrap_or_default();
                ui.warn(&format!("{id}: {error}"));
                continue;
            }
        };
        let printer = Printer::new(ui, form, fleet.host.now()).labelled(label);
        let printer = if full { printer.in_full() } else { printer };
        sources.push(Source { target: target.clone(), transcript, printer });
    }
    Ok(sources)
}

/// Shows the part of the conversations that is there already. Returns the lines that may go to a pager.
fn show(
    ui: &mut Ui,
    args: &LogsArgs,
    sources: &mut [Source],
    selection: &Selection,
) -> Result<Vec<String>, Failure> {
    if args.raw {
        for source in sources {
            let count = args.count.map_or(selection::DEFAULT_COUNT, |Count(count)| count);
            let lines =
                source.transcript.last_raw(count).map_err(|error| unread_conversation(&error))?;
            printer::raw_lines(ui, &lines)?;
        }
        return Ok(Vec::new());
    }
    let mut pages = Vec::new();
    for source in sources.iter_mut() {
        pages.push(source.transcript.page(selection).map_err(|error| unread_conversation(&error))?);
    }
    if !args.json && pages.iter().all(|page| page.messages.is_empty()) {
        note_emptiness(ui, args, &pages);
    }
    let mut lines = Vec::new();
    for (source, page) in sources.iter_mut().zip(&mut pages) {
        let calls = std::mem::take(&mut page.calls);
        lines.extend(source.printer.begin(ui, calls, page.earlier));
    }
    for (at, messages) in messages_by_time(pages) {
        lines.extend(sources[at].printer.lines(ui, &messages)?);
    }
    if args.follow || args.no_pager {
        for line in &lines {
            ui.line(line)?;
        }
        ui.flush()?;
        return Ok(Vec::new());
    }
    Ok(lines)
}

fn note_emptiness(ui: &mut Ui, args: &LogsArgs, pages: &[Page]) {
    let has_earlier = pages.iter().any(|p| p.earlier.is_some_and(|e| e.messages > 0));
    let is_narrowed = args.since.is_some() || !args.roles.is_empty() || args.no_tools;
    match args.count {
        Some(Count(0)) => {}
        _ if args.turns == Some(0) => {}
        _ if is_narrowed || has_earlier => ui.note("no message matches"),
        _ => ui.note("no messages yet"),
    }
}
