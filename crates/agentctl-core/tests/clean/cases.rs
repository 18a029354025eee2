//! Single cases: what is removed, what is kept and what is said.

use agentctl_core::worktrees::CleanAction;
use testkit::sandboxed;

use super::World;

#[test]
fn a_worktree_without_work_goes_with_its_branch_and_its_folder() {
    sandboxed(|| {
        let world = World::new(true);
        let before = world.shop.git(["for-each-ref"]);
        let tree = world.made("g-1/codex");
        let row = world.clean_one("g-1/codex");
        assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, true), "{row:?}");
        assert_eq!(row.reasons, ["main has its commits"]);
        assert!(!tree.path.exists() && !world.path.join("shop.worktrees").exists());
        assert_eq!(world.shop.git(["for-each-ref"]), before);
    });
}
