//! The files of a context: found below the directory of the launch, read within limits, refused if they are no text.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use super::pattern::{self, Pattern};
use super::{ContextError, ContextFile, MAX_CONTEXT_BYTES, MAX_FILE_BYTES};

/// Most files that one pattern may match. Empty files cost a heading each.
const MAX_MATCHES: usize = 1_000;

/// The files of one context. A file that is named twice is read once.
pub(super) struct Files {
    cwd: PathBuf,
    /// The same directory, links resolved.
    real_cwd: PathBuf,
    seen: BTreeSet<PathBuf>,
}

impl Files {
    /// Looks for files below a directory.
    pub(super) fn below(cwd: &Path) -> Self {
        let real_cwd = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
        Self { cwd: cwd.to_owned(), real_cwd, seen: BTreeSet::new() }
    }

    /// Reads one file, also if it was read before.
    pub(super) fn one(&mut self, named: &str) -> Result<ContextFile, ContextError> {
        let (real, file) = self.read(Path::new(named))?;
        self.seen.insert(real);
        Ok(file)
    }

    /// Reads the file of this name, or every file that the pattern matches, in the order of their paths.
    pub(super) fn all(&mut self, named: &str) -> Result<Vec<ContextFile>, ContextError> {
        let literal = self.cwd.join(named).symlink_metadata().is_ok();
        if literal || !pattern::is_pattern(named) {
            let (real, file) = self.read(Path::new(named))?;
            return Ok(self.seen.insert(real).then_some(file).into_iter().collect());
        }
        let refused = |why: &str, hint| refused(named, why, hint);
        if leaves(Path::new(named)) {
            return Err(outside(named));
        }
        let pattern = Pattern::of(named);
        let found = pattern.files(&self.cwd).map_err(|why| refused(why, "narrow the pattern"))?;
        if found.is_empty() {
            let hint = "`*` matches within a directory, `**` also below it";
            return Err(refused("no file matches this pattern", hint));
        }
        if found.len() > MAX_MATCHES {
            return Err(refused("it matches more than 1,000 files", "narrow the pattern"));
        }
        let mut files = Vec::new();
        let mut bytes = 0;
        for path in found {
            let (real, file) = self.read(&path)?;
            if !self.seen.insert(real) {
                continue;
            }
            // Checked here too, so that no more than the limit is held in memory.
            bytes += file.text.len() as u64;
            if bytes > MAX_CONTEXT_BYTES {
                return Err(ContextError::TooLarge { part: file.shown });
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Reads a file. A relative name must not leave the directory, by itself or by a link.
    fn read(&self, named: &Path) -> Result<(PathBuf, ContextFile), ContextError> {
        let shown = named.to_string_lossy();
        let failed = |error: std::io::Error| refused(&shown, &error.to_string(), CHECK_NAME);
        let real = std::fs::canonicalize(self.cwd.join(named)).map_err(failed)?;
        if !named.is_absolute() && !real.starts_with(&self.real_cwd) {
            return Err(outside(&shown));
        }
        let path = real.strip_prefix(&self.real_cwd).unwrap_or(&real);
        let path = if named.is_absolute() { path } else { named };
        let text = read_text(&real).map_err(|(why, hint)| refused(&shown, &why, hint))?;
        let path: PathBuf = path.components().filter(|c| *c != Component::CurDir).collect();
        Ok((real, ContextFile { shown: path.to_string_lossy().into_owned(), text }))
    }
}

const CHECK_NAME: &str = "relative names are looked up in the directory of the agent (--cwd)";

fn refused(path: &str, why: &str, hint: &'static str) -> ContextError {
    ContextError::File { path: path.to_owned(), why: why.to_owned(), hint }
}

fn outside(path: &str) -> ContextError {
    let why = "it is outside of the directory of the agent";
    refused(path, why, "write its absolute path if that is meant")
}

/// Says whether a relative path goes up.
fn leaves(path: &Path) -> bool {
    !path.is_absolute() && path.components().any(|part| part == Component::ParentDir)
}

/// Reads a regular file that is text and not too large. Never blocks on a FIFO or a device.
fn read_text(path: &Path) -> Result<String, (String, &'static str)> {
    let failed = |error: std::io::Error| (error.to_string(), CHECK_NAME);
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let kind = file.metadata().map_err(failed)?;
    if kind.is_dir() {
        return Err(("it is a directory".into(), "name its files, for example `DIR/**/*.rs`"));
    }
    if !kind.is_file() {
        return Err(("it is not a regular file".into(), "write its content into a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let hint = "name it in the prompt instead; the agent can read it itself";
        return Err(("it is larger than 50 kB".into(), hint));
    }
    let binary = || ("it is binary, not UTF-8 text".to_owned(), "leave it out");
    let text = String::from_utf8(bytes).map_err(|_| binary())?;
    if text.contains('\0') { Err(binary()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_refused_before_more_than_the_limit_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        for number in 0..12 {
            let path = directory.path().join(format!("{number:02}.txt"));
            std::fs::write(path, "x".repeat(50_000)).expect("written");
        }
        let refused = Files::below(directory.path()).all("*.txt").err();
        assert_eq!(refused, Some(ContextError::TooLarge { part: "10.txt".into() }));
    }

    #[test]
    fn a_pattern_that_matches_too_many_files_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        for number in 0..=MAX_MATCHES {
            std::fs::write(directory.path().join(format!("{number}.txt")), "").expect("written");
        }
        let refused = Files::below(directory.path()).all("*.txt").err().expect("it is refused");
        assert!(refused.to_string().contains("more than 1,000 files"), "{refused}");
    }
}
