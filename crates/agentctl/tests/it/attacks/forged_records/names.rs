//! Programs that only bear the name of OpenCode or Pi.

/// S1: a program that is called `opencode` and is not OpenCode is given no session and gets no signal.
#[test]
fn a_program_that_only_bears_the_name_of_opencode_serves_no_session() {
    use crate::opencode::{A, answered, list, world};
    testkit::sandboxed(|| {
        let (home, store, directory) = world();
        store.session(A, &directory, None);
        store.message(A, 0, &answered("stop"));
        let editor = home.at("bin/editor");
        std::fs::copy(testkit::fake_agent(), &editor).expect("copied");
        let link = home.at("links/opencode");
        std::os::unix::fs::symlink(&editor, &link).expect("linked");
        let database = home.at(".local/share/opencode/opencode.db");
        let mut command = std::process::Command::new(&link);
        command.args(["run", "--session", A, "open"]).arg(&database);
        command.env_clear().env("HOME", home.path()).current_dir(home.path());
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut stranger = testkit::Agent { child: command.spawn().expect("started") };
        stranger.ready();
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["processes"]),
            (&"stopped".into(), &serde_json::json!([]))
        );
        let _told = home.run(&["stop", A, "--force"]);
        assert!(stranger.child.try_wait().expect("asked").is_none(), "it was killed");
    });
}

/// S1: Node under the name of Pi, without Pi's script or title, is given no session and gets no signal.
#[test]
fn a_runtime_that_only_bears_the_name_of_pi_serves_no_session() {
    use crate::pi::{A, list, place};
    testkit::sandboxed(|| {
        let home = crate::home();
        let node = home.at("bin/node");
        std::fs::copy(testkit::fake_agent(), &node).expect("copied");
        let link = home.at("links/pi");
        std::os::unix::fs::symlink(&node, &link).expect("linked");
        std::fs::create_dir_all(home.path().join("ws")).expect("made");
        let path = place(&home, "ws", A);
        let header = serde_json::json!({"type": "session", "version": 3, "id": A,
            "timestamp": "2026-01-15T07:53:25.730Z", "cwd": home.path().join("ws")});
        home.write(path.to_str().expect("a path"), format!("{header}\n"));
        let mut command = std::process::Command::new(&link);
        command.args(["env", "PI_SESSION_ID", A, "start", "exec sleep 1000"]);
        command.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command.current_dir(home.path().join("ws"));
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut stranger = testkit::Agent { child: command.spawn().expect("started") };
        stranger.ready();
        let row = list(&home).session(A);
        assert_eq!(
            (&row["status"], &row["processes"]),
            (&"stopped".into(), &serde_json::json!([]))
        );
        let _told = home.run(&["stop", A, "--force"]);
        assert!(stranger.child.try_wait().expect("asked").is_none(), "it was killed");
    });
}

/// A Pi process works for one session, and its tool sets another, finished session for its children:
/// that session is not joined, and `stop` of it signals no process.
#[test]
fn a_session_that_only_a_tool_names_and_pi_has_not_written_is_not_joined() {
    use crate::pi::{A, B, ended, list, said, session, start, tool};
    testkit::sandboxed(|| {
        let home = crate::home();
        let file = session(&home, "elsewhere", B, &[said("1", None, "x"), ended("2", "1", "stop")]);
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(20);
        let opened = std::fs::File::options().append(true).open(&file).expect("there");
        opened.set_modified(long_ago).expect("set");
        let mut agent = start(&home, "ws", &[], &tool(B));
        let row = list(&home).session(B);
        assert_eq!((&row["status"], &row["pid"]), (&"stopped".into(), &serde_json::Value::Null));
        for args in [&["stop", B][..], &["stop", B, "--force"]] {
            let told = home.run(args);
            assert!(agent.child.try_wait().expect("asked").is_none(), "{args:?}: {told:?}");
        }
        assert!(list(&home).sessions().iter().all(|row| row["id"] != A));
    });
}
