//! One session in full, as lines of fields.

use agentctl_core::ask::StatusDocument;
use agentctl_core::host::Host;
use agentctl_core::model::{Session, Time, Tokens};

use super::{
    AgeForm, ended_by_text, exit_value, grouped_number, launched_by_text, local_minute,
    session_reason_in_brackets, span_text,
};
use crate::text::{clean, columns, one_line, with_tilde, wrap};

/// Width of the column of field names.
const LABEL: usize = 14;

/// Number of lines of the last message that are shown.
const MESSAGE_LINES: usize = 3;

/// Returns everything that is known about a session, wrapped to a width if there is one. The first line begins
/// with the status.
#[must_use]
pub fn status_lines(
    host: &Host,
    document: &StatusDocument,
    width: Option<usize>,
    ages: AgeForm,
) -> Vec<String> {
    let now = host.now();
    let moment = |then| moment(now, then, ages);
    let session = &document.session;
    let mut out = Vec::new();
    let mut field = |name: &str, value: Option<String>| {
        let Some(value) = value else { return };
        out.extend(field_lines(width, name, &value));
    };
    let reason = session_reason_in_brackets(session);
    let outcome = session.outcome.map(|o| format!(", {}", o.word())).unwrap_or_default();
    let word = session.status.word();
    field("status", Some(format!("{word}{outcome}{reason}")));
    field("agent", Some(session.adapter.to_owned()));
    field("id", Some(session.id.clone().unwrap_or_else(|| "- (no session yet)".to_owned())));
    field("name", session.name.as_deref().map(one_line));
    field("title", session.title.as_deref().map(one_line));
    field("directory", session.cwd.as_deref().map(|c| with_tilde(&host.home, c)));
    field("branch", document.branch.as_deref().map(one_line));
    field("model", session.model.as_deref().map(one_line));
    field("pid", pids(session));
    field("started", session.started_at.map(moment));
    field("last activity", session.last_activity_at.map(moment));
    field("ended", session.ended_at.map(moment));
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
    field("home", Some(with_tilde(&host.home, &session.root)));
    for note in &session.notes {
        field("note", Some(one_line(note)));
    }
    if let Some(id) = session.id.clone().or(session.pid.map(|p| p.to_string())) {
        let text = format!("`agentctl why {id}` shows the evidence");
        out.push(String::new());
        out.extend(wrap(&text, width.unwrap_or(usize::MAX)));
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

fn moment(now: Time, then: Time, ages: AgeForm) -> String {
    let ago = match ages.text(now, then) {
        age if age == "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    };
    format!("{ago}  ({})", local_minute(then))
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
