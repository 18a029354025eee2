//! Recognises the processes of Pi, and reads their home from their environment.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{Kind, PACKAGES, VARIABLES};
use crate::adapters::{Look, Root, existing_roots, version_beside, with_homes_of_the_living};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::native::file;
use crate::native::real_path::{Unresolved, real_path};

/// Programs that run Pi's JavaScript.
const RUNTIMES: [&str; 3] = ["node", "nodejs", "bun"];

/// Says whether a process may be one of the two. In its first moments, up to two seconds on a loaded
/// machine, Pi has the name of Node.
pub(in crate::adapters) fn is_candidate(brief: Brief<'_>) -> bool {
    let exe = brief.exe_name;
    let starting = RUNTIMES.contains(&exe) && [exe, "MainThread"].contains(&brief.comm);
    brief.comm == "pi" || exe == "pi" || starting
}

/// Returns which of the two a process is. A process whose program file cannot be read is recognised by
/// its title, which proves nothing: see [`is_own_program`].
pub(in crate::adapters) fn kind_of(process: &Process) -> Option<Kind> {
    let Some(exe) = process.exe.as_deref() else { return is_titled(process).then_some(Kind::Pi) };
    let name = exe.file_name()?.to_string_lossy();
    let name = name.as_ref();
    if RUNTIMES.contains(&name) {
        // Node under another name (`exec -a pi node`, a link `pi`) has neither Pi's title nor its
        // script.
        return (is_titled(process) || runs_script(process)).then_some(Kind::Pi);
    }
    if name != "pi" {
        return None;
    }
    // Pi is also published as one file with its runtime inside; its package is beside it.
    Some(if is_packaged(exe) { Kind::Pi } else { Kind::PiRust })
}

/// Says whether a process is the program of this kind, by its program file.
pub(in crate::adapters) fn is_own_program(process: &Process, kind: Kind) -> bool {
    process.exe.is_some() && kind_of(process) == Some(kind)
}

/// Returns the pids of the native programs called `pi` that only wait for the Pi they have started. An
/// agent that runs as a tool has a kernel session of its own.
pub(super) fn launchers(look: &Look) -> HashSet<u32> {
    let agents = look.table.processes.iter().filter(|process| kind_of(process).is_some());
    crate::adapters::launchers::launchers(look, agents, &|above, agent, _| {
        above.session == agent.session
            && above.exe != agent.exe
            && kind_of(above) == Some(Kind::PiRust)
    })
}

/// Says whether a process has Pi's title: Pi overwrites its arguments by it, padded to their length
/// with spaces or nothing, and gives the kernel the same name.
fn is_titled(process: &Process) -> bool {
    let mut words = process.argv.iter();
    process.comm == "pi"
        && words.next().is_some_and(|title| title.trim_end() == "pi")
        && words.all(|w| w.trim().is_empty())
}

/// Says whether a process is Pi's script before its first own line: it has no title yet, and has read
/// no session.
pub(super) fn is_starting(process: &Process) -> bool {
    process.comm != "pi" && runs_script(process)
}

/// Says whether a starting process will manage packages or print something, and serve no session. Pi
/// accepts these words only as the first argument; once it has its title they cannot be read any more.
pub(super) fn is_package_command(process: &Process) -> bool {
    const COMMANDS: [&str; 6] = ["install", "remove", "uninstall", "update", "list", "config"];
    const PRINTS: [&str; 6] = ["--help", "-h", "--version", "-v", "--list-models", "--export"];
    let mut words = process.argv.iter().skip(1).skip_while(|word| word.starts_with('-')).skip(1);
    let Some(first) = words.next() else { return false };
    COMMANDS.contains(&first.as_str())
        || std::iter::once(first).chain(words).any(|word| PRINTS.contains(&word.as_str()))
}

/// Says whether the script that a runtime executes is in one of Pi's packages.
fn runs_script(process: &Process) -> bool {
    let Some(script) = process.argv.iter().skip(1).find(|word| !word.starts_with('-')) else {
        return false;
    };
    let script = process.cwd.as_deref().unwrap_or(Path::new("/")).join(script);
    // Node runs many programs: only scripts with such a name are worth reading the files around them.
    let called = script.file_name().is_some_and(|name| name == "pi")
        || script.to_string_lossy().contains("pi-coding-agent");
    called && is_packaged(&script)
}

fn is_packaged(program: &Path) -> bool {
    PACKAGES.iter().any(|package| version_beside(program, package).is_some())
}

/// Returns the programs called `pi` on the user's PATH, in order.
pub(in crate::adapters) fn programs(host: &Host) -> impl Iterator<Item = PathBuf> + '_ {
    host.programs("pi")
}

/// Resolves `~` as Pi does in its own variables.
fn expanded(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if path == "~" => home.to_owned(),
        None => PathBuf::from(path),
    }
}

/// Returns the home that a Pi started with this environment would use.
pub(in crate::adapters) fn home(host: &Host) -> PathBuf {
    match VARIABLES.get(host, "PI_CODING_AGENT_DIR") {
        Some(moved) => expanded(moved, &host.home),
        None => host.home.join(".pi/agent"),
    }
}

/// Returns the paths of the homes that both programs share, existing or not.
pub(in crate::adapters) fn homes(host: &Host) -> Vec<PathBuf> {
    let mut paths = vec![host.home.join(".pi/agent"), home(host)];
    for kind in [Kind::Pi, Kind::PiRust] {
        paths.extend(host.roots.get(kind.name()).cloned().unwrap_or_default());
    }
    paths
}

/// Returns the home that a process of either program uses.
pub(in crate::adapters) fn home_of(look: &Look, process: &Process) -> Option<PathBuf> {
    Surroundings::of(look, process)?.home
}

/// Returns the existing homes of both programs.
pub(in crate::adapters) fn roots(look: &Look) -> Vec<Root> {
    let known = homes(&look.host);
    let launchers = launchers(look);
    let living = |process: &Process| {
        let home = home_of(look, process).filter(|_| !launchers.contains(&process.id.pid))?;
        // Another program may be called `pi`: without an existing home it is ignored.
        (kind_of(process) == Some(Kind::Pi) || home.is_dir()).then_some(home)
    };
    with_homes_of_the_living(look, existing_roots(known.clone()), &known, &living)
}

/// The environment of a process, as far as it decides the place of its sessions.
pub(super) struct Surroundings {
    /// Its home; `None` if its environment cannot be read, so that it may be any.
    home: Option<PathBuf>,
    /// The directory of its sessions, if it was moved out of the home.
    pub(super) sessions: Option<PathBuf>,
    /// The session of the Pi that started it, if any: an inherited value does not name its own session.
    pub(super) inherited: Option<String>,
}

impl Surroundings {
    pub(super) fn of(look: &Look, process: &Process) -> Option<Self> {
        let moved = sessions_variable(kind_of(process)?);
        let names = ["PI_CODING_AGENT_DIR", "HOME", moved, "PI_SESSION_ID"];
        let Ok(values) = look.environ(process, &names) else {
            // A live agent must not be ignored because its environment is unreadable.
            let hidden = Self { home: None, sessions: None, inherited: None };
            return (!look.has_ended(process)).then_some(hidden);
        };
        let [directory, home, sessions, inherited] = <[_; 4]>::try_from(values).ok()?;
        let user = home.map_or_else(|| look.host.home.clone(), PathBuf::from);
        let said = |text: Option<String>| text.filter(|t| !t.is_empty());
        // Pi resolves a relative path from its working directory, and stays in that directory.
        let placed = |text: String| {
            let path = expanded(&text, &user);
            look.home(&if path.is_absolute() { path } else { process.cwd.as_ref()?.join(path) })
        };
        Some(Self {
            home: said(directory).map_or_else(|| look.home(&user.join(".pi/agent")), placed),
            sessions: said(sessions).and_then(placed),
            inherited,
        })
    }

    /// Says whether sessions of this process are, or may be, in this home.
    pub(super) fn belongs_to(&self, root: &Root) -> bool {
        self.home.as_ref().is_none_or(|home| *home == root.path())
    }
}

/// Returns the variable that moves the sessions of one of the two.
fn sessions_variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Pi => "PI_CODING_AGENT_SESSION_DIR",
        Kind::PiRust => "PI_SESSIONS_DIR",
    }
}

/// Returns the directories that may hold sessions of a home.
pub(super) fn session_directories(look: &Look, root: &Root) -> Vec<PathBuf> {
    let mut found = directories_of(&look.host, root);
    for process in &look.table.processes {
        let Some(surroundings) = Surroundings::of(look, process) else { continue };
        if surroundings.belongs_to(root) {
            found.extend(surroundings.sessions);
        }
    }
    distinct(found)
}

/// Returns the same directories, as far as they are known without looking at processes.
pub(in crate::adapters) fn directories_of(host: &Host, root: &Root) -> Vec<PathBuf> {
    let mut found = vec![root.path().join("sessions")];
    if file::resolve_root(&home(host)) == root.path() {
        for kind in [Kind::Pi, Kind::PiRust] {
            let moved = VARIABLES.get(host, sessions_variable(kind));
            found.extend(moved.map(|moved| expanded(moved, &host.home)));
        }
    }
    // A relative directory depends on where Pi was started; such sessions are found while it lives.
    let settings = file::read_small(&root.path().join("settings.json"), host.kernel.uid(), 1 << 20);
    let settings: Option<serde_json::Value> =
        settings.ok().and_then(|text| serde_json::from_slice(&text).ok());
    let moved = settings.as_ref().and_then(|s| s["sessionDir"].as_str());
    found.extend(moved.map(|moved| expanded(moved, &host.home)));
    distinct(found)
}

fn distinct(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().filter(|p| p.is_absolute()) {
        let path = match real_path(&path) {
            Ok(real) => real,
            Err(Unresolved::Refused(_)) => path,
            Err(Unresolved::TooLong) => continue,
        };
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}
