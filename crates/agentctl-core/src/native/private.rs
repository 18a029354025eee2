//! Directories and files that only this user can access. A directory that another user could have changed
//! is refused.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::trust;

/// Creates a directory and its parents, accessible to this user only. Refuses a directory that others can
/// write to, or that lies in a directory of another user.
pub fn directory(path: &Path) -> io::Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    // Checked before the first directory is created: the path may lie in another user's directory.
    trust::owned(path, uid).map_err(|error| named(path, &error))?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| named(path, &error))?;
    let meta = fs::symlink_metadata(path)?;
    let refused = |why: &str| {
        let message = format!("{} {why}", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    };
    if !meta.is_dir() {
        return refused("is a link, not a directory");
    }
    if meta.uid() != uid {
        return refused("belongs to another user");
    }
    if meta.mode() & 0o022 != 0 {
        return refused("can be written by others");
    }
    Ok(())
}

/// Returns an error that names the path. An error that names one already stays as it is.
fn named(path: &Path, error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => {
            let text = format!("{} cannot be created: {error}", path.display());
            io::Error::new(error.kind(), text)
        }
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Creates a file that only this user can access; an existing file is truncated.
pub fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path).map_err(|error| named(path, &error))
}

/// Writes a new file with this mode beside the places that it may be renamed to, and returns its path. Its name is
/// random, and a file, a link or a FIFO that is there already is never opened. The directory may belong to anybody.
pub fn write_beside(directory: &Path, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
    let random = RandomState::new().hash_one(std::process::id());
    let path = directory.join(format!(".agentctl.{random:016x}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(&path)?;
    // The umask may have removed bits.
    let chmod = file.set_permissions(fs::Permissions::from_mode(mode));
    let written = chmod.and_then(|()| file.write_all(bytes));
    match written {
        Ok(()) => Ok(path),
        Err(error) => {
            let _left = fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Replaces a file, or creates it, so that only this user can access it: after a power cut there is the old content or
/// the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = write_beside(path.parent().unwrap_or(Path::new(".")), bytes, 0o600)?;
    let synced = File::open(&beside).and_then(|file| file.sync_all());
    synced.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        let _left = fs::remove_file(&beside);
    })
}
