//! Copies untracked files of the main working tree into a new worktree.
//!
//! No link is followed on either side: the repository may contain links that lead elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::MakeError;

/// Limit of all copied files together.
const MAX_COPY_BYTES: u64 = 100 << 20;

/// Copies the named files and directories. Returns what was not copied, a sentence each. A file that the main
/// tree does not have, or that the worktree has already, is passed over.
pub(super) fn all(
    main: &Path,
    to: &Path,
    names: &[std::path::PathBuf],
) -> Result<Vec<String>, MakeError> {
    let open = |path: &Path| {
        let fd = openat(rustix::fs::CWD, path, DIRECTORY, Mode::empty());
        fd.map_err(|error| MakeError::Io {
            what: format!("{} cannot be opened: {error}", path.display()),
        })
    };
    let (main_fd, to_fd) = (open(main)?, open(to)?);
    let (mut warnings, mut left) = (Vec::new(), MAX_COPY_BYTES);
    for name in names {
        let copied = parents(&main_fd, &to_fd, name).and_then(|places| {
            places.map_or(Ok(()), |(from, to, last)| one(&from, &to, &last, &mut left))
        });
        match copied {
            Ok(()) => {}
            Err(Refused::Full) => return Err(MakeError::DiskFull),
            Err(Refused::Because(why)) => {
                warnings.push(format!("{} was not copied: {why}", name.display()));
            }
        }
    }
    Ok(warnings)
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a file was not copied.
enum Refused {
    Full,
    Because(String),
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::Full,
            Errno::LOOP | Errno::NOTDIR => {
                Self::Because("a part of its path is a link or a file".into())
            }
            other => Self::Because(other.to_string()),
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(errno) => errno.into(),
            None => Self::Because(error.to_string()),
        }
    }
}

type Parents = (OwnedFd, OwnedFd, std::ffi::OsString);

/// Opens the directories of a file on both sides; `None` if the main tree has no such directory.
fn parents(from: &OwnedFd, to: &OwnedFd, name: &Path) -> Result<Option<Parents>, Refused> {
    let parts: Vec<Component<'_>> = name.components().filter(|c| *c != Component::CurDir).collect();
    if parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(Refused::Because("its path does not stay inside the working tree".into()));
    }
    if parts.iter().any(|part| part.as_os_str() == ".git") {
        return Err(Refused::Because("it belongs to git".into()));
    }
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    let (last, above) = parts.split_last().ok_or_else(|| Refused::Because("it is empty".into()))?;
    for part in above {
        let part = part.as_os_str();
        from = match openat(&from, part, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        to = enter(&to, part)?;
    }
    Ok(Some((from, to, last.as_os_str().to_owned())))
}

/// Opens a directory of the worktree, and creates it if it is missing.
fn enter(to: &OwnedFd, part: &OsStr) -> Result<OwnedFd, Refused> {
    match mkdirat(to, part, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(to, part, DIRECTORY, Mode::empty())?)
}

fn one(from: &OwnedFd, to: &OwnedFd, name: &OsStr, left: &mut u64) -> Result<(), Refused> {
    let stat = match statat(from, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => file(from, to, name, left),
        FileType::Directory if name != ".git" => {
            let (from, to) = (openat(from, name, DIRECTORY, Mode::empty())?, enter(to, name)?);
            for entry in rustix::fs::Dir::read_from(&from)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name != "." && name != ".." {
                    one(&from, &to, name, left)?;
                }
            }
            Ok(())
        }
        FileType::Symlink => Err(Refused::Because("it is a link".into())),
        _ => Err(Refused::Because("it is neither a file nor a directory".into())),
    }
}

fn file(from: &OwnedFd, to: &OwnedFd, name: &OsStr, left: &mut u64) -> Result<(), Refused> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = File::from(openat(from, name, flags, Mode::empty())?);
    let meta = source.metadata()?;
    if meta.len() > *left {
        return Err(Refused::Because("all copied files together have more than 100 MB".into()));
    }
    let mode = Mode::from_raw_mode(fstat(&source)?.st_mode & 0o777);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = match openat(to, name, flags, mode) {
        // The base has it: the file of the base stays.
        Err(Errno::EXIST) => return Ok(()),
        other => File::from(other?),
    };
    *left -= meta.len();
    if !clone_content(&source, &target) {
        let copied = io::copy(&mut &source, &mut &target);
        if let Err(error) = copied {
            let _removed = rustix::fs::unlinkat(to, name, AtFlags::empty());
            return Err(error.into());
        }
    }
    Ok(())
}

/// Lets both files share their content, where the file system can.
fn clone_content(source: &File, target: &File) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::ioctl_ficlone(target, source).is_ok();
    #[cfg(not(target_os = "linux"))]
    {
        let _unused = (source, target);
        false
    }
}
