//! The home of a Claude Code process, found by the same rules as Claude Code uses.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::adapters::Look;
use crate::kernel::Process;

/// Largest `/etc/passwd` that is read.
const PASSWD_BYTES: u64 = 1 << 20;

/// Returns the home a live process uses, from its environment and directory.
pub(super) fn home_of(look: &Look, process: &Process) -> Option<PathBuf> {
    let named = named(look, process)?;
    if named.home.is_absolute() {
        return look.home(&named.home);
    }
    // Claude Code resolves a relative home, also an empty one, from its working directory.
    let record = Path::new("sessions").join(format!("{}.json", process.id.pid));
    let began_in = named.pwd.filter(|pwd| pwd.is_absolute());
    let directories: Vec<&PathBuf> = process.cwd.iter().chain(began_in.iter()).collect();
    let homes: Vec<PathBuf> =
        directories.into_iter().filter_map(|d| look.home(&d.join(&named.home))).collect();
    let recorded = homes.iter().find(|home| home.join(&record).exists());
    recorded.or(homes.first()).cloned()
}

/// Says whether the home of a process depends on its directory.
pub(super) fn is_relative(look: &Look, process: &Process) -> bool {
    named(look, process).is_some_and(|named| !named.home.is_absolute())
}

struct Named {
    home: PathBuf,
    pwd: Option<PathBuf>,
}

fn named(look: &Look, process: &Process) -> Option<Named> {
    let names = ["CLAUDE_CONFIG_DIR", "HOME", "PWD"];
    let values = look.environ(process, &names).ok()?;
    let [moved, home, pwd] = values.as_slice() else { return None };
    let usual = || match home {
        Some(home) => Some(PathBuf::from(home)),
        None => home_of_user(process.uid?),
    };
    let home = match moved {
        Some(moved) => PathBuf::from(moved),
        None => usual()?.join(".claude"),
    };
    Some(Named { home, pwd: pwd.as_ref().map(PathBuf::from) })
}

/// Returns the home directory of a user from `/etc/passwd`, which a process without `HOME` uses.
fn home_of_user(uid: u32) -> Option<PathBuf> {
    let mut text = String::new();
    let file = std::fs::File::open("/etc/passwd").ok()?;
    file.take(PASSWD_BYTES).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let own = fields.get(2)?.parse() == Ok(uid);
        fields.get(5).filter(|_| own).map(PathBuf::from)
    })
}
