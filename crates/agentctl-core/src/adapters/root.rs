//! The homes of an agent: named by the user's settings, or only by a live process.

use std::path::PathBuf;

use super::Look;
use crate::kernel::Process;
use crate::model::ProcId;
use crate::native::file;

/// One home of an agent: a profile, a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its path, with links resolved.
    pub path: PathBuf,
    /// The user's own environment, configuration or default names it. A home that only a process named may
    /// be looked at; no order acts on it, except a signal to a process of `named_by`.
    known: bool,
    /// The processes whose own environment names this home, where the user's settings do not.
    pub named_by: Vec<ProcId>,
}

impl Root {
    /// Makes a home that the user's own environment, configuration or default names.
    #[must_use]
    pub fn known(path: PathBuf) -> Self {
        Self { path, known: true, named_by: Vec::new() }
    }

    /// Makes a home that no setting of the user names, only these processes.
    #[must_use]
    pub fn named_only_by(path: PathBuf, processes: Vec<ProcId>) -> Self {
        Self { path, known: false, named_by: processes }
    }

    /// Says whether the user's own settings name this home, and not only a process.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the text that names it in answers.
    #[must_use]
    pub fn label(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// Collects homes, links resolved, each once, missing ones left out.
#[must_use]
pub fn existing_roots(paths: impl IntoIterator<Item = PathBuf>) -> Vec<Root> {
    let mut roots: Vec<Root> = Vec::new();
    for path in paths {
        let root = Root::known(file::resolve_root(&path));
        if root.path.is_dir() && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Adds the homes that live processes name: a first start is seen before its home directory exists.
/// `known` are the homes that the user's settings name, existing or not; `home_of` returns the home of
/// a process that is the agent's own program, links resolved.
#[must_use]
pub fn with_homes_of_the_living(
    look: &Look,
    mut roots: Vec<Root>,
    known: &[PathBuf],
    home_of: &dyn Fn(&Process) -> Option<PathBuf>,
) -> Vec<Root> {
    let known: Vec<PathBuf> = known.iter().map(|path| file::resolve_root(path)).collect();
    for process in &look.table.processes {
        let Some(path) = home_of(process) else { continue };
        match roots.iter_mut().find(|root| root.path == path) {
            Some(root) if root.is_known() => {}
            Some(root) => root.named_by.push(process.id.clone()),
            None if known.contains(&path) => roots.push(Root::known(path)),
            None if path.is_absolute() => {
                roots.push(Root::named_only_by(path, vec![process.id.clone()]));
            }
            None => {}
        }
    }
    roots
}
