//! The outside: flags, forms of an id, exit codes, manners.

use serde_json::{Value, json};
use testkit::{TestHome, sandboxed};

use crate::{fixtures_dir, home};

pub(crate) fn planted() -> TestHome {
    let home = home();
    home.plant(&fixtures_dir().join("claude-code/2.1.325"), ".");
    home.plant(&fixtures_dir().join("codex/0.166.0"), ".");
    std::fs::remove_dir_all(home.path().join(".claude/sessions")).expect("removed");
    home
}

#[test]
fn an_empty_machine_gets_a_friendly_line() {
    sandboxed(|| {
        // Not even a configuration.
        let home = testkit::TestHome::new(env!("CARGO_BIN_EXE_agentctl"));
        for args in [&["list"][..], &["list", "-a"]] {
            let output = home.run(args);
            assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
            let agents = agentctl_core::adapters::ALL.iter().map(|adapter| adapter.name());
            for word in agents.chain(["agentctl demo"]) {
                assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
            }
        }
        let document = home.run(&["list", "--json"]).json();
        assert_eq!(document, json!({"schema_version": 1, "sessions": [], "faults": []}));
        assert!(
            std::fs::read_dir(home.path()).expect("listed").next().is_none(),
            "nothing was written"
        );
    });
}

#[test]
fn every_form_of_an_id_finds_its_session() {
    sandboxed(|| {
        let home = planted();
        let id = |text: &str| home.run(&["status", text, "--json"]).json()["id"].clone();
        assert_eq!(
            id("45454545-4444-4444-8444-444444444444"),
            "45454545-4444-4444-8444-444444444444"
        );
        assert_eq!(id("45454545"), "45454545-4444-4444-8444-444444444444");
        assert_eq!(id("4545"), "45454545-4444-4444-8444-444444444444");
        assert_eq!(id("claude-code:4545"), "45454545-4444-4444-8444-444444444444");
        assert_eq!(
            id("my-name"),
            "2b172b2f-1898-4000-8651-68f404b757f0",
            "a name given by a person"
        );
        assert_eq!(id("codex:01a1de2a"), "01a1de2a-1cbc-7bc0-8847-7990a9c220ec");
    });
}

#[test]
fn no_match_and_several_matches_exit_4_with_what_to_do() {
    sandboxed(|| {
        let home = planted();
        let none = home.run(&["status", "nosuchsession"]);
        assert_eq!((none.code, none.stdout.as_str()), (Some(4), ""));
        assert!(
            none.stderr.starts_with("error: no session matches `nosuchsession`\nhint: "),
            "{}",
            none.stderr
        );
        let short = home.run(&["logs", "454"]);
        assert_eq!(short.code, Some(4));
        assert!(short.stderr.contains("at least 4 characters"), "{}", short.stderr);
        let several = home.run(&["why", "01a1de2c"]);
        assert_eq!(several.code, Some(4));
        assert!(
            several.stderr.contains("matches 7 sessions")
                && several.stderr.contains("codex:01a1de2c-907e"),
            "{}",
            several.stderr
        );
        let as_json = home.run(&["status", "nosuchsession", "--json"]);
        assert_eq!(as_json.code, Some(4));
        assert_eq!(as_json.json()["error"]["code"], "session_not_found");
        assert_eq!(home.run(&["status", "demo:45454545"]).code, Some(4), "another adapter's");
        assert_eq!(home.run(&["status", "@last"]).code, Some(4));
    });
}

#[test]
fn a_session_hidden_by_a_failed_source_is_unknown_not_absent() {
    sandboxed(|| {
        let home = planted();
        std::fs::remove_dir_all(home.path().join(".claude/projects")).expect("removed");
        home.write(".claude/projects", "a file in the directory's place");
        let hidden = home.run(&["status", "45454545", "--json"]);
        assert_eq!(hidden.code, Some(3), "{}", hidden.stderr);
        assert_eq!(hidden.json()["error"]["code"], "unknown");
        let seen = home.run(&["list", "-a", "--since", "all", "--json"]);
        assert_eq!(seen.code, Some(3));
        assert_eq!(seen.json()["faults"][0]["adapter"], "claude-code");
        assert!(seen.sessions().iter().all(|s| s["adapter"] == "codex"), "others are unaffected");
        assert_eq!(seen.sessions().len(), 38);
    });
}

#[test]
fn filters_narrow_and_since_goes_back() {
    sandboxed(|| {
        let home = planted();
        let count = |args: &[&str]| {
            let all: Vec<&str> = ["list", "-a", "--json"].iter().chain(args).copied().collect();
            let output = home.run(&all);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            output.sessions().len()
        };
        assert_eq!(count(&["--since", "all"]), 70);
        assert_eq!(count(&["--since", "all", "--adapter", "codex"]), 38);
        assert_eq!(count(&["--since", "all", "--status", "error"]), 11);
        assert_eq!(count(&["--since", "all", "--status", "error,stopped"]), 70);
        assert_eq!(count(&["--since", "all", "--cwd", "/home/ada/projects/ws/gitrepo/sub"]), 1);
        assert_eq!(count(&["--since", "2026-11-01"]), 70);
        assert_eq!(count(&["--since", "2099-01-01"]), 0);
        assert_eq!(count(&["--since", "all", "--tree"]), 72);
        let old = home.path().join(".claude/projects/-home-ada-projects-ws-alpha/45454545-4444-4444-8444-444444444444.jsonl");
        let text =
            std::fs::read_to_string(&old).expect("there").replace("2026-11-15", "2020-01-01");
        std::fs::write(&old, text).expect("written");
        assert_eq!(
            count(&["--since", "2026-11-01"]),
            69,
            "its newest entry counts, not when the file was touched"
        );
    });
}

#[test]
fn bad_input_gets_one_sentence_a_hint_and_exit_2() {
    sandboxed(|| {
        let home = home();
        // The sentence about the mistake, and the hint: our own, or the parser's.
        for (args, sentence, hint) in [
            (
                &["list", "-a", "--since", "yesterday"][..],
                "neither a span nor a date nor a time",
                "hint: write it like 30d",
            ),
            (
                &["list", "--adapter", "cursor"],
                "--adapter: there is no adapter `cursor`",
                "hint: adapters: claude-code",
            ),
            (&["list", "--sort", "size"], "there is no key `size`", "hint: keys: id, "),
            (
                &["list", "--status", "sleeping"],
                "`sleeping` is not a value of --status",
                "hint: values: waiting",
            ),
            (&["lst"], "there is no command `lst`", "hint: did you mean `agentctl list`"),
            (&["schema", "nonsense"], "no schema named", "hint: schemas: adapters"),
        ] {
            let output = home.run(args);
            assert_eq!(output.code, Some(2), "{args:?}: {}", output.stderr);
            assert!(output.stdout.is_empty(), "{args:?}: {}", output.stdout);
            let first = output.stderr.lines().next().unwrap_or_default();
            assert!(first.starts_with("error: ") && first.contains(sentence), "{args:?}: {first}");
            assert!(
                !first.contains(". ") && !first.ends_with('.'),
                "{args:?}: one sentence: {first}"
            );
            let errors = output.stderr.matches("error: ").count();
            assert_eq!(errors, 1, "{args:?}: one sentence: {}", output.stderr);
            assert!(output.stderr.contains(hint), "{args:?}: no hint: {}", output.stderr);
        }
        let as_json = home.run(&["list", "--adapter", "cursor", "--json"]);
        assert_eq!((as_json.code, &as_json.json()["error"]["code"]), (Some(2), &"usage".into()));
    });
}

#[test]
fn a_closed_reader_is_no_error() {
    sandboxed(|| {
        let home = planted();
        let mut child = home
            .command(&["list", "-a", "--since", "all", "--json"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    });
}

#[test]
fn the_table_is_plain_when_piped_and_tells_status_without_colour() {
    sandboxed(|| {
        let home = planted();
        let output = home.run(&["list", "-a", "--since", "all"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stdout.starts_with("NAME     STATUS "), "{}", output.stdout);
        assert!(!output.stdout.contains('\x1b'));
        assert_eq!(output.stdout.lines().count(), 71);
    });
}

#[test]
fn logs_have_one_shape_for_all_agents() {
    sandboxed(|| {
        let home = planted();
        let keys = [
            "at",
            "id",
            "images",
            "model",
            "role",
            "text",
            "thinking",
            "tool_calls",
            "tool_results",
            "usage",
        ];
        for id in ["45454545", "01a1de32-5fe1"] {
            let output = home.run(&["logs", id, "--json", "-n", "100"]);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
            let mut roles = std::collections::BTreeSet::new();
            let mut spent = 0;
            for line in output.stdout.lines() {
                let message: Value = serde_json::from_str(line).expect("JSON");
                let mut found: Vec<_> =
                    message.as_object().expect("an object").keys().cloned().collect();
                found.sort();
                assert_eq!(found, keys, "{line}");
                roles.insert(message["role"].as_str().expect("a role").to_owned());
                spent += message["usage"]["output"].as_u64().unwrap_or(0);
            }
            assert!(["assistant", "tool", "user"].iter().all(|r| roles.contains(*r)), "{roles:?}");
            let counted = home.run(&["status", id, "--json"]).json()["tokens"]["output"].as_u64();
            // The subagent's share is in `status` only.
            assert!(spent > 0 && Some(spent) <= counted, "{spent} of {counted:?}");
        }
        assert_eq!(home.run(&["logs", "45454545", "--json", "-n", "2"]).stdout.lines().count(), 2);
        let raw = home.run(&["logs", "45454545", "--raw", "-n", "1"]).stdout;
        assert_eq!(serde_json::from_str::<Value>(&raw).expect("JSON")["type"], "cost-state");
    });
}

#[test]
fn doctor_adapters_man_and_completions_answer() {
    sandboxed(|| {
        let home = planted();
        let doctor = home.run(&["doctor", "--json"]);
        assert_eq!(doctor.code, Some(0), "{}", doctor.stderr);
        let checks = doctor.json()["checks"].as_array().cloned().expect("checks");
        let found = |area: &str, detail: &str| {
            checks.iter().any(|c| {
                c["area"] == area && c["detail"].as_str().is_some_and(|d| d.contains(detail))
            })
        };
        assert!(
            found("claude-code", "0 live, 32 sessions") && found("codex", "0 live, 38 sessions"),
            "{checks:#?}"
        );
        let adapters = home.run(&["adapters", "--json"]).json()["adapters"].clone();
        let known = agentctl_core::adapters::ALL.len();
        assert_eq!(adapters.as_array().map(Vec::len), Some(known));
        assert!(home.run(&["man"]).stdout.contains(".TH AGENTCTL 1 "));
        for shell in ["bash", "zsh", "fish"] {
            assert!(home.run(&["completions", shell]).stdout.contains("agentctl"));
        }
        assert!(
            home.run(&["why", "45454545"])
                .stdout
                .contains("is stopped: no process runs it, and its last turn is complete")
        );
    });
}
