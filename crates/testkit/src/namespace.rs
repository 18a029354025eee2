//! A user namespace of a test's own, with limits that hold in it alone.
//!
//! A process may look closely only at processes of its own user namespace: agents that are to be recognised
//! must be started in the one in which they are looked at.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A user namespace that exists until the value is dropped.
pub struct UserNamespace {
    keeper: Child,
}

impl UserNamespace {
    /// Creates a namespace in which `user.max_inotify_<what>` is this number.
    #[must_use]
    pub fn with_inotify_limit(what: &str, count: u32) -> Self {
        let script =
            format!("echo {count} > /proc/sys/user/max_inotify_{what} && echo ready && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("`unshare` of util-linux");
        let mut line = String::new();
        let stdout = keeper.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "ready\n", "the limit {what} could not be set");
        Self { keeper }
    }

    /// Returns a command that starts this program there.
    #[must_use]
    pub(crate) fn command(keeper: u32, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--preserve-credentials", "--target", &keeper.to_string(), "--"]);
        command.arg(program);
        command
    }

    pub(crate) fn keeper(&self) -> u32 {
        self.keeper.id()
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        let _gone = self.keeper.kill();
        let _reaped = self.keeper.wait();
    }
}
