//! The arguments of `launch` that let agents work in git worktrees of their own.

use std::path::PathBuf;

use agentctl_core::ask::WorktreeRequest;
use agentctl_core::worktrees::WorktreeOptions;
use clap::Args;

use crate::failure::{Failure, Kind};

/// How worktrees are made.
#[derive(Args, Clone)]
#[command(next_help_heading = "Worktree options")]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(in crate::cli) struct WorktreeFlags {
    /// Work in a new git worktree with a branch of its own [default name: GROUP/ADAPTER]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option)] // an option whose value may be left out
    pub(super) worktree: Option<Option<String>>,
    /// Begin at this revision [default: HEAD]
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Take the uncommitted changes along, as the first commit of the branch
    #[arg(long)]
    with_changes: bool,
    /// Make worktrees in this directory [default: REPOSITORY.worktrees beside the repository]
    #[arg(long, value_name = "DIR")]
    worktree_dir: Option<PathBuf>,
    /// Check out only these directories (repeatable, or separated by commas)
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    sparse: Vec<String>,
    /// Fetch from the remotes first
    #[arg(long)]
    fetch: bool,
    /// Leave files of Git LFS as pointers
    #[arg(long)]
    no_lfs: bool,
    /// Fail if a submodule cannot be checked out
    #[arg(long)]
    strict: bool,
}

impl WorktreeFlags {
    /// Says whether a prompt of one word behind `--worktree` may be meant as the name of the worktree.
    pub(in crate::cli) fn may_be_name(&self, prompt: &str) -> bool {
        let is_word = !prompt.is_empty() && prompt != "-" && !prompt.contains(char::is_whitespace);
        self.worktree == Some(None) && is_word
    }

    /// Returns how worktrees are made.
    pub(in crate::cli) fn options(&self) -> WorktreeOptions {
        WorktreeOptions {
            base: self.base.clone(),
            with_changes: self.with_changes,
            directory: self.worktree_dir.clone(),
            sparse: self.sparse.clone(),
            fetch: self.fetch,
            no_lfs: self.no_lfs,
            strict: self.strict,
            force: false,
        }
    }

    /// Returns the worktree of a launch of one agent; `None` without `--worktree`.
    pub(in crate::cli) fn request(&self) -> Result<Option<WorktreeRequest>, Failure> {
        if let Some(name) = &self.worktree {
            return Ok(Some(WorktreeRequest { name: name.clone(), options: self.options() }));
        }
        match self.first_flag() {
            None => Ok(None),
            Some(flag) => Err(Failure::new(Kind::Usage, format!("{flag} needs --worktree"))
                .hint("add --worktree, or --worktree=NAME")),
        }
    }

    /// Returns the first flag that only concerns worktrees.
    fn first_flag(&self) -> Option<&'static str> {
        let flags = [
            (self.base.is_some(), "--base"),
            (self.with_changes, "--with-changes"),
            (self.worktree_dir.is_some(), "--worktree-dir"),
            (!self.sparse.is_empty(), "--sparse"),
            (self.fetch, "--fetch"),
            (self.no_lfs, "--no-lfs"),
            (self.strict, "--strict"),
        ];
        flags.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}
