//! Work in places that are easily overlooked, and cleans at the same time: nothing is lost.

use agentctl_core::worktrees::take::{TakeError, TakeOrder, TakeWay, take};
use agentctl_core::worktrees::{CleanAction, CleanNews, CleanSelection, clean};
use testkit::{Repository, sandboxed};

use super::World;

#[test]
fn a_dry_run_leaves_a_worktree_alone_that_another_clean_removes() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let mut looked = false;
        world.clean_telling(&world.named("fix"), &mut |news| {
            if let CleanNews::Renamed(aside) = news {
                let mut order = world.named("fix");
                order.dry_run = true;
                world.clean(&order);
                assert!(aside.exists() && !tree.path.exists(), "it was renamed back");
                looked = true;
            }
        });
        assert!(looked && !tree.path.exists());
    });
}

#[test]
fn a_directory_that_appears_during_the_removal_stays() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        world.clean_telling(&world.named("fix"), &mut |news| {
            if let CleanNews::Removing(_) = news {
                let aside = tree.path.with_file_name(".fix.agentctl-removing");
                let mut copy = std::process::Command::new("cp");
                let copied = copy.arg("-a").arg(aside).arg(&tree.path).status().expect("run");
                assert!(copied.success());
                tree.write(".env", "SECRET=late\n");
            }
        });
        let late = std::fs::read_to_string(tree.path.join(".env")).expect("it stays");
        assert_eq!(late, "SECRET=late\n");
    });
}

#[test]
fn cleans_at_the_same_time_remove_each_worktree_once() {
    sandboxed(|| {
        let world = World::new(false);
        for number in 0..6 {
            world.made_fast(&format!("w{number}"));
        }
        let order = world.order(CleanSelection::All);
        let rows = std::thread::scope(|scope| {
            let clean = || clean(&world.fleet, &order, &mut |_| {}).expect("cleaned").worktrees;
            let all: Vec<_> = (0..4).map(|_| scope.spawn(clean)).collect();
            let ended = all.into_iter().map(|one| one.join().expect("ended"));
            ended.flatten().collect::<Vec<_>>()
        });
        for row in rows.iter().filter(|row| row.action == CleanAction::Kept) {
            // The git of another clean is a process in the worktree.
            let is_occupied = |reason: &String| reason.starts_with("a process works in it (pid ");
            assert!(row.reasons.iter().all(is_occupied), "{row:?}");
        }
        world.clean(&order);
        assert!(!world.path.join("shop.worktrees").exists());
        assert_eq!(world.shop.git(["branch", "--list", "agentctl/*"]), "");
    });
}

#[test]
fn repositories_without_a_git_entry_are_found() {
    sandboxed(|| {
        let world = World::new(false);
        let bare = world.made_fast("bare");
        let path = bare.path.join("node_modules/r.git");
        let _bare = Repository::empty(&path, &["--bare"]);
        bare.write("work.txt", "work\n");
        bare.git(["add", "work.txt"]);
        bare.git(["commit", "--quiet", "-m", "work"]);
        bare.git(["push", "--quiet", path.to_str().expect("UTF-8"), "HEAD:main"]);
        bare.git(["reset", "--quiet", "--hard", "HEAD~1"]);
        bare.git(["reflog", "expire", "--expire=now", "--all"]);
        world.assert_kept("bare", "repository node_modules/r.git: 3 commits are nowhere else");

        let separate = world.made_fast("separate");
        let outside = world.path.join("outside");
        let git_dir = separate.path.join("node_modules/g");
        let flag = format!("--separate-git-dir={}", git_dir.display());
        std::fs::create_dir_all(git_dir.parent().expect("a parent")).expect("made");
        Repository::empty(&outside, &[&flag]).commit("work");
        world.assert_kept("separate", "repository node_modules/g: 1 commit is nowhere else");
    });
}

#[test]
fn repositories_inside_are_no_remotes_of_each_other() {
    sandboxed(|| {
        let world = World::new(false);
        let tree = world.made_fast("fix");
        let one = Repository::new(&tree.path.join("node_modules/one"));
        let (from, two) = (one.path.clone(), tree.path.join("node_modules/two"));
        let (from, to) = (from.to_str().expect("UTF-8"), two.to_str().expect("UTF-8"));
        one.git(["clone", "--quiet", from, to]);
        one.git(["remote", "add", "origin", "../two"]);
        one.git(["fetch", "--quiet", "origin"]);
        world.assert_kept("fix", "repository node_modules/one: 1 commit is nowhere else");
        world.assert_kept("fix", "repository node_modules/two: 1 commit is nowhere else");
    });
}

#[test]
fn a_moved_submodule_counts_also_if_git_is_told_to_ignore_it() {
    sandboxed(|| {
        let world = World::new(true);
        world.shop.git(["config", "--file", ".gitmodules", "submodule.lib.ignore", "all"]);
        world.shop.commit("ignored submodule");
        let tree = world.made("fix");
        let lib = world.path.join("lib");
        let origin = world.shop.at(&lib);
        origin.write("next.txt", "next\n");
        let next = origin.commit("next");
        let inside = tree.at(&tree.path.join("lib"));
        inside.git(["fetch", "--quiet", "origin"]);
        inside.git(["checkout", "--quiet", &next]);
        world.assert_kept("fix", "1 file is not committed");
    });
}

#[test]
fn a_worktree_on_a_detached_head_keeps_its_name_and_its_branch() {
    sandboxed(|| {
        let world = World::new(false);
        for (name, moved) in [("dg/one", false), ("dg/two", true)] {
            let tree = world.made_fast(name);
            tree.git(["checkout", "--quiet", "--detach"]);
            tree.write("work.txt", "work\n");
            tree.git(["add", "work.txt"]);
            tree.git(["commit", "--quiet", "-m", "work"]);
            if moved {
                let to = world.path.join("elsewhere");
                let (from, to) = (tree.path.to_str().expect("UTF-8"), to.to_str().expect("UTF-8"));
                world.shop.git(["worktree", "move", from, to]);
            }
            world.assert_kept(name, "1 commit is nowhere else");
        }
        let rows = world.clean(&world.order(CleanSelection::Group("dg".to_owned())));
        let mut names: Vec<_> = rows.iter().filter_map(|row| row.name.as_deref()).collect();
        names.sort_unstable();
        assert_eq!(names, ["dg/one", "dg/two"], "{rows:?}");
        assert!(rows.iter().all(|row| row.action == CleanAction::Kept), "{rows:?}");
        let refs = world.shop.git(["for-each-ref", "--format=%(refname)", "refs/agentctl"]);
        assert_eq!(refs, "refs/agentctl/base/dg/one\nrefs/agentctl/base/dg/two");
        assert!(world.shop.succeeds(["rev-parse", "--verify", "agentctl/dg/one"]));
    });
}

#[test]
fn work_that_began_at_a_remote_branch_or_a_tag_is_taken_into_no_other_branch() {
    sandboxed(|| {
        let world = World::new(false);
        let shop = &world.shop;
        shop.git(["checkout", "--quiet", "-b", "feature"]);
        shop.write("feature.txt", "feature\n");
        shop.commit("feature");
        shop.git(["tag", "v1"]);
        shop.git(["push", "--quiet", "origin", "feature"]);
        shop.git(["checkout", "--quiet", "main"]);
        let take_of = |name: &str, base: &str| {
            let tree = world.made_from(name, base);
            tree.write(format!("{name}.txt"), "work\n");
            tree.commit("work");
            let order = TakeOrder {
                path: tree.path,
                into: None,
                way: TakeWay::Merge,
                with_uncommitted: false,
                settings: World::settings(),
            };
            take(&world.fleet, &order)
        };
        assert_eq!(take_of("local", "origin/feature").expect("taken").into, "feature");
        shop.git(["branch", "--quiet", "-D", "feature"]);
        for (name, base) in [("remote", "origin/feature"), ("tag", "v1"), ("commit", "v1^0")] {
            let refused = take_of(name, base).expect_err(name);
            assert!(matches!(refused, TakeError::NoBaseBranch { .. }), "{name}: {refused}");
        }
        assert!(!shop.path.join("feature.txt").exists());
    });
}

#[test]
fn a_file_that_git_status_shows_as_modified_keeps_its_worktree() {
    sandboxed(|| {
        let world = World::new(false);
        world.shop.write(".gitattributes", "*.txt text\n");
        world.shop.commit("attributes");
        let tree = world.made_fast("fix");
        tree.write("src/lib.txt", "one\r\ntwo\r\nthree\r\n");
        assert_eq!(tree.git(["status", "--porcelain"]), " M src/lib.txt");
        world.assert_kept("fix", "`git status` shows 1 file as modified");
    });
}
