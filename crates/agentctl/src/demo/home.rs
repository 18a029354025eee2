//! The demo agent's own files: its live record and its conversations.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentctl_core::adapters::demo::{LEAVING_COMM, Line, Live};
use agentctl_core::host::Host;
use agentctl_core::kernel::Kernel;

/// The agent's home directory.
pub(super) struct Home {
    root: PathBuf,
}

impl Home {
    /// Opens it, creates it if it is missing, readable by its owner only.
    pub(super) fn open(host: &Host) -> io::Result<Self> {
        let root = agentctl_core::adapters::demo::home(host);
        for dir in ["live", "sessions"] {
            DirBuilder::new().recursive(true).mode(0o700).create(root.join(dir))?;
        }
        Ok(Self { root })
    }

    pub(super) fn conversation(&self, id: &str) -> PathBuf {
        self.root.join("sessions").join(format!("{id}.jsonl"))
    }

    pub(super) fn socket(&self, pid: u32) -> PathBuf {
        self.root.join("live").join(format!("{pid}.sock"))
    }

    fn live(&self, pid: u32) -> PathBuf {
        self.root.join("live").join(format!("{pid}.json"))
    }

    /// Replaces the live record atomically: readers see the old one or the new one.
    pub(super) fn write_live(&self, pid: u32, live: &Live) -> io::Result<()> {
        let temporary = self.root.join("live").join(format!(".{pid}.tmp"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        serde_json::to_writer(&mut file, live)?;
        drop(file);
        std::fs::rename(temporary, self.live(pid))
    }

    /// Removes the files of this process at its end. Its name says before that it ends: a process without a record
    /// would look like an agent that starts.
    pub(super) fn leave(&self) {
        // Without /proc the process keeps its name.
        let _named = std::fs::write("/proc/self/comm", LEAVING_COMM);
        self.remove_live(std::process::id());
    }

    /// Removes the live record and the socket; a clean exit leaves neither.
    pub(super) fn remove_live(&self, pid: u32) {
        for path in [self.live(pid), self.socket(pid)] {
            // A missing file is no error.
            let _gone = std::fs::remove_file(path);
        }
    }

    /// Returns the live processes and the sessions they serve.
    pub(super) fn served(&self, kernel: &Kernel) -> Vec<(u32, String)> {
        let entries = std::fs::read_dir(self.root.join("live")).into_iter().flatten().flatten();
        let served = entries.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok()?;
            let live: Live = serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok()?;
            let process = kernel.process(pid).ok()??;
            (live.start_ticks == process.id.start_ticks).then_some((pid, live.session))
        });
        served.collect()
    }
}

/// An append-only conversation file.
pub(super) struct Conversation {
    file: File,
}

impl Conversation {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file })
    }

    pub(super) fn reopen(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).open(path)? })
    }

    /// Appends one line in one write.
    pub(super) fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }
}
