//! The worktree of a launch: made before the agent starts, and removed if the launch fails and nothing is in it.

use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LaunchDefaults, LaunchNews, LaunchRequest, NotStarted, StartedSession};
use crate::ask::Fleet;
use crate::ask::resume::Continuation;
use crate::native::private;
use crate::worktrees::make::{self, Undone};
use crate::worktrees::{Made, MakeOrder, Wanted, WorktreeOptions, default_name};

/// A request to let the agent work in a new git worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorktreeRequest {
    /// The name of the worktree: its branch without the prefix. Null for a new name from the group and the agent.
    pub name: Option<String>,
    /// How it is made.
    pub options: WorktreeOptions,
}

impl Fleet {
    /// Makes the worktree of a launch, and lets the session begin in it.
    pub(super) fn make_worktree(
        &self,
        beginning: &mut Continuation,
        request: &LaunchRequest,
        defaults: &LaunchDefaults,
        tell: &mut dyn FnMut(LaunchNews<'_>),
    ) -> Result<Option<Made>, NotStarted> {
        let Some(wanted) = &request.worktree else { return Ok(None) };
        let name = || {
            let model = request.options.model.as_deref();
            default_name(request.options.group.as_deref(), beginning.adapter.name(), model)
        };
        let mut options = wanted.options.clone();
        options.force |= request.options.force;
        let order = MakeOrder {
            from: beginning.cwd.clone(),
            options,
            settings: defaults.worktree.clone(),
            group: request.options.group.clone(),
            cancellation: self.cancellation.clone(),
        };
        let name = wanted.name.clone().unwrap_or_else(name);
        let wanted = [Wanted { name, slot: 0, base: None }];
        let made =
            make::all(&self.host, &order, &wanted, &mut |news| tell(LaunchNews::Making(&news)));
        let made = made.map_err(|error| NotStarted::Worktree(Box::new(error)))?;
        let Some(made) = made.into_iter().next() else { return Ok(None) };
        beginning.cwd.clone_from(&made.cwd);
        Ok(Some(made))
    }

    /// Removes the worktree of a failed launch, unless something is in it.
    pub(super) fn undo_worktree(&self, made: &Made, tell: &mut dyn FnMut(LaunchNews<'_>)) {
        let why = match make::undo(&self.host, made) {
            Ok(Undone::Removed) => return tell(LaunchNews::WorktreeRemoved { made }),
            Ok(Undone::Kept(why)) => why,
            Err(error) => error.to_string(),
        };
        tell(LaunchNews::WorktreeKept { made, why: &why });
    }
}

/// Writes the output of the setup program into the folder of the run.
pub(super) fn keep_setup_output(started: &StartedSession, made: &Made) {
    if let Some(run) = started.launched.run.as_ref().filter(|_| !made.setup_output.is_empty()) {
        let log = private::file(&run.directory.join("setup.log"));
        let _unkept = log.and_then(|mut file| file.write_all(&made.setup_output));
    }
}
