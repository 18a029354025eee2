//! Work in submodules: `take`, `diff` and `compare` never pass over it in silence.

use std::sync::Arc;

use agentctl_core::ask::{CompareRequest, DiffDocument, DiffRequest, Fleet};
use agentctl_core::worktrees::take::{TakeError, TakeOrder, take};
use testkit::sandboxed;

use super::{World, host};

/// Returns a fleet that asks from the main tree.
pub(crate) fn here(world: &World) -> Fleet {
    let mut here = host(&world.path);
    here.cwd.clone_from(&world.shop.path);
    Fleet::new(Arc::new(here), &[])
}

fn diff(world: &World, of: &str) -> DiffDocument {
    let prefix = World::settings().prefix;
    let request = DiffRequest { of: of.into(), base: None, patch: false, prefix };
    here(world).diff(&request).expect("compared")
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
