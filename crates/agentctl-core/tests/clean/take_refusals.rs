//! Refusals of `take`: nothing is lost, no other branch is moved, and the reason is named.

use std::sync::Arc;

use agentctl_core::ask::{DiffRequest, Fleet};
use agentctl_core::worktrees::take::{TakeOrder, TakeWay, take};
use testkit::{Repository, sandboxed};

use super::{World, add_hook, host};

/// Returns the message with which a `take` is refused.
fn refusal(world: &World, order: &TakeOrder) -> String {
    take(&world.fleet, order).expect_err("refused").to_string()
}

/// Makes a worktree with one commit, and another commit on the main branch.
fn diverged() -> (World, Repository) {
    let world = World::new(false);
    let tree = world.made("fix");
    tree.write("one.txt", "one\n");
    tree.commit("one");
    world.shop.write("other.txt", "other\n");
    world.shop.commit("other");
    (world, tree)
}

#[test]
fn a_commit_that_was_made_during_a_failing_merge_stays() {
    sandboxed(|| {
        for (hook, way) in [("pre-merge-commit", TakeWay::Merge), ("pre-commit", TakeWay::Squash)] {
            let (world, tree) = diverged();
            let script = "#!/bin/sh\n\
                export GIT_AUTHOR_NAME=U GIT_AUTHOR_EMAIL=u@e GIT_COMMITTER_NAME=U GIT_COMMITTER_EMAIL=u@e\n\
                new=$(git commit-tree 'HEAD^{tree}' -p HEAD -m meanwhile)\n\
                git update-ref refs/heads/main $new\n\
                exit 1\n";
            add_hook(&world, hook, script);
            let refused = refusal(&world, &TakeOrder { way, ..World::take_order(&tree) });
            assert_eq!(world.shop.git(["log", "-1", "--format=%s", "main"]), "meanwhile");
            let commit = world.shop.git(["rev-parse", "--short=7", "main"]);
            for words in [&commit, world.shop.path.to_str().expect("UTF-8")] {
                assert!(refused.contains(words), "{refused}");
            }
        }
    });
}

#[test]
fn a_branch_that_is_rebased_or_bisected_is_not_moved() {
    sandboxed(|| {
        let (world, tree) = diverged();
        let (shop, place) = (&world.shop, world.shop.path.display());
        shop.git(["branch", "side", "HEAD~1"]);
        let side = shop.at(&world.path.join("side"));
        shop.git(["worktree", "add", "--quiet", side.path.to_str().expect("UTF-8"), "side"]);
        side.write("other.txt", "another\n");
        side.commit("another");
        for (rebased, onto, name) in [(shop, "side", "main"), (&side, "main", "side")] {
            assert!(!rebased.succeeds(["rebase", "--quiet", onto]), "a conflict");
            let before = shop.git(["rev-parse", name]);
            let into = TakeOrder { into: Some(name.into()), ..World::take_order(&tree) };
            let said = format!("a rebase of {name} is in progress in {}", rebased.path.display());
            assert_eq!(refusal(&world, &into), said);
            assert_eq!(shop.git(["rev-parse", name]), before);
            rebased.git(["rebase", "--abort"]);
        }
        for text in ["1", "2", "3"] {
            shop.write("count.txt", text);
            shop.commit(text);
        }
        shop.git(["bisect", "start", "HEAD", "HEAD~3"]);
        let said = format!("a bisection of main is in progress in {place}");
        let into_main = TakeOrder { into: Some("main".into()), ..World::take_order(&tree) };
        assert_eq!(refusal(&world, &into_main), said);
        shop.git(["bisect", "reset"]);
        assert_eq!(take(&world.fleet, &into_main).expect("taken").commits, 1);
    });
}

#[test]
fn a_branch_that_is_rebased_proves_nothing_for_clean() {
    sandboxed(|| {
        let (world, tree) = diverged();
        let shop = &world.shop;
        shop.git(["checkout", "--quiet", "-b", "side", "HEAD~1"]);
        shop.write("other.txt", "another\n");
        shop.commit("another");
        shop.git(["checkout", "--quiet", "main"]);
        assert!(!shop.succeeds(["rebase", "--quiet", "side"]), "a conflict");
        let work = tree.git(["rev-parse", "HEAD"]);
        shop.git(["update-ref", "refs/heads/main", &work]);
        world.assert_kept("fix", "1 commit is nowhere else");
        shop.git(["rebase", "--abort"]);
        assert_eq!(shop.git(["rev-parse", "agentctl/fix"]), work);
    });
}

/// Makes a worktree `fix` with a file that git cannot store: its required filter fails.
fn with_unstorable_file() -> (World, Repository) {
    let world = World::new(false);
    let tree = world.made("fix");
    world.shop.git(["config", "filter.broken.clean", "false"]);
    world.shop.git(["config", "filter.broken.required", "true"]);
    world.shop.write(".git/info/attributes", "*.ipynb filter=broken\n");
    tree.write("notes.ipynb", "work\n");
    (world, tree)
}

#[test]
fn files_that_cannot_be_stored_are_not_taken_silently() {
    sandboxed(|| {
        let (world, tree) = with_unstorable_file();
        let head = world.shop.git(["rev-parse", "main"]);
        for with_uncommitted in [true, false] {
            let refused =
                refusal(&world, &TakeOrder { with_uncommitted, ..World::take_order(&tree) });
            assert!(refused.contains("notes.ipynb"), "{refused}");
        }
        tree.write("fine.txt", "fine\n");
        let refused =
            refusal(&world, &TakeOrder { with_uncommitted: true, ..World::take_order(&tree) });
        assert!(refused.contains("notes.ipynb"), "{refused}");
        std::fs::remove_file(tree.path.join("notes.ipynb")).expect("removed");
        // git stores no file of this name, and stores the others.
        tree.write("git~1", "work\n");
        let refused =
            refusal(&world, &TakeOrder { with_uncommitted: true, ..World::take_order(&tree) });
        assert!(refused.contains("git~1"), "{refused}");
        assert_eq!(world.shop.git(["rev-parse", "main"]), head);
    });
}

#[test]
fn a_repository_inside_a_worktree_is_named_by_take_and_by_diff() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let lib = Repository::new(&world.path.join("lib"));
        let lib = lib.path.to_str().expect("UTF-8");
        tree.git(["submodule", "--quiet", "add", lib, "lib"]);
        let all = TakeOrder { with_uncommitted: true, ..World::take_order(&tree) };
        assert_eq!(take(&world.fleet, &all).expect("a submodule is no obstacle").files, 2);
        let _inner = Repository::new(&tree.path.join("tools/inner"));
        let head = world.shop.git(["rev-parse", "main"]);
        let refused = refusal(&world, &all);
        assert!(refused.contains("tools/inner is a repository of its own"), "{refused}");
        assert_eq!(world.shop.git(["rev-parse", "main"]), head);
        let mut here = host(&world.path);
        here.cwd.clone_from(&world.shop.path);
        let request = DiffRequest {
            of: "fix".into(),
            base: None,
            patch: false,
            prefix: World::settings().prefix,
        };
        let document = Fleet::new(Arc::new(here), &[]).diff(&request).expect("compared");
        let gaps = &document.diffs[0].gaps;
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert!(gaps[0].contains("tools/inner is a repository of its own"), "{gaps:?}");
    });
}

#[test]
fn an_untracked_file_in_the_way_is_named() {
    sandboxed(|| {
        let (world, tree) = diverged();
        world.shop.write("one.txt", "mine\n");
        let refused = refusal(&world, &World::take_order(&tree));
        let said = format!(
            "main is checked out in {}, where one.txt is not tracked and in the way of the merge",
            world.shop.path.display()
        );
        assert_eq!(refused, said);
        let content = std::fs::read_to_string(world.shop.path.join("one.txt")).expect("read");
        assert_eq!(content, "mine\n");
        assert_eq!(world.shop.git(["status", "--short"]), "?? one.txt");
    });
}

#[test]
fn the_words_of_a_hook_that_refuses_are_told() {
    sandboxed(|| {
        let ways = [
            ("pre-merge-commit", TakeWay::Merge),
            ("commit-msg", TakeWay::Merge),
            ("pre-commit", TakeWay::Squash),
        ];
        for (hook, way) in ways {
            let (world, tree) = diverged();
            add_hook(&world, hook, "#!/bin/sh\necho 'policy: no merges on Friday' >&2\nexit 1\n");
            let refused = refusal(&world, &TakeOrder { way, ..World::take_order(&tree) });
            let said = "a hook refused the merge: policy: no merges on Friday; nothing was changed";
            assert_eq!(refused, said, "{hook}");
            assert_eq!(world.shop.git(["status", "--short"]), "");
            assert!(!world.shop.path.join(".git/MERGE_HEAD").exists());
        }
    });
}

#[test]
fn files_that_cannot_be_read_are_not_called_ignored() {
    sandboxed(|| {
        let (world, _) = with_unstorable_file();
        let mut forced = world.named("fix");
        forced.force = true;
        let kept = world.clean(&forced).remove(0);
        let reasons = kept.reasons.join("; ");
        assert!(reasons.contains("not all of its files can be read"), "{reasons}");
        assert!(!reasons.contains("ignored"), "{reasons}");
    });
}
