//! The last step of an answer: a line into the standard input of the agent, or an order to our asker. Both are
//! complete when the receiver has said so.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{AnswerError, OpenAsk};
use crate::adapters::Look;
use crate::adapters::answering::{Answering, Echo, StdinLine};
use crate::adapters::asker::{AskerOrder, AskerReply};
use crate::host::Host;
use crate::kernel::Liveness;
use crate::model::ProcId;
use crate::talk::{TalkError, line};

/// Time for another writer to finish with the standard input of the agent.
const PIPE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the agent to echo an answer.
const ECHO_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the asker to check the caller and to reply.
const ASKER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the asker to bind its socket anew.
const BIND_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// An answer on its way.
pub(super) struct Handing<'a> {
    pub(super) host: &'a Host,
    pub(super) answering: &'a dyn Answering,
    pub(super) look: &'a Look,
    pub(super) now: &'a OpenAsk,
}

impl Handing<'_> {
    fn refused(&self, why: impl Into<String>) -> AnswerError {
        AnswerError::Refused(Box::new(self.now.ask.clone()), why.into())
    }

    fn gone(&self) -> AnswerError {
        AnswerError::Gone(Some(Box::new(self.now.ask.clone())), Vec::new())
    }

    fn unclear(&self, why: impl Into<String>) -> AnswerError {
        AnswerError::Unclear(Box::new(self.now.ask.clone()), why.into())
    }

    /// Writes a line into the standard input of the agent and waits for its reply, if it gives one.
    pub(super) fn write(&self, line: &StdinLine) -> Result<(), AnswerError> {
        let OpenAsk { session, ask, .. } = self.now;
        let StdinLine { process, bytes } = line;
        let written = self.host.kernel.write_to_stdin(process, bytes, PIPE_TIMEOUT);
        written.map_err(|error| self.refused(error.to_string()))?;
        let until = Instant::now() + ECHO_TIMEOUT;
        loop {
            // Checked before the look, so that a reply before the end is read.
            let has_ended = self.host.kernel.liveness(process) == Liveness::Gone;
            match self.answering.echo(self.look, session, ask, bytes) {
                Echo::None | Echo::Taken => return Ok(()),
                Echo::Settled(why) => return Err(self.refused(why)),
                Echo::Awaited if has_ended => return Err(self.gone()),
                Echo::Awaited if Instant::now() >= until => {
                    return Err(self.unclear("the agent has not said that it took the answer"));
                }
                Echo::Awaited => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Gives an answer to our asker. An asker whose socket is gone is told to bind it anew.
    pub(super) fn give_to_asker(
        &self,
        asker: &ProcId,
        socket: &Path,
        order: &AskerOrder,
    ) -> Result<(), AnswerError> {
        let kernel = &self.host.kernel;
        let exchange = || line::exchange(socket, kernel, asker, order, ASKER_TIMEOUT);
        let mut given: Result<AskerReply, TalkError> = exchange();
        let is_unheard = |given: &Result<AskerReply, TalkError>| {
            // Another process or user on that path: nothing was sent to it.
            given.as_ref().is_err_and(TalkError::is_unsent)
        };
        if is_unheard(&given) && kernel.signal(asker, Signal::HUP).unwrap_or(false) {
            let until = Instant::now() + BIND_TIMEOUT;
            while is_unheard(&given) && Instant::now() < until {
                std::thread::park_timeout(PAUSE);
                given = exchange();
            }
        }
        let was_sent = !is_unheard(&given);
        match given {
            Ok(AskerReply { taken: true, .. }) => Ok(()),
            Ok(AskerReply { why, .. }) => Err(self.refused(why.unwrap_or_default())),
            Err(_) if !was_sent && kernel.liveness(asker) == Liveness::Gone => Err(self.gone()),
            Err(error) if !was_sent => {
                Err(self.refused(format!("its asker cannot be reached: {error}")))
            }
            Err(error) => Err(self.unclear(format!("its asker: {error}"))),
        }
    }
}
