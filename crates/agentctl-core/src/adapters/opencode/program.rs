//! Decides whether a process with OpenCode's name is OpenCode, and makes the row of one that is not
//! proved.
//!
//! A copy of a shell called `opencode` and a native wrapper that has not started its agent yet have the
//! name, too.

use std::path::Path;

use super::NAME;
use super::home::{Home, Role, is_opencode};
use crate::adapters::{Look, Served, State, version_beside};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Status};
use crate::native::{bun, file};

/// Says whether a process is OpenCode: its program file has the name, and contains a Bun program or is
/// in the package, or the process has opened a log or a database of OpenCode.
pub(super) fn is_own(look: &Look, process: &Process) -> bool {
    if !is_opencode(process) {
        return false;
    }
    let program = look.host.kernel.program_file(&process.id);
    program.is_ok_and(|program| bun::holds_program(&program))
        || has_opened_home(look, process)
        || process.exe.as_deref().is_some_and(|exe| version_beside(exe, "opencode-ai").is_some())
}

/// Says whether a process has a database or a log of OpenCode open, of any home.
fn has_opened_home(look: &Look, process: &Process) -> bool {
    let is_log = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("opencode/log"));
    let is_its_file = |path: &Path| is_database(path) || is_log(path);
    let opened = look.host.kernel.open_files(&process.id, &is_its_file);
    opened.is_ok_and(|files| !files.is_empty())
}

fn is_database(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "db")
        && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("opencode"))
}

/// Makes the row of a process that has OpenCode's name and is not proved to be OpenCode. It makes no
/// session doubtful: it may be a wrapper whose agent has ended, or another program.
pub(super) fn namesake(look: &Look, process: &Process, home: &Home) -> Option<Served> {
    if Role::of(process) == Role::Server {
        return None;
    }
    let exe = process.exe.as_deref().unwrap_or(Path::new(NAME)).display();
    let why = format!(
        "nothing proves that {exe} is OpenCode: it holds no Bun program, lies in no package of \
         OpenCode, and has opened neither a log nor a database of OpenCode"
    );
    let mut served = Served::by(None, process);
    let says = format!("pid {} bears the name of OpenCode", process.id.pid);
    served.evidence.push(look.evidence("kernel:program file", says));
    let reason = unseen_home(look, process, home);
    let reason = reason.unwrap_or_else(|| Reason::with(ReasonKind::Ambiguous, why));
    served.state = Some(State { status: Status::Unknown, reason: Some(reason) });
    Some(served)
}

/// Returns why the files of this process cannot be seen from here, if that is so: then it is not known
/// to be starting.
pub(super) fn unseen_home(look: &Look, process: &Process, home: &Home) -> Option<Reason> {
    let kernel = &look.host.kernel;
    if matches!(kernel.shares_mounts(&process.id), Ok(false)) {
        let why =
            "it has mounts of its own, and its data folder is another one than that seen here";
        return Some(Reason::with(ReasonKind::Elsewhere, why));
    }
    let opened = kernel.open_files(&process.id, &is_database).unwrap_or_default();
    if let Some(other) = opened.first() {
        let why = format!("it has another database open, {}", other.path.display());
        return Some(Reason::with(ReasonKind::Elsewhere, why));
    }
    let refusal = file::refuses_writing(&home.data)?;
    let why = format!("it cannot write to its data folder: {refusal}");
    Some(Reason::with(ReasonKind::Unreadable, why))
}
