//! `launch --worktree`, `worktree list` and `diff`, with the real git and the demo agent.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

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
fn a_word_behind_worktree_is_the_prompt_and_that_is_said() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let output = run(&home, &shop, &["launch", "demo", "--worktree", "fix-login"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let said =
            "`fix-login` is the prompt; a name of the worktree is written --worktree=fix-login";
        assert!(output.stderr.contains(said), "{}", output.stderr);
        let output = run(&home, &shop, &["launch", "demo", "--worktree", "fix the login"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(!output.stderr.contains("is the prompt"), "{}", output.stderr);
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

/// Removes everything that agentctl itself has written, and its configuration.
fn wipe(home: &TestHome) {
    for folder in [".local/state/agentctl", ".config/agentctl", ".cache/agentctl"] {
        let _missing = std::fs::remove_dir_all(home.path().join(folder));
    }
}

/// A home with two worktrees of one group: a commit in the first one, a new file in the second. Returns the session of
/// the second one.
fn with_work(settings: &str) -> (TestHome, Repository, String) {
    let home = home();
    crate::configure(&home, &[], "");
    let file = home.at(".config/agentctl/config.toml");
    let text = std::fs::read_to_string(&file).expect("read");
    std::fs::write(&file, format!("{text}{settings}")).expect("written");
    let shop = Repository::new(&home.path().join("shop"));
    let (_, one) = launched(&home, &shop, "g-1/one");
    shop.at(&one).write("one.txt", "x\n");
    shop.at(&one).commit("one");
    let (id, two) = launched(&home, &shop, "g-1/two");
    shop.at(&two).write("new.txt", "x\n");
    (home, shop, id)
}

const PREFIXES: [&str; 2] = ["", "[worktree]\nprefix = \"me\"\n"];

#[test]
fn without_our_own_directories_every_answer_is_the_same() {
    sandboxed(|| {
        for settings in PREFIXES {
            let (home, shop, id) = with_work(settings);
            let commands: [&[&str]; 9] = [
                &["worktree", "list", "--json"],
                &["diff", "g-1/two", "--json"],
                &["diff", "g-1", "--patch"],
                &["diff", &id, "--json"],
                &["compare", "g-1", "--json"],
                &["worktree", "clean", "--dry-run", "--json"],
                &["worktree", "clean", "--dry-run", "--group", "g-1"],
                &["worktree", "clean", "--dry-run", "g-1/one"],
                &["worktree", "take", "g-1"],
            ];
            let answers = || {
                commands.map(|args| {
                    let Output { code, stdout, stderr } = run(&home, &shop, args);
                    (code, stdout, stderr)
                })
            };
            let before = answers();
            wipe(&home);
            for ((args, before), after) in commands.iter().zip(&before).zip(answers()) {
                assert_eq!(&after, before, "{settings:?} {args:?}");
            }
            assert!(before[2].1.contains("+x"), "{before:?}");
            let slots = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
            assert_eq!(slots(&before[4].1)["slots"][0]["slot"], "one", "{before:?}");
        }
    });
}

#[test]
fn without_our_own_directories_work_is_taken_and_cleaned_as_before() {
    sandboxed(|| {
        for settings in PREFIXES {
            let ends = [false, true].map(|is_wiped| {
                let (home, shop, _) = with_work(settings);
                if is_wiped {
                    wipe(&home);
                }
                let answer = |args: &[&str], key: &str, fields: &[&str]| {
                    let output = run(&home, &shop, &[&["worktree"], args].concat());
                    let document = output.json();
                    let rows = document[key]
                        .as_array()
                        .map_or_else(|| vec![document.clone()], Clone::clone);
                    let row = |row: &Value| {
                        fields.iter().map(|name| row[name].clone()).collect::<Vec<_>>()
                    };
                    (output.code, rows.iter().map(row).collect::<Vec<_>>())
                };
                let taken = ["branch", "into", "way", "commits", "files", "left_behind"];
                let cleaned = ["name", "branch", "action", "reasons", "branch_deleted"];
                let with_files = ["take", "g-1/two", "--with-uncommitted", "--json"];
                let answers = [
                    answer(&["take", "g-1/one", "--json"], "", &taken),
                    answer(&with_files, "", &taken),
                    answer(&["clean", "--json"], "worktrees", &cleaned),
                ];
                assert_eq!(answers.each_ref().map(|(code, _)| *code), [Some(0); 3], "{answers:?}");
                (answers, shop.git(["for-each-ref", "--format=%(refname)"]))
            });
            assert_eq!(ends[1], ends[0], "{settings:?}");
            assert_eq!(ends[0].1, "refs/heads/main", "{ends:?}");
        }
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

/// Agents make branches of their own. Such a worktree keeps its name, its group and its base.
#[test]
fn a_worktree_on_another_branch_keeps_its_name_and_its_base() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        shop.git(["switch", "--quiet", "-c", "dev"]);
        let args = ["launch", "demo", "--times", "2", "--group", "sw", "-p", "hi", "--wait"];
        let output = run(&home, &shop, &args);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        shop.git(["switch", "--quiet", "main"]);
        let base = shop.git(["rev-parse", "HEAD"]);
        let trees =
            ["sw-demo", "sw-demo-2"].map(|name| shop.at(&home.at("shop.worktrees").join(name)));
        for (tree, branch) in trees.iter().zip([None, Some("feature")]) {
            branch.map(|branch| tree.git(["switch", "--quiet", "-c", branch]));
            // Another content in each, so that the commits differ.
            tree.write("work.txt", format!("{branch:?}\n"));
            tree.commit("work");
        }
        let refs = shop.git(["for-each-ref", "--format=%(refname)"]);
        let rows = worktrees(&home, &shop);
        assert_eq!(rows.len(), 2, "{rows:?}");
        let facts = ["name", "branch", "state"].map(|key| rows[1][key].as_str().expect("known"));
        assert_eq!(facts, ["sw/demo-2", "feature", "ok"]);
        let compared = run(&home, &shop, &["compare", "sw", "--json"]).json();
        assert_eq!(compared["slots"][1]["slot"], "demo-2");
        assert_eq!(compared["slots"][1]["merges"]["into"], "dev");
        let diff = run(&home, &shop, &["diff", "sw/demo-2", "--json"]).json();
        let diff = &diff["diffs"][0];
        assert_eq!((&diff["base"], &diff["base_from"]), (&base.into(), &"worktree_ref".into()));
        for args in
            [&["worktree", "clean", "-y"][..], &["worktree", "clean", "--group", "sw", "-y"]]
        {
            let cleaned = run(&home, &shop, args);
            let said = "it is on the branch feature, which agentctl did not make";
            assert!(cleaned.stdout.contains(said), "{cleaned:?}");
            assert!(!cleaned.stdout.contains("removed"), "{cleaned:?}");
            assert_eq!(shop.git(["for-each-ref", "--format=%(refname)"]), refs);
        }
        let taken = run(&home, &shop, &["worktree", "take", "sw/demo-2"]);
        assert!(taken.stdout.starts_with("merged feature into dev"), "{taken:?}");
        // Everything is in dev now. The branch that the agent made stays also if its worktree is removed by name.
        let cleaned = run(&home, &shop, &["worktree", "clean", "sw/demo-2"]);
        assert!(cleaned.stdout.starts_with("removed"), "{cleaned:?}");
        shop.git(["rev-parse", "--verify", "refs/heads/feature"]);
        let cleaned = run(&home, &shop, &["worktree", "clean", "-y"]);
        assert!(cleaned.stdout.contains("removed  branch agentctl/sw/demo-2"), "{cleaned:?}");
    });
}

#[test]
fn every_form_that_shows_a_size_has_it_and_each_branch_has_its_own_base_branch() {
    sandboxed(|| {
        let home = home();
        let shop = crate::launch_group::shop(&home);
        shop.git(["branch", "release"]);
        for (name, base) in [("one", "main"), ("two", "release"), ("three", "release")] {
            let path = shop.path.with_file_name("shop.worktrees").join(name);
            let path = path.to_str().expect("UTF-8");
            shop.git(["worktree", "add", "-q", "-b", &format!("agentctl/{name}"), path, base]);
        }
        shop.at(&shop.path.with_file_name("shop.worktrees").join("one"))
            .write("large.bin", "x".repeat(100_000));
        std::fs::remove_file(shop.path.join(".git/logs/refs/heads/agentctl/three"))
            .expect("removed");
        let rows = worktrees(&home, &shop);
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
        assert!(row("one")["size"].as_u64().is_some_and(|size| size > 100_000), "{rows:?}");
        assert_eq!(row("one")["ignored_bytes"], 0);
        let bases = ["one", "two", "three"].map(|name| row(name)["base_branch"].clone());
        // Without a reflog it is the branch of the main working tree.
        assert_eq!(bases, ["main", "release", "main"]);
        let list = ["worktree", "list"];
        let with = |more: &[&str]| run(&home, &shop, &[&list[..], more].concat()).stdout;
        assert!(with(&["-o", "wide"]).contains("97 KB"), "{}", with(&["-o", "wide"]));
        assert!(with(&["-o", "jsonl"]).lines().all(|line| !line.contains("\"size\":null")));
        let sizes = with(&["--format", "{size} {ignored}"]);
        assert!(sizes.lines().all(|line| !line.contains('-')), "{sizes}");
        let sorted = with(&["--sort", "-size", "--format", "{name}"]);
        assert_eq!(sorted.lines().next(), Some("one"), "{sorted}");
        assert!(!with(&[]).contains("SIZE"));
    });
}

#[test]
fn a_worktree_of_a_person_gets_no_name_by_its_folder() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let (_, path) = launched(&home, &shop, "fix");
        let path = path.to_str().expect("UTF-8");
        shop.git(["worktree", "remove", "--force", path]);
        shop.git(["worktree", "add", "--quiet", "-b", "mine", path]);
        let states: Vec<Value> =
            worktrees(&home, &shop).iter().map(|row| row["state"].clone()).collect();
        assert_eq!(states, ["foreign", "missing"]);
    });
}

#[test]
fn a_diff_that_does_not_see_into_a_submodule_is_partial() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        shop.add_submodule(&Repository::new(&home.path().join("lib")), "lib");
        let (_, path) = launched(&home, &shop, "fix");
        assert_eq!(run(&home, &shop, &["diff", "fix"]).code, Some(0));
        std::fs::write(path.join("lib/README.md"), "dirt\n").expect("written");
        let diff = run(&home, &shop, &["diff", "fix"]);
        assert_eq!(diff.code, Some(3), "{diff:?}");
        assert!(diff.stderr.contains("the submodule lib has changes of its own"), "{diff:?}");
        let taken = run(&home, &shop, &["worktree", "take", "fix"]);
        assert_eq!(taken.code, Some(5), "{taken:?}");
        let said = "the submodule lib of agentctl/fix has changes that are not committed in it";
        assert!(taken.stderr.contains(said), "{taken:?}");
    });
}

#[test]
fn the_work_of_a_removed_worktree_is_named_and_can_be_taken_after_it_was_brought_back() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let (id, path) = launched(&home, &shop, "fix");
        shop.at(&path).write("work.txt", "work\n");
        shop.at(&path).commit("work");
        let cleaned = run(&home, &shop, &["worktree", "clean", "fix", "--force", "--json"]);
        assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
        for args in [&["diff", &*id][..], &["compare", &id], &["worktree", "take", &id]] {
            let gone = run(&home, &shop, args);
            assert_eq!(gone.code, Some(4), "{gone:?}");
            assert!(
                gone.stderr.contains("~/shop.worktrees/fix does not exist any more"),
                "{gone:?}"
            );
            assert!(gone.stderr.contains("refs/agentctl/rescued/"), "{gone:?}");
        }
        let unknown = run(&home, &shop, &["worktree", "take", "nope"]);
        assert_eq!(unknown.code, Some(4), "{unknown:?}");
        let said = "error: no worktree and no session matches `nope`";
        assert!(unknown.stderr.starts_with(said), "{unknown:?}");
        let document = cleaned.json();
        let command = document["worktrees"][0]["rescue"]["command"].as_str().expect("a command");
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", command]).status().expect("sh").success(), "{command}");
        let taken = run(&home, &shop, &["worktree", "take", "fix"]);
        assert!(taken.stdout.starts_with("merged agentctl/fix into main"), "{taken:?}");
    });
}

#[test]
fn a_group_that_does_not_exist_is_named_by_list_and_events() {
    sandboxed(|| {
        let home = home();
        let listed = home.run(&["list", "--group", "nope"]);
        assert!(listed.stderr.contains("there is no group `nope`"), "{listed:?}");
        let mut events = home.command(&["events", "--group", "nope"]);
        let mut events = events.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(events.stderr.take().expect("piped")).read_line(&mut line).expect("told");
        events.kill().and_then(|()| events.wait()).expect("ended");
        assert!(line.starts_with("warning: there is no group `nope`: "), "{line}");
    });
}

/// Without our own directories only the branches tell the groups, also after the agent has forgotten its sessions.
#[test]
fn groups_that_only_branches_tell_are_named_in_hints() {
    sandboxed(|| {
        let home = home();
        let shop = Repository::new(&home.path().join("shop"));
        let hint = |args: &[&str]| {
            let refused = run(&home, &shop, &[args, &["--group", "nosuch"]].concat());
            assert_eq!(refused.code, Some(4), "{args:?}: {refused:?}");
            assert!(refused.stderr.contains("error: there is no group `nosuch`"), "{refused:?}");
            refused.stderr.lines().last().unwrap_or_default().to_owned()
        };
        let none = "hint: there is no group; `agentctl group ID GROUP` makes one";
        assert_eq!(hint(&["wait"]), none);
        launched(&home, &shop, "g-1/demo");
        shop.git(["branch", "agentctl/old/codex"]);
        shop.git(["branch", "agentctl/single"]);
        std::fs::remove_dir_all(home.at(".local/state/agentctl")).expect("removed");
        for args in [&["wait"][..], &["stop", "-y"], &["logs"]] {
            assert_eq!(hint(args), "hint: groups: g-1, old");
        }
        let listed = run(&home, &shop, &["list", "--group", "nosuch"]);
        assert!(listed.stderr.contains("there is no group `nosuch`"), "{listed:?}");
        assert!(listed.stderr.contains("groups: g-1, old"), "{listed:?}");
        let old = run(&home, &shop, &["wait", "--group", "old"]);
        let said = "no session of the last days is in the group `old`";
        assert!(old.stderr.contains(said), "{old:?}");
    });
}
