//! `compare`, `worktree clean` and `worktree take` that are interrupted, or that meet another one.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launch_group::shop;
use crate::launch_interrupted::{ended, signal, slow, told};
use crate::worktree_faults::{add, deadly_git, in_shop};

fn start(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.current_dir(home.path().join("shop")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Says whether a process has ended; its entry may still be there for its parent.
fn has_ended(pid: Pid) -> bool {
    let command = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    command.map_or(true, |command| command.is_empty())
}

/// Puts a git before the real one that waits when it reads the files of a directory. Returns the file that tells that.
fn waiting_git(home: &TestHome, directory: &Path) -> PathBuf {
    let (told, go_on) = (home.at("git-waits"), home.at("git-goes-on"));
    let made = Command::new("mkfifo").arg(&go_on).status().expect("run");
    assert!(made.success());
    let script = format!(
        "#!/bin/sh\ncase \"$PWD $*\" in '{}'*' add --all'*) : > '{}'; read -r line < '{}';; esac\n\
         exec /usr/bin/git \"$@\"\n",
        directory.display(),
        told.display(),
        go_on.display()
    );
    let path = home.write("bin/git", script);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("executable");
    told
}

#[test]
fn a_signal_during_a_verification_ends_all_its_processes() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        add(&shop, "one");
        let below = home.at("below");
        let before = format!("sleep 600 &\necho $! > '{}'", below.display());
        let program = slow(&home, "verify", &before);
        for number in [Signal::INT, Signal::TERM] {
            let verify = program.to_str().expect("UTF-8");
            let child = start(&home, &["compare", "one", "--verify", verify]);
            let leader = told(&home, "verify", "");
            let text = std::fs::read_to_string(&below).expect("told before");
            let below = Pid::from_raw(text.trim().parse().expect("a pid")).expect("a pid");
            signal(&child, number);
            let (end, output) = ended(child);
            assert_eq!(end, Some(number.as_raw()), "{output:?}");
            assert!(has_ended(leader), "{output:?}");
            eventually("the end of the process below it", || has_ended(below).then_some(()));
            assert!(output.stderr.starts_with("error: interrupted"), "{output:?}");
            std::fs::remove_file(home.at("slow-verify-")).expect("removed");
        }
    });
}

/// A git before the real one waits for its SIGTERM at one of the first questions and goes on as if there was none, so
/// that the signal is told to no step that would fail by it.
#[test]
fn a_signal_before_the_verification_is_not_forgotten() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        add(&shop, "one");
        let (asked, verified) = (home.at("asked"), home.at("verified"));
        // The last call of git of the part that `diff` answers.
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'rev-list --count HEAD'*) trap 'heard=1' TERM; : > '{}'\n\
             while [ -z \"$heard\" ]; do sleep 0.02; done;; esac\n\
             trap '' TERM; exec /usr/bin/git \"$@\"\n",
            asked.display()
        );
        let path = home.write("bin/git", script);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("executable");
        let verify = format!("touch {}", verified.display());
        for number in [Signal::INT, Signal::TERM] {
            let child = start(&home, &["compare", "one", "--verify", &verify]);
            eventually("the question", || asked.exists().then_some(()));
            signal(&child, number);
            let (end, output) = ended(child);
            assert_eq!(end, Some(number.as_raw()), "{output:?}");
            assert!(!verified.exists(), "{output:?}");
            assert!(output.stderr.starts_with("error: interrupted"), "{output:?}");
            std::fs::remove_file(&asked).expect("removed");
        }
    });
}

#[test]
fn cleans_at_the_same_time_do_not_take_each_other_for_work() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        std::fs::remove_file(tree.path.join("work.txt")).expect("removed");
        let (told, go_on) = (home.at("filter-waits"), home.at("filter-goes-on"));
        let made = Command::new("mkfifo").arg(&go_on).status().expect("run");
        assert!(made.success());
        let (file, fifo) = (told.display(), go_on.display());
        let script = format!("#!/bin/sh\n: > '{file}'\nread -r line < '{fifo}'\ncat\n");
        let filter = home.write("filter.sh", script);
        std::fs::set_permissions(&filter, PermissionsExt::from_mode(0o755)).expect("executable");
        shop.write(".git/info/attributes", "README.md filter=wait\n");
        shop.git(["config", "filter.wait.clean", filter.to_str().expect("UTF-8")]);
        let first = start(&home, &["worktree", "clean", "fix"]);
        eventually("the git of the first one reads the files", || told.exists().then_some(()));
        shop.git(["config", "filter.wait.clean", "cat"]);
        let second = in_shop(&home, &["worktree", "clean", "fix"]);
        assert_eq!(second.code, Some(0), "{second:?}");
        assert!(second.stdout.starts_with("removed  ~/shop.worktrees/fix"), "{second:?}");
        std::fs::write(&go_on, "go on\n").expect("written");
        let (_, first) = ended(first);
        assert_eq!(first.code, Some(0), "{first:?}");
        assert!(first.stdout.contains("it is gone already"), "{first:?}");
    });
}

#[test]
fn an_interrupted_clean_renames_the_worktree_back() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        let aside = tree.path.with_file_name(".fix.agentctl-removing");
        let told = waiting_git(&home, &aside);
        let clean = ["worktree", "clean", "fix", "--force"];
        let child = start(&home, &clean);
        eventually("it is checked again", || told.exists().then_some(()));
        signal(&child, Signal::INT);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::INT.as_raw()), "{output:?}");
        assert!(tree.path.join("work.txt").exists() && !aside.exists(), "{output:?}");
        assert!(output.stdout.contains("interrupted"), "{output:?}");
        std::fs::remove_file(home.path().join("bin/git")).expect("removed");
        assert_eq!(in_shop(&home, &["diff", "fix"]).code, Some(0));
        assert_eq!(in_shop(&home, &clean).code, Some(0));
    });
}

#[test]
fn every_command_says_where_a_killed_clean_left_a_worktree() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        deadly_git(&home, "commit-tree", "$PPID", false);
        let killed = in_shop(&home, &["worktree", "clean", "fix", "--force"]);
        assert_eq!(killed.code, None, "{killed:?}");
        std::fs::remove_file(home.path().join("bin/git")).expect("removed");
        let aside = tree.path.with_file_name(".fix.agentctl-removing");
        assert!(aside.join("work.txt").exists() && !tree.path.exists());
        let place = aside.display();
        let list = in_shop(&home, &["worktree", "list"]);
        assert_eq!(list.code, Some(3), "{list:?}");
        assert!(list.stderr.contains(&format!("it is in {place}")), "{list:?}");
        let command = format!("mv {place} {}", tree.path.display());
        for args in [&["diff", "fix"][..], &["compare", "fix"], &["worktree", "take", "fix"]] {
            let failed = in_shop(&home, args);
            assert_eq!(failed.code, Some(1), "{failed:?}");
            assert!(failed.stderr.contains(&format!("`{command}` brings it back")), "{failed:?}");
        }
        let other = add(&shop, "pair/one");
        std::fs::rename(&aside, &tree.path).expect("renamed");
        let gone = other.path.with_file_name(".one.agentctl-removing");
        std::fs::rename(&other.path, &gone).expect("renamed");
        add(&shop, "pair/two");
        let group = in_shop(&home, &["diff", "pair"]);
        assert_eq!(group.code, Some(3), "{group:?}");
        assert!(group.stderr.contains(&format!("it is in {}", gone.display())), "{group:?}");
        assert_eq!(in_shop(&home, &["diff", "fix"]).code, Some(0));
    });
}

#[test]
fn staged_work_of_a_missing_worktree_can_be_committed_as_the_reason_says() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        tree.git(["add", "work.txt"]);
        std::fs::remove_dir_all(&tree.path).expect("removed");
        let kept = in_shop(&home, &["worktree", "clean", "fix", "--force"]);
        assert_eq!(kept.code, Some(5), "{kept:?}");
        assert!(!kept.stderr.contains("agentctl diff"), "it cannot be compared: {kept:?}");
        let command = kept.stdout.split('`').nth(1).expect("a command").to_owned();
        assert!(command.starts_with("git --git-dir="), "{command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(&shop.path).stdout(Stdio::null());
        for name in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{name}_NAME"), "Test").env(format!("GIT_{name}_EMAIL"), "t@e");
        }
        assert!(shell.status().expect("run").success(), "{command}");
        assert_eq!(shop.git(["show", "agentctl/fix:work.txt"]), "work of fix");
    });
}

#[test]
fn the_rest_of_a_killed_clean_goes_and_a_directory_of_the_same_kind_stays() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let own = add(&shop, "killed");
        let stays = add(&shop, "stays");
        deadly_git(&home, "worktree remove", "$PPID", true);
        let killed = in_shop(&home, &["worktree", "clean", "killed", "--force"]);
        assert_eq!(killed.code, None, "{killed:?}");
        std::fs::remove_file(home.path().join("bin/git")).expect("removed");
        let rest = own.path.with_file_name(".killed.agentctl-removed");
        assert!(rest.join("work.txt").exists());
        let foreign = own.path.with_file_name(".mine.agentctl-removed");
        std::fs::create_dir(&foreign).expect("made");
        std::fs::write(foreign.join("precious"), "mine\n").expect("written");
        let tried = in_shop(&home, &["worktree", "clean", "--dry-run"]);
        assert!(rest.join("work.txt").exists(), "{tried:?}");
        let swept = in_shop(&home, &["worktree", "clean", "stays"]);
        assert!(foreign.join("precious").exists() && stays.path.exists(), "{swept:?}");
        let line = "would delete ~/shop.worktrees/.killed.agentctl-removed";
        assert!(tried.stdout.contains(line), "{tried:?}");
        let line = "deleted  ~/shop.worktrees/.killed.agentctl-removed";
        assert!(swept.stdout.contains(line), "{swept:?}");
        assert!(!rest.exists(), "{swept:?}");
        assert!(swept.stderr.contains(".mine.agentctl-removed"), "{swept:?}");
        assert!(!swept.stdout.contains(".mine.agentctl-removed"), "{swept:?}");
        // A directory was deleted, and no worktree.
        assert!(swept.stderr.contains("hint: no worktree was removed: "), "{swept:?}");
    });
}

/// Kills a clean after all checks, and removes one of two hard links in what it leaves: the time of the last change of
/// the other one is new. Returns that directory.
fn rest_with_links(home: &TestHome) -> PathBuf {
    let shop = shop(home);
    shop.write(".gitignore", "target/\n");
    shop.commit("ignore");
    let tree = add(&shop, "killed");
    tree.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    let app = tree.write("target/app", "program\n");
    std::fs::hard_link(&app, tree.path.join("target/app-1")).expect("linked");
    deadly_git(home, "worktree remove", "$PPID", true);
    let killed = in_shop(home, &["worktree", "clean", "killed", "--force"]);
    assert_eq!(killed.code, None, "{killed:?}");
    std::fs::remove_file(home.path().join("bin/git")).expect("removed");
    let rest = tree.path.with_file_name(".killed.agentctl-removed");
    std::fs::remove_file(rest.join("target/app")).expect("removed");
    rest
}

#[test]
fn a_half_deleted_rest_with_hard_links_goes() {
    sandboxed(|| {
        let home = home();
        let rest = rest_with_links(&home);
        let swept = in_shop(&home, &["worktree", "clean", "-y"]);
        assert!(!rest.exists(), "{swept:?}");
    });
}

#[test]
fn a_rest_with_hard_links_stays_if_a_file_was_moved_into_it_or_written() {
    sandboxed(|| {
        let home = home();
        let old = home.write("old", "precious\n");
        let rest = rest_with_links(&home);
        let (moved, linked) = (rest.join("target/moved"), rest.join("target/app-1"));
        let assert_kept = |file: &str| {
            let kept = in_shop(&home, &["worktree", "clean", "-y"]);
            let said = format!("target/{file} was written since");
            assert!(kept.stderr.contains(&said) && rest.exists(), "{kept:?}");
        };
        std::fs::rename(&old, &moved).expect("moved");
        assert_kept("moved");
        std::fs::rename(&moved, &old).expect("moved back");
        std::fs::write(&linked, "another\n").expect("written");
        assert_kept("app-1");
        // Another size, and an old time of its content.
        std::fs::write(&linked, "longer than before\n").expect("written");
        let file = std::fs::File::options().write(true).open(&linked).expect("opened");
        file.set_modified(std::time::UNIX_EPOCH).expect("set");
        assert_kept("app-1");
    });
}

/// Adds a hook to the repository that tells its pid and does not end.
fn add_waiting_hook(home: &TestHome, name: &str) {
    let program = slow(home, name, "");
    let hook = home.path().join("shop/.git/hooks").join(name);
    std::os::unix::fs::symlink(program, hook).expect("linked");
}

/// Returns the branch, the index and the files of the repository, and the names in its git directory.
fn state(shop: &testkit::Repository) -> (String, String, Vec<String>) {
    let names = std::fs::read_dir(shop.path.join(".git")).expect("read").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // git keeps the commit before the last merge here, and nothing depends on it.
    let mut names: Vec<String> = names.filter(|name| name != "ORIG_HEAD").collect();
    names.sort();
    (shop.git(["rev-parse", "main"]), shop.git(["status", "--short", "--ignored"]), names)
}

#[test]
fn an_interrupted_take_is_undone_with_its_hook() {
    sandboxed(|| {
        for (hook, way, number) in [
            ("pre-merge-commit", None, Signal::INT),
            ("pre-commit", Some("--squash"), Signal::TERM),
        ] {
            let home = home();
            let shop = shop(&home);
            let tree = add(&shop, "fix");
            tree.commit("work");
            add_waiting_hook(&home, hook);
            let before = state(&shop);
            let args = ["worktree", "take", "fix"].into_iter().chain(way).collect::<Vec<_>>();
            let child = start(&home, &args);
            let hook = told(&home, hook, "");
            signal(&child, number);
            let (end, output) = ended(child);
            assert_eq!(end, Some(number.as_raw()), "{output:?}");
            let said = "error: interrupted: nothing was taken, and nothing was changed\n";
            assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", said));
            eventually("the end of the hook", || has_ended(hook).then_some(()));
            assert_eq!(state(&shop), before);
            assert!(!shop.path.join("work.txt").exists());
        }
    });
}

#[test]
fn a_take_whose_branch_has_moved_is_finished_and_reported() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        tree.commit("work");
        add_waiting_hook(&home, "post-merge");
        let child = start(&home, &["worktree", "take", "fix"]);
        told(&home, "post-merge", "");
        signal(&child, Signal::INT);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::INT.as_raw()), "{output:?}");
        assert!(output.stdout.starts_with("merged agentctl/fix into main as "), "{output:?}");
        let said = "error: interrupted: the branch had moved, so the work is taken\n";
        assert_eq!(output.stderr, said);
        assert_eq!(shop.git(["status", "--short"]), "");
        assert!(shop.path.join("work.txt").exists());
        assert!(!shop.path.join(".git/MERGE_HEAD").exists());
    });
}

/// The hook makes another tree than the one that was previewed.
#[test]
fn a_squash_that_a_hook_has_changed_is_finished_and_reported() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        tree.commit("work");
        let hook = shop
            .write(".git/hooks/pre-commit", "#!/bin/sh\necho f > formatted\ngit add formatted\n");
        std::fs::set_permissions(hook, PermissionsExt::from_mode(0o755)).expect("executable");
        add_waiting_hook(&home, "post-commit");
        let child = start(&home, &["worktree", "take", "fix", "--squash"]);
        told(&home, "post-commit", "");
        signal(&child, Signal::TERM);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::TERM.as_raw()), "{output:?}");
        assert!(output.stdout.contains("agentctl/fix into main as "), "{output:?}");
        assert!(output.stderr.contains("the branch had moved, so the work is taken"), "{output:?}");
        assert_eq!(shop.git(["status", "--short"]), "");
        assert!(shop.path.join("formatted").exists() && shop.path.join("work.txt").exists());
    });
}

#[test]
fn a_take_that_is_interrupted_while_git_writes_files_is_undone() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        for name in ["changed", "removed"] {
            shop.write(name, "before\n");
        }
        shop.commit("before");
        let tree = add(&shop, "fix");
        for name in ["a-new", "changed", "z-last.slow"] {
            tree.write(name, "after\n");
        }
        std::fs::remove_file(tree.path.join("removed")).expect("removed");
        tree.commit("work");
        // The filter runs after the other files are written.
        let program = slow(&home, "smudge", "");
        shop.git(["config", "filter.slow.smudge", program.to_str().expect("UTF-8")]);
        shop.write(".git/info/attributes", "*.slow filter=slow\n");
        for way in [None, Some("--ff")] {
            let before = state(&shop);
            let args = ["worktree", "take", "fix"].into_iter().chain(way).collect::<Vec<_>>();
            let child = start(&home, &args);
            told(&home, "smudge", "");
            assert!(shop.path.join("a-new").exists(), "files are written");
            signal(&child, Signal::TERM);
            let (end, output) = ended(child);
            assert_eq!(end, Some(Signal::TERM.as_raw()), "{output:?}");
            let said = "error: interrupted: nothing was taken, and nothing was changed\n";
            assert_eq!(output.stderr, said);
            assert_eq!(state(&shop), before);
            std::fs::remove_file(home.at("slow-smudge-")).expect("removed");
        }
    });
}

/// The check of the tree that has the branch checked out runs filters and reads files of that tree.
#[test]
fn a_take_is_interrupted_while_it_checks_the_other_tree() {
    sandboxed(|| {
        let home = home();
        let shop = shop(&home);
        let tree = add(&shop, "fix");
        tree.commit("work");
        let filter = slow(&home, "filter", "");
        shop.write(".git/info/attributes", "README.md filter=slow\n");
        shop.git(["config", "filter.slow.clean", filter.to_str().expect("UTF-8")]);
        // Another size, so that git compares the content.
        shop.write("README.md", "changed in length\n");
        let head = shop.git(["rev-parse", "main"]);
        let child = start(&home, &["worktree", "take", "fix"]);
        let pid = told(&home, "filter", "");
        signal(&child, Signal::TERM);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::TERM.as_raw()), "{output:?}");
        let said = "error: interrupted: nothing was taken, and nothing was changed\n";
        assert_eq!(output.stderr, said);
        eventually("the filter has ended", || has_ended(pid).then_some(()));
        assert_eq!(shop.git(["rev-parse", "main"]), head);
        // git would wait for a writer of this file.
        shop.git(["config", "--unset", "filter.slow.clean"]);
        let fifo = shop.path.join("src/.gitattributes");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("run").success());
        let refused = in_shop(&home, &["worktree", "take", "fix"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("src/.gitattributes"), "{refused:?}");
    });
}
