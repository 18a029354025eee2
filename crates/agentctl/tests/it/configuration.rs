//! The configuration file: a broken setting is reported with file, line and key, and stops only the commands
//! that would act on it.

use testkit::{Output, TestHome, eventually, sandboxed};

use crate::launched::{folder, launch, shims};
use crate::{configure, home};

const CONFIG: &str = ".config/agentctl/config.toml";

/// The page about the configuration.
fn page() -> String {
    let path = crate::source::workspace().join("docs/CONFIGURATION.md");
    std::fs::read_to_string(path).expect("readable")
}

#[test]
fn the_page_lists_every_key_with_its_type_and_default() {
    let page = page();
    let start = page.find("## Keys").expect("the section");
    let keys = &page[start..start + page[start..].find("## Environment").expect("the next one")];
    let mut listed: Vec<[String; 3]> = Vec::new();
    for line in keys.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        listed.push([cells[1].trim_matches('`'), cells[2], cells[3]].map(str::to_owned));
    }
    let mut known: Vec<[String; 3]> = Vec::new();
    for key in agentctl::config::keys() {
        let name = match key.name.strip_prefix("roots.") {
            Some(_) => "roots.<agent>".to_owned(),
            None => key.name,
        };
        let default = match key.default.as_str() {
            "" => "–",
            // The page names the program of Linux.
            "osascript" => "notify-send",
            default => default,
        };
        known.push([name, key.kind.word().to_owned(), default.to_owned()]);
    }
    listed.sort();
    known.sort();
    known.dedup();
    assert_eq!(listed, known, "docs/CONFIGURATION.md and config/keys.rs differ");
}

#[test]
fn the_pages_list_every_variable() {
    let hooks = crate::source::workspace().join("docs/HOOKS.md");
    let page = page() + &std::fs::read_to_string(hooks).expect("readable");
    let marks = crate::source::workspace().join("crates/agentctl-core/src/marks.rs");
    let marks = std::fs::read_to_string(marks).expect("readable");
    let own: Vec<&str> = marks.split('"').filter(|text| text.starts_with("AGENTCTL_")).collect();
    assert!(own.len() > 20, "{own:?}");
    let adapters = agentctl_core::adapters::ALL.iter().map(|adapter| adapter.variables());
    let agents = adapters.flat_map(|variables| variables.answers.iter().chain(variables.launch));
    let bases = agentctl_core::host::BASE_DIRECTORIES;
    for name in own.into_iter().chain(agents.copied()).chain(bases) {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/CONFIGURATION.md and docs/HOOKS.md lack {name}"
        );
    }
    for word in page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("AGENTCTL_")) {
        assert!(marks.contains(&format!("\"{word}\"")), "{word} is not a variable of agentctl");
    }
}

/// Runs a command with this configuration file.
fn with(home: &TestHome, config: &str, args: &[&str]) -> Output {
    home.write(CONFIG, config);
    home.run(args)
}

fn assert_said(output: &Output, words: &[&str]) {
    for word in words {
        assert!(output.stderr.contains(word), "{word} is not in: {}", output.stderr);
    }
}

#[test]
fn a_typo_stops_no_command_that_does_not_depend_on_it() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[sleep:600000]]", &[]);
        let config = "[metrics]\nlisten = \"127.0.0.1:0\"\nprot = 9200\n";
        for args in [
            &["list"][..],
            &["status", &id],
            &["why", &id],
            &["logs", &id],
            &["locks"],
            &["runs"],
            &["fuses"],
            &["doctor"],
            &["lock", "w"],
            &["unlock", "w"],
            &["adapters"],
            &["name", &id, "night"],
            &["group", &id, "shift"],
            &["daemon", "stop"],
            &["stop", &id],
        ] {
            let output = with(&home, config, args);
            assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
            if args != ["doctor"] {
                assert_said(&output, &["config.toml line 3: metrics.prot: unknown key"]);
            }
        }
        // The run is at work until its end is recorded, a moment after the stop.
        eventually("the run is over", || shims().is_empty().then_some(()));
        assert_eq!(home.run(&["rm", &id]).code, Some(0));
        assert_eq!(home.run(&["prune", "-y"]).code, Some(0));
        // A launch has nothing to do with metrics.
        let launched = home.run(&["launch", "demo", "-p", "x [[say:ok]]", "--wait"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
    });
}

#[test]
fn an_answer_that_may_lack_a_source_has_exit_code_3() {
    sandboxed(|| {
        let home = home();
        for config in [
            "[roots]\nclaude-code = \"/srv/agent\"\n",
            "[roots]\nclaude-cod = [\"/srv/agent\"]\n",
            "[deadline]\nlive = \"soon\"\n",
            "[[openclaw.gateways]]\nname = \"x\"\n",
            "[root]\n",
            "[homes]\n",
            "[[[\n",
        ] {
            let listed = with(&home, config, &["list"]);
            assert_eq!(listed.code, Some(3), "{config}{}", listed.stderr);
            assert_said(&listed, &["config.toml line "]);
            assert_eq!(listed.stderr.matches("config.toml").count(), 1, "{}", listed.stderr);
            let faults = home.run(&["list", "--json"]).json()["faults"].clone();
            assert_eq!(faults[0]["adapter"], "agentctl", "{config}{faults}");
            let said = faults[0]["message"].as_str().expect("a message");
            assert!(said.contains("config.toml line "), "{said}");
            for args in [&["status", "nosuchsession"][..], &["name", "nosuchsession", "night"]] {
                let absent = home.run(args);
                assert_eq!(absent.code, Some(3), "{args:?} {config}{}", absent.stderr);
                assert_said(&absent, &["no session matches", "not every source is known"]);
            }
        }
        let listed = with(&home, "modle = \"opus\"\n", &["list", "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        assert_eq!(listed.json()["faults"], serde_json::json!([]));
    });
}

#[test]
fn the_session_of_a_fuse_has_ended_only_if_every_source_was_asked() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[hang]]", &[]);
        assert_eq!(home.run(&["fuse", "set", "--session", &id, "--ttl", "2h"]).code, Some(0));
        let states = |config: &str| with(&home, config, &["fuses", "--format", "{session_state}"]);
        assert_eq!((states("").code, states("").stdout.as_str()), (Some(0), "running\n"));
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!((states("").code, states("").stdout.as_str()), (Some(0), "ended\n"));
        let broken = "[roots]\ndemo = \"/srv/agent\"\n";
        assert_eq!((states(broken).code, states(broken).stdout.as_str()), (Some(3), "\n"));
        for args in
            [&["fuses"][..], &["fuses", "-o", "wide"], &["fuses", "--sort", "session_state"]]
        {
            let shown = with(&home, broken, args);
            assert_eq!(shown.code, Some(3), "{args:?}: {}", shown.stderr);
            assert!(!shown.stdout.contains("ended"), "{}", shown.stdout);
        }
        // Forms without the state of the session need no source.
        for args in [&["fuses", "-q"][..], &["fuses", "--json"], &["fuses", "--format", "{id}"]] {
            assert_eq!(with(&home, broken, args).code, Some(0), "{args:?}");
        }
    });
}

#[test]
fn a_command_that_would_act_on_a_broken_setting_refuses() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        for (config, key) in [
            ("permissions = \"edit\"\n", "line 1: permissions: `edit` is not one of its values"),
            ("modle = \"opus\"\n", "line 1: modle: unknown key"),
            (
                "[hooks]\non_complete = \"true\"\n",
                "line 2: hooks.on_complete: expected a list of texts",
            ),
            ("[deadline]\nlaunch = 5\n", "line 2: deadline.launch: expected a span"),
            ("ask = \"0s\"\n", "line 1: ask: the time must be longer than zero"),
            ("[runs]\nkeep = \"for ever\"\n", "line 2: runs.keep: `for ever` is not a span"),
            ("[[[\n", "line 1: it is not valid TOML"),
        ] {
            let refused = with(&home, config, &["launch", "demo", "-p", "x", "--cwd", "w"]);
            assert_eq!(refused.code, Some(1), "{config}{}", refused.stderr);
            assert_said(&refused, &["error: ", "config.toml", key]);
        }
        for (config, key) in [
            ("[[webhooks]]\nname = \"x\"\n", "[[webhooks]] 1: url: it is missing"),
            ("[notify]\non = [\"lunch\"]\n", "line 2: notify.on: `lunch` is no type of event"),
            ("[metrics]\ntoken = 5\n", "line 2: metrics.token: expected a text in quotes"),
        ] {
            for args in [&["daemon", "start"][..], &["daemon", "restart"]] {
                let refused = with(&home, config, args);
                assert_eq!(refused.code, Some(1), "{args:?} {config}{}", refused.stderr);
                assert_said(&refused, &["error: ", "config.toml", key]);
                assert_eq!(refused.stderr.matches(key).count(), 1, "{}", refused.stderr);
            }
        }
        let webhook =
            ["fuse", "set", "w", "--ttl", "1h", "--on-expire", "webhook:https://a.example/"];
        let refused = with(&home, "[[webhooks]]\nname = \"x\"\n", &webhook);
        assert_fails_at(&refused, "[[webhooks]] 1: url: it is missing");
        let refused = with(&home, "[notify]\non = [\"lunch\"]\n", &["notify", "test"]);
        assert_fails_at(&refused, "line 2: notify.on: `lunch` is no type of event");
    });
}

fn assert_fails_at(refused: &Output, key: &str) {
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_said(refused, &["error: ", key]);
}

#[test]
fn a_broken_table_of_the_daemon_costs_only_itself() {
    sandboxed(|| {
        let home = home();
        folder(&home, "w");
        let config = "[metrics]\nlisen = \"127.0.0.1:0\"\n[notify]\ncommand = [\"/bin/true\"]\n";
        let tested = with(&home, config, &["notify", "test"]);
        assert_eq!(tested.code, Some(0), "{}", tested.stderr);
        assert_said(&tested, &["line 2: metrics.lisen: unknown key"]);

        let set = ["fuse", "set", "w", "--ttl", "1h"];
        let started = home.run(&set);
        assert_eq!(started.code, Some(0), "{}", started.stderr);
        assert_said(&started, &["started the daemon"]);
        let status = home.run(&["daemon", "status", "--json"]).json();
        assert_eq!(status["running"], true, "{status}");
        assert!(status["metrics"].is_null() && !status["notify"].is_null(), "{status}");
        let fault = status["faults"][0]["message"].as_str().expect("a fault");
        assert!(fault.contains("line 2: metrics.lisen"), "{fault}");
        assert!(fault.contains("left out by the daemon"), "{fault}");
        let logs = home.run(&["daemon", "logs"]).stdout;
        assert!(logs.contains("metrics.lisen"), "{logs}");
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));

        // With a file that cannot be read at all there is no daemon, and the fuse would not fire.
        for args in [&set[..], &["fuse", "set", "w", "--ttl", "2h", "--json"]] {
            let set = with(&home, "[[[\n", args);
            assert_eq!(set.code, Some(3), "{}", set.stderr);
            assert_said(&set, &["fuses do not fire until a daemon runs"]);
        }
    });
}

#[test]
fn events_go_on_without_a_daemon_that_refuses_the_configuration() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "[roots]\ncodex = 5\n");
        let mut events = home
            .command(&["events"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines =
            std::io::BufRead::lines(std::io::BufReader::new(events.stderr.take().expect("piped")));
        let finding = lines.next().expect("a line").expect("readable");
        assert!(finding.contains("line 2: roots.codex: expected a list of paths"), "{finding}");
        let then = lines.next().expect("a line").expect("readable");
        assert!(then.contains("this command watches by itself"), "{then}");
        events.kill().expect("killed");
        events.wait().expect("reaped");
    });
}

#[test]
fn no_run_is_removed_while_it_is_unknown_how_long_runs_are_kept() {
    sandboxed(|| {
        let home = home();
        let launched = home.run(&["launch", "demo", "-p", "x [[say:ok]]", "--wait"]);
        assert_eq!(launched.code, Some(0), "{}", launched.stderr);
        // The run is at work until its end is recorded, a moment after the wait.
        eventually("the run is over", || shims().is_empty().then_some(()));
        let kept = with(&home, "[runs]\nkep = \"1ms\"\n", &["runs", "--json"]);
        assert_eq!(kept.json()["runs"].as_array().map(Vec::len), Some(1), "{kept:?}");
        let kept = with(&home, "[runs]\nkeep = \"0s\"\n", &["runs", "--json"]);
        assert_eq!(kept.json()["runs"].as_array().map(Vec::len), Some(0), "{kept:?}");
    });
}

#[test]
fn config_check_names_file_line_key_and_the_key_that_was_meant() {
    sandboxed(|| {
        let mut home = home();
        let check = ["config", "check"];
        for (config, words) in [
            ("\nmodle = \"opus\"\n", &["line 2: modle: unknown key", "did you mean `model`?"][..]),
            ("model = 5\n", &["line 1: model: expected a text in quotes, found a number"]),
            ("[roots]\ncodx = []\n", &["line 2: roots.codx: there is no such", "mean `codex`?"]),
            ("adapter = \"emacs\"\n", &["line 1: adapter: `emacs`: there is no such adapter"]),
            ("[webhooks]\nurl = \"x\"\n", &["line 1: webhooks: write it as [[webhooks]]"]),
            ("roots = 1\n", &["line 1: roots: it is a table: write [roots]"]),
            // Every finding is reported, not only the first.
            ("modle = 1\n[runs]\nkep = 1\n", &["line 1: modle", "line 3: runs.kep"]),
        ] {
            let output = with(&home, config, &check);
            assert_eq!(output.code, Some(1), "{config}{}", output.stderr);
            assert_said(&output, words);
            assert!(output.stderr.contains("config.toml"), "{}", output.stderr);
        }
        let good = with(&home, "model = \"opus\"\n", &check);
        assert_eq!((good.code, good.stderr.as_str()), (Some(0), ""), "{good:?}");
        std::fs::remove_file(home.at(CONFIG)).expect("removed");
        let none = home.run(&check);
        assert_eq!(none.code, Some(0), "{none:?}");

        std::fs::create_dir(home.at(CONFIG)).expect("made");
        let unread = home.run(&check);
        assert_eq!(unread.code, Some(1), "{unread:?}");
        assert!(!unread.stderr.contains("AGENTCTL_CONFIG"), "it is not set: {}", unread.stderr);
        home.set("AGENTCTL_CONFIG", home.path().join("none.toml").to_string_lossy());
        let unread = home.run(&check);
        assert_eq!(unread.code, Some(1), "{unread:?}");
        assert_said(&unread, &["none.toml", "AGENTCTL_CONFIG names this file"]);
    });
}

#[test]
fn config_show_tells_where_each_setting_comes_from_and_hides_secrets() {
    sandboxed(|| {
        let mut home = home();
        home.set("OPENCLAW_GATEWAY_TOKEN", "TOPSECRET");
        home.set("CODEX_HOME", home.path().join("other").to_string_lossy());
        let config = "model = \"opus\"\n[deadline]\nlive = \"3s\"\n\
                      [[webhooks]]\nurl = \"https://hook.example/TOPSECRET\"\nsecret = \"TOPSECRET\"\n\
                      [[openclaw.gateways]]\nurl = \"wss://gate.example/TOPSECRET\"\ntoken = \"TOPSECRET\"\n\
                      [metrics]\ntoken = \"0123456789abcdef\"\n";
        let shown = with(&home, config, &["config", "show"]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        assert!(!shown.stdout.contains("TOPSECRET"), "{}", shown.stdout);
        assert!(!shown.stdout.contains("0123456789"), "{}", shown.stdout);
        let as_json = home.run(&["config", "show", "--json"]);
        assert!(!as_json.stdout.contains("TOPSECRET"), "{}", as_json.stdout);
        let settings = as_json.json()["settings"].as_array().cloned().expect("settings");
        let setting = |key: &str| {
            let found = settings.iter().find(|setting| setting["key"] == key);
            let found = found.unwrap_or_else(|| panic!("{key} is not in {settings:?}"));
            (
                found["value"].as_str().expect("text"),
                found["source"].as_str().expect("text"),
                found["line"].as_u64(),
            )
        };
        assert_eq!(setting("model"), ("opus", "file", Some(1)));
        assert_eq!(setting("deadline.live"), ("3s", "file", Some(3)));
        assert_eq!(setting("deadline.all"), ("10s", "default", None));
        assert_eq!(setting("runs.keep"), ("7d", "default", None));
        assert_eq!(setting("[[webhooks]] 1: url"), ("https://hook.example", "file", Some(5)));
        assert_eq!(setting("[[webhooks]] 1: secret"), ("(hidden)", "file", Some(6)));
        assert_eq!(setting("[[openclaw.gateways]] 1: url").0, "wss://gate.example");
        assert_eq!(setting("metrics.listen"), ("127.0.0.1:9200", "default", None));
        assert_eq!(setting("CODEX_HOME").1, "environment");
        let notify = |more: &str| {
            let config = format!("[notify]\n{more}");
            with(&home, &config, &["config", "show"]).stdout.contains("notify.command")
        };
        assert!(notify("") && notify("command = [\"/bin/true\"]\ndesktop = false\n"));
        assert!(!notify("desktop = false\n"), "the desktop's program is not run");
        let path = home.run(&["config", "path"]);
        assert_eq!(path.stdout.trim_end(), home.at(CONFIG).to_string_lossy());
    });
}

#[test]
fn a_webhook_without_its_secret_is_reported_when_the_daemon_starts() {
    sandboxed(|| {
        let home = home();
        let config = "[[webhooks]]\nurl = \"https://hook.example/\"\nname = \"ops\"\nsecret_env = \"NO_SUCH_SECRET\"\n";
        configure(&home, &[], config);
        let started = home.run(&["daemon", "start"]);
        assert_eq!(started.code, Some(0), "{}", started.stderr);
        assert_said(&started, &["webhook ops: environment variable NO_SUCH_SECRET is not set"]);
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));
    });
}
