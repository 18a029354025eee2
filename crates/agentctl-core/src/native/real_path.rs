//! The real path of a file, links resolved, in a limited number of steps.
//!
//! `realpath` asks the kernel about every component by its whole path. Forty links of two thousand
//! components each, below two thousand folders, keep it busy for a minute. A path that a process names,
//! in its environment or its arguments, is resolved here instead, up to a number of steps that no
//! ordinary path needs.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Most steps to resolve a path. Each component is one step, components of links included.
const MAX_STEPS: usize = 128;
/// Most links that are followed, as in the kernel.
const MAX_LINKS: usize = 40;
/// The longest path that the kernel accepts.
const PATH_BYTES: usize = 4096;

/// Why a path was not resolved.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// The system refuses it; mostly because it does not exist.
    #[error(transparent)]
    Refused(#[from] io::Error),
    /// It has more components and links than are followed.
    #[error("it needs more than {MAX_STEPS} steps or {MAX_LINKS} links to resolve")]
    TooLong,
}

/// Returns the real path of an existing file, as `fs::canonicalize` does, or fails after a limited
/// number of steps.
pub fn real_path(path: &Path) -> Result<PathBuf, Unresolved> {
    walk(path, false)
}

/// Returns the real path of a file, or, for a file that does not exist, the path where it would be. A
/// path of too many steps is returned unchanged.
#[must_use]
pub fn real_place(path: &Path) -> PathBuf {
    walk(path, true).unwrap_or_else(|_| path.to_owned())
}

fn walk(path: &Path, may_be_missing: bool) -> Result<PathBuf, Unresolved> {
    let absolute = std::path::absolute(path)?;
    let mut ahead: Vec<OsString> = Vec::new();
    push_components(&mut ahead, &absolute)?;
    let mut real = PathBuf::from("/");
    let (mut steps, mut links) = (0, 0);
    while let Some(name) = ahead.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            return Err(Unresolved::TooLong);
        }
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        let meta = match fs::symlink_metadata(&real) {
            Ok(meta) => meta,
            Err(_) if may_be_missing => continue,
            Err(error) => return Err(error.into()),
        };
        if meta.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Unresolved::TooLong);
            }
            let target = fs::read_link(&real)?;
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            push_components(&mut ahead, &target)?;
        } else if !meta.is_dir() && !ahead.is_empty() && !may_be_missing {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
    }
    Ok(real)
}

/// Pushes the components of a path onto the stack of unresolved components, the first one on top.
fn push_components(ahead: &mut Vec<OsString>, path: &Path) -> Result<(), Unresolved> {
    if path.as_os_str().len() > PATH_BYTES {
        return Err(Unresolved::TooLong);
    }
    let is_step =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts = path.components().filter(is_step).rev();
    ahead.extend(parts.map(|part| part.as_os_str().to_owned()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_real_path_is_that_of_the_system() {
        let dir = tempfile::tempdir().expect("dir");
        let base = dir.path();
        fs::create_dir_all(base.join("a/b")).expect("made");
        fs::write(base.join("a/file"), "").expect("written");
        symlink("a/b", base.join("relative")).expect("linked");
        symlink(base.join("a"), base.join("absolute")).expect("linked");
        symlink("../../absolute/file", base.join("a/b/back")).expect("linked");
        symlink("itself", base.join("itself")).expect("linked");
        symlink("nothing", base.join("dangling")).expect("linked");
        let paths = [
            "",
            "a",
            "a/b/..",
            "./a//b/.",
            "relative",
            "absolute/b",
            "relative/back",
            "relative/..",
            "absolute/../a/file",
            "a/file/..",
            "a/file/x",
            "missing",
            "a/missing/..",
            "itself",
            "dangling",
            "../../../../../../../../..",
        ];
        for path in paths {
            let path = base.join(path);
            assert_eq!(real_path(&path).ok(), fs::canonicalize(&path).ok(), "{}", path.display());
        }
        assert_eq!(real_path(Path::new(".")).ok(), fs::canonicalize(".").ok());
        let real = fs::canonicalize(base).expect("resolved");
        for (path, place) in [
            ("absolute/missing/x", "a/missing/x"),
            ("relative/missing/../back", "a/file"),
            ("dangling/x", "nothing/x"),
            ("relative", "a/b"),
        ] {
            assert_eq!(real_place(&base.join(path)), real.join(place), "{path}");
        }
    }

    #[test]
    fn a_path_of_too_many_steps_is_not_resolved() {
        let dir = tempfile::tempdir().expect("dir");
        let base = dir.path();
        fs::create_dir(base.join("a")).expect("made");
        symlink(format!("{}l", "a/../".repeat(MAX_STEPS)), base.join("long")).expect("linked");
        symlink("a", base.join("l")).expect("linked");
        for path in [base.join("long"), base.join("a/../".repeat(MAX_STEPS))] {
            assert!(fs::canonicalize(&path).is_ok(), "the system resolves it");
            assert!(matches!(real_path(&path), Err(Unresolved::TooLong)), "{}", path.display());
        }
        assert!(matches!(real_path(&base.join("a/".repeat(PATH_BYTES))), Err(Unresolved::TooLong)));
    }
}
