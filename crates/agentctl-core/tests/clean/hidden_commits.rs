//! Commits that only a reflog, a root ref or a file of git names: a clean keeps them by a rescue ref, or keeps the
//! worktree.

use agentctl_core::worktrees::{CleanAction, CleanSelection};
use testkit::{Repository, sandboxed};

use super::{World, commit_in, text};

/// Makes a commit that no ref and no reflog names.
fn loose_commit(tree: &Repository, message: &str) -> String {
    let files = tree.git(["rev-parse", "HEAD^{tree}"]);
    tree.git(["commit-tree", &files, "-p", "HEAD", "-m", message])
}

/// Fails unless a ref of the repository leads to these commits.
fn assert_named(world: &World, what: &str, commits: &[String]) {
    let named = world.shop.git(["rev-list", "--all"]);
    for commit in commits {
        assert!(named.lines().any(|line| line == commit), "{what}: {commit} is lost");
    }
}

/// Commits a file and its removal, so that the files are those of `main` again.
fn commit_and_revert(tree: &Repository) -> Vec<String> {
    let first = commit_in(tree);
    tree.git(["rm", "--quiet", "work.txt"]);
    vec![first, tree.commit("removed")]
}

#[test]
fn commits_of_a_worktree_whose_head_is_unborn_are_rescued() {
    sandboxed(|| {
        let world = World::new(false);
        let orphan = world.made_fast("orphan");
        orphan.git(["checkout", "--quiet", "--detach"]);
        let detached = commit_in(&orphan);
        orphan.git(["switch", "--quiet", "--orphan", "fresh"]);
        // Without `.gitignore` it is a file of its own.
        std::fs::remove_file(orphan.path.join(".env")).expect("removed");
        let row = world.clean(&world.named(text(&orphan.path))).remove(0);
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert_named(&world, "orphan", &[detached]);

        for (name, is_forced) in [("swept", false), ("forced", true)] {
            // Commits of the same second would be the same.
            let world = World::new(false);
            let tree = world.made_fast(name);
            let commits = commit_and_revert(&tree);
            tree.git(["update-ref", "-d", &format!("refs/heads/agentctl/{name}")]);
            let mut order = world.order(CleanSelection::All);
            if is_forced {
                tree.write("README.md", "changed\n");
                order = world.named(name);
                order.force = true;
            }
            let rows = world.clean(&order);
            assert_eq!(rows[0].action, CleanAction::Removed, "{rows:?}");
            assert!(!tree.path.exists());
            assert_named(&world, name, &commits);
            let base = format!("refs/agentctl/base/{name}");
            assert!(!world.shop.succeeds(["rev-parse", "--verify", &base]), "{base} stays");
        }

        let world = World::new(false);
        let cut = world.made_fast("cut");
        let commits = commit_and_revert(&cut);
        std::fs::write(world.shop.path.join(".git/refs/heads/agentctl/cut"), "").expect("cut off");
        let row = world.clean_one("cut");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        let rescue = row.rescue.expect("a rescue ref");
        let named = world.shop.git(["rev-list", &rescue.reference]);
        for commit in commits {
            assert!(named.contains(&commit), "{commit} is lost: {rescue:?}");
        }
    });
}

#[test]
fn a_worktree_keeps_its_name_on_an_unborn_branch() {
    sandboxed(|| {
        let world = World::new(false);
        for (name, is_detached) in [("direct", false), ("detached", true)] {
            let tree = world.made_fast(name);
            if is_detached {
                tree.git(["checkout", "--quiet", "--detach"]);
            }
            tree.git(["switch", "--quiet", "--orphan", &format!("fresh-{name}")]);
            std::fs::remove_file(tree.path.join(".env")).expect("removed");
            let rows = world.clean(&world.order(CleanSelection::All));
            let named: Vec<_> = rows.iter().map(|row| row.name.as_deref()).collect();
            assert_eq!(named, [Some(name)], "{rows:?}");
            assert_eq!(rows[0].action, CleanAction::Kept, "{rows:?}");
            assert_eq!(world.clean_one(name).action, CleanAction::Removed);
            world.clean(&world.named(&format!("agentctl/{name}")));
        }
    });
}

#[test]
fn commits_that_only_root_refs_name_are_rescued() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let saved = loose_commit(&tree, "saved");
        tree.git(["update-ref", "SAVED_HEAD", &saved]);
        let logged = loose_commit(&tree, "logged");
        tree.git(["update-ref", "--create-reflog", "refs/worktree/x", &logged]);
        tree.git(["update-ref", "refs/worktree/x", "HEAD"]);
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        assert_named(&world, "fix", &[saved, logged]);

        let tree = world.made_fast("odd");
        let blob = tree.path.join("note");
        std::fs::write(&blob, "a note\n").expect("written");
        let id = tree.git(["hash-object", "-w", "note"]);
        std::fs::remove_file(&blob).expect("removed");
        tree.git(["update-ref", "SAVED_NOTE", &id]);
        world.assert_kept("odd", "SAVED_NOTE names no commit");
    });
}

#[test]
fn commits_that_only_root_refs_of_a_repository_inside_name_keep_the_worktree() {
    sandboxed(|| {
        let world = World::new(false);
        let remote = text(&world.path.join("remote.git")).to_owned();
        let places = ["SAVED_HEAD", "saved", "deep/er", "FETCH_HEAD", "logs/refs/heads/gone"];
        for (number, place) in places.into_iter().enumerate() {
            let name = format!("n{number}");
            let tree = world.made_fast(&name);
            tree.git(["clone", "--quiet", &remote, "node_modules/clone"]);
            let inside = tree.at(&tree.path.join("node_modules/clone"));
            let commit = loose_commit(&inside, place);
            let file = inside.path.join(".git").join(place);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
            let zeros = "0".repeat(40);
            let line = match place {
                "FETCH_HEAD" => format!("{commit}\t\tbranch 'x' of elsewhere\n"),
                "logs/refs/heads/gone" => format!("{commit} {zeros} T <t@e> 1 +0000\tgone\n"),
                _ => format!("{commit}\n"),
            };
            std::fs::write(file, line).expect("written");
            world.assert_kept(&name, "repository node_modules/clone: 1 commit is nowhere else");
            inside.git(["push", "--quiet", "origin", &format!("{commit}:refs/heads/{name}")]);
            let row = world.clean_one(&name);
            assert_eq!(row.action, CleanAction::Removed, "{place}: {row:?}");
        }
    });
}

#[test]
fn commits_that_only_a_launch_in_progress_names_are_rescued() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made("fix");
        let commits = vec![commit_in(&tree), tree.commit("second")];
        world.shop.git(["merge", "--quiet", "--squash", "agentctl/fix"]);
        world.shop.git(["commit", "--quiet", "-m", "squashed"]);
        let next = world.made_from("next", "agentctl/fix");
        let row = world.clean_one("fix");
        assert_eq!(row.action, CleanAction::Removed, "{row:?}");
        // The undo of a launch that fails.
        world.shop.git(["worktree", "remove", "--force", "--force", text(&next.path)]);
        world.shop.git(["update-ref", "-d", "refs/heads/agentctl/next"]);
        world.shop.git(["update-ref", "-d", "refs/agentctl/base/next"]);
        assert_named(&world, "fix", &commits);
    });
}

#[test]
fn the_base_ref_of_a_renamed_branch_goes_with_it() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("one");
        world.shop.git(["branch", "--move", "agentctl/one", "agentctl/two"]);
        // Another worktree has taken the name of the first one since.
        let other = world.made_fast("three");
        world.shop.git(["branch", "--move", "agentctl/three", "agentctl/four"]);
        world.shop.git(["branch", "agentctl/three"]);
        for name in ["two", "four"] {
            let row = world.clean(&world.named(&format!("agentctl/{name}"))).remove(0);
            assert_eq!((row.action, row.branch_deleted), (CleanAction::Removed, true), "{row:?}");
        }
        assert!(!tree.path.exists() && !other.path.exists());
        let left = world.shop.git(["for-each-ref", "--format=%(refname)", "refs/agentctl"]);
        assert_eq!(left, "refs/agentctl/base/three");
    });
}
