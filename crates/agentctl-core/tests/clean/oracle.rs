//! Everything that a clean could lose: all commits, also those that only a file of a git directory names, all objects
//! that refs name, all contents of files and of indexes, patches, contents of Git LFS, and the branches of stashes. It is
//! written without the code under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use testkit::Repository;

use super::World;

/// Everything that is on the disk and in git, at one moment.
pub(super) struct Oracle {
    /// Commits, of every repository below the world.
    commits: BTreeSet<String>,
    /// Contents of files outside git directories, with one place each.
    contents: BTreeMap<String, PathBuf>,
    /// Contents that an index holds.
    staged: BTreeSet<String>,
    /// Objects that refs name and that are no commits.
    named: BTreeSet<String>,
    /// Contents that a commit holds, and all other objects that one leads to.
    committed: BTreeSet<String>,
    /// Branches with a stash.
    stashed: BTreeSet<String>,
    branches: BTreeSet<String>,
}

impl Oracle {
    pub(super) fn look(world: &World) -> Self {
        let mut found = Found::default();
        search(&world.path, false, &mut found);
        let mut oracle = Self {
            commits: BTreeSet::new(),
            contents: BTreeMap::new(),
            staged: BTreeSet::new(),
            named: BTreeSet::new(),
            committed: BTreeSet::new(),
            stashed: BTreeSet::new(),
            branches: lines(&world.shop.git([
                "for-each-ref",
                "--format=%(refname:short)",
                "refs/heads",
            ])),
        };
        for git_dir in &found.repositories {
            let repository = Repository { path: git_dir.clone() };
            let dir = git_dir.to_str().expect("UTF-8");
            let all = |more: &str| {
                let mut command = repository.command(["rev-list", "--all", "--reflog", more]);
                let output = command
                    .env("GIT_DIR", dir)
                    .env("GIT_WORK_TREE", dir)
                    .output()
                    .expect("git runs");
                lines(&String::from_utf8_lossy(&output.stdout))
            };
            if !git_dir.join("commondir").exists() {
                oracle.commits.extend(all("--no-object-names"));
                oracle.committed.extend(all("--objects").into_iter().map(|line| first(&line)));
            }
            oracle.look_at_names(&repository);
            let mut command = repository.command(["ls-files", "--stage", "-z"]);
            let output = command
                .env("GIT_DIR", dir)
                .env("GIT_WORK_TREE", dir)
                .output()
                .expect("git runs")
                .stdout;
            let text = String::from_utf8_lossy(&output).into_owned();
            let entries = text.split('\0').filter(|entry| entry.starts_with("100"));
            oracle.staged.extend(entries.filter_map(|e| e.split(' ').nth(1)).map(str::to_owned));
        }
        oracle.contents = hashes(&world.shop, &found.files);
        let stashes = world.shop.command(["stash", "list", "--format=%gs"]).output().expect("git");
        for line in String::from_utf8_lossy(&stashes.stdout).lines() {
            let branch = line.trim_start_matches("WIP on ").trim_start_matches("On ");
            oracle.stashed.extend(branch.split(':').next().map(str::to_owned));
        }
        oracle
    }

    /// Adds what the refs and the files of a git directory name.
    fn look_at_names(&mut self, repository: &Repository) {
        let dir = repository.path.to_str().expect("UTF-8");
        let ask = |args: &[&str]| {
            let mut command = repository.command(args);
            let output = command.env("GIT_DIR", dir).env("GIT_WORK_TREE", dir).output();
            lines(&String::from_utf8_lossy(&output.expect("git runs").stdout))
        };
        for line in ask(&["for-each-ref", "--format=%(objectname) %(objecttype)"]) {
            if !line.ends_with(" commit") {
                self.named.insert(first(&line));
            }
        }
        let mut ids = BTreeSet::new();
        ids_below(&repository.path, true, &mut ids);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if !ids.is_empty() {
            let list =
                |flags: &[&str]| ask(&[&["rev-list", "--ignore-missing"], flags, &ids].concat());
            self.commits.extend(list(&[]));
            self.committed.extend(list(&["--objects"]).into_iter().map(|line| first(&line)));
        }
    }

    /// Adds a commit that was made after the look.
    pub(super) fn add_commit(&mut self, commit: String) {
        self.commits.insert(commit);
    }

    /// Writes a file, and adds its content. The number makes it unique. The content that the file had is lost by this
    /// write, not by the clean.
    pub(super) fn add_file(&mut self, world: &World, path: &Path, number: usize) -> Option<()> {
        let old =
            if path.is_file() { hashes(&world.shop, &[path.to_owned()]) } else { BTreeMap::new() };
        std::fs::write(path, format!("late work {number}\n")).ok()?;
        self.contents.retain(|id, place| place != path || !old.contains_key(id));
        self.contents.extend(hashes(&world.shop, &[path.to_owned()]));
        Some(())
    }

    /// Returns what is neither on the disk nor named by a ref any more. A stash needs its branch, unless the branch was
    /// removed by force: the stash itself stays.
    pub(super) fn lost(&self, world: &World, is_forced: bool) -> Vec<String> {
        let now = Self::look(world);
        let mut lost = Vec::new();
        lost.extend(self.commits.difference(&now.commits).map(|id| format!("commit {id}")));
        for (id, place) in &self.contents {
            if !now.contents.contains_key(id) && !now.committed.contains(id) {
                lost.push(format!("file {}", place.display()));
            }
        }
        for id in &self.staged {
            let known = now.staged.contains(id) || now.committed.contains(id);
            if !known && !now.contents.contains_key(id) {
                lost.push(format!("staged {id}"));
            }
        }
        let named = self.named.iter();
        let gone = named.filter(|id| !now.named.contains(*id) && !now.committed.contains(*id));
        lost.extend(gone.map(|id| format!("object {id}")));
        let branches = self.stashed.iter().filter(|branch| self.branches.contains(*branch));
        let gone = branches.filter(|branch| !now.branches.contains(*branch));
        lost.extend(
            gone.filter(|_| !is_forced).map(|branch| format!("the branch {branch} of a stash")),
        );
        lost
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

fn first(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// Adds the words that can be ids, of all files below a git directory but its objects, index, messages, and other git
/// directories.
fn ids_below(folder: &Path, is_top: bool, ids: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        let name = entry.file_name().into_string().expect("UTF-8");
        let others = ["objects", "modules", "worktrees", "lfs", "hooks", "index"];
        if is_top && others.contains(&&*name) || name.ends_with("MSG") {
            continue;
        }
        if kind.is_dir() {
            ids_below(&path, false, ids);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
            let is_id =
                |word: &&str| word.len() == 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
            ids.extend(words.filter(is_id).map(str::to_owned));
        }
    }
}

#[derive(Default)]
struct Found {
    repositories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// Finds all git directories, and all files with content that are neither in one nor in a build folder.
fn search(folder: &Path, is_build: bool, found: &mut Found) {
    let is_git = folder.join("HEAD").is_file()
        && (folder.join("objects").is_dir() || folder.join("commondir").is_file());
    if is_git {
        found.repositories.push(folder.to_owned());
        for inner in ["modules", "worktrees"] {
            search_git(&folder.join(inner), found);
        }
        for inner in ["rebase-apply", "lfs/objects"] {
            add_files(&folder.join(inner), found);
        }
        return;
    }
    if folder.ends_with("tmp") {
        return;
    }
    let is_nested = folder.join(".git").is_dir();
    let is_build = (is_build && !is_nested)
        || folder.ends_with("node_modules")
        || folder.join("CACHEDIR.TAG").is_file();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            search(&path, is_build, found);
        } else if kind.is_file() && !is_build && !path.ends_with(".git") {
            let has_content = entry.metadata().is_ok_and(|meta| meta.len() > 0);
            found.files.extend(has_content.then_some(path));
        }
    }
}

/// Adds all files with content below a folder.
fn add_files(folder: &Path, found: &mut Found) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_files(&path, found);
        } else if entry.metadata().is_ok_and(|meta| meta.len() > 0) {
            found.files.push(path);
        }
    }
}

/// Finds the git directories of submodules and worktrees.
fn search_git(folder: &Path, found: &mut Found) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("HEAD").is_file() {
            search(&path, false, found);
        } else if path.is_dir() {
            search_git(&path, found);
        }
    }
}

/// Returns the ids that these files have as blobs.
fn hashes(shop: &Repository, files: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut ids = BTreeMap::new();
    for files in files.chunks(200) {
        let mut command = shop.command(["hash-object", "--no-filters", "--"]);
        let output = command.args(files).output().expect("git runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.lines().count(), files.len(), "every file is read");
        ids.extend(text.lines().map(str::to_owned).zip(files.iter().cloned()));
    }
    ids
}
