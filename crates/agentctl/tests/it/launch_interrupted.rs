//! Signals while a launch makes its worktrees: everything is removed again, and the command ends by the signal.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::home;
use crate::launch_group::{assert_untouched, shop};
use crate::launched::script;

/// Writes a program that tells its pid in a file `slow-NAME` of the home and then does not end.
pub(crate) fn slow(home: &TestHome, name: &str, before: &str) -> PathBuf {
    let told = home.at(&format!("slow-{name}"));
    let script = format!(
        "#!/bin/sh\n{before}\necho $$ > '{}'-\"$AGENTCTL_SLOT\"\nexec sleep 600\n",
        told.display()
    );
    let path = home.write(&format!("slow-{name}.sh"), script);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("set");
    path
}

/// Returns the pid that such a program told.
pub(crate) fn told(home: &TestHome, name: &str, slot: &str) -> Pid {
    let path = home.at(&format!("slow-{name}-{slot}"));
    eventually("a slow program", || {
        let text = std::fs::read_to_string(&path).ok()?;
        Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
    })
}

fn start(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(&[&["launch", "demo", "-p", "x"], args].concat());
    command.current_dir(home.path().join("shop")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a pid");
    kill_process(pid, signal).expect("it lives");
}

/// Waits for the end. Returns its signal and its output.
pub(crate) fn ended(child: Child) -> (Option<i32>, Output) {
    let output = child.wait_with_output().expect("it ends");
    (output.status.signal(), Ok(output).into())
}

fn set_up(home: &TestHome, program: &std::path::Path) {
    let config = format!("[worktree]\nsetup = [{:?}]\n", program.display().to_string());
    home.write(".config/agentctl/config.toml", config);
}

#[test]
fn a_signal_during_setup_removes_all_worktrees() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        set_up(&home, &slow(&home, "setup", ""));
        let launches: [(&[&str], usize); 2] = [(&["--worktree=one"], 1), (&["--times", "3"], 3)];
        for number in [Signal::INT, Signal::TERM, Signal::HUP] {
            for (args, count) in launches {
                let child = start(&home, args);
                let slots = ["0", "1", "2"];
                let pids: Vec<Pid> =
                    slots[..count].iter().map(|slot| told(&home, "setup", slot)).collect();
                signal(&child, number);
                let (end, output) = ended(child);
                assert_eq!(end, Some(number.as_raw()), "{args:?}: {output:?}");
                let said =
                    "error: interrupted: no agent was started, and nothing was left behind\n";
                assert_eq!(
                    (output.stderr.as_str(), output.stdout.as_str()),
                    (said, ""),
                    "{args:?}"
                );
                assert_untouched(&home, &repository, &format!("{number:?} {args:?}"));
                for (pid, slot) in pids.into_iter().zip(slots) {
                    assert!(test_kill_process(pid).is_err(), "the setup program of {slot} runs");
                    std::fs::remove_file(home.at(&format!("slow-setup-{slot}"))).expect("removed");
                }
            }
        }
    });
}

#[test]
fn a_signal_while_the_agents_are_waited_for_says_how_many_go_on() {
    sandboxed(|| {
        let home = home();
        shop(&home);
        let args = ["launch", "demo", "-p", "x [[hang]]", "--times", "2", "--wait"];
        let mut command = home.command(&args);
        command.current_dir(home.path().join("shop")).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = |line: std::io::Result<String>| line.expect("UTF-8");
        assert!(stderr.by_ref().map(line).any(|line| line.contains("when they are done")));
        signal(&child, Signal::INT);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::INT.as_raw()), "{output:?}");
        let rest: Vec<String> = stderr.map(line).collect();
        assert_eq!(rest, ["error: interrupted: 2 of 2 agents began, and go on"]);
        for id in output.stdout.lines() {
            assert_eq!(crate::launched::status(&home, id)["status"], "running");
        }
    });
}

#[test]
fn a_signal_while_git_adds_worktrees_removes_them() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let hook = slow(&home, "hook", "");
        std::fs::create_dir_all(repository.path.join(".git/hooks")).expect("made");
        std::fs::copy(hook, repository.path.join(".git/hooks/post-checkout")).expect("copied");
        let child = start(&home, &["--times", "3"]);
        let _pid = told(&home, "hook", "");
        signal(&child, Signal::INT);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::INT.as_raw()), "{output:?}");
        assert!(output.stderr.starts_with("error: interrupted: "), "{output:?}");
        assert_untouched(&home, &repository, "interrupted");
    });
}

/// Waits until a process has ended, reaped or not.
fn gone(pid: Pid) {
    eventually("it has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

fn in_shop(home: &TestHome, args: &[&str]) -> Output {
    home.command(args).current_dir(home.at("shop")).output().into()
}

#[test]
fn a_second_signal_ends_the_launch_at_once() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let child = home.at("child");
        let before = format!("trap '' TERM\nsleep 600 &\necho $! > '{}'", child.display());
        set_up(&home, &slow(&home, "stubborn", &before));
        let launcher = start(&home, &["--worktree=one"]);
        let pid = told(&home, "stubborn", "0");
        signal(&launcher, Signal::INT);
        signal(&launcher, Signal::TERM);
        let (end, output) = ended(launcher);
        assert!(end.is_some(), "{output:?}");
        assert_eq!(output.stderr, "");
        gone(pid);
        let child = std::fs::read_to_string(child).expect("told");
        gone(Pid::from_raw(child.trim().parse().expect("a pid")).expect("a pid"));
        // The rest is found by the next command.
        let list = in_shop(&home, &["worktree", "list", "--json"]);
        assert_eq!(list.json()["worktrees"][0]["state"], "half-made", "{list:?}");
        let cleaned = || in_shop(&home, &["worktree", "clean", "-y"]);
        eventually("the rest is removed", || cleaned().stdout.starts_with("removed").then_some(()));
        assert_untouched(&home, &repository, "cleaned");
    });
}

#[test]
fn the_setup_program_ends_with_a_killed_launcher_and_its_files_count_as_work() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        set_up(&home, &slow(&home, "setup", "echo made > by-setup; echo made > made.log"));
        let launcher = start(&home, &["--worktree=one"]);
        let pid = told(&home, "setup", "0");
        signal(&launcher, Signal::KILL);
        assert_eq!(ended(launcher).0, Some(Signal::KILL.as_raw()));
        gone(pid);
        let list = in_shop(&home, &["worktree", "list", "--json"]);
        assert_eq!(list.json()["worktrees"][0]["state"], "half-made", "{list:?}");
        let kept = in_shop(&home, &["worktree", "clean", "-y"]);
        assert!(kept.stdout.starts_with("kept"), "{kept:?}");
        assert!(kept.stdout.contains("1 file is not committed"), "{kept:?}");
        let forced = in_shop(&home, &["worktree", "clean", "one", "--force", "--ignored"]);
        assert!(forced.stdout.starts_with("removed"), "{forced:?}");
        assert!(forced.stdout.contains("saved as refs/agentctl/rescued/"), "{forced:?}");
        assert_eq!(
            repository.git(["for-each-ref", "--format=%(refname)", "refs/heads"]),
            "refs/heads/main"
        );
    });
}

#[test]
fn a_mount_of_a_killed_launch_is_not_entered_by_clean() {
    sandboxed(|| {
        let home = home();
        shop(&home);
        let precious = home.at("precious");
        home.write("precious/doc.txt", "irreplaceable\n");
        let mount = format!("mkdir data; mount --bind '{}' data", precious.display());
        set_up(&home, &slow(&home, "setup", &mount));
        let launcher = start(&home, &["--worktree=one"]);
        let pid = told(&home, "setup", "0");
        signal(&launcher, Signal::KILL);
        assert_eq!(ended(launcher).0, Some(Signal::KILL.as_raw()));
        gone(pid);
        let all = ["worktree", "clean", "one", "--force", "--ignored"];
        for args in [&["worktree", "clean", "-y"][..], &all] {
            let kept = in_shop(&home, args);
            assert!(kept.stdout.starts_with("kept"), "{kept:?}");
            assert!(kept.stdout.contains("another file system is mounted there"), "{kept:?}");
            assert!(precious.join("doc.txt").exists(), "{kept:?}");
        }
        let data = home.at("shop.worktrees/one/data");
        let unmounted = std::process::Command::new("umount").arg(data).status().expect("run");
        assert!(unmounted.success());
        let removed = in_shop(&home, &all);
        assert_eq!(removed.code, Some(0), "{removed:?}");
        assert!(precious.join("doc.txt").exists());
    });
}

/// The agent runs and has not told its session id: it is stopped as after the deadline, and its worktree is removed.
#[test]
fn a_signal_while_agents_start_stops_them_and_removes_their_worktrees() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let started = home.at("started");
        let agent = format!("echo $$ >> '{}'; exec sleep 600", started.display());
        script(&home, "codex", &agent);
        let pids = |count: usize| -> Vec<Pid> {
            eventually("the agents run", || {
                let text = std::fs::read_to_string(&started).ok()?;
                let pids: Vec<_> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
                (pids.len() == count).then(|| pids.into_iter().filter_map(Pid::from_raw).collect())
            })
        };
        let launches: [(&[&str], usize); 2] = [(&["--worktree=one"], 1), (&["--times", "3"], 3)];
        for (args, count) in launches {
            let mut command = home.command(&[&["launch", "codex", "-p", "x"], args].concat());
            command.current_dir(&repository.path).stdin(Stdio::null());
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let child = child.expect("it starts");
            let pids = pids(count);
            signal(&child, Signal::TERM);
            let (end, output) = ended(child);
            assert_eq!(end, Some(Signal::TERM.as_raw()), "{args:?}: {output:?}");
            let lines =
                |words: &str| output.stderr.lines().filter(|line| line.contains(words)).count();
            assert_eq!(lines("worktree ~/shop.worktrees/"), count, "{}", output.stderr);
            let stopped = "interrupted: codex had not told its session id and was stopped";
            assert_eq!(lines(stopped), count, "{}", output.stderr);
            for pid in pids {
                gone(pid);
            }
            let refs = repository.git(["for-each-ref", "--format=%(refname)"]);
            assert_eq!(refs, "refs/heads/main", "{args:?}");
            assert!(!home.path().join("shop.worktrees").exists(), "{args:?}");
            std::fs::remove_file(&started).expect("removed");
        }
    });
}

#[test]
fn a_signal_leaves_agents_that_have_begun_and_stops_the_others() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        let started = home.at("started");
        let agent = format!("echo $$ > '{}'; exec sleep 600", started.display());
        script(&home, "codex", &agent);
        let args = ["launch", "--adapter", "demo", "--adapter", "codex", "--group", "g", "-p"];
        let mut command = home.command(&[&args[..], &["x [[tool:exec sleep 600]]"]].concat());
        command.current_dir(&repository.path).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        let mut id = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut id).expect("told");
        eventually("the other one runs", || started.exists().then_some(()));
        signal(&child, Signal::INT);
        let (end, output) = ended(child);
        assert_eq!(end, Some(Signal::INT.as_raw()), "{output:?}");
        assert!(
            output.stderr.contains("interrupted: 1 of 2 agents began, and go on"),
            "{output:?}"
        );
        let id = id.trim();
        assert_eq!(home.run(&["status", id, "--json"]).json()["id"], id);
        let refs = repository.git(["for-each-ref", "--format=%(refname)", "refs/heads"]);
        assert_eq!(refs, "refs/heads/agentctl/g/demo\nrefs/heads/main");
    });
}
