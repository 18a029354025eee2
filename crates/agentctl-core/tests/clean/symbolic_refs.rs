//! Symbolic refs: the ref that one leads to is never deleted for it, and an alias proves nothing.

use agentctl_core::worktrees::{CleanAction, CleanNews, CleanSelection};
use testkit::{Repository, sandboxed};

use super::{World, commit_in};

/// Makes a branch with a commit of its own. Returns the commit.
fn branch_with_work(shop: &Repository, branch: &str) -> String {
    let tree = shop.git(["rev-parse", "HEAD^{tree}"]);
    let commit = shop.git(["commit-tree", &tree, "-p", "HEAD", "-m", branch]);
    shop.git(["branch", branch, &commit]);
    commit
}

#[test]
fn a_branch_that_leads_to_another_one_is_not_ours() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        let main = shop.git(["rev-parse", "main"]);
        let dev = branch_with_work(shop, "dev");
        for (name, target) in [("one", "main"), ("two", "dev")] {
            world.made_fast(name);
            let branch = format!("refs/heads/agentctl/{name}");
            shop.git(["symbolic-ref", &branch, &format!("refs/heads/{target}")]);
        }
        for which in [CleanSelection::All, CleanSelection::Merged] {
            world.clean(&world.order(which));
            assert_eq!(shop.git(["rev-parse", "refs/heads/main"]), main);
            assert_eq!(shop.git(["rev-parse", "refs/heads/dev"]), dev);
        }
    });
}

#[test]
fn a_base_ref_that_leads_to_a_branch_does_not_delete_it() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        let tree = world.made_fast("fix");
        let dev = branch_with_work(shop, "dev");
        shop.git(["symbolic-ref", "refs/agentctl/base/fix", "refs/heads/dev"]);
        let row = world.clean_one("fix");
        assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, true), "{row:?}");
        assert!(!tree.path.exists() && row.warnings.is_empty(), "{row:?}");
        assert_eq!(shop.git(["rev-parse", "refs/heads/dev"]), dev);
        // The next worktree of this name gets a base of its own.
        let tree = world.made("fix");
        assert!(!shop.succeeds(["symbolic-ref", "--quiet", "refs/agentctl/base/fix"]));
        assert_eq!(
            shop.git(["rev-parse", "refs/agentctl/base/fix"]),
            tree.git(["rev-parse", "HEAD"])
        );
        assert_eq!(shop.git(["rev-parse", "refs/heads/dev"]), dev);
    });
}

#[test]
fn a_branch_that_becomes_symbolic_during_the_clean_goes_alone() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        let main = shop.git(["rev-parse", "main"]);
        world.made_fast("fix");
        let row = world
            .clean_telling(&world.named("fix"), &mut |news| {
                if let CleanNews::DeletingBranch(branch) = news {
                    shop.git(["symbolic-ref", &branch, "refs/heads/main"]);
                    shop.git(["symbolic-ref", "refs/agentctl/base/fix", "refs/heads/main"]);
                }
            })
            .worktrees
            .remove(0);
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert_eq!(shop.git(["rev-parse", "refs/heads/main"]), main);
    });
}

#[test]
fn an_alias_of_its_branch_does_not_hold_the_commits_of_a_worktree() {
    sandboxed(|| {
        let aliases = ["refs/heads/latest", "refs/remotes/origin/latest", "refs/tags/latest"];
        for alias in aliases.into_iter().chain(["refs/pull/1"]) {
            let world = World::new(false);
            let tree = world.made_fast("fix");
            let commit = commit_in(&tree);
            world.shop.git(["symbolic-ref", alias, "refs/heads/agentctl/fix"]);
            world.assert_kept("fix", "1 commit is nowhere else");
            let mut order = world.named("fix");
            order.force = true;
            let row = world.clean(&order).remove(0);
            assert_eq!(row.action, CleanAction::Removed, "{alias}: {row:?}");
            let rescue = row.rescue.expect("a rescue ref").reference;
            assert!(
                world.shop.succeeds(["merge-base", "--is-ancestor", &commit, &rescue]),
                "{alias}"
            );
        }
    });
}

#[test]
fn a_head_without_a_working_tree_that_leads_to_its_branch_does_not_hold_its_commits() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let commit = commit_in(&tree);
        world.shop.git(["config", "core.bare", "true"]);
        world.shop.git(["symbolic-ref", "HEAD", "refs/heads/agentctl/fix"]);
        let mut order = world.named("fix");
        order.from.clone_from(&tree.path);
        (order.force, order.ignored) = (true, true);
        let row = world.clean(&order).remove(0);
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        let rescue = row.rescue.expect("a rescue ref").reference;
        assert!(world.shop.succeeds(["merge-base", "--is-ancestor", &commit, &rescue]));
    });
}

#[test]
fn the_branch_behind_an_alias_still_holds_the_commits_of_a_worktree() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        shop.git(["branch", "master"]);
        let tree = world.made_from("fix", "master");
        commit_in(&tree);
        shop.git(["symbolic-ref", "refs/heads/master", "refs/heads/main"]);
        world.assert_kept("fix", "1 commit is nowhere else");
        shop.git(["merge", "--quiet", "--squash", "agentctl/fix"]);
        shop.git(["commit", "--quiet", "-m", "squashed"]);
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert_eq!(row.reasons, ["merged into main by content"]);
    });
}

#[test]
fn an_alias_below_the_remotes_of_a_repository_inside_proves_nothing() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let remote = world.path.join("remote.git");
        let path = tree.path.join("node_modules/clone");
        let (from, to) = (remote.to_str().expect("UTF-8"), path.to_str().expect("UTF-8"));
        tree.git(["clone", "--quiet", from, to]);
        let inside = tree.at(&path);
        commit_in(&inside);
        inside.git(["symbolic-ref", "refs/remotes/origin/work", "refs/heads/main"]);
        world.assert_kept("fix", "repository node_modules/clone: 1 commit is nowhere else");
    });
}

#[test]
fn a_branch_without_a_worktree_that_cannot_be_deleted_is_kept() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        world.shop.git(["worktree", "remove", "--force", tree.path.to_str().expect("UTF-8")]);
        let lock = world.shop.write(".git/refs/heads/agentctl/fix.lock", "");
        world.assert_kept("fix", "its branch cannot be deleted: ");
        std::fs::remove_file(lock).expect("removed");
        assert!(world.clean_one("fix").branch_deleted);
    });
}
