//! The order `launch` for a group: one worktree for each agent, all worktrees first, then all agents side by side.
//!
//! Everything that can be refused is refused before the first worktree is made. After that each slot succeeds or fails
//! by itself: a failed one is an error in its row, and its worktree is removed unless something is in it.

mod plan;
mod ready;
mod request;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::plan::{LaunchPlan, PlanPlace, PlannedSlot};
use self::ready::{ReadyGroup, ReadySlot};
pub use self::request::GroupLaunchRequest;
use super::launch::{LaunchDefaults, LaunchDocument, LaunchNews, NotStarted};
use super::{Fleet, FuseOrderError, WaitTarget};
use crate::kernel::OpenOrder;
use crate::launch::slots::SlotsError;
use crate::model::{Fault, InternedName, SCHEMA_VERSION, word};
use crate::worktrees::make::{self, KeptWorktree};
use crate::worktrees::{Made, MakeNews, MakeOrder, Wanted};

/// The result of a group launch, for `launch --json`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct GroupLaunchDocument {
    /// The version of this document.
    pub schema_version: u32,
    /// The group.
    pub group: String,
    /// The slots, in their order.
    pub slots: Vec<LaunchedSlot>,
    /// The command for `compare --verify`, as the request gave it. It was not run.
    pub verify: Option<Vec<String>>,
    /// The sources that could not be asked.
    pub faults: Vec<Fault>,
}

/// One slot of a group launch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct LaunchedSlot {
    /// Its number, from 0.
    pub slot: usize,
    /// The adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The model, in the agent's own words; null for the agent's own choice.
    pub model: Option<String>,
    /// The branch of its worktree; null if the launch failed and the worktree was removed.
    pub branch: Option<String>,
    /// The directory of its worktree; null if the launch failed and the worktree was removed.
    pub worktree: Option<PathBuf>,
    /// The agent's own session id; null if the launch failed.
    pub session: Option<String>,
    /// Why the launch failed; null if it did not.
    pub error: Option<String>,
    /// The id of the run; null if the launch failed.
    pub run: Option<String>,
    /// The home of the session; null if the session was not looked for, or was not found.
    pub root: Option<String>,
    /// Why the on-create hook failed; null if it did not fail or there is none.
    pub hook_failure: Option<String>,
}

/// A report to the caller during a group launch.
pub enum GroupLaunchNews<'a> {
    /// A step of the worktrees.
    Worktree(MakeNews),
    /// All worktrees are there.
    Made(&'a [Made]),
    /// An agent has told its session id.
    Started {
        /// The number of the slot.
        slot: usize,
        /// The adapter.
        adapter: &'static str,
        /// The agent's own session id.
        id: &'a str,
        /// The name of its worktree.
        name: &'a str,
    },
    /// A slot was not launched.
    Failed {
        /// The number of the slot.
        slot: usize,
        /// The adapter.
        adapter: &'static str,
        /// Why.
        why: NotStarted,
        /// Its worktree, if it is kept; `None` if it was removed.
        kept: Option<KeptWorktree>,
    },
    /// A fuse that ends the session of a slot when it was idle for some time was set, or could not be. It needs a
    /// daemon.
    IdleFuse {
        /// The number of the slot.
        slot: usize,
        /// The agent's own session id.
        id: &'a str,
        /// The time.
        idle_ms: u64,
        /// Why it is not set.
        set: Result<(), &'a FuseOrderError>,
    },
    /// A source could not be asked.
    Fault(&'a Fault),
    /// The on-create hook of a slot failed.
    HookFailed {
        /// The number of the slot.
        slot: usize,
        /// Why.
        why: &'a str,
    },
}

/// A report from the thread of a slot.
enum FromSlot {
    Started { slot: usize, id: String },
    HookFailed { slot: usize, why: String },
    IdleFuse { slot: usize, id: String, idle_ms: u64, set: Result<(), FuseOrderError> },
    Fault(Fault),
    Ended { slot: usize, result: Result<Box<LaunchDocument>, (NotStarted, Option<String>)> },
}

impl Fleet {
    /// Starts several agents, each in a worktree of its own. `tell` hears of the progress.
    pub fn launch_group(
        &self,
        request: &GroupLaunchRequest,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(GroupLaunchNews<'_>),
    ) -> Result<GroupLaunchDocument, NotStarted> {
        let ready = self.ready_group(request, &PlanPlace::Worktrees, defaults)?;
        let order = make_order(self, &ready, request, defaults);
        let wanted: Vec<Wanted> = ready.wanted();
        // One for each slot, until its agent has told its id: a signal calls off the slots that are not so far.
        let open: Vec<OpenOrder> = wanted.iter().map(|_| self.cancellation.open()).collect();
        let made = make::all(&self.host, &order, &wanted, &mut |news| {
            tell(GroupLaunchNews::Worktree(news));
        });
        let made = made.map_err(|error| NotStarted::Worktree(Box::new(error)))?;
        tell(GroupLaunchNews::Made(&made));
        let mut document = GroupLaunchDocument {
            schema_version: SCHEMA_VERSION,
            group: ready.group.clone(),
            slots: ready.slots.iter().zip(&made).map(|(slot, made)| slot.row(made)).collect(),
            verify: request.verify.clone(),
            faults: Vec::new(),
        };
        let (sender, reports) = channel();
        std::thread::scope(|scope| {
            for ((slot, made), open) in ready.slots.iter().zip(&made).zip(open) {
                let (sender, request) =
                    (sender.clone(), slot.launch_request(request, &ready, made));
                scope.spawn(move || {
                    let result = self.launch_slot(slot, &request, (defaults, made, open), &sender);
                    let _unheard = sender.send(FromSlot::Ended { slot: slot.number, result });
                });
            }
            drop(sender);
            for report in reports {
                document.hear(report, (&ready, &made), tell);
            }
        });
        document.faults.sort();
        document.faults.dedup();
        Ok(document)
    }

    /// Launches one slot. If that fails, its worktree is removed, unless something is in it.
    fn launch_slot(
        &self,
        slot: &ReadySlot,
        request: &super::LaunchRequest,
        (defaults, made, open): (&LaunchDefaults, &Made, OpenOrder),
        sender: &Sender<FromSlot>,
    ) -> Result<Box<LaunchDocument>, (NotStarted, Option<String>)> {
        let number = slot.number;
        let mut kept = None;
        let launched = self.launch_in(request, Some((made.clone(), open)), defaults, &mut |news| {
            let report = match news {
                LaunchNews::Started { id } => FromSlot::Started { slot: number, id: id.to_owned() },
                LaunchNews::HookFailed(why) => {
                    FromSlot::HookFailed { slot: number, why: why.to_owned() }
                }
                LaunchNews::IdleFuse { id, idle_ms, set } => {
                    let (id, set) = (id.to_owned(), set.map_err(Clone::clone));
                    FromSlot::IdleFuse { slot: number, id, idle_ms, set }
                }
                LaunchNews::Fault(fault) => FromSlot::Fault(fault.clone()),
                LaunchNews::WorktreeKept { why, .. } => {
                    kept = Some(why.to_owned());
                    return;
                }
                _ => return,
            };
            let _unheard = sender.send(report);
        });
        launched.map(Box::new).map_err(|why| (why, kept))
    }
}

fn make_order(
    fleet: &Fleet,
    ready: &ReadyGroup,
    request: &GroupLaunchRequest,
    defaults: &LaunchDefaults,
) -> MakeOrder {
    let mut options = request.worktrees.clone();
    options.force |= request.options.force;
    MakeOrder {
        from: ready.cwd.clone(),
        options,
        settings: defaults.worktree.clone(),
        group: Some(ready.group.clone()),
        cancellation: fleet.cancellation.clone(),
    }
}

impl GroupLaunchDocument {
    /// Returns how many slots have a session.
    #[must_use]
    pub fn started(&self) -> usize {
        self.slots.iter().filter(|slot| slot.session.is_some()).count()
    }

    fn hear(
        &mut self,
        report: FromSlot,
        (ready, made): (&ReadyGroup, &[Made]),
        tell: &mut dyn FnMut(GroupLaunchNews<'_>),
    ) {
        match report {
            FromSlot::Started { slot, id } => {
                self.slots[slot].session = Some(id.clone());
                let (adapter, name) = (ready.slots[slot].adapter.name(), &made[slot].name);
                tell(GroupLaunchNews::Started { slot, adapter, id: &id, name });
            }
            FromSlot::HookFailed { slot, why } => {
                tell(GroupLaunchNews::HookFailed { slot, why: &why });
            }
            FromSlot::IdleFuse { slot, id, idle_ms, set } => {
                let set = set.as_ref().copied();
                tell(GroupLaunchNews::IdleFuse { slot, id: &id, idle_ms, set });
            }
            FromSlot::Fault(fault) => {
                tell(GroupLaunchNews::Fault(&fault));
                self.faults.push(fault);
            }
            FromSlot::Ended { slot, result: Ok(launched) } => {
                let row = &mut self.slots[slot];
                row.session = Some(launched.id);
                (row.run, row.root) = (launched.run, launched.root);
                row.hook_failure = launched.hook_failure;
                self.faults.extend(launched.faults);
            }
            FromSlot::Ended { slot, result: Err((why, kept)) } => {
                let row = &mut self.slots[slot];
                row.error = Some(why.sentence());
                if kept.is_none() {
                    (row.branch, row.worktree) = (None, None);
                }
                let adapter = ready.slots[slot].adapter.name();
                let kept = kept.map(|why| {
                    let Made { name, path, .. } = made[slot].clone();
                    KeptWorktree { name, path, why }
                });
                tell(GroupLaunchNews::Failed { slot, adapter, why, kept });
            }
        }
    }
}

impl LaunchedSlot {
    /// Returns the name of the session for a request to wait for it; `None` if there is none, or it was not found.
    #[must_use]
    pub fn wait_target(&self) -> Option<WaitTarget> {
        let (adapter, id) = (self.adapter.to_owned(), self.session.clone()?);
        self.root.clone().map(|root| WaitTarget::Session { adapter, root, id })
    }
}

impl ReadySlot {
    /// Returns the row of the slot before its launch.
    fn row(&self, made: &Made) -> LaunchedSlot {
        LaunchedSlot {
            slot: self.number,
            adapter: self.adapter.name(),
            model: self.options.model.clone(),
            branch: Some(made.branch.clone()),
            worktree: Some(made.path.clone()),
            session: None,
            error: None,
            run: None,
            root: None,
            hook_failure: None,
        }
    }
}

/// Returns the directory of a request, absolute.
fn absolute(fleet: &Fleet, cwd: Option<&Path>) -> PathBuf {
    fleet.host.cwd.join(cwd.unwrap_or(Path::new("")))
}

impl From<SlotsError> for NotStarted {
    fn from(error: SlotsError) -> Self {
        Self::Slots(error)
    }
}
