//! A second user, for attacks that only another user of the machine can make.
//!
//! Becoming another user needs root, so a test that calls [`another_user`] is marked
//! `#[ignore = "needs root: …"]`: test runners report it as ignored with that reason, and `./check` runs
//! it with `--include-ignored` where it is root (docs/adr/0034-tests-that-need-root.md).

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The user `nobody`, who owns no file of the test.
#[derive(Clone, Copy, Debug)]
pub struct OtherUser {
    /// The uid, and the gid.
    pub uid: u32,
}

/// Returns the second user. Fails where this process may not become another user.
#[must_use]
pub fn another_user() -> OtherUser {
    let other = OtherUser { uid: 65534 };
    let tried = other.command("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(
        tried.is_ok_and(|status| status.success()),
        "this test needs root: it starts a process of uid 65534"
    );
    other
}

impl OtherUser {
    /// Returns a command that runs this program as the second user, in an empty environment.
    #[must_use]
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let id = self.uid.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    /// Gives a file or a directory to the second user.
    pub fn give(self, path: &std::path::Path) {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.uid)).expect("root may");
    }
}
