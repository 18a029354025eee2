//! The homes of an agent: named by the user's settings, or only by a live process.

use std::path::{Path, PathBuf};

use super::Look;
use crate::kernel::Process;
use crate::model::ProcId;
use crate::native::file;
use crate::talk::Endpoint;

/// The path of a home that is a server: no file exists below it.
const NO_DIRECTORY: &str = "/dev/null";

/// The storage of a home's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootPlace {
    /// In this directory, links resolved.
    Directory(PathBuf),
    /// At this server.
    Server(Endpoint),
}

impl RootPlace {
    /// Returns the place that a label names: an address names a server, everything else a directory.
    #[must_use]
    pub fn of_label(label: &str) -> Self {
        Endpoint::parse(label).map_or_else(|_| Self::Directory(label.into()), Self::Server)
    }

    /// Returns the directory, unless it is a server.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// Returns the text that names it in answers.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Directory(path) => path.to_string_lossy().into_owned(),
            Self::Server(endpoint) => endpoint.to_string(),
        }
    }
}

/// One home of an agent: a profile, a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    place: RootPlace,
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
        Self { place: RootPlace::Directory(path), known: true, named_by: Vec::new() }
    }

    /// Makes a home that no setting of the user names, only these processes.
    #[must_use]
    pub fn named_only_by(path: PathBuf, processes: Vec<ProcId>) -> Self {
        Self { place: RootPlace::Directory(path), known: false, named_by: processes }
    }

    /// Makes the home that is a server which the user's own environment or configuration names.
    #[must_use]
    pub fn server(endpoint: Endpoint) -> Self {
        Self { place: RootPlace::Server(endpoint), known: true, named_by: Vec::new() }
    }

    /// Returns the home with this label. A home that is not among `roots` was named by a process that has
    /// exited, or by a setting that was removed: its records can be read, but no order acts on it.
    #[must_use]
    pub fn find(roots: &[Self], label: &str) -> Self {
        let found = roots.iter().find(|root| root.label() == label).cloned();
        found.unwrap_or_else(|| Self {
            place: RootPlace::of_label(label),
            known: false,
            named_by: Vec::new(),
        })
    }

    /// Says whether the user's own settings name this home, and not only a process.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> &RootPlace {
        &self.place
    }

    /// Returns its directory, for adapters whose homes are directories. A server has none: nothing exists
    /// below the path that is returned for it.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.directory().unwrap_or(Path::new(NO_DIRECTORY))
    }

    /// Returns the text that names it in answers.
    #[must_use]
    pub fn label(&self) -> String {
        self.place.label()
    }
}

/// Collects homes, links resolved, each once, missing ones left out.
#[must_use]
pub fn existing_roots(paths: impl IntoIterator<Item = PathBuf>) -> Vec<Root> {
    let mut roots: Vec<Root> = Vec::new();
    for path in paths {
        let root = Root::known(file::resolve_root(&path));
        if root.path().is_dir() && !roots.contains(&root) {
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
        match roots.iter_mut().find(|root| root.path() == path) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_the_same_place_again() {
        let directory = Root::known("/home/someone/.agent".into());
        let server = Root::server(Endpoint::parse("ws://127.0.0.1:18789/x").expect("an address"));
        for root in [&directory, &server] {
            assert_eq!(RootPlace::of_label(&root.label()), root.place);
            let gone = Root::find(&[], &root.label());
            assert_eq!((gone.place(), gone.is_known()), (root.place(), false));
            assert_eq!(Root::find(&[directory.clone(), server.clone()], &root.label()), *root);
        }
        assert!(!server.path().join("sessions").exists());
    }
}
