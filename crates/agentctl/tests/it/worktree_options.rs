//! Options of `launch --worktree` and `worktree clean`: `--fetch`, `--sparse`, `--keep-branch`; and the display of progress.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use testkit::{PseudoTerminal, Repository, TestHome, eventually, sandboxed};

use crate::home;
use crate::launch_group::{branches, launch, shop};
use crate::worktree_faults::{add, in_shop};

/// Launches the demo agent in a worktree and waits for its end.
fn launched(home: &TestHome, name: &str, options: &[&str]) -> Repository {
    let worktree = format!("--worktree={name}");
    let args = [&["demo", "-p", "hi", "--wait", worktree.as_str()], options].concat();
    let launched = launch(home, &args);
    assert_eq!(launched.code, Some(0), "{args:?}: {}", launched.stderr);
    Repository { path: home.at("shop.worktrees").join(name) }
}

fn set_up(home: &TestHome, script: &str) {
    let program = home.write("setup.sh", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("executable");
    let config = format!("[worktree]\nsetup = [{:?}]\n", program.display().to_string());
    home.write(".config/agentctl/config.toml", config);
}

#[test]
fn fetch_asks_the_remotes_before_the_base_is_resolved() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let remote = Repository::empty(&home.at("remote.git"), &["--bare"]);
        let url = remote.path.to_str().expect("UTF-8").to_owned();
        shop.git(["remote", "add", "origin", &url]);
        shop.git(["push", "--quiet", "origin", "main"]);
        let old = shop.git(["rev-parse", "HEAD"]);
        let new = shop.git(["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "of another"]);
        // By the address: the remote-tracking branch stays where it is.
        shop.git(["push", "--quiet", &url, &format!("{new}:refs/heads/main")]);
        let base = ["--base", "origin/main"];
        let tree = launched(&home, "before", &base);
        assert_eq!(shop.at(&tree.path).git(["rev-parse", "HEAD"]), old);
        let tree = launched(&home, "after", &[&base[..], &["--fetch"]].concat());
        assert_eq!(shop.at(&tree.path).git(["rev-parse", "HEAD"]), new);
        assert_eq!(shop.git(["rev-parse", "refs/agentctl/base/after"]), new);
        let fetched = branches(&shop);
        shop.git(["remote", "set-url", "origin", "/nowhere/at/all"]);
        let failed = launch(&home, &["demo", "-p", "hi", "--worktree=gone", "--fetch"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert!(failed.stderr.contains("`git fetch`"), "{failed:?}");
        assert_eq!(branches(&shop), fetched);
        assert!(!home.at("shop.worktrees/gone").exists());
    });
}

#[test]
fn keep_branch_leaves_the_branch_with_its_commits_and_still_asks_for_files() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        let clean = ["worktree", "clean", "fix", "--keep-branch", "--json"];
        let kept = in_shop(&home, &clean);
        assert_eq!(kept.code, Some(5), "{kept:?}");
        assert!(tree.path.join("work.txt").exists(), "{kept:?}");
        let commit = tree.commit("work");
        let without = in_shop(&home, &["worktree", "clean", "fix"]);
        assert_eq!(without.code, Some(5), "the commit is nowhere else: {without:?}");
        let removed = in_shop(&home, &clean);
        assert_eq!(removed.code, Some(0), "{removed:?}");
        let row = &removed.json()["worktrees"][0];
        let facts = (&row["action"], &row["branch_deleted"], &row["rescue"]);
        assert_eq!(facts, (&"removed".into(), &false.into(), &Value::Null), "{row:#}");
        assert!(!tree.path.exists());
        assert_eq!(shop.git(["rev-parse", "agentctl/fix"]), commit);
        // The branch without a worktree can be taken, and goes then.
        assert_eq!(in_shop(&home, &["worktree", "clean", "fix"]).code, Some(5));
        shop.git(["merge", "--quiet", "agentctl/fix"]);
        assert_eq!(in_shop(&home, &["worktree", "clean", "fix"]).code, Some(0));
        assert_eq!(shop.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    });
}

#[test]
fn a_terminal_shows_the_steps_while_worktrees_are_made() {
    sandboxed(|| {
        let home = home();
        shop(&home);
        let fifo = home.at("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("run").success());
        set_up(&home, &format!("read -r line < '{}'", fifo.display()));
        let mut command = home.command(&["launch", "demo", "-p", "x", "--worktree=one"]);
        command.current_dir(home.at("shop"));
        let terminal = PseudoTerminal::start(&mut command, 100, 30);
        let shows = |words: &str| terminal.output().contains(words).then_some(());
        eventually("files are checked out", || shows("one: checking out files"));
        eventually("the setup program runs", || shows("one: running the setup program"));
        assert!(!terminal.output().contains("worktree ~/shop.worktrees/one"), "it is not made yet");
        std::fs::write(&fifo, "go on\n").expect("written");
        let said = terminal.ended();
        assert!(said.contains("worktree ~/shop.worktrees/one on branch agentctl/one"), "{said}");
        // Each worktree of a group is named.
        set_up(&home, "true");
        let args = ["launch", "demo", "-p", "x", "--times", "2", "--group", "g"];
        let mut command = home.command(&args);
        command.current_dir(home.at("shop"));
        let said = PseudoTerminal::start(&mut command, 100, 30).ended();
        for name in ["g/demo", "g/demo-2"] {
            for step in ["checking out files", "running the setup program"] {
                assert!(said.contains(&format!("{name}: {step}")), "{name}: {said}");
            }
        }
        // Off a terminal there is no progress.
        let quiet = launch(&home, &["demo", "-p", "x", "--worktree=two"]);
        assert_eq!(quiet.code, Some(0), "{quiet:?}");
        assert!(!quiet.stderr.contains("checking out"), "{quiet:?}");
    });
}

#[test]
fn a_sparse_worktree_is_made_and_cleaned_and_its_work_outside_is_seen() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        shop.write("docs/page.txt", "page\n");
        shop.commit("docs");
        let sparse = ["--sparse", "src", "--force"];
        let clean = ["worktree", "clean", "one"];
        let tree = launched(&home, "one", &sparse);
        assert!(tree.path.join("src/lib.txt").exists() && !tree.path.join("docs").exists());
        assert_eq!(shop.at(&tree.path).git(["status", "--porcelain"]), "");
        assert_eq!(in_shop(&home, &clean).code, Some(0));
        assert!(!tree.path.exists());
        let tree = launched(&home, "one", &sparse);
        tree.write("docs/new.txt", "work\n");
        let kept = in_shop(&home, &clean);
        assert_eq!(kept.code, Some(5), "{kept:?}");
        assert!(kept.stdout.contains("1 file is not committed"), "{kept:?}");
        let forced = in_shop(&home, &[&clean[..], &["--force"]].concat());
        assert_eq!(forced.code, Some(0), "{forced:?}");
        let refs = shop.git(["for-each-ref", "--format=%(refname)", "refs/agentctl/rescued"]);
        assert_eq!(shop.git(["show", &format!("{refs}:docs/new.txt")]), "work");
        assert_eq!(shop.git(["show", &format!("{refs}:docs/page.txt")]), "page");
        shop.git(["update-ref", "-d", &refs]);
        // A launch that fails leaves nothing of it.
        set_up(&home, "exit 1");
        for name in ["two", "three"] {
            let worktree = format!("--worktree={name}");
            let args = [&["demo", "-p", "hi", worktree.as_str()], &sparse[..]].concat();
            assert_eq!(launch(&home, &args).code, Some(1));
            assert_eq!(shop.git(["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
        }
    });
}

#[test]
fn a_failed_setup_of_one_slot_leaves_nothing_of_a_group_that_shares_files() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let (store, linked) = (home.write("store", "shared\n"), home.at("linked"));
        // The second slot links the file when the first one is complete, or nearly.
        set_up(
            &home,
            &format!(
                "ln '{0}' shared; echo > '{1}'\"$AGENTCTL_SLOT\"\n\
                 test $AGENTCTL_SLOT = 0 || {{ until test -e '{1}0'; do :; done; exit 1; }}",
                store.display(),
                linked.display()
            ),
        );
        let failed = launch(&home, &["demo", "-p", "x", "--times", "2"]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        assert!(!failed.stderr.contains("is kept"), "{failed:?}");
        let refs = repository.git(["for-each-ref", "--format=%(refname)", "refs/heads"]);
        assert_eq!(refs, "refs/heads/main", "{failed:?}");
        assert!(!home.at("shop.worktrees").exists(), "{failed:?}");
    });
}
