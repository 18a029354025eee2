//! One home of Pi and `pi_agent_rust`, open for one question: which files are whose.
//!
//! A name like `<time>_<uuid>.jsonl` is Pi's without a look inside. Others are decided by their header, so
//! every file is shown by exactly one of the two adapters.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::lines::{self, stamped};
use super::{Kind, live, process, record};
use crate::adapters::{
    Depth, Found, Look, Record, Root, Served, Store, fault, not_regular, skipped,
};
use crate::host::Host;
use crate::model::{FaultCode, Locator};
use crate::native::file;

/// The sessions of one of the two programs in one home.
pub(in crate::adapters) struct PiStore<'a> {
    pub(super) kind: Kind,
    pub(super) look: &'a Look,
    pub(super) root: &'a Root,
    directories: OnceLock<Vec<PathBuf>>,
    /// Those of them that the user's settings name.
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

    /// Opens the same home for the other one, or the same again, with what is known already.
    fn sibling(&self, kind: Kind) -> PiStore<'a> {
        let (directories, children) = (self.directories.clone(), self.children.clone());
        let known_directories = self.known_directories.clone();
        PiStore { kind, directories, known_directories, children, ..*self }
    }
}

/// A session file as its name, and where needed its header, tells it.
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

    /// What the tools of live processes were told: sessions may lie where only they say so.
    pub(super) fn children(&self) -> &live::Children {
        self.children.get_or_init(|| live::children(self.look, self.root))
    }

    /// Visits the session files of this kind that are wanted by their name, in the folders that are.
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
                    // A name that is no directory hides no session of a directory.
                    found.faults.push(skipped(self.kind.name(), self.root, &path, &skip));
                    found.whole = false;
                }
                Listed::Database => databases += 1,
                Listed::File(entry) if !wanted(&entry) => {}
                Listed::File(entry) if !entry.kind.is_file() => {
                    // Reported once: by the one whose names look like that.
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
    /// Lists the files of both programs that were written since then for one of these directories: a
    /// process of one may continue a session of the other.
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

    /// Returns which of the two began this session, if its file is there.
    pub(super) fn beginner(&self, id: &str) -> Option<Kind> {
        let holds = |kind: &Kind| self.sibling(*kind).find(id).rows.iter().any(|row| row.id == id);
        [Kind::Pi, Kind::PiRust].into_iter().find(holds)
    }

    /// Looks for a session in the folders of those directories where somebody works.
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

/// Which folders are looked into.
#[derive(Clone, Copy)]
enum Folders<'a> {
    All,
    /// Those in which sessions of these directories lie.
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
    /// A session that `pi_agent_rust` was told to keep in a database.
    Database,
    Skipped(PathBuf, file::Skip),
}

/// Lists what may be session files: right in a directory, or one folder below it.
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

/// Returns whose a file is, where its name alone is proof.
fn kind_by_name(name: &str) -> Option<Kind> {
    stamped(name).filter(|id| lines::is_uuid(id)).map(|_| Kind::Pi)
}

fn named(entry: &file::DirectoryEntry, uid: u32) -> Result<Named, file::Skip> {
    if let (Some(kind), Some(id)) = (kind_by_name(&entry.name), stamped(&entry.name)) {
        return Ok(Named { id: id.to_owned(), kind });
    }
    match lines::header_of(&entry.path, uid)? {
        Some(header) => Ok(Named { kind: header.kind(&entry.name), id: header.id }),
        // It has been made and its header is not whole yet, or it is none at all.
        None => match stamped(&entry.name) {
            Some(id) => Ok(Named { id: id.to_owned(), kind: Kind::Pi }),
            None => Err(file::Skip::Other("it has no session header".into())),
        },
    }
}

/// Finds the file of a session in a home: what a new process of it is told to open.
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

/// Returns the folder of a directory's sessions. Several directories may share one: it is never read back.
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
        // Only the beginning of the id may stand in the name.
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

    fn find(&self, prefix: &str) -> Found<Locator> {
        // An id of a person's choice may stand in several projects; a UUID stands for one session.
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
        match &locator.path {
            Some(path) => vec![path.clone()],
            // It is written with its first message, in a folder that may not be there yet.
            None => self.directories().to_vec(),
        }
    }
}
