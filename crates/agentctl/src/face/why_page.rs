//! The evidence behind a status, in lines.

use agentctl_core::ask::ExplainedSession;
use agentctl_core::model::Evidence;

use super::ended_by_text;
use crate::text::{one_line, wrap};

/// Returns the verdict, and below it each source with its observation, wrapped to a width.
#[must_use]
pub fn why_lines(explained: &ExplainedSession, width: usize) -> Vec<String> {
    let ExplainedSession { explanation, notes, .. } = explained;
    let mut lines = wrap(&explanation.verdict, width);
    lines.push(String::new());
    if let Some(by) = &explanation.ended_by {
        lines.push(format!("ended by: {}", one_line(&ended_by_text(by))));
        lines.push(String::new());
    }
    let said = |e: &Evidence| format!("{} says: {}", one_line(&e.source), one_line(&e.says));
    let noted = notes.iter().map(|note| format!("note: {}", one_line(note)));
    for text in explanation.evidence.iter().map(said).chain(noted) {
        for (index, line) in wrap(&text, width.saturating_sub(4).max(20)).iter().enumerate() {
            let indent = if index == 0 { "  " } else { "    " };
            lines.push(format!("{indent}{line}"));
        }
    }
    lines
}
