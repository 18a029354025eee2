//! Resuming: in the session's directory, with the same id, never while a process serves the session, and
//! with proof that the message arrived.

use std::fs;

use serde_json::Value;
use testkit::{TestHome, eventually, sandboxed};

use crate::home;
use crate::launched::{
    folder, kill, launch, marked, runs, script, shims, status, until_said, until_stopped,
};

fn prompts(home: &TestHome, id: &str) -> Vec<String> {
    let said = home.run(&["logs", id, "--json", "-n", "1000"]).stdout;
    let lines = said.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let users = lines.filter(|m| m["role"] == "user");
    users.map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_session_continues_in_its_directory_under_its_own_id() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "first [[say:one]]", &["--group", "g", "--name", "nice"]);
        until_stopped(&home, &id);
        // From another directory.
        let resumed = home.run(&["resume", "nice", "second [[say:two]]"]);
        assert_eq!((resumed.code, resumed.stdout.trim()), (Some(0), id.as_str()), "{resumed:?}");
        let after = until_stopped(&home, &id);
        assert_eq!(
            (&after["outcome"], &after["cwd"]),
            (&"finished".into(), &folder(&home, "w").into())
        );
        assert_eq!(prompts(&home, &id), ["first [[say:one]]", "second [[say:two]]"]);
        assert_eq!(runs(&home).iter().filter(|r| r["session"] == id.as_str()).count(), 2);
        // From stdin, with a message that looks like a flag.
        let mut command = home.command(&["resume", &id, "-"]);
        let given = home.write("message", "--third [[say:three]]");
        command.stdin(fs::File::open(given).expect("open"));
        assert_eq!(command.output().expect("runs").status.code(), Some(0));
        until_stopped(&home, &id);
        assert_eq!(prompts(&home, &id).last().map(String::as_str), Some("--third [[say:three]]"));
    });
}

#[test]
fn a_served_session_is_not_resumed() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_said(&home, &id, "[[hang]]");
        let before = status(&home, &id);
        let pid = before["pid"].as_u64().expect("a pid");
        for more in [&[][..], &["--force"], &["--cwd", "/"]] {
            let mut args = vec!["resume", &id, "y"];
            args.extend(more);
            let refused = home.run(&args);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""), "{more:?}");
            assert!(
                refused.stderr.contains(&format!("is live (pid {pid}, running): ")),
                "{}",
                refused.stderr
            );
        }
        let refused = home.run(&["resume", &id, "y", "--fork"]);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("cannot fork"), "{}", refused.stderr);
        assert_eq!(crate::comparable(&status(&home, &id)), crate::comparable(&before));
        assert_eq!(runs(&home).len(), 1, "nothing was started");
    });
}

#[test]
fn a_killed_session_is_resumed_unless_its_directory_is_occupied() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        until_said(&home, &id, "[[hang]]");
        kill(u32::try_from(status(&home, &id)["pid"].as_u64().expect("a pid")).expect("fits"));
        assert_eq!(until_stopped(&home, &id)["outcome"], "killed");
        let other = launch(&home, "w", "y [[hang]]", &[]);
        let refused = home.run(&["resume", &id, "again [[say:ok]]"]);
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
        assert!(refused.stderr.contains(&other), "the holder is named: {}", refused.stderr);
        let beside = home.run(&["resume", &id, "again [[say:ok]]", "--force"]);
        assert_eq!(beside.code, Some(0), "{}", beside.stderr);
        assert_eq!(until_stopped(&home, &id)["outcome"], "finished");
    });
}

#[test]
fn a_message_counts_as_sent_only_when_the_record_holds_it() {
    sandboxed(|| {
        let mut home = home();
        home.set("ANTHROPIC_API_KEY", "k");
        let id = "0c2f8f8e-1111-4222-8333-123456789abc";
        let cwd = folder(&home, "w");
        let slug: String =
            cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let record = format!(".claude/projects/{slug}/{id}.jsonl");
        let line = |text: &str| {
            format!(
                r#"{{"type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"u","timestamp":"2026-11-15T10:00:00.000Z","cwd":"{cwd}","sessionId":"{id}"}}"#
            )
        };
        home.write(&record, format!("{}\n", line("first")));
        let init = format!(r#"echo '{{"type":"system","subtype":"init","session_id":"{id}"}}'"#);
        // The agent starts and exits with 0, but the message was never written.
        script(&home, "claude", &format!("{init}; exit 0"));
        let lost = home.run(&["resume", id, "second"]);
        assert_eq!((lost.code, lost.stdout.as_str()), (Some(1), ""), "{}", lost.stderr);
        assert!(lost.stderr.contains("does not contain the message"), "{}", lost.stderr);
        // The agent stays and never writes the message: it is ended.
        script(&home, "claude", &format!("{init}; sleep 600"));
        crate::configure(&home, &[("launch", "600ms")], "");
        assert_eq!(home.run(&["resume", id, "second"]).code, Some(1));
        crate::configure(&home, &[], "");
        eventually("nothing is left", || (marked().is_empty() && shims().is_empty()).then_some(()));
        // The agent writes the message: it counts as sent, whatever happens next.
        let path = home.path().join(&record);
        let write = format!("printf '%s\\n' '{}' >> '{}'", line("second"), path.display());
        script(&home, "claude", &format!("{init}; {write}; exit 7"));
        let sent = home.run(&["resume", id, "second"]);
        assert_eq!((sent.code, sent.stdout.trim()), (Some(0), id), "{}", sent.stderr);
        // An older equal message does not count.
        script(&home, "claude", &format!("{init}; exit 0"));
        assert_eq!(home.run(&["resume", id, "second"]).code, Some(1));
    });
}

#[test]
fn of_two_concurrent_resumes_only_one_gets_in() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:one]]", &[]);
        until_stopped(&home, &id);
        for round in 0..10 {
            let text = format!("round {round} [[ask:Go on?]]");
            let racers: Vec<_> = (0..3)
                .map(|_| home.command(&["resume", &id, &text, "--force"]).spawn().expect("starts"))
                .collect();
            let codes: Vec<_> =
                racers.into_iter().map(|mut c| c.wait().expect("ends").code()).collect();
            assert_eq!(codes.iter().filter(|c| **c == Some(0)).count(), 1, "{codes:?}");
            assert_eq!(status(&home, &id)["processes"].as_array().map(Vec::len), Some(1));
            eventually("it asks", || {
                Some(()).filter(|()| status(&home, &id)["status"] == "waiting")
            });
            assert_eq!(home.run(&["demo-agent", "--tell", &id, "-p", "yes"]).code, Some(0));
            until_stopped(&home, &id);
        }
        let sent = prompts(&home, &id).into_iter().filter(|p| p.starts_with("round")).count();
        assert_eq!(sent, 10, "each message once");
    });
}
