//! The words of `agentctl changes`.

use agentctl_core::ask::{ChangesDocument, Fleet, NoChanges, NotOne};
use agentctl_core::fleet::Query;
use agentctl_core::model::FilePatch;
use agentctl_core::text::shell_word;

use super::follow::unread_conversation;
use super::unresolved::unresolved;
use crate::failure::{Failure, Kind};
use crate::text::{clean, one_line};

/// Returns a path as one line: a newline in it is shown as `\n`.
#[must_use]
pub fn shown_path(path: &str) -> String {
    clean(path).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns the last lines of the answer. They say what it may not contain.
#[must_use]
pub fn unrecorded_lines(document: &ChangesDocument) -> Vec<String> {
    let mut lines = Vec::new();
    match document.subagents {
        0 => {}
        1 => lines.push("1 subagent is included".to_owned()),
        count => lines.push(format!("{count} subagents are included")),
    }
    match document.unanswered {
        0 => {}
        1 => lines.push("1 call has no result: it may have changed files".to_owned()),
        count => lines.push(format!("{count} calls have no result: they may have changed files")),
    }
    match document.commands {
        0 => {}
        1 => lines.push("1 shell command left no record of what it changed".to_owned()),
        count => {
            lines.push(format!("{count} shell commands left no record of what they changed"));
        }
    }
    lines
}

/// Returns the comment above a patch, or in the place of one. Programs that apply patches pass over it.
#[must_use]
pub fn patch_comment(patch: &FilePatch) -> Option<String> {
    let remark = patch.remark.as_deref()?;
    let (path, by) = (shown_path(&patch.path), patch.by.word());
    Some(format!("# {path} (by {by}): {}", one_line(remark)))
}

/// Says why the changes of a session are not known.
#[must_use]
pub fn changes_not_told(fleet: &Fleet, text: &str, why: NoChanges) -> Failure {
    match why {
        NoChanges::NotOne(NotOne::Nothing) if is_group(fleet, text) => {
            let message = format!("`{text}` is a group, and `changes` takes one session");
            let text = shell_word(text);
            Failure::new(Kind::NotFound, message).hint(format!(
                "`agentctl list --all --group {text}` lists its sessions; `agentctl diff {text}` shows the work of all"
            ))
        }
        NoChanges::NotOne(not_one) => unresolved(fleet, text, not_one),
        NoChanges::Untold { adapter, why } => {
            let message = format!("the files that a session of {adapter} changed: {why}");
            Failure::new(Kind::Unanswered, message)
                .hint("`agentctl adapters -o wide` shows which agents record their changes")
        }
        NoChanges::Unread(error) => unread_conversation(&error),
    }
}

/// Says whether a session, live or ended, is in the group of this name.
pub(super) fn is_group(fleet: &Fleet, text: &str) -> bool {
    let query = Query { all: true, group: Some(text.to_owned()), ..Query::default() };
    !fleet.list(&query).sessions.is_empty()
}
