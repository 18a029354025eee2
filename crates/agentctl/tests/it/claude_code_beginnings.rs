//! Claude Code before its first record and after its last: starting, first dialogs, spares, leaving.

use serde_json::{Value, json};
use testkit::{Agent, sandboxed};

use crate::assert_list_equals_status;
use crate::claude_code::{A, Claude, prompt, record, said, tool_use};

#[test]
fn a_process_before_its_first_session_is_a_row_without_id() {
    sandboxed(|| {
        let claude = Claude::new();
        let key = claude.home.at(".claude/sessions/{pid}.abc.key").to_string_lossy().into_owned();
        let settings = |trusted: bool| {
            json!({"hasCompletedOnboarding": true, "projects": {&claude.cwd: {"hasTrustDialogAccepted": trusted}}}).to_string()
        };
        claude.home.write(".claude.json", settings(false));
        let mut agent = claude.home.agent("claude", "ws", &["write", &key, "{}"]);
        agent.ready();
        let row = claude.list().sessions().pop().expect("a row");
        assert_eq!(
            (&row["id"], &row["status"], &row["reason"]["kind"]),
            (&Value::Null, &"waiting".into(), &"trust".into())
        );
        let by_pid = claude.home.run(&["status", &agent.pid().to_string(), "--json"]);
        assert_eq!((by_pid.code, &by_pid.json()["reason"]["kind"]), (Some(0), &"trust".into()));

        claude.home.write(".claude.json", settings(true));
        let row = claude.list().sessions().pop().expect("a row");
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"starting".into())
        );
        claude.home.write(".claude.json", "{}");
        assert_eq!(claude.list().sessions()[0]["reason"]["kind"], "login");
        assert_list_equals_status(&claude.home);
    });
}

#[test]
fn spares_and_helpers_are_no_sessions() {
    sandboxed(|| {
        let claude = Claude::new();
        std::fs::create_dir_all(claude.home.path().join(".claude/sessions")).expect("made");
        let helpers = [
            &["--bg-spare", "x.sock"][..],
            &["daemon", "run"],
            &["mcp", "serve"],
            &["--bg-pty-host", "y"],
        ];
        let mut agents: Vec<Agent> =
            helpers.iter().map(|args| claude.home.agent("claude", "ws", args)).collect();
        for agent in &mut agents {
            agent.ready();
        }
        assert!(claude.list().sessions().is_empty(), "{}", claude.list().stdout);
    });
}

#[test]
fn the_record_of_a_daemon_is_no_session() {
    sandboxed(|| {
        for kind in ["daemon", "daemon-worker"] {
            let claude = Claude::new();
            let text = record(A, &claude.cwd, &json!({"status": "busy", "kind": kind}));
            let script = ["daemon", "run", "write", &claude.record_path, &text];
            let mut daemon = claude.home.agent("claude", "ws", &script);
            daemon.ready();
            assert!(claude.list().sessions().is_empty(), "{kind}: {}", claude.list().stdout);
        }
    });
}

#[test]
fn a_fork_that_is_not_yet_another_program_is_not_another_agent() {
    sandboxed(|| {
        let claude = Claude::new();
        std::fs::create_dir_all(claude.home.path().join(".claude/sessions")).expect("made");
        // A shell under the agent's name: its subshell is the same program with the same arguments.
        std::fs::copy("/bin/sh", claude.home.at("bin/claude")).expect("copied");
        let mut agent = claude.home.agent("claude", "ws", &["-c", "(echo ready; read x); true"]);
        agent.ready();
        let rows = claude.list().sessions();
        let pids: Vec<&Value> = rows.iter().map(|row| &row["pid"]).collect();
        assert_eq!(pids, [agent.pid()]);
    });
}

#[test]
fn an_agent_in_another_pid_namespace_has_one_row_and_no_pid() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        drop(claude.home.agent("claude", "ws", &[]));
        let text = record(A, &claude.cwd, &json!({"status": "busy"}));
        let mut inner = std::process::Command::new("unshare");
        inner.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        inner.arg(claude.home.path().join("bin/claude"));
        inner.args(["write", &claude.record_path, &text]);
        inner.env_clear().env("HOME", claude.home.path()).current_dir(&claude.cwd);
        inner.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut agent = Agent { child: inner.spawn().expect("`unshare` of util-linux") };
        assert_eq!(agent.ready(), "ready 1", "it is pid 1 where it lives");
        let rows = claude.list().sessions();
        assert_eq!(rows.len(), 1, "{rows:#?}");
        assert_eq!(
            (&rows[0]["id"], &rows[0]["status"], &rows[0]["pid"]),
            (&A.into(), &"unknown".into(), &Value::Null)
        );
        assert_eq!(rows[0]["reason"]["kind"], "elsewhere");
    });
}

#[test]
fn a_process_that_is_exiting_is_unknown_not_killed() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut agent = claude.live(A, &json!({"status": "busy"}));
        claude.transcript(A, &[prompt("x"), tool_use("t1", "Bash", &json!({"command": "make"}))]);
        let later = "2099-01-01T00:00:00.000Z";
        let path = claude.home.path().join(format!(".claude/projects/-ws/{A}.jsonl"));
        let text = std::fs::read_to_string(&path)
            .expect("there")
            .replace("2026-11-15T08:00:01.000Z", later);
        std::fs::write(&path, text).expect("written");
        std::fs::remove_file(claude.record_path.replace("{pid}", &agent.pid().to_string()))
            .expect("removed");
        for args in [&["list", "--json"][..], &["list", "-a", "--json"]] {
            let listed = claude.home.run(args);
            let row = listed.session(A);
            assert_eq!(
                (&row["status"], &row["reason"]["kind"]),
                (&"unknown".into(), &"ambiguous".into()),
                "{args:?}"
            );
            assert_eq!(row["reason"]["detail"], format!("pid {}", agent.pid()));
            let process =
                listed.sessions().into_iter().find(|s| s["id"].is_null()).expect("the process");
            assert_eq!(process["status"], "unknown");
        }
        assert_list_equals_status(&claude.home);
        agent.kill();
        assert_eq!(
            (&claude.row(A)["status"], &claude.row(A)["outcome"]),
            (&"stopped".into(), &"killed".into())
        );
    });
}

#[test]
fn the_first_dialogs_are_distinguished() {
    sandboxed(|| {
        let mut claude = Claude::new();
        claude.home.set("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdefghijklmnop");
        let key = claude.home.at(".claude/sessions/{pid}.abc.key").to_string_lossy().into_owned();
        let settings = |more: &Value| {
            let mut all = json!({"hasCompletedOnboarding": true, "projects": {&claude.cwd: {"hasTrustDialogAccepted": true}}});
            for (name, value) in more.as_object().expect("an object") {
                all[name] = value.clone();
            }
            claude.home.write(".claude.json", all.to_string());
        };
        let script = ["--dangerously-skip-permissions", "write", &key, "{}"];
        let mut agent = claude.home.agent("claude", "ws", &script);
        agent.ready();
        let detail = || claude.list().sessions()[0]["reason"]["detail"].as_str().map(str::to_owned);
        settings(&json!({}));
        assert_eq!(detail().as_deref(), Some("use of the API key must be confirmed"));
        let known = json!({"approved": ["6789abcdefghijklmnop"]});
        settings(&json!({"customApiKeyResponses": known}));
        assert_eq!(detail().as_deref(), Some("bypassing permissions must be confirmed"));
        settings(&json!({"customApiKeyResponses": known, "bypassPermissionsModeAccepted": true}));
        assert_eq!(claude.list().sessions()[0]["reason"]["kind"], "starting");
        assert!(!claude.list().stdout.contains("ghijklmnop"), "the key is nobody's business");
    });
}

#[test]
fn a_process_started_for_one_prompt_is_starting_before_it_arrives() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done long ago")]);
        let _agent = claude.live(
            A,
            &json!({"status": "idle", "entrypoint": "sdk-cli", "startedAt": 4_000_000_000_000_i64}),
        );
        let row = claude.row(A);
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"starting".into())
        );
        assert_list_equals_status(&claude.home);
    });
}

/// 2.1.150 and 2.1.200 leave no file before the first dialogs are answered.
#[test]
fn a_first_dialog_of_a_version_without_a_key_is_not_called_starting() {
    sandboxed(|| {
        let claude = Claude::new();
        std::fs::create_dir_all(claude.home.path().join(".claude/sessions")).expect("made");
        drop(claude.home.agent("claude", "ws", &[]));
        let trust = |trusted: bool| {
            let settings = json!({"hasCompletedOnboarding": true, "projects": {&claude.cwd: {"hasTrustDialogAccepted": trusted}}});
            claude.home.write(".claude.json", settings.to_string());
        };
        let told = || {
            let row = claude.list().sessions().pop().expect("a row");
            (row["status"].clone(), row["reason"]["kind"].clone())
        };
        let starting = || ("running".into(), "starting".into());
        let installed = claude.home.path().join("share/claude/versions");
        std::fs::create_dir_all(&installed).expect("made");
        for (version, args, asked) in [
            ("2.1.150", &[][..], ("unknown".into(), "unreadable".into())),
            ("2.1.200", &[][..], ("unknown".into(), "unreadable".into())),
            ("2.1.150", &["-p"][..], starting()),
            // Its key comes first: without one it has only just started.
            ("2.1.325", &[][..], starting()),
        ] {
            let program = installed.join(version);
            std::fs::copy(claude.home.path().join("bin/claude"), &program).expect("copied");
            let mut command = std::process::Command::new(&program);
            command.args(args).env_clear().env("HOME", claude.home.path());
            command.current_dir(&claude.cwd);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut agent = Agent { child: command.spawn().expect("started") };
            agent.ready();
            trust(false);
            assert_eq!(told(), asked, "{version} {args:?}");
            assert_list_equals_status(&claude.home);
            trust(true);
            assert_eq!(told(), starting(), "{version} {args:?}");
        }
    });
}
