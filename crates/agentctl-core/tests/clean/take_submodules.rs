//! Work in submodules: `take`, `diff` and `compare` never pass over it in silence.

use std::sync::Arc;

use agentctl_core::ask::{CompareRequest, CompareRow, DiffDocument, DiffRequest, Fleet, WorkDiff};
use agentctl_core::git::Git;
use agentctl_core::worktrees::WorktreeFacts;
use agentctl_core::worktrees::facts::{Sizes, of_all};
use agentctl_core::worktrees::take::{TakeError, TakeOrder, take};
use testkit::{Repository, sandboxed};

use super::{World, host};

/// Returns a fleet that asks from the main tree.
pub(crate) fn here(world: &World) -> Fleet {
    let mut here = host(&world.path);
    here.cwd.clone_from(&world.shop.path);
    Fleet::new(Arc::new(here), &[])
}

pub(crate) fn diff(world: &World, of: &str) -> DiffDocument {
    let prefix = World::settings().prefix;
    let request = DiffRequest { of: of.into(), base: None, patch: false, prefix };
    here(world).diff(&request).expect("compared")
}

/// Returns the one slot of the group `g`, and the faults.
pub(crate) fn compared(world: &World) -> (CompareRow, Vec<String>) {
    let request =
        CompareRequest { group: "g".into(), verify: Vec::new(), prefix: World::settings().prefix };
    let mut document = here(world).compare(&request, &mut |_| {}).expect("compared");
    let faults = document.faults.into_iter().map(|fault| fault.message).collect();
    (document.slots.remove(0), faults)
}

pub(crate) fn one_diff(world: &World, of: &str) -> WorkDiff {
    diff(world, of).diffs.remove(0)
}

pub(crate) fn facts(world: &World, prefix: &str) -> Vec<WorktreeFacts> {
    let host = &here(world).host;
    let git = Git::find(host).expect("git");
    let repository = git.repository(&world.shop.path).expect("a repository");
    of_all(host, &git, &repository, prefix, Sizes::Omitted).expect("facts")
}

#[test]
fn a_commit_of_a_submodule_that_only_the_worktree_has_is_not_taken() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("g/fix");
        let lib = tree.at(&tree.path.join("lib"));
        lib.write("new.txt", "new\n");
        let commit = lib.commit("in the submodule");
        let head = world.shop.git(["rev-parse", "main"]);
        let refused = |order: &TakeOrder| match take(&world.fleet, order).expect_err("refused") {
            TakeError::SubmoduleCommit { submodule, command, .. } => (submodule, command),
            other => panic!("{other}"),
        };
        let uncommitted = TakeOrder { with_uncommitted: true, ..World::take_order(&tree) };
        assert_eq!(refused(&uncommitted).0, "lib");
        tree.commit("bump");
        let (submodule, command) = refused(&World::take_order(&tree));
        assert_eq!(submodule, "lib");
        assert_eq!(world.shop.git(["rev-parse", "main"]), head);
        let gaps = &diff(&world, "g/fix").diffs[0].gaps;
        assert!(
            gaps.iter().any(|gap| gap.contains("submodule lib is at another commit")),
            "{gaps:?}"
        );
        // The command of the message is run as it is printed.
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", &command]).status().expect("sh").success(), "{command}");
        let taken = take(&world.fleet, &World::take_order(&tree)).expect("taken");
        assert_eq!(taken.moved_submodules, ["lib"]);
        world.shop.git(["submodule", "--quiet", "update"]);
        assert_eq!(world.shop.at(&world.shop.path.join("lib")).git(["rev-parse", "HEAD"]), commit);
        assert_eq!(world.shop.git(["status", "--short"]), "");
    });
}

#[test]
fn a_commit_that_the_remote_of_the_submodule_has_is_taken() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("fix");
        let lib = tree.at(&tree.path.join("lib"));
        lib.write("new.txt", "new\n");
        lib.commit("in the submodule");
        lib.git([
            "push",
            "--quiet",
            world.path.join("lib").to_str().expect("UTF-8"),
            "HEAD:refs/heads/side",
        ]);
        lib.git([
            "fetch",
            "--quiet",
            world.path.join("lib").to_str().expect("UTF-8"),
            "side:refs/remotes/origin/side",
        ]);
        tree.commit("bump");
        assert_eq!(
            take(&world.fleet, &World::take_order(&tree)).expect("taken").moved_submodules,
            ["lib"]
        );
    });
}

#[test]
fn changed_files_of_a_submodule_are_counted_and_named() {
    sandboxed(|| {
        let world = World::new(true);
        let tree = world.made("g/fix");
        std::fs::write(tree.path.join("lib/README.md"), "dirt\n").expect("written");
        for with_uncommitted in [false, true] {
            let refused =
                take(&world.fleet, &TakeOrder { with_uncommitted, ..World::take_order(&tree) });
            let refused = refused.expect_err("the submodule is not taken");
            assert!(matches!(refused, TakeError::DirtySubmodules { .. }), "{refused}");
        }
        let request = CompareRequest {
            group: "g".into(),
            verify: Vec::new(),
            prefix: World::settings().prefix,
        };
        let compared = here(&world).compare(&request, &mut |_| {}).expect("compared");
        assert_eq!(compared.slots[0].dirty, 1);
        let said = &compared.faults[0].message;
        assert!(said.contains("fix: the submodule lib has changes of its own"), "{said}");
        tree.write("one.txt", "one\n");
        let taken =
            take(&world.fleet, &TakeOrder { with_uncommitted: true, ..World::take_order(&tree) });
        let taken = taken.expect("the rest is taken");
        assert_eq!((taken.files, taken.dirty_submodules), (1, vec!["lib".to_owned()]));
    });
}

#[test]
fn a_commit_of_a_submodule_in_a_submodule_that_only_the_worktree_has_is_not_taken() {
    sandboxed(|| {
        let world = World::new(false);
        let inner = Repository::new(&world.path.join("inner"));
        let lib = Repository::new(&world.path.join("lib"));
        lib.add_submodule(&inner, "deep/inner");
        world.shop.add_submodule(&lib, "libs/lib");
        world.shop.git(["submodule", "--quiet", "update", "--init", "--recursive"]);
        let tree = world.made("fix");
        let own = tree.at(&tree.path.join("libs/lib"));
        let own_inner = tree.at(&own.path.join("deep/inner"));
        own_inner.write("new.txt", "new\n");
        let commit = own_inner.commit("in the inner submodule");
        own.commit("bump");
        tree.commit("bump");
        let head = world.shop.git(["rev-parse", "main"]);
        for place in ["libs/lib", "libs/lib/deep/inner"] {
            let refused = take(&world.fleet, &World::take_order(&tree)).expect_err("refused");
            let TakeError::SubmoduleCommit { submodule, command, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!(submodule, place);
            assert_eq!(world.shop.git(["rev-parse", "main"]), head);
            let mut shell = std::process::Command::new("sh");
            assert!(shell.args(["-c", &command]).status().expect("sh").success(), "{command}");
        }
        let taken = take(&world.fleet, &World::take_order(&tree)).expect("taken");
        assert_eq!(taken.moved_submodules, ["libs/lib"]);
        world.shop.git(["submodule", "--quiet", "update", "--recursive"]);
        let inner = world.shop.at(&world.shop.path.join("libs/lib/deep/inner"));
        assert_eq!(inner.git(["rev-parse", "HEAD"]), commit);
    });
}

#[test]
fn files_in_the_folder_of_a_submodule_that_is_not_checked_out_are_named() {
    sandboxed(|| {
        for is_described in [true, false] {
            let world = World::new(true);
            let tree = world.made("g/fix");
            tree.git(["submodule", "--quiet", "deinit", "-f", "lib"]);
            if !is_described {
                tree.git(["rm", "--quiet", "-f", ".gitmodules"]);
                tree.git(["commit", "--quiet", "-m", "forgotten"]);
            }
            std::fs::create_dir_all(tree.path.join("lib/empty")).expect("made");
            assert_eq!(one_diff(&world, "g/fix").dirty_submodules, [""; 0]);
            assert_eq!(facts(&world, "agentctl/")[0].dirty, Some(0));
            tree.write("lib/src/feature.c", "int precious;\n");
            assert_eq!(one_diff(&world, "g/fix").dirty_submodules, ["lib"]);
            assert_eq!(facts(&world, "agentctl/")[0].dirty, Some(1));
            let (slot, faults) = compared(&world);
            assert_eq!(slot.dirty, 1);
            let said = "fix: the submodule lib has changes of its own, which are not compared";
            assert_eq!(faults, [said]);
            if !is_described {
                let taken = take(&world.fleet, &World::take_order(&tree)).expect("taken");
                assert_eq!(taken.dirty_submodules, ["lib"]);
            }
            for with_uncommitted in [false, true] {
                let order = TakeOrder { with_uncommitted, ..World::take_order(&tree) };
                let refused = take(&world.fleet, &order).expect_err("nothing else is there");
                assert!(matches!(refused, TakeError::DirtySubmodules { .. }), "{refused}");
            }
        }
    });
}
