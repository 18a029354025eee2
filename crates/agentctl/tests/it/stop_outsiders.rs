//! Stopping what has left the agent's pid namespace, its user, or our sight.

use serde_json::json;
use testkit::{TestHome, sandboxed};

use crate::home;
use crate::launched::{launch, status};
use crate::stop::{lives, written_pid};

/// Launches an agent whose tool is started by these words, and returns the tool's pid. It asks `/proc`,
/// which is the test's own: inside another namespace `$$` is another number.
fn with_tool(home: &TestHome, starter: &str) -> (String, u32) {
    let pid = home.at("pids/tool");
    let text = format!(
        "{starter} setsid sh -c 'read p r < /proc/self/stat; echo $p; exec sleep 600' > {}\n",
        pid.display()
    );
    let script = home.write("parts/tool.sh", text);
    let id = launch(home, "ws", &format!("x [[tool:sh {}]]", script.display()), &[]);
    (id, written_pid(&pid))
}

#[test]
fn a_tool_in_a_pid_namespace_of_its_own_goes_too() {
    sandboxed(|| {
        for haste in [None, Some("--force")] {
            let home = home();
            let (id, tool) = with_tool(&home, "unshare -p -f");
            let mut args = vec!["stop", &id, "--json"];
            args.extend(haste);
            let told = home.run(&args);
            assert!(!lives(tool), "{told:?}");
            assert_eq!((told.code, &told.json()["survivors"]), (Some(0), &json!([])), "{told:?}");
            assert_eq!(status(&home, &id)["status"], "stopped");
        }
    });
}

#[test]
fn a_tool_of_another_user_goes_too() {
    sandboxed(|| {
        for haste in [None, Some("--force")] {
            let home = home();
            // Of the tree it is the last link; with the line broken, what is below the shim.
            for starter in ["exec", "setsid --fork"] {
                let starter = format!("{starter} setpriv --reuid 65534 --clear-groups");
                let (id, tool) = with_tool(&home, &starter);
                let mut args = vec!["stop", &id, "--json"];
                args.extend(haste);
                let told = home.run(&args);
                assert!(!lives(tool), "{told:?}");
                let survivors = &told.json()["survivors"];
                assert_eq!((told.code, survivors), (Some(0), &json!([])), "{told:?}");
                std::fs::remove_file(home.path().join("pids/tool")).expect("removed");
            }
        }
    });
}

/// As of an agent that may start `sudo` and not signal it.
#[test]
fn a_tool_that_may_not_be_signalled_is_named() {
    sandboxed(|| {
        let home = home();
        let (id, tool) = with_tool(&home, "setpriv --reuid 65534 --clear-groups");
        // Without its capabilities root is a user like any other, with files of its own.
        let mut bound = std::process::Command::new("setpriv");
        let plain = home.command(&["stop", &id, "--json"]);
        bound.args(["--bounding-set=-kill", "--inh-caps=-kill"]).arg(plain.get_program());
        bound.args(plain.get_args()).env_clear();
        bound.envs(plain.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let output = bound.output().expect("setpriv of util-linux");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(lives(tool), "{told:#}");
        assert_eq!(output.status.code(), Some(1), "{told:#}");
        let why = "it could not be signalled: Operation not permitted (os error 1)";
        assert_eq!(
            told["survivors"],
            json!([{"pid": tool, "command": "sleep 600", "why": why, "session": id}]),
            "{told:#}"
        );
    });
}
