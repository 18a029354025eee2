//! stdout that cannot be written: what an order has done is told on stderr.

use std::fs::OpenOptions;
use std::process::Stdio;

use testkit::{Output, Repository, TestHome, sandboxed};

use crate::home;
use crate::launched::{folder, launch, status, until_stopped};
use crate::worktree_clean::shop;

/// Runs a command whose stdout is a full disk.
fn run_with_full_stdout(home: &TestHome, args: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let mut command = home.command(args);
    let command = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    let output = command.output().expect("run");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    Output { code: output.status.code(), stdout: String::new(), stderr }
}

/// Checks that an order failed only in its report, and that these words of the report are on stderr.
fn assert_reported(home: &TestHome, args: &[&str], words: &[&str]) -> Output {
    let told = run_with_full_stdout(home, args);
    assert_eq!(told.code, Some(1), "{args:?}: {told:?}");
    for word in words {
        assert!(told.stderr.contains(word), "{args:?}: {word}: {told:?}");
    }
    let error = "error: stdout cannot be written: No space left on device (os error 28); the report is printed above\n";
    assert!(told.stderr.ends_with(error), "{args:?}: {told:?}");
    told
}

#[test]
fn the_report_of_an_order_goes_to_stderr_if_stdout_cannot_be_written() {
    sandboxed(|| {
        let home = home();
        let shop: Repository = shop(&home);
        let cwd = shop.path.to_str().expect("UTF-8");
        let clean = ["worktree", "clean", "g/file", "--force", "--cwd", cwd];
        assert_reported(&home, &clean, &["saved as refs/agentctl/rescued/", "git "]);
        let clean = ["worktree", "clean", "g/commit", "--force", "--cwd", cwd, "--json"];
        assert_reported(&home, &clean, &["\"ref\": \"refs/agentctl/rescued/"]);

        let id = launch(&home, "w", "x [[say:hi]]", &["--keep=10m"]);
        assert_reported(&home, &["name", &id, "painter"], &["named demo", "painter"]);
        assert_reported(&home, &["send", &id, "go on [[say:on]]"], &[&id]);
        assert_reported(&home, &["stop", &id], &["stopped"]);
        until_stopped(&home, &id);
        let other = folder(&home, "other");
        let args = ["launch", "demo", "-p", "x [[say:hi]]", "--cwd", &other, "--wait", "--json"];
        let told = assert_reported(&home, &args, &["\"status\": \"stopped\""]);
        assert!(!told.stderr.contains("\"error\": {"), "{told:?}");
    });
}

#[test]
fn a_question_whose_answer_cannot_be_written_fails_without_the_data() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--wait"]);
        assert_eq!(status(&home, &id)["id"], id);
        let list = ["list", "--all"];
        for args in [&list[..], &["list", "--all", "--json"], &["asks", "--json"], &["runs", "-q"]]
        {
            let told = run_with_full_stdout(&home, args);
            assert_eq!(told.code, Some(1), "{args:?}: {told:?}");
            let error = "error: stdout cannot be written: No space left on device (os error 28)\n";
            assert_eq!(told.stderr, error, "{args:?}");
        }
    });
}
