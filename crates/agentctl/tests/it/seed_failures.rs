//! The failures this program was written to make impossible, each as it once happened.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Echo, TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{
    everyone, folder, kill, launch, marked, runs, script, shims, status, until_said,
};

fn pid_of(session: &Value) -> u32 {
    u32::try_from(session["pid"].as_u64().expect("a pid")).expect("fits")
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid"), signal).expect("sent");
}

/// A Claude that is up but says nothing until a gate is opened; then it registers as Claude does.
fn gated_claude(home: &TestHome) {
    let gate = home.at("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).expect("a gate");
    script(
        home,
        "claude",
        r#"
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
read _ < "$HOME/gate"
start=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)
ns=$(readlink /proc/$$/ns/pid)
mkdir -p "$HOME/.claude/sessions"
printf '{"pid":%s,"sessionId":"%s","cwd":"%s","procStart":"%s","pidDomain":"linux:%s:%s","status":"busy","kind":"interactive","entrypoint":"sdk-cli"}' \
  $$ "$id" "$PWD" "$start" "$(cat /etc/machine-id)" "$ns" > "$HOME/.claude/sessions/$$.json"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\"}"
read _ < "$HOME/gate"
"#,
    );
}

fn open_gate(home: &TestHome) {
    fs::write(home.path().join("gate"), "go\n").expect("opened");
}

#[test]
fn wrapper_is_terminated_while_the_agent_lives() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        gated_claude(&home);
        let cwd = folder(&home, "w");
        // The launcher is terminated while it waits for the id.
        let args = ["launch", "claude-code", "-p", "x", "--cwd", &cwd];
        let mut launcher = home.command(&args).stdout(Stdio::piped()).spawn().expect("starts");
        let agent = eventually("the agent is up", || {
            marked().into_iter().find(|p| p.argv.iter().any(|a| a.ends_with("/claude")))
        });
        signal(launcher.id(), Signal::TERM);
        launcher.wait().expect("reaped");
        open_gate(&home);
        let row = eventually("it registers", || {
            home.run(&["list", "--json"]).sessions().into_iter().find(|s| !s["id"].is_null())
        });
        assert_eq!((&row["status"], pid_of(&row)), (&json!("running"), agent.pid));
        let at = agent.argv.iter().position(|a| a == "--session-id").expect("chosen") + 1;
        assert_eq!(row["id"], agent.argv[at].as_str(), "its real id");
        // Its parent is terminated, too.
        for shim in shims() {
            signal(shim.pid, Signal::TERM);
        }
        eventually("the shim is gone", || shims().is_empty().then_some(()));
        let id = row["id"].as_str().expect("an id");
        assert_eq!(status(&home, id)["status"], "running");
        let refused = home.run(&args);
        assert_eq!(refused.code, Some(5), "its directory is still its own: {}", refused.stderr);
        assert!(refused.stderr.contains(id), "{}", refused.stderr);
        open_gate(&home);
    });
}

#[test]
fn an_adapter_that_fails_stops_nothing() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_said(&home, &id, "[[hang]]");
        let pid = pid_of(&status(&home, &id));
        let live = home.path().join(".local/share/agentctl-demo/live");
        let aside = home.path().join("aside");
        fs::rename(&live, &aside).expect("moved");
        fs::write(&live, "no directory any more").expect("written");
        let failed = home.run(&["list", "-a", "--json"]);
        assert_eq!(failed.code, Some(3), "{}", failed.stderr);
        for row in failed.sessions() {
            assert!(row["status"] != "stopped" && row["status"] != "error", "{row}");
        }
        let stopped = home.run(&["stop", &id]);
        assert_ne!(stopped.code, Some(0), "what cannot be told is not claimed: {stopped:?}");
        let refused = home.run(&["launch", "demo", "-p", "y", "--cwd", "w"]);
        assert_eq!(refused.code, Some(5), "its directory is not free either: {}", refused.stderr);
        assert!(everyone().iter().any(|p| p.pid == pid), "it lives");
        fs::remove_file(&live).expect("removed");
        fs::rename(&aside, &live).expect("moved back");
        assert_eq!(status(&home, &id)["status"], "running");
    });
}

#[test]
fn no_placeholder_id_survives() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        crate::configure(&home, &[("launch", "300ms")], "");
        script(&home, "claude", "sleep 600");
        script(&home, "codex", "echo '{\"type\":\"turn.started\"}'; sleep 600");
        for agent in ["claude-code", "codex"] {
            let failed = home.run(&["launch", agent, "-p", "x"]);
            assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{}", failed.stderr);
        }
        let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
        assert!(listed.sessions().is_empty(), "{}", listed.stdout);
        for said in [listed.stdout, home.run(&["runs", "--json"]).stdout] {
            assert!(!said.contains("pending"), "{said}");
        }
        let kept = runs(&home);
        let codex = kept.iter().find(|r| r["adapter"] == "codex").expect("its log is kept");
        assert_eq!(codex["session"], Value::Null, "it never told one");
        assert_eq!(home.run(&["status", "@last"]).code, Some(4));
        eventually("nobody is left", || (marked().is_empty() && shims().is_empty()).then_some(()));
    });
}

#[test]
fn stale_files_and_a_recycled_pid_make_no_ghost() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        let session = eventually("its turn has begun", || {
            Some(status(&home, &id)).filter(|s| !s["prompt"].is_null())
        });
        let pid = pid_of(&session);
        kill(pid);
        eventually("it is reaped", || (!everyone().iter().any(|p| p.pid == pid)).then_some(()));
        eventually("its parent leaves", || shims().is_empty().then_some(()));
        let ticks = session["processes"][0]["start_ticks"].as_u64().expect("ticks");
        testkit::after_tick(ticks);
        let mut stranger = Echo::start("cat", Some(pid));
        let record = home.path().join(format!(".local/share/agentctl-demo/live/{pid}.json"));
        assert!(record.exists(), "SIGKILL leaves it behind");
        assert!(home.run(&["list", "--json"]).sessions().is_empty());
        assert_eq!(status(&home, &id)["outcome"], "killed");
        let stopped = home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        assert!(stranger.answers(), "the stranger was not touched");
        let again = launch(&home, "w", "y [[say:ok]]", &[]);
        assert_ne!(again, id);
        assert!(stranger.answers());
    });
}

#[test]
fn a_crashed_session_frees_its_directory() {
    sandboxed(|| {
        let home = home();
        for round in 0..5 {
            let id = launch(&home, "w", "x [[hang]]", &[]);
            let pid = pid_of(&status(&home, &id));
            if round % 2 == 0 {
                kill(shims().pop().expect("its parent").pid);
            }
            kill(pid);
            // Nothing is waited for and nothing is reaped: the next one simply goes in.
            let locks = home.run(&["locks", "--json"]).json();
            assert_eq!(locks["locks"], json!([]), "round {round}");
        }
    });
}
