//! Worktrees whose setup did not finish: nothing of others is lost with them.

use std::os::unix::fs::symlink;
use std::process::Command;

use agentctl_core::worktrees::make::Remains;
use agentctl_core::worktrees::{MakeError, MakeOrder};
use testkit::{eventually, sandboxed};

use super::World;
use super::submodules::nested;

/// The identity of commits that a setup program makes.
const GIT: &str = "git -c user.name=ada -c user.email=ada@example.org";

fn with_setup(world: &World, script: &str) -> MakeOrder {
    let mut order = world.order();
    order.settings.setup = ["sh", "-ec", script].map(str::to_owned).to_vec();
    order
}

/// Runs a setup program that fails. Returns what is left of the worktree.
fn remains(world: &World, script: &str) -> Remains {
    let order = with_setup(world, &format!("{script}\nexit 1"));
    match world.make(&order, &["x"]).expect_err("the setup fails") {
        MakeError::Left { remains, cause } => {
            assert!(cause.to_string().contains("failed: exit code 1: "), "{cause}");
            *remains
        }
        error => panic!("nothing is left: {error}"),
    }
}

fn why_kept(world: &World, script: &str) -> String {
    let remains = remains(world, script);
    assert!(remains.left.is_empty() && remains.saved.is_empty(), "{remains}");
    let kept = &remains.kept[0];
    assert!(kept.path.join("README.md").exists(), "{remains}");
    world.shop.git(["rev-parse", "--verify", "agentctl/x"]);
    kept.why.clone()
}

#[test]
fn a_mount_that_a_failed_setup_left_keeps_the_worktree() {
    sandboxed(|| {
        let world = World::new();
        let precious = world.path.join("precious");
        std::fs::create_dir(&precious).expect("made");
        std::fs::write(precious.join("doc.txt"), "irreplaceable\n").expect("written");
        let mount = format!("mkdir data; mount --bind '{}' data", precious.display());
        let why = why_kept(&world, &mount);
        let said =
            "not everything in it can be looked at: data: another file system is mounted there";
        assert_eq!(why, said);
        assert!(precious.join("doc.txt").exists(), "a mount was entered");
        let data = world.path.join("shop.worktrees/x/data");
        assert!(Command::new("umount").arg(data).status().expect("run").success());
    });
}

#[test]
fn commits_and_stashes_in_a_submodule_keep_the_worktree_of_a_failed_setup() {
    testkit::sandboxed(|| {
        let cases = [
            ("commit -qam w", "1 commit is nowhere else"),
            ("stash -q", "2 commits are nowhere else"),
            (
                "checkout -qb side; GIT commit -qam w; git checkout -q HEAD~",
                "1 commit is nowhere else",
            ),
        ];
        for (commands, reason) in cases {
            let world = World::new();
            nested(&world);
            let commands = commands.replace("GIT", GIT);
            let script = format!("cd deps/outer; echo P >> README.md; {GIT} {commands}");
            let why = why_kept(&world, &script);
            assert!(why.starts_with("repository deps/outer: ") && why.contains(reason), "{why}");
        }
    });
}

#[test]
fn commits_of_a_failed_setup_are_saved_also_if_only_a_reflog_names_them() {
    testkit::sandboxed(|| {
        let commit = format!("{GIT} commit -q --allow-empty -m precious");
        for script in [
            commit.clone(),
            format!("{commit}; git reset -q --hard HEAD~"),
            format!("git checkout -q --detach; {commit}; git checkout -q agentctl/x"),
        ] {
            let world = World::new();
            let before = world.shop.git(["for-each-ref"]);
            let remains = remains(&world, &script);
            let [saved] = &remains.saved[..] else { panic!("{script}: {remains}") };
            assert!(remains.left.is_empty() && remains.kept.is_empty(), "{script}: {remains}");
            let subjects = world.shop.git(["log", "--format=%s", &saved.reference]);
            assert!(subjects.lines().any(|line| line == "precious"), "{script}: {subjects}");
            world.shop.git(["update-ref", "-d", &saved.reference]);
            assert_eq!(world.shop.git(["for-each-ref"]), before);
            assert!(!world.path.join("shop.worktrees").exists());
        }
    });
}

/// The changes that a launch takes along are still in the working tree that they came from.
#[test]
fn the_commit_with_changes_that_were_taken_along_is_not_saved() {
    testkit::sandboxed(|| {
        let world = World::new();
        world.shop.write("new.txt", "new\n");
        let before = world.shop.git(["for-each-ref"]);
        let mut order = with_setup(&world, "exit 1");
        order.options.with_changes = true;
        let error = world.make(&order, &["x"]).expect_err("the setup fails");
        assert!(matches!(error, MakeError::SetUp { .. }), "{error}");
        assert_eq!(world.shop.git(["for-each-ref"]), before);
    });
}

#[test]
fn a_process_that_a_failed_setup_left_keeps_the_worktree() {
    sandboxed(|| {
        let world = World::new();
        let why = why_kept(&world, "setsid sleep 600 > /dev/null 2>&1 &");
        assert!(why.starts_with("a process works in it (pid "), "{why}");
    });
}

/// The processes below a setup program that was ended may need a moment to end.
#[test]
fn a_process_that_leaves_soon_does_not_keep_the_worktree() {
    sandboxed(|| {
        let world = World::new();
        let (told, fifo) = (world.path.join("told"), world.path.join("fifo"));
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("run").success());
        // The FIFO has a reader as long as the process is there.
        let script = format!(
            "setsid sh -c 'echo > {}; read line < {}' > /dev/null 2>&1 &\nexit 1",
            told.display(),
            fifo.display()
        );
        let order = with_setup(&world, &script);
        std::thread::scope(|scope| {
            let ends = scope.spawn(|| {
                eventually("it runs", || told.exists().then_some(()));
                std::fs::write(&fifo, "end\n").expect("written");
            });
            let error = world.make(&order, &["x"]).expect_err("the setup fails");
            assert!(matches!(error, MakeError::SetUp { .. }), "{error}");
            ends.join().expect("no panic");
        });
    });
}

#[test]
fn a_file_that_is_written_while_a_worktree_is_saved_keeps_it() {
    testkit::sandboxed(|| {
        let world = World::new();
        // git runs the filter when the files are saved, in the directory that they are in then.
        world.shop.write(".git/info/attributes", "README.md filter=late\n");
        world.shop.git(["config", "filter.late.clean", "echo late > late.log; cat"]);
        let remains = remains(&world, "echo work > work.txt");
        let [kept] = &remains.kept[..] else { panic!("{remains}") };
        assert!(kept.why.starts_with("files in it were changed or added while"), "{remains}");
        assert!(kept.path.join("late.log").exists() && kept.path.join("work.txt").exists());
    });
}

#[test]
fn a_link_is_removed_and_not_its_target() {
    testkit::sandboxed(|| {
        let world = World::new();
        let outside = world.path.join("outside");
        std::fs::create_dir(&outside).expect("made");
        std::fs::write(outside.join("doc.txt"), "irreplaceable\n").expect("written");
        symlink(&outside, world.path.join("link")).expect("linked");
        let order =
            with_setup(&world, "mkdir node_modules; ln -s ../../../link node_modules/x; exit 1");
        world.shop.write(".git/info/exclude", "node_modules\n");
        let error = world.make(&order, &["x"]).expect_err("the setup fails");
        assert!(matches!(error, MakeError::SetUp { .. }), "{error}");
        assert!(outside.join("doc.txt").exists());
    });
}
