//! The answer to `launch --dry-run`: what would be launched, where, with which command and which exact prompt.
//!
//! Nothing is made and no agent is started. `gh` is run if an issue is part of the context, because the prompt is exact.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::launch::{LaunchDefaults, NotStarted, TextOrBytes, is_remote, new_order};
use super::super::names::LaunchWords;
use super::ready::{ReadyGroup, ReadySlot};
use super::{Fleet, GroupLaunchRequest, make_order};
use crate::adapters::control::Permissions;
use crate::launch::{LaunchError, check_free};
use crate::model::{InternedName, SCHEMA_VERSION, word};
use crate::worktrees::make;

/// Whether the agents of a plan work in worktrees of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanPlace {
    /// Each has a worktree.
    Worktrees,
    /// The only one has a worktree of this name.
    Named(String),
    /// The only one works in the directory itself.
    Directory,
}

/// The plan of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LaunchPlan {
    /// The version of this document.
    pub schema_version: u32,
    /// The group; null for a single agent without a worktree and without a group.
    pub group: Option<String>,
    /// The slots, in their order.
    pub slots: Vec<PlannedSlot>,
    /// The command for `compare --verify`. A launch never runs it.
    pub verify: Option<Vec<String>>,
}

/// The plan of one slot.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PlannedSlot {
    /// Its number, from 0.
    pub slot: usize,
    /// The adapter.
    #[serde(deserialize_with = "word")]
    pub adapter: InternedName,
    /// The model, in the agent's own words; null for the agent's own choice.
    pub model: Option<String>,
    /// The permissions of the agent.
    pub permissions: Permissions,
    /// The branch of its worktree; null without a worktree.
    pub branch: Option<String>,
    /// The directory of its worktree; null without a worktree.
    pub worktree: Option<PathBuf>,
    /// The directory that the repository is looked for in, or the agent works in.
    pub cwd: PathBuf,
    /// The program and its arguments; null if the agent cannot be started or runs on a server. A session id among them
    /// is chosen anew by each launch.
    pub argv: Option<Vec<String>>,
    /// The names of the variables that the request sets for the agent.
    pub env: Vec<String>,
    /// The exact prompt, context included.
    pub prompt: TextOrBytes,
    /// Why the agent cannot be started; null if nothing is known against it.
    pub error: Option<String>,
}

impl Fleet {
    /// Returns what a launch would do, or refuses what the launch would refuse. Only the launch of one agent has a name.
    pub fn plan_launch(
        &self,
        request: &GroupLaunchRequest,
        name: Option<&str>,
        place: &PlanPlace,
        defaults: &LaunchDefaults,
    ) -> Result<LaunchPlan, NotStarted> {
        let words = LaunchWords { name: name.map(str::to_owned), group: None };
        let _reserved = self.check_words(&words).map_err(NotStarted::Words)?;
        let ready = self.ready_group(request, place, defaults)?;
        let is_here = *place == PlanPlace::Directory
            && ready.slots.iter().any(|slot| !is_remote(slot.adapter));
        if is_here && !request.options.force {
            check_free(self, &ready.cwd).map_err(NotStarted::Failed)?;
        }
        let parent = match place {
            PlanPlace::Directory => None,
            PlanPlace::Worktrees | PlanPlace::Named(_) => {
                let order = make_order(self, &ready, request, defaults);
                let places = make::preview(&self.host, &order, &ready.wanted());
                Some(places.map_err(|error| NotStarted::Worktree(Box::new(error)))?)
            }
        };
        let rows = ready.slots.iter().map(|slot| {
            let place = parent.as_ref().and_then(|places| places.get(slot.number));
            self.planned(slot, &ready, defaults, place)
        });
        let slots = rows.collect();
        let group = match place {
            PlanPlace::Worktrees => Some(ready.group.clone()),
            PlanPlace::Directory | PlanPlace::Named(_) => request.options.group.clone(),
        };
        let verify = request.verify.clone();
        Ok(LaunchPlan { schema_version: SCHEMA_VERSION, group, slots, verify })
    }

    fn planned(
        &self,
        slot: &ReadySlot,
        ready: &ReadyGroup,
        defaults: &LaunchDefaults,
        place: Option<&(String, PathBuf)>,
    ) -> PlannedSlot {
        let cwd = place.map_or(ready.cwd.as_path(), |(_, path)| path);
        let command = self.command(slot, cwd, defaults);
        let (argv, error) = match command {
            Ok(argv) => (argv, None),
            Err(error) => (None, Some(error.to_string())),
        };
        PlannedSlot {
            slot: slot.number,
            adapter: slot.adapter.name(),
            model: slot.options.model.clone().or_else(|| defaults.model.clone()),
            permissions: slot.options.permissions.unwrap_or(defaults.permissions),
            branch: place.map(|(branch, _)| branch.clone()),
            worktree: place.map(|(_, path)| path.clone()),
            cwd: ready.cwd.clone(),
            argv,
            env: slot.options.env.iter().map(|(name, _)| name.clone()).collect(),
            prompt: slot.prompt.clone().into(),
            error,
        }
    }

    /// Returns the command that would start the agent.
    fn command(
        &self,
        slot: &ReadySlot,
        cwd: &Path,
        defaults: &LaunchDefaults,
    ) -> Result<Option<Vec<String>>, LaunchError> {
        let Some(control) = slot.adapter.control().filter(|control| control.remote().is_none())
        else {
            return Ok(None);
        };
        let start = control.start(&self.host, &new_order(&slot.options, defaults, cwd))?;
        let program = start.program.to_string_lossy().into_owned();
        let args = start.args.iter().map(|arg| arg.to_string_lossy().into_owned());
        Ok(Some(std::iter::once(program).chain(args).collect()))
    }
}
