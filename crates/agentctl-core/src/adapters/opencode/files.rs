//! `storage/`: one JSON file per session, message and part, written by versions before 1.2.
//!
//! Read only where there is no database: 1.2 imported these files and left them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;

use super::NAME;
use super::entry::{ENTRY_BYTES, Info, Newest, Part, Times, sum, title};
use super::messages::Stored;
use crate::adapters::{Found, Record, Root, not_regular, skipped};
use crate::model::{Locator, Time, Tokens, is_session_id, shorten};
use crate::native::file;

/// Longest prompt that is kept.
const TEXT_CHARS: usize = 400;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Session {
    directory: Option<String>,
    title: Option<String>,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    time: Times,
}

/// The old store of one home.
pub(super) struct Files<'a> {
    root: &'a Root,
    uid: u32,
    /// A database has imported these files, so they are ignored.
    taken_over: bool,
    /// The parent of every subagent; read once.
    parents: OnceLock<(HashMap<String, String>, bool)>,
}

impl<'a> Files<'a> {
    pub(super) fn new(root: &'a Root, uid: u32, taken_over: bool) -> Self {
        Self { root, uid, taken_over, parents: OnceLock::new() }
    }

    fn storage(&self) -> PathBuf {
        self.root.path().join("storage")
    }

    /// Returns the wanted sessions, from file names.
    pub(super) fn sessions(
        &self,
        since_ms: Option<i64>,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Found<Locator> {
        let mut found = Found::default();
        if self.taken_over {
            return found;
        }
        let directory = self.storage().join("session");
        let Some(projects) = self.list(&directory, &mut found) else { return found };
        for project in projects {
            if !project.kind.is_dir() {
                let skip = file::Skip::NotDirectory(file::kind_of(project.kind));
                found.faults.push(skipped(NAME, self.root, &project.path, &skip));
                found.whole = false;
                continue;
            }
            for entry in self.list(&project.path, &mut found).unwrap_or_default() {
                let id = entry.name.strip_suffix(".json").filter(|id| is_session_id(id));
                let Some(id) = id.filter(|id| wanted(id)) else { continue };
                if !entry.kind.is_file() {
                    found.faults.push(not_regular(NAME, self.root, &entry, self.uid));
                } else if entry.is_since(since_ms) {
                    let (id, path) = (id.to_owned(), Some(entry.path.clone()));
                    found.rows.push(Locator { id, path, parent: None });
                }
            }
        }
        found.rows.sort();
        found
    }

    /// Like [`Files::sessions`], without subagents.
    pub(super) fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        let mut found = self.sessions(since_ms, &|_| true);
        found.rows.retain(|locator| !self.parents().0.contains_key(&locator.id));
        found
    }

    fn parents(&self) -> &(HashMap<String, String>, bool) {
        self.parents.get_or_init(|| {
            let all = self.sessions(None, &|_| true);
            let parent = |locator: &Locator| self.session(locator.path.as_deref()?).ok()?.parent;
            let families = all.rows.into_iter().filter_map(|l| Some((l.id.clone(), parent(&l)?)));
            (families.collect(), all.whole)
        })
    }

    /// Returns the subagents of a session.
    pub(super) fn children(&self, id: &str) -> Found<Locator> {
        let (parents, whole) = self.parents();
        let is_child = |child: &str| parents.get(child).is_some_and(|parent| parent == id);
        if !parents.values().any(|parent| parent == id) {
            return Found { whole: *whole, ..Found::default() };
        }
        let mut found = self.sessions(None, &is_child);
        for row in &mut found.rows {
            row.parent = Some(id.to_owned());
        }
        found
    }

    fn list(
        &self,
        directory: &Path,
        found: &mut Found<Locator>,
    ) -> Option<Vec<file::DirectoryEntry>> {
        match file::list(directory, self.uid) {
            Ok(entries) => Some(entries),
            Err(skip) => {
                found.faults.push(skipped(NAME, self.root, directory, &skip));
                found.whole = false;
                None
            }
        }
    }

    fn session(&self, path: &Path) -> Result<Session, String> {
        let bytes = file::read_small(path, self.uid, ENTRY_BYTES).map_err(|s| s.to_string())?;
        serde_json::from_slice(&bytes).map_err(|_| "it is no session".to_owned())
    }

    /// Reads one session and its newest message.
    pub(super) fn record(&self, locator: &Locator) -> Result<Record, String> {
        let Some(path) = &locator.path else { return Ok(Record::default()) };
        let session = self.session(path)?;
        let messages = self.names(&self.storage().join("message").join(&locator.id))?;
        let newest = messages.last().map(|name| self.newest(&locator.id, name)).transpose()?;
        let newest = newest.as_ref();
        let started_at = session.time.created.and_then(Time::from_millis);
        let refused = newest.and_then(Newest::refused);
        Ok(Record {
            cwd: session.directory,
            model: newest.and_then(|n| n.info.as_ref()).and_then(Info::model),
            title: title(session.title),
            prompt: messages.first().and_then(|first| self.prompt(first)),
            started_at,
            last_activity_at: newest.and_then(Newest::touched).or(started_at),
            turn: newest.map(Newest::turn).unwrap_or_default(),
            open_call: newest.and_then(Newest::open_call),
            parent: session.parent,
            notes: refused.map(|t| format!("a tool call was refused: {t}")).into_iter().collect(),
            ..Record::default()
        })
    }

    /// Returns the ids in a folder, oldest first: ids begin with their creation time.
    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        let entries = file::list(directory, self.uid).map_err(|skip| skip.to_string())?;
        let names = entries.into_iter().filter(|e| e.kind.is_file()).filter_map(|e| {
            e.name.strip_suffix(".json").filter(|id| is_session_id(id)).map(str::to_owned)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    fn message(&self, session: &str, id: &str) -> Option<(Info, Vec<u8>)> {
        let folder = self.storage().join("message").join(session);
        let path = folder.join(format!("{id}.json"));
        let bytes = file::read_small(&path, self.uid, ENTRY_BYTES).ok()?;
        Some((serde_json::from_slice(&bytes).ok()?, bytes))
    }

    fn newest(&self, session: &str, id: &str) -> Result<Newest, String> {
        let info = self.message(session, id).map(|(info, _)| info);
        let created = info.as_ref().and_then(|i| i.time.created).unwrap_or_default();
        let updated = info.as_ref().and_then(|i| i.time.completed).unwrap_or_default();
        let mut newest = Newest { id: id.to_owned(), created, updated, info, parts: Vec::new() };
        if newest.needs_parts() {
            newest.parts = self.parts(id)?.into_iter().map(|(part, _)| part).collect();
            let times = newest.parts.iter().flat_map(|p| [p.state.time.start, p.state.time.end]);
            newest.updated = times.flatten().fold(updated, i64::max);
        }
        Ok(newest)
    }

    fn parts(&self, message: &str) -> Result<Vec<(Part, Vec<u8>)>, String> {
        let folder = self.storage().join("part").join(message);
        let names = self.names(&folder)?;
        let read = |name: &String| {
            let path = folder.join(format!("{name}.json"));
            let bytes = file::read_small(&path, self.uid, 8 * ENTRY_BYTES).ok()?;
            Some((serde_json::from_slice(&bytes).ok()?, bytes))
        };
        Ok(names.iter().filter_map(read).collect())
    }

    fn prompt(&self, first: &str) -> Option<String> {
        let parts = self.parts(first).ok()?;
        let text = parts.into_iter().find(|(part, _)| part.kind == "text")?.0.text?;
        Some(shorten(&text, TEXT_CHARS))
    }

    /// Returns the tokens and the cost of a session and its subagents, if all could be read.
    pub(super) fn spent(&self, locator: &Locator) -> Option<(Tokens, f64)> {
        let children = self.children(&locator.id);
        let family = std::iter::once(locator).chain(&children.rows);
        let mut infos = Vec::new();
        for member in family {
            for name in self.names(&self.storage().join("message").join(&member.id)).ok()? {
                infos.push(self.message(&member.id, &name)?.0);
            }
        }
        children.whole.then(|| sum(infos.iter()))
    }

    /// Returns the messages of a session with their parts, oldest first, as stored text.
    pub(super) fn conversation(&self, id: &str) -> Result<Vec<Stored>, String> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let names = self.names(&self.storage().join("message").join(id))?;
        let read = |name: String| {
            let (_, bytes) = self.message(id, &name)?;
            let parts = self.parts(&name).unwrap_or_default();
            let parts = parts.into_iter().map(|(_, bytes)| text(bytes)).collect();
            Some((name, text(bytes), parts))
        };
        Ok(names.into_iter().filter_map(read).collect())
    }
}
