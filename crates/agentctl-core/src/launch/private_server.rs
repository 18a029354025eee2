//! A launch whose order a server of the agent carries out: the server is started for this run only, is asked to
//! begin once it answers, and is attended by the shim.

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::LaunchError;
use super::first_output::{AgentEnd, FirstOutputWait, last_output};
use crate::adapters::control::{PrivateServer, Refusal, Unbegun};
use crate::adapters::{Adapter, Depth, Root, Turn};
use crate::fleet::{self, Fleet};
use crate::kernel::Liveness;
use crate::model::{Exit, ProcId, Status, Target, is_session_id};
use crate::resolve::resolve;
use crate::runs::{Run, ServerStay};
use crate::talk::Heard;
use crate::wait::{self, End, Quorum, Until, WaitOptions};

/// A server may take this many times the time that an agent may take until its first output.
const START_FACTOR: u32 = 4;
/// Pause between two questions to a server that does not answer yet, and between two looks of the shim.
const PAUSE: Duration = Duration::from_millis(100);
/// Time for a launcher that holds no lock on the folder of its run to write the session.
const UNLOCKED_LAUNCH: Duration = Duration::from_mins(2);
/// Time that a session rests before its server is ended although its record shows an open turn.
const OPEN_RECORD_GRACE: Duration = Duration::from_secs(30);
/// Longest time between two looks of the shim at a session.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Time for a server to leave after SIGTERM.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Looks that miss the session in a row before its server is ended.
const MAX_MISSES: u32 = 20;
/// Pause before a lost connection to the server is made again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Time to connect to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl FirstOutputWait<'_> {
    /// Waits until the server of the run answers, and has it begin the session. The order is sent once.
    pub(super) fn for_server(
        &mut self,
        server: &dyn PrivateServer,
    ) -> Result<(String, Option<ProcId>), LaunchError> {
        let agent = self.launch.adapter.name();
        let message = std::str::from_utf8(&self.launch.prompt)
            .map_err(|_| Refusal::new("the prompt is not UTF-8", "a server takes text only"))?;
        let limit = START_FACTOR * self.fleet.host.deadlines.launch;
        let until = Instant::now() + limit;
        let failed = |words: String| {
            let advice = self.control.advice(&words);
            Err(LaunchError::Failed { agent, words, advice })
        };
        loop {
            if let Some(AgentEnd(exit)) = self.over() {
                return Err(self.died(exit, &self.first_output()));
            }
            self.launch.check_called_off()?;
            if let Some(process) = self.process() {
                let look = fleet::look(self.fleet, limit);
                match server.begin(&look, &process, &self.launch.order, message) {
                    Ok(Some(id)) if is_session_id(&id) => return Ok((id, Some(process))),
                    Ok(Some(id)) => {
                        return failed(format!("its server began `{id}`, no session id"));
                    }
                    Ok(None) => {}
                    Err(Unbegun::Refused(refusal)) => return failed(refusal.message),
                    Err(Unbegun::Unclear(why)) => return failed(why),
                }
            }
            if Instant::now() >= until {
                let first = self.first_output();
                let words = last_output(&first.0, &first.1);
                return Err(LaunchError::Silent { agent, limit, words });
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

/// Attends the server of a run, in the shim: ends it once its session is idle, or keeps its session loaded.
/// `exit` receives the exit to record before the server is ended here.
pub fn attend_server(fleet: &Fleet, run: &Run, server: &ProcId, exit: &OnceLock<Exit>) {
    let Some(spec) = run.spec() else { return };
    let Some((stay, adapter)) = spec.server.zip(fleet.adapter(&spec.adapter)) else { return };
    let attended = Attended { fleet, adapter, server };
    let outcome = match (stay, attended.session(run)) {
        (ServerStay::Kept, Some(session)) => return attended.keep_loaded(&session),
        (ServerStay::UntilIdle, Some(session)) => attended.until_idle(&session),
        // Its launcher was killed before the session began.
        (_, None) => None,
    };
    if attended.lives() {
        let code = i32::from(outcome != Some(Turn::Finished));
        let _first = exit.set(Exit { code: Some(code), signal: None });
        attended.end();
    }
}

/// The server of a run, as its shim sees it.
struct Attended<'a> {
    fleet: &'a Fleet,
    adapter: &'static dyn Adapter,
    server: &'a ProcId,
}

impl Attended<'_> {
    fn lives(&self) -> bool {
        self.fleet.host.kernel.liveness(self.server) != Liveness::Gone
    }

    /// Waits for the session that the launcher writes; `None` if it never will.
    fn session(&self, run: &Run) -> Option<String> {
        let mut unlocked: Option<Instant> = None;
        while self.lives() {
            if let Some(session) = run.session() {
                return Some(session);
            }
            if run.is_being_launched() {
                unlocked = None;
            } else if unlocked.get_or_insert_with(Instant::now).elapsed() > UNLOCKED_LAUNCH {
                return None;
            }
            std::thread::park_timeout(PAUSE);
        }
        None
    }

    /// Waits until the session rests and its record holds the end of its turn. A session that waits for a human
    /// is waited for without a limit.
    fn until_idle(&self, session: &str) -> Option<Turn> {
        // The status of a server may change without a sign that wakes the wait.
        let options = WaitOptions {
            until: Until::Status(Status::Idle),
            quorum: Quorum::All,
            timeout: Some(LOOK_AGAIN),
        };
        let mut idle_since: Option<Instant> = None;
        let mut misses = 0;
        while self.lives() && misses < MAX_MISSES {
            let found = resolve(self.fleet, &format!("{}:{session}", self.adapter.name()));
            let ended = found.targets.first().and_then(|target| {
                let targets = std::slice::from_ref(target);
                Some((wait::wait(self.fleet, targets, options, &mut |_| {}).ok()?.end, target))
            });
            match ended {
                Some((End::Reached, target)) => {
                    misses = 0;
                    let turn = self.turn(target);
                    let since = idle_since.get_or_insert_with(Instant::now);
                    if is_over(turn.as_ref()) || since.elapsed() > OPEN_RECORD_GRACE {
                        return turn;
                    }
                }
                Some((End::TimedOut, _)) => (idle_since, misses) = (None, 0),
                _ => (idle_since, misses) = (None, misses + 1),
            }
            std::thread::park_timeout(2 * PAUSE);
        }
        None
    }

    /// Reads the last turn of the session from its record.
    fn turn(&self, target: &Target) -> Option<Turn> {
        let look = fleet::look(self.fleet, self.fleet.host.deadlines.all);
        let root = Root::find(&self.adapter.roots(&look), &target.root);
        let store = self.adapter.store(&look, &root);
        let locator = target.session.clone()?;
        let found = store.find(&locator.id).rows.into_iter().find(|row| row.id == locator.id);
        Some(store.record(&found.unwrap_or(locator), Depth::Outline).turn)
    }

    /// Keeps a connection to the server, without which it would unload the session after a while.
    fn keep_loaded(&self, session: &str) {
        let control = self.adapter.control();
        let Some(server) = control.and_then(|control| control.private_server()) else { return };
        while self.lives() {
            let look = fleet::look(self.fleet, self.fleet.host.deadlines.all);
            let Some(pushing) = server.hold(&look, self.server, session) else {
                if !server.needs_hold() {
                    return;
                }
                std::thread::park_timeout(RECONNECT_PAUSE);
                continue;
            };
            if let Ok(mut pushes) = pushing.follow(CONNECT_TIMEOUT) {
                loop {
                    let mut ready = [PollFd::from_borrowed_fd(pushes.as_fd(), PollFlags::IN)];
                    // An interrupted wait is repeated.
                    let _ready = poll(&mut ready, None);
                    if pushes.skip() == Heard::Gone {
                        break;
                    }
                }
            }
            std::thread::park_timeout(RECONNECT_PAUSE);
        }
    }

    /// Ends the server: SIGTERM, and SIGKILL if it does not leave.
    fn end(&self) {
        let kernel = &self.fleet.host.kernel;
        // A server that is gone already needs no signal.
        let Ok(Some(held)) = kernel.hold(self.server) else { return };
        let _gone = held.signal(Signal::TERM);
        let until = Instant::now() + LEAVE_TIMEOUT;
        while !held.has_exited() && Instant::now() < until {
            std::thread::park_timeout(PAUSE);
        }
        if !held.has_exited() {
            let _gone = held.signal(Signal::KILL);
        }
    }
}

fn is_over(turn: Option<&Turn>) -> bool {
    matches!(turn, Some(Turn::Finished | Turn::Failed(_) | Turn::Interrupted | Turn::Over(_)))
}
