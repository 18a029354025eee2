//! Files and operations that `git status` does not show: a worktree that has some is kept.

use std::path::Path;

use agentctl_core::git::Git;
use agentctl_core::worktrees::take::{TakeError, take};
use agentctl_core::worktrees::{CleanAction, CleanSelection, LockReason};
use testkit::{Repository, sandboxed};

use super::{World, text};

/// Stops a rebase, with a changed file in the stash that only the rebase names.
pub(super) fn rebase_with_autostash(tree: &Repository, content: &str) {
    tree.write("README.md", content);
    let editor = "sequence.editor=echo break >";
    tree.git(["-c", editor, "rebase", "--quiet", "-i", "--autostash", "HEAD"]);
    assert_eq!(tree.git(["status", "--porcelain", "--untracked-files=no"]), "");
}

/// Stops a merge of notes. The notes themselves are in `refs/notes`.
pub(super) fn notes_merge(tree: &Repository, name: &str) {
    let (one, other) = (format!("--ref={name}"), format!("--ref={name}-other"));
    tree.git(["notes", &one, "add", "-f", "-m", "one", "HEAD"]);
    tree.git(["notes", &other, "add", "-f", "-m", "other", "HEAD"]);
    assert!(!tree.succeeds(["notes", &one, "merge", &format!("{name}-other")]), "a conflict");
}

/// Stops `git am` at a patch that does not apply.
pub(super) fn refused_patch(world: &World, tree: &Repository, subject: &str) {
    let patch = format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
        From: Test <test@example.com>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: {subject}\n\n\
        ---\ndiff --git a/none b/none\n--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n-- \n2.0\n"
    );
    let file = world.path.join("tmp/patch");
    std::fs::write(&file, patch).expect("written");
    assert!(!tree.succeeds(["am", "--quiet", text(&file)]), "it does not apply");
}

#[test]
fn operations_in_submodules_and_repositories_inside_keep_a_worktree() {
    sandboxed(|| {
        let world = World::new(true);
        let remote = text(&world.path.join("remote.git")).to_owned();
        let sub = world.made("sub");
        rebase_with_autostash(&sub.at(&sub.path.join("lib")), "not committed\n");
        let clone = |name: &str| {
            let tree = world.made(name);
            tree.git(["clone", "--quiet", &remote, "node_modules/clone"]);
            tree.at(&tree.path.join("node_modules/clone"))
        };
        rebase_with_autostash(&clone("rebase"), "not committed\n");
        refused_patch(&world, &clone("patch"), "precious");
        let notes = clone("notes");
        notes_merge(&notes, "commits");
        notes.git(["push", "--quiet", "origin", "refs/notes/*:refs/notes/*"]);
        world.clean(&world.order(CleanSelection::All));
        world.assert_kept("sub", "repository lib: a rebase is in progress in it");
        let inside = "repository node_modules/clone: ";
        world.assert_kept("rebase", &format!("{inside}a rebase is in progress in it"));
        world.assert_kept("patch", &format!("{inside}a rebase is in progress in it"));
        world.assert_kept("notes", &format!("{inside}a merge of notes is in progress in it"));
    });
}

#[test]
fn a_merge_of_notes_keeps_a_worktree_until_it_ends() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        notes_merge(&tree, "commits");
        world.assert_kept("fix", "a merge of notes is in progress in it");
        // git leaves the empty directory of the merge behind.
        tree.git(["notes", "merge", "--abort"]);
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
    });
}

#[test]
fn contents_of_an_unresolved_conflict_are_not_removed_by_force() {
    sandboxed(|| {
        let world = World::new(false);
        world.shop.git(["branch", "other"]);
        let other = world.path.join("other");
        world.shop.git(["worktree", "add", "--quiet", text(&other), "other"]);
        let other = world.shop.at(&other);
        other.write("README.md", "other\n");
        other.commit("other");
        let tree = world.made_fast("fix");
        tree.write("README.md", "edited here\n");
        world.shop.git(["worktree", "remove", "--force", text(&other.path)]);
        let _conflict = tree.command(["checkout", "--quiet", "-m", "other"]).output();
        tree.git(["checkout", "--quiet", "--ours", "README.md"]);
        let mut order = world.named(text(&tree.path));
        order.force = true;
        let row = world.clean(&order).remove(0);
        assert_eq!((row.action, row.forcible), (CleanAction::Kept, false), "{row:?}");
        let reason = row.reasons.iter().find(|reason| reason.contains("unresolved conflicts"));
        let command = reason.and_then(|reason| reason.split('`').nth(1)).expect("a command");
        let mut words: Vec<&str> = command.split(' ').skip(1).collect();
        words.push("--quiet");
        world.shop.git(words);
        let row = world.clean(&order).remove(0);
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
    });
}

#[test]
fn files_below_a_submodule_that_is_not_checked_out_keep_a_worktree() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("fix");
        tree.git(["submodule", "--quiet", "deinit", "--force", "lib"]);
        tree.write("lib/deep/feature.c", "int precious;\n");
        assert_eq!(tree.git(["status", "--porcelain"]), "");
        let git = Git::find(&world.fleet.host).expect("git");
        assert_eq!(git.dirty_submodules(&tree.path).expect("asked"), ["lib"]);
        let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("refused");
        assert!(matches!(refused, TakeError::DirtySubmodules { .. }), "{refused}");
        let mut order = world.named("fix");
        for ignored in [false, true] {
            (order.ignored, order.force) = (ignored, ignored);
            let row = world.clean(&order).remove(0);
            assert_eq!((row.action, row.forcible), (CleanAction::Kept, false), "{row:?}");
            let reason = "git does not see 1 file below the submodule lib, which is not checked \
                          out (lib/deep/feature.c)";
            assert_eq!(row.reasons, [reason]);
        }
        std::fs::remove_dir_all(tree.path.join("lib/deep")).expect("removed");
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn contents_of_git_lfs_in_a_submodule_must_be_in_the_main_tree() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("fix");
        let lib = tree.at(&tree.path.join("lib"));
        let git_dir = lib.git(["rev-parse", "--absolute-git-dir"]);
        let below = Path::new("lfs/objects/aa/aa/aaaa");
        let write = |git_dir: &Path, content: &str| {
            let file = git_dir.join(below);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            std::fs::write(file, content).expect("written");
        };
        write(Path::new(&git_dir), "large\n");
        let reason = "1 file of lfs/objects is nowhere else (aa/aa/aaaa)";
        world.assert_kept("fix", reason);
        let twin = world.shop.path.join(".git/modules/lib");
        write(&twin, "lar");
        world.assert_kept("fix", reason);
        write(&twin, "large\n");
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn staged_contents_of_a_half_made_worktree_are_kept_when_its_files_are_gone() {
    sandboxed(|| {
        let world = World::new(false);
        for name in ["staged", "plain"] {
            let tree = world.made_fast(name);
            let mut reason = LockReason::of_this_process(&world.fleet.host, "id").expect("own");
            reason.start_ticks += 1;
            let lock = ["worktree", "lock", "--reason", &reason.to_string(), text(&tree.path)];
            world.shop.git(lock);
            if name == "staged" {
                tree.write("new.txt", "precious\n");
                tree.git(["add", "new.txt"]);
            }
            for entry in std::fs::read_dir(&tree.path).expect("listed") {
                let path = entry.expect("an entry").path();
                let removed = std::fs::remove_dir_all(&path);
                removed.or_else(|_| std::fs::remove_file(&path)).expect("removed");
            }
        }
        let rows = world.clean(&world.order(CleanSelection::All));
        let gone = rows.iter().find(|row| row.name.as_deref() == Some("plain")).expect("a row");
        assert_eq!(gone.action, CleanAction::Removed, "{rows:?}");
        world.assert_kept("staged", "its directory is empty, and its index has content");
    });
}

#[test]
fn staged_contents_of_a_submodule_that_is_not_checked_out_keep_a_worktree() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("fix");
        tree.write("lib/new.txt", "precious\n");
        tree.at(&tree.path.join("lib")).git(["add", "new.txt"]);
        std::fs::remove_dir_all(tree.path.join("lib")).expect("removed");
        std::fs::create_dir(tree.path.join("lib")).expect("made");
        world.assert_kept("fix", "submodule lib: its index has content that is not committed");
    });
}
