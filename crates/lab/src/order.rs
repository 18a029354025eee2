//! agentctl as its user runs it: from a directory, with the agent on the PATH, its words kept in files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::Started;
use crate::stage::{PATIENCE, Stage, Trouble};

/// The result of a command.
#[derive(Debug)]
pub struct Told {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

impl Told {
    /// Returns all of it, for the evidence.
    #[must_use]
    pub fn all(&self) -> String {
        format!("exit {:?}\nstdout: {}\nstderr: {}", self.code, self.stdout, self.stderr)
    }

    /// Returns the one line that was printed.
    pub fn line(&self) -> Result<String, Trouble> {
        match self.stdout.strip_suffix('\n') {
            Some(line) if self.code == Some(0) && !line.contains('\n') => Ok(line.to_owned()),
            _ => Err(format!("one line and exit 0 were wanted: {}", self.all())),
        }
    }

    /// Says whether it failed with this code, one sentence and a hint, and printed nothing.
    #[must_use]
    pub fn fails(&self, code: i32) -> bool {
        let errors = self.stderr.lines().filter(|l| l.starts_with("error: ")).count();
        let hint = self.stderr.lines().any(|l| l.trim_start().starts_with("hint: "));
        self.code == Some(code) && errors == 1 && hint && self.stdout.is_empty()
    }
}

/// An order under way.
#[derive(Debug)]
pub struct Order {
    /// The process.
    pub started: Started,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Order {
    /// Returns its stdout so far.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// Waits for its end.
    pub fn told(mut self) -> Result<Told, Trouble> {
        let status = self.started.wait(PATIENCE).map_err(|e| {
            let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
            format!("agentctl: {e}: {said}")
        })?;
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| e.to_string());
        let (stdout, stderr) = (read(&self.stdout)?, read(&self.stderr)?);
        Ok(Told { code: status.code(), stdout, stderr })
    }
}

impl Stage {
    /// Starts agentctl in a directory, with these variables and this on its stdin.
    pub fn begin(
        &self,
        cwd: &Path,
        env: &[(String, String)],
        args: &[&str],
        input: &[u8],
    ) -> Result<Order, Trouble> {
        self.orders.set(self.orders.get() + 1);
        let path =
            |end: &str| self.home.with_file_name(format!("order-{}.{end}", self.orders.get()));
        let told = |e: std::io::Error| e.to_string();
        std::fs::write(path("in"), input).map_err(told)?;
        let (stdout, stderr) = (path("out"), path("err"));
        let mut command = Command::new(&self.agentctl);
        command.args(args).env_clear().envs(self.environment()).envs(env.iter().cloned());
        command.current_dir(cwd).stdin(File::open(path("in")).map_err(told)?);
        command.stdout(Stdio::from(File::create(&stdout).map_err(told)?));
        command.stderr(Stdio::from(File::create(&stderr).map_err(told)?));
        let child = command.spawn().map_err(|e| format!("{}: {e}", self.agentctl.display()))?;
        Ok(Order { started: Started::new(child).map_err(told)?, stdout, stderr })
    }

    /// Runs agentctl to its end.
    pub fn order(
        &self,
        cwd: &Path,
        env: &[(String, String)],
        args: &[&str],
    ) -> Result<Told, Trouble> {
        self.begin(cwd, env, args, b"")?.told()
    }
}
