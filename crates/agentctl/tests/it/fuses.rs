//! The fuse commands and the files behind them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::{Output, TestHome, sandboxed};

use crate::claude_code;
use crate::launched::{folder, launch};

/// A home without a daemon: files only.
fn home() -> TestHome {
    let mut home = crate::home();
    home.set("AGENTCTL_NO_DAEMON", "1");
    home
}

fn fuses(home: &TestHome) -> Vec<Value> {
    let answer = home.run(&["fuses", "--json"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    rows(&answer)
}

fn rows(answer: &Output) -> Vec<Value> {
    answer.json()["fuses"].as_array().cloned().expect("a list")
}

/// Returns the fuse files of the fuses folder.
fn files(home: &TestHome) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path().join(".local/state/agentctl/fuses"));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    paths.filter(|p| p.extension().is_some_and(|e| e == "json")).collect()
}

fn done(answer: &Output) -> String {
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    answer.stdout.trim().to_owned()
}

fn millis(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    text.parse::<jiff::Timestamp>().expect("a time").as_millisecond()
}

#[test]
fn a_fuse_is_set_shown_extended_and_cancelled() {
    sandboxed(|| {
        let home = home();
        let none = home.run(&["fuses"]);
        assert_eq!((none.code, none.stderr.as_str()), (Some(0), "no fuse is set\n"));
        folder(&home, "w");
        symlink("w", home.path().join("link")).expect("linked");
        let set = home.run(&[
            "fuse",
            "set",
            "link",
            "--ttl",
            "30d",
            "--idle",
            "30m",
            "--max-cost",
            "5.00",
            "--label",
            "lunch",
            "--on-expire",
            "stop",
            "--on-expire",
            "run:sh -c 'echo \"$HOME\"' 'a  b'",
            "--on-expire",
            "webhook:https://example.org/hook?key=secret",
        ]);
        let id = done(&set);
        assert!(set.stderr.contains("~/w (lunch): ttl 30d, idle 30m, max-cost $5"), "{set:?}");
        let rows = fuses(&home);
        let set_at = &rows[0]["set_at"];
        let expected = json!({
            "id": id, "directory": home.path().join("w"), "session": null, "adapter": null,
            "root": null, "run": null, "label": "lunch", "set_at": set_at, "extended_at": null,
            "due_at": rows[0]["due_at"], "ttl_ms": 2_592_000_000_i64, "idle_ms": 1_800_000,
            "max_runtime_ms": null, "max_cost_usd": 5.0,
            "on_expire": [
                {"kind": "stop"},
                {"kind": "run", "argv": ["/usr/bin/sh", "-c", "echo \"$HOME\"", "a  b"]},
                {"kind": "webhook", "url": "https://example.org"},
            ],
            "state": "burning", "expired_at": null, "cause": null, "note": null,
        });
        assert_eq!(rows, [expected]);
        assert_eq!(millis(&rows[0]["due_at"]) - millis(set_at), 2_592_000_000, "30 days");
        let table = home.run(&["fuses"]);
        let line = table.stdout.lines().nth(1).expect("a row");
        for word in [&id[..8], "29d", "~/w", "ttl 30d", "stop", "lunch"] {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert!(!table.stdout.contains("secret") && !table.stdout.contains("word@"), "{line}");

        let file = files(&home).pop().expect("a file");
        let folder = fs::metadata(file.parent().expect("a folder")).expect("there");
        let mode = fs::metadata(&file).expect("there").mode();
        assert_eq!((mode & 0o777, folder.mode() & 0o777), (0o600, 0o700));

        done(&home.run(&["fuse", "extend", "w", "--ttl", "2h"]));
        let row = fuses(&home).remove(0);
        assert_eq!(millis(&row["due_at"]) - millis(&row["extended_at"]), 7_200_000);
        assert_eq!((&row["id"], &row["idle_ms"]), (&id.as_str().into(), &1_800_000.into()));
        done(&home.run(&["fuse", "extend", &id[..8]]));
        assert_eq!(fuses(&home)[0]["ttl_ms"], 7_200_000, "its own time again");

        let cancelled = home.run(&["fuse", "cancel", "link"]);
        assert_eq!(
            (done(&cancelled).as_str(), cancelled.stderr.as_str()),
            ("", "cancelled the fuse on ~/w (lunch)\n")
        );
        assert!(fuses(&home).is_empty() && files(&home).is_empty());
        let again = home.run(&["fuse", "cancel", &id]);
        assert_eq!(again.code, Some(4), "{}", again.stderr);
    });
}

#[test]
fn there_is_one_fuse_per_target_and_label() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let plain = done(&home.run(&["fuse", "set", "w"]));
        assert_eq!(fuses(&home)[0]["ttl_ms"], 600_000, "ten minutes, where nothing is said");
        assert_eq!(fuses(&home)[0]["on_expire"], json!([{"kind": "event"}]));
        let lunch = done(&home.run(&["fuse", "set", "w", "--label", "lunch"]));
        let other = done(&home.run(&["fuse", "set", "--label", "lunch"]));
        assert_eq!(fuses(&home).len(), 3);
        let again = home.run(&["fuse", "set", "./w/../w", "--label", " lunch ", "--ttl", "1h"]);
        assert!(again.stderr.contains("replaced the fuse that was set"), "{}", again.stderr);
        let again = done(&again);
        let ids: Vec<Value> = fuses(&home).iter().map(|f| f["id"].clone()).collect();
        assert!(!ids.contains(&lunch.as_str().into()), "it was replaced");
        assert_eq!(ids, [plain.as_str(), &other, &again].map(Value::from), "the next one first");

        let two = home.run(&["fuse", "cancel", "w"]);
        assert_eq!(two.code, Some(4), "{}", two.stderr);
        for word in ["2 fuses", &plain, &again, "--label"] {
            assert!(two.stderr.contains(word), "{word}: {}", two.stderr);
        }
        done(&home.run(&["fuse", "cancel", "w", "--label", "lunch"]));
        done(&home.run(&["fuse", "cancel", "w"]));
        done(&home.run(&["fuse", "cancel"]));
        assert!(fuses(&home).is_empty());
    });
}

#[test]
fn a_fuse_may_be_bound_to_a_session() {
    sandboxed(|| {
        let mut claude = claude_code::Claude::new();
        claude.home.set("AGENTCTL_NO_DAEMON", "1");
        let home = &claude.home;
        claude.transcript(claude_code::A, &[claude_code::prompt("x"), claude_code::said("y")]);
        let session = &claude_code::A[..8];
        let id = done(&home.run(&["fuse", "set", "--session", session, "--max-runtime", "3h"]));
        let row = fuses(home).remove(0);
        assert_eq!(row["id"], id.as_str());
        assert_eq!(
            (&row["adapter"], &row["root"], &row["session"], &row["directory"], &row["due_at"]),
            (
                &"claude-code".into(),
                &json!(home.path().join(".claude")),
                &claude_code::A.into(),
                &Value::Null,
                &Value::Null
            )
        );
        let timeless = home.run(&["fuse", "extend", "--session", session]);
        assert_eq!(timeless.code, Some(2), "{}", timeless.stderr);
        assert!(timeless.stderr.contains("--max-runtime"), "{}", timeless.stderr);
        done(&home.run(&["fuse", "extend", "--session", session, "--max-runtime", "4h"]));
        // The fuse is found by its session id, also when the session no longer exists.
        fs::remove_dir_all(home.path().join(".claude")).expect("removed");
        let unknown = home.run(&["fuse", "set", "--session", session]);
        assert_eq!(unknown.code, Some(4), "{}", unknown.stderr);
        done(&home.run(&["fuse", "cancel", "--session", claude_code::A]));
        assert!(fuses(home).is_empty());
    });
}

#[test]
fn wrong_input_is_reported_in_one_sentence() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        home.write("w/hook.sh", "#!/bin/sh\n");
        let endless = "x".repeat(3000);
        for (args, code, words) in [
            (&["fuse", "set", "w", "--ttl", "0s"][..], 2, "longer than zero"),
            (&["fuse", "set", "w", "--ttl", "soon"], 2, "is not a span"),
            (&["fuse", "set", "w", "--ttl", "300000000w"], 2, "--ttl: the date is too far"),
            (&["fuse", "set", "w", "--ttl", "99999999999999w"], 2, "is not a span"),
            (&["fuse", "set", "w", "--idle", "300000000w"], 2, "--idle: the date is too far"),
            (&["fuse", "set", "w", "--max-cost", "0"], 2, "above 0"),
            (&["fuse", "set", "w", "--max-cost", "inf"], 2, "above 0"),
            (&["fuse", "set", "w", "--on-expire", "explode"], 2, "write event, stop, run:COMMAND"),
            (&["fuse", "set", "w", "--on-expire", "run:"], 2, "empty"),
            (&["fuse", "set", "w", "--on-expire", "run:sh -c 'x"], 2, "does not end"),
            (&["fuse", "set", "w", "--on-expire", "run:nosuchprogram"], 1, "is not a program"),
            (&["fuse", "set", "w", "--on-expire", "webhook:file:///etc"], 2, "https://"),
            (&["fuse", "set", "w", "--on-expire", "webhook:http:///x"], 2, "https://"),
            (&["fuse", "set", "w", "--label", &endless], 2, "longer than"),
            (&["fuse", "set", "w", "--session", "x"], 2, "cannot be used together"),
            (&["fuse", "set", "--session", "nosuchsession"], 4, "no session matches"),
            (&["fuse", "set", "w/hook.sh"], 1, "is not a directory"),
            (&["fuse", "extend", "w"], 4, "there is no fuse on ~/w"),
            (&["fuse", "cancel", "w"], 4, "there is no fuse on ~/w"),
            (&["fuse", "cancel", "w", "--label", "l"], 4, "with the label `l`"),
            (&["fuse", "cancel", "--session", "abcdef"], 4, "session `abcdef`"),
            (&["fuse"], 2, "Usage"),
        ] {
            let answer = home.run(args);
            assert_eq!(answer.code, Some(code), "{args:?}: {}", answer.stderr);
            assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
            assert_eq!(answer.stdout, "", "{args:?}");
        }
        assert!(fuses(&home).is_empty() && files(&home).is_empty());
        // A script path is relative to the user's directory, and the script must not be writable by others.
        let refused = home.run(&["fuse", "set", "--on-expire", "run:w/../w/nothing.sh"]);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        done(&home.run(&["fuse", "set", "--on-expire", "run:w/hook.sh x"]));
        let argv = &fuses(&home)[0]["on_expire"][0]["argv"];
        assert_eq!(argv, &json!([home.path().join("w/hook.sh"), "x"]));
    });
}

#[test]
fn a_directory_may_be_gone_and_have_any_name() {
    sandboxed(|| {
        let home = home();
        for name in ["w", "größe 漢字 ✨", "with \"quotes\"", "new\nline", "-dash"] {
            let path = folder(&home, name);
            let link = home.path().join("link");
            let _old = fs::remove_file(&link);
            symlink(&path, &link).expect("linked");
            let id = done(&home.run(&["fuse", "set", "link"]));
            let rows = fuses(&home);
            assert_eq!(rows[0]["directory"], path.as_str(), "the real path");
            assert!(!home.run(&["fuses"]).stdout.contains("new\nline"), "one row, one line");
            fs::remove_dir(&path).expect("removed");
            assert_eq!(fuses(&home), rows, "a word stays until it is taken back");
            done(&home.run(&["fuse", "extend", "--", &path]));
            done(&home.run(&["fuse", "cancel", "link"]));
            let unset = home.run(&["fuse", "set", "--", &path]);
            assert!(unset.stderr.contains("there is no directory"), "{}", unset.stderr);
            assert_ne!(done(&unset), id);
            done(&home.run(&["fuse", "cancel", "--", &path]));
        }
        let odd = std::ffi::OsStr::from_bytes(b"w\xff");
        fs::create_dir(home.path().join(odd)).expect("made");
        let answer: Output = home.command(&["fuse", "set"]).arg(odd).output().into();
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        assert!(answer.stderr.contains("is not UTF-8"), "{}", answer.stderr);
    });
}

#[test]
fn an_unreadable_fuse_is_a_fault_and_hides_no_other() {
    sandboxed(|| {
        let home = home();
        for name in ["w", "v"] {
            done(&home.run(&["fuse", "set", &folder(&home, name)]));
        }
        let broken = files(&home).into_iter().find(|f| f.to_string_lossy().contains("/w-"));
        let broken = broken.expect("a file");
        fs::write(&broken, "{\"id\":").expect("written");
        let answer = home.run(&["fuses", "--json"]);
        assert_eq!((answer.code, rows(&answer).len()), (Some(3), 1), "{}", answer.stderr);
        let fault = &answer.json()["faults"][0];
        assert_eq!((&fault["adapter"], &fault["code"]), (&"agentctl".into(), &"unreadable".into()));
        assert!(answer.stderr.contains("is not a readable fuse"), "{}", answer.stderr);
        // The unreadable fuse can be cancelled and set again.
        done(&home.run(&["fuse", "cancel", "w"]));
        assert_eq!((fuses(&home).len(), broken.exists()), (1, false));
        fs::write(&broken, "").expect("written");
        done(&home.run(&["fuse", "set", "w"]));
        assert_eq!(fuses(&home).len(), 2);
        // A file in the place of the folder hides all fuses and is reported.
        let place = broken.parent().expect("a folder");
        fs::rename(place, place.with_extension("away")).expect("moved");
        fs::write(place, "").expect("written");
        let answer = home.run(&["fuses", "--json"]);
        assert_eq!((answer.code, rows(&answer).len()), (Some(3), 0), "{}", answer.stderr);
        assert_eq!(home.run(&["fuse", "cancel", "w"]).code, Some(3));
        assert_eq!(home.run(&["fuse", "set", "w"]).code, Some(1));
    });
}

#[test]
fn a_full_disk_leaves_every_fuse_whole() {
    sandboxed(|| {
        let home = home();
        let state = folder(&home, ".local/state/agentctl");
        let mount = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", &state];
        assert!(Command::new("mount").args(mount).status().expect("runs").success());
        done(&home.run(&["fuse", "set", &folder(&home, "w"), "--label", "before"]));
        let before = fuses(&home);
        let filler = PathBuf::from(&state).join("filler");
        let mut full = fs::File::create(&filler).expect("made");
        let filled = std::io::Write::write_all(&mut full, &vec![0; 1 << 20]);
        assert!(filled.is_err(), "it is full");
        for args in [
            &["fuse", "set", "v"][..],
            &["fuse", "set", "w", "--label", "before", "--ttl", "9h"],
            &["fuse", "extend", "w"],
        ] {
            let answer = home.run(args);
            assert_eq!(answer.code, Some(1), "{args:?}: {}", answer.stderr);
            assert!(answer.stderr.contains("No space left"), "{args:?}: {}", answer.stderr);
            assert_eq!(fuses(&home), before, "{args:?}");
        }
        let left = fs::read_dir(PathBuf::from(&state).join("fuses")).expect("listed").flatten();
        let left: Vec<_> = left.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        assert!(!left.iter().any(|name| name.starts_with(".new")), "{left:?}");
        // An existing fuse can still be cancelled.
        done(&home.run(&["fuse", "cancel", "w"]));
        fs::remove_file(filler).expect("removed");
        done(&home.run(&["fuse", "set", "v"]));
    });
}

#[test]
fn concurrent_sets_leave_one_whole_fuse() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        for round in 0..15 {
            let start = |n: usize| {
                let idle = format!("{}m", round * 10 + n + 1);
                let mut command = home.command(&["fuse", "set", "w", "--idle", &idle]);
                command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started")
            };
            let all: Vec<Child> = (0..4).map(start).collect();
            let ids: Vec<String> =
                all.into_iter().map(|c| done(&c.wait_with_output().into())).collect();
            let rows = fuses(&home);
            assert_eq!((rows.len(), files(&home).len()), (1, 1), "round {round}: {rows:?}");
            let stands =
                ids.iter().position(|id| rows[0]["id"] == id.as_str()).expect("one of them");
            assert_eq!(rows[0]["idle_ms"], (round * 10 + stands + 1) * 60_000, "and whole");
            let start = || home.command(&["fuse", "cancel", "w"]).stderr(Stdio::null()).spawn();
            let all: Vec<Child> = (0..4).map(|_| start().expect("started")).collect();
            let codes = all.into_iter().map(|c| Output::from(c.wait_with_output()).code);
            assert_eq!(codes.filter(|c| *c == Some(0)).count(), 1, "one puts it out");
        }
    });
}

#[test]
fn a_launch_changes_no_fuse() {
    sandboxed(|| {
        let home = home();
        done(&home.run(&["fuse", "set", &folder(&home, "w"), "--ttl", "2h"]));
        let before = fuses(&home);
        let id = launch(&home, "w", "x [[hang]]", &[]);
        assert_eq!(fuses(&home), before, "a launch cancels no fuse of a person's, and sets none");
        done(&home.run(&["stop", &id]));
        assert_eq!(fuses(&home), before);
    });
}

#[test]
fn setting_a_fuse_on_a_session_warns_of_sources_that_failed() {
    sandboxed(|| {
        let home = home();
        let _agent = crate::stop::demo(&home, "d-fused", "x [[hang]]");
        home.write(
            ".config/agentctl/config.toml",
            "[[openclaw.gateways]]\nurl = \"ws://127.0.0.1:1\"\n",
        );
        let set = home.run(&["fuse", "set", "--session", "d-fused"]);
        assert_eq!(fuses(&home)[0]["id"], done(&set));
        assert!(set.stderr.contains("warning: openclaw (ws://127.0.0.1:1"), "{}", set.stderr);
    });
}
