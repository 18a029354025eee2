//! The two ways of ending a session that need somebody else: its agent's own command, its server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Agents, DEATH, EndedProcess, How, PACE, StopVerdict, Stopping, tree};
use crate::adapters::{Look, Root};
use crate::fleet;
use crate::kernel::{Held, Spawn, Stdio};
use crate::model::{Fault, Session, Status};

/// How long the agent's own command may take.
const COMMAND: Duration = Duration::from_secs(10);
/// How long the agent's process may live after its command has done its work.
const AFTER: Duration = Duration::from_secs(5);

/// The agent's own command.
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

/// What a look at a session says after its server was asked to end its turn.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Its turn is over.
    Over,
    GoesOn,
    /// Whoever knows it could not be asked.
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
    /// Runs the agent's own command and waits for its process to end. That process is never signalled:
    /// whoever keeps it would start it again.
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
        let dead = Held::wait_for_all(&agents.held, AFTER).unwrap_or(false);
        for process in &agents.shown {
            if agents.held.iter().any(|h| h.id() == &process.id && h.has_exited()) {
                let command = tree::command(process);
                self.ended.push(EndedProcess { pid: process.id.pid, command, how: How::Asked });
            }
        }
        // What it took is the agent's own politeness.
        self.deadline += began.elapsed();
        match code {
            Some(0) if dead => Ok(()),
            _ if dead && !agents.held.is_empty() => Ok(()),
            Some(0) => Err(failed("was taken, yet the process lives on".into())),
            Some(code) => Err(failed(format!("failed with exit code {code}"))),
            None => Err(failed("did not come back in time".into())),
        }
    }

    /// Returns its exit code; `None` when it took too long and was killed.
    fn run_program(&self, command: &AgentCommand) -> std::io::Result<Option<i32>> {
        let set = command.set.iter().map(|(k, v)| (k.into(), v.into()));
        let spawn = Spawn {
            program: command.program.clone(),
            args: command.args.clone(),
            set: set.collect(),
            unset: Vec::new(),
            cwd: self.host.home.clone(),
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            keep: Vec::new(),
        };
        let exit = spawn.attended(COMMAND, 4 << 10)?.exit;
        Ok(exit.map(|exit| exit.code.unwrap_or(-1)))
    }

    /// Asks the server that hosts the session, and waits until its turn is over.
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
        // The server's end would end the session too; until then its word is waited for.
        let servers: Vec<Held> = session
            .processes
            .iter()
            .filter_map(|p| self.host.kernel.hold(&p.id).ok().flatten())
            .collect();
        loop {
            let now = fleet::inspect(self.host, self.adapters, self.target);
            let why = match heard(self.adapter.name(), now.session.as_ref(), &now.faults) {
                Heard::Over => return Ok(()),
                Heard::GoesOn => {
                    StopVerdict::Failed("its server took the request, yet its turn goes on".into())
                }
                Heard::Nothing(why) => StopVerdict::Unknown(format!(
                    "its server took the request, yet could not be asked again: {why}"
                )),
            };
            if self.left().is_zero() {
                return Err(why);
            }
            let gone = servers.is_empty() || Held::wait_for_all(&servers, PACE).unwrap_or(true);
            if gone && Held::wait_for_all(&servers, DEATH).unwrap_or(true) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_failed_does_not_say_that_the_turn_is_over() {
        let fault =
            |adapter| Fault { adapter, root: None, code: "timeout", message: "late".into() };
        assert_eq!(heard("a", None, &[fault("a")]), Heard::Nothing("late".into()));
        assert_eq!(heard("a", None, &[fault("b")]), Heard::Over, "another's silence says nothing");
        assert_eq!(heard("a", None, &[]), Heard::Over);
    }
}
