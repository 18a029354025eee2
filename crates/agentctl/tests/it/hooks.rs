//! Hooks: their facts, their report in the run folder, and their failures, which are never fatal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::hook_page::assert_documented;
use crate::launched::{folder, launch, runs, shims, status, until_stopped};

/// Waits for the file that a hook writes last, and returns its contents.
fn written(home: &TestHome, name: &str) -> String {
    eventually("the hook has written", || {
        fs::read_to_string(home.path().join(name)).ok().filter(|t| t.ends_with("end\n"))
    })
}

fn variables(text: &str) -> impl Fn(&str) -> String {
    let text = text.to_owned();
    move |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(&format!("AGENTCTL_{name}=")));
        line.unwrap_or_else(|| panic!("no AGENTCTL_{name} in\n{text}")).to_owned()
    }
}

#[test]
fn both_hooks_get_correct_facts_and_run_in_the_session_directory() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w/.git");
        home.write("w/.git/HEAD", "ref: refs/heads/fix/login\n");
        let hook = |name: &str| {
            format!(
                "sh -c 'env > \"$HOME/{name}\"; pwd >> \"$HOME/{name}\"; cat > \"$HOME/{name}.json\"; echo said so; echo end >> \"$HOME/{name}\"'"
            )
        };
        let (begun, ended) = (hook("begun"), hook("ended"));
        let more =
            ["--on-create", &begun, "--on-complete", &ended, "--group", "g", "--model", "m-1"];
        let id = launch(&home, "w", "x [[say:hello]] [[error:no luck]]", &more);
        let text = written(&home, "begun");
        assert_documented("Launch hooks", &text);
        let get = variables(&text);
        assert_eq!((get("HOOK"), get("SESSION_ID")), ("on-create".into(), id.clone()));
        assert_eq!(get("EXIT_CODE"), "", "the session has not ended");
        let text = written(&home, "ended");
        assert_documented("Launch hooks", &text);
        let get = variables(&text);
        assert!(text.contains(&format!("\n{}\n", folder(&home, "w"))), "{text}");
        for (name, value) in [
            ("HOOK", "on-complete"),
            ("SESSION_ID", &id),
            ("ADAPTER", "demo"),
            ("CWD", &folder(&home, "w")),
            ("BRANCH", "fix/login"),
            ("GROUP", "g"),
            ("MODEL", "m-1"),
            ("STATUS", "error"),
            ("OUTCOME", "failed"),
            ("EXIT_CODE", "1"),
            ("SIGNAL", ""),
        ] {
            assert_eq!(get(name), value, "{name}");
        }
        assert!(get("DURATION_SECONDS").parse::<f64>().expect("a number") >= 0.0);
        let tokens = &status(&home, &id)["tokens"];
        assert_eq!(get("TOKENS_OUTPUT"), tokens["output"].to_string());
        assert!(!text.contains("AGENTCTL_RUN="), "a hook is no descendant of the agent");
        let told = fs::read_to_string(home.path().join("ended.json")).expect("told");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&told["session_id"], &told["exit"]["code"]), (&id.as_str().into(), &1.into()));
        assert_eq!(told["session"]["reason"]["detail"], "no luck");
        let run = runs(&home).pop().expect("a run");
        let said = format!("{}/on-complete.log", run["directory"].as_str().expect("a folder"));
        eventually("its output is stored", || {
            fs::read_to_string(&said).ok().filter(|t| t == "said so\n")
        });
    });
}

#[test]
fn a_failing_hook_is_reported_and_changes_nothing() {
    sandboxed(|| {
        let home = home();
        let launched = home.run(&[
            "launch",
            "demo",
            "-p",
            "x [[say:ok]]",
            "--on-create",
            "sh -c 'exit 3'",
            "--on-complete",
            "nosuchprogram",
        ]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert!(
            launched.stderr.contains("the on-create hook failed: it exited with 3"),
            "{launched:?}"
        );
        let id = launched.stdout.trim();
        assert_eq!(until_stopped(&home, id)["outcome"], "finished");
        let failures = eventually("both failures are kept", || {
            let run = runs(&home).pop()?;
            run["hook_failures"].as_array().cloned().filter(|f| f.len() == 2)
        });
        assert_eq!(failures[0], "on-create: it exited with 3");
        assert_eq!(failures[1], "on-complete: `nosuchprogram` is not a program");
        assert!(home.run(&["runs"]).stdout.contains("on-complete: `nosuchprogram`"));
    });
}

#[test]
fn a_hook_that_others_could_change_is_not_run() {
    sandboxed(|| {
        let home = home();
        let hook = home.write("hook.sh", "#!/bin/sh\ntouch \"$HOME/ran\"\n");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o777)).expect("set");
        let launched =
            home.run(&["launch", "demo", "-p", "x [[say:ok]]", "--on-create", "./hook.sh"]);
        assert!(launched.stderr.contains("can be written by others"), "{}", launched.stderr);
        assert!(!home.path().join("ran").exists());
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
        let cwd = folder(&home, "w");
        // A relative path is resolved against the user's directory; the hook runs in the session's.
        let launched = home.run(&[
            "launch",
            "demo",
            "-p",
            "x [[say:ok]]",
            "--cwd",
            &cwd,
            "--on-complete",
            "./hook.sh",
        ]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        eventually("it was run", || home.path().join("ran").exists().then_some(()));
    });
}

#[test]
fn configured_hooks_are_argv_and_run_without_a_command_or_daemon() {
    sandboxed(|| {
        let home = home();
        let config = "[hooks]\non_complete = [\"sh\", \"-c\", \"printf '%s end\\\\n' \\\"$AGENTCTL_EXIT_CODE $0\\\" > \\\"$HOME/ended\\\"\", \"a  b'c\"]\n";
        crate::configure(&home, &[], config);
        let id = launch(&home, "w", "x [[tool:kill -9 $PPID]]", &[]);
        assert_eq!(written(&home, "ended"), "137 a  b'c end\n");
        assert_eq!(until_stopped(&home, &id)["exit"]["signal"], 9);
        eventually("the shim has ended", || shims().is_empty().then_some(()));
    });
}

#[test]
fn the_stored_output_of_a_hook_is_limited() {
    const KEPT: u64 = 64 << 10;
    sandboxed(|| {
        let home = home();
        let hook = "sh -c 'yes | head -c 1000000; echo end > \"$HOME/ended\"'";
        launch(&home, "w", "x [[say:ok]]", &["--on-complete", hook]);
        written(&home, "ended");
        let run = runs(&home).pop().expect("a run");
        let log = format!("{}/on-complete.log", run["directory"].as_str().expect("a folder"));
        let size = eventually("its output is stored", || {
            fs::metadata(&log).ok().map(|m| m.len()).filter(|n| *n >= KEPT)
        });
        assert_eq!(size, KEPT);
    });
}
