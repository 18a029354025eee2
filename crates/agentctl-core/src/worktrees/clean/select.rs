//! The worktrees and branches that an order to clean means.

use std::path::{Path, PathBuf};

use super::{CleanError, CleanOrder, CleanSelection, Site, Target};
use crate::fleet::{self, Fleet, Query};
use crate::git::{Git, GitError, Repository, WorktreeEntry, path_of};
use crate::locks::real_path;
use crate::model::Fault;
use crate::names::Names;
use crate::worktrees::facts::Reader;
use crate::worktrees::{WorktreeFacts, called, regular_file, slot_in};

/// Limit of a file that names a directory.
const MAX_LINK_BYTES: u64 = 16 << 10;

/// The worktrees that an order means, by repository.
#[derive(Default)]
pub(super) struct Selected {
    pub targets: Vec<(Repository, Vec<Target>)>,
    /// The sources that could not be asked for the sessions by which worktrees are chosen.
    pub faults: Vec<Fault>,
}

/// Finds the worktrees that are meant.
pub(super) fn select(fleet: &Fleet, git: &Git, order: &CleanOrder) -> Result<Selected, CleanError> {
    let CleanSelection::Named(texts) = &order.which else {
        let repository = git.repository(&order.from)?;
        let all = all(fleet, git, &repository, order)?;
        let (targets, faults) = swept(fleet, order, all)?;
        return Ok(Selected { targets: vec![(repository, targets)], faults });
    };
    let mut found: Vec<(Repository, Vec<Target>)> = Vec::new();
    for text in texts {
        let (repository, target) = named(fleet, git, order, text)?;
        match found.iter_mut().find(|(other, _)| other.common == repository.common) {
            Some((_, targets)) => {
                let same = |other: &Target| {
                    (&other.facts.path, &other.facts.branch)
                        == (&target.facts.path, &target.facts.branch)
                };
                if !targets.iter().any(same) {
                    targets.push(target);
                }
            }
            None => found.push((repository, vec![target])),
        }
    }
    Ok(Selected { targets: found, faults: Vec::new() })
}

/// Returns the worktrees of ours that a search means.
fn swept(
    fleet: &Fleet,
    order: &CleanOrder,
    all: Vec<Target>,
) -> Result<(Vec<Target>, Vec<Fault>), CleanError> {
    // A session of the group may have worked in a worktree that is not ours: the check keeps it, and names it.
    let is_group = matches!(order.which, CleanSelection::Group(_));
    let is_meant = |target: &Target| target.facts.name.is_some() || (is_group && !target.is_main);
    let mut ours: Vec<Target> = all.into_iter().filter(is_meant).collect();
    let group = match &order.which {
        CleanSelection::Group(group) => Some(group),
        CleanSelection::Ended => None,
        CleanSelection::Rescued => return Ok((Vec::new(), Vec::new())),
        _ => return Ok((ours, Vec::new())),
    };
    let query = Query { all: true, group: group.cloned(), ..Query::default() };
    let listing = fleet::list(fleet, &query);
    let sessions: Vec<(PathBuf, bool)> = listing
        .sessions
        .iter()
        .filter_map(|session| Some((session.cwd.as_ref()?, session.pid.is_some())))
        .map(|(cwd, is_live)| (real_path(&fleet.host, Path::new(cwd)), is_live))
        .collect();
    let mut groups: Vec<String> = ours.iter().filter_map(Target::group).collect();
    ours.retain(|target| {
        let path = target.facts.path.as_ref();
        let is_inside = |cwd: &Path| path.is_some_and(|path| cwd.starts_with(path));
        let mut inside = sessions.iter().filter(|(cwd, _)| is_inside(cwd));
        let name = target.facts.name.as_deref().unwrap_or_default();
        match group {
            Some(group) => inside.next().is_some() || slot_in(name, group).is_some(),
            None => inside.clone().next().is_some() && !inside.any(|(_, is_live)| *is_live),
        }
    });
    if let Some(group) = group.filter(|_| ours.is_empty() && listing.sessions.is_empty()) {
        groups.extend(Names::of(&fleet.host).groups().map(str::to_owned));
        groups.sort();
        groups.dedup();
        return Err(CleanError::NoSuchGroup { group: group.clone(), groups });
    }
    Ok((ours, listing.faults))
}

/// Finds what a text names: a worktree or branch of the present repository, or the directory of a worktree of
/// any repository.
fn named(
    fleet: &Fleet,
    git: &Git,
    order: &CleanOrder,
    text: &str,
) -> Result<(Repository, Target), CleanError> {
    let path = real_path(&fleet.host, &order.from.join(text));
    let here = git.repository(&order.from);
    let mut names = Vec::new();
    if let Ok(repository) = &here {
        let mut all = all(fleet, git, repository, order)?;
        let by_name = all.iter().position(|target| is_called(&target.facts, text));
        let by_path = || all.iter().position(|target| target.facts.path.as_ref() == Some(&path));
        if let Some(at) = by_name.or_else(by_path) {
            let target = Target { named: true, ..all.swap_remove(at) };
            return Ok((repository.clone(), target));
        }
        names = all.into_iter().filter_map(|target| target.facts.name).collect();
    }
    if path.is_dir()
        && let Ok(repository) = git.repository(&path)
    {
        let all = all(fleet, git, &repository, order)?;
        let found = all.into_iter().find(|target| target.facts.path.as_ref() == Some(&path));
        if let Some(target) = found {
            return Ok((repository, Target { named: true, ..target }));
        }
    }
    here?;
    Err(CleanError::NoSuch { text: text.to_owned(), names })
}

/// Finds the worktree with this directory, as if it was named; `None` if git does not list it.
pub(super) fn at(site: &Site<'_>, path: &Path) -> Result<Option<Target>, GitError> {
    let all = all(site.fleet, site.git, site.repository, site.order)?;
    let found = all.into_iter().find(|target| target.facts.path.as_deref() == Some(path));
    Ok(found.map(|target| Target { named: true, ..target }))
}

fn is_called(facts: &WorktreeFacts, text: &str) -> bool {
    called::is_called(facts.name.as_deref(), facts.branch.as_deref(), text)
}

/// Lists all worktrees of a repository, the main one first, then the branches of ours without one.
fn all(
    fleet: &Fleet,
    git: &Git,
    repository: &Repository,
    order: &CleanOrder,
) -> Result<Vec<Target>, GitError> {
    let reader = Reader::new(&fleet.host, git, repository, &order.settings.prefix)?;
    let admins = admins(&repository.common);
    let target = |(at, entry): (usize, &WorktreeEntry)| Target {
        facts: reader.known(entry),
        admin: admin_of(&admins, &entry.path),
        is_main: at == 0,
        named: false,
    };
    let mut targets: Vec<Target> = reader.entries.iter().enumerate().map(target).collect();
    let unused = reader.without_worktrees();
    targets.extend(unused.into_iter().map(|facts| Target {
        facts,
        admin: None,
        is_main: false,
        named: false,
    }));
    Ok(targets)
}

/// Returns the directories `worktrees/<id>` of a repository, each with the worktree that it names.
fn admins(common: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        let admin = entry.path();
        found.extend(worktree_of(&admin).map(|path| (admin, path)));
    }
    found
}

/// Returns the worktree that a directory `worktrees/<id>` names.
pub(in crate::worktrees) fn worktree_of(admin: &Path) -> Option<PathBuf> {
    let mut text = regular_file::read(&admin.join("gitdir"), MAX_LINK_BYTES).ok()?;
    while text.last().is_some_and(u8::is_ascii_whitespace) {
        text.pop();
    }
    admin.join(path_of(&text)).parent().map(Path::to_owned)
}

/// Finds the data of a worktree. Several that name the same directory prove nothing.
fn admin_of(admins: &[(PathBuf, PathBuf)], path: &Path) -> Option<PathBuf> {
    let same =
        |named: &Path| named == path || std::fs::canonicalize(named).is_ok_and(|real| real == path);
    let mut found = admins.iter().filter(|(_, named)| same(named)).map(|(admin, _)| admin);
    let first = found.next()?;
    found.next().is_none().then(|| first.clone())
}
