//! `worktree clean`, `worktree take` and `compare` as a user runs them: words, exit codes and JSON.

use testkit::{Output, Repository, TestHome, sandboxed};

use crate::home;
use crate::worktree_faults::{add, in_shop};

/// Makes a repository with three worktrees: one without work, one with a commit, one with a changed file.
pub(crate) fn shop(home: &TestHome) -> Repository {
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
        let failing = run(&["compare", "g", "--verify", "sh -c 'echo one; echo two; exit 4'"]);
        let said = "the verification of commit failed (exit code 4): one; two\n";
        assert!(failing.stderr.contains(said), "{failing:?}");
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
        assert_eq!(slot("none")["verify"]["output"], "no output");
        assert_eq!(slot("commit")["verify"]["output"], serde_json::Value::Null);
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

#[test]
fn each_refusal_of_take_has_its_code_and_changes_nothing() {
    sandboxed(|| {
        let home = home();
        let shop = crate::launch_group::shop(&home);
        let tree = add(&shop, "fix");
        let take = |args: &[&str], code: i32, words: &str| {
            let head = shop.git(["rev-parse", "main"]);
            let output = in_shop(&home, &[&["worktree", "take", "fix"], args].concat());
            assert_eq!(output.code, Some(code), "{words}: {output:?}");
            assert!(output.stderr.contains(words), "{words}: {output:?}");
            assert_eq!(output.stdout, "", "{words}");
            assert_eq!(shop.git(["rev-parse", "main"]), head, "{words}");
        };
        take(&[], 5, "1 file is not committed");
        take(&["--into", "none"], 4, "there is no branch `none`");
        take(&["--into", "agentctl/fix"], 5, "cannot be taken into itself");
        let all = ["--with-uncommitted"];
        let _inner = Repository::new(&tree.path.join("inner"));
        take(&all, 5, "inner is a repository of its own");
        std::fs::remove_dir_all(tree.path.join("inner")).expect("removed");
        shop.git(["config", "filter.broken.clean", "false"]);
        shop.git(["config", "filter.broken.required", "true"]);
        shop.write(".git/info/attributes", "work.txt filter=broken\n");
        take(&all, 1, "not all files of agentctl/fix can be read");
        std::fs::remove_file(shop.path.join(".git/info/attributes")).expect("removed");
        tree.commit("work");
        shop.write("work.txt", "mine\n");
        take(&[], 5, "work.txt is not tracked and in the way of the merge");
        std::fs::remove_file(shop.path.join("work.txt")).expect("removed");
        let hook = shop.write(".git/hooks/pre-merge-commit", "#!/bin/sh\necho no >&2\nexit 1\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&hook, mode).expect("executable");
        take(&[], 5, "a hook refused the merge: no; nothing was changed");
        std::fs::remove_file(hook).expect("removed");
        shop.git(["bisect", "start"]);
        take(&["--into", "main"], 5, "a bisection of main is in progress");
        shop.git(["bisect", "reset"]);
        let head = shop.git(["rev-parse", "main"]);
        for git_dir in [shop.path.join(".git"), shop.path.join(".git/worktrees/fix")] {
            std::fs::write(git_dir.join("MERGE_HEAD"), &head).expect("written");
            take(&[], 5, "a merge is in progress in ");
            std::fs::remove_file(git_dir.join("MERGE_HEAD")).expect("removed");
        }
        shop.git(["update-index", "--skip-worktree", "README.md"]);
        shop.write("README.md", "mine, and longer than before\n");
        take(&[], 5, "git is told not to see changes of README.md");
        shop.git(["update-index", "--no-skip-worktree", "README.md"]);
        shop.git(["checkout", "--quiet", "--", "README.md"]);
        let gone = shop.path.with_file_name("gone");
        shop.git(["worktree", "add", "--quiet", "-b", "feat", gone.to_str().expect("UTF-8")]);
        std::fs::remove_dir_all(gone).expect("removed");
        take(&["--into", "feat"], 5, "which does not exist");
        assert_eq!(in_shop(&home, &["worktree", "take", "fix"]).code, Some(0));
    });
}

#[test]
fn a_worktree_whose_directory_is_gone_is_named_with_the_place_of_its_commits() {
    sandboxed(|| {
        let home = home();
        let shop = crate::launch_group::shop(&home);
        let tree = add(&shop, "fix");
        tree.commit("work");
        std::fs::remove_dir_all(&tree.path).expect("removed");
        let taken = in_shop(&home, &["worktree", "take", "fix"]);
        assert_eq!(taken.code, Some(5), "{taken:?}");
        assert!(taken.stderr.contains("/shop.worktrees/fix does not exist any more"), "{taken:?}");
        assert!(taken.stderr.contains("`git merge agentctl/fix`"), "{taken:?}");
        let diff = in_shop(&home, &["diff", "fix"]);
        assert_eq!(diff.code, Some(4), "{diff:?}");
        assert!(diff.stderr.contains("`git log agentctl/fix`"), "{diff:?}");
        shop.git(["merge", "--quiet", "agentctl/fix"]);
        assert!(shop.path.join("work.txt").exists());
    });
}

/// git lists the git directory in place of the main working tree.
#[test]
fn work_is_taken_in_a_repository_whose_git_directory_lies_elsewhere() {
    sandboxed(|| {
        let home = home();
        let shop = crate::launch_group::shop(&home);
        let elsewhere = home.at("elsewhere.git");
        shop.git(["init", "--quiet", "--separate-git-dir", elsewhere.to_str().expect("UTF-8")]);
        let tree = add(&shop, "fix");
        tree.commit("work");
        let mut there = home.command(&["worktree", "take", tree.path.to_str().expect("UTF-8")]);
        let there: Output = there.current_dir(&tree.path).output().into();
        assert_eq!(there.code, Some(5), "{there:?}");
        assert!(there.stderr.contains("the working tree that has main checked out"), "{there:?}");
        let taken = in_shop(&home, &["worktree", "take", "fix"]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        assert!(shop.path.join("work.txt").exists());
        assert_eq!(shop.git(["status", "--short"]), "");
    });
}

#[test]
fn a_worktree_with_a_live_session_names_its_agent_once() {
    sandboxed(|| {
        let home = home();
        let shop = crate::launch_group::shop(&home);
        let launch = ["launch", "demo", "--worktree=fix", "-p", "x [[hang]]"];
        let launched = in_shop(&home, &launch);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let kept = in_shop(&home, &["worktree", "clean", "fix", "--json"]);
        let reasons = kept.json()["worktrees"][0]["reasons"].clone();
        let of_process = |reason: &serde_json::Value| {
            reason
                .as_str()
                .is_some_and(|reason| reason.contains("lives in it") || reason.contains("process"))
        };
        let of_process = reasons.as_array().expect("reasons").iter().filter(|one| of_process(one));
        assert_eq!(of_process.count(), 1, "{reasons}");
        assert!(shop.path.join("../shop.worktrees/fix").exists());
    });
}
