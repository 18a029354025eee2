//! Processes of OpenCode whose session cannot be named, and the reasons.

use std::collections::HashSet;

use super::{AgentProcess, GRAIN_MS, LogReading, NAME, Role, continues_some, unseen_home};
use crate::adapters::proof::Unproved;
use crate::adapters::{Found, Served, State};
use crate::model::{Reason, ReasonKind, Status};

impl AgentProcess<'_> {
    /// Marks the sessions that a process may serve whose port could not be asked: where its log does
    /// not name all its sessions, only the port does.
    pub(super) fn doubt_what_it_may_serve(&self, found: &mut Found<Served>) {
        if self.heard.told().is_some_and(|told| !told.cut) {
            return;
        }
        let since = self.process.started_at.map_or(0, |start| start.millis() - GRAIN_MS);
        let claimed: HashSet<String> = found.rows.iter().filter_map(|row| row.id.clone()).collect();
        let pid = self.process.id.pid;
        let why = format!("pid {pid} may serve it and could not be asked");
        let folder = self.process.cwd.as_deref().unwrap_or(std::path::Path::new("/"));
        for id in self.backend.in_or_since(&folder.to_string_lossy(), since) {
            if claimed.contains(&id) {
                continue;
            }
            let mut served = Served::unseen(id, "");
            let reason = Some(Reason::with(ReasonKind::Unreadable, &why));
            served.state = Some(State { status: Status::Unknown, reason });
            served.evidence.push(self.look.evidence(format!("{NAME}:port"), why.clone()));
            found.rows.push(served);
        }
    }

    /// Makes the row of a process without a known session; `answered` says whether its port answered.
    pub(super) fn unjoined(&self, answered: bool) -> Option<Served> {
        let pid = self.process.id.pid;
        let mut served = Served::by(None, self.process);
        let starting = || Some(Reason::of(ReasonKind::Starting));
        let log = format!("{NAME}:log/opencode.log");
        let (status, reason, source, says) = match (&self.heard, self.role) {
            (_, role) if self.proof.is_err() => {
                // A server that names another home serves no session of this one.
                let is_unknown = matches!(self.proof, Err(Unproved::Home { home: None }));
                if role == Role::Server && !is_unknown {
                    return None;
                }
                (served.may_serve, served.stands_in) = (true, None);
                let why = self.proof.as_ref().err().map(Unproved::to_string).unwrap_or_default();
                let says =
                    format!("pid {pid} lives, and is not proved to be the agent of this home");
                let reason = Some(Reason::with(ReasonKind::Elsewhere, why));
                (Status::Unknown, reason, "kernel:process table".to_owned(), says)
            }
            // The server of a run can be stopped also before its session begins.
            (_, Role::Server) if self.is_server_of_run() => {
                let says = format!("pid {pid} is the server of a run and has named no session");
                (Status::Running, starting(), "kernel:environment".to_owned(), says)
            }
            // A server without sessions is no session.
            (LogReading::Written(_), Role::Server) => return None,
            (LogReading::Nothing, role) if !self.has_begun() => {
                if role == Role::Server {
                    return None;
                }
                let says = format!("pid {pid} has not opened the database of this home");
                let source = "kernel:open files".to_owned();
                match unseen_home(self.look, self.process, &self.home) {
                    Some(reason) => (Status::Unknown, Some(reason), source, says),
                    None => (Status::Running, starting(), source, says),
                }
            }
            (LogReading::Written(told), role) if !told.cut && !continues_some(self.process) => {
                let says = format!("pid {pid} has written of no session");
                match role {
                    Role::Run => (Status::Running, starting(), log, says),
                    _ => (Status::Idle, None, log, says),
                }
            }
            (heard, role) => {
                served.may_serve = true;
                served.hosted = role == Role::Server;
                if role == Role::Server {
                    served.stands_in = None;
                }
                if role == Role::Server && !answered {
                    // A client may have asked it to continue a session of any age.
                    served.started_at = None;
                }
                let why = "which session it serves is not known";
                let says = match heard {
                    LogReading::Written(_) => {
                        format!("pid {pid} has written of no session that we found")
                    }
                    LogReading::Nothing => format!("pid {pid} has written nothing"),
                    LogReading::Unreadable => format!("what pid {pid} has written cannot be told"),
                };
                (Status::Unknown, Some(Reason::with(ReasonKind::Ambiguous, why)), log, says)
            }
        };
        served.state = Some(State { status, reason });
        served.evidence.push(self.look.evidence(source, says));
        Some(served)
    }
}
