//! Stopping processes in another pid namespace, of another user, or hidden from this user.

use serde_json::json;
use testkit::{TestHome, another_user, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt};
use crate::home;
use crate::launched::{launch, status};
use crate::stop::{lives, written_pid};

/// Launches an agent whose tool is started by this command, and returns the tool's pid. The pid comes from
/// the test's `/proc`: inside another namespace `$$` is another number.
fn with_tool(home: &TestHome, starter: &str) -> (String, u32) {
    let pid = home.at("pids/tool");
    let text = format!(
        "{starter} setsid sh -c 'read p r < /proc/self/stat; echo $p; exec sleep 600' > {}\n",
        pid.display()
    );
    let script = home.write("parts/tool.sh", text);
    let id = launch(home, "ws", &format!("x [[tool:sh {}]]", script.display()), &[]);
    let pid = written_pid(&pid);
    // The script writes its pid a moment before its exec.
    eventually("the tool is at work", || {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name == "sleep\n").then_some(())
    });
    (id, pid)
}

#[test]
fn a_tool_in_a_pid_namespace_of_its_own_is_ended_too() {
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
#[ignore = "needs root: it plays another user"]
fn a_tool_of_another_user_is_ended_too() {
    sandboxed(|| {
        let _other = another_user();
        for haste in [None, Some("--force")] {
            let home = home();
            // Once as a descendant with intact parents, once as an orphan below the shim.
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

/// As of an agent that may start `sudo` and cannot signal it.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_tool_that_may_not_be_signalled_is_named() {
    sandboxed(|| {
        let _other = another_user();
        let home = home();
        let (id, tool) = with_tool(&home, "setpriv --reuid 65534 --clear-groups");
        // Without its capabilities root is an ordinary user with files of its own.
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

/// Hides everything in `/proc` about a process except its name. The name is no agent's, so that only the
/// process tree misses it.
fn hide(pid: u32) {
    let folder = format!("/proc/{pid}");
    let script =
        format!("mount -t tmpfs hidden {folder} && mkdir {folder}/stat && echo x > {folder}/comm");
    let done = std::process::Command::new("sh").args(["-c", &script]).status();
    assert!(done.expect("a shell").success());
}

#[test]
fn a_hidden_process_makes_the_result_of_a_stop_unknown() {
    sandboxed(|| {
        let home = home();
        let (id, tool) = with_tool(&home, "");
        hide(tool);
        let told = home.run(&["stop", &id, "--json"]);
        assert_eq!(told.code, Some(3), "{told:?}");
        let told = told.json();
        assert_eq!(told["error"]["code"], "unknown", "{told:#}");
        let why = told["error"]["message"].as_str().expect("a message");
        assert!(why.contains(&format!("process {tool} could not be read")), "{told:#}");
    });
}

#[test]
fn a_home_that_only_the_agent_named_is_read_after_its_end() {
    sandboxed(|| {
        let mut claude = Claude::new();
        let moved = claude.home.at("moved/sessions/{pid}.json");
        claude.transcript(A, &[prompt("x")]);
        let record = claude.home.path().join(".claude/projects");
        let root = claude.home.path().join("moved");
        std::fs::rename(record, root.join("projects")).expect("moved");
        claude.record_path = moved.to_string_lossy().into_owned();
        claude.home.set("CLAUDE_CONFIG_DIR", root.to_string_lossy());
        let agent = claude.live(A, &json!({"status": "busy"}));
        claude.home.set("CLAUDE_CONFIG_DIR", "");
        let told = claude.home.run(&["stop", A, "--json"]);
        assert!(!lives(agent.pid()), "{told:?}");
        assert_eq!(told.code, Some(0), "{told:?}");
        let row = &told.json()["stopped"][0];
        assert_eq!((&row["status"], &row["already"]), (&"stopped".into(), &false.into()));
    });
}
