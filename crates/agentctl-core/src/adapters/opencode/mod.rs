//! OpenCode: `opencode.db` holds the sessions and their state; the shared log, read at the file
//! position of each process, shows which process serves which session.
//!
//! Terminals and `run` have a process of their own; `serve` and `acp` host many sessions and are asked
//! on their port. Facts and versions: `docs/agents/opencode.md`.

mod answering;
mod arbiter;
mod asks;
mod changes;
mod control;
mod database;
mod entry;
mod files;
mod home;
mod live;
mod log;
mod messages;
mod private_server;
mod program;
mod server;
mod stop;

use std::path::PathBuf;
use std::sync::OnceLock;

use self::database::{Database, Made, Row};
use self::files::Files;
use self::live::Doubts;
use super::answering::Answering;
use super::changes::{ChangeNote, ChangesTold};
use super::control::Control;
use super::{
    Adapter, Capabilities, Conversation, Depth, Found, Installation, Look, Record, Root, Served,
    Store, Turn, Variables, fault, version_beside,
};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::{Ask, Fault, FaultCode, Locator, Message, Session};
use crate::native::cache::FileVersion;
use crate::native::sqlite::{SqlResult, StoreError};

pub(super) const NAME: &str = "opencode";

/// The variables it reads.
static VARIABLES: Variables =
    Variables { answers: &["OPENCODE_DB"], launch: &["OPENCODE_PERMISSION"] };

/// The adapter.
pub struct OpenCode;

impl Adapter for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "permissions, questions",
            tokens: true,
            cost: true,
            subagents: true,
            changes: ChangesTold::Hunks,
        }
    }

    fn is_candidate(&self, brief: Brief<'_>) -> bool {
        home::is_its_name(brief.comm) || home::is_its_name(brief.exe_name)
    }

    fn homes(&self, host: &Host) -> Vec<PathBuf> {
        home::homes(host)
    }

    fn is_own_program(&self, look: &Look, process: &Process) -> bool {
        program::is_own(look, process)
    }

    fn is_suspect(&self, process: &Process) -> bool {
        home::is_opencode(process)
    }

    fn home_of(&self, look: &Look, process: &Process) -> Option<PathBuf> {
        home::Home::of(look, process).known().map(|home| home.root)
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        home::roots(self, look)
    }

    fn installation(&self, host: &Host) -> Installation {
        let program = host.which("opencode");
        let version = program.as_deref().and_then(|p| version_beside(p, "opencode-ai"));
        Installation { program, version }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        Box::new(OpenCodeStore { look, root, backend: OnceLock::new(), doubts: Doubts::default() })
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        messages::read(line)
    }

    fn changes(&self, line: &[u8]) -> Vec<ChangeNote> {
        changes::read(line)
    }

    fn variables(&self) -> &'static Variables {
        &VARIABLES
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

/// The store cannot be read well enough to judge the processes by it.
struct Blind;

/// The storage of a home's sessions.
enum Backend<'a> {
    /// Since 1.2.
    Database(Box<Database>, Option<FileVersion>),
    /// Before 1.2.
    Files(Files<'a>),
    /// There is a database, and it cannot be read.
    Broken(String),
}

impl<'a> Backend<'a> {
    fn open(look: &Look, root: &'a Root) -> Self {
        let uid = look.host.kernel.uid();
        let path = home::database(root.path());
        let basis = look.basis(&path);
        match Database::open(&path, uid, look.deadline) {
            Ok(database) => Self::Database(Box::new(database), basis),
            // Old files beside a database were imported by it or are obsolete.
            Err(StoreError::Missing) => {
                let taken_over = home::has_database(root.path(), uid);
                Self::Files(Files::new(root, uid, taken_over))
            }
            Err(error) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                Self::Broken(format!("{name} cannot be read: {error}"))
            }
        }
    }

    /// Returns the session at the top of a subagent's chain of parents; the id itself if it has no
    /// parent.
    fn top(&self, id: &str) -> String {
        match self {
            Self::Database(database, _) => database.top(id),
            _ => id.to_owned(),
        }
    }

    /// Returns a session in its current state; fails where the live processes cannot be compared with
    /// it.
    fn row(&self, id: &str) -> Result<Option<Row>, Blind> {
        match self {
            Self::Database(database, _) => database.fresh(id).map_err(|_| Blind),
            _ => Err(Blind),
        }
    }

    fn made_since(&self, since_ms: i64) -> Vec<Made> {
        match self {
            Self::Database(database, _) => database.made_since(since_ms).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Returns the sessions of a folder, and the sessions of any folder that were written since that
    /// time.
    fn in_or_since(&self, directory: &str, since_ms: i64) -> Vec<String> {
        let Self::Database(database, _) = self else { return Vec::new() };
        let found = database.in_or_since(directory, since_ms).unwrap_or_default();
        found.rows.into_iter().map(|locator| locator.id).collect()
    }

    fn open_since(&self, directory: &str, since_ms: i64) -> Vec<Row> {
        match self {
            Self::Database(database, _) => {
                database.open_since(directory, since_ms).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Returns all subagents of a session.
    fn descendants(&self, id: &str) -> Vec<Row> {
        let Self::Database(database, _) = self else { return Vec::new() };
        let mut rows: Vec<Row> = Vec::new();
        let mut pending = vec![id.to_owned()];
        while let Some(id) = pending.pop().filter(|_| rows.len() < 1000) {
            for child in database.children(&id).unwrap_or_default().rows {
                let known = rows.iter().any(|row| row.id == child.id);
                if let Some(row) = database.fresh(&child.id).ok().flatten().filter(|_| !known) {
                    pending.push(child.id);
                    rows.push(row);
                }
            }
        }
        rows
    }
}

struct OpenCodeStore<'a> {
    look: &'a Look,
    root: &'a Root,
    /// Opened when first needed, closed with the question.
    backend: OnceLock<Backend<'a>>,
    /// Sessions whose live sources do not decide their state.
    doubts: Doubts,
}

impl<'a> OpenCodeStore<'a> {
    fn backend(&self) -> &Backend<'a> {
        self.backend.get_or_init(|| Backend::open(self.look, self.root))
    }

    fn fault(&self, why: &str) -> Fault {
        fault(NAME, self.root, FaultCode::Unreadable, why.to_owned())
    }

    fn answered<T>(&self, found: SqlResult<Found<T>>) -> Found<T> {
        found.unwrap_or_else(|error| {
            Found::fault(self.fault(&format!("the database cannot be read: {error}")))
        })
    }

    fn source(&self) -> String {
        match self.backend() {
            Backend::Files(_) => format!("{NAME}:storage"),
            Backend::Database(database, _) => format!("{NAME}:{}", database.name()),
            Backend::Broken(_) => NAME.to_owned(),
        }
    }

    fn row(
        &self,
        (database, basis): (&Database, Option<FileVersion>),
        id: &str,
        depth: Depth,
    ) -> SqlResult<Option<Record>> {
        // A record that is cached serves every question.
        let for_table = depth == Depth::Table && basis.is_none();
        let read = || Ok(database.row(id, for_table)?.map(Row::record));
        self.look.outline_in(database.path(), basis, id, read)
    }

    fn unreadable(why: String) -> Record {
        Record { turn: Turn::Unreadable(why), ..Record::default() }
    }
}

impl Store for OpenCodeStore<'_> {
    fn live(&self) -> Found<Served> {
        live::read(self.look, self.root, || self.backend(), &self.doubts)
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        match self.backend() {
            Backend::Database(database, _) => {
                self.answered(database.history_seeing(since_ms, &mut |_| ()))
            }
            Backend::Files(files) => files.history(since_ms),
            Backend::Broken(why) => Found::fault(self.fault(why)),
        }
    }

    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        match self.backend() {
            Backend::Database(database, _) => self.answered(database.history_seeing(since_ms, see)),
            Backend::Files(files) => {
                let found = files.sessions(None, &|_| true);
                found.rows.iter().for_each(|locator| see(&locator.id));
                files.history(since_ms)
            }
            Backend::Broken(why) => Found::fault(self.fault(why)),
        }
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        match self.backend() {
            Backend::Database(database, _) => self.answered(database.find(prefix)),
            Backend::Files(files) => files.sessions(None, &|id| id.starts_with(prefix)),
            Backend::Broken(why) => Found::fault(self.fault(why)),
        }
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let whole = depth == Depth::Whole;
        let (mut record, spent) = match self.backend() {
            Backend::Database(database, basis) => {
                match self.row((database, *basis), &locator.id, depth) {
                    Ok(Some(record)) => {
                        let spent = whole.then(|| database.spent(&locator.id).ok().flatten());
                        (record, spent.flatten())
                    }
                    // A process named it before it was written to the database.
                    Ok(None) => return Record::default(),
                    Err(error) => return Self::unreadable(error.to_string()),
                }
            }
            Backend::Files(files) => match files.record(locator) {
                Ok(record) => (record, whole.then(|| files.spent(locator)).flatten()),
                Err(why) => return Self::unreadable(why),
            },
            Backend::Broken(why) => return Self::unreadable(why.clone()),
        };
        (record.tokens, record.cost_usd) = spent.unzip();
        if let Turn::Open { doubt, .. } = &mut record.turn {
            *doubt = self.doubts.asked.holds(&locator.id).then_some(live::DOUBT);
        }
        if self.doubts.switched.holds(&locator.id) {
            record.notes.push(live::SWITCHED.to_owned());
        }
        let says = record.turn.says();
        record.evidence.push(self.look.evidence(self.source(), says));
        record
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        asks::read(self, session)
    }

    fn open_child(&self, locator: &Locator) -> Option<Turn> {
        let rows = self.backend().descendants(&locator.id).into_iter();
        let mut turns = rows.filter_map(|row| row.newest.map(|newest| newest.turn()));
        turns.find(|turn| matches!(turn, Turn::Open { .. }))
    }

    fn children(&self, locator: &Locator) -> Found<Locator> {
        match self.backend() {
            Backend::Database(database, _) => self.answered(database.children(&locator.id)),
            Backend::Files(files) => files.children(&locator.id),
            Backend::Broken(_) => Found::default(),
        }
    }

    fn conversation(&self, locator: &Locator) -> Option<Result<Conversation, Fault>> {
        let read = match self.backend() {
            Backend::Database(database, _) => {
                database.conversation(&locator.id).map_err(|error| error.to_string())
            }
            Backend::Files(files) => files.conversation(&locator.id),
            Backend::Broken(why) => Err(why.clone()),
        };
        Some(match read {
            Ok(read) => Ok(messages::lines(&read)),
            Err(why) => Err(self.fault(&why)),
        })
    }

    fn beginnings(&self) -> Vec<PathBuf> {
        let mut places = self.watched(&Locator { id: String::new(), path: None, parent: None });
        // Before 1.18 each process had a log of its own.
        places.push(self.root.path().join("log"));
        places
    }

    fn watched(&self, locator: &Locator) -> Vec<PathBuf> {
        let log = self.root.path().join("log/opencode.log");
        match self.backend() {
            Backend::Files(_) => {
                let storage = self.root.path().join("storage");
                let messages = storage.join("message").join(&locator.id);
                let mut places = vec![messages, log];
                places.extend(locator.path.clone());
                places
            }
            _ => {
                let database = home::database(self.root.path());
                let mut journal = database.clone().into_os_string();
                journal.push("-wal");
                vec![database, journal.into(), log]
            }
        }
    }
}
