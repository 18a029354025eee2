//! `launch --worktree`, `worktree list` and `diff`, with the real git and the demo agent.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;
use testkit::{Output, Repository, TestHome, sandboxed};

use crate::home;

/// Runs a command in the repository.
fn run(home: &TestHome, repository: &Repository, args: &[&str]) -> Output {
    home.command(args).current_dir(&repository.path).output().into()
}

/// Launches the demo agent in a worktree of this name and waits for the end of its turn.
fn launched(home: &TestHome, shop: &Repository, name: &str) -> (String, PathBuf) {
    let worktree = format!("--worktree={name}");
    let output = run(home, shop, &["launch", "demo", "-p", "hi", &worktree, "--wait"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let id = output.stdout.lines().next().expect("an id").to_owned();
    (id, home.path().join("shop.worktrees").join(name.replace('/', "-")))
}

fn worktrees(home: &TestHome, shop: &Repository) -> Vec<Value> {
    let output = run(home, shop, &["worktree", "list", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.json()["worktrees"].as_array().expect("a list").clone()
}

#[test]
fn an_agent_works_in_its_worktree_and_the_main_tree_stays_free() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        shop.write("README.md", "not committed\n");
        let below = Repository { path: shop.path.join("src") };
        let output = run(&home, &below, &["launch", "demo", "-p", "hi", "--worktree", "--json"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stderr.contains("1 changed file stays behind"), "{}", output.stderr);
        let session = output.json();
        let rows = worktrees(&home, &shop);
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        assert_eq!(row["session"], session["id"]);
        assert_eq!(row["state"], "ok");
        let path = row["path"].as_str().expect("a path");
        assert_eq!(session["cwd"], format!("{path}/src"));
        let name = row["name"].as_str().expect("a name");
        assert!(name.starts_with("g-") && name.ends_with("/demo"), "{name}");
        let wait = run(&home, &shop, &["wait", session["id"].as_str().expect("an id")]);
        assert_eq!(wait.code, Some(0), "{}", wait.stderr);
    });
}

#[test]
fn a_patch_has_every_change_and_git_apply_accepts_it() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let (id, path) = launched(&home, &shop, "fix");
        let tree = shop.at(&path);
        tree.write("committed.txt", "committed\n");
        tree.commit("one");
        tree.write("README.md", "edited\n");
        tree.write("new dir/ünï \"q\".txt", "untracked\n");
        tree.write("latin1.txt", b"caf\xe9\n");
        tree.write("binary", b"\0\x01\x02");
        tree.write("noise.log", "ignored\n");
        std::fs::rename(path.join("src/lib.txt"), path.join("src/moved.txt")).expect("moved");
        std::os::unix::fs::symlink("README.md", path.join("link")).expect("linked");
        // A hostile setting of the display must not change the patch.
        shop.git(["config", "diff.noprefix", "true"]);
        shop.git(["config", "color.ui", "always"]);
        let before = shop.git_files();
        let patch = home.command(&["diff", &id, "--patch"]).output().expect("runs");
        assert_eq!(patch.status.code(), Some(0), "{patch:?}");
        assert_eq!(shop.git_files(), before, "the repository was changed");
        let file = home.path().join("a.patch");
        std::fs::write(&file, &patch.stdout).expect("written");
        let clean = home.path().join("clean");
        let (clean_text, base) = (clean.to_str().expect("UTF-8"), "refs/agentctl/base/fix");
        shop.git(["worktree", "add", "--quiet", "--detach", clean_text, base]);
        let clean = shop.at(&clean);
        clean.git(["apply", "--index", file.to_str().expect("UTF-8")]);
        let applied = clean.git(["write-tree"]);
        tree.git(["add", "--all"]);
        assert_eq!(applied, tree.git(["write-tree"]));
        let document = run(&home, &shop, &["diff", "fix", "--json"]).json();
        let diff = &document["diffs"][0];
        assert_eq!((&diff["session"], &diff["base_from"]), (&id.into(), &"worktree_ref".into()));
        assert_eq!(diff["commits"], 1);
        let moved = diff["files"].as_array().expect("files").iter();
        let moved: Vec<_> = moved.filter(|file| file["kind"] == "moved").collect();
        assert_eq!(moved[0]["moved_from"], "src/lib.txt", "{document}");
    });
}

#[test]
fn without_our_own_directories_every_answer_is_the_same() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let (id, path) = launched(&home, &shop, "g-1/demo");
        shop.at(&path).write("new.txt", "x\n");
        let commands: [&[&str]; 4] = [
            &["worktree", "list", "--json"],
            &["diff", "g-1/demo", "--json"],
            &["diff", "g-1", "--patch"],
            &["diff", &id, "--json"],
        ];
        let answers = || commands.map(|args| run(&home, &shop, args).stdout);
        let before = answers();
        for folder in [".local/state/agentctl", ".config/agentctl", ".cache/agentctl"] {
            let _missing = std::fs::remove_dir_all(home.path().join(folder));
        }
        assert_eq!(answers(), before);
        assert!(before[2].contains("+x"), "{}", before[2]);
    });
}

#[test]
fn a_session_without_a_worktree_is_compared_with_head_at_its_start() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let launch = || {
            let output = run(&home, &shop, &["launch", "demo", "-p", "hi", "--wait"]);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            output.stdout.lines().next().expect("an id").to_owned()
        };
        let first = launch();
        let base = shop.git(["rev-parse", "HEAD"]);
        // The reflog counts in seconds.
        let later = shop.command(["commit", "--quiet", "--allow-empty", "-m", "later"]);
        let mut later = later;
        later.env("GIT_COMMITTER_DATE", "2040-01-01T00:00:00Z");
        assert!(later.status().expect("git runs").success());
        let document = run(&home, &shop, &["diff", &first, "--json"]).json();
        let diff = &document["diffs"][0];
        assert_eq!((&diff["base"], &diff["base_from"]), (&base.into(), &"reflog".into()));
        assert_eq!((&diff["commits"], &diff["shared_with"]), (&1.into(), &Value::Array(vec![])));
        let second = launch();
        let output = run(&home, &shop, &["diff", &first]);
        assert!(output.stderr.contains("is shared"), "{}", output.stderr);
        assert!(output.stderr.contains(&second), "{}", output.stderr);
    });
}

#[test]
fn bad_orders_are_one_sentence_with_the_right_code_and_leave_nothing() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let none = Repository { path: home.path() };
        launched(&home, &shop, "taken");
        let before = shop.git(["for-each-ref"]);
        let launch = ["launch", "demo", "-p", "hi"];
        for (at, more, code) in [
            (&shop, &["--worktree=taken"][..], 5),
            (&shop, &["--worktree=a..b"], 2),
            (&shop, &["--worktree=-x"], 2),
            (&shop, &["--worktree=@"], 2),
            (&shop, &["--worktree", "--base", "nosuch"], 2),
            (&shop, &["--base", "main"], 2),
            (&shop, &["--worktree", "--sparse", "src"], 5),
            (&shop, &["--worktree", "--worktree-dir", "inside"], 5),
            (&none, &["--worktree"], 5),
        ] {
            let output = run(&home, at, &[&launch[..], more].concat());
            assert_eq!(output.code, Some(code), "{more:?}: {}", output.stderr);
            assert_eq!(output.stderr.matches("error: ").count(), 1, "{}", output.stderr);
            assert!(output.stderr.contains("hint: "), "{}", output.stderr);
        }
        // An agent that does not start: its worktree was made and is gone again.
        let output = run(&home, &shop, &["launch", "codex", "-p", "hi", "--worktree=x"]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert_eq!(shop.git(["for-each-ref"]), before);
        assert!(!home.path().join("shop.worktrees/x").exists());
        let output = run(&home, &none, &["worktree", "list"]);
        assert_eq!(output.code, Some(5), "{}", output.stderr);
        assert_eq!(run(&home, &shop, &["diff", "nosuch"]).code, Some(4));
        assert_eq!(run(&home, &shop, &["diff", "taken", "--base", "nosuch"]).code, Some(2));
    });
}

/// Puts a `git` in front of the real one that counts its calls and kills its caller at the given one, before
/// or after the real git has run.
fn killing_git(home: &TestHome, at: usize, moment: &str) {
    let script = format!(
        "#!/bin/sh\n\
         n=$(cat \"$HOME/calls\" 2>/dev/null || echo 0); n=$((n+1)); echo $n > \"$HOME/calls\"\n\
         if [ $n = {at} ] && [ {moment} = before ]; then kill -9 $PPID; exit 1; fi\n\
         /usr/bin/git \"$@\"; code=$?\n\
         if [ $n = {at} ] && [ {moment} = after ]; then kill -9 $PPID; fi\n\
         exit $code\n"
    );
    let _new = std::fs::remove_file(home.path().join("calls"));
    let path = home.write("bin/git", script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn a_launcher_killed_at_any_step_leaves_what_the_list_tells_and_no_damage() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        shop.write("README.md", "not committed\n");
        let main = || (shop.git(["rev-parse", "HEAD"]), shop.git(["status", "--porcelain"]));
        let before = main();
        let (mut killed, mut half_made) = (0, 0);
        'moments: for moment in ["before", "after"] {
            for step in 1.. {
                killing_git(&home, step, moment);
                let (name, worktree) =
                    (format!("{moment}-{step}"), format!("--worktree={moment}-{step}"));
                let output =
                    run(&home, &shop, &["launch", "demo", "-p", "hi", &worktree, "--wait"]);
                std::fs::remove_file(home.path().join("bin/git")).expect("removed");
                let rows = worktrees(&home, &shop);
                let row = rows.iter().find(|row| row["name"] == name.as_str());
                if output.code.is_some() {
                    assert_eq!(output.code, Some(0), "{}", output.stderr);
                    assert_eq!(row.map(|row| &row["state"]), Some(&"ok".into()));
                    continue 'moments;
                }
                killed += 1;
                let state = row.map(|row| row["state"].as_str().unwrap_or_default().to_owned());
                let locked = row.is_some_and(|row| row["locked"].is_string());
                assert_eq!(locked, state.as_deref() == Some("half-made"), "{row:?}");
                half_made += usize::from(locked);
                assert_eq!(main(), before, "step {step}");
            }
        }
        assert!(killed > 10 && half_made >= 2, "{killed} killed, {half_made} half-made");
    });
}
