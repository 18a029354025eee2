//! Occupied and locked directories: by live sessions, however they were started, and by manual locks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::{Output, TestHome, eventually, sandboxed};

use crate::launched::{folder, launch, status};
use crate::{claude_code, codex, home};

/// A demo agent that a person started in a directory, without a word to us.
pub(crate) struct ByHand(Child);

impl ByHand {
    pub(crate) fn start(home: &TestHome, directory: &str, id: &str) -> Self {
        Self::begin(home, directory, ["--session-id", id])
    }

    /// Continues a session that has ended.
    pub(crate) fn resume(home: &TestHome, directory: &str, id: &str) -> Self {
        Self::begin(home, directory, ["--resume", id])
    }

    fn begin(home: &TestHome, directory: &str, how: [&str; 2]) -> Self {
        let [_, id] = how;
        let args = [&["demo-agent"], &how[..], &["--stay", "-p", "x [[say:hi]]"]].concat();
        let mut command = home.command(&args);
        command.current_dir(folder(home, directory)).stdout(Stdio::null());
        let agent = Self(command.spawn().expect("started"));
        eventually("it lives", || {
            let listed = home.run(&["list", "--json"]).sessions();
            listed.iter().any(|s| s["id"] == id && s["status"] == "idle").then_some(())
        });
        agent
    }

    /// Kills it and does not reap it: it is a zombie from here on.
    fn kill(&self) {
        crate::launched::kill(self.0.id());
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn locks(home: &TestHome) -> Vec<Value> {
    let answer = home.run(&["locks", "--json"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    rows(&answer)
}

fn rows(answer: &Output) -> Vec<Value> {
    answer.json()["locks"].as_array().cloned().expect("a list")
}

/// Tries to launch into a directory: an agent that stays for a while.
fn enter(home: &TestHome, directory: &str) -> Output {
    home.run(&["launch", "demo", "-p", "x [[hang]]", "--cwd", directory])
}

/// The files of the locks folder that are locks.
fn files(home: &TestHome) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path().join(".local/state/agentctl/locks"));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    paths.filter(|p| p.extension().is_some_and(|e| e == "json")).collect()
}

fn assert_done(answer: &Output) {
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
}

fn assert_refused(answer: &Output, words: &[&str]) {
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(5), ""), "{}", answer.stderr);
    for word in words {
        assert!(answer.stderr.contains(word), "`{word}` is missing: {}", answer.stderr);
    }
}

#[test]
fn a_session_started_by_hand_occupies_its_directory() {
    sandboxed(|| {
        let home = home();
        let agent = ByHand::start(&home, "w", "by-hand");
        let pid = agent.0.id();
        let rows = locks(&home);
        assert_eq!(rows.len(), 1, "{rows:?}");
        let expected = json!({
            "directory": home.path().join("w"), "kind": "occupied", "session": "by-hand",
            "adapter": "demo", "pid": pid, "by": null, "reason": null,
            "since": rows[0]["since"], "until": null,
        });
        assert_eq!(rows[0], expected);
        assert!(rows[0]["since"].is_string());
        assert_refused(&enter(&home, "w"), &["~/w", "by-hand", &format!("pid {pid}")]);
        // By real path, however it is written; and nowhere else.
        symlink("w", home.path().join("link")).expect("linked");
        assert_refused(&enter(&home, "link/../link"), &["by-hand"]);
        assert_done(&enter(&home, &folder(&home, "w/below")));
        assert_done(&enter(&home, "."));
    });
}

#[test]
fn agents_of_every_kind_occupy_a_directory_and_their_servers_do_not() {
    sandboxed(|| {
        let claude = claude_code::Claude::new();
        let home = &claude.home;
        let _claude = claude.live(claude_code::A, &json!({"status": "idle"}));
        assert_refused(&enter(home, "ws"), &["claude-code", claude_code::A]);
        // Codex records its directory; its process runs elsewhere.
        codex::rollout(home, codex::A, &[codex::started()]);
        let _codex = codex::exec(home, &[codex::A], &["exec"]);
        assert_refused(&enter(home, "."), &["codex", codex::A]);
        let server = folder(home, "server");
        let mut idle = home.agent("codex", "server", &["app-server"]);
        idle.ready();
        assert_done(&enter(home, &server));
        let kinds: Vec<Value> = locks(home).iter().map(|l| l["adapter"].clone()).collect();
        assert_eq!(kinds.len(), 3, "{kinds:?}");
    });
}

#[test]
fn a_hosted_thread_occupies_its_directory_only_while_it_works() {
    sandboxed(|| {
        let home = home();
        let busy = folder(&home, &codex::A[34..]);
        let rests = folder(&home, &codex::B[34..]);
        let socket = home.at("run/s.sock");
        let statuses = json!({
            codex::A: {"type": "active", "activeFlags": []}, codex::B: {"type": "idle"},
        });
        codex::serve_below(socket.clone(), home.path().to_string_lossy().into_owned(), statuses);
        for id in [codex::A, codex::B] {
            codex::rollout(&home, id, &[codex::started()]);
        }
        let _server = codex::server(&home, &[codex::A, codex::B], &socket);
        assert_refused(&enter(&home, &busy), &["codex", codex::A]);
        assert_done(&enter(&home, &rests));
        assert_done(&enter(&home, "ws"));
    });
}

#[test]
fn the_directory_of_an_agent_may_be_a_link() {
    sandboxed(|| {
        let mut claude = claude_code::Claude::new();
        folder(&claude.home, "ws");
        symlink("ws", claude.home.path().join("link")).expect("linked");
        claude.cwd = claude.home.path().join("link").to_string_lossy().into_owned();
        let _agent = claude.live(claude_code::A, &json!({"status": "idle"}));
        let ws = claude.home.path().join("ws");
        assert_eq!(locks(&claude.home)[0]["directory"], json!(ws));
        assert_refused(&enter(&claude.home, "ws"), &[claude_code::A]);
        assert_refused(&enter(&claude.home, "link"), &[claude_code::A]);
    });
}

#[test]
fn a_directory_is_free_in_the_instant_its_agent_dies() {
    sandboxed(|| {
        let home = home();
        for round in 0..5 {
            let id = format!("victim-{round}");
            let agent = ByHand::start(&home, "w", &id);
            assert_refused(&enter(&home, "w"), &[&id]);
            agent.kill();
            assert!(locks(&home).is_empty(), "a zombie keeps nothing");
            let next = enter(&home, "w");
            assert_done(&next);
            let session = status(&home, next.stdout.trim());
            let pid = session["pid"].as_u64().expect("a pid");
            crate::launched::kill(u32::try_from(pid).expect("fits"));
            eventually("it is gone", || locks(&home).is_empty().then_some(()));
        }
    });
}

#[test]
fn an_agent_may_start_a_helper_where_it_works() {
    sandboxed(|| {
        let home = home();
        let program = env!("CARGO_BIN_EXE_agentctl");
        let tool = format!("{program} launch demo -p \"y [[hang]]\" > id 2> said");
        let outer = launch(&home, "w", &format!("x [[tool:{tool}]] [[hang]]"), &[]);
        let inner = eventually("the helper lives", || {
            let id = fs::read_to_string(home.path().join("w/id")).ok()?;
            Some(id.trim().to_owned()).filter(|id| !id.is_empty())
        });
        let said = fs::read_to_string(home.path().join("w/said")).expect("it said so");
        assert!(said.contains("beside") && said.contains(&outer), "{said}");
        let mut ids: Vec<Value> = locks(&home).iter().map(|l| l["session"].clone()).collect();
        ids.sort_by_key(ToString::to_string);
        let mut expected = vec![Value::from(outer.as_str()), Value::from(inner.as_str())];
        expected.sort_by_key(ToString::to_string);
        assert_eq!(ids, expected);
        // A launch from outside is not exempt.
        assert_refused(&enter(&home, "w"), &[&outer, &inner]);
    });
}

#[test]
fn a_manual_lock_keeps_launches_out() {
    sandboxed(|| {
        let mut home = home();
        home.set("USER", "sam");
        let nothing = home.run(&["locks"]);
        assert_done(&nothing);
        assert!(nothing.stderr.contains("nothing is locked or occupied"), "{}", nothing.stderr);
        folder(&home, "w");
        symlink("w", home.path().join("link")).expect("linked");
        let args = ["lock", "link", "--by", "nora", "--reason", "release day", "--ttl", "2h"];
        assert_done(&home.run(&args));
        let rows = locks(&home);
        let (since, until) = (&rows[0]["since"], &rows[0]["until"]);
        let expected = json!({
            "directory": home.path().join("w"), "kind": "manual", "session": null, "adapter": null,
            "pid": null, "by": "nora", "reason": "release day", "since": since, "until": until,
        });
        assert_eq!(rows, [expected]);
        let hours = |text: &Value| text.as_str().and_then(|t| t.get(11..13)?.parse::<u32>().ok());
        assert_eq!(hours(since).map(|h| (h + 2) % 24), hours(until), "{since} {until}");

        assert_refused(&enter(&home, "w"), &["~/w", "nora", "release day"]);
        assert_refused(&home.run(&["lock", "w"]), &["~/w", "nora", "release day"]);
        let again = home.run(&["locks"]);
        let line = again.stdout.lines().nth(1).expect("a row");
        assert!(line.starts_with("manual") && line.contains("~/w") && line.contains("nora"));
        let forced = home.run(&["launch", "demo", "-p", "x [[hang]]", "--cwd", "w", "--force"]);
        assert_done(&forced);
        assert_done(&home.run(&["unlock", "w"]));
        let kinds: Vec<Value> = locks(&home).iter().map(|l| l["kind"].clone()).collect();
        assert_eq!(kinds, ["occupied"]);

        // An occupied directory can be locked: it keeps the next one out.
        assert_done(&home.command(&["lock"]).current_dir(home.path().join("w")).output().into());
        let kinds: Vec<Value> = locks(&home).iter().map(|l| l["kind"].clone()).collect();
        assert_eq!(kinds, ["manual", "occupied"], "they stand together, and are told apart");
        assert_eq!(locks(&home)[0]["by"], "sam", "the user, where nobody else is named");
        assert_refused(&enter(&home, "w"), &["sam", forced.stdout.trim()]);

        let file = files(&home).pop().expect("a file");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        let folder = fs::metadata(file.parent().expect("a folder")).expect("there");
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    });
}

#[test]
fn wrong_lock_input_is_reported_in_one_sentence() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let endless = "x".repeat(3000);
        for (args, code, words) in [
            (&["unlock", "w"][..], 4, "~/w is not locked"),
            (&["unlock", "no/where"], 4, "~/no/where is not locked"),
            (&["lock", "nowhere"], 1, "there is no directory ~/nowhere"),
            (&["lock", "/etc/passwd"], 1, "/etc/passwd is not a directory"),
            (&["lock", ""], 2, "DIR needs a value"),
            (&["lock", "w", "--ttl", "0s"], 2, "longer than zero"),
            (&["lock", "w", "--ttl", "soon"], 2, "is not a span"),
            (&["lock", "w", "--ttl", "300000000w"], 2, "the date is too far in the future"),
            (&["lock", "w", "--reason", &endless], 2, "longer than"),
        ] {
            let answer = home.run(args);
            assert_eq!((answer.code, answer.stdout.as_str()), (Some(code), ""), "{args:?}");
            assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
        }
        assert!(locks(&home).is_empty());
        // In a directory that was removed, "here" is no other one.
        let gone = PathBuf::from(folder(&home, "gone"));
        for command in ["lock", "unlock"] {
            fs::create_dir_all(&gone).expect("made");
            let script = format!("rmdir {0} && exec {1} {command}", gone.display(), program());
            let answer: Output = sh(&home, &script, &gone).into();
            assert_eq!(answer.code, Some(1), "{}", answer.stderr);
            assert!(answer.stderr.contains("the current directory no longer exists"));
        }
        assert!(locks(&home).is_empty());
    });
}

#[test]
fn an_expired_lock_does_not_count() {
    sandboxed(|| {
        let home = home();
        let past = |file: &Path| {
            let text = fs::read_to_string(file).expect("readable");
            let mut lock: Value = serde_json::from_str(&text).expect("JSON");
            lock["until"] = "2020-01-01T00:00:00.000Z".into();
            fs::write(file, lock.to_string()).expect("written");
        };
        folder(&home, "w");
        let lock = ["lock", "w", "--ttl", "1h"];
        for command in
            [&["locks"][..], &["lock", "w"], &["launch", "demo", "-p", "x", "--cwd", "w"]]
        {
            assert_done(&home.run(&lock));
            let file = files(&home).pop().expect("a file");
            past(&file);
            assert_done(&home.run(command));
            let kept = fs::read_to_string(&file).unwrap_or_default();
            assert!(!kept.contains("2020"), "it was taken away when it was met: {kept}");
            let _was_locked = home.run(&["unlock", "w"]);
        }
        assert_done(&home.run(&lock));
        past(&files(&home).pop().expect("a file"));
        let answer = home.run(&["unlock", "w"]);
        assert_eq!(answer.code, Some(4), "there is nothing to unlock any more");
    });
}

#[test]
fn an_unreadable_lock_counts_and_is_reported() {
    sandboxed(|| {
        let home = home();
        for name in ["w", "v"] {
            assert_done(&home.run(&["lock", &folder(&home, name)]));
        }
        let broken = files(&home).into_iter().find(|f| f.to_string_lossy().contains("/w-"));
        let broken = broken.expect("a file");
        fs::write(&broken, "{\"directory\":").expect("written");
        let answer = home.run(&["locks", "--json"]);
        assert_eq!(answer.code, Some(3), "{}", answer.stderr);
        assert_eq!(rows(&answer).len(), 1, "the other one is shown");
        let fault = &answer.json()["faults"][0];
        assert_eq!((&fault["adapter"], &fault["code"]), (&"agentctl".into(), &"unreadable".into()));
        assert!(answer.stderr.contains("is not a readable lock"), "{}", answer.stderr);
        assert_refused(&enter(&home, "w"), &["locked"]);
        assert_refused(&home.run(&["lock", "w"]), &["cannot be read"]);
        assert_done(&enter(&home, &folder(&home, "free")));
        assert_done(&home.run(&["unlock", "w"]));
        assert_done(&enter(&home, "w"));
    });
}

#[test]
fn rubbish_in_the_folder_hides_no_lock() {
    sandboxed(|| {
        let home = home();
        let (w, v) = (folder(&home, "w"), folder(&home, "v"));
        assert_done(&home.run(&["lock", &w]));
        let folder = home.path().join(".local/state/agentctl/locks");
        let mine = fs::read(files(&home).pop().expect("a file")).expect("readable");
        assert!(
            Command::new("mkfifo").arg(folder.join("fifo.json")).status().expect("runs").success()
        );
        fs::create_dir(folder.join("folder.json")).expect("made");
        symlink("/dev/zero", folder.join("zero.json")).expect("linked");
        fs::write(
            folder.join("relative.json"),
            "{\"directory\":\"w\",\"since\":\"2026-01-01T00:00:00Z\"}",
        )
        .expect("written");
        fs::write(folder.join("huge.json"), vec![b' '; 1 << 20]).expect("written");
        fs::write(folder.join("notes.txt"), "not ours").expect("written");
        let mut rubbish = 6;
        // A lock file of another user about our directory, where this user may create one.
        let foreign = folder.join("foreign.json");
        fs::write(&foreign, String::from_utf8_lossy(&mine).replace(&w, &v)).expect("written");
        if std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok() {
            rubbish += 1;
        } else {
            fs::remove_file(&foreign).expect("removed");
        }
        let answer = home.run(&["locks", "--json"]);
        assert_eq!(answer.code, Some(3), "{}", answer.stderr);
        assert_eq!(rows(&answer).len(), 1, "{}", answer.stdout);
        assert_eq!(answer.json()["faults"].as_array().map(Vec::len), Some(rubbish));
        assert_refused(&enter(&home, &w), &["locked"]);
        assert_done(&enter(&home, &v));
        assert_done(&home.run(&["unlock", &w]));
        assert_done(&enter(&home, &w));
    });
}

#[test]
fn a_removed_directory_can_be_unlocked() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        symlink("w", home.path().join("link")).expect("linked");
        for name in ["w", "link", w.as_str(), "other/../w"] {
            fs::create_dir_all(&w).expect("made");
            assert_done(&home.run(&["lock", "w"]));
            fs::remove_dir(&w).expect("removed");
            assert_eq!(locks(&home).len(), 1, "a word stays until it is taken back");
            assert_done(&home.run(&["unlock", name]));
            assert!(locks(&home).is_empty(), "{name}");
        }
    });
}

#[test]
fn a_full_disk_leaves_every_lock_whole() {
    sandboxed(|| {
        let home = home();
        let state = folder(&home, ".local/state/agentctl");
        let mount = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", &state];
        assert!(Command::new("mount").args(mount).status().expect("runs").success());
        assert_done(&home.run(&["lock", &folder(&home, "w"), "--reason", "before"]));
        let before = locks(&home);
        let filler = PathBuf::from(&state).join("filler");
        let mut full = fs::File::create(&filler).expect("made");
        let filled = std::io::Write::write_all(&mut full, &vec![0; 1 << 20]);
        assert!(filled.is_err(), "it is full");
        for _ in 0..10 {
            let answer = home.run(&["lock", &folder(&home, "v")]);
            assert_eq!(answer.code, Some(1), "{}", answer.stderr);
            assert!(answer.stderr.contains("No space left"), "{}", answer.stderr);
            assert_refused(&home.run(&["lock", "w"]), &["before"]);
            assert_eq!(locks(&home), before);
            assert_refused(&enter(&home, "w"), &["before"]);
        }
        let left = fs::read_dir(PathBuf::from(&state).join("locks")).expect("listed").flatten();
        let left: Vec<_> = left.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        assert!(!left.iter().any(|name| name.starts_with(".new")), "{left:?}");
        // An existing lock can be removed on a full disk, which frees space.
        assert_done(&home.run(&["unlock", "w"]));
        fs::remove_file(filler).expect("removed");
        assert_done(&home.run(&["lock", "v"]));
        assert_eq!(locks(&home).len(), 1);
    });
}

#[test]
fn of_many_concurrent_locks_exactly_one_succeeds() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        for round in 0..25 {
            let names: Vec<String> = (0..4).map(|n| format!("person-{round}-{n}")).collect();
            let start = |by: &String| {
                let mut command = home.command(&["lock", "w", "--by", by]);
                command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
            };
            let all: Vec<Child> = names.iter().map(start).collect();
            let answers: Vec<Output> =
                all.into_iter().map(|child| child.wait_with_output().into()).collect();
            let winners: Vec<&String> = names
                .iter()
                .zip(&answers)
                .filter(|(_, a)| a.code == Some(0))
                .map(|(n, _)| n)
                .collect();
            assert_eq!(winners.len(), 1, "round {round}: {answers:?}");
            let rows = locks(&home);
            assert_eq!((rows.len(), rows[0]["by"].as_str()), (1, Some(winners[0].as_str())));
            for answer in answers.iter().filter(|a| a.code != Some(0)) {
                assert_refused(answer, &[winners[0]]);
            }
            let start = || home.command(&["unlock", "w"]).stderr(Stdio::null()).spawn();
            let all: Vec<Child> = (0..4).map(|_| start().expect("started")).collect();
            let codes = all.into_iter().map(|c| Output::from(c.wait_with_output()).code);
            assert_eq!(codes.filter(|c| *c == Some(0)).count(), 1, "one takes it away");
        }
    });
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_agentctl")
}

fn sh(home: &TestHome, script: &str, cwd: &Path) -> std::io::Result<std::process::Output> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env_clear().env("HOME", home.path()).current_dir(cwd);
    command.stdin(Stdio::null()).output()
}
