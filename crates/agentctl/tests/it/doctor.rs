//! `doctor` checks everything that can be configured, and each failed check has a fix.

use serde_json::Value;
use testkit::{TestHome, sandboxed};

use crate::launched::script;
use crate::{configure, fixtures_dir, home};

/// Returns the state, the finding and the hint of a check.
fn check(home: &TestHome, area: &str, name: &str) -> (String, String, String) {
    let document = home.run(&["doctor", "--json"]).json();
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["area"] == area && check["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no check {area} {name} in {document:#}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("detail"), text("hint"))
}

#[test]
fn broken_settings_are_findings_of_doctor() {
    sandboxed(|| {
        let home = home();
        configure(&home, &[], "modle = \"opus\"");
        let (state, detail, hint) = check(&home, "config", "file");
        assert_eq!(state, "failed");
        assert!(detail.contains("config.toml line 1: modle: unknown key"), "{detail}");
        assert_eq!(hint, "did you mean `model`?");
        let doctor = home.run(&["doctor"]);
        assert_eq!(doctor.code, Some(0), "{}", doctor.stderr);
        configure(&home, &[], "[root]");
        assert_eq!(home.run(&["doctor"]).code, Some(3));
    });
}

#[test]
fn homes_secrets_and_programs_that_are_not_there_are_reported_with_a_fix() {
    sandboxed(|| {
        let mut home = home();
        configure(
            &home,
            &[],
            "[roots]\nclaude-code = [\"/no/such\", \"~/there\"]\ncodex = [\"~/file\"]\n\
             [[webhooks]]\nname = \"ops\"\nurl = \"https://hook.example/\"\nsecret_env = \"NO_SUCH\"\n\
             [[webhooks]]\nname = \"log\"\nurl = \"https://log.example/\"\nsecret_file = \"~/none\"\n\
             [[openclaw.gateways]]\nname = \"work\"\nurl = \"wss://gate.example\"\ntoken_env = \"NO_TOKEN\"\n\
             [metrics]\ntoken_env = \"NO_TOKEN\"\n\
             [notify]\n",
        );
        std::fs::create_dir(home.at("there")).expect("made");
        home.write("file", "");
        let roots = check(&home, "config", "roots.claude-code");
        assert_eq!((roots.0.as_str(), roots.1.as_str()), ("failed", "/no/such does not exist"));
        assert!(roots.2.contains("[roots]"), "{roots:?}");
        assert!(check(&home, "config", "roots.codex").1.ends_with("is not a directory"));
        let ops = check(&home, "config", "webhook ops");
        assert_eq!(ops.0, "failed");
        assert!(ops.1.contains("environment variable NO_SUCH is not set"), "{ops:?}");
        let log = check(&home, "config", "webhook log");
        assert!(log.0 == "failed" && log.1.contains("none cannot be read"), "{log:?}");
        for name in ["gateway work", "metrics"] {
            let token = check(&home, "config", name);
            assert_eq!(
                (token.0.as_str(), token.1.as_str()),
                ("failed", "environment variable NO_TOKEN is not set")
            );
        }
        home.set("PATH", home.path().join("bin").to_string_lossy());
        let notify = check(&home, "config", "notify");
        assert!(notify.0 == "failed" && notify.1.contains("is not installed"), "{notify:?}");
        // Something is configured that only a daemon serves.
        let daemon = check(&home, "daemon", "daemon");
        assert!(daemon.0 == "degraded" && daemon.2.contains("daemon start"), "{daemon:?}");

        let program = if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };
        script(&home, program, "");
        home.set("NO_SUCH", "0123456789abcdef");
        assert_eq!(check(&home, "config", "notify").0, "ok");
        assert_eq!(check(&home, "config", "webhook ops").0, "ok");
        let checked = home.run(&["config", "check"]);
        assert!(checked.stderr.contains("/no/such does not exist"), "{}", checked.stderr);
    });
}

#[test]
fn the_terminal_and_tmux_of_notifications_are_checked_and_config_check_warns_too() {
    sandboxed(|| {
        let mut home = home();
        home.set("PATH", home.path().join("bin").to_string_lossy());
        let terminal = crate::terminal::Terminal::open(80);
        let of = |tty: &str| {
            let config = format!("[notify]\ndesktop = false\ntmux = true\ntty = \"{tty}\"\n");
            let hook = "[[webhooks]]\nname = \"ops\"\nurl = \"https://a.example/\"\nsecret_env = \"NO_SUCH\"\n";
            configure(&home, &[], &format!("{config}{hook}"));
            let checked = home.run(&["config", "check"]);
            assert_eq!(checked.code, Some(0), "{}", checked.stderr);
            (check(&home, "config", "notify.tty"), checked.stderr)
        };
        let file = home.write("file", "").to_string_lossy().into_owned();
        for (tty, why) in [("/dev/pts/no-such", "does not exist"), (&file, "is not a terminal")] {
            let ((state, detail, hint), warned) = of(tty);
            assert_eq!(state, "failed", "{detail}");
            assert!(detail.contains(why) && hint.contains("`tty`"), "{detail} {hint}");
            assert!(warned.contains("notify.tty") && warned.contains(why), "{warned}");
            assert!(warned.contains("webhook ops") && warned.contains("NO_SUCH"), "{warned}");
            assert!(warned.contains("notify.tmux"), "{warned}");
        }
        let name = terminal.name();
        let ((state, detail, _), warned) = of(name);
        assert_eq!((state.as_str(), detail.as_str()), ("ok", name));
        assert!(!warned.contains("notify.tty"), "{warned}");
        assert_eq!(check(&home, "config", "notify.tmux").0, "failed");
        script(&home, "tmux", "true");
        assert_eq!(check(&home, "config", "notify.tmux").0, "ok");
    });
}

#[test]
fn notifications_without_a_program_need_none() {
    sandboxed(|| {
        let mut home = home();
        home.set("PATH", home.path().join("bin").to_string_lossy());
        let config = "[notify]\ndesktop = false\n";
        for (channel, daemon) in [("terminal = true", "absent"), ("tmux = true", "degraded")] {
            configure(&home, &[], &format!("{config}{channel}\n"));
            let document = home.run(&["doctor", "--json"]).json();
            let checks = document["checks"].as_array().expect("checks");
            assert!(!checks.iter().any(|check| check["name"] == "notify"), "{document:#}");
            assert_eq!(check(&home, "config", "file").0, "ok");
            assert_eq!(check(&home, "daemon", "daemon").0, daemon, "{channel}");
        }
    });
}

#[test]
fn the_daemon_completions_and_limits_are_checked() {
    sandboxed(|| {
        let mut home = home();
        assert_eq!(check(&home, "daemon", "daemon").0, "absent");
        assert_eq!(home.run(&["daemon", "start"]).code, Some(0));
        let daemon = check(&home, "daemon", "daemon");
        let running = format!("running, version {}", env!("CARGO_PKG_VERSION"));
        assert_eq!((daemon.0.as_str(), daemon.1), ("ok", running));
        assert_eq!(home.run(&["daemon", "stop"]).code, Some(0));

        home.set("SHELL", "/usr/bin/bash");
        let absent = check(&home, "shell", "completions for bash");
        assert_eq!(absent.0, "absent");
        assert!(absent.2.contains("echo 'source <(agentctl completions bash)' >> ~/.bashrc"));
        home.write(".bashrc", "alias a=agentctl\n");
        assert_eq!(check(&home, "shell", "completions for bash").0, "absent");
        home.write(".bashrc", "source <(agentctl completions bash)\n");
        assert_eq!(check(&home, "shell", "completions for bash").0, "ok");
        home.set("SHELL", "/bin/zsh");
        home.write(".zfunc/_agentctl", "");
        assert_eq!(check(&home, "shell", "completions for zsh").0, "absent", "not in fpath");
        home.write(".zshrc", "fpath=(~/.zfunc $fpath)\n");
        assert_eq!(check(&home, "shell", "completions for zsh").0, "ok");
        home.set("SHELL", "/usr/bin/fish");
        assert_eq!(check(&home, "shell", "completions for fish").0, "absent");
        home.write(".config/fish/completions/agentctl.fish", "");
        assert_eq!(check(&home, "shell", "completions for fish").0, "ok");

        let limits: &[&str] = if cfg!(target_os = "linux") {
            &["open files", "file watches", "file watchers"]
        } else {
            &["open files"]
        };
        for name in limits {
            assert!(check(&home, "kernel", name).1.starts_with("at most "), "{name}");
        }
    });
}

#[test]
fn one_session_is_counted_in_the_singular() {
    sandboxed(|| {
        let home = home();
        home.plant(&fixtures_dir().join("demo/0.1.0"), ".");
        let homes = |document: &Value| -> Vec<String> {
            let checks = document["checks"].as_array().cloned().expect("checks");
            let demo = checks.iter().filter(|check| check["area"] == "demo");
            demo.filter_map(|check| check["detail"].as_str().map(str::to_owned)).collect()
        };
        let many = homes(&home.run(&["doctor", "--json"]).json());
        assert!(many.iter().any(|detail| detail.ends_with("sessions in all")), "{many:?}");
        let sessions = home.at(".local/share/agentctl-demo/sessions");
        let files = std::fs::read_dir(&sessions).expect("listed").flatten();
        for file in files.skip(1) {
            std::fs::remove_file(file.path()).expect("removed");
        }
        let one = homes(&home.run(&["doctor", "--json"]).json());
        assert!(one.iter().any(|detail| detail == "0 live, 1 session in all"), "{one:?}");
    });
}

#[test]
fn the_limits_of_agents_and_the_screen_of_top_are_shown() {
    sandboxed(|| {
        let home = home();
        let (state, detail, _) = check(&home, "mcp", "agents");
        assert_eq!(state, "ok");
        assert_eq!(detail, "agents launch agents to depth 2, 8 at a time, and may not answer");
        configure(&home, &[], "[limits]\ndepth = 3\n[answers]\nagents = \"others\"\n");
        let detail = check(&home, "mcp", "agents").1;
        assert_eq!(
            detail,
            "agents launch agents to depth 3, 8 at a time, and may answer other agents"
        );
        let (state, detail, hint) = check(&home, "top", "terminal");
        assert_eq!((state.as_str(), detail.contains("no terminal")), ("absent", true), "{detail}");
        assert!(hint.contains("list --watch"), "{hint}");
    });
}
