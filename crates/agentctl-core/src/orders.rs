//! Verification before an order (a signal, a command, a resume): the home must be configured, and the
//! processes must be proved.
//!
//! A look shows what records say. An order acts on it, so it verifies the facts again: the home is read
//! again, each process is proved again, and the live source must still name it. This runs on a guarded
//! thread with a deadline, because a home that a hostile process named can block; if the deadline passes,
//! nothing is done. See docs/adr/0026.

use crate::adapters::proof::{Unproved, prove};
use crate::adapters::{Adapter, Depth, Found, Look, Root, Served};
use crate::fleet::{Fleet, each_adapter, limited};
use crate::model::{Join, ProcId, Target};

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// It would act on an unproved home or process; with a hint.
    Refused {
        /// One sentence.
        why: String,
        /// A hint with an alternative.
        hint: Option<String>,
    },
    /// It could not be verified.
    Unknown(String),
}

impl Objection {
    fn refused(why: String, hint: impl Into<String>) -> Self {
        Self::Refused { why, hint: Some(hint.into()) }
    }

    /// Returns the objection to acting in a home that no setting of the user names.
    #[must_use]
    pub fn foreign_home(adapter: &str, root: &Root) -> Self {
        let home = root.label();
        Self::refused(
            format!("its home {home} is not configured: only a process named it"),
            format!(
                "if the home is yours, add it: `[roots]` `{adapter} = [\"{home}\"]` in the configuration"
            ),
        )
    }

    /// Returns the objection to acting on a record in a folder that no setting of the user names.
    fn foreign_folder() -> Self {
        let why = "the folder that it is kept in is not configured: only a process named it";
        Self::refused(why.to_owned(), "if the folder is yours, name it in the agent's own settings")
    }
}

/// Returns the current home of a target.
pub fn home(fleet: &Fleet, target: &Target) -> Result<Root, Objection> {
    let wanted = target.clone();
    asked(fleet, target, move |adapter, look| Ok(root_of(adapter, look, &wanted)))
}

/// Returns the home of a target if the user's settings name it and the folder of its record.
pub fn known_home(fleet: &Fleet, target: &Target) -> Result<Root, Objection> {
    let wanted = target.clone();
    asked(fleet, target, move |adapter, look| {
        let root = root_of(adapter, look, &wanted);
        if !root.is_known() {
            return Err(Objection::foreign_home(adapter.name(), &root));
        }
        let record = |locator| adapter.store(look, &root).record(locator, Depth::Outline);
        match wanted.session.as_ref().map(record) {
            Some(record) if record.foreign => Err(Objection::foreign_folder()),
            _ => Ok(root),
        }
    })
}

/// Verifies that these processes, which the caller holds, serve the target: each runs the agent's program,
/// belongs to this user and pid namespace, uses the home of the session, and is named by the live source
/// right now.
///
/// A pid that the user typed means the process itself: it needs no record, only the agent's program, this
/// user and this pid namespace. A process that has ended meanwhile is skipped.
pub fn verify(fleet: &Fleet, target: &Target, processes: &[ProcId]) -> Result<Root, Objection> {
    let (wanted, processes) = (target.clone(), processes.to_vec());
    asked(fleet, target, move |adapter, look| {
        let root = root_of(adapter, look, &wanted);
        let _limit = limited(&root);
        let live = adapter.store(look, &root).live();
        for process in &processes {
            verify_one(adapter, look, &root, (&wanted, &live), process)?;
        }
        Ok(root)
    })
}

fn verify_one(
    adapter: &dyn Adapter,
    look: &Look,
    root: &Root,
    (target, live): (&Target, &Found<Served>),
    id: &ProcId,
) -> Result<(), Objection> {
    let pid = id.pid;
    let now = look.host.kernel.process(pid);
    let now = now.map_err(|e| Objection::Unknown(format!("pid {pid} could not be read: {e}")))?;
    let Some(process) = now.filter(|now| now.id == *id) else { return Ok(()) };
    let typed = target.pid == Some(pid);
    match prove(adapter, look, root, &process) {
        Ok(()) => {}
        Err(Unproved::Home { .. }) if typed => {}
        Err(_) if look.has_ended(&process) => return Ok(()),
        Err(unproved) => {
            let why = format!("pid {pid} is not proved to be its agent: {unproved}");
            return Err(Objection::refused(why, "`agentctl why` shows what names it"));
        }
    }
    if typed {
        return Ok(());
    }
    if !root.is_known() && !root.named_by.contains(id) {
        return Err(Objection::foreign_home(adapter.name(), root));
    }
    let session = target.session.as_ref().map(|locator| &locator.id);
    let claims = live.rows.iter().filter(|s| s.id.as_ref() == session && s.by.contains(id));
    match claims.map(|claim| claim.join).min() {
        Some(Join::Proved) => Ok(()),
        Some(Join::Inferred) => Err(inferred(pid)),
        None if look.has_ended(&process) => Ok(()),
        None => {
            let why = format!("no live source names pid {pid} as its process any more");
            Err(Objection::refused(why, "look again with `agentctl list`"))
        }
    }
}

/// Returns the objection to acting on a join by directory and start time only.
#[must_use]
pub fn inferred(pid: u32) -> Objection {
    Objection::refused(
        format!("only its directory and start time say that pid {pid} serves it"),
        format!("`agentctl stop {pid}` ends that process, whichever session it serves"),
    )
}

fn root_of(adapter: &dyn Adapter, look: &Look, target: &Target) -> Root {
    Root::find(&adapter.roots(look), &target.root)
}

/// Runs a question to the target's adapter on a guarded thread.
fn asked(
    fleet: &Fleet,
    target: &Target,
    question: impl Fn(&'static dyn Adapter, &Look) -> Result<Root, Objection> + Send + Sync + 'static,
) -> Result<Root, Objection> {
    let name = target.adapter;
    let mut found = each_adapter(fleet, fleet.host.deadlines.all, move |adapter, look| {
        let mut found = Found::default();
        if adapter.name() == name {
            found.rows.push(question(adapter, look));
        }
        found
    });
    found.rows.pop().unwrap_or_else(|| {
        let fault = found.faults.iter().find(|f| f.adapter == name);
        let why = fault.map_or("its adapter did not answer", |f| f.message.as_str());
        Err(Objection::Unknown(format!("it could not be verified once more: {why}")))
    })
}
