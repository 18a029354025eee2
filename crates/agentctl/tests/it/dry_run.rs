//! `launch --dry-run` refuses what the launch refuses, with the same words and exit code, and makes nothing.

use testkit::{Repository, TestHome, sandboxed};

use crate::home;
use crate::launch_group::{launch, shop};

/// Everything that a launch could change: refs, worktrees, objects and the directories beside the repository.
fn everything(home: &TestHome, shop: &Repository) -> (String, String, String, Vec<String>) {
    let entries = std::fs::read_dir(home.at("shop.worktrees")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let list = shop.git(["worktree", "list", "--porcelain"]);
    (shop.git(["for-each-ref"]), list, shop.git(["count-objects"]), names)
}

/// Checks that a launch and its dry run are refused alike.
fn assert_refused(home: &TestHome, shop: &Repository, args: &[&str], code: i32) {
    let before = everything(home, shop);
    let args = [&["demo", "-p", "x"], args].concat();
    let dry = launch(home, &[&args[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, dry.stdout.as_str()), (Some(code), ""), "{args:?}: {}", dry.stderr);
    assert_eq!(everything(home, shop), before, "{args:?}");
    let launched = launch(home, &args);
    assert_eq!(launched.code, Some(code), "{args:?}: {}", launched.stderr);
    assert_eq!(dry.stderr, launched.stderr, "{args:?}");
}

#[test]
fn a_dry_run_refuses_what_the_launch_refuses() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let taken = home.at("shop.worktrees/taken");
        let taken = taken.to_str().expect("UTF-8");
        shop.git(["worktree", "add", "--quiet", "-b", "agentctl/taken", taken]);
        std::fs::create_dir_all(home.at("shop.worktrees/there")).expect("made");
        for branch in ["a/b", "g/demo-2"] {
            shop.git(["branch", &format!("agentctl/{branch}")]);
        }
        shop.git(["commit", "--quiet", "--allow-empty", "-m", "later"]);
        shop.write("new.txt", "x\n");
        let cases: [(&[&str], i32); 13] = [
            (&["--worktree=taken"], 5),
            (&["--worktree=there"], 5),
            (&["--worktree=a/b"], 5),
            (&["--worktree=a/b/c"], 5),
            (&["--worktree=a"], 5),
            (&["--times", "2", "--group", "g"], 5),
            (&["--worktree=x", "--worktree-dir", "inside"], 5),
            (&["--worktree=x", "--worktree-dir", "README.md"], 5),
            (&["--worktree=x", "--sparse", "src"], 5),
            (&["--worktree=x", "--sparse", "nosuch", "--force"], 2),
            (&["--worktree=a..b"], 2),
            (&["--worktree=x", "--with-changes", "--base", "HEAD~1"], 5),
            (&["--worktree=x", "--base", "nosuch"], 2),
        ];
        for (args, code) in cases {
            assert_refused(&home, &shop, args, code);
        }
        // A snapshot of the changes is tried, and leaves nothing.
        let before = everything(&home, &shop);
        let planned =
            launch(&home, &["demo", "-p", "x", "--worktree=x", "--with-changes", "--dry-run"]);
        assert_eq!(planned.code, Some(0), "{}", planned.stderr);
        assert_eq!(everything(&home, &shop), before);
        // A repository without a commit inside cannot be recorded.
        let _unborn = Repository::empty(&shop.path.join("inner"), &[]);
        shop.write("inner/work.txt", "work\n");
        assert_refused(&home, &shop, &["--worktree=x", "--with-changes"], 1);
    });
}

#[test]
fn a_dry_run_sees_a_branch_that_has_the_prefix_as_its_name() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        shop.git(["branch", "agentctl"]);
        assert_refused(&home, &shop, &["--worktree=x"], 5);
    });
}

#[test]
fn a_launch_that_is_refused_makes_no_worktree_and_runs_no_setup() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let ran = home.at("setup-ran");
        let setup = format!("[worktree]\nsetup = [\"touch\", {:?}]\n", ran.display().to_string());
        home.write(".config/agentctl/config.toml", &setup);
        let named =
            launch(&home, &["demo", "-p", "x [[hang]]", "--name", "taken", "--worktree=first"]);
        assert_eq!(named.code, Some(0), "{}", named.stderr);
        std::fs::remove_file(&ran).expect("setup runs for a launch that is not refused");
        let cases: [(&[&str], i32); 5] = [
            (&["--worktree=x", "--permissions", "bypass", "--ask"], 5),
            (&["--worktree=x", "--name", "taken"], 5),
            (&["--worktree=x", "--model=-x"], 2),
            (&["--worktree=x", "--on-complete", "/no/such"], 1),
            (&["--times", "2", "--permissions", "bypass", "--ask"], 5),
        ];
        for (args, code) in cases {
            assert_refused(&home, &shop, args, code);
        }
        // One slot of two is refused: neither is launched.
        let slots = ["--permissions", "bypass", "--adapter", "demo", "--ask", "--group", "g"];
        let args = [&["--adapter", "demo"], &slots[..], &["-p", "x"]].concat();
        for more in [&[][..], &["--dry-run"]] {
            let refused = launch(&home, &[&args[..], more].concat());
            assert_eq!(
                (refused.code, refused.stdout.as_str()),
                (Some(5), ""),
                "{}",
                refused.stderr
            );
            assert!(refused.stderr.contains("slot 0"), "{}", refused.stderr);
        }
        assert_eq!(crate::launch_group::branches(&shop), ["agentctl/first"]);
        assert!(!ran.exists());
    });
}

#[test]
fn a_dry_run_sees_that_the_directory_is_occupied() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let first = launch(&home, &["demo", "-p", "x [[hang]]"]);
        assert_eq!(first.code, Some(0), "{}", first.stderr);
        assert_refused(&home, &shop, &[], 5);
        let forced = launch(&home, &["demo", "-p", "x", "--force", "--dry-run"]);
        assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    });
}
