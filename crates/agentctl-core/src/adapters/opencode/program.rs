//! Whether a process that bears OpenCode's name is OpenCode, and what is said of it until that is known.
//!
//! A copy of a shell called `opencode` and a native wrapper that has not started its agent yet bear the
//! name, too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::NAME;
use super::home::{Home, Role, is_opencode};
use crate::adapters::{Look, Served, State, version_beside};
use crate::kernel::Process;
use crate::model::{Reason, ReasonKind, Status};
use crate::native::file;

/// The most sections of a program file that are looked through.
const MOST_SECTIONS: usize = 256;
/// The most bytes of section names, and of the head of a macOS program, that are looked through.
const MOST_NAMES: usize = 1 << 15;

/// Says whether a process is OpenCode: a program file of its name which holds a Bun program or lies in
/// its package, or which has opened a log or a database of OpenCode.
pub(super) fn is_own(look: &Look, process: &Process) -> bool {
    if !is_opencode(process) {
        return false;
    }
    let program = look.host.kernel.program_file(&process.id);
    program.is_ok_and(|program| holds_bun_program(&program))
        || has_opened_home(look, process)
        || process.exe.as_deref().is_some_and(|exe| version_beside(exe, "opencode-ai").is_some())
}

/// Says whether a process has a database or a log of OpenCode open, of whichever home.
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

/// Says whether a program file holds a program that `bun build --compile` made, as every release of
/// OpenCode does: as the section `.bun` (ELF), the segment `__BUN` (Mach-O), or, before Bun 1.3, appended.
fn holds_bun_program(program: &File) -> bool {
    let Ok(size) = program.metadata().map(|meta| meta.len()) else { return false };
    let contains = |bytes: &[u8], word: &[u8]| memchr::memmem::find(bytes, word).is_some();
    let end = read_up_to(program, size.saturating_sub(64), 64);
    if contains(&end, b"---- Bun! ----") {
        return true;
    }
    let head = read_up_to(program, 0, 64);
    if head.starts_with(b"\x7fELF\x02\x01") {
        return has_section(program, &head, b".bun\0").unwrap_or(false);
    }
    head.starts_with(b"\xcf\xfa\xed\xfe")
        && contains(&read_up_to(program, 0, MOST_NAMES), b"__BUN\0")
}

/// Says whether a 64-bit ELF file has a section of this name, which ends with a zero.
fn has_section(program: &File, head: &[u8], name: &[u8]) -> Option<bool> {
    let number =
        |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(*head.get(at..)?.first_chunk()?)));
    let (size, count, names) = (short(0x3a)?, short(0x3c)?, short(0x3e)?);
    if size < 0x40 || count > MOST_SECTIONS {
        return None;
    }
    let table = read_up_to(program, number(head, 0x28)?, size * count);
    let sections: Vec<&[u8]> = table.chunks_exact(size).collect();
    let names = sections.get(names)?;
    let length = usize::try_from(number(names, 0x20)?).ok()?.min(MOST_NAMES);
    let names = read_up_to(program, number(names, 0x18)?, length);
    let is_called = |section: &&[u8]| {
        let at = section.first_chunk().map(|at| u32::from_le_bytes(*at));
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| names.get(at..)).is_some_and(|found| found.starts_with(name))
    };
    Some(sections.iter().any(is_called))
}

/// Reads these bytes of a file, or as many of them as there are.
fn read_up_to(program: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let at = offset.saturating_add(filled as u64);
        match program.read_at(&mut bytes[filled..], at) {
            Ok(count) if count > 0 => filled += count,
            _ => break,
        }
    }
    bytes.truncate(filled);
    bytes
}

/// The row of a process that bears OpenCode's name and is not proved to be OpenCode. It casts no doubt on
/// any session: it may be a wrapper whose agent has ended, or another program altogether.
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

/// Returns why what this process keeps cannot be seen from here, where that is so: then it is not known
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
