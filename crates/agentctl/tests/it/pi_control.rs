//! Pi moved: launched under a real id, stopped by SIGTERM, continued in its own file.

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{everyone, folder, status, until_stopped};
use crate::pi::install;

/// A Pi that writes its session like the real one: the header, then the prompt, then a wait.
fn pi(home: &TestHome, version: &str, ending: &str) {
    install(home, version);
    let text = r#"
id=01a1de32-5fe1-74e1-aa0a-48f1eed29000; file=
say() { printf '%s\n' "$1" >> "$file"; }
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
while [ $# -gt 0 ]; do
  case "$1" in
    --session-id) id=$2; shift;;
    --session) file=$2; shift;;
  esac
  shift
done
if [ -n "$file" ]; then
  id=${file##*_}; id=${id%.jsonl}
else
  slug=$(pwd -P | sed 's,^/,,; s,[/:],-,g')
  mkdir -p "$HOME/.pi/agent/sessions/--$slug--"
  file="$HOME/.pi/agent/sessions/--$slug--/2026-11-15T07-53-25-730Z_$id.jsonl"
  say "{\"type\":\"session\",\"version\":3,\"id\":\"$id\",\"timestamp\":\"$(now)\",\"cwd\":\"$(pwd -P)\"}"
fi
head -n 1 "$file"
echo '{"type":"agent_start"}'
prompt=$(cat)
ask() { say "{\"type\":\"message\",\"id\":\"$$u\",\"parentId\":null,\"timestamp\":\"$(now)\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"$prompt\"}]}}"; }
answer() { say "{\"type\":\"message\",\"id\":\"$$a\",\"parentId\":\"$$u\",\"timestamp\":\"$(now)\",\"message\":{\"role\":\"assistant\",\"content\":[],\"model\":\"m\",\"stopReason\":\"stop\"}}"; }
"#;
    home.write("body", format!("{text}{ending}\n"));
}

fn launched(home: &TestHome, more: &[&str]) -> testkit::Output {
    let cwd = folder(home, "w");
    let mut args = vec!["launch", "pi", "-p", "go", "--cwd", &cwd];
    args.extend(more);
    home.run(&args)
}

fn prompts(home: &TestHome, id: &str) -> Vec<String> {
    let said = home.run(&["logs", id, "--json", "-n", "1000"]).stdout;
    let lines = said.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let users = lines.filter(|m| m["role"] == "user");
    users.map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_id_is_chosen_where_the_version_allows_and_read_where_it_does_not() {
    sandboxed(|| {
        let home = home();
        for (version, chosen) in [("1.5.0", true), ("0.76.0", true), ("0.73.1", false)] {
            pi(&home, version, "ask; answer");
            let output = launched(&home, &["--model", "p/m"]);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            let id = output.stdout.trim().to_owned();
            assert_eq!(id != "01a1de32-5fe1-74e1-aa0a-48f1eed29000", chosen, "{version}");
            assert_eq!(until_stopped(&home, &id)["outcome"], "finished");
            assert_eq!(prompts(&home, &id).last().map(String::as_str), Some("go"));
        }
    });
}

#[test]
fn it_is_joined_to_its_session_without_any_file_of_ours() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0", "ask; while :; do sleep 1; done");
        let id = launched(&home, &[]).stdout.trim().to_owned();
        let before = eventually("it works", || {
            Some(status(&home, &id)).filter(|s| s["status"] == "running" && !s["prompt"].is_null())
        });
        assert!(before["pid"].is_u64() && before["run"].is_string(), "{before}");
        std::fs::remove_dir_all(home.path().join(".local/state/agentctl")).expect("wiped");
        let after = status(&home, &id);
        assert_eq!(
            (&after["status"], &after["pid"]),
            (&before["status"], &before["pid"]),
            "{after}"
        );
        assert_eq!(after["run"], Value::Null);
    });
}

#[test]
fn a_stop_is_sigterm_never_sigint_and_ends_the_tools() {
    sandboxed(|| {
        let home = home();
        let mark = home.path().join("signal");
        let ending = format!(
            "trap 'echo INT >> {0}' INT; trap 'echo TERM >> {0}; exit 143' TERM; ask; PI_SESSION_ID=$id setsid sleep 4242 & while :; do sleep 0.05; done",
            mark.display()
        );
        pi(&home, "1.5.0", &ending);
        let id = launched(&home, &[]).stdout.trim().to_owned();
        eventually("its tool runs", || {
            everyone().iter().any(|p| p.argv == ["sleep", "4242"]).then_some(())
        });
        let stopped = home.run(&["stop", &id]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert_eq!(std::fs::read_to_string(mark).expect("written"), "TERM\n");
        assert_eq!(status(&home, &id)["status"], "stopped");
        let left = everyone();
        assert!(!left.iter().any(|p| p.argv == ["sleep", "4242"]), "no tool is left");
    });
}

#[test]
fn a_resume_continues_the_same_file_and_counts_only_if_it_grew() {
    sandboxed(|| {
        let home = home();
        pi(&home, "1.5.0", "ask; answer");
        let id = launched(&home, &[]).stdout.trim().to_owned();
        until_stopped(&home, &id);
        let resumed = home.run(&["resume", &id, "and on"]);
        assert_eq!((resumed.code, resumed.stdout.trim()), (Some(0), id.as_str()), "{resumed:?}");
        until_stopped(&home, &id);
        assert_eq!(prompts(&home, &id), ["go", "and on"]);
        // It says all is well and writes nothing, as Pi does when it asks whether to fork.
        pi(&home, "1.5.0", "exit 0");
        let lost = home.run(&["resume", &id, "into the void"]);
        assert_eq!(lost.code, Some(1), "{lost:?}");
        assert_eq!(prompts(&home, &id), ["go", "and on"]);
        // A served session is not resumed.
        pi(&home, "1.5.0", "ask; while :; do sleep 1; done");
        assert_eq!(home.run(&["resume", &id, "third"]).code, Some(0));
        let refused = home.run(&["resume", &id, "fourth"]);
        assert_eq!(refused.code, Some(5), "{refused:?}");
    });
}

#[test]
fn a_refusal_behind_the_first_line_is_a_failed_launch() {
    sandboxed(|| {
        let home = home();
        install(&home, "1.5.0");
        home.write(
            "body",
            "echo '{\"type\":\"session\",\"id\":\"01a1de32-5fe1-74e1-aa0a-48f1eed29000\"}'\n\
             sleep 0.3; echo 'No API key found for the selected model.' >&2; exit 1\n",
        );
        let failed = launched(&home, &[]);
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
        assert!(failed.stderr.contains("No API key"), "{}", failed.stderr);
        assert!(failed.stderr.contains("/login"), "{}", failed.stderr);
        std::fs::remove_file(home.path().join("bin/pi")).expect("removed");
        let missing = launched(&home, &[]);
        assert_eq!(missing.code, Some(1), "{missing:?}");
        assert!(missing.stderr.contains("not installed"), "{}", missing.stderr);
    });
}
