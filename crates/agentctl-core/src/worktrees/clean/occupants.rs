//! The sessions, locks and processes of this user that are in a directory.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{CLEAN, Site};
use crate::fleet::Fleet;
use crate::kernel::Process;
use crate::locks::{self, Kind, announced};
use crate::marks;
use crate::model::{Fault, Session, shorten};

/// Longest command line of a process in a reason.
const MAX_COMMAND_CHARS: usize = 60;
/// Characters of a session id in a reason.
const SHORT_ID_CHARS: usize = 8;

/// Everything of this user that is in some directory, at one moment.
pub(super) struct Occupants {
    fleet: Fleet,
    /// Directories, each with what is in it, and the processes of that.
    places: Vec<(PathBuf, String, HashSet<u32>)>,
    processes: Vec<Process>,
    /// Other processes that clean the same repository, and their git. They only read in a worktree, unless they hold the
    /// mutex of the repository.
    cleaning: HashSet<u32>,
    /// Why processes may be missing.
    gaps: Vec<String>,
    /// The sources that could not be asked for sessions.
    pub faults: Vec<Fault>,
}

impl Occupants {
    /// Looks at all sessions, locks and processes.
    pub(super) fn look(site: &Site<'_>) -> Self {
        let (fleet, common) = (site.fleet, &site.repository.common);
        let (listing, locks, mut faults) = locks::sessions_and_locks(fleet);
        let until = Instant::now() + fleet.host.deadlines.live;
        // Another clean may begin or end during the look.
        let mut cleans = announced(&fleet.host, CLEAN, common);
        let table = fleet.host.kernel.table(until, |_| true);
        cleans.extend(announced(&fleet.host, CLEAN, common));
        cleans.remove(&std::process::id());
        let mut places = Vec::new();
        for lock in locks {
            let holder = &lock.holder;
            let id = holder.session.as_ref();
            let session =
                listing.sessions.iter().find(|session| id.is_some() && session.id.as_ref() == id);
            let text = match (holder.kind, id) {
                (Kind::Manual, _) => format!("its directory is {}", holder.description()),
                (Kind::Occupied, Some(id)) => {
                    let status = session.map_or("live", |session| session.status.word());
                    let short: String = id.chars().take(SHORT_ID_CHARS).collect();
                    let adapter = holder.adapter.unwrap_or_default();
                    format!("a session lives in it ({adapter} {short}, {status})")
                }
                (Kind::Occupied, None) => format!("{} is in it", holder.description()),
            };
            let own = session.map(|session| processes_of(session, &table.processes));
            places.push((PathBuf::from(lock.directory), text, own.unwrap_or_default()));
        }
        faults.extend(listing.faults);
        let git = std::fs::canonicalize(site.git.program()).ok();
        let cleaning = with_git(cleans, git.as_deref(), &table.processes);
        let fleet = fleet.clone();
        Self { fleet, places, processes: table.processes, cleaning, gaps: table.gaps, faults }
    }

    /// Says what is below these directories, a sentence each.
    pub(super) fn below(&self, directories: &[&Path]) -> Vec<String> {
        let inside = |path: &Path| directories.iter().any(|directory| path.starts_with(directory));
        let mut found: Vec<String> = Vec::new();
        let mut known: HashSet<u32> = HashSet::from([std::process::id()]);
        for (_, text, processes) in self.places.iter().filter(|(path, ..)| inside(path)) {
            found.push(text.clone());
            known.extend(processes);
        }
        let counts = |pid: u32| !known.contains(&pid) && !self.cleaning.contains(&pid);
        let views = self.fleet.host.kernel.mount_views(directories);
        for process in self.processes.iter().filter(|process| counts(process.id.pid)) {
            let there = [&process.cwd, &process.exe];
            let view = views.of(process.id.pid);
            let inside = |path: &Path| inside(path) || view.is_inside(path);
            let is_inside = there.into_iter().flatten().any(|path| inside(path))
                || self.uses_file(process, &inside);
            if is_inside {
                let command = shorten(&process.argv.join(" "), MAX_COMMAND_CHARS);
                found.push(format!("a process works in it (pid {}, {command})", process.id.pid));
            }
        }
        if let Some(gap) = self.gaps.first() {
            found.push(format!("a process may work in it: {gap}"));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Says whether a process has a file below these directories open or mapped. Processes whose files this user may
    /// not see count as elsewhere: programs that guard secrets, such as `ssh-agent`, are always there.
    fn uses_file(&self, process: &Process, inside: &dyn Fn(&Path) -> bool) -> bool {
        match self.fleet.host.kernel.uses_file(&process.id, inside) {
            Ok(uses) => uses,
            Err(error) => {
                !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
            }
        }
    }
}

/// Returns the processes that serve a session, and the shim above them.
fn processes_of(session: &Session, processes: &[Process]) -> HashSet<u32> {
    let run = session.run.as_deref();
    let is_shim = |process: &&Process| run.is_some() && marks::shim_of(process) == run;
    let shims = processes.iter().filter(is_shim).map(|process| process.id.pid);
    session.processes.iter().map(|serving| serving.id.pid).chain(shims).collect()
}

/// Adds the processes of git that cleans have started, with everything below those. A child that is about to become git
/// still looks like the clean, and one that ends has neither a program nor arguments. Other children count: a process
/// that cleans may have started agents, too.
fn with_git(cleans: HashSet<u32>, git: Option<&Path>, processes: &[Process]) -> HashSet<u32> {
    let mut children: HashMap<u32, Vec<&Process>> = HashMap::new();
    for process in processes {
        children.entry(process.parent_pid).or_default().push(process);
    }
    let below = |pid: u32| children.get(&pid).into_iter().flatten();
    let is_git = |process: &Process| git.is_some() && process.exe.as_deref() == git;
    let is_fork = |process: &Process, clean: &Process| {
        process.exe == clean.exe && process.argv == clean.argv
            || process.exe.is_none() && process.argv.is_empty()
    };
    let mut open = Vec::new();
    for clean in processes.iter().filter(|process| cleans.contains(&process.id.pid)) {
        let theirs = below(clean.id.pid).filter(|one| is_git(one) || is_fork(one, clean));
        open.extend(theirs.map(|one| one.id.pid));
    }
    let mut all = cleans;
    while let Some(pid) = open.pop() {
        if all.insert(pid) {
            open.extend(below(pid).map(|one| one.id.pid));
        }
    }
    all
}
