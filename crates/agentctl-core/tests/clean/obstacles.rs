//! Worktrees that cannot be removed for a reason that a person can end: it is told before anything is done.

use agentctl_core::worktrees::{CleanAction, make};
use testkit::sandboxed;

use super::World;
use super::states::{State, apply};

#[test]
fn a_directory_in_the_way_is_named_before_anything_is_done() {
    sandboxed(|| {
        let world = World::new(false);
        for (number, kind) in ["removing", "removed"].into_iter().enumerate() {
            let name = format!("w{number}");
            let tree = world.made_fast(&name);
            let foreign = tree.path.with_file_name(format!(".{name}.agentctl-{kind}"));
            std::fs::create_dir(&foreign).expect("made");
            std::fs::write(foreign.join("precious"), "mine\n").expect("written");
            let mut order = world.named(&name);
            for dry_run in [true, false] {
                order.dry_run = dry_run;
                let row = world.clean(&order).remove(0);
                assert_eq!((row.action, row.forcible), (CleanAction::Kept, false), "{row:?}");
                let reason = format!("{} is in the way", foreign.display());
                assert!(row.reasons[0].starts_with(&reason), "{row:?}");
            }
            assert!(foreign.join("precious").exists() && tree.path.join("README.md").exists());
            std::fs::rename(&foreign, world.path.join(&name)).expect("moved elsewhere");
            assert_eq!(world.clean_one(&name).action, CleanAction::Removed);
        }
    });
}

#[test]
fn the_longest_name_of_a_worktree_can_be_cleaned() {
    sandboxed(|| {
        let world = World::new(false);
        let refused = make::check_names(&["n".repeat(237).as_str()]).expect_err("too long");
        assert!(refused.to_string().ends_with("it is longer than 236 bytes"), "{refused}");
        let longest = "n".repeat(236);
        make::check_names(&[&longest]).expect("accepted");
        let tree = world.made(&longest);
        let row = world.clean_one(&longest);
        assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, true), "{row:?}");
        assert!(!tree.path.exists());
        // A person made it.
        let longer = "n".repeat(240);
        let tree = world.made_fast(&longer);
        let mut order = world.named(&longer);
        order.dry_run = true;
        let row = world.clean(&order).remove(0);
        assert_eq!(row.action, CleanAction::Kept, "{row:?}");
        world.assert_kept(&longer, "longer than 236 bytes; `git worktree move` gives it");
        assert!(tree.path.join("README.md").exists());
    });
}

#[test]
fn a_missing_worktree_with_conflicts_says_how_to_drop_them() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        assert!(apply(&world, &tree, "fix", State::Conflict).is_none());
        world.shop.git(["branch", "kept", "agentctl/fix"]);
        std::fs::remove_dir_all(&tree.path).expect("removed");
        let mut order = world.named("fix");
        for force in [false, true] {
            order.force = force;
            let row = world.clean(&order).remove(0);
            assert_eq!(row.action, CleanAction::Kept, "{row:?}");
            let is_told = |reason: &String| {
                reason
                    .starts_with("its directory is missing, and its index has unresolved conflicts")
            };
            let reason = row.reasons.iter().find(|reason| is_told(reason)).expect("told");
            assert!(!reason.contains("write-tree"), "{reason}");
            if force {
                let command = reason.split('`').nth(1).expect("a command");
                let mut words = command.split(' ').skip(1).collect::<Vec<_>>();
                words.push("--quiet");
                world.shop.at(&world.path.join("tmp")).git(words);
            }
        }
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
    });
}
