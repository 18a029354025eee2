//! SIGINT, SIGTERM and SIGHUP while a launch makes worktrees: they are removed again, then the command ends by the signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use agentctl_core::kernel::{Cancellation, is_ignored};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;
use crate::ui::Ui;

/// The signals of this process during a launch.
pub(super) struct Interrupt {
    cancellation: Cancellation,
    /// The signal that called the launch off; 0 if none did.
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// Calls the launch off at the first signal. A second one, and any one while no worktree is made, ends this process
    /// at once. Signals that this process ignores stay ignored.
    pub(super) fn listen(cancellation: &Cancellation) -> Result<Self, Failure> {
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|number| !is_ignored(*number));
        let mut signals = Signals::new(heard)?;
        let (cancellation, signal) = (cancellation.clone(), Arc::new(AtomicI32::new(0)));
        let this = Self { cancellation: cancellation.clone(), signal: Arc::clone(&signal) };
        std::thread::spawn(move || {
            for number in signals.forever() {
                signal.store(number, Ordering::SeqCst);
                if !cancellation.cancel() {
                    let _ended = emulate_default_handler(number);
                }
            }
        });
        Ok(this)
    }

    /// Passes on the result of a launch. If a signal called the launch off, the failure is printed and this process ends
    /// by that signal, as a shell expects it.
    pub(super) fn end<T>(&self, ui: &mut Ui, launched: Result<T, Failure>) -> Result<T, Failure> {
        match launched {
            Err(failure) if self.cancellation.is_cancelled() => {
                ui.error(failure.message());
                let _ended = emulate_default_handler(self.signal.load(Ordering::SeqCst));
                Err(failure)
            }
            launched => launched,
        }
    }
}
