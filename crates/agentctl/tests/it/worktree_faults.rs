//! `worktree clean` and `worktree take` while something goes wrong: killed processes, sessions at work, a terminal.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use testkit::{Output, PseudoTerminal, Repository, TestHome, eventually, sandboxed};

use crate::home;
use crate::launch_group::{launch, shop, slots};
use crate::launched::{until_said, until_stopped};

/// Adds a worktree as a launch leaves it, with a file that is not committed.
pub(crate) fn add(shop: &Repository, name: &str) -> Repository {
    let path = shop.path.with_file_name("shop.worktrees").join(name);
    let branch = format!("agentctl/{name}");
    shop.git(["worktree", "add", "--quiet", "-b", &branch, path.to_str().expect("UTF-8")]);
    shop.git(["update-ref", &format!("refs/agentctl/base/{name}"), "HEAD"]);
    let tree = shop.at(&path);
    tree.write("work.txt", format!("work of {name}\n"));
    tree
}

pub(crate) fn in_shop(home: &TestHome, args: &[&str]) -> Output {
    home.command(args).current_dir(home.path().join("shop")).output().into()
}

/// Puts a git before the real one that kills a process at a command: `victim` is `$$` or `$PPID`.
pub(crate) fn deadly_git(home: &TestHome, command: &str, victim: &str, is_done: bool) {
    let run = if is_done { "/usr/bin/git \"$@\"; " } else { "" };
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'{command}'*) {run}kill -9 {victim}; exit 1;; esac\n\
         exec /usr/bin/git \"$@\"\n"
    );
    let path = home.write("bin/git", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("executable");
}

/// Says whether the work of a worktree is in a file of it or below a rescue ref.
fn has_work(shop: &Repository, tree: &Path, name: &str) -> bool {
    let work = format!("work of {name}");
    let refs = shop.git(["for-each-ref", "--format=%(refname)", "refs/agentctl/rescued"]);
    let is_rescued = |name: &str| shop.git(["show", &format!("{name}:work.txt")]) == work;
    let folders = [tree.to_owned(), tree.with_file_name(format!(".{name}.agentctl-removing"))];
    folders.iter().any(|folder| folder.join("work.txt").exists()) || refs.lines().any(is_rescued)
}

#[test]
fn a_clean_that_is_killed_loses_nothing_and_the_next_one_finishes() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let mut number = 0;
        for victim in ["$$", "$PPID"] {
            for (command, is_done) in [
                ("commit-tree", false),
                ("update-ref refs/agentctl/rescued", true),
                ("worktree remove", false),
                ("worktree remove", true),
                ("update-ref --no-deref -d refs/heads", false),
                ("update-ref --no-deref -d refs/heads", true),
            ] {
                number += 1;
                let name = format!("n{number:02}");
                let told = format!("{victim} {command} {is_done}");
                let tree = add(&shop, &name);
                deadly_git(&home, command, victim, is_done);
                let killed = in_shop(&home, &["worktree", "clean", &name, "--force"]);
                assert!(victim == "$$" || killed.code.is_none(), "{told}: {killed:?}");
                assert!(has_work(&shop, &tree.path, &name), "{told}: {killed:?}");
                std::fs::remove_file(home.path().join("bin/git")).expect("removed");
                let again = in_shop(&home, &["worktree", "clean", &name, "--force"]);
                assert!(matches!(again.code, Some(0 | 4)), "{told}: {again:?}");
                let swept = in_shop(&home, &["worktree", "clean", "-y"]);
                assert_eq!(swept.code, Some(0), "{told}: {swept:?}");
                assert!(has_work(&shop, &tree.path, &name), "{told}: {again:?}");
                let of_it = format!("refs/agentctl/rescued/*-{name}*");
                let refs = shop.git(["for-each-ref", "--format=%(refname)", &of_it]);
                assert!((1..=2).contains(&refs.lines().count()), "{told}: {refs}");
                assert!(!home.path().join("shop.worktrees").exists(), "{told}: {again:?}");
                let branches = shop.git(["branch", "--list", "agentctl/*"]);
                assert_eq!(branches, "", "{told}");
            }
        }
    });
}

#[test]
fn old_rescue_refs_are_deleted_only_by_their_own_option() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = shop.git(["rev-parse", "HEAD^{tree}"]);
        let rescued = |name: &str, date: &str| {
            let mut command = shop.command(["commit-tree", &tree, "-m", name]);
            let made = command.env("GIT_COMMITTER_DATE", date).output().expect("git runs");
            let commit = String::from_utf8_lossy(&made.stdout).trim().to_owned();
            shop.git(["update-ref", &format!("refs/agentctl/rescued/{name}"), &commit]);
            commit
        };
        let old = rescued("20200101T000000Z-old", "2020-01-01T00:00:00Z");
        add(&shop, "new");
        assert_eq!(in_shop(&home, &["worktree", "clean", "new", "--force"]).code, Some(0));
        assert_eq!(in_shop(&home, &["worktree", "clean", "-y"]).code, Some(0));
        let refs = || shop.git(["for-each-ref", "--format=%(refname)", "refs/agentctl/rescued"]);
        assert_eq!(refs().lines().count(), 2, "{}", refs());
        let rescued = ["worktree", "clean", "--rescued"];
        let refused = in_shop(&home, &rescued);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stdout.starts_with("would delete refs/agentctl/rescued/2020"));
        assert!(refused.stderr.contains("1 rescue ref needs a confirmation"), "{refused:?}");
        let tried = in_shop(&home, &[&rescued[..], &["--dry-run"]].concat());
        assert_eq!((tried.code, refs().lines().count()), (Some(0), 2), "{tried:?}");
        let deleted = in_shop(&home, &[&rescued[..], &["-y", "--json"]].concat());
        assert_eq!(deleted.code, Some(0), "{deleted:?}");
        let row = &deleted.json()["rescued"][0];
        assert_eq!((&row["commit"], &row["deleted"]), (&Value::from(old), &Value::from(true)));
        assert_eq!(deleted.json()["rescued"].as_array().map(Vec::len), Some(1));
        assert_eq!(refs().lines().count(), 1, "{}", refs());
        let none = in_shop(&home, &rescued);
        assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
        let both = in_shop(&home, &["worktree", "clean", "new", "--rescued"]);
        assert_eq!(both.code, Some(2), "{both:?}");
    });
}

#[test]
fn on_a_terminal_clean_asks_and_any_answer_but_yes_removes_nothing() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        std::fs::remove_file(tree.path.join("work.txt")).expect("removed");
        for (key, is_there) in [("\n", true), ("n\n", true), ("y\n", false)] {
            let mut command = home.command(&["worktree", "clean"]);
            command.current_dir(&shop.path);
            let mut terminal = PseudoTerminal::start(&mut command, 100, 30);
            eventually("the question", || {
                terminal.output().contains("remove 1 worktree? [y/N]").then_some(())
            });
            terminal.press(key);
            let said = terminal.ended();
            assert_eq!(tree.path.exists(), is_there, "{key:?}: {said}");
        }
    });
}

#[test]
fn take_into_a_working_tree_with_a_live_session_is_refused() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        tree.commit("work");
        let live = launch(&home, &["demo", "-p", "x [[say:here]] [[hang]]", "--json"]);
        let id = live.json()["id"].as_str().expect("a session").to_owned();
        until_said(&home, &id, "here");
        let head = shop.git(["rev-parse", "HEAD"]);
        let refused = in_shop(&home, &["worktree", "take", "fix"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 2, "{refused:?}");
        assert_eq!(shop.git(["rev-parse", "HEAD"]), head);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        until_stopped(&home, &id);
        let taken = in_shop(&home, &["worktree", "take", "fix"]);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        assert!(shop.path.join("work.txt").exists());
    });
}

#[test]
fn compare_shows_what_real_sessions_wrote_and_the_tokens_of_status() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let prompt = "x [[write:one.txt|one]] [[write:README.md|changed]] [[say:done]]";
        let args = ["demo", "-p", prompt, "--times", "2", "--group", "g", "--json"];
        let launched = launch(&home, &args);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let mut expected = Vec::new();
        for slot in slots(&launched) {
            let id = slot["session"].as_str().expect("a session").to_owned();
            until_stopped(&home, &id);
            expected.push((id.clone(), home.run(&["status", &id, "--json"]).json()));
        }
        let verify = "grep -q one one.txt";
        let compared = in_shop(&home, &["compare", "g", "--json", "--verify", verify]);
        assert_eq!(compared.code, Some(0), "{compared:?}");
        let document = compared.json();
        let rows = document["slots"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "{document:#}");
        for (id, status) in expected {
            let row = rows.iter().find(|row| row["session"] == id.as_str()).expect("a row");
            let session = &status;
            assert!(session["tokens"].is_object(), "{status:#}");
            assert_eq!(row["tokens"], session["tokens"]);
            assert_eq!((&row["files"], &row["dirty"]), (&2.into(), &2.into()), "{row:#}");
            assert_eq!(
                (&row["commits"], &row["verify"]["exit"]),
                (&0.into(), &0.into()),
                "{row:#}"
            );
            assert_eq!(
                (&row["status"], &row["outcome"]),
                (&session["status"], &session["outcome"])
            );
        }
        assert!(!repository.path.join("one.txt").exists());
    });
}

#[test]
fn a_question_that_is_killed_leaves_no_git_and_no_temporary_files() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        add(&shop, "fix");
        let fifo = shop.path.join(".git/info/exclude");
        let _old = std::fs::remove_file(&fifo);
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("run");
        assert!(made.success());
        let temporary = home.path().join("temporary");
        std::fs::create_dir_all(&temporary).expect("made");
        let diff = || {
            let mut command = home.command(&["diff", "fix"]);
            command.current_dir(&shop.path).env("TMPDIR", &temporary);
            command
        };
        let gits = || {
            let processes = std::fs::read_dir("/proc").expect("a list").flatten();
            let commands =
                processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
            let adds = |command: &Vec<u8>| command.windows(5).any(|word| word == b"\0add\0");
            commands.filter(adds).count()
        };
        let left = || std::fs::read_dir(&temporary).expect("a list").count();
        let mut asked = diff().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
        eventually("git reads the FIFO", || (left() > 0 && gits() == 1).then_some(()));
        asked.kill().and_then(|()| asked.wait()).expect("ended");
        eventually("git has ended", || (gits() == 0).then_some(()));
        std::fs::remove_file(&fifo).expect("removed");
        let again: Output = diff().output().into();
        assert_eq!((again.code, left()), (Some(0), 0), "{again:?}");
    });
}
