//! Taking the work of a worktree into a branch.

use agentctl_core::worktrees::take::{TakeError, TakeOrder, TakeWay, Taken, take};
use testkit::sandboxed;

use super::World;

fn taken(world: &World, order: &TakeOrder) -> Taken {
    take(&world.fleet, order).expect("taken")
}

#[test]
fn work_goes_into_a_branch_that_is_checked_out_and_into_one_that_is_not() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        world.shop.git(["branch", "dev"]);
        tree.write("one.txt", "one\n");
        tree.commit("one");
        let into_main = taken(&world, &World::take_order(&tree));
        assert_eq!((into_main.into.as_str(), into_main.commits, into_main.files), ("main", 1, 1));
        assert!(world.shop.path.join("one.txt").exists());
        assert_eq!(world.shop.git(["rev-parse", "HEAD"]), into_main.commit);
        assert_eq!(world.shop.git(["status", "--short"]), "");
        tree.write("two.txt", "two\n");
        let into_dev = TakeOrder {
            into: Some("dev".into()),
            way: TakeWay::Squash,
            with_uncommitted: true,
            ..World::take_order(&tree)
        };
        let dev = taken(&world, &into_dev);
        assert_eq!(world.shop.git(["rev-parse", "dev"]), dev.commit);
        assert_eq!(world.shop.git(["rev-list", "--count", "main~1..dev", "--first-parent"]), "1");
        assert_eq!(world.shop.git(["show", "dev:two.txt"]), "two");
        assert_eq!(tree.git(["status", "--short"]), "?? two.txt");
        assert!(!world.shop.path.join("two.txt").exists());
    });
}

#[test]
fn conflicts_and_changed_trees_are_refused_and_nothing_changes() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        tree.write("README.md", "of the worktree\n");
        tree.commit("work");
        let head = world.shop.git(["rev-parse", "HEAD"]);
        world.shop.write("src/lib.txt", "not committed\n");
        let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("changed");
        let said = format!(
            "main is checked out in {}, where src/lib.txt is not committed",
            world.shop.path.display()
        );
        assert_eq!(refused.to_string(), said);
        world.shop.git(["checkout", "--quiet", "--", "src/lib.txt"]);
        world.shop.write("README.md", "of the main tree\n");
        world.shop.commit("other");
        let before = world.shop.git_files();
        let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("a conflict");
        assert!(
            matches!(&refused, TakeError::Conflicts { files, .. } if files == &["README.md"]),
            "{refused}"
        );
        assert_eq!(world.shop.git_files(), before);
        let forward = TakeOrder { way: TakeWay::FastForward, ..World::take_order(&tree) };
        assert!(take(&world.fleet, &forward).is_err());
        assert_ne!(world.shop.git(["rev-parse", "HEAD"]), head);
    });
}

#[test]
fn a_lock_of_the_working_tree_refuses_and_without_commits_there_is_nothing_to_take() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        assert_eq!(taken(&world, &World::take_order(&tree)).commits, 0);
        tree.write("new.txt", "work\n");
        let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("only files");
        assert!(matches!(refused, TakeError::OnlyUncommitted { uncommitted: 1, .. }), "{refused}");
        tree.commit("work");
        let host = &world.fleet.host;
        agentctl_core::locks::lock(host, &world.shop.path, None, None, None).expect("locked");
        let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("locked");
        assert!(matches!(refused, TakeError::Occupied { .. }), "{refused}");
    });
}

#[test]
fn what_a_branch_has_already_is_not_taken_again() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        world.shop.git(["branch", "dev"]);
        world.shop.write("other.txt", "of the main tree\n");
        world.shop.commit("other");
        for text in ["one\n", "two\n"] {
            tree.write("one.txt", text);
            tree.commit(text);
        }
        let squash = TakeOrder { way: TakeWay::Squash, ..World::take_order(&tree) };
        let elsewhere = TakeOrder { into: Some("dev".into()), ..squash.clone() };
        for order in [squash.clone(), elsewhere] {
            let first = taken(&world, &order);
            assert_eq!((first.commits, first.files), (2, 1), "{first:?}");
            let again = taken(&world, &order);
            assert_eq!((again.commits, again.files), (0, 0), "{again:?}");
            assert_eq!(again.commit, first.commit);
        }
        assert_eq!(world.shop.git(["status", "--short"]), "");
        tree.write("two.txt", "two\n");
        let refused = take(&world.fleet, &squash).expect_err("only a file");
        assert!(matches!(refused, TakeError::OnlyUncommitted { uncommitted: 1, .. }), "{refused}");
        for (way, text) in [(TakeWay::Squash, "two\n"), (TakeWay::Merge, "TWO\n")] {
            tree.write(format!("{way:?}.txt"), text);
            let with_files = TakeOrder { way, with_uncommitted: true, ..World::take_order(&tree) };
            let first = taken(&world, &with_files);
            assert_ne!(first.commits, 0, "{first:?}");
            // Another time gives the commit of the files another id.
            tree.git(["config", "user.name", &format!("Another {way:?}")]);
            assert_eq!(taken(&world, &with_files).commits, 0, "{way:?}");
            assert_eq!(world.shop.git(["rev-parse", "HEAD"]), first.commit);
        }
    });
}

/// A merge that settings turn into another one would be reported as made.
#[test]
fn settings_of_the_user_do_not_change_how_work_is_taken() {
    sandboxed(|| {
        for (key, value) in [
            ("branch.main.mergeOptions", "--no-commit"),
            ("branch.main.mergeOptions", "--squash"),
            ("branch.main.mergeOptions", "-s ours"),
            ("branch.main.mergeOptions", "-X ours --edit"),
            ("merge.ff", "only"),
            ("merge.ff", "false"),
            ("pull.twohead", "ours"),
        ] {
            let world = World::new(false);
            world.shop.git(["config", key, value]);
            let ways = [TakeWay::FastForward, TakeWay::Squash, TakeWay::Merge];
            for (name, way) in ["one", "two", "three"].into_iter().zip(ways) {
                let tree = world.made(name);
                let before = world.shop.git(["rev-parse", "HEAD"]);
                tree.write(name, "work\n");
                tree.commit(name);
                let taken = taken(&world, &TakeOrder { way, ..World::take_order(&tree) });
                let parents = match way {
                    TakeWay::Merge => format!("{before} {}", tree.git(["rev-parse", "HEAD"])),
                    TakeWay::Squash | TakeWay::FastForward => before,
                };
                assert_eq!(world.shop.git(["log", "-1", "--format=%H"]), taken.commit, "{value}");
                assert_eq!(world.shop.git(["log", "-1", "--format=%P"]), parents, "{value}");
                assert_eq!(world.shop.git(["status", "--short"]), "", "{value}");
                assert!(world.shop.path.join(name).exists(), "{value}");
            }
        }
    });
}
