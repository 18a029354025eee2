//! Work outside of the directories of a sparse working tree: `diff` and `compare` show it, `take` takes it.

use agentctl_core::ask::{DiffRequest, WorkDiff};
use agentctl_core::worktrees::WorktreeOptions;
use agentctl_core::worktrees::take::{TakeOrder, take};
use testkit::{Repository, sandboxed};

use super::World;
use super::take_submodules::{compared, here, one_diff};

pub(crate) fn paths(diff: &WorkDiff) -> Vec<&str> {
    diff.files.iter().map(|file| file.path.as_str()).collect()
}

/// Adds two directories and makes a worktree that has the first one only.
fn sparse(world: &World) -> Repository {
    world.shop.write("d1/f", "1\n");
    world.shop.write("d2/f", "2\n");
    world.shop.commit("directories");
    let options =
        WorktreeOptions { sparse: vec!["d1".into()], force: true, ..WorktreeOptions::default() };
    world.made_with("g/fix", options)
}

#[test]
fn work_outside_of_a_sparse_working_tree_is_compared_and_taken() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = sparse(&world);
        assert!(!tree.path.join("d2").exists(), "it is sparse");
        tree.write("d1/f", "changed\n");
        tree.write("d2/f", "changed too\n");
        tree.write("d2/new.txt", "new\n");
        let before = world.shop.git_files();
        let request = DiffRequest {
            of: "g/fix".into(),
            base: None,
            patch: true,
            prefix: World::settings().prefix,
        };
        let mut document = here(&world).diff(&request).expect("compared");
        let diff = document.diffs.remove(0);
        assert_eq!(diff.gaps, [""; 0]);
        assert_eq!(paths(&diff), ["d1/f", "d2/f", "d2/new.txt"]);
        let patch = diff.patch.expect("a patch").into_bytes();
        assert!(String::from_utf8(patch).expect("UTF-8").contains("+changed too"));
        let (slot, faults) = compared(&world);
        assert_eq!((slot.files, slot.dirty, faults), (3, 3, Vec::new()));
        assert!(slot.merges.expect("known").clean);
        assert_eq!(world.shop.git_files(), before, "a question wrote into the repository");
        let order = TakeOrder { with_uncommitted: true, ..World::take_order(&tree) };
        assert_eq!(take(&world.fleet, &order).expect("taken").files, 3);
        assert_eq!(world.shop.git(["show", "main:d2/f"]), "changed too");
        // Files that are not checked out are no deletions.
        assert!(world.shop.path.join("src/lib.txt").exists());
    });
}

#[test]
fn commits_of_a_sparse_worktree_are_taken_and_nothing_else_goes() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = sparse(&world);
        tree.write("d1/f", "changed\n");
        tree.git(["commit", "--quiet", "-a", "-m", "work"]);
        assert_eq!(paths(&one_diff(&world, "g/fix")), ["d1/f"]);
        assert_eq!(compared(&world).0.files, 1);
        assert_eq!(take(&world.fleet, &World::take_order(&tree)).expect("taken").files, 1);
        assert_eq!(world.shop.git(["show", "main:d2/f"]), "2");
    });
}

#[test]
fn changes_outside_of_a_sparse_main_tree_are_taken_along_by_a_launch() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        shop.write("d1/f", "1\n");
        shop.write("d2/f", "2\n");
        shop.commit("directories");
        shop.git(["sparse-checkout", "set", "d1"]);
        shop.write("d2/f", "changed\n");
        shop.write("d2/new.txt", "new\n");
        let options = WorktreeOptions { with_changes: true, ..WorktreeOptions::default() };
        let _tree = world.made_with("fix", options);
        assert_eq!(shop.git(["show", "agentctl/fix:d2/f"]), "changed");
        assert_eq!(shop.git(["show", "agentctl/fix:d2/new.txt"]), "new");
        assert_eq!(shop.git(["show", "agentctl/fix:src/lib.txt"]), "one\ntwo\nthree");
    });
}
