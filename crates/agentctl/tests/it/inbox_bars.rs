//! Bars of the inbox that are counted in rounds: `AGENTCTL_ANSWER_ROUNDS` sets the number. `just inbox-bars` plays
//! them, and those of askers and messages; `just answers` plays the bar of many answers at once (`inbox.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Agent, TestHome, eventually, sandboxed};

use crate::claude_code::{A, Claude, prompt, record, tool_use};
use crate::home;
use crate::inbox::ask_of;
use crate::launched::{everyone, launch, status, until_stopped};
use crate::wait::Running;

/// The rounds of a test.
pub(crate) fn rounds(usual: usize) -> usize {
    std::env::var("AGENTCTL_ANSWER_ROUNDS").map_or(usual, |n| n.parse().expect("a number"))
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("it lives");
}

/// Starts `answer` in the background.
fn answering(home: &TestHome, ask: &Value, decision: &str) -> Running {
    let mut command = home.command(&["answer", ask["id"].as_str().expect("an id"), decision]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Running(child.expect("started"))
}

/// Returns an ask without the fields that may differ between two looks at it.
fn timeless(ask: &Value) -> Value {
    let mut ask = ask.clone();
    for field in ["since", "until", "evidence"] {
        ask.as_object_mut().expect("an ask").remove(field);
    }
    ask
}

/// The ways in which a process below an agent runs the script `{way}.sh` of the home.
fn ways_below(home: &TestHome) -> Vec<(&'static str, String)> {
    let at = home.path().display().to_string();
    let apart = "</dev/null >/dev/null 2>&1 &";
    let emptied = format!("env -i HOME={at} PATH=/usr/bin:/bin");
    vec![
        ("child", format!(". {at}/child.sh")),
        ("shell", format!("sh {at}/shell.sh")),
        ("setsid", format!("setsid -w sh {at}/setsid.sh")),
        ("forked", format!("(setsid sh {at}/forked.sh {apart})")),
        ("emptied", format!("(setsid {emptied} sh {at}/emptied.sh {apart})")),
    ]
}

/// Writes the scripts that answer an ask.
fn write_answers(home: &TestHome, ask: &str, ways: &[(&'static str, String)]) {
    let (program, at) = (env!("CARGO_BIN_EXE_agentctl"), home.path().display().to_string());
    for (way, _) in ways {
        let script = format!(
            "{program} answer {ask} --allow > {at}/{way}.out 2>&1; echo $? > {at}/{way}.code\n"
        );
        home.write(&format!("{way}.sh"), script);
    }
}

/// Waits for the exit code of an answer from below, and asserts that it was refused.
fn assert_refused(home: &TestHome, who: &str, way: &str) {
    let path = home.path().join(format!("{way}.code"));
    let code = eventually(&format!("{who}: the {way} has answered"), || {
        fs::read_to_string(&path).ok().filter(|code| code.ends_with('\n'))
    });
    let said = fs::read_to_string(home.path().join(format!("{way}.out"))).unwrap_or_default();
    assert_eq!(code.trim(), "5", "{who}, {way}: {said}");
    assert!(said.contains("agents may not answer"), "{who}, {way}: {said}");
    fs::remove_file(path).expect("removed");
}

/// A3, for agents that a person has started: there is no shim, so a process that has left the tree **and** its
/// environment is not below them any more; every other one is.
#[test]
fn no_process_below_an_agent_of_a_person_may_answer() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let mut ways = ways_below(&home);
        ways.retain(|(way, _)| *way != "emptied");
        write_answers(&home, ask["id"].as_str().expect("an id"), &ways);
        let text = record(A, &home.path().join("ws").to_string_lossy(), &json!({"status": "busy"}));
        let path = home.at(".claude/sessions/{pid}.json").to_string_lossy().into_owned();
        let lock = crate::codex::lock(&home, crate::codex::A);
        crate::codex::rollout(&home, crate::codex::A, &[crate::codex::started()]);
        home.write("opt/gateway/package.json", r#"{"name":"openclaw","version":"2026.9.6"}"#);
        let gateway = home.write("opt/gateway/dist/index.js", "");
        let gateway = gateway.to_string_lossy().into_owned();
        let agents: [(&str, Vec<&str>); 6] = [
            ("claude", vec!["-", "write", &path, &text, "env", "CLAUDE_PID", "{pid}"]),
            ("codex", vec!["exec", "lock", &lock, "env", "CODEX_THREAD_ID", crate::codex::A]),
            // None of its sessions names the process of the gateway.
            ("openclaw-gateway", vec!["env", "OPENCLAW_SHELL", "exec"]),
            // Started by its script it has no title.
            ("node-22", vec!["--no-warnings", &gateway, "gateway", "env", "OPENCLAW_CLI", "1"]),
            ("bun", vec!["run", &gateway, "gateway", "env", "OPENCLAW_SHELL", "exec"]),
            ("openclaw-node", vec!["env", "OPENCLAW_SHELL", "exec"]),
        ];
        for (name, mut script) in agents {
            for (_, command) in &ways {
                script.extend(["start", command]);
            }
            let mut agent: Agent = home.agent(name, "ws", &script);
            agent.ready();
            for (way, _) in &ways {
                assert_refused(&home, name, way);
            }
            agent.kill();
        }
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(ask_of(&home, &waiting)["id"], ask["id"], "the ask is open");
        // The shell that an agent has run in, after the agent has died.
        let shell = format!(
            "{} exit 0; exec {} answer {} --allow",
            testkit::fake_agent().display(),
            env!("CARGO_BIN_EXE_agentctl"),
            ask["id"].as_str().expect("an id")
        );
        let mut after = Command::new("sh");
        after.args(["-c", &shell]).env_clear().env("HOME", home.path());
        after.env("PATH", "/usr/bin:/bin").env("CLAUDE_PID", "4000000");
        let output = after.output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

/// A3: a shell beside a gateway, with another value of the variable, and one with the variable after the gateway's end.
#[test]
fn a_shell_beside_a_gateway_may_answer() {
    sandboxed(|| {
        let home = home();
        for (variable, has_gateway) in [("tui-local", true), ("", true), ("exec", false)] {
            let waiting = launch(&home, "w", "x [[permit:true]]", &[]);
            let ask = ask_of(&home, &waiting);
            let _gateway = has_gateway.then(|| {
                let mut gateway = home.agent("openclaw-gateway", "ws", &[]);
                gateway.ready();
                gateway
            });
            let mut answer =
                home.command(&["answer", ask["id"].as_str().expect("an id"), "--allow"]);
            let output = answer.env("OPENCLAW_SHELL", variable).output().expect("runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{variable}, {has_gateway}: {said}");
            until_stopped(&home, &waiting);
        }
    });
}

/// A3, for a launched agent: its shim adopts what leaves its tree.
#[test]
fn no_process_below_a_launched_agent_may_answer() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let ways = ways_below(&home);
        write_answers(&home, ask["id"].as_str().expect("an id"), &ways);
        let tools: Vec<String> = ways.iter().map(|(_, way)| format!("[[tool:{way}]]")).collect();
        let below = launch(&home, "below", &format!("x {} [[hang]]", tools.join(" ")), &[]);
        for (way, _) in &ways {
            assert_refused(&home, "demo", way);
        }
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(home.run(&["stop", &below]).code, Some(0));
        assert_eq!(ask_of(&home, &waiting)["id"], ask["id"], "the ask is open");
    });
}

/// Runs its further arguments below this many nested shells.
const NEST: &str =
    "n=$1; shift\nif [ $n -gt 0 ]; then sh $0 $((n - 1)) \"$@\"; else \"$@\"; fi\nexit $?\n";

/// A3: the line of a process is read to its end. It is longer than what is read, or parts of it end meanwhile.
#[test]
fn no_process_below_a_launched_agent_may_answer_behind_a_long_or_dying_line() {
    sandboxed(|| {
        let home = home();
        let waiting = launch(&home, "w", "x [[permit:touch answered]]", &[]);
        let ask = ask_of(&home, &waiting);
        let at = home.path().display().to_string();
        home.write("nest.sh", NEST);
        let id = ask["id"].as_str().expect("an id");
        write_answers(&home, id, &[("long", String::new())]);
        let program = env!("CARGO_BIN_EXE_agentctl");
        let answer = format!(
            "echo $$ > {at}/begun\nexec {program} answer {id} --allow > {at}/dying.out 2>&1\n"
        );
        home.write("answer.sh", answer);
        home.write("dying.sh", format!("sh {at}/answer.sh; echo $? > {at}/dying.code\n"));
        let emptied = format!("env -i HOME={at} PATH=/usr/bin:/bin");
        // Leaves the group that is killed; its parents stay in it.
        home.write("last.sh", format!("setsid sh {at}/dying.sh & wait\n"));
        let kill = format!(
            "setsid {emptied} sh {at}/nest.sh 300 sh {at}/last.sh &\n\
             until [ -s {at}/begun ]; do :; done\nread pid < {at}/begun\n\
             until grep -q agentctl /proc/$pid/comm; do :; done\nrm {at}/begun\nkill -9 -$!\n"
        );
        home.write("kill.sh", kill);
        for _ in 0..rounds(5) {
            let below =
                launch(&home, "below", &format!("x [[tool:sh {at}/kill.sh]] [[hang]]"), &[]);
            assert_refused(&home, "demo", "dying");
            assert_eq!(home.run(&["stop", &below]).code, Some(0));
        }
        let tool = format!("{emptied} sh {at}/nest.sh 600 sh {at}/long.sh");
        let below = launch(&home, "below", &format!("x [[tool:{tool}]] [[hang]]"), &[]);
        let code = eventually("the long line has answered", || {
            fs::read_to_string(home.path().join("long.code"))
                .ok()
                .filter(|code| code.ends_with('\n'))
        });
        let said = fs::read_to_string(home.path().join("long.out")).unwrap_or_default();
        assert_eq!(code.trim(), "5", "{said}");
        assert!(said.contains("more than 512 processes are above it"), "{said}");
        assert!(!home.path().join("w/answered").exists());
        assert_eq!(home.run(&["stop", &below]).code, Some(0));
        assert_eq!(ask_of(&home, &waiting)["id"], ask["id"], "the ask is open");
    });
}

/// A4: the daemon and every shim are killed, and everything that agentctl has written is gone.
#[test]
fn asks_are_the_same_without_daemon_shims_and_folders() {
    sandboxed(|| {
        let home = home();
        assert_eq!(home.run(&["daemon", "start"]).code, Some(0));
        let prompts = ["[[permit:touch made]]", "[[ask:Which?|Red|Blue]]"];
        let mut ids = Vec::new();
        for (at, prompt) in prompts.iter().enumerate() {
            let id =
                launch(&home, &format!("w{at}"), &format!("x {prompt} [[say:after]]"), &["--keep"]);
            ask_of(&home, &id);
            ids.push(id);
        }
        let shown = |home: &TestHome| -> BTreeSet<String> {
            let document = home.run(&["asks", "--json"]).json();
            assert_eq!(document["faults"], json!([]), "{document}");
            let asks = document["asks"].as_array().expect("asks").iter();
            asks.map(|ask| timeless(ask).to_string()).collect()
        };
        let before = shown(&home);
        assert_eq!(before.len(), 2);
        let is_ours = |argv: &[String]| {
            argv.get(1).is_some_and(|word| word == "shim" || word == "daemon")
                && argv[0].ends_with("agentctl")
        };
        let ours: Vec<u32> = everyone()
            .into_iter()
            .filter(|seen| is_ours(&seen.argv))
            .map(|seen| seen.pid)
            .collect();
        assert!(ours.len() >= 3, "two shims and a daemon: {ours:?}");
        for pid in ours {
            signal(pid, Signal::KILL);
        }
        for folder in [".local/state/agentctl", ".cache/agentctl"] {
            let _missing = fs::remove_dir_all(home.path().join(folder));
        }
        assert_eq!(before, shown(&home));
        let answers = [["--allow", "made"], ["--option=2", "Blue"]];
        for (id, [decision, _]) in ids.iter().zip(answers) {
            let ask = ask_of(&home, id);
            let taken = home.run(&["answer", ask["id"].as_str().expect("an id"), decision]);
            assert_eq!(taken.code, Some(0), "{}", taken.stderr);
            eventually("it rests", || (status(&home, id)["status"] == "idle").then_some(()));
        }
        assert!(home.path().join("w0/made").exists());
        assert!(home.run(&["logs", &ids[1], "--json"]).stdout.contains("\"Blue\""));
        for id in &ids {
            assert_eq!(home.run(&["stop", id]).code, Some(0), "it can be stopped");
        }
    });
}

/// A8: an answer that waited for another one looks at the ask again.
#[test]
fn an_answer_that_waited_for_another_one_looks_again() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch made]] [[hang]]", &[]);
        let ask = ask_of(&home, &id);
        let live = home.path().join(format!(".local/share/agentctl-demo/live/{}", ask["pid"]));
        let mode =
            fs::metadata(live.with_extension("sock")).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "whatever the umask");
        let record = fs::read(live.with_extension("json")).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        let folder = home.path().join(".local/state/agentctl/run/answers");
        fs::create_dir_all(&folder).expect("made");
        let path = folder.join(format!("{}.lock", ask["id"].as_str().expect("an id")));
        let lock = fs::File::create(&path).expect("made");
        lock.lock().expect("locked");
        let answer = answering(&home, &ask, "--allow");
        eventually("the answer waits for the lock", || {
            let locks = fs::read_to_string("/proc/locks").expect("locks");
            locks.lines().any(|line| line.contains("-> FLOCK")).then_some(())
        });
        let mut stream = UnixStream::connect(live.with_extension("sock")).expect("it listens");
        let denial = json!({"answer": {"ask": record["ask"]["id"], "allow": false}});
        writeln!(stream, "{denial}").expect("sent");
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("a reply");
        assert!(reply.contains("true"), "{reply}");
        // The lock is waited for two seconds only.
        eventually("the ask is settled", || {
            let record = fs::read(live.with_extension("json")).ok()?;
            let record: Value = serde_json::from_slice(&record).ok()?;
            record["ask"].is_null().then_some(())
        });
        drop(lock);
        let output = answer.output();
        assert_eq!(output.code, Some(4), "{}", output.stderr);
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert!(!home.path().join("w/made").exists());
    });
}

/// A7: text from an agent that is meant to harm the terminal or the reader.
fn hostile(seed: usize) -> String {
    let parts = [
        "\x1b[2J",
        "\x1b]0;owned\x07",
        "\x1b]52;c;cm0gLXJm\x07",
        "\x1bP$q\x1b\\",
        "\u{9b}31m",
        "\u{202e}txt.exe",
        "\u{2066}",
        "\u{200b}",
        "\r",
        "\x08\x08\x08",
        "\x7f",
        "\0",
        "\u{85}",
        "\u{2028}",
        "../../etc/passwd",
        "\u{feff}",
        "\x1b[?1049h",
        "\x1b]8;;file:///etc/passwd\x07here",
        "\u{e0041}",
        "\x1b[6n",
    ];
    let at = |n: usize| parts[(seed / (n + 1) + seed * n) % parts.len()];
    format!("{} {seed} {}{}", at(0), at(1), at(2))
}

#[test]
fn hostile_asks_are_shown_harmless() {
    const STRINGS: usize = 100;
    sandboxed(|| {
        let claude = Claude::new();
        let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
        let _agent = claude.live(A, &more);
        for round in 0..rounds(12).div_ceil(10) * 4 {
            let texts: Vec<String> = (0..STRINGS).map(|n| hostile(round * STRINGS + n)).collect();
            let all = texts.join("\n");
            let input = match round % 4 {
                0 => ("Bash", json!({"command": all, "description": texts[0]})),
                1 => (
                    "Edit",
                    json!({"file_path": format!("../../{}", texts[1]), "old_string": all, "new_string": texts[2]}),
                ),
                2 => (
                    "AskUserQuestion",
                    json!({"questions": [{"question": texts[3], "header": texts[4], "multiSelect": false,
                    "options": texts.iter().map(|t| json!({"label": t, "description": t})).collect::<Vec<_>>()}]}),
                ),
                _ => ("ExitPlanMode", json!({"plan": all})),
            };
            claude
                .transcript(A, &[prompt("go"), tool_use(&format!("t{round}"), input.0, &input.1)]);
            let document = claude.home.run(&["asks", "--json"]);
            let id = document.json()["asks"][0]["id"].as_str().expect("an ask").to_owned();
            let shown = [
                document.stdout,
                claude.home.run(&["asks"]).stdout,
                claude.home.run(&["asks", &id]).stdout,
                claude.home.run(&["wait", A]).stderr,
                claude.home.run(&["answer", &id, "--allow"]).stderr,
            ];
            for text in shown {
                assert!(!text.is_empty());
                let harmful = |c: char| {
                    (c.is_control() && c != '\n' && c != '\t')
                        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
                        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
                };
                assert!(!text.contains(harmful), "round {round}: {text:?}");
            }
        }
    });
}

/// A7: a command of a megabyte is listed in bounded memory, and is not run.
#[test]
fn a_command_of_a_megabyte_is_listed_in_64_mib() {
    sandboxed(|| {
        let claude = Claude::new();
        let more = json!({"status": "waiting", "waitingFor": "permission prompt"});
        let _agent = claude.live(A, &more);
        let command =
            format!("touch {}/made; true {}", claude.home.path().display(), "x".repeat(1 << 20));
        claude.transcript(A, &[prompt("go"), tool_use("t1", "Bash", &json!({"command": command}))]);
        let cramped = |args: &[&str]| {
            let mut limited = Command::new("sh");
            limited.args([
                "-c",
                "ulimit -d 65536; exec \"$@\"",
                "sh",
                env!("CARGO_BIN_EXE_agentctl"),
            ]);
            limited
                .args(args)
                .env_clear()
                .env("HOME", claude.home.path())
                .env("PATH", "/usr/bin:/bin");
            let output = limited.output().expect("runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let document: Value = serde_json::from_str(&cramped(&["asks", "--json"])).expect("JSON");
        let part = &document["asks"][0]["parts"][0];
        assert_eq!((&part["cut"], &part["kind"]), (&true.into(), &"command".into()), "{part}");
        let id = document["asks"][0]["id"].as_str().expect("an id");
        assert!(cramped(&["asks", id]).contains("touch "));
        assert!(!claude.home.path().join("made").exists());
    });
}

/// S2: a message to a session that waits is refused, and its ask is untouched.
#[test]
fn every_message_to_a_waiting_session_is_refused() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[permit:touch made]] [[say:after]]", &["--keep"]);
        let ask = ask_of(&home, &id);
        for round in 0..rounds(10) {
            let refused = home.run(&["send", &id, &format!("yes, allow it {round}")]);
            assert_eq!(refused.code, Some(10), "{}", refused.stderr);
        }
        assert_eq!(timeless(&ask_of(&home, &id)), timeless(&ask));
        assert!(!home.path().join("w/made").exists());
        assert_eq!(home.run(&["answer", ask["id"].as_str().expect("id"), "--deny"]).code, Some(0));
        assert!(!home.run(&["logs", &id, "--json"]).stdout.contains("allow it"));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
    });
}

/// S5: a large message arrives whole, and a process that a signal has stopped takes none.
#[test]
fn a_large_message_arrives_whole_and_a_stopped_process_takes_none() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:ready]]", &["--keep"]);
        eventually("it rests", || (status(&home, &id)["status"] == "idle").then_some(()));
        let words: Vec<String> = (0..132_000).map(|n| format!("{n:06}")).collect();
        let long = format!("long {} the end", words.join(" "));
        assert!(long.len() > 900 << 10);
        let file = home.write("long", &long);
        let sent = home.run(&["send", &id, "--prompt-file", &file.to_string_lossy()]);
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
        let raw = home.run(&["logs", &id, "-n", "100", "--json"]).stdout;
        assert!(raw.lines().any(|line| line.contains(&long)), "it is whole in the record");
        let pid = u32::try_from(status(&home, &id)["pid"].as_u64().expect("a pid")).expect("small");
        signal(pid, Signal::STOP);
        // The process stops when it is scheduled next, which takes a moment on a busy machine.
        eventually("it is stopped", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(") ").next()?.starts_with('T').then_some(())
        });
        let refused = home.run(&["send", &id, "later"]);
        // Before anything is asserted: the sandbox of a failed test waits for a stopped process.
        signal(pid, Signal::CONT);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains("stopped by a signal"), "{}", refused.stderr);
        eventually("it rests", || (status(&home, &id)["status"] == "idle").then_some(()));
        assert!(!home.run(&["logs", &id, "--json"]).stdout.contains("later"));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        until_stopped(&home, &id);
    });
}

/// Says whether a process is a zombie or gone.
fn is_dead(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X']))
}

/// The live processes of this program whose first word is one of these.
fn processes(words: &[&str]) -> Vec<(u32, String)> {
    let named =
        |argv: &[String]| argv.get(1).filter(|word| words.contains(&word.as_str())).cloned();
    let all = everyone().into_iter().filter_map(|seen| Some((seen.pid, named(&seen.argv)?)));
    all.filter(|(pid, _)| !is_dead(*pid)).collect()
}

/// S4: launchers, shims and the daemon are killed at random during launches that stay: every agent that lives can
/// be stopped, and no prompt is given twice.
#[test]
fn every_kept_agent_can_be_stopped_whoever_was_killed_at_its_launch() {
    sandboxed(|| {
        let home = home();
        let mut dice = testkit::Dice::from("AGENTCTL_RACE_SEED");
        let mut lived = 0;
        for round in 0..rounds(6) {
            if round.is_multiple_of(5) {
                let _running = home.run(&["daemon", "start"]);
            }
            let cwd = crate::launched::folder(&home, &format!("w{round}"));
            let prompt = format!("round {round} [[say:answered]]");
            let mut launch =
                home.command(&["launch", "demo", "--keep", "--cwd", &cwd, "-p", &prompt]);
            launch.stdout(Stdio::null()).stderr(Stdio::null());
            let mut launcher = Running(launch.spawn().expect("started"));
            let victim = dice.pick(&["launch", "shim", "daemon"]);
            // The moment is a number of looks at the process table.
            for _ in 0..dice.below(12) {
                processes(&[victim]);
            }
            for (pid, _) in processes(&[victim]) {
                crate::launched::kill(pid);
            }
            let _ended = launcher.0.wait().expect("ended");
            eventually("no launch is under way", || {
                processes(&["launch", "exec-agent"]).is_empty().then_some(())
            });
            for (pid, _) in processes(&["demo-agent"]) {
                lived += 1;
                let row = eventually("the agent is listed with its session", || {
                    let rows = home.run(&["list", "--json"]).sessions();
                    let row =
                        rows.into_iter().find(|row| row["pid"] == pid && row["id"].is_string());
                    row.filter(|row| row["status"] == "idle")
                        .or_else(|| is_dead(pid).then_some(Value::Null))
                });
                if let Some(id) = row["id"].as_str() {
                    let lines = home.run(&["logs", id, "-n", "100", "--json"]).stdout;
                    let given = lines.lines().filter(|line| {
                        let line: Value = serde_json::from_str(line).expect("JSON");
                        line["role"] == "user"
                    });
                    assert_eq!(given.count(), 1, "round {round}, {victim} killed: {lines}");
                    // 1: the shim was killed, so processes that left the agent cannot be found.
                    let stopped = home.run(&["stop", id]);
                    assert!(matches!(stopped.code, Some(0 | 1)), "{}", stopped.stderr);
                }
                eventually("the agent has ended", || is_dead(pid).then_some(()));
            }
            assert_eq!(processes(&["demo-agent"]), [], "round {round}, {victim} killed");
        }
        assert!(lived > 0, "at least one agent came to life");
    });
}
