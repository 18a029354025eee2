//! Launching from unusual callers: their descriptors, signals and environment must not reach the agent.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{eventually, sandboxed};

use crate::events::Stream;
use crate::home;
use crate::launched::{folder, kill, launch, marked, runs, script, shims, status, until_stopped};

#[test]
fn a_deleted_directory_is_not_replaced_by_another() {
    sandboxed(|| {
        let home = home();
        let here = home.run(&["launch", "demo", "-p", "x [[hang]]"]);
        assert_eq!(here.code, Some(0), "{}", here.stderr);
        folder(&home, "gone");
        for args in ["stop .", "launch demo -p y", "launch demo -p y --cwd ."] {
            let program = env!("CARGO_BIN_EXE_agentctl");
            let mut shell = Command::new("sh");
            let line = format!(
                "cd gone && rmdir ../gone && {program} {args}; r=$?; mkdir ../gone; exit $r"
            );
            shell.args(["-c", &line]).env_clear().env("HOME", home.path()).current_dir(home.path());
            let output = shell.output().expect("runs");
            assert_ne!(output.status.code(), Some(0), "{args}: {output:?}");
        }
        assert_eq!(status(&home, here.stdout.trim())["status"], "running");
        assert_eq!(runs(&home).len(), 1);
    });
}

#[test]
fn descriptors_and_signals_of_the_caller_are_not_inherited() {
    sandboxed(|| {
        let home = home();
        let program = env!("CARGO_BIN_EXE_agentctl");
        // Descriptor 3 is a pipe with a reader that waits for its end, 9 holds a lock, and `&` ignores
        // signals.
        let line = format!(
            "exec 9> lock; flock 9; ({program} launch demo -p 'x [[hang]]' 3>&1 >id 2>&1 & wait) | cat"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env_clear().env("HOME", home.path()).current_dir(home.path());
        shell.env("PATH", "/usr/bin:/bin");
        assert!(shell.output().expect("it comes back while the agent lives").status.success());
        let id = fs::read_to_string(home.path().join("id")).expect("told").trim().to_owned();
        let session = status(&home, &id);
        assert_eq!(session["status"], "running");
        let lock = fs::File::open(home.path().join("lock")).expect("there");
        lock.try_lock().expect("nobody holds the caller's lock any more");
        let pid = session["pid"].as_u64().expect("a pid");
        let told = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let ignored = told.lines().find_map(|l| l.strip_prefix("SigIgn:")).expect("a line");
        let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a mask");
        assert_eq!(ignored & 0b110, 0, "it hears SIGINT and SIGQUIT");
    });
}

#[test]
fn one_session_is_not_continued_twice_in_two_directories() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        let id = "0c2f8f8e-1111-4222-8333-123456789abc";
        let cwd = folder(&home, "w");
        let slug: String =
            cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let record = home.at(&format!(".claude/projects/{slug}/{id}.jsonl"));
        let line = |text: &str| {
            format!(
                r#"{{"type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"u","timestamp":"2026-11-15T10:00:00.000Z","cwd":"{cwd}","sessionId":"{id}"}}"#
            )
        };
        fs::write(&record, format!("{}\n", line("first"))).expect("written");
        rustix::fs::mkfifoat(rustix::fs::CWD, home.at("gate"), rustix::fs::Mode::RWXU)
            .expect("a gate");
        let init = format!(r#"echo '{{"type":"system","subtype":"init","session_id":"{id}"}}'"#);
        let write = format!("printf '%s\\n' '{}' >> '{}'", line("again"), record.display());
        script(&home, "claude", &format!("{init}; {write}; read _ < \"$HOME/gate\""));
        let places: Vec<String> = (0..4).map(|n| folder(&home, &format!("place-{n}"))).collect();
        for _ in 0..5 {
            let racers: Vec<_> = places
                .iter()
                .map(|place| {
                    let args = ["resume", id, "again", "--cwd", place];
                    home.command(&args).stderr(Stdio::null()).spawn().expect("starts")
                })
                .collect();
            let codes: Vec<_> =
                racers.into_iter().map(|mut c| c.wait().expect("ends").code()).collect();
            assert_eq!(codes.iter().filter(|c| **c == Some(0)).count(), 1, "{codes:?}");
            let agents = marked();
            assert_eq!(agents.len(), 1, "one agent, whoever won");
            for agent in agents {
                kill(agent.pid);
            }
            eventually("it is gone", || (marked().is_empty() && shims().is_empty()).then_some(()));
        }
    });
}

#[test]
fn the_holder_of_a_directory_is_named_and_force_enters() {
    sandboxed(|| {
        let home = home();
        crate::configure(&home, &[("launch", "300ms")], "");
        let cwd = folder(&home, "w");
        let held = fs::File::open(&cwd).expect("open");
        held.lock().expect("held");
        let refused = home.run(&["launch", "demo", "-p", "x", "--cwd", &cwd]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let me = format!("locked by pid {}", std::process::id());
        assert!(refused.stderr.contains(&me) && refused.stderr.contains("--force"), "{refused:?}");
        crate::configure(&home, &[], "");
        let forced = home.run(&["launch", "demo", "-p", "x", "--cwd", &cwd, "--force"]);
        assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    });
}

#[test]
fn the_agents_own_variables_reach_neither_shim_nor_hook() {
    sandboxed(|| {
        let home = home();
        let hook = "sh -c 'env > \"$HOME/hook\"; echo end >> \"$HOME/hook\"'";
        let more = ["--env", "PATH=/usr/bin:/bin:/x", "--env", "TOKEN=hush", "--on-complete", hook];
        let id = launch(&home, "w", "x [[tool:/usr/bin/env]]", &more);
        until_stopped(&home, &id);
        let hook = eventually("the hook ran", || {
            fs::read_to_string(home.path().join("hook")).ok().filter(|t| t.ends_with("end\n"))
        });
        assert!(!hook.contains("hush") && !hook.contains(":/x"), "{hook}");
        let said = home.run(&["logs", &id, "--json"]).stdout;
        assert!(said.contains("TOKEN=hush") && said.contains(":/x"), "the agent has them: {said}");
        assert!(!said.contains("AGENTCTL_AGENT_ENV"), "{said}");
    });
}

#[test]
fn programs_are_not_searched_in_the_agents_directory() {
    sandboxed(|| {
        let mut home = home();
        folder(&home, "repo/bin");
        script(&home, "notify", "touch \"$HOME/ran\"");
        fs::rename(home.path().join("bin/notify"), home.path().join("repo/bin/notify"))
            .expect("moved");
        home.set("PATH", "bin:/usr/bin:/bin");
        let more = ["--on-create", "notify"];
        let launched = home
            .run(&[&["launch", "demo", "-p", "x [[say:ok]]", "--cwd", "repo"], &more[..]].concat());
        assert!(launched.stderr.contains("`notify` is not a program"), "{}", launched.stderr);
        home.write(".config/agentctl/config.toml", "[hooks]\non_complete = [\"./bin/notify\"]\n");
        let refused = home.run(&["launch", "demo", "-p", "x", "--cwd", "repo"]);
        assert!(refused.stderr.contains("hooks.on_complete: `./bin/notify` is a relative path"));
        assert!(!home.path().join("ran").exists());
    });
}

#[test]
fn a_state_folder_that_others_can_reach_is_not_used() {
    sandboxed(|| {
        let home = home();
        let state = home.at(".local/state/agentctl/runs");
        fs::create_dir_all(&state).expect("made");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).expect("set");
        let refused = home.run(&["launch", "demo", "-p", "x"]);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("can be written by others"), "{}", refused.stderr);
        fs::remove_dir(&state).expect("removed");
        symlink(folder(&home, "elsewhere"), &state).expect("linked");
        let refused = home.run(&["launch", "demo", "-p", "x"]);
        assert!(refused.stderr.contains("is a link"), "{}", refused.stderr);
        assert!(marked().is_empty());
    });
}

#[test]
fn a_full_stdout_does_not_prevent_the_hook() {
    sandboxed(|| {
        let home = home();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("open");
        let hook = "sh -c 'touch \"$HOME/ran\"'";
        let mut command =
            home.command(&["launch", "demo", "-p", "x [[say:ok]]", "--on-create", hook]);
        let output = command.stdout(full).stderr(Stdio::piped()).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let id = said.lines().find(|line| line.len() == 36).expect("its id is told somewhere");
        assert_eq!(status(&home, id)["id"], id);
        assert!(home.path().join("ran").exists());
    });
}

#[test]
fn a_session_in_an_unread_home_is_not_waited_for() {
    sandboxed(|| {
        let home = home();
        let other = folder(&home, "other");
        let elsewhere = format!("XDG_DATA_HOME={other}");
        let prompt = "x [[delay:1]] [[error:bad]]";
        let args = ["launch", "demo", "-p", prompt, "--env", &elsewhere, "--wait"];
        let waited = home.run(&args);
        assert_eq!(waited.code, Some(3), "{waited:?}");
        assert!(waited.stderr.contains("no source on this machine shows it"), "{}", waited.stderr);
    });
}

#[test]
fn a_launched_agent_that_no_adapter_knows_can_be_stopped() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        crate::configure(&home, &[("launch", "1h")], "");
        script(&home, "claude", "exec sleep 600");
        let mut launcher =
            home.command(&["launch", "claude-code", "-p", "x"]).spawn().expect("starts");
        let agent = eventually("it is up", || {
            marked().into_iter().find(|p| p.argv.first().is_some_and(|a| a == "sleep"))
        });
        launcher.kill().expect("killed");
        launcher.wait().expect("reaped");
        let refused = home.run(&["launch", "demo", "-p", "y"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        let stopped = home.run(&["stop", &agent.pid.to_string()]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        assert!(marked().is_empty());
        assert_eq!(home.run(&["launch", "demo", "-p", "y"]).code, Some(0));
    });
}

#[test]
fn a_run_in_another_namespace_or_with_a_running_hook_is_kept() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:ok]]", &["--on-complete", "sleep 600"]);
        until_stopped(&home, &id);
        eventually("its end is written", || (!runs(&home)[0]["exit"].is_null()).then_some(()));
        assert_eq!(home.run(&["prune", "--json"]).json()["pruned"], Value::Array(Vec::new()));
        let hook = eventually("the hook is at work", || {
            crate::launched::everyone()
                .into_iter()
                .find(|p| p.argv.last().is_some_and(|a| a == "600") && p.argv[0].ends_with("sleep"))
        });
        kill(hook.pid);
        eventually("its shim has gone", || shims().is_empty().then_some(()));
        let run = runs(&home).pop().expect("a run");
        let folder = std::path::PathBuf::from(run["directory"].as_str().expect("a folder"));
        fs::remove_file(folder.join("exit.json")).expect("removed");
        let started = fs::read_to_string(folder.join("started.json")).expect("there");
        let mut started: Value = serde_json::from_str(&started).expect("JSON");
        started["pid_namespace"] = 1.into();
        fs::write(folder.join("started.json"), started.to_string()).expect("written");
        assert_eq!(runs(&home)[0]["ended_at"], Value::Null, "it may live where we cannot look");
        assert_eq!(home.run(&["prune", "--json"]).json()["pruned"], Value::Array(Vec::new()));
    });
}

#[test]
fn an_end_before_its_session_is_written_is_reported_afterwards() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:ok]]", &[]);
        let ended = |run: &Value| !run["exit"].is_null();
        let run = eventually("its end is kept", || runs(&home).pop().filter(ended));
        let stream = Stream::of(&home, &[]);
        // A launch whose agent was quicker than its launcher: a copy of the run without `session.json`, and
        // with the launcher's lock.
        let kept = home.path().join(".local/state/agentctl/runs");
        let (from, half) = (kept.join(run["id"].as_str().expect("an id")), home.at("half"));
        fs::create_dir(&half).expect("made");
        let again = "ffffffff-ffff-7fff-bfff-ffffffffffff";
        for name in ["spec.json", "started.json", "exit.json", "stdout", "stderr", "prompt"] {
            let text = fs::read_to_string(from.join(name)).expect("there");
            let text = text.replace(run["id"].as_str().expect("an id"), again);
            fs::write(half.join(name), text).expect("written");
        }
        let launcher = fs::File::open(&half).expect("opened");
        launcher.lock().expect("locked");
        fs::rename(&half, kept.join(again)).expect("moved");
        // When the end of a later run was reported, this run has been read too.
        let other = launch(&home, "v", "x [[say:ok]]", &[]);
        stream.last(&other, "stopped");
        assert_eq!(stream.kinds(&id), [""; 0], "nobody knows yet what has ended");
        fs::copy(from.join("session.json"), home.at("session")).expect("copied");
        fs::rename(home.at("session"), kept.join(again).join("session.json")).expect("moved");
        let told = stream.until(&id, &["started", "stopped"]);
        assert_eq!(told["id"], format!("{again}-stopped"));
        drop(launcher);
    });
}
