//! The sessions, locks and processes of this user that are in a directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::fleet::Fleet;
use crate::kernel::Process;
use crate::locks::{self, Kind};
use crate::model::{Fault, shorten};

/// Longest command line of a process in a reason.
const MAX_COMMAND_CHARS: usize = 60;
/// Characters of a session id in a reason.
const SHORT_ID_CHARS: usize = 8;

/// Everything of this user that is in some directory, at one moment.
pub(super) struct Occupants {
    fleet: Fleet,
    places: Vec<(PathBuf, String)>,
    processes: Vec<Process>,
    /// Why processes may be missing.
    gaps: Vec<String>,
    /// The sources that could not be asked for sessions.
    pub faults: Vec<Fault>,
}

impl Occupants {
    /// Looks at all sessions, locks and processes.
    pub(super) fn look(fleet: &Fleet) -> Self {
        let (listing, locks, mut faults) = locks::sessions_and_locks(fleet);
        let mut places = Vec::new();
        for lock in locks {
            let holder = &lock.holder;
            let text = match (holder.kind, &holder.session) {
                (Kind::Manual, _) => format!("its directory is {}", holder.description()),
                (Kind::Occupied, Some(id)) => {
                    let session = listing.sessions.iter().find(|s| s.id.as_ref() == Some(id));
                    let status = session.map_or("live", |session| session.status.word());
                    let short: String = id.chars().take(SHORT_ID_CHARS).collect();
                    let adapter = holder.adapter.unwrap_or_default();
                    format!("a session lives in it ({adapter} {short}, {status})")
                }
                (Kind::Occupied, None) => format!("{} is in it", holder.description()),
            };
            places.push((PathBuf::from(lock.directory), text));
        }
        faults.extend(listing.faults);
        let until = Instant::now() + fleet.host.deadlines.live;
        let table = fleet.host.kernel.table(until, |_| true);
        let fleet = fleet.clone();
        Self { fleet, places, processes: table.processes, gaps: table.gaps, faults }
    }

    /// Says what is below these directories, a sentence each.
    pub(super) fn below(&self, directories: &[&Path]) -> Vec<String> {
        let inside = |path: &Path| directories.iter().any(|directory| path.starts_with(directory));
        let mut found: Vec<String> = Vec::new();
        found.extend(self.places.iter().filter(|(path, _)| inside(path)).map(|(_, t)| t.clone()));
        let own = std::process::id();
        for process in self.processes.iter().filter(|process| process.id.pid != own) {
            let there = [&process.cwd, &process.exe];
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
