//! States of a worktree that `git status` and `git log --all` do not show.

use std::path::Path;

use agentctl_core::worktrees::LockReason;
use testkit::Repository;

use super::World;
use super::hidden_contents::{notes_merge, rebase_with_autostash, refused_patch};
use super::states::{Scene, State as S};

const CACHE: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";

impl Scene<'_> {
    /// Makes a commit that no ref and no reflog names.
    fn loose_commit(&self, tree: &Repository) -> String {
        let files = tree.git(["hash-object", "-t", "tree", "-w", "/dev/null"]);
        tree.git(["commit-tree", &files, "-m", &self.unique])
    }

    /// States of HEAD, of root refs and of operations.
    pub(super) fn hide_commits(&self, state: S) {
        let flat = self.name.replace('/', "-");
        match state {
            S::BranchDeleted => {
                self.commit("of a deleted branch");
                self.tree.git(["rm", "--quiet", &self.unique]);
                self.tree.git(["commit", "--quiet", "-m", "removed"]);
                self.tree.git(["update-ref", "-d", &format!("refs/heads/{}", self.branch)]);
            }
            S::OrphanHead => {
                self.tree.git(["symbolic-ref", "HEAD", &format!("refs/heads/fresh-{flat}")]);
            }
            S::RootRef => {
                let commit = self.loose_commit(self.tree);
                self.tree.git(["update-ref", "SAVED_HEAD", &commit]);
            }
            S::NotesMerge => notes_merge(self.tree, &flat),
            S::SideOfConflict => {
                let side = format!("side-{flat}");
                let path = self.world.path.join(&side);
                let text = path.to_str().expect("UTF-8");
                self.world.shop.git(["worktree", "add", "--quiet", "-b", &side, text]);
                let other = self.world.shop.at(&path);
                other.write("README.md", format!("side of {}", self.text));
                other.commit("side");
                self.world.shop.git(["worktree", "remove", "--force", text]);
                self.tree.write("README.md", format!("edited {}", self.text));
                // With staged files git refuses.
                if self.tree.command(["checkout", "-m", &side]).output().is_ok() {
                    let _refused = self.tree.succeeds(["checkout", "--ours", "README.md"]);
                }
            }
            S::LaunchInProgress => {
                self.commit("one");
                self.commit("two");
                self.world.shop.git(["merge", "--quiet", "--squash", &self.branch]);
                self.world.shop.git(["commit", "--quiet", "--allow-empty", "-m", "squashed"]);
                let next = Launch::of(self.world, self.name);
                let path = next.path.to_str().expect("UTF-8");
                let add = ["worktree", "add", "--quiet", "-b", &next.branch, path, &self.branch];
                self.world.shop.git(add);
                self.world.shop.git(["update-ref", &next.base, &self.branch]);
                let reason = LockReason::of_this_process(&self.world.fleet.host, "id");
                let reason = reason.expect("own").to_string();
                self.world.shop.git(["worktree", "lock", "--reason", &reason, path]);
            }
            S::EmptiedHalfMade => {
                self.tree.write(&self.unique, &self.text);
                self.tree.git(["add", &self.unique]);
                let host = &self.world.fleet.host;
                let mut reason = LockReason::of_this_process(host, "id").expect("own");
                reason.start_ticks += 1;
                let path = self.tree.path.to_str().expect("UTF-8");
                self.world.shop.git(["worktree", "lock", "--reason", &reason.to_string(), path]);
                std::fs::remove_dir_all(&self.tree.path).expect("removed");
                std::fs::create_dir(&self.tree.path).expect("made");
            }
            _ => {}
        }
    }

    /// Clones the remote into a build folder.
    fn clone_of_remote(&self, state: S) -> Repository {
        let remote = self.world.path.join("remote.git");
        let folder = format!("target/{state:?}");
        self.tree.write("target/CACHEDIR.TAG", CACHE);
        self.tree.git(["clone", "--quiet", remote.to_str().expect("UTF-8"), &folder]);
        self.tree.at(&self.tree.path.join(folder))
    }

    /// States of clones and submodules.
    pub(super) fn hide_in_repositories(&self, state: S) {
        let lib = || self.tree.at(&self.tree.path.join("lib"));
        match state {
            S::NestedRebase => rebase_with_autostash(&self.clone_of_remote(state), &self.text),
            S::NestedPatch => {
                refused_patch(self.world, &self.clone_of_remote(state), &self.unique);
            }
            S::NestedRootRef => {
                let clone = self.clone_of_remote(state);
                let commit = self.loose_commit(&clone);
                std::fs::write(clone.path.join(".git/saved"), commit).expect("written");
            }
            S::NestedUnborn => {
                let clone = self.clone_of_remote(state);
                clone.write(&self.unique, &self.text);
                clone.commit("work");
                clone.git(["update-ref", "-d", "refs/heads/main"]);
                clone.git(["rm", "--quiet", "-r", "--force", "."]);
            }
            S::NestedTag => {
                let clone = self.clone_of_remote(state);
                clone.git(["tag", "-a", "-m", &self.unique, "kept"]);
            }
            S::NestedLfs => {
                let clone = self.clone_of_remote(state);
                clone.write(Path::new(".git/lfs/objects/aa/aa").join(&self.unique), &self.text);
            }
            S::SubmoduleRebase => rebase_with_autostash(&lib(), &self.text),
            S::SubmoduleStaged => {
                lib().write(&self.unique, &self.text);
                lib().git(["add", &self.unique]);
                std::fs::remove_dir_all(lib().path).expect("removed");
                std::fs::create_dir(lib().path).expect("made");
            }
            S::BelowGitlink => {
                self.tree.git(["submodule", "--quiet", "deinit", "--force", "lib"]);
                self.tree.write(format!("lib/deep/{}", self.unique), &self.text);
            }
            _ => {}
        }
    }
}

/// Another launch that began at the branch of a worktree.
struct Launch {
    path: std::path::PathBuf,
    branch: String,
    base: String,
}

impl Launch {
    fn of(world: &World, name: &str) -> Self {
        let folder = format!("{}-next", name.replace('/', "-"));
        Self {
            path: world.path.join("shop.worktrees").join(folder),
            branch: format!("agentctl/{name}-next"),
            base: format!("refs/agentctl/base/{name}-next"),
        }
    }
}

/// Lets the launch that began at the branch of a worktree fail: everything that it made is removed.
pub(super) fn fail_launch(world: &World, name: &str) {
    let Launch { path, branch, base } = Launch::of(world, name);
    let path = path.to_str().expect("UTF-8");
    world.shop.git(["worktree", "remove", "--force", "--force", path]);
    world.shop.git(["update-ref", "-d", &format!("refs/heads/{branch}")]);
    world.shop.git(["update-ref", "-d", &base]);
}
