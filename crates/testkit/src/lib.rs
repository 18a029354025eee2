//! Shared parts of tests: a private pid namespace, a home of its own, a fake agent, waiting for
//! conditions.
//!
//! A test that looks at or ends processes wraps its body in [`sandboxed`]: it then runs in a pid
//! namespace that contains only its own processes and ends them with it. Without a namespace the test
//! fails; it never skips.
// Tests start programs, read their surroundings, and panic on a wrong result.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::missing_panics_doc)]
#![allow(clippy::print_stdout)] // into the test runner's capture

mod changing;
mod cpu_clock;
pub mod gateway;
pub mod generate;
mod hmac;
mod home;
mod namespace;
mod other_user;
mod pseudo_terminal;
pub mod receiver;
mod recycle;
mod repository;
pub mod styled_screen;
pub mod svg;
pub mod tls;

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

pub use changing::{Changing, replace_changing};
pub use cpu_clock::cpu_time;
pub use hmac::{hex, hmac_sha256};
pub use home::{Agent, Output, TestHome, mark_as_bundle};
pub use namespace::UserNamespace;
pub use other_user::{OtherUser, another_user};
pub use pseudo_terminal::PseudoTerminal;
pub use recycle::{Dice, Echo, after_tick, next_pid, rounds, spawn_at};
pub use repository::Repository;

const INSIDE: &str = "AGENTCTL_TEST_INSIDE";

/// The fields of a session that only `status` fills: they need the whole record, or the run.
pub const STATUS_FIELDS: [&str; 7] = [
    "branch",
    "context_tokens",
    "context_window",
    "duration_seconds",
    "ended_by",
    "last_message",
    "turns",
];

/// Runs a test's body in a private pid namespace: its own executable is started again there.
///
/// Must be called with a closure, directly in the test function: that is how the test is named.
pub fn sandboxed<F: FnOnce()>(body: F) {
    // `it::room::test_name::{{closure}}`; the runner knows it without the crate's name.
    let name = std::any::type_name::<F>();
    let name = name.strip_suffix("::{{closure}}").unwrap_or(name);
    let name = name.split_once("::").map_or(name, |(_, rest)| rest);
    if std::env::var_os(INSIDE).is_some() {
        body();
        return;
    }
    let mut command = again_in_a_namespace();
    // The runner has decided that this test runs, ignored or not.
    command.args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"]);
    let output = command.output().expect("`unshare` of util-linux");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "in its private pid namespace {name} failed:\n{said}");
    assert!(said.contains("1 passed"), "the namespace ran no test named {name}:\n{said}");
    // Its output (counts, the seed) is useful for a passing test too: see `--nocapture`.
    print!("{said}");
}

/// Returns the fake agent's program, from the target directory this test runs in.
#[must_use]
pub fn fake_agent() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    let mut found = test.ancestors().skip(1).take(2).map(|dir| dir.join("fake-agent"));
    found.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!(
            "no fake-agent near {}; test the whole workspace so that it is built",
            test.display()
        )
    })
}

/// Starts this very program again in a private pid namespace, with the same arguments, and returns how
/// it ended; `None` means that we are inside.
#[must_use]
pub fn namespaced() -> Option<ExitStatus> {
    if std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let mut command = again_in_a_namespace();
    let status = command.args(std::env::args_os().skip(1)).status();
    Some(status.expect("`unshare` of util-linux"))
}

fn again_in_a_namespace() -> Command {
    let program = std::env::current_exe().expect("this very program");
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    // Background processes of a shell ignore some signals, and so would their children.
    command.args(["env", "--default-signal=HUP,INT,QUIT"]).arg(program);
    command.env(INSIDE, "1");
    command
}

/// How long a condition is waited for: a machine may be slow, and a test that would wait longer is stuck.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until a condition holds; on a timeout the panic names the condition.
#[track_caller]
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    eventually_or(what, String::new, condition)
}

/// Like [`eventually`], with a report of the state on a timeout.
#[track_caller]
pub fn eventually_or<T>(
    what: &str,
    stand: impl FnOnce() -> String,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < until, "waited {PATIENCE:?} in vain until {what}; {}", stand());
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
