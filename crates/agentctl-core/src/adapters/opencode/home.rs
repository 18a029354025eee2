//! The homes of OpenCode, of the user and of each live process; and the role of a process.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{NAME, VARIABLES};
use crate::adapters::{Adapter, Look, Root, existing_roots, with_homes_of_the_living};
use crate::host::Host;
use crate::kernel::Process;
use crate::native::file;

/// The name of its default database.
const DATABASE: &str = "opencode.db";

/// The data folder and the database of one OpenCode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// The folder of all its data.
    pub(super) data: PathBuf,
    /// The path that names it in answers: the folder, or the database if that is another one.
    pub(super) root: PathBuf,
}

impl Home {
    fn new(data: PathBuf, database: Option<&str>) -> Self {
        let named = database.filter(|name| !name.is_empty() && *name != ":memory:");
        // Joining an absolute path replaces the folder.
        let database =
            named.map(|name| data.join(name)).filter(|path| *path != data.join(DATABASE));
        let root = file::resolve_root(&database.unwrap_or_else(|| data.clone()));
        Self { data, root }
    }

    /// Returns the home that an OpenCode started with this environment would use.
    pub(super) fn usual(host: &Host) -> Self {
        let data = host.xdg("XDG_DATA_HOME", ".local/share").join("opencode");
        Self::new(data, VARIABLES.get(host, "OPENCODE_DB"))
    }

    /// Returns the home a live process uses, from its environment and its open database.
    pub(super) fn of(look: &Look, process: &Process) -> Uses {
        let names = ["OPENCODE_DB", "XDG_DATA_HOME", "HOME", "BUN_BE_BUN"];
        let Ok(values) = look.environ(process, &names) else {
            return Uses::Unknown(Self::assumed(look, process));
        };
        let [database, data, home, bun] = values.as_slice() else {
            return Uses::Unknown(Self::assumed(look, process));
        };
        // OpenCode installs its plugins with the runtime in its own program file.
        if bun.is_some() {
            return Uses::None;
        }
        let data = match data.as_deref().filter(|d| !d.is_empty()).map(Path::new) {
            Some(data) if data.is_absolute() => Some(data.join("opencode")),
            Some(data) => relative(look, process, &data.join("opencode")),
            None => home.as_deref().map(|home| Path::new(home).join(".local/share/opencode")),
        };
        // A folder or a database whose path cannot be resolved counts as unknown.
        let names = |path: &Path| look.home(path).is_some();
        let is_reachable = |data: &PathBuf| {
            names(data) && database.as_deref().is_none_or(|name| names(&data.join(name)))
        };
        let Some(data) = data.filter(is_reachable) else {
            return Uses::Unknown(Self::assumed(look, process));
        };
        if database.is_none() {
            let uid = look.host.kernel.uid();
            let other = channels(&data, uid).into_iter().find(|path| has_open(look, process, path));
            if let Some(root) = other {
                return Uses::Known(Self { data, root: file::resolve_root(&root) });
            }
        }
        Uses::Known(Self::new(data, database.as_deref()))
    }

    /// Returns the home in which a process is shown whose environment does not name one: the home of
    /// the database it has open, otherwise the default one.
    fn assumed(look: &Look, process: &Process) -> Self {
        let opened = open_databases(look, process);
        let named = opened.first().and_then(|path| Some((path.parent()?, path.file_name()?)));
        match named {
            Some((data, name)) => Self::new(data.to_owned(), name.to_str()),
            None => Self::usual(&look.host),
        }
    }
}

/// The home that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    /// None: it is not an agent.
    None,
    /// This one: its environment names it.
    Known(Home),
    /// Its environment cannot be read or does not name one. The process is shown in this home, is not
    /// proved to use it, and may serve any session of it.
    Unknown(Home),
}

impl Uses {
    /// Returns the home that the environment of the process names.
    pub(super) fn known(self) -> Option<Home> {
        match self {
            Self::Known(home) => Some(home),
            Self::None | Self::Unknown(_) => None,
        }
    }

    /// Returns the home in which the process is shown.
    pub(super) fn shown(self) -> Option<Home> {
        match self {
            Self::Known(home) | Self::Unknown(home) => Some(home),
            Self::None => None,
        }
    }
}

/// Returns the databases of OpenCode that a process has open.
pub(super) fn open_databases(look: &Look, process: &Process) -> Vec<PathBuf> {
    let is_database = |path: &Path| {
        path.extension().is_some_and(|kind| kind == "db")
            && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("opencode"))
    };
    let opened = look.host.kernel.open_files(&process.id, &is_database).unwrap_or_default();
    opened.into_iter().map(|file| file.path).collect()
}

/// Resolves a relative data folder like the process did: below its working directory at the time when
/// it opened its log or its database, which may have changed since.
fn relative(look: &Look, process: &Process, data: &Path) -> Option<PathBuf> {
    let is_inside = |path: &Path| {
        let folder = path.ancestors().skip(1).take(2).find(|folder| folder.ends_with(data));
        folder.map(Path::to_owned)
    };
    let opened = look.host.kernel.open_files(&process.id, &|path| is_inside(path).is_some());
    let folder = opened.ok().and_then(|files| files.iter().find_map(|file| is_inside(&file.path)));
    folder.or_else(|| Some(process.cwd.as_ref()?.join(data)))
}

/// Returns the databases of release channels: `opencode-<channel>.db`.
fn channels(data: &Path, uid: u32) -> Vec<PathBuf> {
    let is_channel =
        |name: &str| name.strip_suffix(".db").is_some_and(|n| n.starts_with("opencode-"));
    let entries = file::list_wanted(data, uid, &is_channel).unwrap_or_default();
    entries.into_iter().map(|entry| entry.path).collect()
}

/// Says whether a process has a file open.
pub(super) fn has_open(look: &Look, process: &Process, path: &Path) -> bool {
    let kernel = &look.host.kernel;
    let Ok(opened) = file::open(path, kernel.uid()) else { return false };
    let (device, inode) = opened.identity;
    kernel.has_open(process.id.pid, device, inode).unwrap_or(false)
}

/// Returns the database of a home.
pub(super) fn database(root: &Path) -> PathBuf {
    if root.is_dir() { root.join(DATABASE) } else { root.to_owned() }
}

/// Says whether a folder has a database of any channel: then its old files are ignored.
pub(super) fn has_database(root: &Path, uid: u32) -> bool {
    database(root).exists() || !channels(root, uid).is_empty()
}

/// Returns the paths of its homes, existing or not.
pub(super) fn homes(host: &Host) -> Vec<PathBuf> {
    let configured = host.roots.get(NAME).cloned().unwrap_or_default();
    std::iter::once(Home::usual(host).data).chain(configured).collect()
}

/// Returns every home: the default one, configured ones, and homes that live processes use.
pub(super) fn roots(adapter: &dyn Adapter, look: &Look) -> Vec<Root> {
    let host = &look.host;
    let usual = Home::usual(host);
    let (named, folders): (Vec<_>, Vec<_>) = homes(host).into_iter().partition(|p| p.is_file());
    let mut roots = existing_roots(folders);
    let uid = host.kernel.uid();
    let beside: Vec<PathBuf> = roots.iter().flat_map(|r| channels(r.path(), uid)).collect();
    let chosen = Some(usual.root).filter(|root| root.is_file());
    for path in named.into_iter().chain(beside).chain(chosen) {
        let root = Root::known(file::resolve_root(&path));
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    let chosen = Home::usual(host).root;
    let known: Vec<PathBuf> = homes(host).into_iter().chain([chosen]).collect();
    let home_of = |process: &Process| {
        let uses_home = !matches!(Role::of(process), Role::Other | Role::Client);
        if !uses_home || !adapter.is_own_program(look, process) {
            return None;
        }
        Home::of(look, process).shown().map(|home| home.root)
    };
    with_homes_of_the_living(look, roots, &known, &home_of)
}

/// Says whether a program of this name is the agent: npm installs it as `opencode.exe`, before 1.18 as
/// `.opencode` behind a wrapper; a wrapped package of Nix is `.opencode-wrapped`; the names of releases contain the
/// platform.
pub(super) fn is_its_name(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let rest = name.strip_prefix("opencode");
    rest.is_some_and(|rest| {
        matches!(rest, "" | ".exe" | "-cli" | "-wrapped")
            || rest.starts_with("-linux")
            || rest.starts_with("-darwin")
    })
}

/// Says whether a candidate is the agent itself, by its program file. A link or an argument with its
/// name is no proof.
pub(super) fn is_opencode(process: &Process) -> bool {
    let name = process.exe.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.is_some_and(is_its_name)
}

/// Returns the pids of programs with the agent's name and another program file that have started the
/// agent: their child or, in the same kernel session, a process further down. A launcher only waits if
/// it has not opened the database itself.
pub(super) fn launchers(look: &Look) -> HashSet<u32> {
    let agents = look.table.processes.iter().filter(|process| is_opencode(process));
    crate::adapters::launchers::launchers(look, agents, &|above, agent, steps| {
        is_opencode(above)
            && above.exe != agent.exe
            && (steps == 1 || above.session == agent.session)
    })
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// `opencode run`: one prompt, one session.
    Run,
    /// The terminal program.
    Terminal,
    /// `serve`, `web`, `acp`: sessions of its clients.
    Server,
    /// Its session runs in a server process.
    Client,
    /// One-shot helpers.
    Other,
}

#[rustfmt::skip]
const OTHERS: [&str; 21] = [
    "completion", "mcp", "debug", "providers", "auth", "agent", "upgrade", "uninstall", "models",
    "stats", "export", "import", "github", "pr", "session", "plugin", "plug", "db", "account",
    "console", "generate",
];

#[rustfmt::skip]
const WITH_VALUE: [&str; 25] = [
    "--log-level", "-s", "--session", "-m", "--model", "--agent", "--prompt", "--port", "--hostname",
    "--mdns-domain", "--cors", "--command", "--format", "-f", "--file", "--title", "--attach", "-p",
    "--password", "-u", "--username", "--dir", "--variant", "--cwd", "--replay-limit",
];

impl Role {
    pub(super) fn of(process: &Process) -> Self {
        let flagged = |flags: &[&str]| process.argv.iter().any(|a| flags.contains(&a.as_str()));
        if flagged(&["--version", "-v", "--help", "-h"]) {
            return Self::Other;
        }
        match command(process) {
            Some("run") if option(process, &["--attach"]).is_some() => Self::Client,
            // It stays for further prompts.
            Some("run") if flagged(&["-i", "--interactive"]) => Self::Terminal,
            Some("run") => Self::Run,
            Some("serve" | "web" | "acp") => Self::Server,
            Some("attach") => Self::Client,
            Some(word) if OTHERS.contains(&word) => Self::Other,
            // Any other word is the folder it works in.
            _ => Self::Terminal,
        }
    }
}

/// Returns the first word that is neither an option nor an option's value.
fn command(process: &Process) -> Option<&str> {
    let mut words = process.argv.iter().skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Returns the value of an option among the words before `--`.
fn option<'a>(process: &'a Process, names: &[&str]) -> Option<&'a str> {
    let words = process.argv.iter().skip(1).take_while(|word| *word != "--");
    let words: Vec<&String> = words.collect();
    words.iter().enumerate().find_map(|(at, word)| {
        if names.contains(&word.as_str()) {
            return words.get(at + 1).map(|value| value.as_str());
        }
        let (name, value) = word.split_once('=')?;
        names.contains(&name).then_some(value)
    })
}

/// Returns the session that the arguments of a process name, if it does not fork it.
pub(super) fn told_session(process: &Process) -> Option<&str> {
    let forks = process.argv.iter().any(|a| a == "--fork" || a == "--fork=true");
    let id = option(process, &["-s", "--session"]).filter(|_| !forks)?;
    (id.starts_with("ses") && crate::model::is_session_id(id)).then_some(id)
}

/// Says whether a process was told to continue the last session, without its id.
pub(super) fn continues_some(process: &Process) -> bool {
    process.argv.iter().any(|a| a == "-c" || a == "--continue")
}
