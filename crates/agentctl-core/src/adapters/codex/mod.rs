//! Codex. The holder of the `flock` on `thread-writer-locks/<id>.lock`, or the process that has a
//! thread's rollout open for writing, serves the thread. The tail of the rollout gives the state of the
//! thread; the index in `state_*.sqlite` describes it without reading the rollout.
//!
//! A lock *file* proves nothing, the lock does. One app-server may hold the threads of many terminals:
//! such sessions are hosted, and only that server knows whether a thread waits for its user. Facts and
//! versions: `docs/agents/codex.md`.

mod answering;
mod asks;
mod control;
mod index;
mod live;
mod locks;
mod messages;
mod private_server;
mod process;
mod rollout;
mod server;
pub(super) mod stop;
mod tools;
mod visit;
mod watch;

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use index::Index;
use process::{home_of, is_codex, is_program_name};

use super::answering::Answering;
use super::control::Control;
use super::{
    Adapter, Capabilities, Depth, Found, Installation, LineFacts, Look, Record, Root, Served,
    Store, Variables, existing_roots, not_regular, skipped, version_beside,
    with_homes_of_the_living,
};
use crate::host::Host;
use crate::kernel::{Brief, OpenFile, Process};
use crate::model::{Ask, Locator, Message, Session, Time, is_session_id};
use crate::native::file;
use crate::talk::Pushing;

pub(super) const NAME: &str = "codex";
/// Length of a thread id, a UUID.
const ID_CHARS: usize = 36;

/// The variables it reads. The `launch` variables are credentials of Codex.
static VARIABLES: Variables =
    Variables { answers: &["CODEX_HOME"], launch: &["OPENAI_API_KEY", "CODEX_API_KEY"] };

/// The adapter.
pub struct Codex;

impl Adapter for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "questions; approvals where an app-server hosts it",
            tokens: true,
            cost: false,
            subagents: true,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        // The kernel cuts `comm` at 15 bytes.
        is_program_name(brief.comm) || is_program_name(brief.exe_name)
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        let mut paths = vec![host.home.join(".codex")];
        paths.extend(VARIABLES.get(host, "CODEX_HOME").map(PathBuf::from));
        paths.extend(host.roots.get(NAME).cloned().unwrap_or_default());
        paths
    }

    fn is_own_program(&self, _look: &Look, process: &Process) -> bool {
        is_codex(process)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        home_of(look, process)
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        // The environment of a live process may move its home.
        let homes = self.homes(&look.host);
        let home_of = |process: &Process| self.home_of_own(look, process);
        with_homes_of_the_living(look, existing_roots(homes.clone()), &homes, &home_of)
    }

    fn installation(&self, host: &Host) -> Installation {
        let program = host.which("codex");
        let version = program.as_deref().and_then(|p| version_beside(p, "@openai/codex"));
        Installation { program, version }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(CodexStore::open(look, root))
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        messages::read(line)
    }

    fn line_facts(&self, line: &[u8]) -> LineFacts {
        messages::line_facts(line)
    }

    fn variables(&self) -> &'static Variables {
        &VARIABLES
    }

    fn without_file_locks(&self) -> Option<&'static str> {
        Some("Codex sessions cannot be told alive without it")
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

struct CodexStore<'a> {
    look: &'a Look,
    root: &'a Root,
    /// Opened when first needed, closed with the question.
    index: OnceLock<Option<Index>>,
    /// Children by parent, and whether all could be read; only where there is no index.
    families: OnceLock<(HashMap<String, Vec<Locator>>, bool)>,
    /// The path of each rollout; only where subagents are searched.
    rollouts: OnceLock<HashMap<String, PathBuf>>,
}

/// Reads the id out of `rollout-2026-11-15T07-44-24-<id>.jsonl`.
fn id_of(name: &str) -> Option<&str> {
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let id = stem.get(stem.len().checked_sub(ID_CHARS)?..)?;
    is_session_id(id).then_some(id)
}

/// Returns the day folders that may hold a thread, from the time in its id: folders are named by the
/// local day, which is at most one off.
fn birth_days(id: &str) -> Vec<String> {
    let hex: String = id.chars().filter(|c| *c != '-').take(12).collect();
    let born_ms = i64::from_str_radix(&hex, 16).ok().filter(|_| id.len() == ID_CHARS);
    born_ms.map(days_around).unwrap_or_default()
}

/// Returns the folders of the day of this time and of the days before and after it.
fn days_around(ms: i64) -> Vec<String> {
    let day = |days: i64| {
        let at = Time::from_millis(ms.checked_add(days * 86_400_000)?)?;
        Some(at.0.strftime("%Y/%m/%d").to_string())
    };
    [0, -1, 1].into_iter().filter_map(day).collect()
}

impl<'a> CodexStore<'a> {
    fn open(look: &'a Look, root: &'a Root) -> Self {
        let (index, families, rollouts) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { look, root, index, families, rollouts }
    }
}

impl CodexStore<'_> {
    fn uid(&self) -> u32 {
        self.look.host.kernel.uid()
    }

    fn index(&self) -> Option<&Index> {
        self.index.get_or_init(|| Index::open(self.look, self.root.path())).as_ref()
    }

    /// Visits every rollout below `sessions/` by name; other files are reported as faults.
    fn each_rollout(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&str, &file::DirectoryEntry),
    ) -> Found<Locator> {
        let is_number = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
        let names = |name: &str| is_number(name) || id_of(name).is_some_and(wanted);
        let mut found = Found::default();
        let mut pending = vec![(self.root.path().join("sessions"), 0)];
        while let Some((directory, depth)) = pending.pop() {
            let entries = match file::list_wanted(&directory, self.uid(), &names) {
                Ok(entries) => entries,
                Err(skip) => {
                    found.faults.push(skipped(NAME, self.root, &directory, &skip));
                    found.whole = false;
                    continue;
                }
            };
            for entry in entries {
                // Year, month, day: a file in the place of such a folder may hide sessions.
                let is_step = depth < 3 && is_number(&entry.name);
                if is_step && entry.kind.is_dir() {
                    pending.push((entry.path, depth + 1));
                } else if is_step {
                    let skip = file::Skip::NotDirectory(file::kind_of(entry.kind));
                    found.faults.push(skipped(NAME, self.root, &entry.path, &skip));
                    found.whole = false;
                } else if let Some(id) = id_of(&entry.name) {
                    if entry.kind.is_file() {
                        visit(id, &entry);
                    } else {
                        found.faults.push(not_regular(NAME, self.root, &entry, self.uid()));
                    }
                }
            }
        }
        found
    }

    /// Lists the rollouts once: a listing per subagent would be quadratic.
    fn rollouts(&self) -> &HashMap<String, PathBuf> {
        self.rollouts.get_or_init(|| {
            let mut paths = HashMap::new();
            self.each_rollout(&|_| true, &mut |id, entry| {
                paths.insert(id.to_owned(), entry.path.clone());
            });
            paths
        })
    }

    /// Returns all subagents below a thread: subagents may have subagents of their own.
    fn descendants(&self, locator: &Locator) -> Found<Locator> {
        let mut all = self.children(locator);
        let mut known: HashSet<String> = all.rows.iter().map(|l| l.id.clone()).collect();
        let mut next = 0;
        while next < all.rows.len() && Instant::now() < self.look.deadline {
            let below = self.children(&all.rows[next]);
            all.whole &= below.whole;
            all.rows.extend(below.rows.into_iter().filter(|l| known.insert(l.id.clone())));
            next += 1;
        }
        all.whole &= next == all.rows.len();
        all
    }

    /// Says whether this open file is the rollout of this thread in this home. Device and inode decide,
    /// not the path: the process that has it open may see other mounts.
    fn is_own_rollout(&self, id: &str, open: &OpenFile) -> bool {
        let meta = self.rollout_by_birth(id).and_then(|path| std::fs::metadata(path).ok());
        meta.is_some_and(|meta| (meta.dev(), meta.ino()) == (open.device, open.inode))
    }

    /// Says whether a thread has a row in the index, so it had a prompt, and has no rollout in this
    /// home.
    fn lacks_rollout(&self, id: &str) -> bool {
        let prompted = || self.index().and_then(|index| index.row(id)).is_some();
        // The index first: searching the folders of days lists every rollout of those days.
        prompted() && self.rollout_by_birth(id).is_none() && {
            let found = self.find(id);
            found.whole && found.rows.is_empty()
        }
    }

    /// Returns the threads whose rollouts are in the folder of this day.
    fn ids_of_day(&self, day: &str) -> HashSet<String> {
        let entries = file::list(&self.root.path().join("sessions").join(day), self.uid());
        let entries = entries.unwrap_or_default();
        entries.iter().filter_map(|entry| id_of(&entry.name)).map(str::to_owned).collect()
    }

    /// Returns the rollout of a thread from the folder of its day of birth, which its id contains.
    fn rollout_by_birth(&self, id: &str) -> Option<PathBuf> {
        birth_days(id).into_iter().find_map(|day| {
            let folder = self.root.path().join("sessions").join(day);
            let mut entries = file::list(&folder, self.uid()).ok()?.into_iter();
            let entry = entries.find(|e| id_of(&e.name) == Some(id) && e.kind.is_file())?;
            Some(entry.path)
        })
    }

    /// Finds a thread without listing the whole home.
    fn born_here(&self, id: &str) -> Option<Locator> {
        let path = self.rollout_by_birth(id)?;
        let indexed = self.index().and_then(|index| index.row(id)).map(|row| row.parent);
        let parent = indexed.unwrap_or_else(|| rollout::parent_of(&path, self.uid()));
        Some(Locator { id: id.to_owned(), path: Some(path), parent })
    }
}

impl Store for CodexStore<'_> {
    fn live(&self) -> Found<Served> {
        live::read(self)
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        self.history_seeing(since_ms, &mut |_| ())
    }

    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        let index = self.index();
        if let Some(index) = index {
            index.load(self.look);
        }
        let mut rows = Vec::new();
        let mut found = self.each_rollout(&|_| true, &mut |id, entry| {
            see(id);
            if entry.is_since(since_ms) {
                let parent = index.and_then(|index| index.parent(id));
                rows.push(Locator { id: id.to_owned(), path: Some(entry.path.clone()), parent });
            }
        });
        // Subagents are listed below their parent.
        rows.retain(|row: &Locator| row.parent.is_none());
        rows.sort();
        found.rows = rows;
        found
    }

    fn expected(&self, id: &str) -> Option<Locator> {
        self.born_here(id)
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        if let Some(exact) = self.born_here(prefix) {
            return Found { rows: vec![exact], ..Found::default() };
        }
        let mut rows = Vec::new();
        let listed = self.each_rollout(&|id| id.starts_with(prefix), &mut |id, entry| {
            let path = Some(entry.path.clone());
            rows.push(Locator { id: id.to_owned(), path, parent: None });
        });
        let faults = if listed.whole { Vec::new() } else { listed.faults };
        Found { rows, faults, whole: listed.whole }
    }

    fn named(&self, name: &str) -> Found<Locator> {
        let ids = self.index().map(|index| index.named(name)).unwrap_or_default();
        let rows = ids.iter().filter_map(|id| self.find(id).rows.into_iter().find(|l| l.id == *id));
        Found { rows: rows.collect(), ..Found::default() }
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let row = self.index().and_then(|index| index.row(&locator.id));
        let mut record = rollout::read(self.look, locator, row);
        if depth == Depth::Whole
            && let Some(path) = &locator.path
        {
            rollout::count(path, self.uid(), &self.descendants(locator), &mut record);
        }
        record
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        asks::read(self, session)
    }

    fn children(&self, locator: &Locator) -> Found<Locator> {
        if let Some(index) = self.index() {
            let rows = index.children(&locator.id).into_iter().filter_map(|id| {
                let path = Some(self.rollouts().get(&id)?.clone());
                Some(Locator { id, path, parent: Some(locator.id.clone()) })
            });
            return Found { rows: rows.collect(), ..Found::default() };
        }
        // Without an index the first line of every rollout names its parent.
        let by_parent = self.families.get_or_init(|| {
            let mut families: HashMap<String, Vec<Locator>> = HashMap::new();
            let listed = self.each_rollout(&|_| true, &mut |id, entry| {
                if let Some(parent) = rollout::parent_of(&entry.path, self.uid()) {
                    let (id, path) = (id.to_owned(), Some(entry.path.clone()));
                    let child = Locator { id, path, parent: Some(parent.clone()) };
                    families.entry(parent).or_default().push(child);
                }
            });
            for children in families.values_mut() {
                children.sort();
            }
            (families, listed.whole)
        });
        let rows = by_parent.0.get(&locator.id).cloned().unwrap_or_default();
        Found { rows, faults: Vec::new(), whole: by_parent.1 }
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        watch::beginnings(self.root.path(), self.look.now)
    }

    fn announcing(&self) -> Vec<Pushing> {
        server::announcing(self.look, self.root)
    }

    fn watched(&self, locator: &Locator) -> Vec<PathBuf> {
        watch::places(self.root.path(), locator)
    }

    fn pushing(&self, session: &Session) -> Option<Pushing> {
        server::pushing(self.look, self.root, session)
    }
}
