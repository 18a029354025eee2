//! The wait of a launcher for its agent: until the agent has reported its session id, has ended, or takes too long.

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use super::arrival::Arrival;
use super::{LaunchError, LaunchOrder};
use crate::adapters::control::{Control, FirstWords, Handshake};
use crate::fleet::{self, Fleet, Query};
use crate::locks;
use crate::model::{Exit, Locator, ProcId, is_session_id};
use crate::runs::{self, FIRST_OUTPUT_BYTES, Run};

/// Timeout for the exec of the agent while a failed launch is cleaned up.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30);
/// After this time without output, the agent's live records are searched for its session too.
const SILENCE_BEFORE_LOOKUP: Duration = Duration::from_secs(1);
/// Further time for the output of an agent that has a live record but has printed nothing.
const REGISTERED_GRACE: Duration = Duration::from_secs(3);
/// Longest extra time to wait for a refusal after the agent told its session id. A later failure shows in
/// the session's status.
const LONGEST_REFUSAL_GRACE: Duration = Duration::from_secs(5);
/// Longest excerpt of the agent's last output in a message.
const LAST_OUTPUT_CHARS: usize = 400;

/// The agent has ended; its exit is unknown if the shim died first.
pub(super) struct AgentEnd(pub(super) Option<Exit>);

/// A launcher that waits for its agent's first output.
pub(super) struct FirstOutputWait<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) run: &'a Run,
    pub(super) shim: Child,
    pub(super) control: &'a dyn Control,
    pub(super) launch: &'a LaunchOrder,
}

impl FirstOutputWait<'_> {
    pub(super) fn for_session_id(&mut self) -> Result<(String, Option<ProcId>), LaunchError> {
        let limit = self.fleet.host.deadlines.launch;
        let began = Instant::now();
        let until = began + limit;
        // The session id, when it was told, and how long to wait for a refusal after that.
        let mut nearly: Option<(String, Instant, Duration)> = None;
        loop {
            // Check for its end before reading its output, so that after an end the output is complete.
            let over = self.over();
            let first = self.first_output();
            let words = FirstWords { stdout: &first.0, stderr: &first.1 };
            match self.control.handshake(&self.fleet.host, &self.launch.order, &words) {
                Handshake::Up(id) if is_session_id(&id) => return Ok((id, self.process())),
                Handshake::Failed(words) => {
                    let agent = self.launch.adapter.name();
                    let advice = self.control.advice(&words);
                    return Err(LaunchError::Failed { agent, words, advice });
                }
                Handshake::Nearly(id, grace) if is_session_id(&id) => {
                    // A different grace period starts anew.
                    let since = match nearly {
                        Some((_, since, before)) if before == grace => since,
                        _ => Instant::now(),
                    };
                    nearly = Some((id, since, grace));
                }
                _ => {}
            }
            if let Some(AgentEnd(exit)) = over {
                // The agent has told its session id and finished its work already.
                if let (Some((id, ..)), Some(Exit { code: Some(0), .. })) = (&nearly, exit) {
                    return Ok((id.clone(), self.process()));
                }
                return Err(self.died(exit, &first));
            }
            self.launch.check_called_off()?;
            let now = Instant::now();
            if nearly.is_none()
                && now > began + SILENCE_BEFORE_LOOKUP
                && let Some(id) = self.registered()
            {
                nearly = Some((id, now, REGISTERED_GRACE));
            }
            if let Some((id, since, grace)) = &nearly
                && now >= *since + refusal_grace(*since - began, *grace)
            {
                return Ok((id.clone(), self.process()));
            }
            if now >= until {
                let words = last_output(&first.0, &first.1);
                let agent = self.launch.adapter.name();
                return Err(LaunchError::Silent { agent, limit, words });
            }
            let next = nearly.as_ref().map_or(until, |(_, since, grace)| {
                until.min(*since + refusal_grace(*since - began, *grace))
            });
            short_pause(began, next.saturating_duration_since(now));
        }
    }

    /// Returns the session of the agent's process by its live record. Some agents write that long before
    /// their first output.
    fn registered(&self) -> Option<String> {
        let process = self.process()?;
        let adapter = Some(self.launch.adapter.name().to_owned());
        let query = Query { adapter, ..Query::default() };
        let living = fleet::list(self.fleet, &query).sessions;
        let found = living.into_iter().find(|s| s.is_served_by(&process))?;
        found.id.clone().filter(|_| self.control.is_up(&found))
    }

    /// Waits until the session's record contains the message.
    pub(super) fn for_arrival(
        &mut self,
        arrival: Arrival,
        session: &str,
    ) -> Result<(), LaunchError> {
        let Some(from) = &self.launch.from else { return Ok(()) };
        let message = String::from_utf8_lossy(&self.launch.prompt).into_owned();
        let mut target = from.clone();
        if target.session.as_ref().is_none_or(|l| l.id != session) {
            target.session = Some(Locator { id: session.to_owned(), path: None, parent: None });
        }
        let fleet = self.fleet;
        if arrival.wait(fleet, &target, &message, || self.over().is_some()) {
            return Ok(());
        }
        let (stdout, stderr) = self.first_output();
        let words = last_output(&stdout, &stderr);
        let advice = self.control.advice(&words);
        let (agent, session) = (self.launch.adapter.name(), session.to_owned());
        Err(LaunchError::Unheard { agent, session, words, advice })
    }

    pub(super) fn first_output(&self) -> (Vec<u8>, Vec<u8>) {
        let read = |path: PathBuf| runs::beginning(&path, FIRST_OUTPUT_BYTES);
        (read(self.run.stdout()), read(self.run.stderr()))
    }

    pub(super) fn process(&self) -> Option<ProcId> {
        self.run.started().map(|s| s.process)
    }

    /// Returns how the agent ended, if it has: as the shim recorded it, or unknown if neither the shim nor
    /// the agent is alive.
    pub(super) fn over(&mut self) -> Option<AgentEnd> {
        if let Some(ended) = self.run.ended() {
            return Some(AgentEnd(Some(ended.exit)));
        }
        let shim_is_gone = matches!(self.shim.try_wait(), Ok(Some(_)));
        if !shim_is_gone {
            return None;
        }
        // The shim may have written it between the two checks.
        if let Some(ended) = self.run.ended() {
            return Some(AgentEnd(Some(ended.exit)));
        }
        // The starter process may have outlived the shim. It holds the directory's lock until it execs the
        // agent, so if the lock is free, no starter is left.
        let entry = locks::enter(&self.fleet.host, &self.launch.order.cwd, Duration::ZERO);
        if matches!(entry, Err(locks::EnterError::Busy)) {
            return None;
        }
        let lives = runs::agents(&self.fleet.host).any(|(_, marker)| marker.run == self.run.id);
        (!lives).then_some(AgentEnd(None))
    }

    /// Before the cleanup of a failed launch, waits until the child has exec'd the agent and carries the
    /// run's marker, or is certain never to. A child that execs after the cleanup would survive it.
    pub(super) fn until_exec(&mut self) {
        let began = Instant::now();
        let marked = || runs::agents(&self.fleet.host).any(|(_, marker)| marker.run == self.run.id);
        while !marked() && self.over().is_none() && began.elapsed() < EXEC_TIMEOUT {
            short_pause(began, EXEC_TIMEOUT);
        }
    }

    pub(super) fn died(&self, exit: Option<Exit>, first: &(Vec<u8>, Vec<u8>)) -> LaunchError {
        let words = last_output(&first.0, &first.1);
        let advice = self.control.advice(&words);
        LaunchError::Died { agent: self.launch.adapter.name(), exit, words, advice }
    }
}

/// Returns how long to wait for a refusal after the agent told its id. On a busy machine the first output
/// took longer, and so will the next.
fn refusal_grace(took: Duration, grace: Duration) -> Duration {
    grace.max((took / 4).min(LONGEST_REFUSAL_GRACE))
}

/// Sleeps for a moment. Polling two files costs microseconds; removing a file watch would cost more than
/// the agent's own start.
fn short_pause(began: Instant, left: Duration) {
    let pace = if began.elapsed() < SILENCE_BEFORE_LOOKUP { 1 } else { 10 };
    std::thread::park_timeout(left.min(Duration::from_millis(pace)));
}

/// Returns the agent's last output on one line: from stderr, or else from stdout.
pub(super) fn last_output(stdout: &[u8], stderr: &[u8]) -> String {
    let said = [stderr, stdout].into_iter().map(String::from_utf8_lossy);
    let Some(said) = said.into_iter().find(|s| !s.trim().is_empty()) else {
        return "no output".into();
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" · ");
    crate::model::shorten(&last, LAST_OUTPUT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_agent_gets_a_longer_grace() {
        let (ms, grace) = (Duration::from_millis, Duration::from_millis(500));
        assert_eq!(refusal_grace(ms(900), grace), grace, "an ordinary start changes nothing");
        assert_eq!(refusal_grace(ms(8_000), grace), ms(2_000));
        assert_eq!(refusal_grace(ms(60_000), grace), LONGEST_REFUSAL_GRACE);
        assert_eq!(
            refusal_grace(ms(60_000), 2 * LONGEST_REFUSAL_GRACE),
            2 * LONGEST_REFUSAL_GRACE,
            "never less"
        );
    }
}
