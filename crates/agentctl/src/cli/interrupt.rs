//! SIGINT, SIGTERM and SIGHUP while a command carries out an order that can be called off: what the order made is
//! undone, its programs are ended, then the command ends by the signal.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_core::kernel::{Cancellation, is_ignored};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;
use crate::ui::Ui;

/// The signals of this process during an order.
pub(super) struct Interrupt {
    cancellation: Cancellation,
    /// The signal that called the order off; 0 if none did.
    signal: Arc<AtomicI32>,
    /// The message for a signal that ends this process while there is nothing to call off.
    last_words: Arc<Mutex<Option<String>>>,
}

impl Interrupt {
    /// Calls the order off at the first signal. A second one, and any one while there is nothing to call off, ends this
    /// process at once, with the setup and verify programs that run. Signals that this process ignores stay ignored.
    pub(super) fn listen(cancellation: &Cancellation) -> Result<Self, Failure> {
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|number| !is_ignored(*number));
        let mut signals = Signals::new(heard)?;
        let (cancellation, signal) = (cancellation.clone(), Arc::new(AtomicI32::new(0)));
        let last_words = Arc::new(Mutex::new(None));
        let this = Self {
            cancellation: cancellation.clone(),
            signal: Arc::clone(&signal),
            last_words: Arc::clone(&last_words),
        };
        std::thread::spawn(move || {
            for number in signals.forever() {
                signal.store(number, Ordering::SeqCst);
                if !cancellation.cancel() {
                    let _held = cancellation.abandon();
                    let words: Option<String> =
                        last_words.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(words) = words {
                        crate::ui::last_words(&words);
                    }
                    let _ended = emulate_default_handler(number);
                }
            }
        });
        Ok(this)
    }

    /// Sets what is said when a signal ends this process from here on: the order was carried out.
    pub(super) fn set_last_words(&self, words: String) {
        *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }

    /// Passes on the result of an order. If a signal called the order off, the failure is printed with its hints and
    /// this process ends by that signal, as a shell expects it.
    pub(super) fn end<T>(&self, ui: &mut Ui, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Err(failure) if self.cancellation.is_cancelled() => {
                let _code = failure.clone().report(ui);
                ui.flush()?;
                let _ended = emulate_default_handler(self.signal.load(Ordering::SeqCst));
                Err(failure)
            }
            result => result,
        }
    }

    /// Ends this process by the signal that called an order off, if one did: for an order whose result was printed
    /// up to there.
    pub(super) fn end_called_off(&self, ui: &mut Ui, message: &str) -> std::io::Result<()> {
        if self.cancellation.is_cancelled() {
            ui.flush()?;
            ui.error(message);
            let _ended = emulate_default_handler(self.signal.load(Ordering::SeqCst));
        }
        Ok(())
    }
}
