//! Recognises program files that Bun built from a script, as the native programs of several agents are.
//! A wrapper, a shell or a script that only has the name of an agent is not one.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The line that ends the appended script.
const TRAILER: &[u8] = b"---- Bun! ----";
/// The distance from the end of the file within which the trailer begins.
const TAIL_BYTES: u64 = 4 << 10;
/// Most sections of a program file that are read.
const MAX_SECTIONS: usize = 256;
/// Most bytes of section names, and of the head of a macOS program, that are read.
const MAX_NAME_BYTES: usize = 1 << 15;

/// Says whether a program file contains a program that `bun build --compile` made: as the section
/// `.bun` (ELF), the segment `__BUN` (Mach-O), or, before Bun 1.3, appended. `false` if it cannot be
/// read.
#[must_use]
pub fn holds_program(program: &File) -> bool {
    let Ok(size) = program.metadata().map(|meta| meta.len()) else { return false };
    let contains = |bytes: &[u8], word: &[u8]| memchr::memmem::find(bytes, word).is_some();
    let end = read_up_to(program, size.saturating_sub(TAIL_BYTES), MAX_NAME_BYTES);
    if contains(&end, TRAILER) {
        return true;
    }
    let head = read_up_to(program, 0, 64);
    if head.starts_with(b"\x7fELF\x02\x01") {
        return has_section(program, &head, b".bun\0").unwrap_or(false);
    }
    // A 64-bit Mach-O file.
    head.starts_with(b"\xcf\xfa\xed\xfe")
        && contains(&read_up_to(program, 0, MAX_NAME_BYTES), b"__BUN\0")
}

/// Says whether a 64-bit ELF file has a section of this name, which ends with a zero.
fn has_section(program: &File, head: &[u8], name: &[u8]) -> Option<bool> {
    let number =
        |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(*head.get(at..)?.first_chunk()?)));
    let (size, count, names) = (short(0x3a)?, short(0x3c)?, short(0x3e)?);
    if size < 0x40 || count > MAX_SECTIONS {
        return None;
    }
    let table = read_up_to(program, number(head, 0x28)?, size * count);
    let sections: Vec<&[u8]> = table.chunks_exact(size).collect();
    let names = sections.get(names)?;
    let length = usize::try_from(number(names, 0x20)?).ok()?.min(MAX_NAME_BYTES);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with two sections: the names of sections, and one whose name is at this place among them.
    fn elf(names: &[u8], at: u8) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(192, 0);
        (file[0x28], file[0x3a], file[0x3c], file[0x3e]) = (64, 64, 2, 1);
        (file[64], file[128 + 0x18]) = (at, 192);
        file[128 + 0x20] = u8::try_from(names.len()).expect("short");
        file.extend(names);
        file
    }

    #[test]
    fn a_bun_program_is_recognised_by_its_section_or_its_trailer() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("claude");
        let is = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            holds_program(&File::open(&path).expect("opened"))
        };
        assert!(is(&elf(b"\0.text\0.bun\0.data\0", 7)));
        assert!(is(b"\x7fELF...\n---- Bun! ----\n\0\0\0\0\0\0\0\0"));
        assert!(!is(&elf(b"\0.text\0.bunny\0", 7)));
        assert!(!is(b"#!/bin/sh\nexec claude\n"));
        assert!(!is(b""));
        let mut far = elf(b"\0.bun\0", 1);
        far[0x28..0x30].fill(0xff);
        assert!(!is(&far), "its header points behind its end");
        assert!(!holds_program(&File::open("/bin/sh").expect("opened")));
        assert!(!holds_program(&File::open(folder.path()).expect("opened")));
    }
}
