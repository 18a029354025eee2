//! A text that a process holds for other processes of its user: a sealed memory file that is one of its open
//! descriptors. The seals keep it as it is, and it ends with the process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, openat};

use super::descriptors::{descriptors, names};
use super::{Kernel, gone_is_none, open_process_directory, read_link_at};
use crate::model::ProcId;

/// The seals of a held text: neither its content nor its length nor its seals can be changed.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// Puts a text into a sealed memory file of this name. Other processes read it as long as the descriptor is
/// open.
pub fn hold_text(name: &str, text: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.write_all(text)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

impl Kernel {
    /// Returns the text that a process holds under this name; `None` if it holds none, or one that is longer
    /// than `most` bytes, or that is not sealed.
    pub fn held_text(&self, id: &ProcId, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let directory = open_process_directory(id.pid)?;
        let descriptors = descriptors(&directory)?;
        let wanted = format!("/memfd:{name}");
        let mut found = None;
        for number in names(&descriptors)? {
            let Some(link) = gone_is_none(read_link_at(&descriptors, &number))? else { continue };
            if link.as_os_str() != wanted.as_str() {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let opened = openat(&descriptors, number.as_str(), flags, Mode::empty());
            let Some(file) = gone_is_none(opened.map_err(io::Error::from))? else { continue };
            // A file of that name on a disk has no seals.
            if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS)) {
                continue;
            }
            let mut text = Vec::new();
            File::from(file).take(most.saturating_add(1)).read_to_end(&mut text)?;
            found = (text.len() as u64 <= most).then_some(text);
            break;
        }
        self.still(id)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    #[test]
    fn a_held_text_is_read_whole_and_only_if_it_is_sealed() {
        let kernel = Kernel::open().expect("a kernel");
        let me = kernel.process(std::process::id()).expect("readable").expect("alive").id;
        let read = |name: &str, most| kernel.held_text(&me, name, most).expect("readable");
        assert_eq!(read("agentctl-test-held", 100), None);
        let held = hold_text("agentctl-test-held", b"what is asked").expect("held");
        assert_eq!(read("agentctl-test-held", 100).as_deref(), Some(&b"what is asked"[..]));
        assert_eq!(read("agentctl-test-held", 3), None, "longer than allowed");
        let mut file = File::from(held);
        file.rewind().expect("rewound");
        assert!(file.write_all(b"another").is_err(), "nobody changes it");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let open = rustix::fs::memfd_create("agentctl-test-open", flags).expect("made");
        assert_eq!(read("agentctl-test-open", 100), None, "it could still change");
        drop(open);
    }
}
