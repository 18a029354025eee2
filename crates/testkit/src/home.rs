//! A home directory of a test's own, the program under test in it, and agents that live there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::UserNamespace;

/// A temporary home with a cleared environment.
pub struct TestHome {
    dir: TempDir,
    program: PathBuf,
    env: BTreeMap<String, String>,
    /// The process that keeps the user namespace in which the program runs.
    user_namespace: Option<u32>,
}

/// The output of a run of the program.
#[derive(Debug)]
pub struct Output {
    /// Its exit code.
    pub code: Option<i32>,
    /// Its data.
    pub stdout: String,
    /// Its talk.
    pub stderr: String,
}

impl Output {
    /// Returns the JSON document on stdout.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not JSON ({e}):\n{}\n{}", self.stdout, self.stderr))
    }

    /// Returns the rows of a listing.
    #[must_use]
    pub fn sessions(&self) -> Vec<Value> {
        self.json()["sessions"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the one row with this id.
    #[must_use]
    pub fn session(&self, id: &str) -> Value {
        let found: Vec<Value> = self.sessions().into_iter().filter(|s| s["id"] == id).collect();
        assert!(
            found.len() == 1,
            "{} rows of {id} in\n{}\n{}",
            found.len(),
            self.stdout,
            self.stderr
        );
        found.into_iter().next().unwrap_or_default()
    }
}

impl From<std::io::Result<std::process::Output>> for Output {
    fn from(output: std::io::Result<std::process::Output>) -> Self {
        let output = output.expect("the program runs");
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl TestHome {
    /// Makes a home in which `program` is run.
    #[must_use]
    pub fn new(program: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let home = std::fs::canonicalize(dir.path()).expect("resolved");
        let env = BTreeMap::from([
            ("HOME".into(), home.to_string_lossy().into_owned()),
            ("PATH".into(), format!("{}:/usr/bin:/bin", home.join("bin").display())),
            ("TZ".into(), "UTC".into()),
            ("COLUMNS".into(), "120".into()),
            ("NO_COLOR".into(), "1".into()),
        ]);
        Self { dir, program: PathBuf::from(program), env, user_namespace: None }
    }

    /// Returns the home directory, links resolved.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).expect("resolved")
    }

    /// Sets a variable of the environment.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.to_owned(), value.into());
    }

    /// Returns a path below the home, its parents made.
    #[must_use]
    pub fn at(&self, relative: &str) -> PathBuf {
        let path = self.path().join(relative);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        path
    }

    /// Writes a file below the home.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(relative);
        std::fs::write(&path, content).expect("written");
        path
    }

    /// Copies a recorded home of a real agent to this place.
    pub fn plant(&self, fixture: &Path, relative: &str) {
        copy_tree(fixture, &self.at(relative));
    }

    /// From now on the program under test and its children run in this user namespace.
    pub fn enter(&mut self, namespace: &UserNamespace) {
        self.user_namespace = Some(namespace.keeper());
    }

    /// Returns a command of the program under test, not yet started.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.user_namespace {
            Some(keeper) => UserNamespace::command(keeper, &self.program),
            None => Command::new(&self.program),
        };
        command.args(args).env_clear().envs(&self.env).current_dir(self.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program under test.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().into()
    }

    /// Runs the program under test with at most this much writable private memory: an allocation beyond the
    /// limit ends it. The address space is not limited: the allocator reserves 64 MiB of it per thread without
    /// using them, so such a limit depends on how many threads happen to run at the same time.
    #[must_use]
    pub fn run_within(&self, memory_mib: u32, args: &[&str]) -> Output {
        let program = self.command(args);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -d {}; exec \"$0\" \"$@\"", memory_mib << 10));
        shell.arg(program.get_program()).args(program.get_args()).env_clear().envs(&self.env);
        shell.current_dir(self.path()).stdin(Stdio::null()).output().into()
    }

    /// Starts a fake agent under this program name, in this directory below the home.
    ///
    /// Its script is a list of words; see `fake-agent.rs`.
    #[must_use]
    pub fn agent(&self, name: &str, cwd: &str, script: &[&str]) -> Agent {
        let program = self.at(&format!("bin/{name}"));
        if !program.exists() {
            std::fs::copy(crate::fake_agent(), &program).expect("copied");
            if name == "claude" {
                mark_as_bundle(&program);
            }
        }
        let cwd = self.path().join(cwd);
        std::fs::create_dir_all(&cwd).expect("made");
        let mut command = Command::new(program);
        command.args(script).env_clear().envs(&self.env).current_dir(cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Agent { child: command.spawn().expect("the fake agent starts") }
    }
}

/// Ends a program file like Bun does: Claude Code's native program is recognised by that.
pub fn mark_as_bundle(program: &Path) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(program).expect("there");
    file.write_all(b"\n---- Bun! ----\n").expect("written");
}

/// A process that the test started; it dies with the value.
pub struct Agent {
    /// The child.
    pub child: Child,
}

impl Agent {
    /// Returns its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the line it says when its script is done.
    pub fn ready(&mut self) -> String {
        use std::io::BufRead;
        let stdout = self.child.stdout.as_mut().expect("piped");
        let mut line = String::new();
        std::io::BufReader::new(stdout).read_line(&mut line).expect("it speaks");
        assert!(!line.is_empty(), "the fake agent died before it was ready");
        line.trim().to_owned()
    }

    /// Kills it with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display())) {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("copied");
        }
    }
}
