//! Stopping a session by the agent's own command, or by a request to its server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{
    Agents, EndedProcess, How, KILL_TIMEOUT, SERVER_POLL_INTERVAL, StopVerdict, Stopping, tree,
};
use crate::adapters::{Look, Root};
use crate::fleet;
use crate::kernel::{Held, Spawn, Stdio};
use crate::model::{Fault, Session, Status};

/// Timeout of the agent's own stop command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the exit of the agent's process after its stop command has succeeded.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a session at rest to leave by itself.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The agent's own stop command.
pub(super) struct AgentCommand {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) set: Vec<(String, String)>,
}

impl AgentCommand {
    fn shown(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        let words = std::iter::once(name).chain(self.args.iter().map(OsString::as_os_str));
        words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

fn resting(session: &Session) -> bool {
    session.status == Status::Idle || !session.status.is_live()
}

/// The state of a turn after its server was asked to end it.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// The turn is over.
    Over,
    GoesOn,
    /// The session's adapter could not be asked, for this reason.
    Nothing(String),
}

fn heard(adapter: &str, session: Option<&Session>, faults: &[Fault]) -> Heard {
    match (session, faults.iter().find(|f| f.adapter == adapter)) {
        (Some(session), _) if !resting(session) => Heard::GoesOn,
        (None, Some(fault)) => Heard::Nothing(fault.message.clone()),
        _ => Heard::Over,
    }
}

impl Stopping<'_> {
    /// Asks a session at rest to leave by itself, where its agent takes such a request. The signals follow all
    /// the same; a process that has left does not get them.
    pub(super) fn ask_to_leave(&self, look: &Look, session: &Session, agents: &Agents) {
        let may_ask = !self.options.force && session.status == Status::Idle;
        if may_ask && self.control.ask_to_leave(look, session) {
            let _left = Held::wait_for_all(&agents.held, LEAVE_TIMEOUT.min(self.left() / 2));
        }
    }

    /// Runs the agent's own stop command and waits for the exit of its process. The process is not
    /// signalled, because its supervisor would restart it.
    pub(super) fn ask_program(
        &mut self,
        agents: &Agents,
        command: &AgentCommand,
    ) -> Result<(), StopVerdict> {
        let shown = command.shown();
        let failed = |why: String| StopVerdict::Failed(format!("`{shown}` {why}"));
        let began = Instant::now();
        let code = self
            .run_program(command)
            .map_err(|error| failed(format!("could not be run: {error}")))?;
        let dead = Held::wait_for_all(&agents.held, EXIT_TIMEOUT).unwrap_or(false);
        for process in &agents.shown {
            if agents.held.iter().any(|h| h.id() == &process.id && h.has_exited()) {
                let command = tree::command(process);
                self.ended.push(EndedProcess { pid: process.id.pid, command, how: How::Asked });
            }
        }
        // The time of the agent's own command does not count against the timeout.
        self.deadline += began.elapsed();
        match code {
            Some(0) if dead => Ok(()),
            _ if dead && !agents.held.is_empty() => Ok(()),
            Some(0) => Err(failed("was accepted, but the process is still running".into())),
            Some(code) => Err(failed(format!("failed with exit code {code}"))),
            None => Err(failed("timed out".into())),
        }
    }

    /// Returns the exit code; `None` when the timeout passed and the command was killed.
    fn run_program(&self, command: &AgentCommand) -> std::io::Result<Option<i32>> {
        let set = command.set.iter().map(|(k, v)| (k.into(), v.into()));
        let spawn = Spawn {
            program: command.program.clone(),
            args: command.args.clone(),
            set: set.collect(),
            unset: Vec::new(),
            cwd: self.fleet.host.home.clone(),
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            keep: Vec::new(),
        };
        let exit = spawn.attended(COMMAND_TIMEOUT, 4 << 10)?.exit;
        Ok(exit.map(|exit| exit.code.unwrap_or(-1)))
    }

    /// Asks the server that hosts the session to end the turn, and waits until it is over.
    pub(super) fn ask_server(
        &mut self,
        look: &Look,
        root: &Root,
        session: &Session,
    ) -> Result<(), StopVerdict> {
        let asked = self.control.interrupt(look, root, session);
        if let Err(why) = asked {
            return if resting(session) { Ok(()) } else { Err(StopVerdict::Failed(why)) };
        }
        // The exit of the server ends the session as well, so its processes are watched meanwhile.
        let servers: Vec<Held> = session
            .processes
            .iter()
            .filter_map(|p| self.fleet.host.kernel.hold(&p.id).ok().flatten())
            .collect();
        loop {
            let now = fleet::inspect(self.fleet, self.target);
            let why = match heard(self.adapter.name(), now.session.as_ref(), &now.faults) {
                Heard::Over => return Ok(()),
                Heard::GoesOn => StopVerdict::Failed(
                    "its server accepted the request, but its turn continues".into(),
                ),
                Heard::Nothing(why) => StopVerdict::Unknown(format!(
                    "its server accepted the request, but could not be asked again: {why}"
                )),
            };
            if self.left().is_zero() {
                return Err(why);
            }
            let gone = servers.is_empty()
                || Held::wait_for_all(&servers, SERVER_POLL_INTERVAL).unwrap_or(true);
            if gone && Held::wait_for_all(&servers, KILL_TIMEOUT).unwrap_or(true) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FaultCode;

    #[test]
    fn a_look_that_failed_does_not_say_that_the_turn_is_over() {
        let fault = |adapter| Fault {
            adapter,
            root: None,
            code: FaultCode::Timeout,
            message: "late".into(),
        };
        assert_eq!(heard("a", None, &[fault("a")]), Heard::Nothing("late".into()));
        assert_eq!(heard("a", None, &[fault("b")]), Heard::Over, "another's silence says nothing");
        assert_eq!(heard("a", None, &[]), Heard::Over);
    }
}
