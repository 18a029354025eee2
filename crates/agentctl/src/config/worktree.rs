//! The table `[worktree]`: how git worktrees of launches are made.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use agentctl_core::host::Host;
use agentctl_core::names;
use agentctl_core::worktrees::{DEFAULT_PREFIX, WorktreeSettings};
use serde::Deserialize;

use super::finding::Problem;
use super::relative;

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
        directory: table.dir.map(|path| host.expanded(&path)),
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

/// Puts the settings by which branches of worktrees are recognised into the host, if they are not the usual ones.
pub(super) fn tell(host: &mut Host, settings: &WorktreeSettings) {
    let mut told = BTreeMap::new();
    if settings.prefix != DEFAULT_PREFIX {
        told.insert("prefix".to_owned(), settings.prefix.clone());
    }
    if let Some(directory) = &settings.directory {
        told.insert("dir".to_owned(), directory.to_string_lossy().into_owned());
    }
    if !told.is_empty() {
        host.settings.insert(names::SETTINGS.to_owned(), told);
    }
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
