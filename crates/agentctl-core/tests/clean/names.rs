//! Refs and links by which a worktree names something: what only they name is kept, and a branch that stays counts.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_core::worktrees::{CleanAction, CleanedWorktree};
use testkit::{Repository, sandboxed};

use super::{World, commit_in, text};

/// Checks that a ref of the repository leads to a commit after its worktree was removed.
fn assert_rescued(world: &World, row: &CleanedWorktree, commit: &str) {
    assert_eq!(row.action, CleanAction::Removed, "{row:?}");
    let rescue = row.rescue.as_ref().unwrap_or_else(|| panic!("no rescue ref: {row:?}"));
    let is_ancestor = ["merge-base", "--is-ancestor", commit, &rescue.reference];
    assert!(world.shop.succeeds(is_ancestor), "{row:?}");
}

#[test]
fn commits_that_only_fetch_head_or_orig_head_names_are_rescued() {
    sandboxed(|| {
        let world = World::new(false);
        let fetching = world.made_fast("fetching");
        let other = Repository::new(&world.path.join("other"));
        let fetched = commit_in(&other);
        fetching.git(["fetch", "--quiet", text(&other.path), "HEAD"]);
        std::fs::remove_dir_all(&other.path).expect("removed");
        assert_rescued(&world, &world.clean_one("fetching"), &fetched);

        world.shop.git(["config", "core.logAllRefUpdates", "false"]);
        let resetting = world.made_fast("resetting");
        let reset = commit_in(&resetting);
        resetting.git(["reset", "--quiet", "--hard", "HEAD~1"]);
        assert_rescued(&world, &world.clean_one("resetting"), &reset);
    });
}

#[test]
fn a_private_ref_that_names_no_commit_keeps_its_worktree() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let note = world.path.join("note");
        std::fs::write(&note, "a note\n").expect("written");
        let blob = tree.git(["hash-object", "-w", text(&note)]);
        tree.git(["update-ref", "refs/worktree/note", &blob]);
        world.assert_kept("fix", "its ref refs/worktree/note names no commit");
        tree.git(["update-ref", "-d", "refs/worktree/note"]);
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn on_a_detached_head_the_branch_of_the_same_name_holds_the_commits_and_stays() {
    sandboxed(|| {
        let world = World::new(false);
        for force in [false, true] {
            let name = format!("w{force}");
            let tree = world.made_fast(&name);
            tree.git(["checkout", "--quiet", "--detach"]);
            let commit = commit_in(&tree);
            world.assert_kept(&name, "1 commit is nowhere else");
            tree.git(["branch", "--force", &format!("agentctl/{name}")]);
            let mut order = world.named(&name);
            order.force = force;
            let row = world.clean(&order).remove(0);
            assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, false), "{row:?}");
            assert_eq!(row.reasons, [format!("its branch agentctl/{name} has its commits")]);
            assert_eq!(world.shop.git(["rev-parse", &format!("agentctl/{name}")]), commit);
            // The branch alone has them now, and is cleaned by its name.
            world.assert_kept(&format!("agentctl/{name}"), "1 commit is nowhere else");
        }
    });
}

#[test]
fn ignored_links_to_the_main_working_tree_are_no_work() {
    sandboxed(|| {
        let world = World::new(false);
        world.shop.write(".gitignore", "*.log\n.env\nnode_modules\n");
        world.shop.commit("ignore links");
        let main = &world.shop.path;
        let linked = |name: &str, target: &Path| {
            let tree = world.made_fast(name);
            std::fs::create_dir_all(main.join("node_modules/left-pad")).expect("made");
            std::fs::remove_file(tree.path.join(".env")).expect("removed");
            symlink(main.join(".env"), tree.path.join(".env")).expect("linked");
            symlink(target, tree.path.join("node_modules")).expect("linked");
            tree
        };
        let tree = linked("w1", &main.join("node_modules"));
        let row = world.clean_one("w1");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        let mut ignored = row.ignored;
        ignored.sort();
        assert_eq!(ignored, [".env", "node_modules"].map(PathBuf::from));
        assert!(!tree.path.exists() && main.join("node_modules/left-pad").exists());
        assert!(main.join(".env").exists());
        let reason = "1 ignored file is nowhere else (node_modules)";
        let outside = world.path.join("results");
        std::fs::create_dir(&outside).expect("made");
        for (name, target) in
            [("w2", main.join("nothing")), ("w3", outside), ("w4", PathBuf::from("src"))]
        {
            linked(name, &target);
            world.assert_kept(name, reason);
        }
    });
}

#[test]
fn a_branch_is_no_proof_while_it_is_not_known_whether_it_is_rebased() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        commit_in(&tree);
        world.shop.git(["branch", "dev", "agentctl/fix"]);
        world.made_fast("other");
        let state = world.shop.path.join(".git/worktrees/other/rebase-merge");
        std::fs::create_dir(&state).expect("made");
        let file = state.join("head-name");
        assert!(Command::new("mkfifo").arg(&file).status().expect("run").success());
        world.assert_kept("fix", "head-name");
        std::fs::remove_file(&file).expect("removed");
        std::fs::write(&file, vec![b'x'; (1 << 20) + 1]).expect("written");
        world.assert_kept("fix", "head-name");
        std::fs::write(&file, "refs/heads/dev\n").expect("written");
        world.assert_kept("fix", "1 commit is nowhere else");
        std::fs::remove_dir_all(&state).expect("removed");
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}
