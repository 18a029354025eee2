//! Whether a process uses a file below some directory: as its root, or one that it has open or mapped into its memory.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::descriptors::descriptors;
use super::{Kernel, gone_is_none, open_at, open_process_directory, read_link_at};
use crate::kernel::deadline;
use crate::model::ProcId;

/// Most bytes of the list of mapped files that are read; a process with more is an error.
const MAX_MAPS_BYTES: u64 = 64 << 20;
/// The number of fields before the path in a row of that list.
const FIELDS_BEFORE_PATH: usize = 5;

impl Kernel {
    /// Says whether the root of a process, or a file that it has open or mapped, has a path that is `wanted`; no for a
    /// process that has ended. Fails if not all of its files can be seen, and when the deadline of this thread has passed.
    pub fn uses_file(&self, id: &ProcId, wanted: &dyn Fn(&Path) -> bool) -> io::Result<bool> {
        let used = uses(id.pid, wanted);
        // The files are those of this process only if it is still there.
        if self.still(id).is_err() { Ok(false) } else { used }
    }
}

fn uses(pid: u32, wanted: &dyn Fn(&Path) -> bool) -> io::Result<bool> {
    let directory = open_process_directory(pid)?;
    if gone_is_none(read_link_at(&directory, "root"))?.is_some_and(|path| wanted(&path)) {
        return Ok(true);
    }
    let descriptors = descriptors(&directory)?;
    for entry in rustix::fs::Dir::read_from(&descriptors)? {
        deadline::check()?;
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        if gone_is_none(read_link_at(&descriptors, &name))?.is_some_and(|path| wanted(&path)) {
            return Ok(true);
        }
    }
    let mut maps = BufReader::new(open_at(directory.as_fd(), "maps")?.take(MAX_MAPS_BYTES));
    let mut row = Vec::new();
    while maps.read_until(b'\n', &mut row)? > 0 {
        deadline::check()?;
        if mapped_path(&row).is_some_and(|path| wanted(Path::new(OsStr::from_bytes(&path)))) {
            return Ok(true);
        }
        row.clear();
    }
    if maps.into_inner().limit() == 0 {
        return Err(io::Error::other("its list of mapped files is too long"));
    }
    Ok(false)
}

/// Returns the path in a row of `/proc/PID/maps`, in which the kernel writes a line end as `\012`.
fn mapped_path(row: &[u8]) -> Option<Vec<u8>> {
    let row = row.strip_suffix(b"\n").unwrap_or(row);
    let mut rest = row;
    for _ in 0..FIELDS_BEFORE_PATH {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = rest[end..].trim_ascii_start();
    }
    let path = rest.strip_suffix(b" (deleted)").unwrap_or(rest);
    if !path.starts_with(b"/") {
        return None;
    }
    let mut plain = Vec::new();
    let mut left = path;
    while let Some(at) = left.windows(4).position(|four| four == br"\012") {
        plain.extend_from_slice(&left[..at]);
        plain.push(b'\n');
        left = &left[at + 4..];
    }
    plain.extend_from_slice(left);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::mapped_path;

    #[test]
    fn the_path_of_a_mapped_file_is_read_with_its_spaces_and_line_ends() {
        let row = |path: &str| {
            let row = format!("7f00-7f10 r--p 00000000 fe:00 1234      {path}\n");
            mapped_path(row.as_bytes()).map(|path| String::from_utf8(path).expect("UTF-8"))
        };
        assert_eq!(row("/w/a b.so").as_deref(), Some("/w/a b.so"));
        assert_eq!(row("/w/a.so (deleted)").as_deref(), Some("/w/a.so"));
        assert_eq!(row(r"/w/a\012b").as_deref(), Some("/w/a\nb"));
        assert_eq!(row("[heap]"), None);
        assert_eq!(mapped_path(b"7f00-7f10 rw-p 00000000 00:00 0 \n"), None);
    }
}
