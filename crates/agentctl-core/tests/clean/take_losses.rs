//! `take` loses nothing of the user: ignored and hidden files, staged changes, and operations that are not finished.

use std::process::Command;

use agentctl_core::worktrees::take::{TakeError, TakeOrder, TakeWay, take};
use testkit::{Repository, sandboxed};

use super::{World, add_hook};

const WAYS: [TakeWay; 3] = [TakeWay::Merge, TakeWay::Squash, TakeWay::FastForward];

fn order(tree: &Repository) -> TakeOrder {
    TakeOrder {
        path: tree.path.clone(),
        into: Some("main".into()),
        way: TakeWay::Merge,
        with_uncommitted: false,
        settings: World::settings(),
    }
}

/// Checks that a `take` is refused with these words, and that it moves no branch.
#[track_caller]
fn assert_refused(world: &World, order: &TakeOrder, words: &str) {
    let branches = || world.shop.git(["for-each-ref", "refs/heads"]);
    let before = branches();
    let refused = take(&world.fleet, order).expect_err("refused").to_string();
    assert!(refused.contains(words), "{words}: {refused}");
    assert_eq!(branches(), before, "{words}");
}

#[track_caller]
fn content(repository: &Repository, name: &str) -> String {
    std::fs::read_to_string(repository.path.join(name)).expect("read")
}

/// Makes a worktree with one commit.
fn worked() -> (World, Repository) {
    let world = World::new(false);
    let tree = world.made("fix");
    tree.write("one.txt", "one\n");
    tree.commit("one");
    (world, tree)
}

#[test]
fn ignored_files_in_the_way_are_named_and_stay() {
    sandboxed(|| {
        for way in WAYS {
            let (world, tree) = worked();
            tree.write(".env", "of the agent\n");
            tree.git(["add", "--force", ".env"]);
            tree.git(["commit", "--quiet", "-m", "env"]);
            assert_refused(&world, &TakeOrder { way, ..order(&tree) }, ".env is not tracked");
            assert_eq!(content(&world.shop, ".env"), "SECRET=main\n", "{way:?}");
            let with_files = TakeOrder { way, with_uncommitted: true, ..order(&tree) };
            assert_refused(&world, &with_files, ".env is not tracked");
        }
        let (world, tree) = worked();
        let shop = &world.shop;
        // A file in place of an ignored folder, and a folder in place of an ignored file.
        shop.write("target/keep/data", "mine\n");
        shop.write("run.log", "mine\n");
        shop.write("tracked/file", "file\n");
        shop.write("tracked/run.log", "mine\n");
        shop.git(["add", "tracked/file"]);
        shop.git(["commit", "--quiet", "-m", "tracked"]);
        for (name, in_the_way) in [
            ("target", "target/keep/data"),
            ("run.log/file", "run.log"),
            ("tracked", "tracked/run.log"),
        ] {
            tree.git(["reset", "--quiet", "--hard", "main"]);
            let _tracked = std::fs::remove_dir_all(tree.path.join(name));
            tree.write(name, "of the agent\n");
            tree.git(["add", "--all", "--force", name]);
            tree.git(["commit", "--quiet", "-m", name]);
            assert_refused(&world, &order(&tree), &format!("{in_the_way} is not tracked"));
            assert_eq!(content(shop, in_the_way), "mine\n");
        }
        // Empty folders do not prevent a merge.
        std::fs::remove_dir_all(shop.path.join("target/keep")).expect("removed");
        tree.git(["reset", "--quiet", "--hard", "main"]);
        tree.write("target", "of the agent\n");
        tree.git(["add", "--force", "target"]);
        tree.git(["commit", "--quiet", "-m", "target"]);
        assert_eq!(take(&world.fleet, &order(&tree)).expect("taken").files, 1);
    });
}

#[test]
fn edits_that_git_is_told_not_to_see_are_named_and_stay() {
    sandboxed(|| {
        for mark in ["--assume-unchanged", "--skip-worktree"] {
            let (world, tree) = worked();
            tree.write("README.md", "of the agent\n");
            tree.commit("readme");
            let shop = &world.shop;
            shop.git(["update-index", mark, "README.md"]);
            shop.write("README.md", "mine, and longer than before\n");
            assert_refused(&world, &order(&tree), "git is told not to see changes of README.md");
            assert_eq!(content(shop, "README.md"), "mine, and longer than before\n", "{mark}");
        }
    });
}

#[test]
fn files_that_are_staged_during_a_merge_that_is_refused_stay_staged() {
    sandboxed(|| {
        for (hook, way) in [("pre-merge-commit", TakeWay::Merge), ("pre-commit", TakeWay::Squash)] {
            let (world, tree) = worked();
            let script = "#!/bin/sh\nunset GIT_INDEX_FILE\n\
                echo precious > mine.txt\necho precious > README.md\n\
                git add mine.txt README.md\nexit 1\n";
            add_hook(&world, hook, script);
            let said = "a hook refused the merge; nothing was changed";
            assert_refused(&world, &TakeOrder { way, ..order(&tree) }, said);
            assert_eq!(content(&world.shop, "mine.txt"), "precious\n", "{hook}");
            assert_eq!(content(&world.shop, "README.md"), "precious\n", "{hook}");
            assert_eq!(world.shop.git(["status", "--short"]), "M  README.md\nA  mine.txt");
            for file in ["MERGE_HEAD", "MERGE_MSG", "SQUASH_MSG"] {
                assert!(!world.shop.path.join(".git").join(file).exists(), "{hook}: {file}");
            }
        }
    });
}

#[test]
fn an_edit_of_a_merged_file_during_a_merge_that_is_refused_stays() {
    sandboxed(|| {
        for (hook, way) in [("pre-merge-commit", TakeWay::Merge), ("pre-commit", TakeWay::Squash)] {
            let (world, tree) = worked();
            let script = "#!/bin/sh\nunset GIT_INDEX_FILE\n\
                echo precious > one.txt\ngit add one.txt\nexit 1\n";
            add_hook(&world, hook, script);
            assert_refused(&world, &TakeOrder { way, ..order(&tree) }, "is not undone");
            assert_eq!(content(&world.shop, "one.txt"), "precious\n", "{hook}");
        }
    });
}

#[test]
fn an_operation_that_is_not_finished_in_the_target_stays() {
    sandboxed(|| {
        let (world, tree) = worked();
        let shop = &world.shop;
        shop.git(["checkout", "--quiet", "-b", "other"]);
        shop.write("README.md", "other\n");
        shop.commit("other");
        shop.git(["checkout", "--quiet", "main"]);
        let git_dir = shop.path.join(".git");
        let words = |name: &str| format!("{name} is in progress in {}", shop.path.display());
        shop.git(["merge", "--quiet", "-s", "ours", "--no-commit", "other"]);
        assert_eq!(shop.git(["status", "--short"]), "");
        assert_refused(&world, &order(&tree), &words("a merge"));
        assert!(git_dir.join("MERGE_HEAD").exists());
        shop.git(["merge", "--abort"]);
        shop.git(["commit", "--quiet", "--allow-empty", "-m", "empty"]);
        assert!(!shop.succeeds(["cherry-pick", "HEAD"]), "it stops at an empty commit");
        assert_refused(&world, &order(&tree), &words("a cherry-pick"));
        assert!(git_dir.join("CHERRY_PICK_HEAD").exists());
        shop.git(["cherry-pick", "--abort"]);
        let patch = shop.git(["format-patch", "--stdout", "main..other"]);
        shop.write("README.md", "conflict\n");
        shop.commit("conflict");
        let patch = shop.write("../patch.mbox", patch + "\n");
        assert!(!shop.succeeds(["am", "--quiet", patch.to_str().expect("UTF-8")]));
        assert_eq!(shop.git(["status", "--short"]), "");
        assert_refused(&world, &order(&tree), "is in progress in");
        shop.git(["am", "--abort"]);
        assert_eq!(take(&world.fleet, &order(&tree)).expect("taken").commits, 1);
    });
}

#[test]
fn a_worktree_with_an_operation_that_is_not_finished_is_not_taken() {
    sandboxed(|| {
        let (world, tree) = worked();
        tree.write("README.md", "of the agent\n");
        tree.commit("readme");
        let shop = &world.shop;
        shop.git(["checkout", "--quiet", "-b", "colleague"]);
        shop.write("README.md", "of the colleague\n");
        shop.commit("colleague");
        shop.git(["checkout", "--quiet", "main"]);
        let words = |name: &str| format!("{name} is in progress in {}", tree.path.display());
        assert!(!tree.succeeds(["rebase", "--quiet", "colleague"]), "a conflict");
        assert_refused(&world, &order(&tree), &words("a rebase"));
        tree.git(["rebase", "--abort"]);
        assert!(!tree.succeeds(["merge", "--quiet", "colleague"]), "a conflict");
        let with_files = TakeOrder { with_uncommitted: true, ..order(&tree) };
        assert_refused(&world, &with_files, &words("a merge"));
        tree.git(["merge", "--abort"]);
        tree.write("README.md", "stashed\n");
        tree.git(["stash", "--quiet"]);
        tree.write("README.md", "committed\n");
        tree.commit("committed");
        assert!(!tree.succeeds(["stash", "pop", "--quiet"]), "a conflict");
        assert_refused(&world, &with_files, "unresolved conflicts");
        assert_eq!(take(&world.fleet, &order(&tree)).expect("taken").commits, 3);
        assert_eq!(content(shop, "README.md"), "committed\n");
    });
}

#[test]
fn a_branch_that_is_another_name_of_a_checked_out_one_is_merged_in_its_working_tree() {
    sandboxed(|| {
        let (world, tree) = worked();
        let shop = &world.shop;
        shop.git(["symbolic-ref", "refs/heads/master", "refs/heads/trunk"]);
        shop.git(["symbolic-ref", "refs/heads/trunk", "refs/heads/main"]);
        shop.write("README.md", "not committed\n");
        let into = TakeOrder { into: Some("master".into()), ..order(&tree) };
        assert_refused(&world, &into, "main is checked out in");
        shop.git(["checkout", "--quiet", "--", "README.md"]);
        let taken = take(&world.fleet, &into).expect("taken");
        assert_eq!(taken.into, "main");
        assert_eq!(content(shop, "one.txt"), "one\n");
        assert_eq!(shop.git(["status", "--short"]), "");
        assert_eq!(
            shop.git(["symbolic-ref", "--no-recurse", "refs/heads/master"]),
            "refs/heads/trunk"
        );
        let own = TakeOrder { into: Some("own".into()), ..order(&tree) };
        shop.git(["symbolic-ref", "refs/heads/own", "refs/heads/agentctl/fix"]);
        assert_refused(&world, &own, "cannot be taken into itself");
    });
}

#[test]
fn a_committed_repository_inside_a_worktree_is_not_taken() {
    sandboxed(|| {
        for (into, way) in [("main", TakeWay::Merge), ("dev", TakeWay::FastForward)] {
            let (world, tree) = worked();
            world.shop.git(["branch", "dev"]);
            let lib = Repository::new(&world.path.join("lib"));
            tree.git(["submodule", "--quiet", "add", lib.path.to_str().expect("UTF-8"), "lib"]);
            tree.commit("a submodule");
            let order = TakeOrder { into: Some(into.into()), way, ..order(&tree) };
            assert_eq!(take(&world.fleet, &order).expect("a submodule is no obstacle").files, 3);
            let _inner = Repository::new(&tree.path.join("inner"));
            tree.commit("inner");
            assert_refused(&world, &order, "inner is a repository of its own");
        }
    });
}

#[test]
fn a_working_tree_whose_directory_is_gone_is_named() {
    sandboxed(|| {
        let (world, tree) = worked();
        let gone = world.path.join("gone");
        let text = gone.to_str().expect("UTF-8");
        world.shop.git(["worktree", "add", "--quiet", "-b", "feat", text]);
        std::fs::remove_dir_all(&gone).expect("removed");
        let into = TakeOrder { into: Some("feat".into()), ..order(&tree) };
        let said = format!("feat is checked out in {text}, which does not exist");
        assert_refused(&world, &into, &said);
    });
}

/// A full disk cuts off the file that git writes. The file is neither in the index nor of the user.
#[test]
fn files_that_a_full_disk_cut_off_are_taken_back() {
    sandboxed(|| {
        for name in ["README.md", "deep/new.bin"] {
            let world = World::new(false);
            let (disk, shop) = (world.path.join("disk"), &world.shop);
            std::fs::create_dir(&disk).expect("made");
            let mount = |options: &str| {
                let mut mount = Command::new("mount");
                mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk);
                assert!(mount.status().expect("run").success());
            };
            mount("size=256k");
            let side = shop.at(&disk.join("side"));
            let path = side.path.to_str().expect("UTF-8");
            shop.git(["worktree", "add", "--quiet", "-b", "side", path]);
            let tree = world.made("fix");
            tree.write(name, "0123456789abcdef".repeat(1 << 16));
            let order =
                TakeOrder { into: Some("side".into()), with_uncommitted: true, ..order(&tree) };
            assert_refused(&world, &order, "; nothing was changed");
            assert_eq!(side.git(["status", "--short", "--ignored"]), "", "{name}");
            assert!(!side.path.join("deep").exists(), "{name}");
            mount("remount,size=8m");
            take(&world.fleet, &order).expect("taken");
            assert_eq!(content(&side, name).len(), 1 << 20, "{name}");
            assert!(Command::new("umount").arg(&disk).status().expect("run").success());
        }
    });
}

#[test]
fn a_lock_of_another_git_is_named() {
    sandboxed(|| {
        let (world, tree) = worked();
        let lock = world.shop.write(".git/index.lock", "");
        let path = world.shop.path.display();
        let said =
            format!("another git works in {path}: {} exists; nothing was changed", lock.display());
        for way in WAYS {
            assert_refused(&world, &TakeOrder { way, ..order(&tree) }, &said);
        }
    });
}

#[test]
fn the_commands_of_a_conflict_name_the_directory_and_the_way() {
    sandboxed(|| {
        let (world, tree) = worked();
        let shop = &world.shop;
        shop.write("one.txt", "other\n");
        shop.commit("other");
        let path = shop.path.display();
        let commands = |way| match take(&world.fleet, &TakeOrder { way, ..order(&tree) }) {
            Err(TakeError::Conflicts { commands, .. }) => commands,
            other => panic!("{other:?}"),
        };
        let squash = format!("git -C {path} merge --squash agentctl/fix");
        assert_eq!(commands(TakeWay::Squash), std::slice::from_ref(&squash));
        shop.git(["switch", "--quiet", "--detach"]);
        assert_eq!(commands(TakeWay::Squash), [format!("git -C {path} switch main"), squash]);
        let forward = TakeOrder { way: TakeWay::FastForward, ..order(&tree) };
        assert_refused(&world, &forward, "so it cannot be moved forward");
    });
}
