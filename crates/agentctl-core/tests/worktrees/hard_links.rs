//! Files of a new worktree that have several hard links, as tools with a common store make them.

use std::process::Command;

use agentctl_core::worktrees::make::Undone;
use agentctl_core::worktrees::{Made, MakeOrder, make};

use super::World;

fn with_setup(world: &World, script: &str) -> MakeOrder {
    let mut order = world.order();
    order.settings.setup = ["sh", "-ec", script].map(str::to_owned).to_vec();
    order
}

fn run(made: &Made, script: &str) {
    let status = Command::new("sh").args(["-ec", script]).current_dir(&made.path).status();
    assert!(status.expect("started").success(), "{script}");
}

/// A link that is made or removed elsewhere changes the time of a file's last change.
#[test]
fn files_that_worktrees_share_by_hard_links_keep_none_of_them() {
    testkit::sandboxed(|| {
        let world = World::new();
        let store = world.path.join("store");
        std::fs::write(&store, "shared\n").expect("written");
        let order = with_setup(&world, "ln \"$AGENTCTL_MAIN/../store\" shared; ln shared twin");
        let made = |name: &str| world.make(&order, &[name]).expect("made").remove(0);
        let undo = |made: &Made| make::undo(&world.host, made).expect("looked at");
        let (first, second, written) = (made("first"), made("second"), made("written"));
        assert_eq!(undo(&first), Undone::Removed);
        run(&written, "rm shared; cp ../../store shared");
        assert!(matches!(undo(&written), Undone::Kept(_)), "a file was replaced");
        assert_eq!(undo(&second), Undone::Removed);
        let edited = made("edited");
        run(&edited, "echo edited > shared");
        assert!(matches!(undo(&edited), Undone::Kept(_)), "a file was written");
    });
}

#[test]
fn an_edit_of_files_that_are_linked_only_inside_keeps_a_worktree() {
    testkit::sandboxed(|| {
        let world = World::new();
        let order = with_setup(&world, "echo one > one; ln one two");
        let made = world.make(&order, &["x"]).expect("made").remove(0);
        run(&made, "touch -r one time; echo two > one; touch -r time one; rm time");
        let undone = make::undo(&world.host, &made).expect("looked at");
        assert!(matches!(undone, Undone::Kept(_)), "{undone:?}");
    });
}
