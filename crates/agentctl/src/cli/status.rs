//! `agentctl status`: one session in full.

use agentctl_core::ask::{DetailedSession, Fleet, StatusDocument};
use agentctl_core::host::Host;
use agentctl_core::model::{Session, Time, Tokens};
use clap::{Args, ValueEnum};

use super::ids;
use crate::face::{
    RowContext, Template, age, ended_by_text, exit_value, grouped_number, launched_by_text,
    local_minute, session_reason_in_brackets, span_text, unresolved,
};
use crate::failure::{Failure, Outcome};
use crate::session_table::{self, SessionRow};
use crate::text::{clean, columns, one_line, wrap};
use crate::ui::Ui;

/// Show one session in full
///
/// Status and reason, directory, branch, model, processes, times, turns, tokens, cost, how it ended and by
/// whom, and its last message.
#[derive(Args)]
pub(super) struct StatusArgs {
    #[arg(value_name = "ID", help = ids::ONE_OR_HERE)]
    id: Option<String>,
    /// Output form
    #[arg(short, long, value_name = "FORM", value_enum, conflicts_with_all = ["format", "json"])]
    output: Option<OutputArg>,
    /// Print the session with a template of `list`: '{id} {status}'; `json` is the same as -o json
    ///
    /// The fields are those of `agentctl list --help`.
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
    /// Print one JSON object (same as -o json)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputArg {
    /// One JSON object
    Json,
}

impl StatusArgs {
    fn wants_json(&self) -> bool {
        self.json || self.output.is_some() || self.format.as_deref() == Some("json")
    }

    /// Returns the template, checked before any source is asked.
    fn template(&self) -> Result<Option<Template<SessionRow>>, Failure> {
        let text = self.format.as_deref().filter(|text| *text != "json");
        text.map(super::shape::template).transpose()
    }
}

pub(super) fn cmd_status(ui: &mut Ui, fleet: &Fleet, args: &StatusArgs) -> Outcome {
    let host = &fleet.host;
    let template = args.template()?;
    let DetailedSession { document, faults, .. } =
        inspect(fleet, super::named_or_here(args.id.as_deref()))?;
    if args.wants_json() {
        ui.json(&document)?;
    } else if let Some(template) = template {
        let row = SessionRow::alone(document.session);
        ui.line(&template.line(&RowContext { host, now: host.now() }, &row))?;
        ui.flush()?;
    } else {
        for line in lines(ui, host, &document) {
            ui.line(&line)?;
        }
        ui.flush()?;
    }
    Ok(super::answered(ui, &faults))
}

/// Reads the session that the user named.
pub(super) fn inspect(fleet: &Fleet, text: &str) -> Result<DetailedSession, Failure> {
    fleet.status(text).map_err(|not_one| unresolved(fleet, text, not_one))
}

/// Width of the column of field names.
const LABEL: usize = 14;

/// Number of lines of the last message that are shown.
const MESSAGE_LINES: usize = 3;

fn lines(ui: &Ui, host: &Host, document: &StatusDocument) -> Vec<String> {
    let now = host.now();
    let session = &document.session;
    let mut out = Vec::new();
    let mut field = |name: &str, value: Option<String>| {
        let Some(value) = value else { return };
        out.extend(field_lines(ui.width(), name, &value));
    };
    let reason = session_reason_in_brackets(session);
    let outcome = session.outcome.map(|o| format!(", {}", o.word())).unwrap_or_default();
    let word = session.status.word();
    field("status", Some(format!("{word}{outcome}{reason}")));
    field("agent", Some(session.adapter.to_owned()));
    field("id", Some(session.id.clone().unwrap_or_else(|| "- (no session yet)".to_owned())));
    field("name", session.name.as_deref().map(one_line));
    field("title", session.title.as_deref().map(one_line));
    field("directory", session.cwd.as_deref().map(|c| session_table::directory(host, c)));
    field("branch", document.branch.as_deref().map(one_line));
    field("model", session.model.as_deref().map(one_line));
    field("pid", pids(session));
    field("started", session.started_at.map(|t| moment(now, t)));
    field("last activity", session.last_activity_at.map(|t| moment(now, t)));
    field("ended", session.ended_at.map(|t| moment(now, t)));
    field("exit", session.exit.and_then(exit_value));
    field("ended by", session.ended_by.as_ref().map(|by| one_line(&ended_by_text(by))));
    field("duration", document.duration_seconds.map(span_text));
    field("turns", document.turns.map(grouped_number));
    field("tokens", session.tokens.map(tokens));
    field("context", context(document));
    field("cost", session.cost_usd.map(|c| format!("${c:.4}")));
    field("group", session.group.as_deref().map(one_line));
    field("run", session.run.clone());
    field("launched by", session.launched_by.as_ref().map(|by| one_line(&launched_by_text(by))));
    field("parent", session.parent.clone());
    field("prompt", session.prompt.as_deref().map(|p| clean(p).replace('\n', " ")));
    for (index, line) in message_lines(document).into_iter().enumerate() {
        field(if index == 0 { "last message" } else { "" }, Some(line));
    }
    field("home", Some(session_table::directory(host, &session.root)));
    for note in &session.notes {
        field("note", Some(one_line(note)));
    }
    if let Some(id) = session.id.clone().or(session.pid.map(|p| p.to_string())) {
        let text = format!("`agentctl why {id}` shows the evidence");
        out.push(String::new());
        out.extend(wrap(&text, ui.width().unwrap_or(usize::MAX)));
    }
    // Painted after the lines were wrapped: escape codes take no columns.
    if let Some(first) = out.first_mut() {
        *first = first.replacen(word, &ui.paint(Ui::status_style(session.status), word), 1);
    }
    out
}

/// Returns the lines of a field. A word that does not fit beside the name stands on a line of its own below it.
fn field_lines(width: Option<usize>, name: &str, value: &str) -> Vec<String> {
    const INDENT: &str = "  ";
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(LABEL).max(1));
    let is_one_word = !value.contains(' ');
    if is_one_word && columns(value) > room {
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT.len()).max(1));
        let below = wrap(value, room).into_iter().map(|line| format!("{INDENT}{line}"));
        return std::iter::once(name.to_owned()).chain(below).collect();
    }
    let lines = wrap(value, room).into_iter().enumerate();
    let labelled = |(at, line): (usize, String)| {
        let label = if at == 0 { name } else { "" };
        format!("{label:<LABEL$}{line}")
    };
    lines.map(labelled).collect()
}

fn pids(session: &Session) -> Option<String> {
    if session.processes.is_empty() {
        return None;
    }
    let pids: Vec<String> = session.processes.iter().map(|p| p.id.pid.to_string()).collect();
    let hosted = if session.hosted { " (shared with other sessions)" } else { "" };
    Some(format!("{}{hosted}", pids.join(", ")))
}

fn moment(now: Time, then: Time) -> String {
    format!("{} ago  ({})", age(now, then), local_minute(then))
}

fn tokens(t: Tokens) -> String {
    let [input, output, read, write] =
        [t.input, t.output, t.cache_read, t.cache_write].map(grouped_number);
    format!("{input} in, {output} out, {read} cache read, {write} cache write")
}

fn context(document: &StatusDocument) -> Option<String> {
    let used = document.context_tokens?;
    Some(match document.context_window.filter(|window| *window > 0) {
        Some(window) => {
            let percent = used.saturating_mul(100) / window;
            format!("{} of {} tokens ({percent}%)", grouped_number(used), grouped_number(window))
        }
        None => format!("{} tokens", grouped_number(used)),
    })
}

/// Returns the first lines of the last message.
fn message_lines(document: &StatusDocument) -> Vec<String> {
    let text = document.last_message.as_deref().unwrap_or_default();
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut shown: Vec<String> = lines.by_ref().take(MESSAGE_LINES).map(one_line).collect();
    if let (Some(last), true) = (shown.last_mut(), lines.next().is_some()) {
        last.push_str(" …");
    }
    shown
}
