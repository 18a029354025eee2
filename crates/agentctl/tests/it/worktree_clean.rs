//! `worktree clean`, `worktree take` and `compare` as a user runs them: words, exit codes and JSON.

use testkit::{Output, Repository, TestHome, sandboxed};

use crate::home;

/// Makes a repository with three worktrees: one without work, one with a commit, one with a changed file.
fn shop(home: &TestHome) -> Repository {
    let shop = Repository::new(&home.path().join("shop"));
    for name in ["g/none", "g/commit", "g/file"] {
        let path = home.path().join("shop.worktrees").join(name.replace('/', "-"));
        let branch = format!("agentctl/{name}");
        shop.git(["worktree", "add", "--quiet", "-b", &branch, path.to_str().expect("UTF-8")]);
        shop.git(["update-ref", &format!("refs/agentctl/base/{name}"), "HEAD"]);
    }
    let commit = shop.at(&home.path().join("shop.worktrees/g-commit"));
    commit.write("one.txt", "one\n");
    commit.commit("one");
    shop.at(&home.path().join("shop.worktrees/g-file")).write("README.md", "changed\n");
    shop
}

#[test]
fn clean_asks_for_what_was_not_named_and_says_why_it_keeps_the_rest() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let cwd = shop.path.to_str().expect("UTF-8");
        let refused = home.run(&["worktree", "clean", "--cwd", cwd]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stdout.contains("would remove ~/shop.worktrees/g-none"), "{refused:?}");
        assert!(refused.stderr.contains("-y"), "{refused:?}");
        assert!(home.path().join("shop.worktrees/g-none").exists());
        let cleaned = home.run(&["worktree", "clean", "--cwd", cwd, "-y"]);
        assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
        assert!(cleaned.stdout.contains("removed  ~/shop.worktrees/g-none"), "{cleaned:?}");
        assert!(cleaned.stdout.contains("1 commit is nowhere else"), "{cleaned:?}");
        assert!(!home.path().join("shop.worktrees/g-none").exists());
        let kept = home.run(&["worktree", "clean", "g/file", "--cwd", cwd, "--json"]);
        assert_eq!(kept.code, Some(5), "{kept:?}");
        assert_eq!(kept.json()["worktrees"][0]["action"], "kept");
        let forced = home.run(&["worktree", "clean", "g/file", "--force", "--cwd", cwd, "--json"]);
        assert_eq!(forced.code, Some(0), "{forced:?}");
        let rescue = &forced.json()["worktrees"][0]["rescue"];
        let reference = rescue["ref"].as_str().expect("a rescue ref").to_owned();
        assert_eq!(shop.git(["show", &format!("{reference}:README.md")]), "changed");
        assert_eq!(home.run(&["worktree", "clean", "nothing", "--cwd", cwd]).code, Some(4));
        assert_eq!(home.run(&["worktree", "clean", "--force", "--cwd", cwd]).code, Some(2));
    });
}

#[test]
fn take_merges_and_compare_shows_the_group() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let run = |args: &[&str]| -> Output {
            home.command(args).current_dir(&shop.path).output().into()
        };
        let compared = run(&["compare", "g", "--json", "--verify", "test -f one.txt"]);
        assert_eq!(compared.code, Some(0), "{compared:?}");
        let document = compared.json();
        let slots = document["slots"].as_array().expect("rows");
        let names: Vec<_> = slots.iter().map(|row| row["slot"].as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let slot = |name: &str| slots.iter().find(|row| row["slot"] == name).expect("a row");
        assert_eq!(slot("commit")["commits"], 1);
        assert_eq!(slot("commit")["verify"]["exit"], 0);
        assert_eq!(
            (&slot("none")["verify"]["exit"], &slot("file")["dirty"]),
            (&1.into(), &1.into())
        );
        assert_eq!(slot("file")["merges"]["clean"], true);
        for command in ["diff", "compare"] {
            let unknown = run(&[command, "no-such-group"]);
            assert_eq!(unknown.code, Some(4), "{unknown:?}");
            let said = "error: no session, group or worktree matches `no-such-group`\nhint: ";
            assert!(unknown.stderr.starts_with(said), "{unknown:?}");
        }
        let taken = run(&["worktree", "take", "g/commit"]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        assert!(taken.stdout.starts_with("merged agentctl/g/commit into main as "), "{taken:?}");
        assert!(shop.path.join("one.txt").exists());
        assert_eq!(run(&["worktree", "take", "g/file"]).code, Some(5));
        assert_eq!(run(&["worktree", "take", "nothing-of-that-name"]).code, Some(4));
        let cleaned = run(&["worktree", "clean", "--group", "g"]);
        assert!(cleaned.stdout.contains("removed  ~/shop.worktrees/g-commit"), "{cleaned:?}");
    });
}

#[test]
fn refusals_name_the_worktrees_of_a_group_and_the_next_step() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let run = |args: &[&str]| -> Output {
            home.command(args).current_dir(&shop.path).output().into()
        };
        let group = run(&["worktree", "take", "g"]);
        assert_eq!(group.code, Some(4), "{group:?}");
        assert!(group.stderr.contains("`g` is a group"), "{group:?}");
        for name in ["g/none", "g/commit", "g/file"] {
            assert!(group.stderr.contains(name), "{group:?}");
        }
        let listed = run(&["worktree", "list", "--format", "{name} {merged}"]);
        let mut lines: Vec<&str> =
            listed.stdout.lines().filter(|line| line.starts_with("g/")).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["g/commit no", "g/file ", "g/none "], "{listed:?}");
        let squashed = run(&["worktree", "take", "g/file", "--squash"]);
        assert_eq!(squashed.code, Some(5), "{squashed:?}");
        assert!(squashed.stderr.contains("--with-uncommitted"), "{squashed:?}");
        let kept = run(&["worktree", "clean", "g/file"]);
        assert_eq!(kept.code, Some(5), "{kept:?}");
        assert!(kept.stderr.contains("agentctl worktree take NAME"), "{kept:?}");
        let taken = run(&["worktree", "take", "g/file", "--squash", "--with-uncommitted"]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
    });
}
