//! Class: a home that only a process named: nothing there is resumed, executed or given a secret (S2, S3).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Agent, Output, sandboxed};

use crate::claude_code::{A, B, Claude, prompt, said};
use crate::launched::script;
use crate::stop::lives;
use crate::{configure, home, opencode};

/// A home in the workspace, written by the agent, and the agent itself, which names it.
struct Foreign {
    claude: Claude,
    root: PathBuf,
    agent: Agent,
}

impl Foreign {
    /// `more` are further fields of the agent's live record.
    fn new(more: &serde_json::Value) -> Self {
        let mut claude = Claude::new();
        let root = claude.home.path().join("ws/.c");
        // A finished session, titled like one of the user's.
        claude.transcript(B, &[prompt("Fix the login test"), said("done")]);
        claude.transcript(A, &[prompt("x")]);
        std::fs::create_dir_all(&root).expect("made");
        std::fs::rename(claude.home.path().join(".claude/projects"), root.join("projects"))
            .expect("moved");
        claude.record_path = root.join("sessions/{pid}.json").to_string_lossy().into_owned();
        // The program is in the workspace too, and not on the PATH.
        let program = claude.home.at("ws/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let record = crate::claude_code::record(A, &claude.cwd, more);
        let mut command = Command::new(&program);
        command.args(["stay", "write", &claude.record_path, &record]);
        command.env_clear().env("HOME", claude.home.path()).env("CLAUDE_CONFIG_DIR", &root);
        command.current_dir(&claude.cwd).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut agent = Agent { child: command.spawn().expect("the agent starts") };
        agent.ready();
        Self { claude, root, agent }
    }

    fn run(&self, args: &[&str]) -> Output {
        self.claude.home.run(args)
    }

    /// Puts a program of this name on the user's PATH that writes down that it was run.
    fn install(&self, name: &str) -> PathBuf {
        let told = self.claude.home.at("was-run");
        script(
            &self.claude.home,
            name,
            &format!("echo \"$@\" \"$CLAUDE_CONFIG_DIR\" >> {}", told.display()),
        );
        told
    }
}

fn assert_refused(told: &Output) {
    assert_eq!(told.code, Some(5), "{told:?}");
    assert!(told.stderr.contains("[roots]"), "{told:?}");
}

/// S2: without the user's own `claude` nothing is executed; least of all the program of the process.
#[test]
fn the_program_of_a_process_is_never_executed() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy", "kind": "bg", "jobId": "job1"}));
        // The program file is replaced by one that leaves a trace if it is run.
        let ran = foreign.claude.home.at("was-run");
        let program = foreign.claude.home.path().join("ws/claude");
        std::fs::remove_file(&program).expect("removed");
        let text = format!("#!/bin/sh\necho ran > {}\n", ran.display());
        foreign.claude.home.write("ws/claude", text);
        let executable = Command::new("chmod").arg("755").arg(&program).status();
        assert!(executable.expect("chmod").success());
        let told = foreign.run(&["stop", A]);
        assert_eq!(told.code, Some(5), "{told:?}");
        assert!(lives(foreign.agent.pid()) && !ran.exists(), "{told:?}");
    });
}

/// S2: nor in the user's own home: the session is refused, with a sentence that names the missing
/// program.
#[test]
fn a_background_session_without_an_installed_claude_is_refused() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let program = claude.home.at("elsewhere/claude");
        std::fs::copy(testkit::fake_agent(), &program).expect("copied");
        let more = json!({"status": "busy", "kind": "bg", "jobId": "job1"});
        let record = crate::claude_code::record(A, &claude.cwd, &more);
        let mut command = Command::new(&program);
        command.args(["stay", "write", &claude.record_path, &record]);
        std::fs::create_dir_all(&claude.cwd).expect("made");
        command.env_clear().env("HOME", claude.home.path()).current_dir(&claude.cwd);
        let mut agent =
            Agent { child: command.stdout(Stdio::piped()).spawn().expect("the agent starts") };
        agent.ready();
        let told = claude.home.run(&["stop", A]);
        assert_eq!(told.code, Some(5), "{told:?}");
        assert!(told.stderr.contains("there is no `claude`"), "{told:?}");
        assert!(lives(agent.pid()), "{told:?}");
    });
}

/// S2: the user's own `claude` is not given a home that only a process named.
#[test]
fn no_command_is_run_for_a_home_that_only_a_process_named() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy", "kind": "bg", "jobId": "job1"}));
        let ran = foreign.install("claude");
        for args in [&["stop", A][..], &["stop", A, "--force"]] {
            let told = foreign.run(args);
            assert_refused(&told);
            assert!(lives(foreign.agent.pid()) && !ran.exists(), "{told:?}");
        }
        // Nor for a job of an ended session there.
        let state = json!({"state": "crashed", "sessionId": B});
        std::fs::create_dir_all(foreign.root.join(format!("jobs/{}", &B[..8]))).expect("made");
        std::fs::write(
            foreign.root.join(format!("jobs/{}/state.json", &B[..8])),
            state.to_string(),
        )
        .expect("written");
        let told = foreign.run(&["stop", B]);
        assert_refused(&told);
        assert!(!ran.exists(), "{told:?}");
    });
}

/// S3: the user's agent is not started with the configuration of another program.
#[test]
fn a_session_of_a_foreign_home_is_neither_resumed_nor_forked() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy"}));
        let ran = foreign.install("claude");
        for more in [&[][..], &["--fork"], &["--force"], &["--fork", "--force"]] {
            let mut args = vec!["resume", B, "go on"];
            args.extend(more);
            let told = foreign.run(&args);
            assert_refused(&told);
            assert!(!ran.exists(), "{args:?}: {told:?}");
        }
        let told = foreign.run(&["attach", B]);
        assert_refused(&told);
        assert!(!ran.exists(), "{told:?}");
        let told = foreign.run(&["resume", "Fix the login test", "go on", "--json"]);
        assert!(told.code != Some(0) && !ran.exists(), "{told:?}");
    });
}

/// S3: once the user has named the home, it is like any other.
#[test]
fn a_home_that_the_user_has_configured_is_acted_on() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy", "kind": "bg", "jobId": "job1"}));
        let ran = foreign.install("claude");
        let config = format!("[roots]\nclaude-code = [\"{}\"]\n", foreign.root.display());
        foreign.claude.home.write(".config/agentctl/config.toml", config);
        let told = foreign.run(&["stop", A]);
        assert!(ran.exists(), "{told:?}");
        let words = std::fs::read_to_string(&ran).expect("read");
        assert_eq!(words.trim(), format!("stop job1 {}", foreign.root.display()));
        let listed = foreign.run(&["list", "-a", "--since", "all"]);
        assert!(!listed.stdout.contains("named only by"), "{listed:?}");
    });
}

/// S3: the very process that names the home may be signalled, and is the only one.
#[test]
fn the_process_that_names_a_foreign_home_can_be_stopped() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy"}));
        let told = foreign.run(&["stop", A]);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(!lives(foreign.agent.pid()));
    });
}

/// S3: `list` and `status` show that only a process named the home.
#[test]
fn a_foreign_home_is_shown() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy"}));
        let words = "home ~/ws/.c is named only by its process";
        for args in
            [&["list"][..], &["list", "-a", "--since", "all"], &["status", A], &["status", B]]
        {
            let told = foreign.run(args);
            assert!(told.stdout.contains("is named only by its process"), "{args:?}: {told:?}");
        }
        let listed = foreign.run(&["list", "-a", "--since", "all"]);
        assert!(listed.stdout.contains(words), "{listed:?}");
        let row = foreign.run(&["status", A, "--json"]).json();
        let note = format!("home {} is named only by its process", foreign.root.display());
        assert!(row["notes"].as_array().is_some_and(|n| n.iter().any(|n| *n == note)), "{row:#}");
    });
}

/// S8, S23: a session of a foreign home that has the id of a launched one is not of its run.
#[test]
fn the_id_of_a_launched_session_in_a_foreign_home_does_not_reach_its_run() {
    sandboxed(|| {
        let foreign = Foreign::new(&json!({"status": "busy"}));
        let home = &foreign.claude.home;
        let tool = home.at("pids/tool");
        // A real launch: its agent reports this id, and has an orphan below its shim.
        let init = json!({"type": "system", "subtype": "init", "session_id": B});
        let text = json!({"type": "assistant", "message": {"content": []}});
        script(
            home,
            "claude",
            &format!(
                "(setsid sh -c 'echo $$ > {}; exec sleep 600' &)\n\
                 printf '%s\\n' '{init}' '{text}'\nexec sleep 600",
                tool.display()
            ),
        );
        let cwd = crate::launched::folder(home, "victim");
        let launched = home.run(&["launch", "claude-code", "--cwd", &cwd, "-p", "x"]);
        assert_eq!(launched.code, Some(0), "{launched:?}");
        let tool = crate::stop::written_pid(&tool);
        let told = home.run(&["stop", B, "--force"]);
        assert!(lives(tool), "{told:?}");
        // The only record of that id lies in the foreign home, and nothing serves it.
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.stdout.contains(B) && told.stdout.contains("was already stopped"), "{told:?}");
    });
}

/// Creates this many transcripts of Claude Code in a home: hard links of one file.
fn transcripts(home: &Path, first: usize, many: usize) {
    let folder = home.join("projects/-w");
    std::fs::create_dir_all(&folder).expect("made");
    let line = json!({"type": "user", "message": {"role": "user", "content": "x"}, "cwd": "/w",
                      "timestamp": "2026-11-15T07:44:24.000Z"});
    let source = home.join("source");
    std::fs::write(&source, format!("{line}\n")).expect("written");
    for n in first..first + many {
        let name = format!("{n:08x}-2222-4333-8444-555555555555.jsonl");
        std::fs::hard_link(&source, folder.join(name)).expect("linked");
    }
}

/// F5: of homes that only processes name a bounded number of sessions is read; the sessions of the user's own
/// home and of a small home beside them are all listed.
#[test]
fn homes_that_only_processes_name_have_a_bounded_number_of_rows() {
    sandboxed(|| {
        let mut home = home();
        configure(&home, &[("live", "20s"), ("all", "20s")], "");
        transcripts(&home.path().join(".claude"), 0x100_0000, 30);
        let mut decoys = Vec::new();
        for (n, many) in [8_000, 8_000, 8_000, 20].into_iter().enumerate() {
            let folder = home.path().join(format!("decoy/{n}"));
            transcripts(&folder, 0x1000_0000 * (n + 1), many);
            home.set("CLAUDE_CONFIG_DIR", folder.to_string_lossy());
            decoys.push(home.agent("claude", "decoy", &[]));
        }
        let data = home.path().join("decoy/data");
        let folder = home.at("decoy/data/opencode/opencode.db");
        let store = opencode::Store::new(&home, "decoy/data/opencode/opencode.db");
        store.session(opencode::A, "/w", None);
        let more = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 15000) \
                    insert into session select 'ses_e21d53d21ffen' || substr('0000000000000' || x, -13), \
                    slug, parent_id, directory, title, null, 0, 0, 0, 0, 0, 0, time_created, time_created \
                    from session, n";
        store.connection.execute_batch(more).expect("more sessions");
        home.set("XDG_DATA_HOME", data.to_string_lossy());
        decoys.push(home.agent("opencode", "decoy", &["open", &folder.to_string_lossy()]));
        home.set("XDG_DATA_HOME", "");
        home.set("CLAUDE_CONFIG_DIR", "");
        for decoy in &mut decoys {
            decoy.ready();
        }
        let listed = home.run(&["list", "-a", "--since", "all", "--json"]);
        let rows = listed.sessions();
        let of = |root: &str| {
            let root = home.path().join(root).to_string_lossy().into_owned();
            rows.iter().filter(|row| row["root"] == root && !row["id"].is_null()).count()
        };
        assert_eq!(of(".claude"), 30, "{}", listed.stderr);
        assert_eq!([of("decoy/0"), of("decoy/1"), of("decoy/2"), of("decoy/3")], [0, 0, 0, 20]);
        assert_eq!(of("decoy/data/opencode"), 0);
        assert_eq!(listed.code, Some(3), "what is missing is a fault");
        assert_eq!(
            listed.stderr.matches("add the home to [roots]").count(),
            4,
            "{}",
            listed.stderr
        );
    });
}
