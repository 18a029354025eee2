//! Directories that other mounts show: bind mounts, and the mount namespaces of containers. There the path of a process
//! names a file below a directory without beginning with the path of that directory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, statat};

use super::{Kernel, open_at, open_process_directory, read_link_at};

/// A row of `/proc/PID/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The device of its file system.
    device: String,
    /// The directory of the file system that it shows.
    root: PathBuf,
    /// The directory at which it shows that.
    point: PathBuf,
}

/// A file or directory by its file system, whatever mount shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    device: String,
    path: PathBuf,
}

/// The mounts of one namespace that may show some directories.
#[derive(Debug)]
struct Mounts(Vec<Mount>);

/// Some directories, and the mounts that show them to processes of this user.
#[derive(Debug)]
pub struct MountViews {
    directories: Vec<Place>,
    /// The mounts by which this process sees the directories.
    known: Vec<Mount>,
    /// The mounts of each namespace; `None` if no other mount there shows one of the directories.
    namespaces: RefCell<HashMap<u64, Option<Rc<Mounts>>>>,
}

/// The mounts by which one process may see the directories.
#[derive(Debug)]
pub struct ProcessView<'a> {
    views: &'a MountViews,
    mounts: Option<Rc<Mounts>>,
}

impl Kernel {
    /// Prepares the question whether paths of processes lead below these directories by other mounts.
    #[must_use]
    pub fn mount_views(&self, directories: &[&Path]) -> MountViews {
        let own = Mounts::of(std::process::id()).unwrap_or(Mounts(Vec::new()));
        let places = directories.iter().filter_map(|directory| own.place(directory));
        let known = directories.iter().filter_map(|directory| own.showing(directory).cloned());
        MountViews {
            directories: places.collect(),
            known: known.collect(),
            namespaces: RefCell::default(),
        }
    }
}

impl MountViews {
    /// Returns the view of a process. The mounts of each namespace are read once. A process that cannot be read sees
    /// nothing by other mounts.
    #[must_use]
    pub fn of(&self, pid: u32) -> ProcessView<'_> {
        ProcessView { views: self, mounts: self.mounts_of(pid).unwrap_or_default() }
    }

    fn mounts_of(&self, pid: u32) -> io::Result<Option<Rc<Mounts>>> {
        let process = open_process_directory(pid)?;
        let namespace = statat(&process, "ns/mnt", AtFlags::empty())?.st_ino;
        if let Some(known) = self.namespaces.borrow().get(&namespace) {
            return Ok(known.clone());
        }
        let root = read_link_at(&process, "root")?;
        let mounts = Mounts::read(BufReader::new(open_at(process.as_fd(), "mountinfo")?), &root)?;
        let shows = mounts.0.iter().any(|mount| self.is_other_view(mount));
        let mounts = shows.then(|| Rc::new(mounts));
        // Another root hides mounts of the namespace.
        if root == Path::new("/") {
            self.namespaces.borrow_mut().insert(namespace, mounts.clone());
        }
        Ok(mounts)
    }

    /// Says whether a mount shows a part of one of the directories, or a directory around it, at another path.
    fn is_other_view(&self, mount: &Mount) -> bool {
        let overlaps = |place: &Place| {
            place.device == mount.device
                && (place.path.starts_with(&mount.root) || mount.root.starts_with(&place.path))
        };
        self.directories.iter().any(overlaps) && !self.known.contains(mount)
    }
}

impl ProcessView<'_> {
    /// Says whether a path of the process leads below one of the directories.
    #[must_use]
    pub fn is_inside(&self, path: &Path) -> bool {
        let place = self.mounts.as_ref().and_then(|mounts| mounts.place(path));
        place.is_some_and(|place| {
            let around = |directory: &Place| {
                directory.device == place.device && place.path.starts_with(&directory.path)
            };
            self.views.directories.iter().any(around)
        })
    }
}

impl Mounts {
    fn of(pid: u32) -> io::Result<Self> {
        let process = open_process_directory(pid)?;
        let root = read_link_at(&process, "root")?;
        Self::read(BufReader::new(open_at(process.as_fd(), "mountinfo")?), &root)
    }

    /// Reads a list of mounts. Its paths begin at the root of the process, and links to files at that of the namespace.
    fn read(list: impl BufRead, root: &Path) -> io::Result<Self> {
        let rows = list.split(b'\n').map(|row| Ok(parse(&row?, root)));
        Ok(Self(rows.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect()))
    }

    /// Returns the mount that shows a path. Of two at one point the later one hides the other.
    fn showing(&self, path: &Path) -> Option<&Mount> {
        let around = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        around.max_by_key(|mount| mount.point.components().count())
    }

    fn place(&self, path: &Path) -> Option<Place> {
        let mount = self.showing(path)?;
        let below = path.strip_prefix(&mount.point).ok()?;
        // Without a slash at the end.
        let path = mount.root.join(below).components().collect();
        Some(Place { device: mount.device.clone(), path })
    }
}

/// Reads a row: `36 35 98:0 /root /point …`.
fn parse(row: &[u8], process_root: &Path) -> Option<Mount> {
    let mut fields = row.split(|byte| *byte == b' ').skip(2);
    let device = String::from_utf8_lossy(fields.next()?).into_owned();
    let root = plain(fields.next()?);
    let point = plain(fields.next()?);
    let point = process_root.join(point.strip_prefix("/").ok()?).components().collect();
    Some(Mount { device, root, point })
}

/// Returns a path in which the kernel writes spaces, tabs, line ends and backslashes as `\040`.
fn plain(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(root: &str) -> Mounts {
        let list = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    23 22 0:21 / /proc rw - proc proc rw\n\
                    24 22 8:1 /home/u/a\\040b /mnt/a\\040b rw - ext4 /dev/sda1 rw\n";
        Mounts::read(list.as_bytes(), Path::new(root)).expect("read")
    }

    #[test]
    fn a_path_below_a_bind_mount_is_that_of_the_file_system() {
        let place = |path: &str| mounts("/").place(Path::new(path)).expect("a place").path;
        assert_eq!(place("/mnt/a b/c"), Path::new("/home/u/a b/c"));
        assert_eq!(place("/mnt/a b"), Path::new("/home/u/a b"));
        assert_eq!(place("/mnt/a"), Path::new("/mnt/a"));
        assert_eq!(place("/proc/1"), Path::new("/1"));
        let jailed = mounts("/jail").place(Path::new("/jail/mnt/a b/c")).expect("a place");
        assert_eq!(jailed.path, Path::new("/home/u/a b/c"));
    }

    #[test]
    fn only_other_mounts_of_a_directory_are_other_views() {
        let own = mounts("/");
        let directory = Path::new("/home/u/a b/tree");
        let views = |directory: &Path| MountViews {
            directories: own.place(directory).into_iter().collect(),
            known: own.showing(directory).cloned().into_iter().collect(),
            namespaces: RefCell::default(),
        };
        let others = |directory: &Path| {
            let views = views(directory);
            own.0.iter().filter(|mount| views.is_other_view(mount)).count()
        };
        assert_eq!(others(directory), 1);
        assert_eq!(others(Path::new("/home/u")), 1);
        assert_eq!(others(Path::new("/home/v")), 0);
    }
}
