//! Class: files, folders and locks that another user placed, owns or holds (S15, S18, S22, S23).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Agent, TestHome, another_user, eventually, sandboxed};

use crate::claude_code::{A, prompt, record, said};
use crate::launched::{folder, launch, script, until_stopped};
use crate::{configure, home};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

/// S18: the file of `daemon install` is readable by this user only, whatever the umask is.
#[test]
fn an_installed_service_is_written_for_this_user_only() {
    sandboxed(|| {
        let home = home();
        fs::remove_dir_all(home.path().join(".config")).expect("removed");
        script(&home, "systemctl", "exit 0");
        let program = env!("CARGO_BIN_EXE_agentctl");
        let install = home.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("umask 000; exec '{program}' daemon install")]);
        shell.env_clear().envs(install.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let done = shell.current_dir(home.path()).output().expect("runs");
        assert!(done.status.success(), "{done:?}");
        let unit = home.path().join(".config/systemd/user/agentctl.service");
        assert_eq!(mode(&unit) & 0o077, 0, "the unit has mode {:o}", mode(&unit));
        for folder in [".config/systemd/user", ".config/systemd", ".config"] {
            let mode = mode(&home.path().join(folder));
            assert_eq!(mode & 0o077, 0, "{folder} has mode {mode:o}");
        }
        // An existing file with open permissions is closed.
        fs::set_permissions(&unit, fs::Permissions::from_mode(0o666)).expect("set");
        let again = home.run(&["daemon", "install"]);
        assert_eq!((again.code, mode(&unit) & 0o077), (Some(0), 0), "{again:?}");
    });
}

/// Manual pages are written into a directory that an agent may have prepared: nothing there decides where to.
#[test]
fn manual_pages_are_written_through_no_planted_file() {
    sandboxed(|| {
        let home = home();
        let precious = home.write("precious", "mine\n");
        for kind in ["link", "fifo"] {
            let directory = folder(&home, kind);
            // The names that a writer with its process id in the name would use.
            for pid in 1..400 {
                let path = Path::new(&directory).join(format!(".agentctl.{pid}"));
                if kind == "link" {
                    symlink(&precious, path).expect("linked");
                } else {
                    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
                    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("made");
                }
            }
            symlink(&precious, Path::new(&directory).join("agentctl.1")).expect("linked");
            let mut command = Command::new("timeout");
            command.args(["60", env!("CARGO_BIN_EXE_agentctl"), "man", "--install", &directory]);
            let installed = home.command(&[]);
            command.env_clear().envs(installed.get_envs().filter_map(|(k, v)| Some((k, v?))));
            let installed = command.output().expect("runs");
            assert!(installed.status.success(), "{kind}: {installed:?}");
            assert_eq!(fs::read_to_string(&precious).expect("read"), "mine\n", "{kind}");
            let page = Path::new(&directory).join("agentctl.1");
            assert!(fs::symlink_metadata(&page).expect("there").is_file(), "{kind}");
            assert_eq!(mode(&page), 0o644, "{kind}");
        }
        // A page that cannot be put in its place leaves the others and no other file.
        let directory = folder(&home, "blocked");
        fs::create_dir_all(Path::new(&directory).join("agentctl-list.1/x")).expect("made");
        assert_eq!(home.run(&["man", "--install", &directory]).code, Some(1));
        let hidden = fs::read_dir(&directory).expect("listed").flatten();
        let hidden = hidden.filter(|e| e.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
    });
}

/// The output of a run is a regular file of this user, or it is not read.
#[test]
fn the_output_of_a_run_is_read_through_no_link_and_no_fifo() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &id);
        assert_eq!(home.run(&["runs", &id, "--stdout"]).code, Some(0));
        assert_eq!(home.run(&["runs", &id, "--stdout", "--json"]).code, Some(2));
        let secret = home.write("secret", "SECRET\n");
        let run = crate::launched::runs(&home)[0]["directory"].as_str().expect("a path").to_owned();
        let path = Path::new(&run).join("stdout");
        for kind in ["link", "fifo"] {
            fs::remove_file(&path).expect("removed");
            if kind == "link" {
                symlink(&secret, &path).expect("linked");
            } else {
                let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
                rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("made");
            }
            let read = home.run(&["runs", &id, "--stdout"]);
            assert_eq!((read.code, read.stdout.as_str()), (Some(1), ""), "{kind}: {read:?}");
        }
    });
}

/// S22: another user's lock on a directory that it can read keeps no launch out.
#[test]
#[ignore = "needs root: it plays another user"]
fn another_users_lock_on_a_directory_keeps_no_launch_out() {
    sandboxed(|| {
        let other = another_user();
        let open = tempfile::tempdir().expect("made");
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let directory = open.path().to_string_lossy().into_owned();
        let home = home();
        configure(&home, &[("launch", "3s")], "");
        for kind in ["-x", "-s"] {
            let mut flock = other.command("flock");
            flock.args(["--no-fork", kind, &directory, "sh", "-c", "echo held; exec sleep 600"]);
            let mut holder = flock.stdout(Stdio::piped()).spawn().expect("starts");
            let mut line = String::new();
            let said = holder.stdout.as_mut().expect("piped");
            std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line)
                .expect("held");
            let launched = home.run(&["launch", "demo", "-p", "x [[hang]]", "--cwd", &directory]);
            assert_eq!(launched.code, Some(0), "{kind}: {launched:?}");
            // Of our own launches there is still one at a time.
            let second = home.run(&["launch", "demo", "-p", "x", "--cwd", &directory]);
            assert_eq!(second.code, Some(5), "{kind}: {second:?}");
            holder.kill().expect("killed");
            holder.wait().expect("reaped");
            let stopped = home.run(&["stop", launched.stdout.trim()]);
            assert_eq!(stopped.code, Some(0), "{stopped:?}");
        }
    });
}

/// S22: a lock of our own launch still keeps the next launch out.
#[test]
fn a_lock_of_our_own_still_keeps_a_launch_out() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[("launch", "1s")], "");
        let directory = folder(&home, "w");
        let mut flock = Command::new("flock");
        flock.args(["--no-fork", "-x", &directory, "sh", "-c", "echo held; exec sleep 600"]);
        let mut holder = flock.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let said = holder.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).expect("held");
        let launched = home.run(&["launch", "demo", "-p", "x", "--cwd", &directory]);
        assert_eq!(launched.code, Some(5), "{launched:?}");
        holder.kill().expect("killed");
        holder.wait().expect("reaped");
    });
}

/// A live claude session in a home of its own, below the test's home.
fn live(home: &mut TestHome, name: &str) -> Agent {
    let root = home.at(&format!("{name}/sessions/x"));
    let root = root.parent().and_then(Path::parent).expect("a home").to_string_lossy().into_owned();
    let cwd = folder(home, "ws");
    let lines = [prompt("x"), said("y")].map(|mut line| {
        line["cwd"] = cwd.clone().into();
        line["sessionId"] = A.into();
        line["timestamp"] = "2026-11-15T08:00:00.000Z".into();
        format!("{line}\n")
    });
    home.write(&format!("{name}/projects/-ws/{A}.jsonl"), lines.concat());
    home.set("CLAUDE_CONFIG_DIR", root.clone());
    let text = record(A, &cwd, &json!({"status": "busy"}));
    let mut agent =
        home.agent("claude", "ws", &["write", &format!("{root}/sessions/{{pid}}.json"), &text]);
    agent.ready();
    agent
}

/// S23: two sessions with one id are distinguished, and each can be named.
#[test]
fn one_session_id_in_two_homes_can_be_told_apart() {
    sandboxed(|| {
        let mut home = home();
        let first = live(&mut home, "one");
        let mut second = live(&mut home, "two");
        let roots = ["one", "two"].map(|n| home.path().join(n).to_string_lossy().into_owned());
        crate::configure(
            &home,
            &[],
            &format!("[roots]\nclaude-code = [\"{}\", \"{}\"]\n", roots[0], roots[1]),
        );
        home.set("CLAUDE_CONFIG_DIR", "");
        let both = home.run(&["status", A]);
        assert_eq!(both.code, Some(4), "{both:?}");
        let candidates: Vec<&str> = both.stderr.lines().filter(|l| l.starts_with("  ")).collect();
        assert_eq!(candidates.len(), 2, "{both:?}");
        assert_ne!(candidates[0], candidates[1], "{both:?}");
        for (name, pid) in [("one", first.pid()), ("two", second.pid())] {
            let line = candidates.iter().find(|l| l.contains(&format!("~/{name}"))).expect(name);
            assert!(line.contains(&format!("pid {pid}")), "{both:?}");
        }
        let hint = both.stderr.lines().find(|l| l.starts_with("hint: ")).expect("a hint");
        assert!(hint.contains("pid") && hint.contains('@'), "{hint}");
        for (text, root) in [
            (second.pid().to_string(), &roots[1]),
            (format!("{A}@{}", roots[0]), &roots[0]),
            (format!("{A}@~/two"), &roots[1]),
            (format!("claude-code:{A}@{}", roots[1]), &roots[1]),
        ] {
            let one = home.run(&["status", &text, "--json"]);
            assert_eq!(one.json()["root"], **root, "{text}: {one:?}");
        }
        // Without a pid only the home distinguishes them.
        second.kill();
        drop(first);
        let both = home.run(&["status", A]);
        assert_eq!(both.code, Some(4), "{both:?}");
        let one = home.run(&["status", &format!("{A}@{}", roots[0]), "--json"]);
        assert_eq!(one.json()["root"], *roots[0], "{one:?}");
        assert_eq!(home.run(&["status", &format!("{A}@/nowhere")]).code, Some(4));
    });
}

/// S23: nothing is written into a state folder that lies in another user's folder.
#[test]
#[ignore = "needs root: it plays another user"]
fn nothing_is_written_into_another_users_folder() {
    sandboxed(|| {
        let other = another_user();
        let theirs = tempfile::tempdir().expect("made");
        let inside = theirs.path().join("inside");
        fs::create_dir(&inside).expect("made");
        let files = |path: &Path| fs::read_dir(path).expect("listed").count();
        let own = |home: &TestHome| folder(home, "w");
        for link in [".local/state/agentctl", ".local/state", ".local"] {
            let home = home();
            symlink(&inside, home.at(link)).expect("linked");
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).expect("set");
            other.give(&inside);
            let w = own(&home);
            for args in [
                &["launch", "demo", "-p", "x", "--cwd", &w][..],
                &["lock", &w],
                &["fuse", "set", &w],
                &["daemon", "start"],
            ] {
                let refused = home.run(args);
                assert_ne!(refused.code, Some(0), "{link} {args:?}: {refused:?}");
                assert!(
                    refused.stderr.contains("belongs to another user"),
                    "{args:?}: {refused:?}"
                );
                assert_eq!(files(&inside), 0, "{link} {args:?}: {refused:?}");
            }
        }
        // A state folder that is a link to another folder of this user is no attack.
        let home = home();
        let real = folder(&home, "real-state");
        symlink(&real, home.at(".local/state")).expect("linked");
        launch(&home, "w", "x [[say:ok]]", &[]);
        eventually("it is used", || Path::new(&real).join("agentctl/runs").exists().then_some(()));
    });
}

/// Launches into a directory while this shell holds its lock; returns the answer and the pid of the holder.
fn launched_beside_lock(
    home: &TestHome,
    mut shell: Command,
    directory: &str,
) -> (testkit::Output, u32) {
    configure(home, &[("launch", "1s")], "");
    shell.args(["-c", "exec 9<\"$0\"; flock -x 9; echo held; exec sleep 600", directory]);
    let mut holder = shell.stdout(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    let said = holder.stdout.as_mut().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).expect("held");
    let launched = home.run(&["launch", "demo", "-p", "x", "--cwd", directory]);
    let pid = holder.id();
    holder.kill().expect("killed");
    holder.wait().expect("reaped");
    (launched, pid)
}

/// S22: the process that took a lock has exited and left it to another one. In a pid namespace of its own the
/// kernel does not show such a lock: it keeps launches out, and the message says why.
#[test]
fn a_lock_whose_taker_has_exited_is_respected_and_explained() {
    sandboxed(|| {
        let home = home();
        let directory = folder(&home, "w");
        let (launched, pid) = launched_beside_lock(&home, Command::new("sh"), &directory);
        assert_eq!(launched.code, Some(5), "{launched:?}");
        assert!(launched.stderr.contains("a process that has exited"), "{launched:?}");
        assert!(launched.stderr.contains(&format!("pid {pid} ")), "{launched:?}");
    });
}

/// S22: the same with a lock that a process of another user keeps.
#[test]
#[ignore = "needs root: it plays another user"]
fn a_lock_that_another_user_inherited_is_respected_and_explained() {
    sandboxed(|| {
        let (home, other) = (home(), another_user());
        let open = tempfile::tempdir().expect("made");
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let directory = open.path().to_string_lossy().into_owned();
        let (launched, _) = launched_beside_lock(&home, other.command("sh"), &directory);
        assert_eq!(launched.code, Some(5), "{launched:?}");
        assert!(launched.stderr.contains("that cannot be seen from here"), "{launched:?}");
    });
}

/// S1: a relative entry of the PATH names a program of the directory that an agent works in: it is not run, for
/// any agent, and not called installed.
#[test]
fn no_program_of_a_relative_path_entry_is_run() {
    sandboxed(|| {
        let mut home = home();
        let workspace = folder(&home, "w");
        let agents =
            [("claude-code", "claude"), ("codex", "codex"), ("opencode", "opencode"), ("pi", "pi")];
        let evil = home.at("evil.log");
        for (_, program) in agents {
            let text = format!("#!/bin/sh\necho {program} >> {}\n", evil.display());
            let path = home.write(&format!("w/node_modules/.bin/{program}"), text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        }
        for entry in ["node_modules/.bin", "./node_modules/.bin", "../w/node_modules/.bin"] {
            home.set("PATH", format!("{entry}:/usr/bin:/bin"));
            for (agent, program) in agents {
                let args = ["launch", agent, "-p", "hi", "--cwd", &workspace];
                for place in [home.path(), workspace.clone().into()] {
                    let launched = home.command(&args).current_dir(place).output().expect("ran");
                    assert!(!launched.status.success(), "{agent}: {launched:?}");
                    let said = String::from_utf8_lossy(&launched.stderr).into_owned();
                    assert!(said.contains("is not installed"), "{program}: {said}");
                }
            }
            let told = home.command(&["adapters", "--json"]).current_dir(&workspace).output();
            let told = String::from_utf8(told.expect("ran").stdout).expect("text");
            assert!(!told.contains("node_modules"), "{told}");
        }
        assert!(!evil.exists(), "{}", fs::read_to_string(&evil).unwrap_or_default());
    });
}
