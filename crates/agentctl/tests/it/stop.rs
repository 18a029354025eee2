//! Stopping one session: signals first, then a kill; success is reported only after a new look; no other
//! process is signalled.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use testkit::{Agent, Dice, Echo, TestHome, eventually, next_pid, rounds, sandboxed};

use crate::claude_code::{A, B, Claude, prompt, record, said};
use crate::home;

/// Says whether a process lives, read without the code under test.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|s| s.chars().next()).is_some_and(|s| s != 'Z' && s != 'X')
}

/// Waits for the pid that a script writes down.
pub(crate) fn written_pid(path: &Path) -> u32 {
    eventually(&format!("{} is written", path.display()), || {
        std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
    })
}

/// A running demo agent.
pub(crate) fn demo(home: &TestHome, id: &str, prompt: &str) -> Agent {
    let mut command = home.command(&["demo-agent", "--session-id", id, "-p", prompt]);
    let agent = Agent { child: command.stdout(Stdio::null()).spawn().expect("starts") };
    eventually("it runs", || {
        let listed = home.run(&["list", "--json"]).sessions();
        listed.into_iter().find(|s| s["id"] == id && s["prompt"].is_string())
    });
    agent
}

pub(crate) fn status(home: &TestHome, id: &str) -> Value {
    home.run(&["status", id, "--json"]).json()
}

#[test]
fn an_agent_started_by_hand_is_stopped_for_good() {
    sandboxed(|| {
        let home = home();
        let mut agent = demo(&home, "victim", "x [[tool:exec sleep 600]]");
        let said = home.run(&["stop", "victim"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(
            said.stdout.starts_with(&format!("stopped demo victim (pid {}", agent.pid())),
            "{said:?}"
        );
        assert!(!lives(agent.pid()));
        assert_eq!(agent.child.wait().expect("reaped").code(), Some(143), "it was asked politely");
        assert_eq!(status(&home, "victim")["status"], "stopped");

        let again = home.run(&["stop", "victim"]);
        assert_eq!(
            (again.code, again.stdout.as_str()),
            (Some(0), "demo victim was already stopped\n")
        );
        let told = home.run(&["stop", "victim", "--json"]);
        assert_eq!(told.code, Some(0));
        let told = told.json();
        assert_eq!((&told["schema_version"], &told["survivors"]), (&1.into(), &json!([])));
        assert_eq!(
            (
                &told["stopped"][0]["id"],
                &told["stopped"][0]["already"],
                &told["stopped"][0]["ended"]
            ),
            (&"victim".into(), &true.into(), &json!([]))
        );
    });
}

#[test]
fn each_agent_is_asked_in_its_own_way() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        let told = claude.home.run(&["stop", A, "--json"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert_eq!(agent.child.wait().expect("ended").signal(), Some(15));
        let row = &told.json()["stopped"][0];
        assert_eq!((&row["status"], &row["pid"]), (&"stopped".into(), &agent.pid().into()));
        assert_eq!((&row["already"], &row["ended"][0]["how"]), (&false.into(), &"asked".into()));
        assert_eq!(row["ended"][0]["pid"], agent.pid());

        let home = home();
        let id = "01a1de32-5fe1-74e1-aa0a-48f1eed298bf";
        let lock = home.at(&format!(".codex/thread-writer-locks/{id}.lock"));
        let mut agent = home.agent("codex", "ws", &["exec", "lock", &lock.to_string_lossy()]);
        agent.ready();
        assert_eq!(home.run(&["stop", id]).code, Some(0));
        assert_eq!(agent.child.wait().expect("ended").signal(), Some(2));
    });
}

/// An agent that ignores SIGTERM.
fn deaf(claude: &Claude, id: &str) -> (Agent, u32) {
    let record = record(id, &claude.cwd, &json!({"status": "busy"}));
    let program = claude.home.at("bin/claude");
    std::fs::copy(testkit::fake_agent(), &program).expect("copied");
    let pid = claude.home.at("deaf.pid");
    let script = format!(
        "trap '' TERM; echo $$ > {}; exec {} stay write '{}' '{record}'",
        pid.display(),
        program.display(),
        claude.record_path
    );
    // Its text must not contain placeholders of the launcher.
    let script = claude.home.write("deaf.sh", script);
    let mut starter =
        claude.home.agent("starter", "ws", &["start", &format!("exec sh {}", script.display())]);
    starter.ready();
    let row = eventually("it lives", || {
        claude.list().sessions().into_iter().find(|s| s["id"] == id && s["pid"].is_u64())
    });
    (starter, u32::try_from(row["pid"].as_u64().expect("a pid")).expect("a pid"))
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed() {
    sandboxed(|| {
        for (args, how) in [
            (vec!["stop", A, "--timeout", "1s", "--json"], "killed"),
            (vec!["stop", A, "--force", "--json"], "killed"),
        ] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x")]);
            let (_starter, pid) = deaf(&claude, A);
            let told = claude.home.run(&args);
            assert_eq!(told.code, Some(0), "{told:?}");
            assert!(!lives(pid));
            assert_eq!(told.json()["stopped"][0]["ended"][0]["how"], how, "{args:?}");
        }
    });
}

#[test]
fn a_paused_agent_handles_the_signal() {
    sandboxed(|| {
        let home = home();
        let mut agent = demo(&home, "victim", "x [[hang]]");
        let pause = format!("kill -STOP {}", agent.pid());
        assert!(Command::new("sh").args(["-c", &pause]).status().expect("a shell").success());
        eventually("it is paused", || {
            (status(&home, "victim")["reason"]["kind"] == "paused").then_some(())
        });
        assert_eq!(home.run(&["stop", "victim"]).code, Some(0));
        assert_eq!(
            agent.child.wait().expect("reaped").code(),
            Some(143),
            "it could end in good order"
        );
    });
}

#[test]
fn a_typo_among_several_stops_none() {
    sandboxed(|| {
        let home = home();
        let mut agents = ["first", "second"].map(|id| demo(&home, id, "x [[hang]]"));
        let said = home.run(&["stop", "first", "no-such-session", "second"]);
        assert_eq!(said.code, Some(4), "{}", said.stderr);
        assert!(agents.iter().all(|a| lives(a.pid())), "nobody was touched");
        let told = home.run(&["stop", "first", "second", "first", "--json"]);
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert_eq!(told.json()["stopped"].as_array().map(Vec::len), Some(2));
        assert!(agents.iter_mut().all(|a| a.child.wait().expect("ended").code() == Some(143)));
    });
}

#[test]
fn all_means_all_that_match_the_filters() {
    sandboxed(|| {
        let home = home();
        let asking = demo(&home, "asking", "x [[ask:Which?]]");
        let working = demo(&home, "working", "x [[hang]]");
        eventually("it waits", || (status(&home, "asking")["status"] == "waiting").then_some(()));
        assert_eq!(home.run(&["stop", "--all", "asking"]).code, Some(2));
        assert_eq!(home.run(&["stop", "--group", "g", "asking"]).code, Some(2));
        let said = home.run(&["stop", "--all", "--status", "waiting", "-y"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(!lives(asking.pid()) && lives(working.pid()));
        assert_eq!(home.run(&["stop", "--all", "--adapter", "codex", "-y"]).code, Some(0));
        assert!(lives(working.pid()));
        assert_eq!(home.run(&["stop", "--all", "-y"]).code, Some(0));
        assert!(!lives(working.pid()));
    });
}

/// Runs the program on a terminal with this input, and returns its exit code.
fn typed(home: &TestHome, words: &[u8], args: &[&str]) -> Option<i32> {
    use std::io::{Read, Write};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let open = || File::options().read(true).write(true).open(name.to_str().expect("UTF-8"));
    let mut command = home.command(args);
    command.stdin(open().expect("opened")).stdout(open().expect("opened"));
    let mut child = command.stderr(open().expect("opened")).spawn().expect("starts");
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(words).expect("typed");
    let mut said = Vec::new();
    // Reading a terminal fails when its last writer has exited.
    let _left = terminal.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("stop this session? [y/N]"), "{said}");
    assert!(said.contains("working"), "it shows what would be stopped: {said}");
    child.wait().expect("ends").code()
}

#[test]
fn at_a_terminal_all_is_confirmed_first() {
    sandboxed(|| {
        let home = home();
        let agent = demo(&home, "working", "x [[hang]]");
        for no in [&b"n\n"[..], b"\n", b"yesterday\n", b"\x04"] {
            assert_eq!(typed(&home, no, &["stop", "--all"]), Some(5));
            assert!(lives(agent.pid()));
        }
        assert_eq!(typed(&home, b"y\n", &["stop", "--all"]), Some(0));
        assert!(!lives(agent.pid()));
    });
}

#[test]
fn one_process_of_two_sessions_is_ended_by_force_only() {
    sandboxed(|| {
        let home = home();
        let ids = ["01a1de32-5fe1-74e1-aa0a-48f1eed298bf", "01a1de32-5fe1-74e1-aa0a-48f1eed298c0"];
        let locks = ids.map(|id| {
            home.at(&format!(".codex/thread-writer-locks/{id}.lock")).to_string_lossy().into_owned()
        });
        let mut agent = home.agent("codex", "ws", &["lock", &locks[0], "lock", &locks[1]]);
        agent.ready();
        let said = home.run(&["stop", ids[0]]);
        assert_eq!(said.code, Some(5), "{said:?}");
        assert!(said.stderr.contains(ids[1]) && said.stderr.contains("--force"), "{said:?}");
        assert!(lives(agent.pid()));
        assert_eq!(home.run(&["stop", ids[0], "--force"]).code, Some(0));
        assert!(!lives(agent.pid()));
    });
}

#[test]
fn a_session_of_unknown_status_is_not_signalled() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let mut agent =
            claude.live(A, &json!({"status": "busy", "pidDomain": "linux:{machine}:pid:[42]"}));
        let said = claude.home.run(&["stop", A]);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.stderr.contains("another pid namespace"), "{}", said.stderr);
        assert!(lives(agent.pid()), "its process may be another's");
        agent.kill();
        let error = claude.home.run(&["stop", A, "--json"]);
        assert_eq!((error.code, &error.json()["error"]["code"]), (Some(3), &"unknown".into()));
    });
}

#[test]
fn a_process_without_a_session_is_stopped_by_its_pid() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut agent = claude.home.agent("claude", "ws", &["-p"]);
        agent.ready();
        let pid = agent.pid().to_string();
        let said = claude.home.run(&["stop", &pid]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stdout, format!("stopped claude-code pid {pid} (pid {pid})\n"));
        assert_eq!(agent.child.wait().expect("ended").signal(), Some(15));
        assert_eq!(claude.home.run(&["stop", &pid]).code, Some(4));
    });
}

#[test]
fn two_processes_of_one_session_both_end() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let mut two = [0, 1].map(|_| claude.live(A, &json!({"status": "busy"})));
        assert_eq!(claude.home.run(&["stop", A]).code, Some(0));
        assert!(two.iter_mut().all(|a| a.child.wait().expect("ended").signal() == Some(15)));
    });
}

#[test]
fn a_background_session_is_stopped_by_its_supervisor() {
    sandboxed(|| {
        let mut claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let mut agent =
            claude.live(A, &json!({"status": "busy", "kind": "bg", "jobId": "aaaaaaaa"}));
        let keeper = claude.home.write("tools/claude", "#!/bin/sh\necho \"$@\" > told\nexit 3\n");
        make_executable(&keeper);
        let path = format!("{}:/usr/bin:/bin", claude.home.path().join("tools").display());
        claude.home.set("PATH", path);
        let refused = claude.home.run(&["stop", A]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(
            refused.stderr.contains("`claude stop aaaaaaaa` failed with exit code 3"),
            "{refused:?}"
        );
        assert!(lives(agent.pid()), "signalled, it would only be started again");
        let told = std::fs::read_to_string(claude.home.path().join("told")).expect("run");
        assert_eq!(told, "stop aaaaaaaa\n");
        let script = format!("#!/bin/sh\nkill -KILL {}\n", agent.pid());
        make_executable(&claude.home.write("tools/claude", script));
        let said = claude.home.run(&["stop", A]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(agent.child.wait().expect("ended").signal(), Some(9), "by its keeper alone");
    });
}

#[test]
fn a_background_session_is_not_restarted_after_a_stop() {
    sandboxed(|| {
        let crashed = "SIGKILL (137); respawning";
        // The supervisor of background sessions goes by the state of the job, which `claude stop` changes.
        let stop = r#"[ "$*" = "stop aaaaaaaa" ] && sed -i s/crashed/stopped/ "$JOB""#;
        for (is_stopped, expected) in [(false, "running"), (true, "stopped")] {
            let mut claude = Claude::new();
            claude.transcript(A, &[prompt("x")]);
            let state = json!({"state": "crashed", "detail": crashed, "sessionId": A});
            let job = claude.home.write(".claude/jobs/aaaaaaaa/state.json", state.to_string());
            let path = format!("{}:/usr/bin:/bin", claude.home.path().join("tools").display());
            claude.home.set("PATH", path);
            claude.home.set("JOB", job.display().to_string());
            make_executable(&claude.home.write("tools/claude", format!("#!/bin/sh\n{stop}\n")));
            if is_stopped {
                let said = claude.home.run(&["stop", A]);
                assert_eq!(said.code, Some(0), "{said:?}");
            }
            let state = std::fs::read_to_string(job).expect("the state of the job");
            let restarts = state.contains("crashed");
            let restarted = restarts.then(|| claude.live(A, &json!({"status": "busy"})));
            let row = status(&claude.home, A);
            assert_eq!(row["status"], expected, "{row:#}");
            drop(restarted);
        }
    });
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn a_stale_record_never_leads_to_a_signal() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        claude.transcript(B, &[prompt("x")]);
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        agent.kill();
        let pid = agent.pid();
        // The record of A names a process that now belongs to another session.
        let stale = claude.record_path.replace("{pid}", &pid.to_string());
        let text = std::fs::read_to_string(&stale).expect("left behind");
        let start = serde_json::from_str::<Value>(&text).expect("JSON")["procStart"].clone();
        testkit::after_tick(start.as_str().and_then(|s| s.parse().ok()).expect("a tick"));
        let mut stranger = Echo::start("cat", Some(pid));
        assert_eq!(claude.home.run(&["stop", A, B]).code, Some(0));
        assert!(stranger.answers());
    });
}

/// The pid of the agent is recycled at the moment it ends, while `stop` is running.
#[test]
fn a_pid_recycled_during_a_stop_is_never_signalled() {
    sandboxed(|| {
        let home = home();
        let (rounds, mut dice) = (rounds(300), Dice::new());
        let (mut recycled, pid) = (0, 5000);
        for round in 0..rounds {
            next_pid(pid);
            let flag = if round == 0 { "--session-id" } else { "--resume" };
            let mut agent = home.command(&["demo-agent", flag, "victim", "-p", "x [[hang]]"]);
            let mut agent = agent.stdout(Stdio::null()).spawn().expect("started");
            eventually("it runs", || {
                let row = home.run(&["list", "--json"]).sessions().pop()?;
                (row["pid"] == agent.id() && row["prompt"].is_string()).then_some(())
            });
            let mut args = vec!["stop", "victim"];
            args.extend((dice.below(2) == 0).then_some("--force"));
            let mut stop = home.command(&args).stdout(Stdio::null()).spawn().expect("started");
            agent.wait().expect("ended and reaped");
            next_pid(agent.id());
            let mut newcomer = Echo::start("cat", None);
            // A thread of `stop` may have taken the pid, and ends before `stop` does.
            while newcomer.pid() != agent.id() && stop.try_wait().expect("asked").is_none() {
                newcomer.end();
                next_pid(agent.id());
                newcomer = Echo::start("cat", None);
            }
            recycled += u32::from(newcomer.pid() == agent.id());
            // The test is process 1 here, so its child, born during the stop, is reported like an orphan.
            let code = stop.wait().expect("ended").code();
            assert!(matches!(code, Some(0 | 1)), "{code:?}, round {round}, seed {}", dice.seed);
            assert!(newcomer.answers(), "round {round}, seed {}", dice.seed);
            newcomer.end();
        }
        println!(
            "{rounds} rounds, {recycled} recycled while stopping, 0 misdelivered, seed {}",
            dice.seed
        );
        assert!(recycled * 2 > rounds, "{recycled} of {rounds} prove too little");
    });
}
