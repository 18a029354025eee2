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
fn clean_sweeps_what_is_elsewhere_and_says_why_it_keeps_the_rest() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let cwd = shop.path.to_str().expect("UTF-8");
        // Only what could lose something needs a confirmation off a terminal.
        let refused = home.run(&["worktree", "clean", "--ignored", "--cwd", cwd]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stdout.contains("would remove ~/shop.worktrees/g-none"), "{refused:?}");
        assert!(refused.stdout.contains("kept         ~/shop.worktrees/g-file"), "{refused:?}");
        assert!(refused.stderr.contains("-y"), "{refused:?}");
        assert!(home.path().join("shop.worktrees/g-none").exists());
        let cleaned = home.run(&["worktree", "clean", "--cwd", cwd]);
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
        let json = run(&["worktree", "list", "--json"]).json();
        let rows = json["worktrees"].as_array().expect("rows");
        let none = rows.iter().find(|row| row["name"] == "g/none").expect("a row");
        assert_eq!(none["merged"], serde_json::Value::Null);
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
        assert!(kept.stderr.contains("--force"), "{kept:?}");
        shop.git(["worktree", "lock", "../shop.worktrees/g-file"]);
        let locked = run(&["worktree", "clean", "g/file"]);
        assert!(!locked.stderr.contains("--force"), "a lock stays: {locked:?}");
        shop.git(["worktree", "unlock", "../shop.worktrees/g-file"]);
        let taken = run(&["worktree", "take", "g/file", "--squash", "--with-uncommitted"]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
    });
}

#[test]
fn a_group_means_the_same_to_every_command() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let run = |args: &[&str]| -> Output {
            home.command(args).current_dir(&shop.path).output().into()
        };
        let group = ["--group", "release 1"];
        let launch = ["launch", "demo", "-p", "hi", "--worktree", "--wait"];
        let launched = run(&[&launch[..], &group].concat());
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let id = launched.stdout.lines().next().expect("an id").to_owned();
        let tree = shop.at(&home.path().join("shop.worktrees/release-1-demo"));
        tree.write("new.txt", "work\n");

        let taken = run(&["worktree", "take", "release 1"]);
        assert_eq!(taken.code, Some(4), "{taken:?}");
        assert!(taken.stderr.contains("`release 1` is a group: release-1/demo\n"), "{taken:?}");
        let compared = run(&["compare", "release 1", "--json"]);
        assert_eq!(compared.json()["slots"][0]["slot"], "demo", "{compared:?}");
        for name in ["release 1", "release-1/demo", "refs/heads/agentctl/release-1/demo"] {
            let diff = run(&["diff", name, "--json"]);
            assert_eq!(diff.json()["diffs"][0]["session"], id.as_str(), "{name}: {diff:?}");
        }
        let hinted = run(&["logs", "release-1/demo"]);
        assert_eq!(hinted.code, Some(4), "{hinted:?}");
        let hint = format!("hint: `release-1/demo` is a worktree; its session is {id}\n");
        assert!(hinted.stderr.ends_with(&hint), "{hinted:?}");
        for here in [&["diff"][..], &["diff", "."]] {
            let nothing = run(here);
            let said = "error: there is no session in this directory\n";
            assert!(nothing.code == Some(4) && nothing.stderr.starts_with(said), "{nothing:?}");
        }
        let unknown = run(&["worktree", "clean", "--group", "nosuch"]);
        assert_eq!(unknown.code, Some(4), "{unknown:?}");
        assert!(unknown.stderr.contains("hint: groups: release 1, release-1\n"), "{unknown:?}");
    });
}

#[test]
fn a_worktree_that_was_brought_back_has_its_session_again() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let run = |args: &[&str]| -> Output {
            home.command(args).current_dir(&shop.path).output().into()
        };
        let group = ["--group", "login"];
        let launch = ["launch", "demo", "-p", "hi", "--worktree", "--wait"];
        let launched = run(&[&launch[..], &group].concat());
        let id = launched.stdout.lines().next().expect("an id").to_owned();
        let tree = shop.at(&home.path().join("shop.worktrees/login-demo"));
        let clean = || {
            tree.write("new.txt", "work\n");
            run(&["worktree", "clean", "login/demo", "--force"])
        };
        let removed = clean();
        assert_eq!(removed.code, Some(0), "{removed:?}");
        let command = removed.stdout.lines().find_map(|line| line.trim().strip_prefix("git "));
        let gone = run(&["compare", "login"]);
        assert_eq!(gone.code, Some(4), "{gone:?}");
        let said = "error: the directories of the group `login` do not exist any more\n";
        assert!(gone.stderr.starts_with(said), "{gone:?}");
        assert!(gone.stderr.contains("refs/agentctl/rescued/"), "{gone:?}");
        // The session is older than the directory that it worked in.
        let later = std::time::SystemTime::now() + std::time::Duration::from_hours(1);
        shop.git(shlex::split(command.expect("a command")).expect("words"));
        let file = std::fs::File::options().append(true).open(tree.path.join(".git"));
        file.and_then(|file| file.set_modified(later)).expect("younger");
        let listed = run(&["worktree", "list", "--json"]);
        assert_eq!(listed.json()["worktrees"][0]["session"], id.as_str(), "{listed:?}");
    });
}
