//! Messages name the object that failed, hints are true, and what is wrong before a launch is said before it.

use testkit::{Output, TestHome, sandboxed};

use crate::home;
use crate::launched::{folder, launch, runs, until_stopped};

fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.code, Some(code), "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{word} is not in: {}", output.stderr);
    }
}

#[test]
fn a_lock_has_the_name_of_the_password_database_without_user() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let locked = home.command(&["lock", "w"]).env_remove("USER").env_remove("LOGNAME").output();
        assert!(locked.expect("runs").status.success());
        let uid = rustix::process::getuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").expect("readable");
        let user = users.lines().find(|line| line.split(':').nth(2) == Some(&uid));
        let name = user.and_then(|line| line.split(':').next()).expect("this user is listed");
        let locks = home.run(&["locks", "--json"]).json();
        assert_eq!(locks["locks"][0]["by"], name, "{locks}");
        let refused = home.run(&["launch", "demo", "-p", "x", "--cwd", "w"]);
        assert_fails(&refused, 5, &[&format!("locked by {name}"), "`agentctl unlock ~/w` removes"]);
        let again = home.run(&["lock", "w"]);
        assert_fails(&again, 5, &["is already locked", "`agentctl unlock ~/w` removes"]);
    });
}

#[test]
fn a_hook_without_its_program_is_refused_before_the_launch() {
    sandboxed(|| {
        let home = home();
        for flag in ["--on-complete", "--on-create"] {
            let refused = home.run(&["launch", "demo", "-p", "x", flag, "/no/such/program"]);
            let hook = format!("the {} hook: `/no/such/program` is not a program", &flag[2..]);
            assert_fails(&refused, 1, &["nothing was launched", &hook, "sh -c"]);
        }
        crate::configure(&home, &[], "[hooks]\non_complete = [\"no-such-program\"]\n");
        let refused = home.run(&["launch", "demo", "-p", "x"]);
        assert_fails(&refused, 1, &["`no-such-program` is not a program"]);
        assert!(runs(&home).is_empty(), "nothing was started");
    });
}

#[test]
fn an_empty_model_is_a_usage_error() {
    sandboxed(|| {
        let home = home();
        for model in ["", " "] {
            let refused = home.run(&["launch", "demo", "-p", "x", "--model", model]);
            assert_fails(&refused, 2, &["--model"]);
        }
        crate::configure(&home, &[], "model = \"\"");
        let refused = home.run(&["launch", "demo", "-p", "x"]);
        assert_fails(&refused, 1, &["line 1: model: it is empty"]);
    });
}

#[test]
fn a_home_that_does_not_exist_is_not_created() {
    sandboxed(|| {
        let mut home = home();
        let work = folder(&home, "w");
        let absent = home.path().join("no/such/home");
        home.set("HOME", absent.to_string_lossy());
        for args in
            [&["launch", "demo", "-p", "x", "--cwd", &work][..], &["lock", &work], &["demo"]]
        {
            let refused = home.run(args);
            assert_fails(&refused, 1, &["no/such/home does not exist"]);
        }
        assert!(!home.path().join("no").exists());
    });
}

/// Makes the folder for state and data impossible to create. Root may write into a read-only folder.
fn without_state(home: &TestHome) {
    home.write(".local", "a file in the way");
}

#[test]
fn an_error_about_own_files_names_the_path() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        without_state(&home);
        let launched = home.run(&["launch", "demo", "-p", "x", "--cwd", "w"]);
        assert_fails(&launched, 1, &["/.local/state/agentctl", "cannot be created"]);
        let locked = home.run(&["lock", "w"]);
        assert_fails(&locked, 1, &["the lock of ~/w", "/.local/state/agentctl"]);
        assert!(!locked.stderr.contains("~/w is not a directory"), "{}", locked.stderr);
        for order in ["start", "run"] {
            let daemon = home.run(&["daemon", order]);
            assert_fails(&daemon, 1, &["/.local/state/agentctl cannot be created"]);
        }
        let demo = home.run(&["demo"]);
        assert_fails(&demo, 1, &["the demo cannot write to", "/.local/share/agentctl-demo"]);
    });
}

#[test]
fn the_hint_for_a_timeout_without_a_wait_says_what_to_add() {
    sandboxed(|| {
        let home = home();
        let refused = home.run(&["launch", "demo", "-p", "x", "--timeout", "5m"]);
        assert_fails(&refused, 2, &["--timeout needs --wait or --follow", "hint: add --wait"]);
    });
}

#[test]
fn a_status_that_can_no_longer_be_reached_is_explained() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:ok]]", &[]);
        until_stopped(&home, &id);
        let missed = home.run(&["wait", &id, "--for", "running"]);
        let why = format!("{id} is stopped and can no longer become running");
        assert_fails(&missed, 1, &[&why]);
    });
}
