//! Claude Code: `sessions/<pid>.json` lists the live sessions and their status, the transcript in
//! `projects/<slug>/<id>.jsonl` holds the rest.
//!
//! A live record counts only if its process lives, began at the recorded tick and in our pid domain;
//! SIGKILL leaves it behind, and an orderly exit removes it shortly before. argv is never used as a
//! session id: `/clear` changes the id under the same process. Facts and versions:
//! `docs/agents/claude-code.md`.

mod answering;
mod answers;
mod arguments;
mod asks;
mod changes;
mod control;
mod dialogs;
mod ends;
mod frames;
mod home;
mod hook;
mod lines;
mod live;
mod messages;
mod pid_domain;
mod program;
mod receipts;
mod record;
mod settled;
pub(super) mod stop;
mod subagents;
mod tokens;
mod watch;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::answering::Answering;
use super::asker::ASKER_COMM;
use super::changes::{ChangeNote, ChangesTold};
use super::control::Control;
use super::{
    Adapter, Capabilities, Depth, Found, Installation, LineFacts, Look, Record, Root, Served,
    Setting, Settings, Store, Turn, Variables, existing_roots, not_regular, skipped,
    version_beside, with_homes_of_the_living,
};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::{Ask, Locator, Message, ProcId, Session, Time};
use crate::native::file;

pub(super) const NAME: &str = "claude-code";

/// The variables it reads. The `launch` variables are credentials of Claude Code.
static VARIABLES: Variables = Variables {
    answers: &["CLAUDE_CONFIG_DIR"],
    launch: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
};

/// The adapter.
pub struct ClaudeCode;

impl Adapter for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["claude"]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "permissions, questions, plans, dialogs, trust, login",
            tokens: true,
            cost: true,
            subagents: true,
            changes: ChangesTold::Hunks,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        // Our asker is the hook that it starts.
        program::is_candidate(brief.comm, brief.exe_name) || brief.comm == ASKER_COMM
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        let mut paths = vec![host.home.join(".claude")];
        paths.extend(VARIABLES.get(host, "CLAUDE_CONFIG_DIR").map(PathBuf::from));
        paths.extend(host.roots.get(NAME).cloned().unwrap_or_default());
        paths
    }

    fn is_own_program(&self, _look: &Look, process: &Process) -> bool {
        program::is_own_program(process)
    }

    fn is_suspect(&self, process: &Process) -> bool {
        program::is_suspect(process)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        home::home_of(look, process)
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        // The environment of a live process may move its home. A process that only may be Claude Code
        // counts here: its home is read, and nothing in it is joined to that process.
        let homes = self.homes(&look.host);
        let home_of = |process: &Process| {
            if program::is_suspect(process) { home::home_of(look, process) } else { None }
        };
        with_homes_of_the_living(look, existing_roots(homes.clone()), &homes, &home_of)
    }

    fn installation(&self, host: &Host) -> Installation {
        let program = host.which("claude");
        let version = program.as_deref().and_then(|p| version_beside(p, program::PACKAGE));
        Installation { program, version }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(ClaudeStore {
            look,
            root,
            folders: OnceLock::new(),
            served: OnceLock::new(),
            serving: OnceLock::new(),
            living: OnceLock::new(),
            statusless: OnceLock::new(),
            started: OnceLock::new(),
            older: Mutex::default(),
        })
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        messages::read(line)
    }

    fn changes(&self, line: &[u8]) -> Vec<ChangeNote> {
        changes::read(line)
    }

    fn line_facts(&self, line: &[u8]) -> LineFacts {
        LineFacts { branch: messages::branch(line), ..LineFacts::default() }
    }

    fn variables(&self) -> &'static Variables {
        &VARIABLES
    }

    fn settings(&self) -> Settings {
        Settings::Choices(&[Setting { key: "billing", values: &["inherit", "subscription"] }])
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

/// Returns the folder name of a directory's sessions: every character but letters and digits becomes
/// `-`. Long names end in a hash, which is not computed here.
fn slug(cwd: &str) -> Option<String> {
    const MAX_SLUG_CHARS: usize = 200;
    let unit = |u: u16| match u8::try_from(u) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    let slug: String = cwd.encode_utf16().map(unit).collect();
    (slug.len() <= MAX_SLUG_CHARS).then_some(slug)
}

/// Returns when a record was last written.
fn written(locator: &Locator) -> Option<std::time::SystemTime> {
    std::fs::symlink_metadata(locator.path.as_ref()?).ok()?.modified().ok()
}

fn is_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

struct ClaudeStore<'a> {
    look: &'a Look,
    root: &'a Root,
    /// The sessions with a folder beside their transcript, once all were listed.
    folders: OnceLock<HashSet<String>>,
    /// The expected paths of the transcripts of live sessions, once the live records were read.
    served: OnceLock<HashMap<String, PathBuf>>,
    /// The processes that serve the live sessions, once the live records were read.
    serving: OnceLock<HashMap<String, Vec<ProcId>>>,
    /// The sessions that a live record names, once the live records were read.
    living: OnceLock<HashSet<String>>,
    /// The live sessions whose record has no status, once the live records were read.
    statusless: OnceLock<HashSet<String>>,
    /// The start of the first process that serves a session, by session id.
    started: OnceLock<HashMap<String, Option<Time>>>,
    /// The subagents beside the transcripts of each project that was asked for.
    older: Mutex<HashMap<PathBuf, Arc<subagents::ByParent>>>,
}

impl ClaudeStore<'_> {
    fn uid(&self) -> u32 {
        self.look.host.kernel.uid()
    }

    fn projects(&self) -> Result<Vec<file::DirectoryEntry>, Found<Locator>> {
        let directory = self.root.path().join("projects");
        file::list(&directory, self.uid())
            .map_err(|skip| Found::fault(skipped(NAME, self.root, &directory, &skip)))
    }

    /// Visits every transcript by name; other files are reported as faults.
    fn each_transcript(
        &self,
        visit: &mut dyn FnMut(&str, &file::DirectoryEntry),
    ) -> Found<Locator> {
        let mut found = Found::default();
        let mut folders = HashSet::new();
        let projects = match self.projects() {
            Ok(projects) => projects,
            Err(fault) => return fault,
        };
        for project in projects {
            if project.kind.is_symlink() {
                let skip = file::Skip::NotDirectory("symbolic link");
                found.faults.push(skipped(NAME, self.root, &project.path, &skip));
            }
            if !project.kind.is_dir() {
                continue;
            }
            let entries = match file::list(&project.path, self.uid()) {
                Ok(entries) => entries,
                Err(skip) => {
                    found.faults.push(skipped(NAME, self.root, &project.path, &skip));
                    found.whole = false;
                    continue;
                }
            };
            for entry in entries {
                let Some(id) = entry.name.strip_suffix(".jsonl").filter(|id| is_uuid(id)) else {
                    if entry.kind.is_dir() {
                        folders.insert(entry.name);
                    }
                    continue;
                };
                if entry.kind.is_file() {
                    visit(id, &entry);
                } else {
                    found.faults.push(not_regular(NAME, self.root, &entry, self.uid()));
                }
            }
        }
        // A second listing keeps the result of the first; nothing here outlives the question.
        let _known = self.folders.set(folders);
        found
    }

    /// Looks for one session in every project, without listing the projects. `None` where that does not
    /// answer the question: for a part of an id, a subagent's id, a project that cannot be entered.
    fn exact(&self, id: &str) -> Option<Vec<Locator>> {
        if !is_uuid(id) {
            return None;
        }
        let locate = |path: PathBuf| Locator { id: id.to_owned(), path: Some(path), parent: None };
        let name = format!("{id}.jsonl");
        let expected = self.served.get().and_then(|served| served.get(id));
        if let Some(path) = expected.filter(|p| is_file(p)) {
            return Some(vec![locate(path.clone())]);
        }
        let mut newest = None;
        for project in self.projects().ok()?.into_iter().filter(|p| p.kind.is_dir()) {
            let path = project.path.join(&name);
            match std::fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    newest = newest.max(Some((meta.modified().ok(), path)));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => return None,
            }
        }
        Some(newest.into_iter().map(|(_, path)| locate(path)).collect())
    }

    /// Searches the folders of all sessions: a subagent's id does not name its parent.
    fn find_subagents(&self, prefix: &str) -> Vec<Locator> {
        let mut sessions = Vec::new();
        // Faults were already reported by the first listing of the same names.
        let _told = self.each_transcript(&mut |id, entry| {
            let path = Some(entry.path.clone());
            sessions.push(Locator { id: id.to_owned(), path, parent: None });
        });
        sessions.retain(|session| {
            let project = session.path.as_deref().and_then(Path::parent);
            self.folders.get().is_none_or(|folders| folders.contains(&session.id))
                || project.is_some_and(|p| self.older_subagents(p).contains_key(&session.id))
        });
        let children = sessions.iter().flat_map(|session| self.subagents(session).rows);
        children.filter(|child| child.id.starts_with(prefix)).collect()
    }

    /// Returns the subagents of a session, of all layouts.
    fn subagents(&self, locator: &Locator) -> Found<Locator> {
        let Some(path) = locator.path.as_ref().filter(|_| locator.parent.is_none()) else {
            return Found::default();
        };
        let mut found = subagents::below(self.root, path, &locator.id, self.uid());
        if let Some(project) = path.parent() {
            let older = self.older_subagents(project);
            let new = older.get(&locator.id).into_iter().flatten();
            let new = new.filter(|row| found.rows.iter().all(|known| known.id != row.id));
            let new: Vec<Locator> = new.cloned().collect();
            found.rows.extend(new);
        }
        found
    }

    /// Returns the subagents beside the transcripts of a project, read once per question.
    fn older_subagents(&self, project: &Path) -> Arc<subagents::ByParent> {
        let mut known = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || Arc::new(subagents::beside(project, self.uid()));
        Arc::clone(known.entry(project.to_owned()).or_insert_with(read))
    }

    /// Says whether a transcript is an empty file that no live record names: versions up to 2.0 leave
    /// one beside the session that they resume. It never was a session.
    fn is_empty_and_over(&self, locator: &Locator, record: &Record) -> bool {
        locator.parent.is_none()
            && record.stamp.as_ref().is_some_and(file::Stamp::is_empty)
            && self.living.get().is_some_and(|living| !living.contains(&locator.id))
    }

    /// Says whether the newest entry of a transcript was written before any process began that serves this
    /// session now. Both times are of the agent's own clock.
    fn is_older_than_the_living(&self, session: &str, record: &Record) -> bool {
        let started = self.started.get().and_then(|started| *started.get(session)?);
        let newest = record.last_activity_at.max(record.started_at);
        started.is_some_and(|started| newest.is_some_and(|newest| newest < started))
    }

    /// Closes turns that an earlier process left open: of a session whose live record has no status,
    /// and of a subagent, which ended with its process.
    fn leave_to_the_living(&self, locator: &Locator, record: &mut Record) {
        if !matches!(record.turn, Turn::Open { .. } | Turn::Undecided(_)) {
            return;
        }
        if let Some(parent) = &locator.parent {
            record.left_behind = self.is_older_than_the_living(parent, record);
        } else if self.statusless.get().is_some_and(|all| all.contains(&locator.id))
            && self.is_older_than_the_living(&locator.id, record)
        {
            record.turn = Turn::Over("its last turn is older than its process".into());
        }
    }
}

/// Says whether a text is a UUID: only transcripts of sessions are named so.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

impl Store for ClaudeStore<'_> {
    fn live(&self) -> Found<Served> {
        let mut found = live::read(self.look, self.root);
        let mut statusless = HashSet::new();
        for served in found.rows.iter_mut().filter(|served| served.state.is_none()) {
            let Some(id) = served.id.clone() else { continue };
            if self.exact(&id).is_some_and(|transcripts| transcripts.is_empty()) {
                served.state = Some(live::before_first_entry(served));
                live::forget_provisional_id(self.look, served);
            }
            statusless.insert(id);
        }
        let _first = self.statusless.set(statusless);
        let mut started: HashMap<String, Option<Time>> = HashMap::new();
        for served in &found.rows {
            let Some(id) = served.id.clone() else { continue };
            let first = started.entry(id).or_insert(served.started_at);
            *first = (*first).min(served.started_at);
        }
        let _first = self.started.set(started);
        let place = |served: &Served| {
            let (id, cwd) = (served.id.as_ref()?, served.cwd.as_ref()?);
            let folder = self.root.path().join("projects").join(slug(cwd)?);
            Some((id.clone(), folder.join(format!("{id}.jsonl"))))
        };
        let _first = self.living.set(found.rows.iter().filter_map(|s| s.id.clone()).collect());
        let _first = self.served.set(found.rows.iter().filter_map(place).collect());
        let mut serving: HashMap<String, Vec<ProcId>> = HashMap::new();
        for served in &found.rows {
            if let Some(id) = served.id.clone() {
                serving.entry(id).or_default().extend(served.by.iter().cloned());
            }
        }
        let _first = self.serving.set(serving);
        found
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        self.history_seeing(since_ms, &mut |_| ())
    }

    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        let mut rows = Vec::new();
        let mut found = self.each_transcript(&mut |id, entry| {
            see(id);
            if entry.is_since(since_ms) {
                let path = Some(entry.path.clone());
                rows.push(Locator { id: id.to_owned(), path, parent: None });
            }
        });
        rows.sort();
        // The same session in two folders (a copied project) is listed once, with the newer file.
        rows.dedup_by(|other, kept| {
            let same = other.id == kept.id;
            if same && written(other) > written(kept) {
                std::mem::swap(other, kept);
            }
            same
        });
        found.rows = rows;
        found
    }

    fn expected(&self, id: &str) -> Option<Locator> {
        self.exact(id)?.pop()
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        if let Some(rows) = self.exact(prefix) {
            return Found { rows, ..Found::default() };
        }
        let mut rows: Vec<Locator> = Vec::new();
        let listed = self.each_transcript(&mut |id, entry| {
            if id.starts_with(prefix) {
                let path = Some(entry.path.clone());
                let found = Locator { id: id.to_owned(), path, parent: None };
                match rows.iter_mut().find(|known| known.id == id) {
                    Some(known) if written(&found) > written(known) => *known = found,
                    Some(_) => {}
                    None => rows.push(found),
                }
            }
        });
        if rows.is_empty() && listed.whole {
            rows = self.find_subagents(prefix);
        }
        // A fault about another file hides no session that was asked for by name.
        let faults = if listed.whole { Vec::new() } else { listed.faults };
        Found { rows, faults, whole: listed.whole }
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let mut record = match depth {
            Depth::Table | Depth::Outline => record::read(self.look, locator, None),
            Depth::Whole => record::read(self.look, locator, Some(&self.subagents(locator))),
        };
        let has_folder = self.folders.get().is_none_or(|folders| folders.contains(&locator.id));
        if let Some(path) = locator.path.as_ref().filter(|_| has_folder) {
            record::rename(path, self.uid(), &mut record);
        }
        self.leave_to_the_living(locator, &mut record);
        record.absent = self.is_empty_and_over(locator, &record);
        record
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        let locator = session.id.as_deref().and_then(|id| self.exact(id)?.pop());
        asks::of(self.look, self.root, session, locator.as_ref())
    }

    fn open_child(&self, locator: &Locator) -> Option<Turn> {
        // Versions with the older layout write no live record, so their subagents are never needed
        // here.
        let path = locator.path.as_deref().filter(|_| locator.parent.is_none())?;
        let children = subagents::below(self.root, path, &locator.id, self.uid()).rows;
        let mut records = children.iter().map(|child| record::read(self.look, child, None));
        let is_open = |record: &Record| {
            let open = matches!(record.turn, Turn::Open { .. });
            open && !self.is_older_than_the_living(&locator.id, record)
        };
        records.find(is_open).map(|record| record.turn)
    }

    fn children(&self, locator: &Locator) -> Found<Locator> {
        self.subagents(locator)
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        vec![self.root.path().join("sessions"), asks::folder(&self.look.host)]
    }

    fn watched(&self, locator: &Locator) -> Vec<PathBuf> {
        let expected = || self.served.get().and_then(|served| served.get(&locator.id)).cloned();
        let mut places = watch::places(self.root.path(), locator.path.clone().or_else(expected));
        // An asker that begins or ends changes it.
        places.push(asks::folder(&self.look.host));
        // An ask of a kept session, and the answer to it, are lines of its output and need no other write.
        let serving = self.serving.get().and_then(|serving| serving.get(&locator.id));
        let outputs = serving.into_iter().flatten();
        places.extend(outputs.filter_map(|process| frames::output(self.look, process)));
        places
    }
}
