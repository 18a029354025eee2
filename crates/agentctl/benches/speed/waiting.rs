//! The time from the death of an agent to the end of `agentctl wait`, compared with a program that only
//! polls a pidfd.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::measure::Beside;

const AWAIT: &str = "--await";

/// Says whether this process is to wait for another one, and for which.
pub(crate) fn is_asked() -> Option<i32> {
    let mut args = std::env::args().skip(1);
    (args.next()? == AWAIT).then(|| args.next()?.parse().ok())?
}

/// Waits until that process has exited, with the least possible work.
pub(crate) fn plainly(pid: i32) {
    let process = Pid::from_raw(pid).expect("a pid");
    let handle = pidfd_open(process, PidfdFlags::empty()).expect("it lives");
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).expect("polled");
}

/// Returns the program that does so.
pub(crate) fn plain(pid: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("ourselves"));
    command.args([AWAIT, &pid.to_string()]).stdin(Stdio::null());
    command
}

/// Kills an agent while a waiter sleeps, and returns how long that took to end.
pub(crate) fn death(mut agent: Beside, waiter: &mut Command) -> Duration {
    let mut waiter = Beside::start(waiter);
    asleep(waiter.child.id());
    let start = Instant::now();
    agent.child.kill().expect("killed");
    let ended = waiter.child.wait().expect("it ends");
    let took = start.elapsed();
    assert!(ended.success(), "the waiter ended with {ended}");
    took
}

/// Waits until a process sleeps in `poll` or `ppoll`, on x86-64 and on arm64.
pub(crate) fn asleep(pid: u32) {
    let path = format!("/proc/{pid}/syscall");
    testkit::eventually("the waiter sleeps", || {
        let call = std::fs::read_to_string(&path).ok()?;
        ["7 ", "271 ", "73 "].iter().any(|n| call.starts_with(n)).then_some(())
    });
}
