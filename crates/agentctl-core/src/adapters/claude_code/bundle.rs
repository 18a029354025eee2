//! Whether a program file is one that Bun made of a script: Claude Code's own native program is. A wrapper, a
//! shell or a script that was only given the agent's name is not.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::native::file;

/// Bun before 1.3 ends the file with this line, later ones put the script into an ELF section.
const TRAILER: &[u8] = b"---- Bun! ----";
const SECTION: &[u8] = b"\0.bun\0";
/// So far before the end of the file the trailer is looked for.
const TAIL_BYTES: u64 = 4 << 10;
/// So many bytes of the names of sections are read.
const NAMES_BYTES: u64 = 64 << 10;
const HEADER_BYTES: usize = 64;

/// Says whether a program file was made by Bun; `false` where it cannot be read.
pub(super) fn is_bundle(program: &Path) -> bool {
    let Ok((file, size)) = file::open_of_anybody(program) else { return false };
    has_trailer(&file, size).unwrap_or(false) || has_section(&file).unwrap_or(false)
}

fn has_trailer(file: &File, size: u64) -> io::Result<bool> {
    let length = size.min(TAIL_BYTES);
    let tail = read(file, size - length, length)?;
    Ok(memchr::memmem::find(&tail, TRAILER).is_some())
}

/// Looks for the section by its name in the header of a 64-bit little-endian ELF file.
fn has_section(file: &File) -> io::Result<bool> {
    let header = read(file, 0, HEADER_BYTES as u64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(false);
    }
    let (table, entry, index) = (long(&header, 0x28), short(&header, 0x3a), short(&header, 0x3e));
    let at = table.saturating_add(entry.saturating_mul(index));
    let names = read(file, at, HEADER_BYTES as u64)?;
    let (offset, length) = (long(&names, 0x18), long(&names, 0x20));
    let names = read(file, offset, length.min(NAMES_BYTES))?;
    Ok(memchr::memmem::find(&names, SECTION).is_some())
}

fn read(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
    field.map_or(0, u16::from_le_bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with nothing but the names of its sections.
    fn elf(names: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(192, 0);
        file[0x28] = 64;
        file[0x3a] = 64;
        file[0x3e] = 1;
        file[128 + 0x18] = 192;
        file[128 + 0x20] = u8::try_from(names.len()).expect("short");
        file.extend(names);
        file
    }

    #[test]
    fn a_bundle_is_told_by_its_section_or_its_trailer() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("claude");
        let is = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            is_bundle(&path)
        };
        assert!(is(&elf(b"\0.text\0.bun\0.data\0")));
        assert!(is(b"\x7fELF...\n---- Bun! ----\n\0\0\0\0\0\0\0\0"));
        assert!(!is(&elf(b"\0.text\0.bunny\0")));
        assert!(!is(b"#!/bin/sh\nexec claude\n"));
        assert!(!is(b""));
        let mut far = elf(b"\0.bun\0");
        far[0x28..0x30].fill(0xff);
        assert!(!is(&far), "its header points behind its end");
        assert!(!is_bundle(Path::new("/bin/sh")));
        assert!(!is_bundle(folder.path()));
    }
}
