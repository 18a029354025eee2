//! The contents of a working tree that are not in git: ignored files, build folders, repositories inside it.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::check::{Checker, Finding, Override};
use super::repositories;
use crate::git::{Contents, GitError, WorkTree, path_of};
use crate::text::counted;
use crate::worktrees::regular_file::open;
use crate::worktrees::walk::{self, Enter};

/// Folders that tools fill with what they can make again.
const BUILD_FOLDERS: [&str; 3] = ["node_modules", ".venv", "__pycache__"];
/// The beginning of a `CACHEDIR.TAG`: its folder holds what can be made again.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// How many ignored files are named in a reason.
const NAMED_FILES: usize = 3;

/// A working tree that is looked through: the worktree itself, or a repository inside it.
pub(super) struct Place<'a> {
    pub tree: &'a WorkTree,
    /// The text before a reason: empty, or `submodule libs/x: `.
    pub label: String,
    /// How many repositories it is inside of.
    pub depth: usize,
    /// The directories that would be removed with the worktree.
    pub removed: &'a [PathBuf],
}

/// Looks for what is not in the tree of all files that git sees.
pub(super) fn check(
    checker: &Checker<'_>,
    place: &Place<'_>,
    contents: &Contents,
    finding: &mut Finding,
) -> Result<(), GitError> {
    let known = Known::read(checker, place.tree, contents)?;
    let mut search = Search { checker, place, known, found: Found::default() };
    let walked = walk::walk(&place.tree.top, &mut |entry| search.visit(entry));
    let found = search.found;
    if let Err(error) = walked {
        finding.keep(format!("{}not everything in it can be looked at: {error}", place.label));
    }
    // With files that could not be read it is not known which of the others git ignores. Such a worktree is kept anyway.
    if !found.others.is_empty() && contents.gaps.is_empty() {
        let text = format!("{}{}", place.label, ignored_files(&found.others));
        finding.unless(Override::Ignored, text);
    }
    for (link, files) in found.below_links {
        finding.keep(format!("{}{}", place.label, files_below_link(&link, &files)));
    }
    if place.depth == 0 {
        finding.ignored.extend(found.build_folders);
        finding.ignored.extend(found.copies);
        finding.ignored.extend(found.others.into_iter().map(|(path, _)| path));
    }
    for path in found.repositories {
        let inside = place.tree.top.join(&path);
        repositories::check(checker, place, (&path, &inside), finding)?;
    }
    for path in found.git_dirs {
        repositories::check_git_dir(checker, place, &path, finding)?;
    }
    Ok(())
}

/// The contents of a working tree that are not in git.
#[derive(Default)]
struct Found {
    repositories: Vec<PathBuf>,
    /// Repositories without a working tree around them: bare ones, and separate git directories.
    git_dirs: Vec<PathBuf>,
    build_folders: Vec<PathBuf>,
    /// Unedited copies of files of the main working tree, and links to such files.
    copies: Vec<PathBuf>,
    /// Other ignored files, with their sizes.
    others: Vec<(PathBuf, u64)>,
    /// Files in the folder of a submodule that is not checked out, by that folder.
    below_links: BTreeMap<PathBuf, Vec<PathBuf>>,
}

struct Search<'a> {
    checker: &'a Checker<'a>,
    place: &'a Place<'a>,
    known: Known,
    found: Found,
}

impl Search<'_> {
    fn visit(&mut self, entry: &walk::Entry) -> Enter {
        let (path, top) = (&entry.path, &self.place.tree.top);
        if path == Path::new(".git") {
            return Enter::No;
        }
        if path.file_name().is_some_and(|name| name == ".git") {
            self.found.repositories.extend(path.parent().map(Path::to_owned));
            return Enter::No;
        }
        let is_directory = entry.kind == FileType::Directory;
        if is_directory && top.join(path).join(".git").symlink_metadata().is_ok() {
            self.found.repositories.push(path.clone());
            return Enter::No;
        }
        if is_directory {
            self.visit_directory(path);
        } else if !self.is_in_build_folder(path) {
            self.visit_file(entry);
        }
        Enter::Yes
    }

    fn is_in_build_folder(&self, path: &Path) -> bool {
        self.found.build_folders.last().is_some_and(|folder| path.starts_with(folder))
    }

    fn visit_directory(&mut self, path: &Path) {
        // Each file of a directory that git knows is looked at by itself.
        if self.known.directories.contains(path) {
            return;
        }
        let directory = self.place.tree.top.join(path);
        if is_git_dir(&directory) {
            self.found.git_dirs.push(path.to_owned());
        }
        if !self.is_in_build_folder(path) && is_build_folder(&directory) {
            self.found.build_folders.push(path.to_owned());
        }
    }

    fn visit_file(&mut self, entry: &walk::Entry) {
        let path = &entry.path;
        let has_content = matches!(entry.kind, FileType::RegularFile | FileType::Symlink);
        if self.known.files.contains(path) || !has_content || entry.size == 0 {
            return;
        }
        if let Some(link) = self.known.link_above(path) {
            self.found.below_links.entry(link.to_owned()).or_default().push(path.clone());
            return;
        }
        let is_link = entry.kind == FileType::Symlink;
        let is_elsewhere = if is_link { is_link_to_main } else { is_unedited_copy };
        if self.place.depth == 0 && is_elsewhere(self.checker, self.place, path) {
            self.found.copies.push(path.clone());
        } else {
            self.found.others.push((path.clone(), entry.size));
        }
    }
}

/// Says whether a directory is laid out as git lays out a repository.
fn is_git_dir(path: &Path) -> bool {
    let is_directory = |name: &str| path.join(name).symlink_metadata().is_ok_and(|m| m.is_dir());
    path.join("HEAD").symlink_metadata().is_ok() && is_directory("objects") && is_directory("refs")
}

/// Describes ignored files: `2 ignored files are nowhere else (.env, data.db)`.
fn ignored_files(files: &[(PathBuf, u64)]) -> String {
    let mut names: Vec<String> =
        files.iter().take(NAMED_FILES).map(|(path, _)| path.display().to_string()).collect();
    if files.len() > NAMED_FILES {
        names.push("…".to_owned());
    }
    let files = match files.len() {
        1 => "1 ignored file is".to_owned(),
        count => format!("{count} ignored files are"),
    };
    format!("{files} nowhere else ({}); --ignored removes them", names.join(", "))
}

/// Describes files in the folder of a submodule that is not checked out.
fn files_below_link(link: &Path, files: &[PathBuf]) -> String {
    let (count, link) = (counted(files.len(), "file"), link.display());
    let first = files.first().map(|path| path.display().to_string()).unwrap_or_default();
    format!(
        "git does not see {count} below the submodule {link}, which is not checked out ({first})"
    )
}

/// The paths that the tree of a snapshot has.
struct Known {
    files: HashSet<PathBuf>,
    /// The folders of submodules.
    links: HashSet<PathBuf>,
    /// The directories that these files are in.
    directories: HashSet<PathBuf>,
}

impl Known {
    fn read(checker: &Checker<'_>, tree: &WorkTree, contents: &Contents) -> Result<Self, GitError> {
        let call = contents.store.see(tree.read(checker.site.git));
        let listed = call.args(["ls-tree", "-r", "-z", "--full-tree", &contents.on_disk]).ok()?;
        let (mut files, mut directories) = (HashSet::new(), HashSet::new());
        let mut links = HashSet::new();
        for entry in listed.stdout.split(|byte| *byte == 0) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let path = path_of(&entry[tab + 1..]);
            directories.extend(path.ancestors().skip(1).map(Path::to_owned));
            if entry.starts_with(b"160000 ") {
                links.insert(path.clone());
            }
            files.insert(path);
        }
        Ok(Self { files, links, directories })
    }

    /// Returns the folder of the submodule that a file is in. Those that are checked out are looked at by themselves.
    fn link_above<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().skip(1).find(|above| self.links.contains(*above))
    }
}

fn is_build_folder(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str());
    if named.is_some_and(|name| BUILD_FOLDERS.contains(&name)) {
        return true;
    }
    let mut beginning = Vec::new();
    let read = open(&path.join("CACHEDIR.TAG"))
        .and_then(|file| file.take(CACHE_TAG.len() as u64).read_to_end(&mut beginning));
    read.is_ok() && beginning == CACHE_TAG
}

/// Says whether a file was copied from the main working tree by the user's settings, and is still the same.
fn is_unedited_copy(checker: &Checker<'_>, place: &Place<'_>, path: &Path) -> bool {
    let site = checker.site;
    let configured = site.order.settings.copy.iter().any(|copy| {
        let copy: PathBuf = copy.components().collect();
        path.starts_with(copy.strip_prefix(".").unwrap_or(&copy))
    });
    configured
        && !site.repository.bare
        && is_same_file(&place.tree.top.join(path), &site.repository.main.join(path))
            .unwrap_or(false)
}

/// Says whether a link leads to something in the main working tree, which stays. `setup` of the user's settings makes
/// such links.
fn is_link_to_main(checker: &Checker<'_>, place: &Place<'_>, path: &Path) -> bool {
    let repository = checker.site.repository;
    let Ok(main) = std::fs::canonicalize(&repository.main) else { return false };
    let Ok(target) = std::fs::canonicalize(place.tree.top.join(path)) else { return false };
    let is_removed = place.removed.iter().any(|directory| target.starts_with(directory));
    !repository.bare && target.starts_with(main) && !is_removed
}

/// Compares two regular files by content.
fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut a, mut b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = one.read(&mut a)?;
        if count == 0 {
            return Ok(other.read(&mut b)? == 0);
        }
        if other.read_exact(&mut b[..count]).is_err() || a[..count] != b[..count] {
            return Ok(false);
        }
    }
}
