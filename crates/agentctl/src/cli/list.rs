//! `agentctl list`: what lives, and on request what has ended.

mod watch;

use std::path::PathBuf;

use agentctl_core::adapters::ALL;
use agentctl_core::ask::Fleet;
use agentctl_core::fleet::{Query, Rows};
use agentctl_core::host::Host;
use agentctl_core::model::{Fault, Status, Time};
use clap::{Args, ValueEnum};

use crate::face::{NoBeginning, SessionList, beginning, session_list};
use crate::failure::{Failure, Kind, Outcome};
use crate::session_table;
use crate::ui::Ui;

/// `list -a` goes back this far.
pub(super) const USUAL_HISTORY: &str = "7d";

/// List sessions: everything alive, whoever started it
///
/// Without `-a` only what lives is shown: running, waiting, idle with a process of its own, unknown, and
/// agent processes without a session yet. Waiting comes first: it needs you.
#[derive(Args)]
pub(super) struct ListArgs {
    /// Add sessions that have ended (active in the last 7 days)
    #[arg(short, long)]
    all: bool,
    /// With -a: how far back: a span (30d), a date (2026-11-01), or `all`
    #[arg(long, value_name = "WHEN", requires = "all")]
    since: Option<String>,
    /// Only this agent
    #[arg(long, value_name = "NAME", value_parser = adapter_name)]
    adapter: Option<String>,
    /// Only these statuses (repeat or separate by commas)
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',')]
    status: Vec<StatusArg>,
    /// Only this launch group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Show subagents under their parent
    #[arg(long)]
    tree: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print the list again whenever something changes, until interrupted
    #[arg(long)]
    watch: bool,
    /// With --watch, on a terminal: ring its bell and show a notification (OSC 9 or 777) when a session begins to
    /// wait
    #[arg(long, requires = "watch")]
    bell: bool,
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
    let known: Vec<_> = ALL.iter().map(|a| a.name()).collect();
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("there is no adapter of that name; adapters: {}", known.join(", ")))
}

pub(super) fn cmd_list(ui: &mut Ui, fleet: &Fleet, args: &ListArgs) -> Outcome {
    let host = &fleet.host;
    let query = query(host, args)?;
    if args.watch {
        return watch::watch(ui, fleet, args, &query);
    }
    let SessionList { rows: listing, warning } = session_list(fleet, &query);
    if let Some(warning) = warning {
        ui.warn(&warning);
    }
    show(ui, host, args, &listing)?;
    let code = super::answered(ui, &listing.faults);
    // The process ends now: giving back thousands of rows one by one would only delay it.
    std::mem::forget(listing);
    Ok(code)
}

fn query(host: &Host, args: &ListArgs) -> Result<Query, Failure> {
    let ended = args.status.iter().any(|s| !Status::from(*s).is_live());
    let all = args.all || ended;
    let since = args.since.as_deref().unwrap_or(USUAL_HISTORY);
    let since_ms = if all { self::since(host, since)?.map(Time::millis) } else { None };
    let cwd = args.cwd.as_ref().map(|dir| match std::fs::canonicalize(dir) {
        Ok(real) => real.to_string_lossy().into_owned(),
        // A directory that is gone may still have sessions.
        Err(_) => dir.to_string_lossy().into_owned(),
    });
    Ok(Query {
        all,
        since_ms,
        adapter: args.adapter.clone(),
        statuses: args.status.iter().map(|s| Status::from(*s)).collect(),
        group: args.group.clone(),
        cwd,
        children: args.tree,
        resting: false,
        for_table: !args.json,
    })
}

/// Reads the value of `--since`; `None` is all history.
pub(super) fn since(host: &Host, text: &str) -> Result<Option<Time>, Failure> {
    beginning(host.now(), text).map_err(|NoBeginning| {
        let message = format!("--since: `{text}` is neither a span nor a date");
        Failure::new(Kind::Usage, message).hint("write it like 30d, 12h, 2026-11-01 or all")
    })
}

fn show(ui: &mut Ui, host: &Host, args: &ListArgs, listing: &Rows) -> Result<(), Failure> {
    if args.json {
        return Ok(ui.json(listing)?);
    }
    if listing.is_empty() {
        for line in empty(args, &listing.faults) {
            ui.note(&line);
        }
        return Ok(());
    }
    session_table::draw(ui.canvas(), host, listing, &mut |part| ui.drawn(part))?;
    Ok(ui.flush()?)
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
        return vec!["no session matches these filters".into()];
    }
    let names: Vec<_> = ALL.iter().map(|a| a.name()).collect();
    let what =
        if args.all { "no session of" } else { "nothing is running: looked for live sessions of" };
    let next = if args.all {
        "`agentctl doctor` shows where we looked; `agentctl demo` starts a few agents to look at"
    } else {
        "`agentctl list --all` shows what has ended; `agentctl demo` shows agents at work"
    };
    vec![format!("{what} {}", names.join(", ")), next.into()]
}
