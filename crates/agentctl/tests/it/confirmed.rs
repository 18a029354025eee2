//! Orders that act on more than what was named ask on a terminal and need `-y` elsewhere.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{folder, launch, runs, status, until_asked, until_stopped};

fn is_live(home: &TestHome, id: &str) -> bool {
    !matches!(status(home, id)["status"].as_str(), Some("stopped" | "error"))
}

/// Runs the program on a terminal with this input. Its stdout is the terminal, or a pipe.
pub(crate) fn on_terminal(
    home: &TestHome,
    args: &[&str],
    words: &str,
    stdout_is_pipe: bool,
) -> Option<i32> {
    typed_on_terminal(home.command(args), words, stdout_is_pipe)
}

/// Runs `agentctl stop` in a directory, on a terminal with this input.
fn in_directory(home: &TestHome, directory: impl AsRef<Path>, words: &str) -> Option<i32> {
    let mut command = home.command(&["stop"]);
    command.current_dir(directory);
    typed_on_terminal(command, words, false)
}

fn typed_on_terminal(mut command: Command, words: &str, stdout_is_pipe: bool) -> Option<i32> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let open = || {
        let file = File::options().read(true).write(true).open(name.to_str().expect("UTF-8"));
        file.expect("opened")
    };
    command.stdin(open()).stderr(open());
    command.stdout(if stdout_is_pipe { Stdio::piped() } else { open().into() });
    let child = command.spawn().expect("starts");
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(words.as_bytes()).expect("typed");
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // Reading a terminal fails when its last writer has exited.
        let _left = terminal.read_to_end(&mut said);
    });
    let code = child.wait_with_output().expect("ends").status.code();
    reader.join().expect("read");
    code
}

/// Waits until the ends of all runs are written.
fn until_over(home: &TestHome, count: usize) {
    eventually("the ends are written", || {
        let over = runs(home).iter().filter(|run| !run["exit"].is_null()).count();
        (over == count).then_some(())
    });
}

#[test]
fn a_stop_of_many_needs_yes_where_nobody_can_be_asked() {
    sandboxed(|| {
        let home = home();
        let ids = ["a", "b"].map(|w| launch(&home, w, "x [[hang]]", &["--group", "g"]));
        let other = launch(&home, "c", "x [[hang]]", &[]);
        for id in ids.iter().chain([&other]) {
            until_asked(&home, id);
        }
        for args in [&["stop", "--all"][..], &["stop", "--group", "g"], &["kill", "--cwd", "a"]] {
            let refused = home.run(args);
            assert_eq!(refused.code, Some(5), "{args:?}: {}", refused.stderr);
            assert!(refused.stdout.contains(&ids[0][..8]), "a list: {}", refused.stdout);
            assert!(refused.stderr.contains("-y"), "{}", refused.stderr);
            // A preview that is piped into a pager executes nothing either.
            assert_eq!(on_terminal(&home, args, "y\n", true), Some(5), "{args:?}");
        }
        let refused = home.run(&["stop", "--group", "g", "--json"]);
        assert_eq!(refused.code, Some(5));
        let error = &refused.json()["error"];
        assert_eq!(error["code"], "refused");
        assert!(ids.iter().all(|id| error["message"].as_str().expect("text").contains(id)));
        assert_eq!(on_terminal(&home, &["stop", "--group", "g"], "n\n", false), Some(5));
        assert!(ids.iter().chain([&other]).all(|id| is_live(&home, id)), "none was stopped");
        assert_eq!(on_terminal(&home, &["stop", "--cwd", "a"], "y\n", false), Some(0));
        assert!(!is_live(&home, &ids[0]) && is_live(&home, &ids[1]));
        let stopped = home.run(&["stop", "--group", "g", "-y"]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(!is_live(&home, &ids[1]) && is_live(&home, &other), "the group alone");
        assert_eq!(home.run(&["kill", &other]).code, Some(0), "a named one needs no -y");
    });
}

#[test]
fn a_stop_without_an_id_means_the_only_live_session_here() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        let run_with = |args: &[&str]| {
            let output = home.command(args).current_dir(&w).output().expect("runs");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let run = || run_with(&["stop"]);
        let ended = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &ended);
        assert_eq!(run().0, Some(4), "an ended one is not meant");
        let ids = [(); 2].map(|()| launch(&home, "w", "x [[hang]]", &["--force"]));
        for id in &ids {
            until_asked(&home, id);
        }
        let (code, stderr) = run();
        assert_eq!(code, Some(4), "{stderr}");
        assert!(ids.iter().all(|id| stderr.contains(id)), "{stderr}");
        assert!(ids.iter().all(|id| is_live(&home, id)));
        assert_eq!(home.run(&["stop", &ids[0]]).code, Some(0));
        // `agentctl list -q … | xargs agentctl stop` with an empty list is this order.
        for order in ["stop", "kill"] {
            let output = home.command(&[order]).current_dir(&w).output().expect("runs");
            assert_eq!(output.status.code(), Some(5));
            let (stdout, stderr) =
                [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("UTF-8")).into();
            assert!(stdout.contains(&ids[1][..8]), "the row: {stdout}");
            assert!(stderr.contains("`.`") && stderr.contains("-y"), "{stderr}");
        }
        let json = home.command(&["stop", "--json"]).current_dir(&w).output().expect("runs");
        assert_eq!(json.status.code(), Some(5));
        assert!(String::from_utf8_lossy(&json.stdout).contains(&ids[1]));
        assert_eq!(in_directory(&home, &w, "n\n"), Some(5));
        assert!(is_live(&home, &ids[1]), "nothing was stopped");
        assert_eq!(in_directory(&home, &w, "y\n"), Some(0));
        assert!(!is_live(&home, &ids[1]));
        let last = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &last);
        assert_eq!(run_with(&["stop", "-y"]).0, Some(0));
        assert!(!is_live(&home, &last));
    });
}

#[test]
fn prune_needs_yes_where_nobody_can_be_asked() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &id);
        until_over(&home, 1);
        for args in [&["prune"][..], &["prune", "--json"]] {
            let refused = home.run(args);
            assert_eq!(refused.code, Some(5), "{}", refused.stderr);
            assert_eq!(on_terminal(&home, args, "y\n", true), Some(5), "{args:?}");
        }
        assert!(home.run(&["prune"]).stdout.contains(&id[..8]), "it lists them");
        assert_eq!(on_terminal(&home, &["prune"], "n\n", false), Some(5));
        assert_eq!(home.run(&["prune", "-n"]).code, Some(0));
        assert_eq!(runs(&home).len(), 1, "none was removed");
        assert_eq!(on_terminal(&home, &["prune"], "y\n", false), Some(0));
        assert!(runs(&home).is_empty());
        assert_eq!(home.run(&["prune"]).code, Some(0), "nothing to remove, nothing to confirm");
    });
}

#[test]
fn rm_removes_the_runs_of_one_session_and_leaves_its_record() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &["--name", "painter"]);
        let other = launch(&home, "v", "x [[say:hi]]", &[]);
        let live = launch(&home, "u", "x [[hang]]", &[]);
        until_stopped(&home, &id);
        until_stopped(&home, &other);
        until_over(&home, 2);
        assert_eq!(home.run(&["rm", &live]).code, Some(5));
        let removed = home.run(&["rm", "painter"]);
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
        assert!(removed.stdout.contains(&id), "{}", removed.stdout);
        assert!(removed.stderr.contains("records stay"), "{}", removed.stderr);
        let left: Vec<_> = runs(&home).iter().map(|run| run["session"].clone()).collect();
        assert!(left.len() == 2 && !left.contains(&id.as_str().into()), "{left:?}");
        assert_eq!(status(&home, "painter")["id"], id.as_str(), "session and name stay");
        assert_eq!(home.run(&["rm", "painter"]).code, Some(4), "no run of it is kept");
        assert_eq!(home.run(&["rm", "no-such-session"]).code, Some(4));
        // Nothing is removed if one of several is refused.
        for (refused, code) in [(&*live, 5), ("no-such-session", 4)] {
            assert_eq!(home.run(&["rm", &other, refused, "--json"]).code, Some(code));
            assert_eq!(runs(&home).len(), 2, "{refused}");
        }
        assert_eq!(home.run(&["prune", &other]).code, Some(0), "the same, with its long name");
        assert_eq!(runs(&home).len(), 1);
    });
}

#[test]
fn to_undo_nothing_is_exit_4() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        assert_eq!(home.run(&["unlock", &w]).code, Some(4));
        assert_eq!(home.run(&["fuse", "cancel", &w]).code, Some(4));
    });
}

#[test]
fn a_fuse_is_extended_and_cancelled_by_the_name_of_its_session() {
    sandboxed(|| {
        let mut home = home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let id = launch(&home, "w", "x [[hang]]", &["--name", "uniq"]);
        until_asked(&home, &id);
        for args in [
            &["fuse", "set", "--session", "uniq", "--max-runtime", "2h"][..],
            &["fuse", "extend", "--session", "uniq", "--max-runtime", "3h"],
        ] {
            let done = home.run(args);
            assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        }
        let shown = home.run(&["fuses"]).stdout;
        assert!(shown.contains(&format!("demo:{}", &id[..8])), "{shown}");
        assert_eq!(home.run(&["fuse", "cancel", "--session", "uniq"]).code, Some(0));
        assert_eq!(home.run(&["fuse", "cancel", "--session", "uniq"]).code, Some(4));
        assert_eq!(home.run(&["fuse", "cancel", "--session", "nobody"]).code, Some(4));
    });
}
