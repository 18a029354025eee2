//! What is made, and where; and what is refused before anything exists.

use agentctl_core::worktrees::{MakeError, make};

use super::World;

#[test]
fn a_worktree_has_its_branch_base_ref_and_directory() {
    let world = World::new();
    let head = world.shop.git(["rev-parse", "HEAD"]);
    let made = world.made("g-1/codex");
    assert_eq!(made.path, world.path.join("shop.worktrees/g-1-codex"));
    assert_eq!((made.cwd.as_path(), made.left_behind), (made.path.as_path(), 0));
    assert_eq!(made.branch, "agentctl/g-1/codex");
    assert_eq!(world.shop.git(["rev-parse", "refs/heads/agentctl/g-1/codex"]), head);
    assert_eq!(world.shop.git(["rev-parse", "refs/agentctl/base/g-1/codex"]), head);
    let reflog = world.shop.git(["reflog", "show", "--format=%gs", "agentctl/g-1/codex"]);
    assert_eq!(reflog, "branch: Created from refs/heads/main");
    let listed = world.shop.git(["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("locked"), "{listed}");
    assert_eq!(std::fs::read_to_string(made.path.join("README.md")).expect("there"), "first\n");
}

#[test]
fn a_taken_name_among_several_makes_nothing() {
    let world = World::new();
    world.made("b");
    let before = world.shop.git(["for-each-ref"]);
    let error = world.make(&world.order(), &["a", "b", "c"]).expect_err("taken");
    assert!(matches!(&error, MakeError::Taken { name, .. } if name == "b"), "{error}");
    assert!(error.to_string().contains("shop.worktrees/b has it"), "{error}");
    assert_eq!(world.shop.git(["for-each-ref"]), before);
    assert_eq!(world.shop.git(["worktree", "list"]).lines().count(), 2);
}

#[test]
fn an_unused_worktree_is_undone_and_one_with_work_is_kept() {
    let world = World::new();
    let before = world.shop.git(["for-each-ref"]);
    let made = world.made("x");
    assert_eq!(make::undo(&world.host, &made).expect("undone"), make::Undone::Removed);
    assert_eq!(world.shop.git(["for-each-ref"]), before);
    assert!(!made.path.exists() && !world.path.join("shop.worktrees").exists());
    for (name, file) in [("y", "new.txt"), ("z", "ignored.log")] {
        let made = world.made(name);
        std::fs::write(made.path.join(file), "work").expect("written");
        let undone = make::undo(&world.host, &made).expect("looked at");
        assert!(matches!(undone, make::Undone::Kept(_)), "{undone:?}");
        assert!(made.path.join(file).exists());
    }
}
