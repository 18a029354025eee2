//! The name of a worktree is kept on a branch without a commit, and without the setting of the prefix.

use agentctl_core::ask::DiffBase;
use agentctl_core::kernel::Cancellation;
use agentctl_core::worktrees::take::take;
use agentctl_core::worktrees::{
    CleanSelection, MakeOrder, Wanted, WorktreeOptions, WorktreeState, make,
};
use testkit::sandboxed;

use super::sparse::paths;
use super::take_submodules::{compared, facts, one_diff};
use super::{World, commit_in, text};

#[test]
fn a_worktree_on_a_branch_without_a_commit_keeps_its_name() {
    sandboxed(|| {
        for is_detached in [false, true] {
            let world = World::new(false);
            let tree = world.made("g/fix");
            commit_in(&tree);
            if is_detached {
                tree.git(["checkout", "--quiet", "--detach"]);
            }
            tree.git(["switch", "--quiet", "--orphan", "fresh"]);
            tree.write("new.txt", "new\n");
            for step in ["no commit", "a first commit", "a second commit"] {
                let facts = facts(&world, "agentctl/");
                assert_eq!(facts.len(), 1, "{step}: {facts:?}");
                let known = (facts[0].name.as_deref(), facts[0].state);
                assert_eq!(known, (Some("g/fix"), WorktreeState::Ok), "{step}");
                let diff = one_diff(&world, "g/fix");
                assert_eq!(diff.base_from, DiffBase::WorktreeRef, "{step}");
                assert!(paths(&diff).contains(&"new.txt"), "{step}: {diff:?}");
                assert_eq!(compared(&world).0.slot, "fix", "{step}");
                let swept = world.clean(&world.order(CleanSelection::All)).remove(0);
                let said = "it is on the branch fresh, which agentctl did not make";
                assert!(swept.reasons.iter().any(|reason| reason == said), "{step}: {swept:?}");
                if step == "no commit" {
                    let refused = take(&world.fleet, &World::take_order(&tree));
                    let refused = refused.expect_err("there is no commit");
                    assert_eq!(refused.to_string(), "fresh has no commit yet");
                }
                tree.write("more.txt", step);
                tree.commit(step);
            }
        }
    });
}

/// A person makes a worktree where one of ours was, and leaves its branch for one without a commit.
#[test]
fn a_branch_without_a_commit_names_no_worktree_of_a_person() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        commit_in(&tree);
        world.shop.git(["worktree", "remove", "--force", text(&tree.path)]);
        world.shop.git(["worktree", "add", "--quiet", "-b", "mine", text(&tree.path)]);
        world.shop.at(&tree.path).git(["switch", "--quiet", "--orphan", "fresh"]);
        let states: Vec<_> = facts(&world, "agentctl/").iter().map(|facts| facts.state).collect();
        assert_eq!(states, [WorktreeState::Foreign, WorktreeState::Missing]);
    });
}

#[test]
fn without_the_setting_of_the_prefix_a_branch_of_a_launch_keeps_its_name() {
    sandboxed(|| {
        let world = World::new(false);
        let mut settings = World::settings();
        settings.prefix = "me/".to_owned();
        for (name, with_changes) in [("g/fix", false), ("fix", true)] {
            world.shop.write("README.md", "changed\n");
            let order = MakeOrder {
                from: world.shop.path.clone(),
                options: WorktreeOptions { with_changes, ..WorktreeOptions::default() },
                settings: settings.clone(),
                group: None,
                cancellation: Cancellation::default(),
            };
            let wanted = [Wanted { name: name.to_owned(), slot: 0, base: None }];
            make::all(&world.fleet.host, &order, &wanted, &mut |_| {}).expect("made");
        }
        let named = |prefix: &str| -> Vec<(Option<String>, WorktreeState)> {
            let facts = facts(&world, prefix).into_iter();
            facts.map(|facts| (facts.name, facts.state)).collect()
        };
        let before = named("me/");
        assert_eq!(before[0], (Some("fix".to_owned()), WorktreeState::Ok), "{before:?}");
        assert_eq!(before[1], (Some("g/fix".to_owned()), WorktreeState::Ok), "{before:?}");
        assert_eq!(named("agentctl/"), before);
        assert_eq!(named("other/"), before);
        // A person gave it another name, so it is theirs.
        world.shop.git(["branch", "-m", "me/g/fix", "mine/g/fix"]);
        assert_eq!(named("agentctl/")[1].1, WorktreeState::Foreign);
    });
}

/// The base ref of a branch that a person deleted stays. Their own branch of that name is none of ours.
#[test]
fn a_base_ref_that_was_left_names_no_branch_of_a_person() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        world.shop.git(["worktree", "remove", "--force", text(&tree.path)]);
        world.shop.git(["branch", "--quiet", "-D", "agentctl/fix"]);
        let path = text(&tree.path);
        world.shop.git(["worktree", "add", "--quiet", "-b", "feature/fix", path, "main"]);
        let facts = facts(&world, "agentctl/");
        assert_eq!((facts.len(), facts[0].state), (1, WorktreeState::Foreign), "{facts:?}");
        assert_eq!(facts[0].name, None);
    });
}
