//! Prompts and messages as arguments, and agents by the names that people use.

use serde_json::Value;
use testkit::{TestHome, sandboxed};

use crate::home;
use crate::launched::{folder, runs, status, until_stopped};

fn prompt_of(home: &TestHome, id: &str) -> Value {
    status(home, id)["prompt"].clone()
}

#[test]
fn the_second_argument_of_launch_is_the_prompt() {
    sandboxed(|| {
        let home = home();
        let launched = home.run(&["launch", "demo", "fix it [[say:done]]"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        let id = launched.stdout.trim().to_owned();
        until_stopped(&home, &id);
        assert_eq!(prompt_of(&home, &id), "fix it [[say:done]]");
        // `-` is stdin, as with -p.
        let given = home.write("prompt", "from stdin [[say:done]]");
        let mut command = home.command(&["launch", "demo", "-"]);
        command.stdin(std::fs::File::open(given).expect("open"));
        let output = command.output().expect("runs");
        let id = String::from_utf8(output.stdout).expect("text").trim().to_owned();
        until_stopped(&home, &id);
        assert_eq!(prompt_of(&home, &id), "from stdin [[say:done]]");
    });
}

#[test]
fn a_prompt_that_is_missing_or_given_twice_is_one_sentence_with_the_right_hint() {
    sandboxed(|| {
        let home = home();
        for (args, message, hint) in [
            (vec!["launch", "demo"], "no prompt is given", "`agentctl launch demo \"PROMPT\"`"),
            (vec!["launch"], "no prompt is given", "`agentctl launch ADAPTER \"PROMPT\"`"),
            (
                vec!["launch", "fix the test"],
                "`fix the test` is not an adapter, and no prompt is given",
                "`agentctl launch -p 'fix the test'`",
            ),
            (vec!["launch", "nosuch"], "`nosuch` is not an adapter", "adapters: claude-code"),
            (
                vec!["launch", "fix the test", "-p", "x"],
                "`fix the test` is not an adapter, and the prompt is given by an option",
                "give the prompt once",
            ),
            (vec!["resume"], "no message is given", "`agentctl resume -p \"MESSAGE\"`"),
            (vec!["send"], "no message is given", "`agentctl send -p \"MESSAGE\"`"),
            (vec!["send", "painter", " "], "the message is empty", "`agentctl send ID"),
            (vec!["launch", "dmeo", "x"], "no adapter named `dmeo`", "did you mean `demo`?"),
            (vec!["launch", "dmeo"], "`dmeo` is not an adapter", "did you mean `demo`?"),
            (
                vec!["resume", "painter"],
                "no message is given for the session `painter`",
                "`agentctl resume painter \"MESSAGE\"`",
            ),
            (
                vec!["resume", "use blue"],
                "no session is named, or no message is given: `use blue`",
                "`agentctl resume -p 'use blue'`",
            ),
        ] {
            let refused = home.run(&args);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{args:?}");
            let lines: Vec<&str> = refused.stderr.lines().collect();
            assert_eq!(lines.len(), 2, "{args:?}: {}", refused.stderr);
            assert!(lines[0].contains(message), "{args:?}: {lines:?}");
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{lines:?}");
        }
        for (args, both) in [
            (vec!["launch", "demo", "x", "-p", "y"], ["PROMPT", "--prompt"]),
            (vec!["launch", "demo", "x", "--prompt-file", "y"], ["PROMPT", "--prompt-file"]),
            (vec!["resume", "id", "x", "-p", "y"], ["MESSAGE", "--prompt"]),
        ] {
            let refused = home.run(&args);
            assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.stderr);
            let first = refused.stderr.lines().next().unwrap_or_default();
            assert!(both.iter().all(|name| first.contains(name)), "{args:?}: {first}");
        }
        // With a configured agent, a lone word may be the prompt.
        home.write(".config/agentctl/config.toml", "adapter = \"demo\"\n");
        let refused = home.run(&["launch", "refactor"]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("`agentctl launch -p \"refactor\"`"), "{refused:?}");
        assert!(runs(&home).is_empty(), "nothing was started");
    });
}

#[test]
fn resume_without_an_id_means_the_only_session_here() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        let resume = |args: &[&str]| {
            let output = home.command(args).current_dir(&w).output().expect("runs");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).trim().to_owned(),
                stderr,
            )
        };
        let (code, _, stderr) = resume(&["resume", "-p", "x"]);
        assert_eq!(code, Some(4), "{stderr}");
        let launched = home.run(&["launch", "demo", "one [[say:1]]", "--cwd", &w]);
        let id = launched.stdout.trim().to_owned();
        until_stopped(&home, &id);
        let (code, resumed, stderr) = resume(&["resume", "-p", "two [[say:2]]"]);
        assert_eq!((code, &resumed), (Some(0), &id), "{stderr}");
        until_stopped(&home, &id);
        home.write("w/message", "three [[say:3]]");
        let (code, resumed, stderr) = resume(&["resume", "--prompt-file", "message"]);
        assert_eq!((code, &resumed), (Some(0), &id), "{stderr}");
        until_stopped(&home, &id);
        let by_id = home.run(&["resume", &id, "-p", "--four [[say:4]]"]);
        assert_eq!((by_id.code, by_id.stdout.trim()), (Some(0), id.as_str()), "{by_id:?}");
        until_stopped(&home, &id);
        let said = home.run(&["logs", &id, "--role", "user", "-n", "all"]).stdout;
        for message in ["one", "two", "three", "--four"] {
            assert!(said.contains(message), "{message}: {said}");
        }
        // Two sessions here are ambiguous.
        let second = home.run(&["launch", "demo", "other [[say:x]]", "--cwd", &w]);
        until_stopped(&home, second.stdout.trim());
        let (code, _, stderr) = resume(&["resume", "-p", "x"]);
        assert_eq!(code, Some(4), "{stderr}");
    });
}

#[test]
fn an_agent_may_be_named_by_its_alias() {
    sandboxed(|| {
        let home = crate::cli::planted();
        let id = "45454545-4444-4444-8444-444444444444";
        assert_eq!(home.run(&["status", "claude:4545", "--json"]).json()["id"], id);
        let listed = |name: &str| {
            let args = ["list", "--since", "all", "--json", "--adapter", name];
            home.run(&args).sessions().len()
        };
        assert_eq!((listed("claude"), listed("claude-code")), (32, 32));
        let refused = home.run(&["launch", "claude", "hi"]);
        assert!(refused.stderr.contains("`claude` is not installed"), "{}", refused.stderr);
        home.write(
            ".config/agentctl/config.toml",
            "adapter = \"claude\"\n[[webhooks]]\nurl = \"https://example.org/x\"\nadapters = [\"claude\"]\n",
        );
        assert_eq!(home.run(&["config", "check"]).code, Some(0));
        let refused = home.run(&["launch", "-p", "hi"]);
        assert!(refused.stderr.contains("`claude` is not installed"), "{}", refused.stderr);
        home.write(".config/agentctl/config.toml", "[roots]\nclaude = [\"/srv/x\"]\n");
        let check = home.run(&["config", "check"]);
        assert!(check.stderr.contains("did you mean `claude-code`?"), "{}", check.stderr);
        home.write(".config/agentctl/config.toml", "");
        let unknown = home.run(&["list", "--adapter", "claud"]);
        assert_eq!(unknown.code, Some(2));
    });
}
