//! One home of Pi and `pi_agent_rust`, open for one question: assigns each file to one of the two
//! programs.
//!
//! A name like `<time>_<uuid>.jsonl` is Pi's without reading the file. Others are decided by their
//! header, so every file is shown by exactly one of the two adapters.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::lines::{self, stamped};
use super::{Kind, live, output, process, record, rpc};
use crate::adapters::{
    Depth, Found, Look, Record, Root, Served, Store, fault, not_regular, skipped,
};
use crate::host::Host;
use crate::model::{Ask, FaultCode, Locator, Session};
use crate::native::file;

/// The sessions of one of the two programs in one home.
pub(in crate::adapters) struct PiStore<'a> {
    pub(super) kind: Kind,
    pub(super) look: &'a Look,
    pub(super) root: &'a Root,
    directories: OnceLock<Vec<PathBuf>>,
    /// The directories that the user's settings name.
    known_directories: OnceLock<Vec<PathBuf>>,
    children: OnceLock<live::Children>,
}

impl<'a> PiStore<'a> {
    /// Opens a home for one of the two.
    pub(in crate::adapters) fn open(kind: Kind, look: &'a Look, root: &'a Root) -> Self {
        Self {
            kind,
            look,
            root,
            directories: OnceLock::new(),
            children: OnceLock::new(),
            known_directories: OnceLock::new(),
        }
    }

    /// Opens the same home for either of the two programs, keeping the cached facts.
    fn sibling(&self, kind: Kind) -> PiStore<'a> {
        let (directories, children) = (self.directories.clone(), self.children.clone());
        let known_directories = self.known_directories.clone();
        PiStore { kind, directories, known_directories, children, ..*self }
    }
}

/// A session file, identified by its name and, where needed, its header.
struct Named {
    id: String,
    kind: Kind,
}

impl PiStore<'_> {
    pub(super) fn uid(&self) -> u32 {
        self.look.host.kernel.uid()
    }

    fn directories(&self) -> &[PathBuf] {
        self.directories.get_or_init(|| process::session_directories(self.look, self.root))
    }

    /// Returns the sessions that the environment of tools names: some files are known only from there.
    pub(super) fn children(&self) -> &live::Children {
        self.children.get_or_init(|| live::children(self.look, self.root))
    }

    /// Visits the session files of this kind with a wanted name in the wanted folders.
    fn each(
        &self,
        folders: Folders<'_>,
        wanted: &dyn Fn(&file::DirectoryEntry) -> bool,
        visit: &mut dyn FnMut(String, file::DirectoryEntry),
    ) -> Found<Locator> {
        let mut found = Found::default();
        let mut databases = 0_u32;
        for directory in self.directories() {
            each_file(directory, folders, self.uid(), &mut |listed| match listed {
                Listed::Skipped(path, skip) => {
                    // A file in place of a directory may hide sessions.
                    found.faults.push(skipped(self.kind.name(), self.root, &path, &skip));
                    found.whole = false;
                }
                Listed::Database => databases += 1,
                Listed::File(entry) if !wanted(&entry) => {}
                Listed::File(entry) if !entry.kind.is_file() => {
                    // Reported once: by the program whose files have such names.
                    if self.kind == kind_by_name(&entry.name).unwrap_or(Kind::Pi) {
                        let kind = self.kind.name();
                        found.faults.push(not_regular(kind, self.root, &entry, self.uid()));
                    }
                }
                Listed::File(entry) => match named(&entry, self.uid()) {
                    Ok(named) if named.kind == self.kind => visit(named.id, entry),
                    Err(skip) if self.kind == Kind::Pi => {
                        found.faults.push(skipped(self.kind.name(), self.root, &entry.path, &skip));
                    }
                    Ok(_) | Err(_) => {}
                },
            });
        }
        if self.kind == Kind::PiRust && databases > 0 {
            let message = format!("{databases} sessions kept in databases are not read");
            found.faults.push(fault(self.kind.name(), self.root, FaultCode::Unsupported, message));
            found.whole = false;
        }
        found
    }
}

impl PiStore<'_> {
    /// Lists the files of both programs that were written since that time for one of these directories:
    /// a process of one program may continue a session of the other.
    pub(super) fn written(
        &self,
        since: i64,
        directories: &[String],
        found: &mut Found<Served>,
    ) -> Vec<live::Written> {
        let mut written = Vec::new();
        for kind in [Kind::Pi, Kind::PiRust] {
            let store = self.sibling(kind);
            let wanted = |entry: &file::DirectoryEntry| entry.is_since(Some(since));
            let listed = store.each(Folders::Of(directories), &wanted, &mut |id, entry| {
                written.push(live::Written { id, kind, path: entry.path });
            });
            if kind == self.kind {
                found.faults.extend(listed.faults);
                found.whole &= listed.whole;
            }
        }
        written
    }

    /// Returns which of the two began this session, if its file exists.
    pub(super) fn beginner(&self, id: &str) -> Option<Kind> {
        let holds = |kind: &Kind| self.sibling(*kind).find(id).rows.iter().any(|row| row.id == id);
        [Kind::Pi, Kind::PiRust].into_iter().find(holds)
    }

    /// Looks for a session in the folders of the directories in which agents run.
    fn near_the_living(&self, id: &str) -> Option<Locator> {
        let agents = self.look.table.processes.iter().filter(|p| process::kind_of(p).is_some());
        let places = agents.filter_map(|p| p.cwd.as_ref()).map(|cwd| cwd.to_string_lossy().into());
        let places: Vec<String> = places.collect();
        let mut found = None;
        self.each(Folders::Of(&places), &|entry| may_hold(&entry.name, id), &mut |own, entry| {
            if own == id {
                found = Some(Locator { id: own, path: Some(entry.path), parent: None });
            }
        });
        found
    }
}

/// The folders that are searched.
#[derive(Clone, Copy)]
enum Folders<'a> {
    All,
    /// The folders of the sessions of these directories.
    Of(&'a [String]),
}

impl Folders<'_> {
    fn hold(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(directories) => directories.iter().any(|directory| slug(directory) == name),
        }
    }
}

enum Listed {
    File(file::DirectoryEntry),
    /// A session that `pi_agent_rust` keeps in a database.
    Database,
    Skipped(PathBuf, file::Skip),
}

/// Lists the possible session files: in a directory itself, or one folder below it.
fn each_file(directory: &Path, folders: Folders<'_>, uid: u32, visit: &mut dyn FnMut(Listed)) {
    let is_session = |name: &str| name.strip_suffix(".jsonl").is_some() || is_database(name);
    let wanted = |name: &str| (is_project(name) && folders.hold(name)) || is_session(name);
    let mut visit = |listed: Listed| match listed {
        Listed::File(entry) if is_database(&entry.name) => visit(Listed::Database),
        listed => visit(listed),
    };
    let entries = match file::list_wanted(directory, uid, &wanted) {
        Ok(entries) => entries,
        Err(skip) => return visit(Listed::Skipped(directory.to_owned(), skip)),
    };
    for entry in entries {
        if is_session(&entry.name) {
            visit(Listed::File(entry));
        } else if !entry.kind.is_dir() {
            let skip = file::Skip::NotDirectory(file::kind_of(entry.kind));
            visit(Listed::Skipped(entry.path, skip));
        } else {
            match file::list_wanted(&entry.path, uid, &is_session) {
                Ok(files) => files.into_iter().for_each(|file| visit(Listed::File(file))),
                Err(skip) => visit(Listed::Skipped(entry.path, skip)),
            }
        }
    }
}

/// Returns the program of a file, where its name alone proves it.
fn kind_by_name(name: &str) -> Option<Kind> {
    stamped(name).filter(|id| lines::is_uuid(id)).map(|_| Kind::Pi)
}

fn named(entry: &file::DirectoryEntry, uid: u32) -> Result<Named, file::Skip> {
    if let (Some(kind), Some(id)) = (kind_by_name(&entry.name), stamped(&entry.name)) {
        return Ok(Named { id: id.to_owned(), kind });
    }
    match lines::header_of(&entry.path, uid)? {
        Some(header) => Ok(Named { kind: header.kind(&entry.name), id: header.id }),
        // The file is new and its header is not complete yet, or it is not a session file.
        None => match stamped(&entry.name) {
            Some(id) => Ok(Named { id: id.to_owned(), kind: Kind::Pi }),
            None => Err(file::Skip::Other("it has no session header".into())),
        },
    }
}

/// Finds the file of a session in a home, which a new process is told to open.
pub(in crate::adapters) fn session_file(
    host: &Host,
    root: &Root,
    kind: Kind,
    id: &str,
) -> Option<PathBuf> {
    let uid = host.kernel.uid();
    let mut found = None;
    for directory in process::directories_of(host, root) {
        each_file(&directory, Folders::All, uid, &mut |listed| {
            if let Listed::File(entry) = listed
                && found.is_none()
                && entry.kind.is_file()
                && may_hold(&entry.name, id)
                && named(&entry, uid).is_ok_and(|named| named.id == id && named.kind == kind)
            {
                found = Some(entry.path);
            }
        });
    }
    found
}

/// Returns the folder name of a directory's sessions. Several directories may share one, so it is never
/// read back.
fn slug(directory: &str) -> String {
    let bare = directory.strip_prefix(['/', '\\']).unwrap_or(directory);
    format!("--{}--", bare.replace(['/', '\\', ':'], "-"))
}

/// `<time>_<id>.sqlite`; the store's own index has no such name.
fn is_database(name: &str) -> bool {
    name.strip_suffix(".sqlite").is_some_and(|stem| stamped(&format!("{stem}.jsonl")).is_some())
}

fn is_project(name: &str) -> bool {
    name.len() > 4 && name.starts_with("--") && name.ends_with("--")
}

/// Says whether a file of this name may hold a session whose id begins like that.
fn may_hold(name: &str, prefix: &str) -> bool {
    match stamped(name) {
        // The name may contain only the beginning of the id.
        Some(id) => id.starts_with(prefix) || prefix.starts_with(id),
        None => true,
    }
}

impl Store for PiStore<'_> {
    fn live(&self) -> Found<Served> {
        let mut found = Found::default();
        live::read(self, &mut found);
        live::doubt_failures(self, &mut found);
        found
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        let mut rows = Vec::new();
        let wanted = |entry: &file::DirectoryEntry| entry.is_since(since_ms);
        let mut found = self.each(Folders::All, &wanted, &mut |id, entry| {
            rows.push(Locator { id, path: Some(entry.path), parent: None });
        });
        rows.sort();
        found.rows = rows;
        found
    }

    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        let history = self.history(since_ms);
        let see = &mut |locator: &Locator| see(&locator.id);
        if since_ms.is_none() && !history.rows.is_empty() {
            history.rows.iter().for_each(see);
        } else {
            // The history leaves out older files, and sessions that only their tools name.
            self.find("").rows.iter().for_each(see);
        }
        history
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        // An id that the user chose may exist in several projects; a UUID names one session.
        if let Some(exact) = lines::is_uuid(prefix).then(|| self.near_the_living(prefix)).flatten()
        {
            return Found { rows: vec![exact], ..Found::default() };
        }
        let mut rows = Vec::new();
        let wanted = |entry: &file::DirectoryEntry| may_hold(&entry.name, prefix);
        let listed = self.each(Folders::All, &wanted, &mut |id, entry| {
            if id.starts_with(prefix) {
                rows.push(Locator { id, path: Some(entry.path), parent: None });
            }
        });
        if rows.is_empty() {
            let told = self.children().told.iter().filter(|told| told.id.starts_with(prefix));
            let here = told.filter_map(|told| {
                let path = told.file.clone()?;
                let name = path.file_name()?.to_str()?.to_owned();
                let header = lines::header_of(&path, self.uid()).ok().flatten()?;
                let ours = header.id == told.id && header.kind(&name) == self.kind;
                ours.then_some(Locator { id: header.id, path: Some(path), parent: None })
            });
            rows.extend(here);
        }
        rows.sort();
        rows.dedup();
        let faults = if listed.whole { Vec::new() } else { listed.faults };
        Found { rows, faults, whole: listed.whole }
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let whole = depth == Depth::Whole;
        let mut record = record::read(self.look, self.kind.name(), locator, whole);
        let known = || process::directories_of(&self.look.host, self.root);
        record.foreign = locator.path.as_ref().is_some_and(|path| {
            !self.known_directories.get_or_init(known).iter().any(|known| path.starts_with(known))
        });
        record
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        let mut places = self.directories().to_vec();
        // Each project has a folder of its own.
        for directory in self.directories() {
            let entries = file::list(directory, self.uid()).unwrap_or_default();
            places.extend(entries.into_iter().filter(|e| e.kind.is_dir()).map(|e| e.path));
        }
        places
    }

    fn watched(&self, locator: &Locator) -> Vec<PathBuf> {
        let mut places = match &locator.path {
            Some(path) => vec![path.clone()],
            // It is written with its first message, in a folder that may not exist yet.
            None => self.directories().to_vec(),
        };
        places.extend(live::kept_output(self, &locator.id));
        places
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        let process = rpc::kept(self.look, session);
        let dialog = process.and_then(|process| output::dialog(self.look, process));
        let rows = dialog.map(|dialog| dialog.ask(session)).into_iter().collect();
        Found { rows, ..Found::default() }
    }
}
