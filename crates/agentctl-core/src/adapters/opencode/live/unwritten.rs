//! Sessions that are in the database and in no log line yet: OpenCode writes its log up to seconds later than
//! its database.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::database::Made;
use super::{AgentProcess, GRAIN_MS, Home, NAME, Role, log, told_session};
use crate::adapters::{Found, Look, Served, State};
use crate::kernel::Process;
use crate::model::{Join, Reason, ReasonKind, Status};

/// The length of the shared log of each data folder before the lines of any process were read. A
/// session that a live process named before that point is known to be served by it. Lines that were
/// written during the look prove nothing: the reading of their process may have missed them.
pub(super) struct LogEnds(Vec<(PathBuf, u64)>);

impl LogEnds {
    pub(super) fn of<'a>(look: &Look, homes: impl Iterator<Item = &'a Home>) -> Self {
        let mut folders: Vec<&Path> = homes.map(|home| home.data.as_path()).collect();
        folders.sort();
        folders.dedup();
        let uid = look.host.kernel.uid();
        Self(folders.into_iter().map(|data| (data.to_owned(), log::length(data, uid))).collect())
    }

    fn tails(&self, uid: u32) -> Vec<Vec<u8>> {
        self.0.iter().map(|(data, length)| log::tail(data, uid, *length)).collect()
    }
}

/// Adds the sessions that no process has mentioned in a log: any process that has written nothing since
/// may have begun them.
pub(super) fn add_begun(all: &[AgentProcess<'_>], logs: &LogEnds, found: &mut Found<Served>) {
    let starts = all.iter().filter_map(|one| Some(one.process.started_at?.millis() - GRAIN_MS));
    let (Some(since), Some(first)) = (starts.min(), all.first()) else { return };
    let claimed: HashSet<&str> = found.rows.iter().filter_map(|s| s.id.as_deref()).collect();
    let mut made = first.backend.made_since(since);
    made.retain(|session| !claimed.contains(session.id.as_str()));
    if made.is_empty() {
        return;
    }
    let kernel = &first.look.host.kernel;
    let tails = logs.tails(kernel.uid());
    let living: Vec<&Process> = all.iter().map(|one| one.process).collect();
    let is_written = |id: &str| {
        let name = memchr::memmem::Finder::new(id.as_bytes());
        tails.iter().any(|tail| name.find(tail).is_some())
            || logs.0.iter().any(|(data, _)| log::is_of_the_ended(kernel, &living, data, id))
    };
    for session in made.iter().filter(|session| !is_written(&session.id)) {
        let makers: Vec<&AgentProcess<'_>> =
            all.iter().filter(|one| one.may_have_made(session)).collect();
        if !makers.is_empty() {
            let row = begun(session, &makers, &mut found.rows);
            found.rows.push(row);
        }
    }
}

/// Makes the row of a session that one of these processes may have begun. An idle process without a
/// session is then not known to be idle: a single one is shown in the row of the session, several
/// become unknown.
fn begun(session: &Made, makers: &[&AgentProcess<'_>], rows: &mut Vec<Served>) -> Served {
    let pids: Vec<String> = makers.iter().map(|one| one.process.id.pid.to_string()).collect();
    let pids = pids.join(" or ");
    let why = format!("pid {pids} may have begun it, and has not written since");
    let mut served = Served::unseen(session.id.clone(), &why);
    let unknown = |why: &str| {
        let reason = Some(Reason::with(ReasonKind::Ambiguous, why));
        Some(State { status: Status::Unknown, reason })
    };
    let rests = |row: &Served, one: &AgentProcess<'_>| {
        let state = row.state.as_ref().map(|state| state.status);
        row.id.is_none() && state == Some(Status::Idle) && row.by.contains(&one.process.id)
    };
    if let [one] = makers {
        if let Some(at) = rows.iter().position(|row| rests(row, one)) {
            let row = rows.remove(at);
            (served.by, served.paused, served.join) = (row.by, row.paused, Join::Inferred);
            served.stands_in = row.stands_in;
        }
    } else {
        let theirs = |row: &&mut Served| makers.iter().any(|one| rests(row, one));
        for row in rows.iter_mut().filter(theirs) {
            row.state = unknown(&format!("it may have begun {}", session.id));
        }
    }
    served.state = unknown(&why);
    let source = format!("{NAME}:log/opencode.log");
    served.evidence.extend(makers.first().map(|one| one.look.evidence(source, why)));
    served
}

impl AgentProcess<'_> {
    /// Says whether this process may have created a session that no process has mentioned.
    fn may_have_made(&self, session: &Made) -> bool {
        let here = self.process.cwd.as_deref() == Some(Path::new(&session.folder));
        let since = self
            .process
            .started_at
            .is_none_or(|t| session.at.saturating_add(GRAIN_MS) >= t.millis());
        let written = self.heard.told().and_then(|told| told.until);
        since
            && (here || self.role == Role::Server)
            && !(self.role == Role::Run && told_session(self.process).is_some())
            && written.is_none_or(|until| until.millis() <= session.at)
    }
}
