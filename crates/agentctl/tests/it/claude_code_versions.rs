//! Older versions of Claude Code: records without pid domain, start time or status, subagents beside
//! sessions (W3, W5, W11).

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::{Agent, sandboxed};

use crate::assert_list_equals_status;
use crate::claude_code::{A, B, Claude, prompt, record, said, tool_use};

/// Starts a double in a pid namespace of its own that shares the home, as a container does.
fn in_container(claude: &Claude, script: &[&str]) -> Agent {
    drop(claude.home.agent("claude", "ws", &[]));
    let mut inner = Command::new("unshare");
    inner.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    inner.arg(claude.home.path().join("bin/claude")).args(script);
    inner.env_clear().env("HOME", claude.home.path()).current_dir(&claude.cwd);
    inner.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent { child: inner.spawn().expect("`unshare` of util-linux") };
    agent.ready();
    agent
}

fn older(more: &Value) -> Value {
    let mut fields = json!({"pidDomain": null, "version": "2.1.200", "entrypoint": "sdk-cli"});
    for (key, value) in more.as_object().expect("an object") {
        fields[key] = value.clone();
    }
    fields
}

/// W3.
#[test]
fn a_record_without_domain_proves_no_end_while_a_container_has_a_claude() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), tool_use("t1", "Bash", &json!({"command": "make"}))]);
        let text = record(A, &claude.cwd, &older(&json!({})));
        let mut agent = in_container(&claude, &["write", &claude.record_path, &text]);
        let rows = claude.list().sessions();
        assert_eq!(rows.len(), 1, "{rows:#?}");
        let told = |row: &Value| (row["status"].clone(), row["reason"]["kind"].clone());
        assert_eq!(told(&rows[0]), ("unknown".into(), "elsewhere".into()));
        assert_list_equals_status(&claude.home);
        agent.kill();
        assert_eq!(claude.row(A)["outcome"], "killed", "no Claude Code lives elsewhere any more");
    });
}

/// W3: versions up to 2.0 write no record at all.
#[test]
fn a_claude_without_record_in_a_container_may_serve_the_sessions_of_its_directory() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), tool_use("t1", "Bash", &json!({"command": "make"}))]);
        let path = claude.home.path().join(format!(".claude/projects/-ws/{A}.jsonl"));
        let text =
            std::fs::read_to_string(&path).expect("there").replace("2026-11-15", "2099-11-15");
        std::fs::write(&path, text).expect("written");
        let _agent = in_container(&claude, &[]);
        assert_eq!(claude.row(A)["status"], "unknown");
    });
}

/// The record of 2.1.100 has no start time: nothing proves which process wrote it.
#[test]
fn a_record_without_start_time_is_ambiguous_not_elsewhere() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        let _agent = claude.live(A, &json!({"procStart": null, "pidDomain": null}));
        let rows = claude.list().sessions();
        assert_eq!(rows.len(), 1, "{rows:#?}");
        assert_eq!(
            (&rows[0]["status"], &rows[0]["reason"]["kind"], &rows[0]["pid"]),
            (&"unknown".into(), &"ambiguous".into(), &Value::Null)
        );
    });
}

/// W5: `startedAt` of the record is 07:46, the transcript's entries are of 08:00.
#[test]
fn without_a_status_the_transcript_decides() {
    sandboxed(|| {
        let stream = ["-p", "--input-format", "stream-json"];
        let kept_nowhere = ["-p", "--input-format", "stream-json", "--no-session-persistence"];
        let open = [prompt("x"), tool_use("t1", "Bash", &json!({"command": "make"}))];
        let over = [prompt("x"), said("done")];
        let earlier = 1_794_728_785_156_i64;
        let later = earlier + 86_400_000;
        for (args, started_at, lines, status, kind) in [
            (&["-p"][..], earlier, &open[..], "running", "tool"),
            (&stream[..], earlier, &open[..], "running", "tool"),
            (&stream[..], earlier, &over[..], "idle", "-"),
            // The entries were written by an earlier process: this one has not taken the session up
            // yet, or is idle.
            (&["-p"][..], later, &open[..], "running", "starting"),
            (&["-p"][..], later, &over[..], "running", "starting"),
            (&stream[..], later, &over[..], "idle", "-"),
            (&stream[..], later, &open[..], "idle", "-"),
            // There is no transcript yet.
            (&["-p"][..], earlier, &[][..], "running", "starting"),
            (&stream[..], earlier, &[][..], "idle", "-"),
            // There will never be one.
            (&kept_nowhere[..], earlier, &[][..], "unknown", "unreadable"),
        ] {
            let claude = Claude::new();
            if !lines.is_empty() {
                claude.transcript(A, lines);
            }
            let text = record(A, &claude.cwd, &older(&json!({"startedAt": started_at})));
            let script = [args, &["write", &claude.record_path, &text]].concat();
            let mut agent = claude.home.agent("claude", "ws", &script);
            agent.ready();
            let row = claude.row(A);
            let got = (row["status"].as_str(), row["reason"]["kind"].as_str().unwrap_or("-"));
            assert_eq!(got, (Some(status), kind), "{args:?} {started_at} {lines:?}");
            assert_list_equals_status(&claude.home);
        }
    });
}

/// W5: 2.1.150 records a new id until it has read the session that it resumes.
#[test]
fn the_id_that_a_resuming_process_records_first_is_no_session() {
    sandboxed(|| {
        let stream = ["-p", "--input-format", "stream-json"];
        for (more, id) in [
            (&["--resume", A][..], Value::Null),
            (&["--resume=x"], Value::Null),
            (&["-r", A], Value::Null),
            (&["--continue"], Value::Null),
            (&["--resume", A, "--fork-session"], B.into()),
            (&[], B.into()),
        ] {
            let claude = Claude::new();
            claude.transcript(A, &[prompt("x"), said("done")]);
            let later = json!({"startedAt": 1_794_728_785_156_i64 + 86_400_000});
            let text = record(B, &claude.cwd, &older(&later));
            let script = [&stream[..], more, &["write", &claude.record_path, &text]].concat();
            let mut agent = claude.home.agent("claude", "ws", &script);
            agent.ready();
            let rows = claude.home.run(&["list", "--json"]).sessions();
            assert_eq!((rows.len(), &rows[0]["id"]), (1, &id), "{more:?} {rows:#?}");
            let status = if id.is_null() { "running" } else { "idle" };
            assert_eq!(rows[0]["status"], status, "{more:?}");
            assert_eq!(claude.row(A)["status"], "stopped", "{more:?}");
        }
    });
}

/// W11.
#[test]
fn subagents_beside_the_sessions_belong_to_their_parent() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        for (agent, parent) in [("af12345", A), ("a000001", B)] {
            let line = json!({"type": "user", "isSidechain": true, "agentId": agent, "sessionId": parent,
                "timestamp": "2026-11-15T08:00:05.000Z", "message": {"role": "user", "content": "Warmup"}});
            claude
                .home
                .write(&format!(".claude/projects/-ws/agent-{agent}.jsonl"), format!("{line}\n"));
        }
        // Neither a UUID nor a subagent.
        claude.home.write(".claude/projects/-ws/notes.jsonl", "{\"type\":\"user\"}\n");
        let ids = |rows: &[Value]| {
            rows.iter().map(|r| r["id"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&claude.list().sessions()), [A]);
        let tree =
            claude.home.run(&["list", "-a", "--since", "all", "--tree", "--json"]).sessions();
        assert_eq!(ids(&tree), [A, "af12345"]);
        assert_eq!(tree[1]["parent"], A);
        let alone = claude.home.run(&["status", "af12345", "--json"]).json();
        assert_eq!(crate::comparable(&alone), crate::comparable(&tree[1]));
    });
}

/// Versions before 2.0 wrote the lines of subagents into the transcript of their session.
#[test]
fn a_subagent_inside_the_transcript_does_not_speak_for_the_session() {
    sandboxed(|| {
        let claude = Claude::new();
        let mut inside = tool_use("t9", "Grep", &json!({"pattern": "x"}));
        inside["isSidechain"] = true.into();
        claude.transcript(A, &[prompt("x"), said("done"), inside]);
        assert_eq!(claude.row(A)["outcome"], "finished");
    });
}

/// 2.0.77 leaves an empty transcript beside the session that it resumes.
#[test]
fn an_empty_transcript_is_a_session_only_if_a_live_record_names_it() {
    sandboxed(|| {
        let claude = Claude::new();
        claude.transcript(A, &[prompt("x"), said("done")]);
        claude.home.write(&format!(".claude/projects/-ws/{B}.jsonl"), "");
        let ids = || {
            let rows = claude.list().sessions();
            rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(), [A]);
        assert_ne!(claude.home.run(&["status", B, "--json"]).code, Some(0));
        assert_list_equals_status(&claude.home);
        // The transcript of a live session may have been truncated.
        let _agent = claude.live(B, &json!({"status": "busy"}));
        assert!(ids().contains(&B.into()), "{:?}", ids());
        assert_list_equals_status(&claude.home);
    });
}

/// Versions before 2.1.280 write no status without a terminal. A session that was launched to stay has a prompt from
/// the beginning, which is in no record yet.
#[test]
fn a_kept_session_of_an_older_version_is_not_idle_before_its_first_prompt() {
    sandboxed(|| {
        let claude = Claude::new();
        // Places the program of the agent.
        claude.home.agent("claude", "ws", &[]).kill();
        let old = record(A, &claude.cwd, &older(&json!({"startedAt": crate::opencode::now_ms()})));
        let (program, output) = (claude.home.at("bin/claude"), claude.home.at("output"));
        let script = format!(
            "start=$(awk '{{print $22}}' /proc/$$/stat)\n\
             export AGENTCTL_RUN=v1:01a1de32-0000-7000-8000-00000000000a:$$:$start\n\
             exec {} -p --input-format stream-json stay write '{}' '{old}' > {}\n",
            program.display(),
            claude.record_path,
            output.display()
        );
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(script).env_clear().env("HOME", claude.home.path());
        command.env("PATH", "/usr/bin:/bin").current_dir(&claude.cwd);
        let _agent = testkit::Agent { child: command.spawn().expect("started") };
        let row = testkit::eventually("it is listed", || {
            claude.list().sessions().into_iter().find(|row| row["id"] == A)
        });
        assert_eq!(
            (&row["status"], &row["reason"]["kind"]),
            (&"running".into(), &"starting".into())
        );
        // A conversation that it has taken up: its turns are older than the process.
        claude.transcript(A, &[prompt("before"), said("answered")]);
        assert_eq!(claude.row(A)["status"], "running");
        assert_list_equals_status(&claude.home);
        let mut lines = std::fs::OpenOptions::new().append(true).open(&output).expect("there");
        std::io::Write::write_all(&mut lines, b"{\"type\":\"result\",\"subtype\":\"success\"}\n")
            .expect("written");
        assert_eq!(claude.row(A)["status"], "idle");
        assert_list_equals_status(&claude.home);
    });
}
