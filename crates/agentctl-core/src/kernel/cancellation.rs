//! Calls off an order while it runs: its programs are ended, and the order undoes what it made.

use std::io;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::parent_death::ParentDeath;

/// How long a program may take to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How long the start of a program is waited for before this process ends: the file of a program can be on a file system
/// that does not answer.
const START_LIMIT: Duration = Duration::from_secs(2);

/// A handle to call off orders from another thread. Clones share one state, and each order that runs has its own
/// [`OpenOrder`].
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a program has started or ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of orders that run and can be called off.
    orders: usize,
    /// The orders were called off.
    is_cancelled: bool,
    /// The number of programs that are being started: their process groups are not known yet.
    starting: usize,
    /// This process ends at once, and starts no further program.
    is_abandoned: bool,
    /// The process groups of the programs that run. None of them is reaped before it is removed here.
    groups: Vec<(Pid, ParentDeath)>,
}

/// An order that can be called off until it is closed or dropped.
#[derive(Debug)]
#[must_use]
pub struct OpenOrder {
    cancellation: Cancellation,
    is_open: bool,
}

impl OpenOrder {
    /// From now on the order cannot be called off any more. Returns false if it was before.
    pub(crate) fn close(&mut self) -> bool {
        if !std::mem::take(&mut self.is_open) {
            return false;
        }
        let mut state = self.cancellation.state();
        state.orders -= 1;
        !state.is_cancelled
    }
}

impl Drop for OpenOrder {
    fn drop(&mut self) {
        self.close();
    }
}

impl Cancellation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an order that can be called off. Orders that are called off stay so until all of them have ended.
    pub fn open(&self) -> OpenOrder {
        let mut state = self.state();
        if state.orders == 0 {
            state.is_cancelled = false;
        }
        state.orders += 1;
        OpenOrder { cancellation: self.clone(), is_open: true }
    }

    /// Calls all open orders off: SIGTERM to their programs, SIGKILL to those that do not end. Returns false if there
    /// is nothing to call off, or if that was done before.
    #[must_use]
    pub fn cancel(&self) -> bool {
        let mut state = self.state();
        if state.orders == 0 || state.is_cancelled {
            return false;
        }
        state.is_cancelled = true;
        end(&state.groups, Signal::TERM);
        drop(state);
        let this = self.clone();
        std::thread::spawn(move || {
            let running = |state: &mut State| !state.groups.is_empty();
            let waited = this.0.changed.wait_timeout_while(this.state(), GRACE, running);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            end(&state.groups, Signal::KILL);
        });
        true
    }

    /// Kills the programs that do not outlive this process, with their process groups: before this process ends without
    /// waiting for its orders. The kernel would kill their leaders only. While the result is held no order notices the
    /// end of its program, so none begins to undo what it cannot finish.
    pub fn abandon(&self) -> Abandoned<'_> {
        let mut state = self.state();
        state.is_abandoned = true;
        // The process group of a program that is being started is not known before it has started.
        let is_starting = |state: &mut State| state.starting > 0;
        let waited = self.0.changed.wait_timeout_while(state, START_LIMIT, is_starting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let dying = state.groups.iter().filter(|(_, fate)| *fate == ParentDeath::Kill);
        for (group, _) in dying {
            let _gone = kill_process_group(*group, Signal::KILL);
        }
        Abandoned { state, changed: &self.0.changed }
    }

    /// Says whether the last orders were called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Starts a program as the leader of a process group of its own. The group is ended if the order is called off, also
    /// during the start, until the second result is dropped. That must happen before the leader is reaped: then its
    /// number may belong to another process.
    pub(super) fn start(
        &self,
        fate: ParentDeath,
        spawn: impl FnOnce() -> io::Result<Child>,
    ) -> io::Result<(Child, WatchedGroup)> {
        let state = self.0.changed.wait_while(self.state(), |state| state.is_abandoned);
        state.unwrap_or_else(PoisonError::into_inner).starting += 1;
        let started = spawn();
        let mut state = self.state();
        state.starting -= 1;
        self.0.changed.notify_all();
        let child = started?;
        let group = Pid::from_child(&child);
        state.groups.push((group, fate));
        if state.is_cancelled {
            end(&[(group, fate)], Signal::TERM);
        }
        drop(state);
        Ok((child, WatchedGroup { cancellation: self.clone(), group }))
    }
}

/// The orders of a process that ends at once.
#[must_use]
pub struct Abandoned<'a> {
    state: MutexGuard<'a, State>,
    changed: &'a Condvar,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.state.is_abandoned = false;
        self.changed.notify_all();
    }
}

/// A process group that ends with its order.
pub(super) struct WatchedGroup {
    cancellation: Cancellation,
    group: Pid,
}

impl WatchedGroup {
    /// Returns the number of the group, which is that of its leader.
    pub(super) fn group(&self) -> Pid {
        self.group
    }
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        self.cancellation.state().groups.retain(|(group, _)| *group != self.group);
        self.cancellation.0.changed.notify_all();
    }
}

fn end(groups: &[(Pid, ParentDeath)], signal: Signal) {
    for (group, _) in groups {
        let _gone = kill_process_group(*group, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // this room starts programs
    fn a_program_that_is_being_started_is_killed_before_its_process_ends() {
        let cancellation = Cancellation::default();
        let abandoning = |from: Pid| {
            let cancellation = cancellation.clone();
            move || {
                let held = cancellation.abandon();
                let known = held.state.groups.iter().any(|(group, _)| *group == from);
                drop(held);
                known
            }
        };
        let mut second_signal = None;
        let started = cancellation.start(ParentDeath::Kill, || {
            let child = Command::new("sleep").arg("600").process_group(0).spawn()?;
            let abandons = std::thread::spawn(abandoning(Pid::from_child(&child)));
            // The second signal comes while the program has started and its group is not known.
            while !cancellation.state().is_abandoned && !abandons.is_finished() {
                std::thread::yield_now();
            }
            second_signal = Some(abandons);
            Ok(child)
        });
        let (mut child, watched) = started.expect("started");
        let was_known = second_signal.expect("a thread").join().expect("ended");
        // Kept from running on if it was not killed.
        let _gone =
            if was_known { Ok(()) } else { kill_process_group(watched.group(), Signal::TERM) };
        drop(watched);
        let end = child.wait().expect("waited").signal();
        assert_eq!((was_known, end), (true, Some(Signal::KILL.as_raw())));
    }

    #[test]
    fn an_order_that_ends_does_not_close_another() {
        let cancellation = Cancellation::default();
        let (mut first, mut second) = (cancellation.open(), cancellation.open());
        assert!(first.close());
        assert!(!first.close(), "it was closed before");
        assert!(second.close(), "the end of the first order does not concern it");
        assert!(!cancellation.cancel(), "nothing runs");
        let (mut third, fourth) = (cancellation.open(), cancellation.open());
        drop(fourth);
        assert!(cancellation.cancel());
        assert!(!third.close() && cancellation.is_cancelled());
        assert!(cancellation.open().close(), "a new order is not called off");
    }
}
