//! A second user, for attacks that only another user of the machine can make.
//!
//! Becoming another user needs root. A test that needs it asks [`another_user`] first and returns when
//! there is none: the reason is printed. In CI (`CI` is set) the test fails instead, so that such a test
//! is never left out by accident.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The user `nobody`, who owns nothing of the test.
#[derive(Clone, Copy, Debug)]
pub struct OtherUser {
    /// The uid, and the gid.
    pub uid: u32,
}

/// Returns the second user, or says why the test cannot be made.
#[must_use]
pub fn another_user() -> Option<OtherUser> {
    let other = OtherUser { uid: 65534 };
    let tried = other.command("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) {
        return Some(other);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "this test needs root: it starts a process of uid 65534"
    );
    println!("not tested: needs root, since it starts a process of uid 65534");
    None
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
