//! The places of the transcripts of subagents: below their session's folder, or, up to 2.0, beside the
//! transcripts of sessions.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;

use super::NAME;
use crate::adapters::{Found, Root, skipped};
use crate::model::{Locator, is_session_id};
use crate::native::{file, jsonl};

/// Bytes read at once from the beginning of a transcript.
const HEAD_CHUNK: usize = 4 << 10;

/// The subagents of one project folder, by the session they belong to.
pub(super) type ByParent = HashMap<String, Vec<Locator>>;

/// Returns the id of a subagent whose transcript has this name.
pub(super) fn id_of(name: &str) -> Option<&str> {
    let id = name.strip_suffix(".jsonl")?.strip_prefix("agent-")?;
    is_session_id(id).then_some(id)
}

/// Returns the subagents in a session's own folder.
pub(super) fn below(root: &Root, transcript: &Path, parent: &str, uid: u32) -> Found<Locator> {
    let directory = transcript.with_extension("").join("subagents");
    let entries = match file::list(&directory, uid) {
        Ok(entries) => entries,
        Err(skip) => return Found::fault(skipped(NAME, root, &directory, &skip)),
    };
    let locate = |entry: file::DirectoryEntry| {
        let id = id_of(&entry.name)?.to_owned();
        Some(Locator { id, path: Some(entry.path), parent: Some(parent.to_owned()) })
    };
    let mut rows: Vec<Locator> = entries.into_iter().filter_map(locate).collect();
    rows.sort();
    Found { rows, ..Found::default() }
}

/// Returns the subagents that lie beside the transcripts of a project. Only their first line names the
/// session they belong to.
pub(super) fn beside(project: &Path, uid: u32) -> ByParent {
    let mut found = ByParent::new();
    // Faults were already reported when the project's sessions were listed.
    let entries = file::list_wanted(project, uid, &|name| id_of(name).is_some());
    for entry in entries.unwrap_or_default() {
        let (Some(id), Some(parent)) = (id_of(&entry.name), parent_of(&entry.path, uid)) else {
            continue;
        };
        let locator = Locator {
            id: id.to_owned(),
            path: Some(entry.path.clone()),
            parent: Some(parent.clone()),
        };
        found.entry(parent).or_default().push(locator);
    }
    for rows in found.values_mut() {
        rows.sort();
    }
    found
}

fn parent_of(path: &Path, uid: u32) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct First {
        session_id: String,
        is_sidechain: bool,
    }
    let opened = file::open(path, uid).ok()?;
    let mut first: Option<First> = None;
    jsonl::head(&opened.file, HEAD_CHUNK, &mut |line| {
        first = jsonl::parse(line);
        ControlFlow::Break(())
    })
    .ok()?;
    let first = first.filter(|line| line.is_sidechain)?;
    Some(first.session_id).filter(|id| is_session_id(id))
}
