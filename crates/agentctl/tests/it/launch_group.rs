//! Launches of several agents: a worktree for each, all worktrees first, and a group that every command knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use testkit::{Output, Repository, TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{runs, script, status, until_said, until_stopped};

/// Makes a repository below the home.
pub(crate) fn shop(home: &TestHome) -> Repository {
    Repository::new(&home.at("shop"))
}

/// Runs a launch in the repository.
pub(crate) fn launch(home: &TestHome, args: &[&str]) -> Output {
    let mut command = home.command(&[&["launch"], args].concat());
    command.current_dir(home.path().join("shop")).output().into()
}

/// Returns the slots of a launch with `--json`.
pub(crate) fn slots(output: &Output) -> Vec<Value> {
    output.json()["slots"].as_array().expect("slots").clone()
}

fn session(slot: &Value) -> String {
    slot["session"].as_str().expect("a session").to_owned()
}

fn worktree(slot: &Value) -> PathBuf {
    PathBuf::from(slot["worktree"].as_str().expect("a worktree"))
}

/// Returns our branches.
pub(crate) fn branches(repository: &Repository) -> Vec<String> {
    let listed =
        repository.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/agentctl"]);
    listed.lines().map(str::to_owned).collect()
}

/// Asserts that no worktree, branch, base ref or run is there.
pub(crate) fn assert_untouched(home: &TestHome, repository: &Repository, why: &str) {
    let refs = repository.git(["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main", "{why}");
    assert!(!home.path().join("shop.worktrees").exists(), "{why}");
    assert_eq!(repository.git(["worktree", "list"]).lines().count(), 1, "{why}");
    assert!(runs(home).is_empty(), "{why}");
}

#[test]
fn each_agent_has_a_worktree_of_its_own() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let prompt = "x [[tool:pwd > where]] [[say:done]]";
        let args = ["--adapter", "demo", "--adapter", "demo", "--model", "v/big", "-p", prompt];
        let launched = launch(&home, &[&args[..], &["--group", "morning", "--json"]].concat());
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert_eq!(launched.json()["group"], "morning");
        let slots = slots(&launched);
        let expected = ["agentctl/morning/demo", "agentctl/morning/demo-big"];
        assert_eq!(branches(&repository), expected);
        let said = format!("morning/demo-big: demo {}", session(&slots[1]));
        assert!(launched.stderr.contains(&said), "{}", launched.stderr);
        let group = home.run(&["changes", "morning"]);
        assert_eq!(group.code, Some(4), "{}", group.stderr);
        assert!(group.stderr.contains("`morning` is a group"), "{}", group.stderr);
        for (number, slot) in slots.iter().enumerate() {
            assert_eq!(slot["slot"], number);
            assert_eq!((&slot["adapter"], &slot["error"]), (&"demo".into(), &Value::Null));
            assert_eq!(slot["branch"], expected[number]);
            let path = worktree(slot);
            let row = until_stopped(&home, &session(slot));
            assert_eq!(row["group"], "morning");
            assert_eq!(row["cwd"], path.to_string_lossy().as_ref());
            let said = fs::read_to_string(path.join("where")).expect("the agent wrote it");
            assert_eq!(said.trim(), path.to_string_lossy());
        }
        assert_eq!(slots[1]["model"], "v/big");
        assert!(!repository.path.join("where").exists(), "the main tree is left alone");
        let plain = ["demo", "-p", "y [[say:done]]", "--times", "3"];
        let three = launch(&home, &plain);
        assert_eq!(three.code, Some(0), "{}", three.stderr);
        let ids: BTreeSet<&str> = three.stdout.lines().collect();
        assert_eq!(ids.len(), 3, "ids, one a line: {}", three.stdout);
        assert!(ids.iter().all(|id| !id.contains(char::is_whitespace)), "{}", three.stdout);
        let group = status(&home, three.stdout.lines().next().expect("an id"))["group"].clone();
        let group = group.as_str().expect("a group").to_owned();
        assert!(group.starts_with("g-") && group.len() == 8, "{group}");
        for name in ["demo", "demo-2", "demo-3"] {
            assert!(branches(&repository).contains(&format!("agentctl/{group}/{name}")), "{name}");
        }
        assert!(
            three.stderr.contains(&format!("group {group}: 3 of 3 started")),
            "{}",
            three.stderr
        );
    });
}

#[test]
fn one_time_makes_a_worktree_too_and_hints_quote_the_group() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let args = ["demo", "-p", "x [[write:where|here]] [[say:done]]", "--times", "1"];
        let launched = launch(&home, &[&args[..], &["--group", "release 1"]].concat());
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        until_stopped(&home, launched.stdout.trim());
        assert_eq!(branches(&repository).len(), 1, "{}", launched.stderr);
        assert!(!repository.path.join("where").exists(), "the main tree is left alone");
        let hint = "`agentctl wait --group 'release 1'`, then `agentctl compare 'release 1'`";
        assert!(launched.stderr.contains(hint), "{}", launched.stderr);
    });
}

#[test]
fn options_for_one_agent_are_refused_with_one_time_too_and_nothing_says_several() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        for option in ["--name=painter", "--worktree=painter", "--follow"] {
            for dry in [&[][..], &["--dry-run"]] {
                let args = [&["demo", "-p", "x [[say:hi]]", "--times", "1", option], dry].concat();
                let refused = launch(&home, &args);
                assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.stderr);
                let said = "is for one agent, and --times, --matrix or a second --adapter launches a group";
                assert!(refused.stderr.contains(said), "{args:?}: {}", refused.stderr);
                assert_untouched(&home, &repository, option);
            }
        }
    });
}

#[test]
fn the_hints_for_a_group_that_begins_with_a_dash_can_be_run() {
    sandboxed(|| {
        let home = home();
        let _repository = shop(&home);
        let args = ["demo", "-p", "x [[say:done]]", "--times", "1", "--group=-x"];
        let launched = launch(&home, &args);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let hint = "`agentctl wait --group=-x`, then `agentctl compare -- -x`";
        assert!(launched.stderr.contains(hint), "{}", launched.stderr);
        let shop = home.path().join("shop");
        for words in [&["wait", "--group=-x"][..], &["compare", "--", "-x"]] {
            let run: Output = home.command(words).current_dir(&shop).output().into();
            assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
        }
    });
}

#[test]
fn an_entry_that_another_git_is_writing_is_waited_for() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        // While git adds a worktree, this file of its entry is empty for a moment.
        let entry = repository.path.join(".git/worktrees/half");
        fs::create_dir_all(&entry).expect("made");
        fs::write(entry.join("commondir"), "").expect("written");
        fs::write(entry.join("gitdir"), "/nowhere/.git\n").expect("written");
        script(&home, "git", "echo \"$@\" >> $HOME/git.log; exec /usr/bin/git \"$@\"");
        let args = ["launch", "demo", "-p", "x [[say:hi]]", "--times", "16", "--cwd", "shop"];
        let mut command = home.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("started");
        eventually("git is asked again, or the launch has ended", || {
            let log = fs::read_to_string(home.path().join("git.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let again = lines.windows(2).any(|two| two[0] == two[1] && two[0].contains("worktree"));
            (again || child.try_wait().expect("waited").is_some()).then_some(())
        });
        fs::remove_dir_all(&entry).expect("removed");
        let launched: Output = child.wait_with_output().into();
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert_eq!(branches(&repository).len(), 16);
    });
}

#[test]
fn a_slot_that_fails_is_its_own_error_and_loses_an_empty_worktree() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let none = launch(&home, &["--adapter", "codex", "--adapter", "pi", "-p", "x"]);
        assert_eq!((none.code, none.stdout.as_str()), (Some(1), ""), "{}", none.stderr);
        assert!(none.stderr.contains("slot 1 (pi)"), "{}", none.stderr);
        assert_untouched(&home, &repository, "no slot was launched");
        script(&home, "pi", "echo work > left-behind; echo broken >&2; exit 3");
        let args =
            ["--adapter", "codex", "--adapter", "demo", "--adapter", "pi", "-p", "x [[hang]]"];
        let some = launch(&home, &[&args[..], &["--json", "--group", "g"]].concat());
        assert_eq!(some.code, Some(3), "{}", some.stderr);
        let [codex, demo, pi] = &slots(&some)[..] else { panic!("{}", some.stdout) };
        for field in ["session", "branch", "worktree"] {
            assert_eq!(codex[field], Value::Null, "{field}");
        }
        assert!(codex["error"].as_str().is_some_and(|text| text.contains("codex")), "{codex}");
        assert_eq!(demo["error"], Value::Null);
        assert_eq!(status(&home, &session(demo))["status"], "running");
        assert_eq!(pi["session"], Value::Null);
        let left = fs::read_to_string(worktree(pi).join("left-behind")).expect("it is kept");
        assert_eq!(left, "work\n");
        assert_eq!(branches(&repository), ["agentctl/g/demo", "agentctl/g/pi"]);
        let said = "its worktree ~/shop.worktrees/g-pi is kept: files in it were changed or added";
        assert!(some.stderr.contains(said), "{}", some.stderr);
        let clean = ["worktree", "clean", "g/pi", "--force"];
        let hint = format!("hint: `agentctl {}` saves and removes it", clean.join(" "));
        assert!(some.stderr.contains(&hint), "{}", some.stderr);
        let mut command = home.command(&clean);
        let cleaned: Output = command.current_dir(&repository.path).output().into();
        assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
        assert!(!worktree(pi).exists(), "{cleaned:?}");
    });
}

#[test]
fn what_cannot_be_launched_is_refused_before_anything_is_made() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let two = ["--adapter", "demo", "--adapter", "demo"];
        let table: &[(&[&str], i32, &str)] = &[
            (
                &["--adapter", "nonsense", "-p", "x"],
                2,
                "slot 2: there is no adapter named `nonsense`",
            ),
            (&["-p", " "], 2, "the prompt is empty"),
            (&[], 2, "no prompt is given"),
            (&["-p", "x", "--times", "9"], 2, "18 slots; at most 16 are allowed"),
            (&["-p", "x", "--times", "33", "--max", "64"], 2, "66 slots; at most 64"),
            (&["-p", "x", "--max", "65"], 2, "the limit of slots is 65"),
            (&["-p", "x", "--times", "0"], 2, "0 times"),
            (&["-p", "x", "--times", "many"], 2, "`many`"),
            (&["-p", "x", "--name", "painter"], 2, "--name is for one agent"),
            (&["-p", "x", "--worktree=painter"], 2, "--worktree=NAME is for one agent"),
            (&["-p", "x", "--follow"], 2, "--follow is for one agent"),
            (&["-p", "x", "--model", "a", "--model", "b"], 2, "more than once for the slot `demo`"),
            (&["-p", "x", "--group", "***"], 2, "the group `***` cannot be part of a branch name"),
            (&["-p", "x", "--group", " a"], 2, "begins or ends with a space"),
            (&["-p", "x", "--file", "gone"], 2, "gone cannot be used as context"),
            (
                &["-p", "x", "--on-create", "no-such-program"],
                1,
                "`no-such-program` is not a program",
            ),
            (&["-p", "x", "--base", "no-such-branch"], 2, "names no commit"),
            (&["-p", "x", "--cwd", "gone"], 1, "gone is not a directory"),
            (&["-p", "x", "--cwd", ".."], 5, "is not in a git repository"),
            (&["-p", "x", "--adapter", "openclaw"], 2, "slot 2: openclaw runs on a server"),
        ];
        for (args, code, expected) in table {
            for dry in [&[][..], &["--dry-run"]] {
                let refused = launch(&home, &[&two[..], args, dry].concat());
                assert_eq!(refused.code, Some(*code), "{args:?} {dry:?}: {}", refused.stderr);
                assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
                let hinted = refused.stderr.contains("hint: ") || expected.contains("space");
                assert!(hinted, "{args:?}: {}", refused.stderr);
                assert_untouched(&home, &repository, &format!("{args:?}"));
            }
        }
        let taken = ["-p", "x [[say:hi]]", "--group", "g"];
        assert_eq!(launch(&home, &[&two[..], &taken].concat()).code, Some(0));
        let again = launch(&home, &[&two[..], &taken].concat());
        assert_eq!(again.code, Some(5), "{}", again.stderr);
        assert!(again.stderr.contains("g/demo"), "{}", again.stderr);
        assert_eq!(branches(&repository).len(), 2);
    });
}

#[test]
fn the_branch_tells_the_group_when_our_files_are_gone() {
    sandboxed(|| {
        let home = home();
        let _repository = shop(&home);
        let args = ["demo", "-p", "x [[say:hi]] [[hang]]", "--times", "2", "--group", "morning"];
        let launched = launch(&home, &args);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let ids: Vec<&str> = launched.stdout.lines().collect();
        for id in &ids {
            until_said(&home, id, "hi");
        }
        let members = |args: &[&str]| -> BTreeSet<String> {
            let rows = home.run(&[args, &["--group", "morning", "--json"]].concat()).sessions();
            rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
        };
        let all: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(members(&["list"]), all);
        fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        assert_eq!(members(&["list"]), all, "after the wipe");
        assert_eq!(status(&home, ids[0])["group"], "morning");
        crate::assert_list_equals_status(&home);
        let logs = home.run(&["logs", "--group", "morning"]);
        assert_eq!(logs.stdout.matches("assistant").count(), 2, "{}", logs.stdout);
        let stopped = home.run(&["stop", "--group", "morning", "-y"]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert_eq!(members(&["list", "-a"]), all);
        assert_eq!(home.run(&["wait", "--group", "morning", "--for", "stopped"]).code, Some(0));
        let cleared = home.run(&["group", ids[0], "--clear"]);
        assert_eq!(cleared.code, Some(0), "{}", cleared.stderr);
        assert_eq!(members(&["list", "-a"]).len(), 1, "the person's word counts more");
    });
}

#[test]
fn a_worktree_is_a_directory_like_any_other() {
    sandboxed(|| {
        let home = home();
        let _repository = shop(&home);
        let begun =
            script(&home, "begun", "echo $AGENTCTL_BRANCH $AGENTCTL_GROUP >> $HOME/begun.log");
        let ended = script(&home, "ended", "echo $AGENTCTL_BRANCH $PWD >> $HOME/ended.log");
        let (begun, ended) = (begun.to_string_lossy(), ended.to_string_lossy());
        let hooks = ["--on-create", &begun, "--on-complete", &ended];
        let args = ["demo", "-p", "x [[ask:Go on?]]", "--times", "2", "--group", "g", "--json"];
        let launched = launch(&home, &[&args[..], &hooks[..]].concat());
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let slots = slots(&launched);
        let path = worktree(&slots[0]).to_string_lossy().into_owned();
        eventually("both ask", || {
            let asks = home.run(&["asks", "--group", "g", "--json"]).json();
            (asks["asks"].as_array().expect("asks").len() == 2).then_some(())
        });
        assert_eq!(home.run(&["wait", "--group", "g"]).code, Some(10), "they wait for a human");
        let occupied = home.run(&["launch", "demo", "-p", "y", "--cwd", &path]);
        assert_eq!(occupied.code, Some(5), "{}", occupied.stderr);
        let locks = home.run(&["locks", "--json"]).json();
        let held = |directory: &str| {
            locks["locks"].as_array().expect("locks").iter().any(|l| l["directory"] == directory)
        };
        assert!(held(&path) && !held(&home.path().join("shop").to_string_lossy()), "{locks}");
        assert_eq!(home.run(&["name", &session(&slots[0]), "painter"]).code, Some(0));
        assert_eq!(status(&home, "painter")["cwd"], path.as_str());
        let begun = fs::read_to_string(home.path().join("begun.log")).expect("the hook ran");
        let mut lines: Vec<&str> = begun.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["agentctl/g/demo g", "agentctl/g/demo-2 g"]);
        assert_eq!(home.run(&["stop", "--group", "g", "-y"]).code, Some(0));
        let ended = eventually("both hooks ran at the end", || {
            let text = fs::read_to_string(home.path().join("ended.log")).ok()?;
            (text.lines().count() == 2).then_some(text)
        });
        assert!(ended.contains(&format!("agentctl/g/demo {path}\n")), "{ended}");
    });
}

#[test]
fn a_dry_run_shows_the_exact_launch_and_makes_nothing() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let prompt = "the task [[say:done]]";
        let args = ["--adapter", "demo", "--model", "m1", "--permissions", "edits", "--adapter"];
        let more = ["demo", "-p", prompt, "--file", "README.md", "--group", "g"];
        let args = [&args[..], &more[..]].concat();
        let text = launch(&home, &[&args[..], &["--dry-run"]].concat());
        assert_eq!(text.code, Some(0), "{}", text.stderr);
        for expected in [
            "group     g\n",
            "slot 0: demo, model m1, permissions edits\n",
            "  branch    agentctl/g/demo-m1\n",
            "shop.worktrees/g-demo\n",
            "demo-agent",
            "prompt of slots 0, 1:\n## File: README.md\n\n```text\nfirst\n```\n\n## Task\n\nthe task",
        ] {
            assert!(text.stdout.contains(expected), "{expected:?} in {}", text.stdout);
        }
        let plan = launch(&home, &[&args[..], &["--dry-run", "--json"]].concat());
        let planned = slots(&plan);
        assert_untouched(&home, &repository, "a dry run");
        let launched = slots(&launch(&home, &[&args[..], &["--json", "--wait"]].concat()));
        for (planned, launched) in planned.iter().zip(&launched) {
            for field in ["branch", "worktree", "model", "adapter", "slot"] {
                assert_eq!(planned[field], launched[field], "{field}");
            }
            let run = launched["run"].as_str().expect("a run");
            let folder = home.path().join(".local/state/agentctl/runs").join(run);
            let prompt = fs::read_to_string(folder.join("prompt")).expect("the prompt");
            assert_eq!(planned["prompt"], prompt.as_str());
            assert_eq!(planned["argv"][1], "demo-agent");
        }
        let single = launch(&home, &["demo", "-p", "x", "--dry-run", "--json"]);
        assert_eq!(single.code, Some(0), "{}", single.stderr);
        let slot = slots(&single).remove(0);
        assert_eq!((&slot["branch"], &slot["prompt"]), (&Value::Null, &"x".into()));
        let named = launch(&home, &["demo", "-p", "x", "--worktree=fix", "--dry-run", "--json"]);
        assert_eq!(slots(&named)[0]["branch"], "agentctl/fix", "{}", named.stderr);
        let missing = launch(&home, &["codex", "-p", "x", "--dry-run"]);
        assert_eq!(missing.code, Some(1), "{}", missing.stdout);
        assert!(missing.stdout.contains("  error     "), "{}", missing.stdout);
    });
}
