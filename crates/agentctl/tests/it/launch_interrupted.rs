//! Signals while a launch makes its worktrees: everything is removed again, and the command ends by the signal.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::home;
use crate::launch_group::{assert_untouched, shop};

/// Writes a program that tells its pid in a file `slow-NAME` of the home and then does not end.
fn slow(home: &TestHome, name: &str, before: &str) -> PathBuf {
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
fn told(home: &TestHome, name: &str, slot: &str) -> Pid {
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

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a pid");
    kill_process(pid, signal).expect("it lives");
}

/// Waits for the end. Returns its signal and its output.
fn ended(child: Child) -> (Option<i32>, Output) {
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

#[test]
fn a_second_signal_ends_the_launch_at_once() {
    sandboxed(|| {
        let home = home();
        let repository = shop(&home);
        set_up(&home, &slow(&home, "stubborn", "trap '' TERM"));
        let child = start(&home, &["--worktree=one"]);
        let pid = told(&home, "stubborn", "0");
        signal(&child, Signal::INT);
        signal(&child, Signal::TERM);
        let (end, output) = ended(child);
        assert!(end.is_some(), "{output:?}");
        assert_eq!(output.stderr, "");
        assert!(test_kill_process(pid).is_ok(), "it did not wait for the setup program");
        kill_process(pid, Signal::KILL).expect("it lives");
        // The rest is found by the next command.
        let mut list = home.command(&["worktree", "list", "--json"]);
        let list: Output = list.current_dir(&repository.path).output().into();
        assert_eq!(list.json()["worktrees"][0]["state"], "half-made", "{list:?}");
        let cleaned = || -> Output {
            home.command(&["worktree", "clean", "-y"]).current_dir(&repository.path).output().into()
        };
        eventually("the rest is removed", || cleaned().stdout.starts_with("removed").then_some(()));
        assert_untouched(&home, &repository, "cleaned");
    });
}
