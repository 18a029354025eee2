//! Repositories inside a worktree: a remote counts only if it stays, can be asked and has the commits.

use std::path::{Path, PathBuf};

use agentctl_core::worktrees::{CleanAction, CleanSelection};
use testkit::{Repository, sandboxed};

use super::{World, text};

impl World {
    /// Makes a bare repository with one commit.
    fn bare(&self, name: &str) -> Repository {
        let source = Repository::new(&self.path.join(format!("{name}.source")));
        let path = self.path.join(name);
        source.git(["clone", "--quiet", "--bare", text(&source.path), text(&path)]);
        std::fs::remove_dir_all(&source.path).expect("removed");
        source.at(&path)
    }

    /// Makes a worktree with a clone in a build folder.
    fn with_clone(&self, name: &str, url: &str) -> (Repository, Repository) {
        let tree = self.made_fast(name);
        let path = tree.path.join("node_modules/x");
        self.shop.git(["clone", "--quiet", url, text(&path)]);
        let clone = tree.at(&path);
        (tree, clone)
    }
}

fn work_in(repository: &Repository) -> String {
    repository.write("work.txt", "work\n");
    repository.commit("work")
}

#[test]
fn a_remote_that_is_gone_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let lib = world.bare("lib.git");
        let (_, clone) = world.with_clone("gone", text(&lib.path));
        let (_, other) = world.with_clone("there", text(&lib.path));
        let row = world.clean_one("there");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert!(!other.path.exists());
        std::fs::remove_dir_all(&lib.path).expect("removed");
        let reason = format!("the remote origin ({}) is not a repository", lib.path.display());
        world.assert_kept("gone", &reason);
        world.assert_kept("gone", "repository node_modules/x: 1 commit is nowhere else");
        // Not a repository: a file, an empty directory.
        std::fs::create_dir(&lib.path).expect("made");
        world.assert_kept("gone", &reason);
        assert!(clone.path.join("README.md").exists());
    });
}

/// git reads the name of a remote as the beginning of a pattern.
#[test]
fn a_remote_whose_name_begins_like_a_distant_one_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let lib = world.bare("lib.git");
        for (name, distant, other) in [("below", "a", "a/b"), ("letters", "[a-z]*", "near")] {
            let (_, clone) = world.with_clone(name, text(&lib.path));
            clone.git(["remote", "remove", "origin"]);
            for (remote, url) in [(distant, "https://example.org/lib"), (other, "/nowhere/lib")] {
                clone.git(["config", &format!("remote.{remote}.url"), url]);
            }
            let commit = work_in(&clone);
            clone.git(["update-ref", &format!("refs/remotes/{other}/main"), &commit]);
            world.assert_kept(name, "repository node_modules/x: 2 commits are nowhere else (");
        }
    });
}

#[test]
fn a_remote_that_lost_the_branch_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let lib = world.bare("lib.git");
        let (_, clone) = world.with_clone("fix", text(&lib.path));
        work_in(&clone);
        clone.git(["push", "--quiet", "origin", "HEAD:feature"]);
        lib.git(["branch", "--quiet", "-D", "feature"]);
        // The commit is still there, and no ref names it.
        world.assert_kept("fix", "repository node_modules/x: 1 commit is nowhere else");
        lib.git(["gc", "--quiet", "--prune=now"]);
        world.assert_kept("fix", "1 commit is nowhere else (");
        let reason = format!("the remote origin ({}) does not have it", lib.path.display());
        world.assert_kept("fix", &reason);
        clone.git(["push", "--quiet", "origin", "HEAD:feature"]);
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn repositories_in_two_worktrees_are_no_remotes_of_each_other() {
    sandboxed(|| {
        let world = World::new(false);
        let (one, two) = (world.made_fast("one"), world.made_fast("two"));
        let inside = |tree: &Repository| tree.path.join("node_modules/x");
        let first = Repository::new(&inside(&one));
        first.git(["clone", "--quiet", text(&first.path), text(&inside(&two))]);
        first.git(["remote", "add", "o", text(&inside(&two))]);
        first.git(["fetch", "--quiet", "o"]);
        for row in world.clean(&world.order(CleanSelection::All)) {
            assert_eq!(row.action, CleanAction::Kept, "{row:?}");
            let said = row.reasons.join("; ");
            assert!(said.contains("is in a worktree, which can be removed too"), "{said}");
        }
        assert!(inside(&one).exists() && inside(&two).exists());
        // A worktree of another repository can be removed too.
        let other = Repository::new(&world.path.join("other"));
        let elsewhere = world.path.join("elsewhere");
        other.git(["worktree", "add", "--quiet", text(&elsewhere)]);
        let copy = elsewhere.join("x");
        first.git(["clone", "--quiet", text(&first.path), text(&copy)]);
        first.git(["remote", "set-url", "o", text(&copy)]);
        world.assert_kept("one", "is in a worktree, which can be removed too");
    });
}

/// Writes a path as a `file` URL with every letter `t` encoded.
fn encoded(path: &Path) -> String {
    format!("file://localhost{}", text(path).replace('t', "%74"))
}

#[test]
fn the_path_in_a_file_url_is_decoded() {
    sandboxed(|| {
        let world = World::new(false);
        let nested = world.made_fast("inside").path.join("node_modules/x");
        let nested = Repository::new(&nested);
        let hidden = nested.path.join(".git/hidden.git");
        let hidden = Repository::empty(&hidden, &["--bare"]);
        nested.git(["remote", "add", "o", &encoded(&hidden.path)]);
        nested.git(["push", "--quiet", "o", "HEAD"]);
        nested.git(["fetch", "--quiet", "o"]);
        world.assert_kept("inside", "repository node_modules/x: 1 commit is nowhere else");
        let lib = world.bare("outside.git");
        world.with_clone("outside", &encoded(&lib.path));
        assert_eq!(world.clean_one("outside").action, CleanAction::Removed);
    });
}

#[test]
fn a_remote_that_borrows_its_objects_or_has_not_all_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let nested = Repository::new(&world.made_fast("w1").path.join("node_modules/x"));
        let shared = world.path.join("shared.git");
        nested.git(["clone", "--quiet", "--bare", "--shared", text(&nested.path), text(&shared)]);
        nested.git(["remote", "add", "o", text(&shared)]);
        nested.git(["fetch", "--quiet", "o"]);
        world.assert_kept("w1", "borrows objects");
        let lib = world.bare("lib.git");
        let (_, clone) = world.with_clone("w2", text(&lib.path));
        lib.git(["config", "remote.origin.promisor", "true"]);
        world.assert_kept("w2", "is a partial clone");
        lib.git(["config", "--unset", "remote.origin.promisor"]);
        clone.git(["remote", "set-url", "origin", &format!("ext::git %s {}", text(&lib.path))]);
        world.assert_kept("w2", "repository node_modules/x: 1 commit is nowhere else");
    });
}

#[test]
fn commits_may_be_on_several_remotes() {
    sandboxed(|| {
        let world = World::new(false);
        let (lib, backup) = (world.bare("lib.git"), world.path.join("backup.git"));
        let (_, clone) = world.with_clone("fix", text(&lib.path));
        work_in(&clone);
        let backup = Repository::empty(&backup, &["--bare"]);
        clone.git(["remote", "add", "backup", text(&backup.path)]);
        world.assert_kept("fix", "1 commit is nowhere else");
        clone.git(["push", "--quiet", "backup", "HEAD:refs/heads/work"]);
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn a_tag_with_a_text_and_a_tag_of_a_file_are_work() {
    sandboxed(|| {
        let world = World::new(false);
        let lib = world.bare("lib.git");
        let (_, clone) = world.with_clone("w1", text(&lib.path));
        clone.git(["tag", "--annotate", "v1", "-m", "release notes"]);
        world.assert_kept("w1", "repository node_modules/x: refs/tags/v1 is nowhere else");
        clone.git(["push", "--quiet", "origin", "v1"]);
        assert_eq!(world.clean_one("w1").action, CleanAction::Removed);
        let (_, clone) = world.with_clone("w2", text(&lib.path));
        clone.write("note.txt", "a note\n");
        let blob = clone.git(["hash-object", "-w", "note.txt"]);
        std::fs::remove_file(clone.path.join("note.txt")).expect("removed");
        clone.git(["tag", "note", &blob]);
        world.assert_kept("w2", "repository node_modules/x: refs/tags/note is nowhere else");
    });
}

#[test]
fn a_worktree_of_a_repository_inside_keeps_the_repository() {
    sandboxed(|| {
        let world = World::new(false);
        let lib = world.bare("lib.git");
        let (_, clone) = world.with_clone("w1", text(&lib.path));
        let elsewhere: PathBuf = world.path.join("elsewhere");
        clone.git(["worktree", "add", "--quiet", "--detach", text(&elsewhere)]);
        let tree = clone.at(&elsewhere);
        tree.write("staged.txt", "staged\n");
        tree.git(["add", "staged.txt"]);
        let reason = format!("it has the worktree {}", elsewhere.display());
        world.assert_kept("w1", &reason);
        clone.git(["worktree", "remove", "--force", text(&elsewhere)]);
        assert_eq!(world.clean_one("w1").action, CleanAction::Removed);
    });
}
