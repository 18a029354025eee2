//! Launching: the real session id, an agent that survives its launcher and shim, and no process left after
//! a failure.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;
use testkit::{eventually, sandboxed};

use crate::home;
use crate::launched::{
    Seen, everyone, folder, kill, launch, marked, runs, script, shims, status, until_said,
    until_stopped,
};

#[test]
fn the_real_id_is_printed_alone_and_the_session_lives() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]] [[hang]]", &["--group", "g1", "--name", "nice"]);
        until_said(&home, &id, "assistant");
        let row = home.run(&["list", "--json"]).session(&id);
        assert_eq!((&row["status"], &row["adapter"]), (&"running".into(), &"demo".into()));
        assert_eq!(row["cwd"], home.path().join("w").to_string_lossy().as_ref());
        assert_eq!((&row["group"], &row["name"]), (&"g1".into(), &"nice".into()));
        let kept = runs(&home);
        assert_eq!((kept.len(), &kept[0]["id"]), (1, &row["run"]));
        assert_eq!((&kept[0]["session"], &kept[0]["ended_at"]), (&row["id"], &Value::Null));
        assert_eq!(status(&home, "@last")["id"], id.as_str());
        assert_eq!(status(&home, "nice")["id"], id.as_str(), "a name given at launch is a name");
        assert_eq!(home.run(&["list", "--group", "g1", "--json"]).sessions().len(), 1);
        assert!(home.run(&["list", "--group", "g2", "--json"]).sessions().is_empty());
        crate::assert_list_equals_status(&home);
    });
}

#[test]
fn the_exit_code_is_the_agents_own() {
    sandboxed(|| {
        let home = home();
        let fine = launch(&home, "a", "x [[say:done]]", &[]);
        let failed = launch(&home, "b", "x [[error:no luck]]", &[]);
        assert_eq!(until_stopped(&home, &fine)["outcome"], "finished");
        assert_eq!(until_stopped(&home, &failed)["outcome"], "failed");
        let code = |id: &str| {
            eventually("its parent has said how it ended", || {
                let run = runs(&home).into_iter().find(|r| r["session"] == id)?;
                run["exit"]["code"].as_i64()
            })
        };
        assert_eq!((code(&fine), code(&failed)), (0, 1));
        let json = home.run(&["launch", "demo", "-p", "x [[hang]]", "--json"]).json();
        assert_eq!(json["status"], "running");
        let id = json["id"].as_str().expect("an id");
        eventually("its turn has begun", || {
            Some(()).filter(|()| !status(&home, id)["prompt"].is_null())
        });
        kill(u32::try_from(json["pid"].as_u64().expect("a pid")).expect("fits"));
        let killed = eventually("the signal is known", || {
            Some(status(&home, id)).filter(|s| !s["exit"].is_null())
        });
        assert_eq!((&killed["exit"]["signal"], &killed["outcome"]), (&9.into(), &"killed".into()));
    });
}

/// Returns the private memory of a process in kB: all of it, and the part that is not in pages of a file.
fn private_memory(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("its mappings");
    let (mut all, mut own, mut in_file) = (0, 0, false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Anonymous:") => {
                let kilobytes: u64 = words.next().expect("a number").parse().expect("a number");
                all += kilobytes;
                own += if in_file { 0 } else { kilobytes };
            }
            // `55d0…-55d1… rw-p 00000000 fe:00 1234 /path`: the first line of a mapping.
            Some(first) if !first.ends_with(':') => {
                in_file = words.nth(4).is_some_and(|name| name.starts_with('/'));
            }
            _ => {}
        }
    }
    (all, own)
}

#[test]
fn the_agent_is_detached_and_its_shim_is_small() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        let pid = status(&home, &id)["pid"].as_u64().expect("a pid");
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a stat line");
        let session =
            stat.rsplit(") ").next().and_then(|s| s.split(' ').nth(3)).expect("a session");
        assert_eq!(session, pid.to_string(), "a session of its own");
        for fd in 0..3 {
            let meta = fs::metadata(format!("/proc/{pid}/fd/{fd}")).expect("open");
            assert!(meta.file_type().is_file(), "stream {fd} is a regular file");
        }
        let extra: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("listed")
            .flatten()
            .filter_map(|e| fs::read_link(e.path()).ok())
            .filter(|target| *target == home.path().join("w"))
            .collect();
        assert!(extra.is_empty(), "the directory's mutex was not handed to the agent: {extra:?}");
        let shim = shims().pop().expect("its parent");
        let (all, own) = private_memory(shim.pid);
        println!("the shim keeps {all} kB to itself, {own} kB beside what the linker wrote");
        assert!(own <= 256, "{own} kB");
        // Relocations of an unoptimised program take a megabyte before its first line.
        assert!(cfg!(debug_assertions) || all <= 1024, "{all} kB");
    });
}

#[test]
fn killing_the_shim_changes_no_status() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[ask:Go on?]] [[say:done]]", &[]);
        eventually("it asks", || Some(status(&home, &id)).filter(|s| s["status"] == "waiting"));
        let before = status(&home, &id);
        kill(shims().pop().expect("its parent").pid);
        eventually("the shim is gone", || shims().is_empty().then_some(()));
        let after = status(&home, &id);
        assert_eq!(crate::comparable(&before), crate::comparable(&after));
        let refused = home.run(&["launch", "demo", "-p", "y", "--cwd", "w"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert_eq!(home.run(&["demo-agent", "--tell", &id, "-p", "yes"]).code, Some(0));
        assert_eq!(until_stopped(&home, &id)["outcome"], "finished");
        assert_eq!(runs(&home)[0]["exit"], Value::Null, "nobody saw how it ended");
        eventually("but that it did", || {
            Some(()).filter(|()| !runs(&home)[0]["ended_at"].is_null())
        });
    });
}

#[test]
fn deleting_all_our_files_changes_no_answer() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]] [[hang]]", &["--group", "g"]);
        until_said(&home, &id, "assistant");
        let bare = |mut row: Value| {
            for launch_only in ["group", "run", "name", "exit"] {
                row[launch_only] = Value::Null;
            }
            crate::comparable(&row)
        };
        let before = bare(status(&home, &id));
        let shim = shims().pop().expect("its parent").pid;
        fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        assert_eq!(bare(status(&home, &id)), before);
        assert_eq!(shims().len(), 1, "it stays with its agent");
        kill(shim);
        assert_eq!(bare(status(&home, &id)), before);
        assert_eq!(home.run(&["list", "--json"]).sessions().len(), 1);
        assert!(home.run(&["logs", &id]).stdout.contains("hi"));
        assert_eq!(home.run(&["launch", "demo", "-p", "y", "--cwd", "w"]).code, Some(5));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!(status(&home, &id)["status"], "stopped");
        assert_eq!(home.run(&["resume", &id, "z [[say:back]]"]).code, Some(0));
    });
}

#[test]
fn the_prompt_is_in_no_argument_and_no_file_is_readable_by_others() {
    sandboxed(|| {
        let home = home();
        let secret = "the-secret-of-this-test";
        let long = format!("x {secret} [[hang]] {}", "word ".repeat(200_000));
        assert!(long.len() > 1_000_000);
        let file = home.write("prompt.txt", &long);
        folder(&home, "w");
        let file = file.to_string_lossy().into_owned();
        let launched = home.run(&[
            "launch",
            "demo",
            "--prompt-file",
            &file,
            "--cwd",
            "w",
            "--env",
            "TOKEN=hush-hush",
        ]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim();
        for process in everyone() {
            assert!(!process.argv.iter().any(|a| a.contains(secret)), "argv of {}", process.pid);
        }
        let first: Value = eventually("it wrote what it was asked", || {
            let said = home.run(&["logs", id, "--json"]).stdout;
            said.lines().next().map(|line| serde_json::from_str(line).expect("JSON"))
        });
        assert_eq!(first["text"].as_str().map(str::len), Some(long.len()), "it arrived whole");
        let agent = marked().into_iter().find(|p| p.argv.iter().any(|a| a == "demo-agent"));
        assert!(agent.expect("it lives").environ.contains(&"TOKEN=hush-hush".to_owned()));
        let mut folders = vec![home.path().join(".local/state/agentctl")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("listed").flatten() {
                let meta = entry.metadata().expect("a file");
                assert_eq!(meta.mode() & 0o077, 0, "{}", entry.path().display());
                if meta.is_dir() {
                    folders.push(entry.path());
                } else {
                    let text = fs::read(entry.path()).expect("read");
                    let text = String::from_utf8_lossy(&text).into_owned();
                    assert!(!text.contains("hush-hush"), "{}", entry.path().display());
                }
            }
        }
    });
}

#[test]
fn the_marker_names_the_agent_and_a_nested_launch_is_clean() {
    sandboxed(|| {
        let mut home = home();
        // As inside the tools of other agents.
        for inherited in ["CLAUDECODE", "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"] {
            home.set(inherited, "outer");
        }
        home.set("AGENTCTL_RUN", "v1:outer:1:1");
        home.set("MINE", "kept");
        let id = launch(&home, "w", "x [[tool:exec sleep 600]]", &[]);
        let session = eventually("its tool runs", || {
            Some(status(&home, &id)).filter(|s| s["reason"]["kind"] == "tool")
        });
        let marked = eventually("both are marked", || Some(marked()).filter(|m| m.len() == 2));
        let text = |p: &Seen| {
            let own = p.environ.iter().filter(|v| v.starts_with("AGENTCTL_RUN=")).cloned();
            own.collect::<Vec<_>>()
        };
        let pid = session["pid"].as_u64().expect("a pid");
        let start = session["processes"][0]["start_ticks"].as_u64().expect("ticks");
        let run = session["run"].as_str().expect("a run");
        for process in &marked {
            assert_eq!(text(process), [format!("AGENTCTL_RUN=v1:{run}:{pid}:{start}")]);
            assert!(process.environ.contains(&"MINE=kept".to_owned()));
            assert!(
                !process.environ.iter().any(|v| v.ends_with("=outer")),
                "{:?}",
                process.environ
            );
        }
        let shim = shims().pop().expect("its parent");
        assert!(text(&shim).is_empty(), "the shim is no descendant of its agent");
    });
}

#[test]
fn an_agent_that_dies_or_is_silent_leaves_nothing_running() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        let fails = |what: &str, words: &str| {
            let failed = home.run(&["launch", "claude-code", "-p", "x"]);
            assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{what}");
            assert!(failed.stderr.contains(words), "{what}: {}", failed.stderr);
            eventually("nothing is left", || {
                (marked().is_empty() && shims().is_empty()).then_some(())
            });
            assert!(home.run(&["list", "--json"]).sessions().is_empty(), "{what}");
        };
        script(&home, "claude", "echo 'Error: something is amiss' >&2; exit 3");
        fails("dies at once", "exited immediately (exit 3): Error: something is amiss");
        script(&home, "claude", "kill -9 $$");
        fails("is killed", "(signal 9): no output");
        let program = home.path().join("bin/claude");
        fs::remove_file(&program).expect("removed");
        home.write("bin/claude", "#!/nonexistent/interpreter\n");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        fails("cannot be executed", "cannot be run");
        // Long enough for some output before it.
        crate::configure(&home, &[("launch", "10s")], "");
        script(&home, "claude", "echo thinking >&2; (setsid sleep 600 &); sleep 600");
        fails(
            "says nothing that counts",
            "did not report a session id within 10000 ms and was stopped: thinking",
        );
        crate::configure(&home, &[("launch", "1s")], "");
        script(
            &home,
            "claude",
            "printf '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\"'; sleep 600",
        );
        fails("stops in the middle of a line", "did not report a session id");
        assert!(runs(&home).iter().all(|r| r["session"].is_null() || !r["ended_at"].is_null()));
    });
}

#[test]
fn an_agents_error_becomes_one_sentence_and_a_hint() {
    sandboxed(|| {
        let home = home();
        let said = |agent: &str, text: &str, more: &[&str]| {
            script(&home, if agent == "codex" { "codex" } else { "claude" }, text);
            let mut args = vec!["launch", agent, "-p", "x"];
            args.extend(more);
            let failed = home.run(&args);
            assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{}", failed.stderr);
            failed.stderr
        };
        // The error must come at once: an agent that pauses after its first output counts as started.
        let init = r#"'{"type":"system","subtype":"init","session_id":"a","apiKeySource":"none"}'"#;
        let refused = r#"'{"type":"assistant","is_api_error_message":true,"error":"authentication_failed","message":{"content":[{"text":"Not logged in"}]}}'"#;
        let at_once = format!("printf '%s\\n' {init} {refused}; exit 1");
        let stderr = said("claude-code", &at_once, &[]);
        assert!(
            stderr.contains("error: claude-code: Not logged in\nhint: run `claude`"),
            "{stderr}"
        );
        let refused = r#"'{"type":"assistant","is_api_error_message":true,"error":"model_not_found","message":{"content":[{"text":"There is an issue with the selected model (x)"}]}}'"#;
        let doubt = "echo '[claude-code:unrecognized_model] {}' >&2";
        let late = format!("{doubt}; echo {init}; read _ < \"$HOME/gate\"; echo {refused}; exit 1");
        rustix::fs::mkfifoat(rustix::fs::CWD, home.at("gate"), rustix::fs::Mode::RWXU)
            .expect("a gate");
        let gate = home.at("gate");
        let opener = std::thread::spawn(move || fs::write(gate, "go\n"));
        let stderr = said("claude-code", &late, &["--model", "x"]);
        assert!(stderr.contains("hint: name another with --model"), "{stderr}");
        opener.join().expect("joined").expect("opened");
        let git = "echo 'Not inside a trusted directory and --skip-git-repo-check was not specified.' >&2; exit 1";
        let stderr = said("codex", git, &[]);
        assert!(
            stderr.contains("hint: launch in a git repository, or add `-- --skip-git"),
            "{stderr}"
        );
        let key = r#"printf '%s\n' '{"type":"thread.started","thread_id":"t"}' '{"type":"turn.failed","error":{"message":"Missing environment variable: `K`."}}'; exit 1"#;
        let stderr = said("codex", key, &[]);
        assert!(stderr.contains("hint: run `codex login`"), "{stderr}");
    });
}

#[test]
fn bad_input_is_refused_before_anything_is_started() {
    sandboxed(|| {
        let home = home();
        home.write("file", "x");
        for (args, code, words) in [
            (vec!["launch", "nosuch", "-p", "x"], 2, "no adapter named `nosuch`"),
            (vec!["launch", "demo"], 2, "--prompt"),
            (vec!["launch", "demo", "-p", " \n"], 2, "the prompt is empty"),
            (vec!["launch", "demo", "--prompt-file", "nosuch"], 1, "nosuch cannot be read"),
            (vec!["launch", "demo", "-p", "x", "--cwd", "nosuch"], 1, "is not a directory"),
            (vec!["launch", "demo", "-p", "x", "--cwd", "file"], 1, "is not a directory"),
            (vec!["launch", "demo", "-p", "x", "--env", "novalue"], 2, "NAME=VALUE"),
            (vec!["launch", "demo", "-p", "x", "--on-complete", "'open"], 2, "a quote in it"),
            (
                vec!["launch", "demo", "-p", "x", "--permissions", "all"],
                2,
                "values: default, edits, bypass",
            ),
            (vec!["launch", "claude-code", "-p", "x"], 1, "`claude` is not installed"),
            (vec!["launch", "codex", "-p", "x"], 1, "`codex` is not installed"),
            (vec!["launch", "-p", "x"], 1, "no coding agent is installed"),
            (vec!["resume", "nosuch", "x"], 4, "no session matches"),
        ] {
            let refused = home.run(&args);
            assert_eq!(refused.code, Some(code), "{args:?}: {}", refused.stderr);
            assert!(refused.stderr.contains(words), "{args:?}: {}", refused.stderr);
            assert!(refused.stdout.is_empty(), "{args:?}");
        }
        script(&home, "codex", "exit 1");
        let long = home.write("long", "x".repeat((1 << 20) + 1)).to_string_lossy().into_owned();
        let refused = home.run(&["launch", "codex", "--prompt-file", &long]);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("1048577 characters; codex reads 1048576"), "{refused:?}");
        assert!(runs(&home).is_empty() && marked().is_empty());
    });
}

#[test]
fn options_become_the_agents_own_arguments() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        home.set("OPENAI_API_KEY", "k");
        let tell = r#"printf '%s\n' "$@" > "$HOME/args"; env > "$HOME/env"; cat > "$HOME/prompt""#;
        let claude = r#"echo '{"type":"system","subtype":"init","session_id":"'$6'"}'"#;
        script(&home, "claude", &format!("{tell}; {claude}"));
        let codex = r#"echo '{"type":"thread.started","thread_id":"01a1df41-0000-7000-8000-000000000000"}'"#;
        script(&home, "codex", &format!("{tell}; {codex}"));
        let read = |name: &str| fs::read_to_string(home.path().join(name)).expect("written");
        let launch = |agent: &str, more: &[&str]| {
            let mut args = vec!["launch", agent, "-p", "-x\n"];
            args.extend(more);
            let launched = home.run(&args);
            assert_eq!(launched.code, Some(0), "{}", launched.stderr);
            assert_eq!(read("prompt"), "-x\n", "as it was given");
            (
                launched.stdout.trim().to_owned(),
                read("args").lines().map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        let (id, args) = launch(
            "claude-code",
            &["--model", "m", "--name", "n", "--permissions", "edits", "--", "--more"],
        );
        let expected = format!(
            "-p --output-format stream-json --verbose --session-id {id} --model m --name n --permission-mode acceptEdits --more"
        );
        assert_eq!(args.join(" "), expected);
        let (_, args) = launch("claude-code", &["--permissions", "bypass"]);
        assert_eq!(args.last().map(String::as_str), Some("--dangerously-skip-permissions"));
        assert!(read("env").contains("ANTHROPIC_API_KEY=k"), "the environment is left alone");
        let (id, args) =
            launch("codex", &["--model", "m", "--permissions", "edits", "--", "--more"]);
        assert_eq!(id, "01a1df41-0000-7000-8000-000000000000");
        assert_eq!(args.join(" "), "exec --json --model=m --sandbox workspace-write --more -");
        let (_, args) = launch("codex", &["--permissions", "bypass"]);
        assert_eq!(args.join(" "), "exec --json --dangerously-bypass-approvals-and-sandbox -");
        let config = "adapter = \"claude-code\"\nmodel = \"cm\"\npermissions = \"bypass\"\n[claude-code]\nbilling = \"subscription\"\n";
        crate::configure(&home, &[], config);
        let launched = home.run(&["launch", "-p", "x"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        assert!(read("args").ends_with("--model\ncm\n--dangerously-skip-permissions\n"));
        assert!(!read("env").contains("ANTHROPIC_"), "{}", read("env"));
        home.write(".config/agentctl/config.toml", "[claude-code]\nbilling = \"none\"\n");
        let refused = home.run(&["launch", "-p", "x"]);
        assert!(
            refused.stderr.contains("claude-code.billing: `none` is not one of its values"),
            "{}",
            refused.stderr
        );
    });
}

#[test]
fn runs_are_listed_pruned_and_evicted() {
    sandboxed(|| {
        let home = home();
        let done = launch(&home, "a", "x [[say:done]]", &[]);
        let live = launch(&home, "b", "x [[hang]]", &[]);
        until_stopped(&home, &done);
        eventually("its end is written", || {
            let runs = runs(&home);
            let run = runs.iter().find(|r| r["session"] == done.as_str()).expect("kept");
            (!run["exit"].is_null()).then_some(())
        });
        // A run is attended, and not removed, until its shim has ended.
        eventually("only the live run has a shim", || (shims().len() == 1).then_some(()));
        let listed = home.run(&["runs"]);
        assert!(listed.stdout.contains("exit 0") && listed.stderr.contains("2 runs"), "{listed:?}");
        let dry = home.run(&["prune", "--dry-run", "--json"]).json();
        assert_eq!(
            (&dry["dry_run"], dry["pruned"].as_array().map(Vec::len)),
            (&true.into(), Some(1))
        );
        assert_eq!(runs(&home).len(), 2);
        assert_eq!(home.run(&["prune", "--older-than", "1h"]).code, Some(0));
        assert_eq!(runs(&home).len(), 2, "it ended a moment ago");
        let pruned = home.run(&["prune", "-y"]);
        assert!(pruned.stderr.contains("removed 1 ended run"), "{}", pruned.stderr);
        let left = runs(&home);
        assert_eq!((left.len(), &left[0]["session"]), (1, &live.as_str().into()));
        assert_eq!(status(&home, &done)["outcome"], "finished", "sessions are not ours to prune");
        // Runs that ended longer ago than the configured time are removed automatically, once their hooks
        // have ended.
        kill(shims().pop().expect("its parent").pid);
        let run = Path::new(left[0]["directory"].as_str().expect("a folder"));
        fs::write(run.join("exit.json"), r#"{"code":0,"signal":null,"at":"2020-01-01T00:00:00Z"}"#)
            .expect("written");
        assert!(runs(&home).is_empty());
        assert_eq!(status(&home, &live)["status"], "running", "a run is never a status");
    });
}

#[test]
fn an_agent_with_a_live_record_before_its_first_output_is_up() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        // As with a slow tool server: the live record exists, the first line of output does not.
        let register = r#"
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
start=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)
mkdir -p "$HOME/.claude/sessions"
printf '{"pid":%s,"sessionId":"%s","cwd":"%s","procStart":"%s","pidDomain":"linux:%s:%s","status":"busy"}' \
  $$ "$id" "$PWD" "$start" "$(cat /etc/machine-id)" "$(readlink /proc/$$/ns/pid)" > "$HOME/.claude/sessions/$$.json"
mkfifo "$HOME/gate"; read _ < "$HOME/gate""#;
        script(&home, "claude", register);
        let launched = home.run(&["launch", "claude-code", "-p", "x"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let row = home.run(&["list", "--json"]).session(launched.stdout.trim());
        assert_eq!(row["status"], "running");
    });
}

/// Claude Code 2.1.150 prints its first line before it writes a record.
#[test]
fn an_agent_with_output_before_its_record_is_waited_for() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        let speak = r#"
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
sleep 1
mkdir -p "$HOME/.claude/projects/-ws"
printf '{"type":"system","subtype":"local_command","entrypoint":"sdk-cli","sessionId":"%s","cwd":"%s"}\n' \
  "$id" "$PWD" > "$HOME/.claude/projects/-ws/$id.jsonl""#;
        script(&home, "claude", speak);
        let waited = home.run(&["launch", "claude-code", "-p", "/context", "--wait"]);
        assert_eq!(waited.code, Some(0), "{waited:?}");
    });
}

#[test]
fn launch_wait_returns_after_all_output_is_written() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:done]]", &["--group", "g"]);
        let waited = home.run(&["wait", &id, "--json"]);
        assert_eq!(waited.code, Some(0), "{}", waited.stderr);
        let session = waited.json()["sessions"][0].clone();
        assert_eq!((&session["group"], session["run"].is_string()), (&"g".into(), true));
        // After the wait the directory is free and all output is written.
        let json =
            home.run(&["launch", "demo", "-p", "y [[error:no]]", "--cwd", "w", "--wait", "--json"]);
        assert_eq!(json.code, Some(1), "{}", json.stderr);
        assert_eq!(
            (&json.json()["status"], &json.json()["exit"]["code"]),
            (&"error".into(), &1.into())
        );
        let followed =
            home.run(&["launch", "demo", "-p", "z [[say:hello]]", "--cwd", "w", "--follow"]);
        assert_eq!(followed.code, Some(0), "{}", followed.stderr);
        assert!(followed.stdout.contains("assistant") && followed.stdout.contains("hello"));
        assert!(followed.stderr.starts_with("session "), "{}", followed.stderr);
        let id = followed.stderr.trim_start_matches("session ").trim();
        let resumed = home.run(&["resume", id, "more [[say:again]]", "--follow"]);
        assert!(
            resumed.stdout.contains("again") && !resumed.stdout.contains("hello"),
            "{resumed:?}"
        );
    });
}
