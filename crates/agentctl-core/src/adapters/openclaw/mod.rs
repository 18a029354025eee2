//! OpenClaw: sessions on a gateway, without a process or file on this machine.
//!
//! A session is a conversation there; each turn is a run. `hasActiveRun` decides whether it is running.
//! A session that a gateway does not list is asked for by id before it counts as gone, and a gateway
//! that does not answer is a fault: it says nothing about any session. Facts and versions:
//! `docs/agents/openclaw.md`.

mod answering;
mod approvals;
mod control;
mod device;
mod gateways;
mod history;
mod process;
mod rows;
mod wire;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use approvals::Approval;
use gateways::Gateway;
use rows::{Row, Snapshot};
use serde_json::json;
use wire::{Conversation as Talk, GatewayError, Scope, Shows};

use super::answering::Answering;
use super::changes::ChangesTold;
use super::control::Control;
use super::{
    Adapter, CallbackFields, Capabilities, Conversation, Depth, Found, Installation, Look, Record,
    Root, Served, Settings, Store, Turn, Variables, version_beside,
};
use crate::host::Host;
use crate::kernel::{Brief, Process};
use crate::model::{Ask, Fault, FaultCode, Locator, Message, Session, Tokens, is_session_id};
use crate::talk::Pushing;

pub(super) const NAME: &str = "openclaw";
/// Time to connect as an approver: while that fails, commands are denied, so it gets more than other listeners.
const APPROVER_TIMEOUT: Duration = Duration::from_secs(3);
/// Shortest text that may be a complete session id.
const WHOLE_ID: usize = 32;

/// The variables it reads.
static VARIABLES: Variables = Variables {
    answers: &[
        "OPENCLAW_CONFIG_PATH",
        "OPENCLAW_GATEWAY_PASSWORD",
        "OPENCLAW_GATEWAY_PORT",
        "OPENCLAW_GATEWAY_TOKEN",
        "OPENCLAW_GATEWAY_URL",
        "OPENCLAW_HOME",
        "OPENCLAW_PROFILE",
        "OPENCLAW_STATE_DIR",
    ],
    launch: &[],
};

/// The adapter.
pub struct OpenClaw;

impl Adapter for OpenClaw {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            live: true,
            history: true,
            waiting: "with approvals",
            tokens: true,
            cost: true,
            subagents: true,
            changes: ChangesTold::Nothing("its gateway does not say"),
        }
    }

    fn is_candidate(&self, _brief: Brief<'_>) -> bool {
        false
    }

    fn is_suspect(&self, process: &Process) -> bool {
        process::is_suspect(process)
    }

    fn tool_variables(&self) -> &'static [(&'static str, &'static str)] {
        &process::TOOL_VARIABLES
    }

    fn roots(&self, look: &Look) -> Vec<Root> {
        let all = gateways::all(&look.host);
        all.into_iter().map(|gateway| Root::server(gateway.endpoint)).collect()
    }

    fn installation(&self, host: &Host) -> Installation {
        let program = host.which("openclaw");
        let version = program.as_deref().and_then(|p| version_beside(p, "openclaw"));
        Installation { program, version }
    }

    fn store<'a>(&'a self, look: &'a Look, root: &'a Root) -> Box<dyn Store + 'a> {
        let label = root.label();
        let gateway = gateways::all(&look.host).into_iter().find(|g| g.label() == label);
        Box::new(OpenClawStore {
            look,
            label,
            gateway,
            snapshot: OnceLock::new(),
            approvals: OnceLock::new(),
        })
    }

    fn messages(&self, line: &[u8]) -> Vec<Message> {
        history::read(line)
    }

    fn variables(&self) -> &'static Variables {
        &VARIABLES
    }

    fn settings(&self) -> Settings {
        Settings::Gateways
    }

    fn callback_fields(&self) -> Option<CallbackFields> {
        Some(CallbackFields {
            session: "openclaw_callback_session_key",
            agent: "openclaw_callback_agent_id",
        })
    }

    fn answering(&self) -> Option<&dyn Answering> {
        Some(self)
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

struct OpenClawStore<'a> {
    look: &'a Look,
    label: String,
    gateway: Option<Gateway>,
    /// Read once, dropped with the question.
    snapshot: OnceLock<Result<Snapshot, GatewayError>>,
    /// The open requests for approval, read at most once.
    approvals: OnceLock<Result<Vec<Approval>, GatewayError>>,
}

impl OpenClawStore<'_> {
    fn talk(&self) -> Result<Talk, GatewayError> {
        match &self.gateway {
            Some(gateway) => Talk::begin(self.look, gateway, Scope::Read),
            None => Err(GatewayError::new(
                FaultCode::Failed,
                "no gateway of this address is configured",
            )),
        }
    }

    fn snapshot(&self) -> Result<&Snapshot, Fault> {
        let read = || Snapshot::read(&mut self.talk()?);
        self.snapshot.get_or_init(read).as_ref().map_err(|trouble| trouble.fault(&self.label))
    }

    /// Returns the open requests for approval; none where the configuration does not allow to read them. Only a
    /// session with an active run can have one.
    fn approvals(&self) -> Result<&[Approval], Fault> {
        let opted_in = self.gateway.as_ref().filter(|gateway| gateway.approvals);
        let Some(gateway) = opted_in else { return Ok(&[]) };
        if !self.snapshot()?.rows.iter().any(Row::is_active) {
            return Ok(&[]);
        }
        let read = || approvals::read(self.look, gateway);
        match self.approvals.get_or_init(read) {
            Ok(open) => Ok(open),
            Err(trouble) => {
                let message = format!("its approvals are not known: {}", trouble.message);
                Err(GatewayError { message, ..trouble.clone() }.fault(&self.label))
            }
        }
    }

    fn skipped(&self, snapshot: &Snapshot) -> Vec<Fault> {
        let fault =
            |why: &String| GatewayError::new(FaultCode::Skipped, why.clone()).fault(&self.label);
        snapshot.skipped.iter().map(fault).collect()
    }

    fn locator(snapshot: &Snapshot, row: &Row) -> Locator {
        let parent = snapshot.parent(row).map(|above| above.id.clone());
        Locator { id: row.id.clone(), path: None, parent }
    }

    /// Asks for a session that the list does not contain; `None` if the gateway answers that it has
    /// none.
    fn unlisted(&self, id: &str) -> Result<Option<String>, GatewayError> {
        let mut talk = self.talk()?;
        let asked = json!({"sessionId": id, "allowMissing": true});
        let resolved = talk.ask("sessions.resolve", &asked)?;
        let key = match (resolved["ok"].as_bool(), resolved["key"].as_str()) {
            (Some(false), _) => return Ok(None),
            (Some(true), Some(key)) => key.to_owned(),
            _ => {
                return Err(GatewayError::new(FaultCode::Protocol, "sessions.resolve did not say"));
            }
        };
        let described = talk.ask("sessions.describe", &json!({"key": key}))?;
        match described.get("session") {
            Some(session) if session.is_null() => Ok(None),
            Some(session) if session["sessionId"] == id => Ok(Some(key)),
            // The key belongs to another session now.
            Some(session) if session.is_object() => Ok(None),
            _ => Err(GatewayError::new(FaultCode::Protocol, "sessions.describe did not say")),
        }
    }

    /// Sums the tokens and cost of a session and its subagents.
    fn count(
        &self,
        snapshot: &Snapshot,
        row: &Row,
    ) -> Result<Option<(Tokens, Option<f64>)>, GatewayError> {
        let mut talk = self.talk()?;
        let (mut tokens, mut cost, mut priced) = (Tokens::default(), 0.0, true);
        let mut pending = vec![row];
        let mut known = vec![row.id.as_str()];
        while let Some(row) = pending.pop() {
            let (conversation, whole) = history::all(&mut talk, &row.key)?;
            if !whole {
                return Ok(None);
            }
            let spent = history::spent(&conversation.lines);
            tokens.add(spent.tokens);
            cost += spent.cost_usd;
            priced &= spent.priced;
            for below in snapshot.rows.iter().filter(|r| r.spawned_by.as_ref() == Some(&row.key)) {
                if !known.contains(&below.id.as_str()) {
                    known.push(&below.id);
                    pending.push(below);
                }
            }
        }
        Ok(Some((tokens, priced.then_some(cost))))
    }

    fn describe(&self, snapshot: &Snapshot, row: &Row, depth: Depth) -> Record {
        let parent = snapshot.parent(row).map(|above| above.id.clone());
        let mut record = row.record(parent);
        if depth == Depth::Whole {
            match self.count(snapshot, row) {
                Ok(Some((tokens, cost))) => {
                    record.tokens = Some(tokens);
                    record.cost_usd = cost;
                }
                Ok(None) => record.notes.push("too long to count its tokens".to_owned()),
                Err(trouble) => {
                    record.notes.push(format!("its tokens are not known: {}", trouble.message));
                }
            }
        }
        record
    }
}

impl Store for OpenClawStore<'_> {
    fn live(&self) -> Found<Served> {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(fault) => return Found::fault(fault),
        };
        let mut faults = self.skipped(snapshot);
        let whole = faults.is_empty();
        let open = self.approvals().unwrap_or_else(|fault| {
            faults.push(fault);
            &[]
        });
        let claim = |row: &Row| {
            let waiting = open.iter().find(|approval| approval.key == row.key);
            row.claim(self.look, snapshot.word(row), waiting)
        };
        let rows = snapshot.rows.iter().map(claim).collect();
        Found { rows, faults, whole }
    }

    fn asks(&self, session: &Session) -> Found<Ask> {
        let open = match self.approvals() {
            Ok(open) => open,
            Err(fault) => return Found::fault(fault),
        };
        let own = open.iter().filter(|approval| session.native_key.as_ref() == Some(&approval.key));
        let rows = own.map(|approval| approval.ask(self.look, session)).collect();
        Found { rows, ..Found::default() }
    }

    fn history(&self, since_ms: Option<i64>) -> Found<Locator> {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(fault) => return Found::fault(fault),
        };
        let top = snapshot.rows.iter().filter(|row| snapshot.parent(row).is_none());
        let recent = top.filter(|row| row.is_since(since_ms));
        let mut rows: Vec<Locator> = recent.map(|row| Self::locator(snapshot, row)).collect();
        rows.dedup_by(|a, b| a.id == b.id);
        let faults = self.skipped(snapshot);
        Found { rows, whole: faults.is_empty(), faults }
    }

    fn history_seeing(&self, since_ms: Option<i64>, see: &mut dyn FnMut(&str)) -> Found<Locator> {
        if let Ok(snapshot) = self.snapshot() {
            snapshot.rows.iter().for_each(|row| see(&row.id));
        }
        self.history(since_ms)
    }

    fn find(&self, prefix: &str) -> Found<Locator> {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(fault) => return Found::fault(fault),
        };
        let fitting = snapshot.beginning(prefix).iter();
        let mut rows: Vec<Locator> = fitting.map(|row| Self::locator(snapshot, row)).collect();
        rows.dedup_by(|a, b| a.id == b.id);
        let mut faults = if rows.is_empty() { self.skipped(snapshot) } else { Vec::new() };
        if rows.is_empty() && prefix.len() >= WHOLE_ID && is_session_id(prefix) {
            match self.unlisted(prefix) {
                Ok(Some(_)) => {
                    rows.push(Locator { id: prefix.to_owned(), path: None, parent: None });
                }
                Ok(None) => {}
                Err(trouble) => faults.push(trouble.fault(&self.label)),
            }
        }
        Found { rows, whole: faults.is_empty(), faults }
    }

    fn named(&self, name: &str) -> Found<Locator> {
        let Ok(snapshot) = self.snapshot() else { return Found::default() };
        let fits = |row: &&Row| row.label.as_deref() == Some(name) || row.key == name;
        let fitting = snapshot.rows.iter().filter(fits);
        let rows = fitting.map(|row| Self::locator(snapshot, row)).collect();
        Found { rows, ..Found::default() }
    }

    fn record(&self, locator: &Locator, depth: Depth) -> Record {
        let snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            Err(fault) => {
                return Record { turn: Turn::Unreadable(fault.message), ..Record::default() };
            }
        };
        if let Some(row) = snapshot.row(&locator.id) {
            return self.describe(snapshot, row, depth);
        }
        // A session that is not listed may still exist: the gateway is asked for it by id.
        match self.unlisted(&locator.id) {
            Ok(None) => Record { absent: true, ..Record::default() },
            Ok(Some(key)) => Record {
                native_key: Some(key),
                turn: Turn::Unreadable("the gateway has it, yet does not list it".into()),
                ..Record::default()
            },
            Err(trouble) => Record { turn: Turn::Unreadable(trouble.message), ..Record::default() },
        }
    }

    fn children(&self, locator: &Locator) -> Found<Locator> {
        let Ok(snapshot) = self.snapshot() else { return Found::default() };
        let below = snapshot.rows.iter().filter(|row| row.spawned_by.is_some());
        let theirs = below.filter(|r| snapshot.parent(r).is_some_and(|p| p.id == locator.id));
        let rows = theirs.map(|row| Self::locator(snapshot, row)).collect();
        Found { rows, ..Found::default() }
    }

    fn conversation(&self, locator: &Locator) -> Option<Result<Conversation, Fault>> {
        let said = || -> Result<Conversation, GatewayError> {
            let key = match self.snapshot() {
                Ok(snapshot) => snapshot.row(&locator.id).map(|row| row.key.clone()),
                Err(fault) => return Err(GatewayError::new(fault.code, fault.message)),
            };
            let key = match key {
                Some(key) => key,
                None => self.unlisted(&locator.id)?.ok_or_else(|| {
                    GatewayError::new(FaultCode::Gone, "the gateway no longer has it")
                })?,
            };
            Ok(history::all(&mut self.talk()?, &key)?.0)
        };
        Some(said().map_err(|trouble| trouble.fault(&self.label)))
    }

    fn announcing(&self) -> Vec<Pushing> {
        self.listening().into_iter().collect()
    }

    fn pushing(&self, _session: &Session) -> Option<Pushing> {
        self.listening()
    }
}

impl OpenClawStore<'_> {
    /// Returns the connection for notifications: the gateway sends them for all its sessions.
    fn listening(&self) -> Option<Pushing> {
        let gateway = self.gateway.clone()?;
        let host: Arc<Host> = Arc::clone(&self.look.host);
        Some(Pushing::new(self.label.clone(), move |limit| {
            let refused = |trouble: GatewayError| crate::talk::TalkError::Refused(trouble.message);
            let read = || Talk::within(&host, &gateway, Scope::Read, Shows::IfDemanded, limit);
            if !gateway.approvals {
                return read().map_err(refused)?.listen();
            }
            let limit = limit.max(APPROVER_TIMEOUT);
            let approver = Talk::within(&host, &gateway, Scope::Approver, Shows::Device, limit);
            match approver {
                // The right to approve is missing; changes of sessions are announced without it.
                Err(trouble) if matches!(trouble.code, FaultCode::Auth | FaultCode::Pairing) => {
                    read().map_err(refused)?.listen()
                }
                other => other.map_err(refused)?.listen(),
            }
        }))
    }
}
