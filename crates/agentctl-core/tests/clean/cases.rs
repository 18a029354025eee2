//! Single cases: what is removed, what is kept and what is said.

use agentctl_core::worktrees::take::{TakeOrder, TakeWay, take};
use agentctl_core::worktrees::{CleanAction, CleanNews};
use testkit::sandboxed;

use super::World;
use super::states::{State, apply};

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

#[test]
fn what_is_nowhere_else_is_kept_with_its_reason() {
    sandboxed(|| {
        let world = World::new(true);
        let cases: [(State, &str); 14] = [
            (State::Dirty, "1 file is not committed"),
            (State::StagedOnly, "its index has content"),
            (State::Untracked, "1 file is not committed"),
            (State::IgnoredFile, "1 ignored file is nowhere else (deep/data.log)"),
            (State::EditedCopy, "1 ignored file is nowhere else (.env)"),
            (State::Stash, "1 stash was made on agentctl/"),
            (State::Unpushed, "1 commit is nowhere else"),
            (State::SubmoduleCommit, "1 commit is nowhere else"),
            (State::SubmoduleFile, "1 file is not committed"),
            (State::NestedRepository, "repository target/nested: 1 commit is nowhere else"),
            (State::NotARepository, "its .git leads to no repository"),
            (State::AssumeUnchanged, "1 file is not committed"),
            (State::ForeignLock, "it is locked (on a stick)"),
            (State::GitFileElsewhere, "its .git file does not lead to this repository"),
        ];
        for (number, (state, reason)) in cases.into_iter().enumerate() {
            let name = format!("n{number}");
            let tree = world.made(&name);
            assert!(apply(&world, &tree, &name, state).is_none());
            world.assert_kept(&name, reason);
        }
    });
}

#[test]
fn files_that_were_taken_without_a_commit_of_their_own_are_elsewhere() {
    sandboxed(|| {
        for (number, way) in [TakeWay::Merge, TakeWay::Squash].into_iter().enumerate() {
            for into in [None, Some("dev".to_owned())] {
                let world = World::new(false);
                world.shop.git(["branch", "dev"]);
                let tree = world.made("fix");
                tree.write("README.md", "changed\n");
                tree.write("new.txt", "new\n");
                if number == 1 {
                    world.shop.write("later.txt", "of the main tree\n");
                    world.shop.commit("later");
                }
                world.assert_kept("fix", "2 files are not committed");
                let order = TakeOrder {
                    path: tree.path.clone(),
                    into,
                    way,
                    with_uncommitted: true,
                    settings: World::settings(),
                };
                take(&world.fleet, &order).expect("taken");
                tree.write("new.txt", "edited after it was taken\n");
                world.assert_kept("fix", "2 files are not committed");
                tree.write("new.txt", "new\n");
                let row = world.clean_one("fix");
                assert_eq!(row.action, CleanAction::Removed, "{way:?} {row:?}");
                assert_eq!(row.reasons[0], "its uncommitted files are committed elsewhere");
                assert!(!tree.path.exists());
            }
        }
    });
}

#[test]
fn a_forced_clean_is_brought_back_by_its_command() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        tree.write("done.txt", "committed\n");
        tree.commit("work");
        tree.write("staged.txt", "staged\n");
        tree.git(["add", "staged.txt"]);
        tree.write("new.txt", "untracked\n");
        let mut order = world.named("fix");
        order.force = true;
        let row = world.clean(&order).remove(0);
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert!(!tree.path.exists());
        let rescue = row.rescue.expect("a rescue ref");
        let mut words = rescue.command.split(' ');
        assert_eq!(words.next(), Some("git"));
        world.shop.git(words);
        for (file, content) in
            [("done.txt", "committed\n"), ("staged.txt", "staged\n"), ("new.txt", "untracked\n")]
        {
            assert_eq!(std::fs::read_to_string(tree.path.join(file)).expect("back"), content);
        }
    });
}

#[test]
fn a_forced_clean_keeps_what_a_rescue_ref_cannot_hold() {
    sandboxed(|| {
        let world = World::new(true);
        let states = [
            State::IgnoredFile,
            State::SubmoduleCommit,
            State::SubmoduleFile,
            State::NestedRepository,
        ];
        for (number, state) in states.into_iter().enumerate() {
            let name = format!("n{number}");
            let tree = world.made(&name);
            assert!(apply(&world, &tree, &name, state).is_none());
            let mut order = world.named(&name);
            order.force = true;
            let row = world.clean(&order).remove(0);
            assert_eq!(row.action, CleanAction::Kept, "{state:?}: {row:?}");
        }
    });
}

#[test]
fn a_branch_that_moves_during_the_clean_stays() {
    sandboxed(|| {
        let world = World::new(false);
        world.made("fix");
        let shop = &world.shop;
        let mut moved = None;
        let cleaned = world.clean_telling(&world.named("fix"), &mut |news| {
            if let CleanNews::DeletingBranch(branch) = news {
                let tree = shop.git(["rev-parse", "HEAD^{tree}"]);
                let commit = shop.git(["commit-tree", &tree, "-p", "HEAD", "-m", "late"]);
                shop.git(["update-ref", &branch, &commit]);
                moved = Some(commit);
            }
        });
        let row = &cleaned.worktrees[0];
        assert!(!row.branch_deleted && !row.warnings.is_empty(), "{row:?}");
        assert_eq!(Some(shop.git(["rev-parse", "agentctl/fix"])), moved);
    });
}

#[test]
fn an_interrupted_clean_is_put_back_by_the_next_one() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        tree.write("new.txt", "work\n");
        let aside = tree.path.with_file_name(".fix.agentctl-removing");
        std::fs::rename(&tree.path, &aside).expect("renamed");
        world.assert_kept("fix", "1 file is not committed");
        assert!(tree.path.join("new.txt").exists() && !aside.exists());
    });
}

#[test]
fn links_are_removed_and_what_they_lead_to_stays() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let outside = world.path.join("outside");
        std::fs::create_dir_all(&outside).expect("made");
        std::fs::write(outside.join("work.txt"), "work\n").expect("written");
        let modules = tree.path.join("node_modules");
        std::fs::create_dir_all(&modules).expect("made");
        std::os::unix::fs::symlink(&outside, modules.join("linked")).expect("linked");
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert!(outside.join("work.txt").exists() && !tree.path.exists());
    });
}

#[test]
fn names_that_look_odd_are_cleaned_and_hooks_do_not_run() {
    sandboxed(|| {
        let world = World::new(false);
        let hooks = world.shop.path.join(".git/hooks");
        let trace = world.path.join("trace");
        for hook in ["post-checkout", "reference-transaction", "pre-commit"] {
            let script = format!("#!/bin/sh\necho {hook} >> {}\n", trace.display());
            std::fs::write(hooks.join(hook), script).expect("written");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(hooks.join(hook), mode).expect("executable");
        }
        for (branch, folder) in
            [("agentctl/-x", "a b"), ("agentctl/ünï", "line\nend"), ("agentctl/g/--force", "-f")]
        {
            let path = world.path.join("odd").join(folder);
            world.shop.git(["branch", branch, "main"]);
            world.shop.git(["worktree", "add", "--quiet", path.to_str().expect("UTF-8"), branch]);
            let _made = std::fs::remove_file(&trace);
            let row = world.clean_one(branch);
            assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, true), "{row:?}");
            assert!(!path.exists() && !trace.exists(), "{branch}");
        }
    });
}

#[test]
fn a_mount_inside_a_worktree_is_not_entered() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let (outside, inside) =
            (world.path.join("outside"), tree.path.join("node_modules/mounted"));
        std::fs::create_dir_all(&inside).expect("made");
        std::fs::create_dir_all(&outside).expect("made");
        std::fs::write(outside.join("work.txt"), "work\n").expect("written");
        // The sandbox has a mount namespace of its own.
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.arg("--bind").arg(&outside).arg(&inside).status().expect("run");
        assert!(mounted.success());
        world.assert_kept("fix", "another file system is mounted there");
        assert!(outside.join("work.txt").exists());
        let mut unmount = std::process::Command::new("umount");
        assert!(unmount.arg(&inside).status().expect("run").success());
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}

#[test]
fn a_worktree_whose_directory_is_a_link_is_kept() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let elsewhere = world.path.join("elsewhere");
        std::fs::rename(&tree.path, &elsewhere).expect("renamed");
        std::os::unix::fs::symlink(&elsewhere, &tree.path).expect("linked");
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Kept, "{row:?}");
        assert!(elsewhere.join("README.md").exists() && tree.path.is_symlink());
    });
}

#[test]
#[ignore = "needs root: it makes a repository of another user"]
fn a_repository_of_another_user_is_not_cleaned() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let other = testkit::another_user();
        for place in [&world.shop.path, &world.shop.path.join(".git"), &tree.path] {
            other.give(place);
        }
        let refused = agentctl_core::worktrees::clean(
            &world.fleet,
            &world.order(agentctl_core::worktrees::CleanSelection::All),
            &mut |_| {},
        );
        assert!(refused.is_err(), "{refused:?}");
        assert!(tree.path.join("README.md").exists());
    });
}

#[test]
fn on_a_read_only_file_system_everything_stays() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let shop = &world.shop.path;
        let folder = tree.path.parent().expect("a parent");
        let run = |args: &[&str], path: &std::path::Path| {
            let mut command = std::process::Command::new(args[0]);
            assert!(
                command.args(&args[1..]).arg(path).status().expect("run").success(),
                "{args:?}"
            );
        };
        // The sandbox has a mount namespace of its own.
        for path in [shop.as_path(), folder] {
            let text = path.to_str().expect("UTF-8");
            run(&["mount", "--bind", text], path);
            run(&["mount", "-o", "remount,bind,ro"], path);
        }
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Kept, "{row:?}");
        assert!(tree.path.join("README.md").exists());
        for path in [folder, shop.as_path()] {
            run(&["umount"], path);
        }
        assert_eq!(world.clean_one("fix").action, CleanAction::Removed);
    });
}
