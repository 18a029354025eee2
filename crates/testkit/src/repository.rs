//! A git repository of a test's own, made by the real `git` with a fixed environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A git repository in a directory of the test.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The top of its working tree.
    pub path: PathBuf,
}

impl Repository {
    /// Makes a repository with one commit on `main`: `README.md`, `src/lib.txt` and a `.gitignore` of
    /// `*.log`, `.env` and `target/`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let repository = Self::empty(path, &[]);
        repository.write(".gitignore", "*.log\n.env\ntarget/\n");
        repository.write("README.md", "first\n");
        repository.write("src/lib.txt", "one\ntwo\nthree\n");
        repository.commit("first");
        repository
    }

    /// Makes a repository without a commit; `args` are further arguments of `git init`.
    #[must_use]
    pub fn empty(path: &Path, args: &[&str]) -> Self {
        std::fs::create_dir_all(path).expect("made");
        let repository = Self { path: std::fs::canonicalize(path).expect("resolved") };
        repository.git([&["init", "--quiet", "--initial-branch=main"], args].concat());
        repository
    }

    /// Returns a command of git in this repository, with a user and without the configuration of this machine.
    #[must_use]
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
        command.args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]);
        command.args(["-c", "protocol.file.allow=always", "-c", "commit.gpgSign=false"]);
        command.args(args).current_dir(&self.path);
        command
    }

    /// Runs git here and returns its standard output without the line end. Fails if git fails.
    pub fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let output = self.command(args).output().expect("git runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "git failed: {}", text(&output.stderr));
        text(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Says whether a command of git succeeds here.
    #[must_use]
    pub fn succeeds<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> bool {
        self.command(args).output().expect("git runs").status.success()
    }

    /// Writes a file of the working tree.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, content).expect("written");
        path
    }

    /// Commits everything and returns the commit.
    #[allow(clippy::must_use_candidate)] // most tests do not need the commit
    pub fn commit(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(["rev-parse", "HEAD"])
    }

    /// Adds another repository as a submodule and commits it.
    #[allow(clippy::must_use_candidate)] // most tests do not need the commit
    pub fn add_submodule(&self, from: &Self, name: &str) -> String {
        let from = from.path.to_str().expect("UTF-8");
        self.git(["submodule", "--quiet", "add", from, name]);
        self.commit("submodule")
    }

    /// Returns the same repository seen from another directory, for example a worktree of it.
    #[must_use]
    pub fn at(&self, path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns every file of the git directory with its content, the index and all objects included.
    #[must_use]
    pub fn git_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let directory = self.git(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from(directory)]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let content = std::fs::read(&path).expect("read");
                    files.push((path, content));
                }
            }
        }
        files.sort();
        files
    }
}
