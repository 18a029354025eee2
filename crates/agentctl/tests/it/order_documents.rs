//! `--json` of the orders that change locks, fuses and the daemon.

use testkit::sandboxed;

use crate::home;

#[test]
fn locks_and_fuses_answer_as_json() {
    sandboxed(|| {
        let home = home();
        std::fs::create_dir_all(home.path().join("w")).expect("made");
        let directory = std::fs::canonicalize(home.path().join("w")).expect("there");
        let directory = directory.to_string_lossy();
        let run = |args: &[&str]| {
            let output = home.command(args).env("AGENTCTL_NO_DAEMON", "1").output().expect("runs");
            assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
            serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
        };
        let locked = run(&["lock", "w", "--by", "ada", "--ttl", "2h", "--json"]);
        assert_eq!(locked["directory"], &*directory);
        assert_eq!(locked["lock"]["by"], "ada");
        assert!(locked["lock"]["until"].is_string(), "{locked}");
        let unlocked = run(&["unlock", "w", "--json"]);
        assert_eq!(
            (&unlocked["directory"], &unlocked["lock"]),
            (&(&*directory).into(), &().into())
        );
        let set = run(&["fuse", "set", "w", "--ttl", "2h", "--json"]);
        let id = set["fuse"]["id"].as_str().expect("an id").to_owned();
        let extended = run(&["fuse", "extend", "w", "--ttl", "4h", "--json"]);
        assert_eq!(extended["fuse"]["id"], id.as_str());
        assert_ne!(extended["fuse"]["due_at"], set["fuse"]["due_at"]);
        let cancelled = run(&["fuse", "cancel", "w", "--json"]);
        assert_eq!(cancelled["fuse"]["id"], id.as_str());
        // Errors are JSON too.
        let none = home.run(&["fuse", "cancel", "w", "--json"]);
        assert_eq!((none.code, none.json()["error"]["message"].is_string()), (Some(4), true));
        let none = home.run(&["unlock", "w", "--json"]);
        assert_eq!((none.code, none.json()["error"]["message"].is_string()), (Some(4), true));
    });
}

#[test]
fn the_daemon_answers_as_json_when_it_is_started_and_stopped() {
    sandboxed(|| {
        let home = home();
        let change = |args: &[&str]| {
            let output = home.run(&[&["daemon"], args, &["--json"]].concat());
            assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
            let document = output.json();
            (document["result"].as_str().expect("a word").to_owned(), document["pid"].clone())
        };
        assert_eq!(change(&["stop"]), ("not_running".to_owned(), ().into()));
        let (result, pid) = change(&["start"]);
        assert_eq!(result, "started");
        assert!(pid.is_u64(), "{pid}");
        assert_eq!(change(&["start"]), ("already_running".to_owned(), pid.clone()));
        assert_eq!(change(&["stop"]), ("stopped".to_owned(), pid));
    });
}
