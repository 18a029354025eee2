//! Attributes decide how `take` merges: those of the branch, as `git merge` finds them in its working tree.

use std::path::PathBuf;

use agentctl_core::ask::{CompareRequest, NoDiff};
use agentctl_core::git::GitError;
use agentctl_core::worktrees::take::{TakeError, TakeOrder, TakeWay, take};
use testkit::{Repository, sandboxed};

use super::take_submodules::here;
use super::{World, add_hook};

/// The numbers to 20, a line each, with one of them in words.
fn lines(number: usize, word: &str) -> String {
    let line = |n: usize| if n == number { format!("{word}\n") } else { format!("{n}\n") };
    (1..=20).map(line).collect()
}

/// Makes a worktree and the branch that it began from with changes that merge line by line, except for attributes.
/// The branch is checked out, or not.
fn diverged(is_checked_out: bool) -> (World, Repository) {
    let world = World::new(false);
    let shop = &world.shop;
    shop.write(".gitattributes", "*.lock -merge\n");
    shop.write("deep/.gitattributes", "*.list merge=union\n");
    shop.write("a.lock", lines(0, ""));
    shop.write("deep/all.list", "first\n");
    shop.commit("rules");
    let tree = world.made("fix");
    for (place, number, word) in [(&tree, 2, "two"), (shop, 19, "nineteen")] {
        place.write("deep/all.list", format!("first\n{word}\n"));
        place.commit("log");
        place.write("a.lock", lines(number, word));
        place.commit("lock");
    }
    if !is_checked_out {
        shop.git(["switch", "--quiet", "--detach"]);
    }
    (world, tree)
}

fn orders(tree: &Repository) -> [TakeOrder; 2] {
    [TakeWay::Merge, TakeWay::Squash].map(|way| TakeOrder {
        way,
        into: Some("main".into()),
        ..World::take_order(tree)
    })
}

#[test]
fn a_file_that_must_not_be_merged_is_a_conflict() {
    sandboxed(|| {
        for is_checked_out in [true, false] {
            let (world, tree) = diverged(is_checked_out);
            let before = world.shop.git_files();
            for order in orders(&tree) {
                let refused = take(&world.fleet, &order).expect_err("a conflict");
                assert!(
                    matches!(&refused, TakeError::Conflicts { files, .. } if files == &["a.lock"]),
                    "{refused}"
                );
                assert_eq!(world.shop.git_files(), before);
                assert_eq!(world.shop.git(["status", "--short"]), "");
            }
        }
    });
}

#[test]
fn a_file_of_which_both_sides_are_kept_is_no_conflict() {
    sandboxed(|| {
        for is_checked_out in [true, false] {
            let (world, tree) = diverged(is_checked_out);
            tree.git(["reset", "--quiet", "--hard", "HEAD~1"]);
            let [order, _] = orders(&tree);
            take(&world.fleet, &order).expect("taken");
            let log = world.shop.git(["show", "main:deep/all.list"]);
            assert_eq!(log, "first\nnineteen\ntwo");
        }
    });
}

/// `git merge` reads attributes of files that are not tracked, which no merge without a working tree can see.
#[test]
fn conflicts_that_only_the_working_tree_has_are_undone() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        shop.write("a.txt", lines(0, ""));
        shop.write("gone.txt", lines(0, ""));
        shop.commit("files");
        let tree = world.made("fix");
        for (place, number, word) in [(&tree, 2, "two"), (shop, 19, "nineteen")] {
            place.write("a.txt", lines(number, word));
            place.write(format!("{word}.txt"), word);
            place.commit("work");
        }
        tree.git(["rm", "--quiet", "gone.txt"]);
        tree.git(["commit", "--quiet", "-m", "gone"]);
        shop.write(".gitattributes", "*.txt -merge\n");
        for order in orders(&tree) {
            let refused = take(&world.fleet, &order).expect_err("a conflict");
            assert!(
                matches!(&refused, TakeError::Conflicts { files, .. } if files == &["a.txt"]),
                "{refused}"
            );
            assert_eq!(shop.git(["status", "--short"]), "?? .gitattributes");
            for file in ["MERGE_HEAD", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE"] {
                assert!(!shop.path.join(".git").join(file).exists(), "{file}");
            }
            assert_eq!(shop.git(["show", ":a.txt"]), lines(19, "nineteen").trim_end());
        }
    });
}

/// A driver that only an attribute in the working tree names can leave the work out without a conflict.
#[test]
fn a_merge_with_another_content_than_its_trial_is_undone() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        shop.write("a.txt", lines(0, ""));
        shop.commit("files");
        let tree = world.made("fix");
        for (place, number, word) in [(&tree, 2, "two"), (shop, 19, "nineteen")] {
            place.write("a.txt", lines(number, word));
            place.write(format!("{word}.txt"), word);
            place.commit("work");
        }
        shop.git(["config", "merge.keep.driver", "true"]);
        shop.write(".gitattributes", "*.txt merge=keep\n");
        let before = shop.git(["rev-parse", "HEAD"]);
        for order in orders(&tree) {
            let refused = take(&world.fleet, &order).expect_err("another content");
            assert!(matches!(&refused, TakeError::OtherResult { .. }), "{refused}");
            assert_eq!(shop.git(["rev-parse", "main"]), before);
            assert_eq!(shop.git(["status", "--short"]), "?? .gitattributes");
            assert!(!shop.path.join("two.txt").exists());
        }
        // A hook may change the content.
        add_hook(&world, "commit-msg", "#!/bin/sh\n");
        let [order, _] = orders(&tree);
        assert_eq!(take(&world.fleet, &order).expect("taken").files, 1);
    });
}

/// Makes a commit after HEAD of a working tree whose tree has one more file, at a path that may lead out of the tree.
fn with_file(tree: &Repository, path: &[&str], content: &str) -> String {
    let file = tree.path.with_file_name("content");
    std::fs::write(&file, content).expect("written");
    let blob = tree.git(["hash-object", "-w", file.to_str().expect("UTF-8")]);
    let [folders @ .., name] = path else { panic!("a path") };
    let mut entry = format!("100644 blob {blob}\t{name}\n");
    let mktree = |entries: &str| {
        std::fs::write(&file, entries).expect("written");
        let stdin = std::fs::File::open(&file).expect("opened");
        let made = tree.command(["mktree"]).stdin(stdin).output().expect("git runs");
        String::from_utf8(made.stdout).expect("UTF-8").trim().to_owned()
    };
    for folder in folders.iter().rev() {
        entry = format!("040000 tree {}\t{folder}\n", mktree(&entry));
    }
    let listed = tree.git(["ls-tree", "HEAD"]);
    let whole = mktree(&format!("{listed}\n{entry}"));
    tree.git(["commit-tree", "-p", "HEAD", "-m", "outside", &whole])
}

/// A tree object may hold an entry `..`, which `git mktree` makes and no checkout accepts.
#[test]
fn a_path_of_a_tree_that_leads_out_of_it_is_refused_and_nothing_is_written_there() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        let tree = world.made("g/fix");
        tree.write("new.txt", "new\n");
        tree.commit("work");
        shop.git(["switch", "--quiet", "--detach"]);
        let precious: PathBuf = world.path.join("precious/.gitattributes");
        std::fs::create_dir_all(precious.parent().expect("a folder")).expect("made");
        std::fs::write(&precious, "mine\n").expect("written");
        // The private directory is in `tmp`.
        let paths =
            [["..", "..", "precious", ".gitattributes"], ["..", "..", "fresh", ".gitattributes"]];
        for path in paths {
            let evil = with_file(shop, &path, "*.txt merge=union\n");
            shop.git(["update-ref", "refs/heads/main", &evil]);
            let before = shop.git_files();
            let request = CompareRequest {
                group: "g".into(),
                verify: Vec::new(),
                prefix: World::settings().prefix,
            };
            let compared = here(&world).compare(&request, &mut |_| {}).expect_err("refused");
            assert!(matches!(&compared, NoDiff::Git(error) if is_refusal(error)), "{compared:?}");
            for order in orders(&tree) {
                let refused = take(&world.fleet, &order).expect_err("refused");
                assert!(
                    matches!(&refused, TakeError::Git(error) if is_refusal(error)),
                    "{refused}"
                );
            }
            assert_eq!(shop.git_files(), before);
            assert_eq!(std::fs::read_to_string(&precious).expect("read"), "mine\n");
            assert!(!world.path.join("fresh").exists());
        }
    });
}

#[test]
fn a_commit_with_a_path_outside_of_its_tree_is_not_taken() {
    sandboxed(|| {
        for is_checked_out in [false, true] {
            let world = World::new(false);
            let tree = world.made("fix");
            let evil = with_file(&tree, &["..", "precious.txt"], "theirs\n");
            tree.git(["update-ref", "refs/heads/agentctl/fix", &evil]);
            if !is_checked_out {
                world.shop.git(["switch", "--quiet", "--detach"]);
            }
            let head = world.shop.git(["rev-parse", "main"]);
            for order in orders(&tree) {
                let refused = take(&world.fleet, &order).expect_err("refused");
                assert!(
                    matches!(&refused, TakeError::Git(error) if is_refusal(error)),
                    "{refused}"
                );
                assert_eq!(world.shop.git(["rev-parse", "main"]), head);
            }
            assert!(!world.path.join("precious.txt").exists());
        }
    });
}

fn is_refusal(error: &GitError) -> bool {
    error.to_string().starts_with("the tree has a path outside of itself: ../")
}
