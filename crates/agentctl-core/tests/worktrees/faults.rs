//! Full disks, directories that cannot be written, many launches at once, hostile repositories.

use std::path::Path;
use std::process::Command;

use agentctl_core::git::{Git, GitError};
use agentctl_core::kernel::REPOSITORY_VARIABLES;
use agentctl_core::worktrees::{MakeError, Sizes, WorktreeState, facts, make};
use testkit::another_user;

use super::{World, host, wanted};

#[test]
fn of_twenty_launches_with_one_name_exactly_one_succeeds() {
    testkit::sandboxed(|| {
        let world = World::new();
        let results: Vec<_> = std::thread::scope(|scope| {
            let launch = || make::all(&world.host, &world.order(), &wanted(&["one"]), &mut |_| {});
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(launch)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1, "{refused:?}");
        for error in refused.into_iter().filter_map(Result::err) {
            let known =
                matches!(error, MakeError::Taken { .. } | MakeError::DirectoryExists { .. });
            assert!(known, "{error}");
        }
        assert_eq!(world.shop.git(["worktree", "list"]).lines().count(), 2);
        assert_eq!(world.shop.git(["for-each-ref"]).lines().count(), 3);
        assert!(world.path.join("shop.worktrees/one/README.md").exists());
    });
}

#[test]
fn directories_that_cannot_hold_worktrees_are_refused_and_nothing_is_left() {
    testkit::sandboxed(|| {
        let world = World::new();
        let before = world.shop.git(["for-each-ref"]);
        let state = world.host.state().join("trees");
        let inside = world.shop.path.join("src/trees");
        let git_dir = world.shop.path.join(".git/trees");
        for (directory, words) in [
            (Path::new("/proc/agentctl-test"), "cannot be created"),
            (&inside, "inside the repository"),
            (&git_dir, "inside the repository"),
            (&state, "in our own state directory"),
            (&world.shop.path.join("README.md"), "not a directory"),
        ] {
            let mut order = world.order();
            order.options.directory = Some(directory.to_owned());
            let error = world.make(&order, &["x"]).expect_err("refused");
            assert!(error.to_string().contains(words), "{}: {error}", directory.display());
            assert_eq!(world.shop.git(["for-each-ref"]), before);
        }
    });
}

/// A small file system in memory, unmounted with the value.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(path: &Path, options: &str) -> Self {
        std::fs::create_dir_all(path).expect("made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path);
        assert!(
            mount.status().expect("mount runs").success(),
            "this test needs root: it mounts a disk"
        );
        Self(path.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root: it mounts a small file system"]
fn a_disk_that_becomes_full_leaves_nothing() {
    testkit::sandboxed(|| {
        let world = World::new();
        for number in 0..400 {
            world.shop.write(format!("many/{number}"), "x");
        }
        world.shop.commit("many small files");
        let before = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
        let disk = SmallDisk::mount(&world.path.join("disk"), "size=512k");
        let mut order = world.order();
        order.options.directory = Some(disk.0.join("trees"));
        let error = world.make(&order, &["a", "b"]).expect_err("full");
        assert!(matches!(error, MakeError::DiskFull), "{error}");
        let after = (world.shop.git(["for-each-ref"]), world.shop.git(["worktree", "list"]));
        assert_eq!(after, before);
        assert_eq!(std::fs::read_dir(&disk.0).expect("there").count(), 0);
        // A change that is known to be too large is refused before anything is written.
        world.shop.write("large", vec![b'x'; 1 << 20]);
        world.shop.commit("large");
        let error = world.make(&order, &["a"]).expect_err("too large");
        assert!(matches!(error, MakeError::NoSpace { .. }), "{error}");
        // The size is that of the commit, also if the file is small in the present working tree.
        world.shop.write("large", "");
        for hide in ["--no-skip-worktree", "--skip-worktree", "--assume-unchanged"] {
            world.shop.git(["update-index", hide, "large"]);
            let error = world.make(&order, &["a"]).expect_err("too large");
            assert!(matches!(error, MakeError::NoSpace { .. }), "{hide}: {error}");
            world.shop.git(["update-index", "--no-skip-worktree", "large"]);
        }
    });
}

/// Writes a program into the repository that leaves a file when it is run, and returns its path.
fn trap(world: &World, name: &str) -> (String, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let (program, sprung) = (world.path.join(name), world.path.join(format!("{name}.sprung")));
    let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", sprung.display());
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    (program.to_string_lossy().into_owned(), sprung)
}

#[test]
fn questions_run_no_program_of_the_repositorys_configuration() {
    testkit::sandboxed(|| {
        let world = World::new();
        let made = world.made("x");
        let shop = &world.shop;
        shop.write(".gitattributes", "*.txt diff=odd\n");
        shop.write("notes.txt", "one\n");
        shop.commit("attributes");
        let (program, sprung) = trap(&world, "trap");
        for key in [
            "core.fsmonitor",
            "core.pager",
            "core.askPass",
            "core.editor",
            "diff.external",
            "diff.odd.command",
            "diff.odd.textconv",
            "core.alternateRefsCommand",
            "gpg.program",
            "core.sshCommand",
        ] {
            shop.git(["config", key, &program]);
        }
        shop.git(["config", "log.showSignature", "true"]);
        let hooks = world.path.join("hooks");
        std::fs::create_dir_all(&hooks).expect("made");
        for hook in
            ["post-index-change", "post-checkout", "reference-transaction", "fsmonitor-watchman"]
        {
            std::fs::copy(&program, hooks.join(hook)).expect("copied");
        }
        shop.git(["config", "core.hooksPath", hooks.to_str().expect("UTF-8")]);
        let _own = std::fs::remove_file(&sprung);
        shop.write("notes.txt", "two\n");
        std::fs::write(made.path.join("new.txt"), "new\n").expect("written");
        let git = world.git();
        let repository = git.repository(&shop.path).expect("a repository");
        let facts =
            facts::of_all(&world.host, &git, &repository, "agentctl/", Sizes::Read).expect("facts");
        assert_eq!((facts.len(), facts[0].untracked), (1, Some(1)));
        let snapshot = git.snapshot(&shop.path).expect("a snapshot");
        let compared = git.compare(&shop.path, "HEAD", &snapshot, true).expect("compared");
        let patch = String::from_utf8_lossy(&compared.patch.expect("a patch")).into_owned();
        assert!(patch.contains("-one\n+two"), "{patch}");
        assert!(!sprung.exists(), "{}", std::fs::read_to_string(&sprung).unwrap_or_default());
    });
}

#[test]
#[ignore = "needs root: it makes a repository of another user"]
fn a_repository_of_another_user_is_one_sentence() {
    testkit::sandboxed(|| {
        let world = World::new();
        let other = another_user();
        for place in [&world.shop.path, &world.shop.path.join(".git")] {
            other.give(place);
        }
        let error =
            Git::find(&world.host).expect("git").repository(&world.shop.path).expect_err("refused");
        assert!(matches!(error, GitError::OtherOwner { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    });
}

#[test]
fn variables_of_git_in_the_environment_mean_no_other_repository() {
    testkit::sandboxed(|| {
        let world = World::new();
        let other = testkit::Repository::new(&world.path.join("other"));
        let mut odd = host(&world.path);
        let git_dir = other.path.join(".git").to_string_lossy().into_owned();
        for (name, value) in [
            ("GIT_DIR", git_dir.as_str()),
            ("GIT_WORK_TREE", "/"),
            ("GIT_INDEX_FILE", "/nonexistent"),
            ("GIT_OBJECT_DIRECTORY", "/nonexistent"),
            ("GIT_NAMESPACE", "x"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.bare"),
            ("GIT_CONFIG_VALUE_0", "true"),
            ("GIT_TRACE", "2"),
            ("LANG", "de_DE.UTF-8"),
        ] {
            odd.env.insert(name.to_owned(), value.to_owned());
        }
        let git = Git::find(&odd).expect("git");
        let repository = git.repository(&world.shop.path).expect("a repository");
        assert_eq!(repository.main, world.shop.path);
        assert_eq!(git.snapshot(&world.shop.path).expect("a snapshot").gaps, Vec::<String>::new());
    });
}

#[test]
fn the_variables_that_name_a_repository_are_those_of_git() {
    testkit::sandboxed(|| {
        let listed = World::new().shop.git(["rev-parse", "--local-env-vars"]);
        let is_unknown =
            |name: &&str| *name != "GIT_CONFIG_COUNT" && !REPOSITORY_VARIABLES.contains(name);
        let unknown: Vec<&str> = listed.lines().filter(is_unknown).collect();
        assert!(unknown.is_empty() && listed.contains("GIT_DIR"), "{unknown:?} of {listed}");
    });
}

#[test]
fn what_a_killed_launcher_left_is_half_made_and_a_lock_of_another_is_not() {
    testkit::sandboxed(|| {
        let world = World::new();
        let (dead, live, other) = (world.made("dead"), world.made("live"), world.made("other"));
        let reason = |pid: u32, ticks: u64| {
            let own = agentctl_core::worktrees::LockReason::of_this_process(&world.host, "id");
            let mut reason = own.expect("this process");
            (reason.pid, reason.start_ticks) =
                if pid == 0 { (reason.pid, reason.start_ticks) } else { (pid, ticks) };
            reason.to_string()
        };
        for (made, reason) in
            [(&dead, reason(1 << 21, 5)), (&live, reason(0, 0)), (&other, "usb disk".into())]
        {
            world.shop.git([
                "worktree".as_ref(),
                "lock".as_ref(),
                "--reason".as_ref(),
                reason.as_ref(),
                made.path.as_os_str(),
            ]);
        }
        let git = world.git();
        let repository = git.repository(&world.shop.path).expect("a repository");
        let gone = world.made("gone");
        std::fs::remove_dir_all(&gone.path).expect("removed");
        let foreign = world.path.join("foreign").to_string_lossy().into_owned();
        world.shop.git(["worktree", "add", "--quiet", "-b", "mine", &foreign]);
        world.shop.git(["update-ref", "refs/agentctl/base/only-refs", "HEAD"]);
        world.shop.git(["branch", "agentctl/only-refs"]);
        let facts =
            facts::of_all(&world.host, &git, &repository, "agentctl/", Sizes::Read).expect("facts");
        let state = |name: &str| {
            let branch = format!("refs/heads/{name}");
            let found = facts.iter().find(|facts| facts.branch.as_deref() == Some(&branch));
            found.unwrap_or_else(|| panic!("{name} is not listed")).state
        };
        assert_eq!(state("agentctl/dead"), WorktreeState::HalfMade);
        assert_eq!(state("agentctl/live"), WorktreeState::Ok);
        assert_eq!(state("agentctl/other"), WorktreeState::Ok);
        assert_eq!(state("agentctl/gone"), WorktreeState::Missing);
        assert_eq!(state("agentctl/only-refs"), WorktreeState::Missing);
        assert_eq!(state("mine"), WorktreeState::Foreign);
        assert_eq!(facts.len(), 6);
    });
}

#[test]
fn merged_commits_are_told_also_after_a_squash() {
    testkit::sandboxed(|| {
        let world = World::new();
        let shop = &world.shop;
        let git = world.git();
        let merged = |name: &str| {
            let repository = git.repository(&shop.path).expect("a repository");
            let all = facts::of_all(&world.host, &git, &repository, "agentctl/", Sizes::Read)
                .expect("facts");
            let found =
                all.into_iter().find(|facts| facts.name.as_deref() == Some(name)).expect("listed");
            (
                found.merged.map(agentctl_core::worktrees::Merged::word),
                found.unpushed.expect("known"),
            )
        };
        for name in ["merge", "squash", "open"] {
            let tree = shop.at(&world.made(name).path);
            assert_eq!(merged(name), (None, 0), "it has no commit of its own");
            tree.write(format!("{name}.txt"), "work\n");
            tree.commit(name);
            assert_eq!(merged(name), (Some("no"), 1));
        }
        shop.git(["merge", "--quiet", "--no-edit", "agentctl/merge"]);
        shop.git(["merge", "--quiet", "--squash", "agentctl/squash"]);
        shop.commit("squashed");
        assert_eq!(merged("merge").0, Some("yes"));
        assert_eq!(merged("squash").0, Some("by content"));
        assert_eq!(merged("open").0, Some("no"));
    });
}
