//! Which processes are Claude Code sessions: wrappers, links, subcommands, homes that are relative, full,
//! read-only or mounted elsewhere (W6, W12, W13, W14, W16, W20).

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Agent, eventually, sandboxed};

use crate::assert_list_equals_status;
use crate::claude_code::{A, B, Claude, prompt, record, said};

/// Starts a command in the workspace, with this environment only.
fn start(claude: &Claude, mut command: Command, env: &[(&str, &str)]) -> Agent {
    command.env_clear().env("HOME", claude.home.path()).env("PATH", "/usr/bin:/bin:/usr/sbin");
    command.envs(env.iter().copied()).current_dir(&claude.cwd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent { child: command.spawn().expect("started") };
    agent.ready();
    agent
}

/// A home with the double installed and a session that has ended after everything that is started here.
fn with_ended_session() -> Claude {
    let claude = Claude::new();
    drop(claude.home.agent("claude", "ws", &[]));
    std::fs::create_dir_all(claude.home.path().join(".claude/sessions")).expect("made");
    claude.transcript(B, &[prompt("x"), said("done")]);
    let path = claude.home.path().join(format!(".claude/projects/-ws/{B}.jsonl"));
    let text = std::fs::read_to_string(&path).expect("there").replace("2026-11-15", "2099-11-15");
    std::fs::write(&path, text).expect("written");
    claude
}

fn pids(rows: &[Value]) -> Vec<u64> {
    rows.iter().filter_map(|row| row["pid"].as_u64()).collect()
}

/// W12: directly above the agent, and with a shell in between.
#[test]
fn a_native_wrapper_that_waits_for_the_agent_is_no_session() {
    sandboxed(|| {
        for between in ["", "/bin/sh -c '\"$0\" \"$@\"; true' "] {
            let claude = with_ended_session();
            let wrapper = claude.home.at("wrapper/claude");
            std::fs::copy("/bin/sh", &wrapper).expect("copied");
            let real = claude.home.path().join("bin/claude");
            let text = record(A, &claude.cwd, &json!({"status": "idle"}));
            let mut command = Command::new(&wrapper);
            command.arg("-c").arg(format!("{between}\"$REAL\" write \"$RECORD\" \"$TEXT\"; true"));
            let real = real.to_string_lossy().into_owned();
            let env = [("REAL", real.as_str()), ("RECORD", &claude.record_path), ("TEXT", &text)];
            let agent = start(&claude, command, &env);
            let listed = claude.list();
            assert_eq!(listed.session(A)["status"], "idle", "{between}");
            assert_eq!(listed.session(B)["status"], "stopped", "{between}");
            let rows = claude.home.run(&["list", "--json"]).sessions();
            assert_eq!(rows.len(), 1, "pid {} is no session: {rows:#?}", agent.pid());
        }
    });
}

/// W12: before a wrapper has started its agent, and after the agent's end, only its name is the agent's. An
/// agent of unknown place that is on its way out looks the same but for the content of its program file.
#[test]
fn a_program_that_only_has_the_agents_name_is_unknown_and_serves_nothing() {
    sandboxed(|| {
        let claude = with_ended_session();
        let wrapper = claude.home.at("wrapper/claude");
        for program in ["/bin/bash".into(), testkit::fake_agent()] {
            std::fs::copy(&program, &wrapper).expect("copied");
            let mut command = Command::new(&wrapper);
            if program.ends_with("bash") {
                command.args(["-c", "echo ready; read line; true"]);
            }
            let agent = start(&claude, command, &[]);
            let rows = claude.home.run(&["list", "--json"]).sessions();
            assert_eq!(pids(&rows), [u64::from(agent.pid())]);
            assert_eq!(rows[0]["status"], "unknown", "{rows:#?}");
            let why = rows[0]["reason"]["detail"].as_str().unwrap_or_default();
            assert!(why.contains("only the name of its program file"), "{why}");
            assert_eq!(claude.row(B)["status"], "stopped", "an ended session stays ended");
            assert_list_equals_status(&claude.home);
        }
        testkit::mark_as_bundle(&wrapper);
        let agent = start(&claude, Command::new(&wrapper), &[]);
        let rows = claude.home.run(&["list", "--json"]).sessions();
        assert!(pids(&rows).contains(&agent.pid().into()), "{rows:#?}");
        assert_eq!(claude.row(B)["status"], "unknown", "it may be on its way out");
    });
}

/// W12: an agent that starts is shown before it has a record.
#[test]
fn a_process_of_the_agents_name_without_an_agent_below_it_is_shown() {
    sandboxed(|| {
        let claude = with_ended_session();
        let agent = start(&claude, Command::new(claude.home.path().join("bin/claude")), &[]);
        let rows = claude.home.run(&["list", "--json"]).sessions();
        assert_eq!(pids(&rows), [u64::from(agent.pid())]);
    });
}

/// W13: in a home that only the process names, without a record and with one.
#[test]
fn the_program_is_known_under_the_name_of_a_link() {
    sandboxed(|| {
        let claude = with_ended_session();
        let link = claude.home.at("bin/cc");
        std::os::unix::fs::symlink(claude.home.path().join("bin/claude"), &link).expect("linked");
        let moved = claude.home.path().join("profile").to_string_lossy().into_owned();
        let env = [("CLAUDE_CONFIG_DIR", moved.as_str())];
        let waiting = start(&claude, Command::new(&link), &env);
        assert_eq!(
            pids(&claude.home.run(&["list", "--json"]).sessions()),
            [u64::from(waiting.pid())]
        );
        drop(waiting);
        let text = record(A, &claude.cwd, &json!({"status": "idle"}));
        let mut command = Command::new(&link);
        command.args(["write", &format!("{moved}/sessions/{{pid}}.json"), &text]);
        let agent = start(&claude, command, &env);
        let row = claude.row(A);
        assert_eq!((&row["status"], &row["pid"]), (&"idle".into(), &agent.pid().into()));
        assert_eq!(row["processes"][0]["join"], "proved");
    });
}

/// W13: a copy of one version beside others. Under any other name only a record in a known home names
/// it, which does not prove that the process is the agent.
#[test]
fn a_copy_that_is_named_after_its_version_is_known() {
    sandboxed(|| {
        let claude = with_ended_session();
        let moved = claude.home.path().join("profile").to_string_lossy().into_owned();
        let usual = claude.home.path().join(".claude").to_string_lossy().into_owned();
        for (name, home, status, join) in [
            ("claude-2.1.325", &moved, "idle", Value::from("proved")),
            ("claude-2.1.325", &usual, "idle", "proved".into()),
            ("agent7", &usual, "unknown", Value::Null),
        ] {
            let copy = claude.home.at(&format!("copies/{name}"));
            std::fs::copy(testkit::fake_agent(), &copy).expect("copied");
            let text = record(A, &claude.cwd, &json!({"status": "idle"}));
            let mut command = Command::new(&copy);
            command.args(["write", &format!("{home}/sessions/{{pid}}.json"), &text]);
            let _agent = start(&claude, command, &[("CLAUDE_CONFIG_DIR", home)]);
            let row = claude.row(A);
            assert_eq!((&row["status"], &row["processes"][0]["join"]), (&status.into(), &join));
        }
    });
}

/// W13: the search tools are the same file under another `argv[0]`.
#[test]
fn a_search_tool_of_the_agent_is_no_session() {
    sandboxed(|| {
        let claude = with_ended_session();
        for name in ["rg", "ugrep", "bfs"] {
            let mut command = Command::new(claude.home.path().join("bin/claude"));
            command.arg0(name);
            let _tool = start(&claude, command, &[]);
            assert!(claude.home.run(&["list", "--json"]).sessions().is_empty(), "{name}");
            assert_eq!(claude.row(B)["status"], "stopped", "{name}");
        }
    });
}

/// W14: an empty value is the directory itself.
#[test]
fn a_relative_home_is_taken_from_the_directory_of_the_process() {
    sandboxed(|| {
        for relative in ["cfg", "../cfg", ""] {
            let claude = with_ended_session();
            let home = std::path::Path::new(&claude.cwd).join(relative);
            std::fs::create_dir_all(&home).expect("made");
            let home = std::fs::canonicalize(&home).expect("there");
            let path = home.join("sessions/{pid}.json").to_string_lossy().into_owned();
            let text = record(A, &claude.cwd, &json!({"status": "idle"}));
            let mut command = Command::new(claude.home.path().join("bin/claude"));
            command.args(["write", &path, &text]);
            let agent = start(&claude, command, &[("CLAUDE_CONFIG_DIR", relative)]);
            let row = claude.row(A);
            assert_eq!((&row["status"], &row["pid"]), (&"idle".into(), &agent.pid().into()));
            assert_eq!(row["root"], home.to_string_lossy().as_ref(), "`{relative}`");
        }
    });
}

/// W14: without a record it may have moved away from its relative home.
#[test]
fn a_relative_home_without_a_record_is_unknown() {
    sandboxed(|| {
        let claude = with_ended_session();
        let program = claude.home.path().join("bin/claude");
        let agent = start(&claude, Command::new(program), &[("CLAUDE_CONFIG_DIR", "cfg")]);
        let rows = claude.home.run(&["list", "--json"]).sessions();
        assert_eq!(pids(&rows), [u64::from(agent.pid())]);
        assert_eq!(rows[0]["status"], "unknown");
    });
}

/// W16.
#[test]
fn subcommands_behind_options_are_no_sessions() {
    sandboxed(|| {
        let claude = with_ended_session();
        for args in [
            &["--debug", "mcp", "serve"][..],
            &["--model", "x", "--verbose", "mcp", "serve"],
            &["--max-turns", "3", "gateway"],
            &["auto-mode"],
            &["import"],
            &["--add-dir", "/a", "/b", "--verbose", "ultrareview"],
        ] {
            let mut agent = claude.home.agent("claude", "ws", args);
            agent.ready();
            assert!(claude.home.run(&["list", "--json"]).sessions().is_empty(), "{args:?}");
            assert_eq!(claude.row(B)["status"], "stopped", "{args:?}");
        }
        for args in [&["-p", "mcp", "list"][..], &["--model", "mcp"], &["--name", "doctor"]] {
            let mut agent = claude.home.agent("claude", "ws", args);
            agent.ready();
            assert_eq!(claude.home.run(&["list", "--json"]).sessions().len(), 1, "{args:?}");
        }
    });
}

/// W6: a sandbox that mounts another home.
#[test]
fn a_process_with_other_mounts_is_unknown_not_starting() {
    sandboxed(|| {
        let claude = with_ended_session();
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs none \"$HOME/.claude\" && exec \"$HOME/bin/claude\"";
        command.args(["--mount", "/bin/sh", "-c", script]);
        let agent = start(&claude, command, &[]);
        let rows = claude.home.run(&["list", "--json"]).sessions();
        let row = rows.iter().find(|row| row["id"].is_null()).expect("the process is shown");
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"unknown".into(), &"ambiguous".into())
        );
        drop(agent);
        std::fs::remove_dir_all(claude.home.path().join(".claude/projects")).expect("removed");
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-c", script]);
        let _agent = start(&claude, command, &[]);
        let rows = claude.home.run(&["list", "--json"]).sessions();
        assert_eq!(
            (&rows[0]["status"], &rows[0]["reason"]["kind"]),
            (&"unknown".into(), &"elsewhere".into())
        );
    });
}

/// W6: agent and observer share mounts on which the home cannot be written.
#[test]
fn a_home_that_cannot_be_written_leaves_the_process_unknown() {
    sandboxed(|| {
        for (options, fill, word) in [
            (
                "size=16k",
                "dd if=/dev/zero of=\"$HOME/.claude/fill\" bs=1k count=64 2>/dev/null;",
                "full",
            ),
            ("ro,size=16k", "", "read-only"),
        ] {
            let claude = with_ended_session();
            let listing = claude.home.command(&["list", "--json"]);
            let script = format!(
                "mount -t tmpfs -o {options} none \"$HOME/.claude\" || exit 1; {fill} \
                 \"$HOME/bin/claude\" < /dev/zero > \"$HOME/out\" & \
                 until grep -q ready \"$HOME/out\"; do :; done; \"$0\" list --json; kill $!"
            );
            let mut command = Command::new("unshare");
            command.args(["--mount", "/bin/sh", "-c", &script]).arg(listing.get_program());
            command.envs(listing.get_envs().filter_map(|(key, value)| Some((key, value?))));
            command.env_remove("PATH").env("PATH", "/usr/bin:/bin").current_dir(&claude.cwd);
            let output = command.output().expect("`unshare` of util-linux");
            let text = String::from_utf8_lossy(&output.stdout);
            let listed: Value = serde_json::from_str(&text).expect("a listing");
            let row = &listed["sessions"][0];
            assert_eq!(row["status"], "unknown", "{row:#}");
            let detail = row["reason"]["detail"].as_str().unwrap_or_default();
            assert!(detail.contains(word), "{detail}");
        }
    });
}

/// W20: an empty record is about to be written. It is no fault, and it proves no session unserved.
#[test]
fn an_empty_record_of_a_live_process_is_no_fault() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x")]);
        let mut agent = claude.home.agent("claude", "ws", &["write", &claude.record_path, ""]);
        agent.ready();
        let listed = claude.list();
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
        assert_eq!(listed.session(A)["status"], "unknown");
        assert_eq!(pids(&listed.sessions()), [u64::from(agent.pid())]);
        assert_list_equals_status(&claude.home);
        agent.kill();
        assert_eq!(claude.row(A)["outcome"], "killed", "an empty record left behind says nothing");
    });
}

/// W7: every version opens a watch of files after its record; a process that has one is not starting.
#[test]
fn a_process_whose_record_was_deleted_is_unknown_not_starting() {
    sandboxed(|| {
        let claude = with_ended_session();
        let key = claude.home.at(".claude/sessions/{pid}.abc.key").to_string_lossy().into_owned();
        let text = record(A, &claude.cwd, &json!({"status": "idle"}));
        let written = ["write", &key, "k", "write", &claude.record_path, &text];
        let lost = ["remove", &claude.record_path];
        for (watches, status) in [(&["watch"][..], "unknown"), (&[], "running")] {
            let script = [&written[..], watches, &lost].concat();
            let mut agent = claude.home.agent("claude", "other", &script);
            agent.ready();
            let rows = claude.home.run(&["list", "--json"]).sessions();
            assert_eq!(pids(&rows), [u64::from(agent.pid())]);
            assert_eq!(rows[0]["status"], status, "{rows:#?}");
        }
    });
}

/// A process that has just started and has no record may serve the stopped session, until it says what it serves.
#[test]
fn stop_waits_for_a_process_that_starts_meanwhile() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        claude.transcript(A, &[prompt("x"), said("done"), prompt("more")]);
        let transcript = claude.home.path().join(format!(".claude/projects/-ws/{A}.jsonl"));
        let text = std::fs::read_to_string(&transcript).expect("there");
        std::fs::write(&transcript, text.replace("2026-11-15", "2099-11-15")).expect("written");
        let path = &claude.record_path;
        let record = record(B, &claude.cwd, &json!({"status": "idle"}));
        let later = format!("sleep 0.5; printf %s '{record}' > {path}.new; mv {path}.new {path}");
        let script = format!(
            "while kill -0 {} 2>/dev/null; do :; done; exec \"$HOME/bin/claude\" - start \"$LATER\"",
            agent.pid()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env_clear().env("HOME", claude.home.path());
        command.env("PATH", "/usr/bin:/bin").env("LATER", later).current_dir(&claude.cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let other = Agent { child: command.spawn().expect("started") };
        // It ends with its standard input, which the wait for a child closes.
        let _input = agent.child.stdin.take();
        let reaper = std::thread::spawn(move || agent.child.wait());
        let stopped = claude.home.run(&["stop", A]);
        // The process that started is named as a survivor: it is in the same directory.
        let said = format!("{}{}", stopped.stdout, stopped.stderr);
        assert!(stopped.stdout.contains(&format!("stopped claude-code {A}")), "{said}");
        assert_eq!(stopped.code, Some(1), "{said}");
        reaper.join().expect("joined").expect("reaped");
        eventually("the other session is served", || {
            (claude.row(B)["pid"] == other.pid()).then_some(())
        });
    });
}
