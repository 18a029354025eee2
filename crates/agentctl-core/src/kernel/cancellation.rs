//! Calls off an order while it runs: its programs are ended, and the order undoes what it made.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program may take to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A handle to call off an order from another thread. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a program has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// The process groups of the programs that run. None of them is reaped before it is removed here.
    groups: Vec<Pid>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No order that can be called off is running.
    #[default]
    Closed,
    /// An order is running.
    Open,
    /// The order was called off.
    Cancelled,
}

impl Cancellation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the order can be called off.
    pub(crate) fn open(&self) {
        self.state().phase = Phase::Open;
    }

    /// From now on the order cannot be called off any more. Returns false if it was before.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.state();
        let was_open = state.phase == Phase::Open;
        if was_open {
            state.phase = Phase::Closed;
        }
        was_open
    }

    /// Calls the order off: SIGTERM to its programs, SIGKILL to those that do not end. Returns false if there is
    /// nothing to call off, or if that was done before.
    #[must_use]
    pub fn cancel(&self) -> bool {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return false;
        }
        state.phase = Phase::Cancelled;
        end(&state.groups, Signal::TERM);
        drop(state);
        let this = self.clone();
        std::thread::spawn(move || {
            let running = |state: &mut State| !state.groups.is_empty();
            let waited = this.0.ended.wait_timeout_while(this.state(), GRACE, running);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            end(&state.groups, Signal::KILL);
        });
        true
    }

    /// Says whether the order was called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().phase == Phase::Cancelled
    }

    /// Ends this process group if the order is called off, until the result is dropped. That must happen before the
    /// leader of the group is reaped: then its number may belong to another process.
    pub(super) fn watch(&self, group: Pid) -> WatchedGroup {
        let mut state = self.state();
        state.groups.push(group);
        if state.phase == Phase::Cancelled {
            end(&[group], Signal::TERM);
        }
        WatchedGroup { cancellation: self.clone(), group }
    }
}

/// A process group that ends with its order.
pub(super) struct WatchedGroup {
    cancellation: Cancellation,
    group: Pid,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        self.cancellation.state().groups.retain(|group| *group != self.group);
        self.cancellation.0.ended.notify_all();
    }
}

fn end(groups: &[Pid], signal: Signal) {
    for group in groups {
        let _gone = kill_process_group(*group, signal);
    }
}
