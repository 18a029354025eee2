//! The table `[worktree]`: how git worktrees of launches are made.

use std::path::{Component, PathBuf};

use agentctl_core::host::Host;
use agentctl_core::worktrees::WorktreeSettings;
use serde::Deserialize;

use super::finding::Problem;
use super::{expand, relative};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorktreeTable {
    prefix: Option<String>,
    dir: Option<PathBuf>,
    copy: Vec<PathBuf>,
    setup: Vec<String>,
}

/// Returns the settings. A value that cannot be used is a problem, and has its default.
pub(super) fn settings(
    host: &Host,
    table: WorktreeTable,
    problems: &mut Vec<Problem>,
) -> WorktreeSettings {
    let mut settings = WorktreeSettings {
        directory: table.dir.map(|path| expand(host, path)),
        copy: table.copy,
        setup: table.setup,
        ..WorktreeSettings::default()
    };
    if let Some(prefix) = table.prefix {
        let prefix = prefix.trim_end_matches('/');
        if is_branch_path(prefix) {
            settings.prefix = format!("{prefix}/");
        } else {
            let what = format!("`{prefix}` cannot begin the name of a branch");
            problems.push(Problem::new("worktree.prefix", what).hint("write it like \"agentctl\""));
        }
    }
    let inside =
        |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    if let Some(path) = settings.copy.iter().find(|path| !inside(path)) {
        let what = format!("`{}` is not a path below the working tree", path.display());
        problems.push(Problem::new("worktree.copy", what).hint("write it like \".env\""));
        settings.copy.clear();
    }
    let program = settings.setup.first().map_or("", String::as_str);
    if relative(program) {
        let what = format!("`{program}` is a relative path");
        problems.push(Problem::new("worktree.setup", what).hint("write the whole path"));
        settings.setup.clear();
    }
    settings
}

/// Says whether a text can begin the name of a branch, by the rules of `git check-ref-format`.
fn is_branch_path(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !" ~^:?*[\\".contains(c);
    let part = |part: &str| {
        let is_lock = part.strip_suffix(".lock").is_some();
        let ends = part.starts_with('.') || part.ends_with('.') || is_lock;
        !part.is_empty() && !ends && !part.contains("..") && !part.contains("@{")
    };
    text.chars().all(plain) && !text.starts_with('-') && text.split('/').all(part)
}
