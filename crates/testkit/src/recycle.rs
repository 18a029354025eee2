//! Gives a pid to a new process on purpose, and bystanders that can prove they were left alone.
//!
//! Only for tests inside a private pid namespace: no other process forks there, so the next pid is the
//! requested one. Nothing here uses the code under test; it is part of the oracle.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::eventually;

/// How many rounds a recycling test plays: `AGENTCTL_RECYCLE_ROUNDS`, or this many.
#[must_use]
pub fn rounds(default: u32) -> u32 {
    std::env::var("AGENTCTL_RECYCLE_ROUNDS").map_or(default, |n| n.parse().expect("a number"))
}

/// Chance that can be repeated: the seed is `AGENTCTL_SEED`, or new each time and printed by the test.
#[derive(Debug)]
pub struct Dice {
    /// The value of `AGENTCTL_SEED` that repeats these throws.
    pub seed: u64,
    state: u64,
}

impl Dice {
    /// Takes the seed from the environment, or else from the clock.
    #[must_use]
    pub fn new() -> Self {
        Self::from("AGENTCTL_SEED")
    }

    /// Takes the seed from this variable of the environment, or else from the clock.
    #[must_use]
    pub fn from(variable: &str) -> Self {
        let seed = std::env::var(variable).map_or_else(
            |_| {
                let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
                u64::from(now.subsec_nanos()) ^ now.as_secs()
            },
            |s| s.parse().expect("a number"),
        );
        Self { seed, state: seed }
    }

    /// Returns a number below `limit` (splitmix64).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    /// Picks one of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("an index")]
    }
}

impl Default for Dice {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the next process or thread of this pid namespace get this pid, which must be free.
pub fn next_pid(pid: u32) {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
        .expect("a private pid namespace lets us choose");
}

/// Starts a command under this very pid.
pub fn spawn_at(pid: u32, command: &mut Command) -> Child {
    next_pid(pid);
    let child = command.spawn().expect("started");
    assert_eq!(child.id(), pid, "the pid was not free");
    child
}

/// Waits until the clock that start times are taken from is past this tick.
pub fn after_tick(tick: u64) {
    eventually("the clock ticks on", || {
        let text = std::fs::read_to_string("/proc/uptime").expect("an uptime");
        // Hundredths of a second, as start times are.
        let now: u64 = text.split(' ').next()?.replace('.', "").parse().expect("a number");
        (now > tick).then_some(())
    });
}

/// A process (`cat`) that shows, when asked, that no signal has ended or stopped it.
#[derive(Debug)]
pub struct Echo {
    /// The child.
    pub child: Child,
}

impl Echo {
    /// Starts a process of this program, which must be `cat` under any name, with this pid if one is
    /// given.
    #[must_use]
    pub fn start(program: &str, pid: Option<u32>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = match pid {
            Some(pid) => spawn_at(pid, &mut command),
            None => command.spawn().expect("started"),
        };
        Self { child }
    }

    /// Returns its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says whether it still answers. A dead or stopped process does not.
    pub fn answers(&mut self) -> bool {
        let (stdin, stdout) = (self.child.stdin.as_mut(), self.child.stdout.as_mut());
        let (stdin, stdout) = (stdin.expect("piped"), stdout.expect("piped"));
        if stdin.write_all(b"?").is_err() {
            return false;
        }
        let limit = Timespec::try_from(Duration::from_mins(1)).expect("a minute");
        let mut ready = [PollFd::new(stdout, PollFlags::IN)];
        poll(&mut ready, Some(&limit)).expect("polled");
        let heard = !ready[0].revents().is_empty();
        heard && stdout.read(&mut [0]).expect("read") == 1
    }

    /// Kills it with SIGKILL and reaps it: its pid is free.
    pub fn end(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
