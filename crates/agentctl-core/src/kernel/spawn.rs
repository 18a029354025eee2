//! Starting a program in a session of its own, with no pipe anyone must feed or drain.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Where one of the three standard streams goes.
#[derive(Debug)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A regular file.
    File(File),
}

/// What to start. The environment is given whole: nothing is inherited.
#[derive(Debug)]
pub struct Spawn {
    /// The program file.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// A further descriptor the program gets, under the number it has here.
    pub keep: Option<OwnedFd>,
}

impl Spawn {
    /// Starts the program in a new session, detached from the caller's terminal.
    #[allow(clippy::disallowed_methods)] // the one place that may
    pub fn detached(self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(self.env).current_dir(&self.cwd);
        command.stdin(stream(self.stdin)).stdout(stream(self.stdout)).stderr(stream(self.stderr));
        let keep = self.keep;
        // SAFETY: both calls are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                if let Some(keep) = &keep {
                    rustix::io::fcntl_setfd(keep, rustix::io::FdFlags::empty())?;
                }
                Ok(())
            });
        }
        command.spawn()
    }
}

fn stream(wanted: Stdio) -> std::process::Stdio {
    match wanted {
        Stdio::Null => std::process::Stdio::null(),
        Stdio::File(file) => file.into(),
    }
}
