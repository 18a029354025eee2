//! Calls off an order while it runs: its programs are ended, and the order undoes what it made.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::parent_death::ParentDeath;

/// How long a program may take to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A handle to call off orders from another thread. Clones share one state, and each order that runs has its own
/// `OpenOrder`.
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
    /// The number of orders that run and can be called off.
    orders: usize,
    /// The orders were called off.
    is_cancelled: bool,
    /// The process groups of the programs that run. None of them is reaped before it is removed here.
    groups: Vec<(Pid, ParentDeath)>,
}

/// An order that can be called off until it is closed or dropped.
#[derive(Debug)]
pub(crate) struct OpenOrder {
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

    /// Begins an order that can be called off.
    pub(crate) fn open(&self) -> OpenOrder {
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
            let waited = this.0.ended.wait_timeout_while(this.state(), GRACE, running);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            end(&state.groups, Signal::KILL);
        });
        true
    }

    /// Kills the programs that do not outlive this process, with their process groups: before this process ends without
    /// waiting for its orders. The kernel would kill their leaders only. While the result is held no order notices the
    /// end of its program, so none begins to undo what it cannot finish.
    pub fn abandon(&self) -> Abandoned<'_> {
        let state = self.state();
        let dying = state.groups.iter().filter(|(_, fate)| *fate == ParentDeath::Kill);
        for (group, _) in dying {
            let _gone = kill_process_group(*group, Signal::KILL);
        }
        Abandoned(state)
    }

    /// Says whether the last orders were called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Ends this process group if the order is called off, until the result is dropped. That must happen before the
    /// leader of the group is reaped: then its number may belong to another process.
    pub(super) fn watch(&self, group: Pid, fate: ParentDeath) -> WatchedGroup {
        let mut state = self.state();
        state.groups.push((group, fate));
        if state.is_cancelled {
            end(&[(group, fate)], Signal::TERM);
        }
        WatchedGroup { cancellation: self.clone(), group }
    }
}

/// The orders of a process that ends at once.
#[must_use]
pub struct Abandoned<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, State>);

/// A process group that ends with its order.
pub(super) struct WatchedGroup {
    cancellation: Cancellation,
    group: Pid,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        self.cancellation.state().groups.retain(|(group, _)| *group != self.group);
        self.cancellation.0.ended.notify_all();
    }
}

fn end(groups: &[(Pid, ParentDeath)], signal: Signal) {
    for (group, _) in groups {
        let _gone = kill_process_group(*group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
