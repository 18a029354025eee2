//! What is made, and where; and what is refused before anything exists.

use std::path::{Path, PathBuf};

use agentctl_core::worktrees::{Made, MakeError, make};
use testkit::Repository;

use super::{World, order_from};

#[test]
fn a_worktree_has_its_branch_base_ref_and_directory() {
    let world = World::new();
    let head = world.shop.git(["rev-parse", "HEAD"]);
    let made = world.made("g-1/codex");
    assert_eq!(made.path, world.path.join("shop.worktrees/g-1-codex"));
    assert_eq!((made.cwd.as_path(), made.left_behind), (made.path.as_path(), 0));
    assert_eq!(made.branch, "agentctl/g-1/codex");
    assert_eq!(world.shop.git(["rev-parse", "refs/heads/agentctl/g-1/codex"]), head);
    assert_eq!(world.shop.git(["rev-parse", "refs/agentctl/base/g-1/codex"]), head);
    let reflog = world.shop.git(["reflog", "show", "--format=%gs", "agentctl/g-1/codex"]);
    assert_eq!(reflog, "branch: Created from refs/heads/main");
    let listed = world.shop.git(["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("locked"), "{listed}");
    assert_eq!(std::fs::read_to_string(made.path.join("README.md")).expect("there"), "first\n");
}

#[test]
fn a_taken_name_among_several_makes_nothing() {
    let world = World::new();
    world.made("b");
    let before = world.shop.git(["for-each-ref"]);
    let error = world.make(&world.order(), &["a", "b", "c"]).expect_err("taken");
    assert!(matches!(&error, MakeError::Taken { name, .. } if name == "b"), "{error}");
    assert!(error.to_string().contains("shop.worktrees/b has it"), "{error}");
    assert_eq!(world.shop.git(["for-each-ref"]), before);
    assert_eq!(world.shop.git(["worktree", "list"]).lines().count(), 2);
}

#[test]
fn a_branch_called_like_the_prefix_is_named_as_the_holder() {
    let world = World::new();
    world.shop.git(["branch", "agentctl"]);
    let before = world.shop.git(["for-each-ref"]);
    let error = world.make(&world.order(), &["a", "b"]).expect_err("a collision");
    assert!(error.to_string().contains("the branch `agentctl` exists"), "{error}");
    assert_eq!(world.shop.git(["for-each-ref"]), before);
    assert!(!world.path.join("shop.worktrees").exists());
}

#[test]
fn an_unused_worktree_is_undone_and_one_with_work_is_kept() {
    let world = World::new();
    let before = world.shop.git(["for-each-ref"]);
    let made = world.made("x");
    assert_eq!(make::undo(&world.host, &made).expect("undone"), make::Undone::Removed);
    assert_eq!(world.shop.git(["for-each-ref"]), before);
    assert!(!made.path.exists() && !world.path.join("shop.worktrees").exists());
    for (name, file) in [("y", "new.txt"), ("z", "ignored.log")] {
        let made = world.made(name);
        std::fs::write(made.path.join(file), "work").expect("written");
        let undone = make::undo(&world.host, &made).expect("looked at");
        assert!(matches!(undone, make::Undone::Kept(_)), "{undone:?}");
        assert!(made.path.join(file).exists());
    }
}

#[test]
fn changes_stay_behind_and_are_counted_or_are_taken_along() {
    let world = World::new();
    let shop = &world.shop;
    shop.write("README.md", "changed\n");
    shop.write("new/file.txt", "new\n");
    shop.write("noise.log", "ignored\n");
    let index = shop.git(["status", "--porcelain", "-uall"]);
    assert_eq!(world.made("behind").left_behind, 2);
    let mut order = world.order();
    order.options.with_changes = true;
    let made = world.make(&order, &["along"]).expect("made").remove(0);
    assert_eq!(std::fs::read_to_string(made.path.join("README.md")).expect("there"), "changed\n");
    assert!(made.path.join("new/file.txt").exists() && !made.path.join("noise.log").exists());
    let tree = shop.at(&made.path);
    assert_eq!(tree.git(["status", "--porcelain"]), "");
    assert_eq!(tree.git(["rev-parse", "HEAD^"]), made.base);
    assert_eq!(shop.git(["status", "--porcelain", "-uall"]), index, "the main tree was changed");
    order.options.base = Some("HEAD~0".to_owned());
    world.make(&order, &["same"]).expect("HEAD by another name");
    shop.commit("second");
    order.options.base = Some("HEAD^".to_owned());
    let error = world.make(&order, &["other"]).expect_err("another base");
    assert!(matches!(error, MakeError::ChangesOfOtherBase { .. }), "{error}");
}

/// Makes a worktree from this directory and checks its files.
fn works(world: &World, from: &Path, name: &str) -> Made {
    let made = world.make(&order_from(from), &[name]);
    let made = made.unwrap_or_else(|error| panic!("{}: {error}", from.display())).remove(0);
    assert!(made.path.join("README.md").exists(), "{}", made.path.display());
    assert!(made.warnings.is_empty(), "{:?}", made.warnings);
    made
}

#[test]
fn every_kind_of_repository_works() {
    let world = World::new();
    let at = |name: &str| world.path.join(name);
    // Below the top: the agent starts in the same directory of its worktree.
    let below = works(&world, &world.shop.path.join("src"), "below");
    assert_eq!(below.cwd, below.path.join("src"));
    // Names with blanks, a line end, quotes and letters of other languages.
    for name in ["sp ace", "new\nline", "qu\"ote", "Überraschung-日本"] {
        let odd = Repository::new(&at(name));
        let made = works(&world, &odd.path.join("src"), "odd/ünï");
        assert_eq!(made.cwd, made.path.join("src"));
        assert_eq!(made.path.parent(), Some(at(&format!("{name}.worktrees")).as_path()));
    }
    // Detached.
    world.shop.git(["checkout", "--quiet", "--detach"]);
    works(&world, &world.shop.path, "detached");
    // From a linked worktree: beside the main one.
    let linked = works(&world, &below.path, "from-linked");
    assert_eq!(linked.path, at("shop.worktrees/from-linked"));
    // SHA-256.
    let sha256 = Repository::empty(&at("sha256"), &["--object-format=sha256"]);
    sha256.write("README.md", "x\n");
    sha256.commit("first");
    assert_eq!(works(&world, &sha256.path, "x").base.len(), 64);
    // A bare repository.
    let url = world.shop.path.to_str().expect("UTF-8");
    world.shop.git(["clone", "--quiet", "--bare", url, at("bare.git").to_str().expect("UTF-8")]);
    let bare = works(&world, &at("bare.git"), "x");
    assert_eq!(bare.path, at("bare.worktrees/x"));
    // A repository whose working tree is elsewhere, from the tree, its git directory and a worktree of it.
    let apart = Repository::new(&at("apart.git-only"));
    std::fs::create_dir_all(at("tree/src")).expect("made");
    let tree = at("tree");
    apart.git(["config", "core.worktree", tree.to_str().expect("UTF-8")]);
    apart.git(["checkout", "--force", "--quiet", "HEAD", "--", ":/"]);
    std::fs::write(tree.join(".git"), format!("gitdir: {}\n", apart.path.join(".git").display()))
        .expect("written");
    let made = works(&world, &tree.join("src"), "x");
    assert_eq!((&made.path, &made.cwd), (&at("tree.worktrees/x"), &at("tree.worktrees/x/src")));
    assert_eq!(works(&world, &made.path, "from-it").path, at("tree.worktrees/from-it"));
    // A clone that borrows its objects.
    world.shop.git(["clone", "--quiet", "--shared", url, at("borrows").to_str().expect("UTF-8")]);
    works(&world, &at("borrows"), "x");
}

#[test]
fn a_repository_without_a_commit_is_refused_and_nothing_is_left() {
    let world = World::new();
    let unborn = Repository::empty(&world.path.join("unborn"), &[]);
    let error = world.make(&order_from(&unborn.path), &["x"]).expect_err("unborn");
    assert!(matches!(error, MakeError::Unborn { .. }), "{error}");
    let error = world.make(&order_from(&world.path), &["x"]).expect_err("no repository");
    assert!(error.to_string().ends_with("is not in a git repository"), "{error}");
    assert!(!world.path.join("unborn.worktrees").exists());
}

/// Makes a repository with a submodule that has a submodule itself.
fn nested(world: &World) -> Repository {
    let (inner, outer) = (Repository::new(&world.path.join("inner")), world.path.join("outer"));
    let outer = Repository::new(&outer);
    outer.add_submodule(&inner, "deps/inner");
    world.shop.add_submodule(&outer, "deps/outer");
    world.shop.git(["submodule", "--quiet", "update", "--init", "--recursive"]);
    outer
}

#[test]
fn nested_submodules_are_checked_out_from_local_objects() {
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
}

#[test]
fn a_submodule_that_cannot_be_had_is_a_warning_and_with_strict_a_failure() {
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
}

#[test]
fn in_a_submodule_the_submodule_is_the_repository() {
    let world = World::new();
    nested(&world);
    let made = works(&world, &world.shop.path.join("deps/outer/src"), "x");
    assert_eq!(made.path, world.path.join("outer.worktrees/x"));
    assert_eq!(made.cwd, made.path.join("src"));
}

#[test]
fn files_are_copied_without_following_links_and_setup_gets_its_variables() {
    let world = World::new();
    let shop = &world.shop;
    shop.write(".env", "SECRET=1\n");
    shop.write("conf/local.log", "x\n");
    let outside = world.path.join("outside");
    std::fs::write(&outside, "outside").expect("written");
    std::os::unix::fs::symlink(&outside, shop.path.join("link.log")).expect("linked");
    // The base has a directory that is a link in the worktree.
    std::os::unix::fs::symlink(&world.path, shop.path.join("tricky")).expect("linked");
    shop.commit("a link");
    std::fs::remove_file(shop.path.join("tricky")).expect("removed");
    shop.write("tricky/planted.log", "x\n");
    let mut order = world.order();
    let copy = [".env", "conf", "link.log", "tricky/planted.log", "missing", "README.md"];
    order.settings.copy = copy.map(PathBuf::from).to_vec();
    let script = "env | grep ^AGENTCTL_ | sort; pwd; cat .env";
    order.settings.setup = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    order.group = Some("g".to_owned());
    let made = world.make(&order, &["x"]).expect("made").remove(0);
    assert!(made.path.join("conf/local.log").exists() && !made.path.join("link.log").exists());
    assert!(!world.path.join("planted.log").exists(), "a link was followed");
    assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
    let said = String::from_utf8_lossy(&made.setup_output).into_owned();
    let (path, main) = (made.path.display(), shop.path.display());
    for line in [
        "AGENTCTL_BRANCH=agentctl/x".to_owned(),
        "AGENTCTL_GROUP=g".to_owned(),
        format!("AGENTCTL_MAIN={main}"),
        "AGENTCTL_SLOT=0".to_owned(),
        format!("AGENTCTL_WORKTREE={path}"),
        path.to_string(),
        "SECRET=1".to_owned(),
    ] {
        assert!(said.lines().any(|said| said == line), "{line} is not in {said}");
    }
}

#[test]
fn a_failed_setup_removes_everything_that_was_made() {
    let world = World::new();
    let before = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
    let mut order = world.order();
    let script = "touch made-by-setup; test $AGENTCTL_SLOT != 1 || { echo no ports left; exit 3; }";
    order.settings.setup = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let error = world.make(&order, &["a", "b", "c"]).expect_err("the setup of b fails");
    assert!(error.to_string().contains("exit code 3: no ports left"), "{error}");
    let after = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
    assert_eq!(after, before);
    assert!(!world.path.join("shop.worktrees").exists());
}

#[test]
fn a_sparse_directory_that_the_base_does_not_have_is_refused() {
    let world = World::new();
    let mut order = world.order();
    order.options.sparse = vec!["src".to_owned(), "nosuch".to_owned()];
    order.options.force = true;
    let refused = world.make(&order, &["fix"]).expect_err("there is no such directory");
    assert_eq!(refused.to_string(), "--sparse: the base has no directory `nosuch`");
    assert_eq!(world.shop.git(["branch", "--list", "agentctl/*"]), "");
    order.options.sparse = vec!["src/".to_owned()];
    assert!(world.make(&order, &["fix"]).is_ok());
}

#[test]
fn a_repository_that_cannot_be_written_is_no_taken_name() {
    testkit::sandboxed(|| {
        let world = World::new();
        let git_dir = world.shop.path.join(".git");
        let text = git_dir.to_str().expect("UTF-8");
        let run = |args: &[&str]| {
            let status = std::process::Command::new(args[0]).args(&args[1..]).status();
            assert!(status.expect("run").success(), "{args:?}");
        };
        // The sandbox has a mount namespace of its own.
        run(&["mount", "--bind", text, text]);
        run(&["mount", "-o", "remount,bind,ro", text]);
        let refused = world.make(&world.order(), &["fix"]).expect_err("read-only").to_string();
        run(&["umount", text]);
        let said = format!("the repository {} cannot be written: ", world.shop.path.display());
        assert!(refused.starts_with(&said), "{refused}");
    });
}
