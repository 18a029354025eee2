//! Several conversations in one stream.

use agentctl_core::model::{Message, Role, Target, Time};
use agentctl_core::names::{Names, Word};
use agentctl_core::transcript::Page;

use crate::text::{fit, one_line};

/// Characters of an id that are shown at least.
const SHORT_ID: usize = 8;

/// Columns that a name takes at most.
const MAX_NAME_COLUMNS: usize = 24;

/// The name of a session among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLabel {
    /// Its name, or the beginning of the id that tells it from the others.
    pub short: String,
    /// The whole id.
    pub id: String,
}

/// Returns the text in front of each session's lines, which tells it from the others; none for a single one. It is
/// the session's name, or the beginning of its id if it has no name or shares it with another one of them.
#[must_use]
pub fn session_labels(names: &Names, targets: &[Target]) -> Vec<Option<SessionLabel>> {
    let mut labels = id_labels(targets);
    let named: Vec<Option<String>> = targets.iter().map(|target| name(names, target)).collect();
    for (label, name) in labels.iter_mut().zip(&named) {
        let is_alone = named.iter().filter(|other| *other == name).count() == 1;
        if let (Some(label), Some(name), true) = (label, name, is_alone) {
            label.short = fit(name, MAX_NAME_COLUMNS);
        }
    }
    labels
}

fn name(names: &Names, target: &Target) -> Option<String> {
    let name = names.word_of(Word::Name, target.adapter, &target.session.as_ref()?.id)?;
    (!name.is_empty()).then(|| one_line(name))
}

fn id_labels(targets: &[Target]) -> Vec<Option<SessionLabel>> {
    if targets.len() < 2 {
        return vec![None; targets.len()];
    }
    let ids: Vec<String> = targets.iter().map(id).collect();
    let shortened = |length: usize| -> Vec<String> {
        ids.iter().map(|id| id.chars().take(length).collect()).collect()
    };
    let is_unique = |labels: &[String]| {
        let distinct: std::collections::HashSet<&String> = labels.iter().collect();
        distinct.len() == labels.len()
    };
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(SHORT_ID);
    let length = (SHORT_ID..longest).find(|length| is_unique(&shortened(*length)));
    let short = shortened(length.unwrap_or(longest));
    short
        .into_iter()
        .zip(ids.iter().cloned())
        .map(|(short, id)| Some(SessionLabel { short, id }))
        .collect()
}

fn id(target: &Target) -> String {
    match (&target.session, target.pid) {
        (Some(locator), _) => one_line(&locator.id),
        (None, pid) => format!("pid {}", pid.unwrap_or_default()),
    }
}

/// Orders the messages of several pages by time. Each part is of one page, which is named by its index.
#[must_use]
pub fn messages_by_time(pages: Vec<Page>) -> Vec<(usize, Vec<Message>)> {
    let mut all: Vec<(Option<Time>, usize, Message)> = Vec::new();
    for (at, page) in pages.into_iter().enumerate() {
        let mut key = None;
        for message in page.messages {
            // A result stays with its call.
            if message.role != Role::Tool || key.is_none() {
                // Never earlier than the message before it: a conversation keeps its own order.
                key = key.max(message.at);
            }
            all.push((key, at, message));
        }
    }
    // The sort is stable: the messages of one conversation keep their order.
    all.sort_by_key(|(time, _, _)| *time);
    let mut parts: Vec<(usize, Vec<Message>)> = Vec::new();
    for (_, at, message) in all {
        match parts.last_mut() {
            Some((last, messages)) if *last == at => messages.push(message),
            _ => parts.push((at, vec![message])),
        }
    }
    parts
}
