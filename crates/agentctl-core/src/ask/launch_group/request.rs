//! The request for a group launch, as data: what another process may send.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::launch::{LaunchHooks, LaunchOptions, TextOrBytes};
use crate::launch::context::PromptContext;
use crate::launch::matrix::{Matrix, MatrixOrigins};
use crate::launch::slots::SlotRequest;
use crate::worktrees::WorktreeOptions;

/// A request to start several agents, each in a worktree of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupLaunchRequest {
    /// The agents.
    pub slots: Vec<SlotRequest>,
    /// How many times each slot is launched; null for once.
    pub times: Option<usize>,
    /// The limit of slots, up to 64; null for 16.
    pub max: Option<usize>,
    /// The prompt of every slot that has none of its own.
    pub prompt: Option<TextOrBytes>,
    /// The text that is put in front of every prompt.
    pub context: PromptContext,
    /// The directory whose repository gets the worktrees; null for the current one.
    pub cwd: Option<PathBuf>,
    /// How the worktrees are made.
    pub worktrees: WorktreeOptions,
    /// The command for `compare --verify`. A launch never runs it.
    pub verify: Option<Vec<String>>,
    /// Look for the sessions and return their homes.
    pub look: bool,
    /// Everything else that may be said, for all slots. Without a group a new one is made.
    pub options: LaunchOptions,
}

impl GroupLaunchRequest {
    /// Adds the values of a matrix file. Values of the request count more; files are added up. Returns where the values
    /// stand in the file.
    pub fn add_matrix(&mut self, matrix: Matrix) -> MatrixOrigins {
        let Matrix { cwd, base, spec, files, group, max, verify, slots, origins, .. } = matrix;
        let (on_create, on_complete) = (matrix.on_create, matrix.on_complete);
        let overridden = [
            ("cwd", self.cwd.is_some()),
            ("spec", self.context.spec.is_some()),
            ("max", self.max.is_some()),
        ];
        let overridden = overridden.into_iter().filter(|(_, is_given)| *is_given);
        let origins = overridden.fold(origins, |origins, (key, _)| origins.without(key));
        self.slots = slots;
        self.cwd = self.cwd.take().or(cwd);
        self.worktrees.base = self.worktrees.base.take().or(base);
        self.context.spec = self.context.spec.take().or(spec);
        self.context.files.splice(0..0, files);
        self.options.group = self.options.group.take().or(group);
        self.max = self.max.or(max);
        self.verify = self.verify.take().or(verify);
        self.options.hooks = self.options.hooks.or(&LaunchHooks { on_create, on_complete });
        origins
    }
}
