//! Class: programs that an agent places where this program looks for its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use testkit::{TestHome, eventually, sandboxed};

use crate::claude_code::{A, prompt, said};
use crate::daemon::signal;
use crate::home;
use crate::launched::{folder, script};
use crate::terminal::Terminal;

/// Runs `logs` in this directory on a terminal that its output does not fit; returns what is shown.
fn paged(home: &TestHome, directory: &str, pager: Option<&str>) -> String {
    let terminal = Terminal::open(80);
    terminal.set_size(80, 5);
    let mut command = home.command(&["logs", A]);
    command.current_dir(directory).env_remove("COLUMNS");
    if let Some(pager) = pager {
        command.env("PAGER", pager);
    }
    let mut child =
        command.stdout(terminal.side()).stderr(terminal.side()).spawn().expect("starts");
    // It holds the terminal open.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let mut controller = fs::File::from(terminal.controller);
        // The terminal ends with an error when the last writer has left.
        let _left = std::io::Read::read_to_end(&mut controller, &mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    assert!(child.wait().expect("ends").success());
    reader.join().expect("read")
}

fn long_conversation(home: &TestHome) {
    let lines = [prompt("x"), said(&"a line\n\n".repeat(30))].map(|mut line| {
        line["cwd"] = "/srv".into();
        line["sessionId"] = A.into();
        line["timestamp"] = "2026-11-15T08:00:00.000Z".into();
        format!("{line}\n")
    });
    home.write(&format!(".claude/projects/-w/{A}.jsonl"), lines.concat());
}

/// No entry of the PATH that depends on the directory names the pager, and no relative path does.
#[test]
fn no_pager_of_a_working_directory_is_run() {
    sandboxed(|| {
        let mut home = home();
        let workspace = folder(&home, "w");
        long_conversation(&home);
        let evil = home.path().join("evil");
        for program in ["w/less", "w/my-pager", "w/sub/my-pager"] {
            let path = home.write(program, format!("#!/bin/sh\necho > {}\ncat\n", evil.display()));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let path = home.path().join("bin").to_string_lossy().into_owned();
        for entry in [format!(".:{path}"), format!("{path}:"), format!("{path}::"), "sub".into()] {
            home.set("PATH", entry.clone());
            for pager in
                [None, Some("less"), Some("my-pager"), Some("./less"), Some("sub/my-pager")]
            {
                let shown = paged(&home, &workspace, pager);
                assert!(!evil.exists(), "PATH={entry} PAGER={pager:?}: {shown}");
                assert!(shown.contains("a line"), "PATH={entry} PAGER={pager:?}: {shown}");
                let warned = shown.contains("warning: the pager");
                assert_eq!(warned, pager.is_some(), "{pager:?}: {shown}");
            }
        }
    });
}

/// A pager that outlives the program would take the keys that are meant for the shell.
#[test]
fn a_signal_that_ends_the_program_ends_its_pager_first() {
    sandboxed(|| {
        let mut home = home();
        long_conversation(&home);
        let pager = script(&home, "my-pager", "echo $$ > \"$HOME/pager\"; exec sleep 600");
        home.set("PAGER", pager.to_string_lossy());
        let told = home.path().join("pager");
        for way in [Signal::TERM, Signal::HUP, Signal::QUIT] {
            let terminal = Terminal::open(80);
            terminal.set_size(80, 5);
            let mut child = terminal.start(&mut home, &["logs", A]);
            let pid = eventually("the pager runs", || {
                fs::read_to_string(&told).ok()?.trim().parse::<u32>().ok()
            });
            signal(child.id(), way);
            let ended = eventually("it ends", || child.try_wait().expect("asked"));
            assert_eq!(ended.signal(), Some(way.as_raw()), "{way:?}: {ended:?}");
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{way:?}");
            fs::remove_file(&told).expect("removed");
        }
    });
}
