//! Class: a record or a lock that names a process which is not the agent's own (S1).
//!
//! Each test ends in `agentctl stop` of the session that the forged record invents: the process that it
//! names must live on, and the command must not say that it stopped anything.

mod claude_code;
mod codex;
mod names;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Agent, Echo, Output, TestHome, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt};
use crate::home;

const THREAD: &str = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";

/// The start time of a process, in ticks.
fn ticks(pid: u32) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a stat line");
    let tick = line.rsplit(") ").next().and_then(|s| s.split(' ').nth(19));
    tick.and_then(|t| t.parse().ok()).expect("a tick")
}

/// A process that only claims to be an agent: its environment names the home that the attacker wrote.
fn decoy(home: &mut TestHome, name: &str, variable: &str, root: &Path) -> Agent {
    home.set(variable, root.to_string_lossy());
    let program = home.at(&format!("ws/{name}"));
    std::fs::copy(testkit::fake_agent(), &program).expect("copied");
    let mut command = Command::new(&program);
    command.env_clear().env("HOME", home.path()).env(variable, root);
    command.current_dir(home.path().join("ws")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent { child: command.spawn().expect("the decoy starts") };
    agent.ready();
    home.set(variable, "");
    agent
}

/// A forged record of Claude Code with only the fields that are needed to be believed.
fn record(home: &TestHome, pid: u32) -> String {
    json!({"sessionId": A, "cwd": home.path().join("ws"), "procStart": ticks(pid).to_string(),
        "status": "busy"})
    .to_string()
}

/// Stops the session in every way there is; none of them may say that it was stopped.
fn assert_not_stopped(home: &TestHome, id: &str, victim: &mut Echo) {
    let pid = victim.pid();
    assert_unreached(home, id, pid, &mut || victim.answers());
}

fn assert_unreached(home: &TestHome, id: &str, pid: u32, lives: &mut dyn FnMut() -> bool) {
    for args in [&["stop", id][..], &["stop", id, "--force"], &["stop", "--all", "-y"]] {
        let told = home.run(args);
        assert!(lives(), "{args:?} reached it: {told:?}");
        let claims = told.stdout.contains("stopped") && told.stdout.contains(id);
        let already = told.stdout.contains("already");
        assert!(!claims || already, "{args:?}: {told:?}");
    }
    let by_pid = home.run(&["stop", &pid.to_string()]);
    assert!(lives() && by_pid.code != Some(0), "{by_pid:?}");
}

fn codes(told: &[Output]) -> Vec<Option<i32>> {
    told.iter().map(|t| t.code).collect()
}

/// S1: the record has the right start time and lies in a home that only a decoy names.
#[test]
fn a_record_in_a_decoys_home_that_names_a_stranger_kills_no_process() {
    sandboxed(|| {
        let mut home = home();
        let mut victim = Echo::start("cat", None);
        let path = format!("ws/.c/sessions/{}.json", victim.pid());
        let text = record(&home, victim.pid());
        home.write(&path, text);
        let root = home.path().join("ws/.c");
        let decoy = decoy(&mut home, "claude", "CLAUDE_CONFIG_DIR", &root);
        assert_not_stopped(&home, A, &mut victim);
        drop(decoy);
    });
}

/// S1: the same record in the user's own home: no record makes another program the agent.
#[test]
fn a_record_in_the_users_own_home_that_names_a_stranger_kills_no_process() {
    sandboxed(|| {
        let home = home();
        let mut victim = Echo::start("cat", None);
        let text = record(&home, victim.pid());
        home.write(&format!(".claude/sessions/{}.json", victim.pid()), text);
        assert_not_stopped(&home, A, &mut victim);
    });
}

/// S1: the start time is only guessed, by hundreds of records whose names all mean the same pid.
#[test]
fn four_hundred_guesses_at_a_start_time_kill_no_process() {
    sandboxed(|| {
        let mut home = home();
        let mut victim = Echo::start("cat", None);
        let (pid, tick) = (victim.pid(), ticks(victim.pid()));
        for (at, guess) in (tick - 200..tick + 200).enumerate() {
            let zeros = "0".repeat(at / 2);
            let plus = if at % 2 == 0 { "" } else { "+" };
            let text = json!({"sessionId": A, "cwd": "/w", "procStart": guess.to_string(),
                "status": "busy"});
            home.write(&format!("ws/.c/sessions/{plus}{zeros}{pid}.json"), text.to_string());
        }
        let root = home.path().join("ws/.c");
        let _decoy = decoy(&mut home, "claude", "CLAUDE_CONFIG_DIR", &root);
        assert_not_stopped(&home, A, &mut victim);
    });
}

/// S1: decoy and record are made in a pid namespace of their own, where the victim cannot be seen.
#[test]
fn a_record_written_in_another_pid_namespace_kills_no_process() {
    sandboxed(|| {
        let home = home();
        let mut victim = Echo::start("cat", None);
        let root = home.at("ws/.c/sessions/x").parent().expect("a parent").to_owned();
        let text = record(&home, victim.pid());
        let (ready, program) = (home.at("ws/ready"), home.at("ws/claude"));
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let script = home.write("ws/record.json", text);
        let script = format!(
            "kill -0 {pid} 2>/dev/null && exit 1; cat {record} > {root}/{pid}.json; \
             exec {program} stay write {ready} ready",
            pid = victim.pid(),
            record = script.display(),
            root = root.display(),
            program = program.display(),
            ready = ready.display(),
        );
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]);
        inside.env("CLAUDE_CONFIG_DIR", root.parent().expect("a parent")).stdout(Stdio::null());
        let _inside = Agent { child: inside.spawn().expect("`unshare` of util-linux") };
        eventually("the decoy is there", || ready.exists().then_some(()));
        assert_not_stopped(&home, A, &mut victim);
    });
}

/// S1: the record names another agent's real process, whose own environment names another home.
#[test]
fn a_record_that_names_a_real_agent_of_another_home_kills_no_process() {
    sandboxed(|| {
        let mut claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let real = claude.live(A, &json!({"status": "busy"}));
        let forged = "bbbbbbbb-0000-4000-8000-00000000000f";
        let text = json!({"sessionId": forged, "cwd": "/w", "status": "busy",
            "procStart": ticks(real.pid()).to_string()});
        claude.home.write(&format!("ws/.c/sessions/{}.json", real.pid()), text.to_string());
        let root = claude.home.path().join("ws/.c");
        let _decoy = decoy(&mut claude.home, "claude", "CLAUDE_CONFIG_DIR", &root);
        let told =
            [claude.home.run(&["stop", forged]), claude.home.run(&["stop", forged, "--force"])];
        assert!(crate::stop::lives(real.pid()), "{told:?}");
        assert!(codes(&told).iter().all(|code| *code != Some(0)), "{told:?}");
        assert_eq!(claude.row(A)["status"], "running");
    });
}

/// S1: a hard link to a lock that a build holds is no lock of a thread, and the build no Codex.
#[test]
fn a_hard_link_to_a_strangers_lock_kills_no_process() {
    sandboxed(|| {
        for foreign in [true, false] {
            let mut home = home();
            let lock = home.at("target/.cargo-lock");
            std::fs::write(&lock, "").expect("written");
            let mut build = home.agent("cargo", "ws", &["lock", &lock.to_string_lossy()]);
            build.ready();
            let root = if foreign { "ws/.x" } else { ".codex" };
            let link = home.at(&format!("{root}/thread-writer-locks/{THREAD}.lock"));
            std::fs::hard_link(&lock, link).expect("linked");
            let root = home.path().join(root);
            let decoy = foreign.then(|| decoy(&mut home, "codex", "CODEX_HOME", &root));
            let pid = build.pid();
            assert_unreached(&home, THREAD, pid, &mut || crate::stop::lives(pid));
            drop(decoy);
        }
    });
}

/// S1: the demo agent's records are believed no more than others.
#[test]
fn a_record_of_the_demo_agent_that_names_a_stranger_kills_no_process() {
    sandboxed(|| {
        let home = home();
        let mut victim = Echo::start("cat", None);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
        let ns = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
        let ns = ns.to_string_lossy().replace("pid:[", "").replace(']', "");
        let text = json!({"start_ticks": ticks(victim.pid()), "boot_id": boot.trim(),
            "machine_id": null, "pid_namespace": ns.parse::<u64>().expect("a number"),
            "session": "forged", "cwd": "/w", "status": "idle", "detail": null, "started_ms": 0});
        let path = format!(".local/share/agentctl-demo/live/{}.json", victim.pid());
        home.write(&path, text.to_string());
        assert_not_stopped(&home, "forged", &mut victim);
    });
}

/// S1: with root's rights another user's process could be signalled; it is no agent of root's. Without
/// the right to start a process as another user there is nothing to show.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_record_that_names_another_users_process_kills_no_process() {
    sandboxed(|| {
        let other = testkit::another_user();
        let home = home();
        let program = home.at("open/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let open = Command::new("chmod").arg("755").arg(home.path()).status();
        assert!(open.expect("chmod").success());
        let mut command = other.command("cat");
        command.env("HOME", home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut victim = Echo { child: command.stderr(Stdio::null()).spawn().expect("setpriv") };
        assert!(victim.answers());
        let text = record(&home, victim.pid());
        home.write(&format!(".claude/sessions/{}.json", victim.pid()), text);
        assert_not_stopped(&home, A, &mut victim);

        // The same with a process that runs the agent's own program.
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups"]).arg(&program).arg("stay");
        command.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut real = Agent { child: command.spawn().expect("setpriv") };
        real.ready();
        let text = record(&home, real.pid());
        home.write(&format!(".claude/sessions/{}.json", real.pid()), text);
        let told = home.run(&["stop", A, "--force"]);
        assert!(crate::stop::lives(real.pid()), "{told:?}");
    });
}
