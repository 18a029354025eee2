//! Worktrees of repositories with submodules.

use std::path::Path;

use agentctl_core::worktrees::MakeError;
use testkit::Repository;

use super::making::works;
use super::{World, order_from};

/// Makes a repository with a submodule that has a submodule itself.
pub(crate) fn nested(world: &World) -> Repository {
    let (inner, outer) = (Repository::new(&world.path.join("inner")), world.path.join("outer"));
    let outer = Repository::new(&outer);
    outer.add_submodule(&inner, "deps/inner");
    world.shop.add_submodule(&outer, "deps/outer");
    world.shop.git(["submodule", "--quiet", "update", "--init", "--recursive"]);
    outer
}

#[test]
fn nested_submodules_are_checked_out_from_local_objects() {
    testkit::sandboxed(|| {
        let world = World::new();
        let outer = nested(&world);
        // The places they came from are gone: only the objects of the main tree are left.
        std::fs::rename(&outer.path, world.path.join("gone-1")).expect("moved");
        std::fs::rename(world.path.join("inner"), world.path.join("gone-2")).expect("moved");
        let made = world.made("x");
        assert!(made.warnings.is_empty(), "{:?}", made.warnings);
        for file in ["deps/outer/README.md", "deps/outer/deps/inner/README.md"] {
            assert!(made.path.join(file).exists(), "{file}");
        }
        let status = world.shop.at(&made.path).git(["status", "--porcelain"]);
        assert_eq!(status, "");
        let url = world.shop.at(&made.path.join("deps/outer")).git(["remote", "get-url", "origin"]);
        assert_eq!(Path::new(&url), outer.path, "the submodule keeps its own URL");
    });
}

#[test]
fn a_submodule_that_cannot_be_had_is_a_warning_and_with_strict_a_failure() {
    testkit::sandboxed(|| {
        let world = World::new();
        let outer = nested(&world);
        std::fs::rename(&outer.path, world.path.join("gone-1")).expect("moved");
        world.shop.git(["submodule", "--quiet", "deinit", "--all", "--force"]);
        std::fs::remove_dir_all(world.shop.path.join(".git/modules")).expect("removed");
        let made = world.made("x");
        assert!(made.warnings[0].starts_with("the submodule deps/outer was not checked out"));
        let before = world.shop.git(["for-each-ref"]);
        let mut order = world.order();
        order.options.strict = true;
        let error = world.make(&order, &["y", "z"]).expect_err("strict");
        assert!(matches!(error, MakeError::Submodule { .. }), "{error}");
        assert_eq!(world.shop.git(["for-each-ref"]), before);
        assert!(!world.path.join("shop.worktrees/y").exists());
    });
}

#[test]
fn a_list_of_submodules_that_git_cannot_read_is_a_warning_and_with_strict_a_failure() {
    testkit::sandboxed(|| {
        let world = World::new();
        nested(&world);
        let file = world.shop.path.join(".gitmodules");
        let text = std::fs::read_to_string(&file).expect("read");
        world.shop.write(".gitmodules", text.clone() + "[\n");
        world.shop.git(["add", ".gitmodules"]);
        let tree = world.shop.git(["write-tree"]);
        world.shop.write(".gitmodules", text);
        world.shop.git(["reset", "--quiet"]);
        let commit = world.shop.git(["commit-tree", &tree, "-p", "HEAD", "-m", "broken"]);
        let mut order = world.order();
        order.options.base = Some(commit);
        let made = world.make(&order, &["x"]).expect("made").remove(0);
        let words = "the submodules of .gitmodules were not checked out";
        assert!(made.warnings[0].starts_with(words), "{:?}", made.warnings);
        order.options.strict = true;
        let error = world.make(&order, &["y", "z"]).expect_err("strict");
        assert!(error.to_string().contains("not checked out"), "{error}");
    });
}

#[test]
fn in_a_submodule_the_submodule_is_the_repository() {
    testkit::sandboxed(|| {
        let world = World::new();
        nested(&world);
        let made = works(&world, &world.shop.path.join("deps/outer/src"), "x");
        assert_eq!(made.path, world.path.join("outer.worktrees/x"));
        assert_eq!(made.cwd, made.path.join("src"));
        // Its git directory names a working tree, but is not in it.
        let git_dir = world.shop.path.join(".git/modules/deps/outer");
        let repository = world.git().repository(&git_dir).expect("a repository");
        assert_eq!((repository.top, repository.common), (None, git_dir));
    });
}

#[test]
fn changed_files_in_a_submodule_stay_behind_and_that_is_said() {
    testkit::sandboxed(|| {
        let world = World::new();
        nested(&world);
        world.shop.write("deps/outer/README.md", "changed\n");
        world.shop.write("new.txt", "new\n");
        let mut order = world.order();
        order.options.with_changes = true;
        let made = world.make(&order, &["x"]).expect("made").remove(0);
        let said = "the submodule deps/outer has changes that are not committed in it: they are not taken along";
        assert_eq!(made.warnings, [said]);
        assert!(made.path.join("new.txt").exists());
    });
}

#[test]
fn a_commit_of_a_submodule_that_only_the_launching_worktree_has_is_checked_out() {
    testkit::sandboxed(|| {
        let world = World::new();
        nested(&world);
        let first = world.shop.at(&world.made("first").path);
        let module = first.at(&first.path.join("deps/outer"));
        module.write("work.txt", "work\n");
        let work = module.commit("work");
        first.commit("the work of the submodule");
        let inner = first.at(&module.path.join("deps/inner"));
        inner.write("deep.txt", "deep\n");
        inner.commit("deep");
        module.commit("nested work");
        first.commit("the nested work of the submodule");
        let second = world.make(&order_from(&first.path), &["second"]).expect("made").remove(0);
        assert!(second.warnings.is_empty(), "{:?}", second.warnings);
        for file in ["work.txt", "deps/inner/deep.txt"] {
            assert!(second.path.join("deps/outer").join(file).exists(), "{file}");
        }
        let mut order = order_from(&first.path);
        order.options.base = Some("HEAD~1".to_owned());
        let third = world.make(&order, &["third"]).expect("made").remove(0);
        assert!(third.warnings.is_empty(), "{:?}", third.warnings);
        let at = world.shop.at(&third.path.join("deps/outer")).git(["rev-parse", "HEAD"]);
        assert_eq!(at, work);
    });
}

#[test]
fn a_submodule_that_cannot_be_checked_out_leaves_no_clone() {
    testkit::sandboxed(|| {
        let world = World::new();
        nested(&world);
        let nowhere = "1234567890123456789012345678901234567890";
        let entry = format!("160000,{nowhere},deps/outer");
        world.shop.git(["update-index", "--cacheinfo", &entry]);
        world.shop.git(["commit", "--quiet", "-m", "a commit that is nowhere"]);
        let made = world.made("x");
        assert!(made.warnings[0].starts_with("the submodule deps/outer was not checked out"));
        let git_dir = world.shop.at(&made.path).git(["rev-parse", "--absolute-git-dir"]);
        assert!(!Path::new(&git_dir).join("modules").exists(), "a clone is left");
        assert_eq!(std::fs::read_dir(made.path.join("deps/outer")).expect("there").count(), 0);
    });
}
