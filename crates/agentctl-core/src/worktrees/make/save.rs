//! Saves files of a worktree before it is removed because its launch failed.
//!
//! Nothing tells the files of a setup program that did not finish from files that others put there. So every file that is
//! neither of the base nor a copy, and that git does not ignore, is saved in a rescue ref. Contents that a rescue ref
//! cannot hold keep the worktree. Files that git ignores are what setup programs make; they are saved in no rescue ref.

use std::path::Path;

use super::Prepared;
use super::plan::Place;
use crate::git::{
    Contents, Git, GitError, Repository, TreeChange, WorkTree, git_dir_of, is_cut_off,
};
use crate::host::Host;
use crate::text::shell_word;
use crate::worktrees::rescue::{self, Kept};
use crate::worktrees::{BRANCH_REFS, Rescue};

/// Saves what a removal would lose. Fails with the reason why the worktree has to be kept.
pub(super) fn save(
    host: &Host,
    git: &Git,
    repository: &Repository,
    place: &Place,
) -> Result<Option<Rescue>, String> {
    if is_empty(&place.path) {
        return Ok(None);
    }
    let text = |error: GitError| format!("what is in it is not known: {error}");
    let listed = git.worktrees(&repository.common).map_err(text)?;
    let Some(entry) = listed.iter().find(|entry| entry.path == place.path) else {
        // The directory of somebody else, which is not removed.
        return Ok(None);
    };
    if entry.branch() != Some(&format!("{BRANCH_REFS}{}", place.branch)) {
        return Err("it is on another branch or commit".to_owned());
    }
    if let Some(prepared) = place.prepared.get() {
        let now = Prepared::of(git, &place.path).map_err(text)?;
        return prepared.difference(&now).map_or(Ok(None), Err);
    }
    let Some(git_dir) = git_dir_of(&place.path) else {
        return Err("there are files in it, and no git directory".to_owned());
    };
    let tree = WorkTree { git_dir, top: place.path.clone() };
    Saving { git, repository, place, tree }.save(host).map_err(text)?
}

/// Says whether a worktree has no file yet, or does not exist.
fn is_empty(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let mut names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            names.all(|name| name.is_ok_and(|name| name == ".git"))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

struct Saving<'a> {
    git: &'a Git,
    repository: &'a Repository,
    place: &'a Place,
    tree: WorkTree,
}

impl Saving<'_> {
    fn save(&self, host: &Host) -> Result<Result<Option<Rescue>, String>, GitError> {
        let (git, top) = (self.git, &self.tree.top);
        let Some(work) = self.work(&self.contents(false)?)? else { return Ok(Ok(None)) };
        if let Err(why) = work {
            return Ok(Err(why));
        }
        // Now with its objects in the repository.
        let contents = self.contents(true)?;
        if let Some(why) = contents.gaps.first() {
            return Ok(Err(format!("not all files in it can be saved: {why}")));
        }
        let staged = contents.staged.as_deref();
        let kept = Kept {
            name: &self.place.name,
            tree: &contents.on_disk,
            staged: staged.filter(|staged| {
                *staged != contents.on_disk && Some(*staged) != contents.committed.as_deref()
            }),
            commit: contents.commit.as_deref(),
            others: Vec::new(),
        };
        let (reference, commit) = rescue::make(git, &self.repository.common, host.now(), &kept)?;
        let (main, path) = (self.repository.main.to_string_lossy(), top.to_string_lossy());
        let command = format!(
            "git -C {} worktree add --detach {} {reference}",
            shell_word(&main),
            shell_word(&path)
        );
        Ok(Ok(Some(Rescue { reference, commit, command })))
    }

    fn contents(&self, keep_objects: bool) -> Result<Contents, GitError> {
        self.git.contents(&self.tree, &self.repository.common.join("objects"), keep_objects)
    }

    /// Looks for work: `None` if there is none, and the reason if a rescue ref cannot hold it.
    fn work(&self, contents: &Contents) -> Result<Option<Result<(), String>>, GitError> {
        let (git, top) = (self.git, &self.tree.top);
        if let Some(why) = contents.gaps.first() {
            return Ok(Some(Err(format!("not all files in it can be read: {why}"))));
        }
        let is_set_up = self.place.checked_out.get().is_some();
        if is_set_up && let Some(first) = git.dirty_submodules(top)?.first() {
            return Ok(Some(Err(format!("the submodule {first} has changes"))));
        }
        let Some(committed) = &contents.committed else { return Ok(None) };
        let call = || contents.store.see(self.tree.read(git));
        let inside = git.embedded_repositories(call(), top, (committed, &contents.on_disk))?;
        if let Some(first) = inside.first() {
            return Ok(Some(Err(format!("{} is a repository of its own", first.display()))));
        }
        for change in git.tree_changes(call(), committed, &contents.on_disk)? {
            let is_known = change.is_deleted()
                || self.is_empty_or_copy(&change)
                || (!is_set_up
                    && !change.is_added()
                    && is_cut_off(call(), (top, &change.path), &change.object_before)?);
            if !is_known {
                return Ok(Some(Ok(())));
            }
        }
        let staged = contents.staged.as_ref();
        let is_staged = is_set_up
            && staged.is_some_and(|staged| *staged != contents.on_disk && staged != committed);
        Ok((is_staged || staged.is_none()).then_some(Ok(())))
    }

    /// Says whether a new file has no content, or that of the same file in the main working tree: `copy` makes those.
    fn is_empty_or_copy(&self, change: &TreeChange) -> bool {
        let file = self.tree.top.join(&change.path);
        let Ok(meta) = file.symlink_metadata() else { return false };
        if !change.is_added() || !meta.is_file() {
            return false;
        }
        let main = self.repository.main.join(&change.path);
        let is_alike = |main: std::fs::Metadata| main.is_file() && main.len() == meta.len();
        meta.len() == 0
            || (!self.repository.bare
                && main.symlink_metadata().is_ok_and(is_alike)
                && std::fs::read(&file)
                    .is_ok_and(|ours| std::fs::read(&main).is_ok_and(|theirs| ours == theirs)))
    }
}
