//! Help pages, unknown words, and the version.

use agentctl::failure::EXIT_CODES;
use testkit::{TestHome, sandboxed};

use crate::home;
use crate::source::{Kind, production};

/// The commands that have subcommands, with these.
const NESTED: [(&str, &[&str]); 5] = [
    ("fuse", &["set", "extend", "cancel"]),
    ("daemon", &["run", "start", "stop", "status", "restart", "logs", "install", "uninstall"]),
    ("web", &["install", "uninstall"]),
    ("notify", &["test"]),
    ("config", &["check", "path", "show"]),
];

/// Returns the names of the commands that the help page of the program lists.
fn commands(home: &TestHome) -> Vec<String> {
    let page = home.run(&["--help"]).stdout;
    let lines = page.lines().skip_while(|line| *line != "Look:");
    let lines = lines.take_while(|line| *line != "Options:");
    let rows = lines.filter_map(|line| line.strip_prefix("  "));
    rows.filter_map(|row| row.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_help_page_has_the_name_that_was_typed() {
    sandboxed(|| {
        let home = home();
        for (args, name) in [
            (["send", "--help"], "send"),
            (["resume", "--help"], "resume"),
            (["help", "send"], "send"),
            (["ps", "-h"], "ps"),
        ] {
            let page = home.run(&args).stdout;
            let usage = format!("Usage: agentctl {name} [OPTIONS]");
            assert!(page.contains(&usage), "{args:?}: {page}");
            assert!(page.contains("Examples:"), "{args:?}: {page}");
        }
    });
}

#[test]
fn every_help_page_ends_with_examples_and_fits_80_columns() {
    sandboxed(|| {
        let home = home();
        let commands = commands(&home);
        assert!(commands.len() > 25, "{commands:?}");
        let mut pages: Vec<Vec<&str>> = commands.iter().map(|name| vec![name.as_str()]).collect();
        for (name, subs) in NESTED {
            pages.extend(subs.iter().map(|sub| vec![name, *sub]));
        }
        pages.push(Vec::new());
        for page in pages {
            for flag in ["-h", "--help"] {
                let args = [page.as_slice(), &[flag]].concat();
                let output = home.command(&args).env("COLUMNS", "80").output().expect("runs");
                let text = String::from_utf8(output.stdout).expect("text");
                assert_eq!(output.status.code(), Some(0), "{page:?}");
                let end: Vec<&str> = text.trim_end().lines().rev().collect();
                let examples = end.iter().position(|line| *line == "Examples:");
                let examples = examples.unwrap_or_else(|| panic!("{page:?}: {text}"));
                assert!((2..=5).contains(&examples), "{page:?}: {text}");
                let is_example = |line: &&str| line.starts_with("  ") && line.contains("agentctl ");
                assert!(end[..examples].iter().all(is_example), "{page:?}: {text}");
                for line in text.lines() {
                    assert!(line.chars().count() <= 80, "{page:?}: {line}");
                }
                let has_version = text.contains("-V, --version");
                assert_eq!(has_version, page.is_empty(), "{page:?}: {text}");
            }
        }
    });
}

#[test]
fn the_first_page_names_groups_aliases_configuration_variables_and_exit_codes() {
    sandboxed(|| {
        let page = home().run(&["--help"]).stdout;
        for words in [
            "\nLook:\n  list ",
            "[aliases: ps, ls]",
            "[alias: kill]",
            "~/.config/agentctl/config.toml",
            "agentctl config path",
            "\nExit status:\n",
            "  124  ",
            "@last",
            "adapter:id",
            "CLAUDE_CONFIG_DIR",
        ] {
            assert!(page.contains(words), "{words:?} is not in:\n{page}");
        }
        assert!(!page.contains("demo-agent"), "{page}");
        for name in variables() {
            assert!(page.contains(&name), "{name} is read and not in:\n{page}");
        }
    });
}

#[test]
fn every_document_has_the_same_exit_codes_and_meanings() {
    for name in ["CONTRIBUTING.md", "README.md", "docs/SCRIPTING.md"] {
        let path = crate::source::workspace().join(name);
        let document = std::fs::read_to_string(path).expect("read");
        let tables = document.split("| exit code | meaning |\n|---|---|\n").nth(1);
        let rows = tables.unwrap_or_else(|| panic!("{name} has no table of exit codes")).lines();
        let rows: Vec<String> =
            rows.take_while(|row| row.starts_with('|')).map(|row| row.replace('`', "")).collect();
        let row =
            |(code, meaning): &(u8, &str)| format!("| {code} | {} |", meaning.replace('`', ""));
        assert_eq!(rows, EXIT_CODES.iter().map(row).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn the_page_of_the_configuration_names_the_same_variables() {
    sandboxed(|| {
        let page = home().run(&["--help"]).stdout;
        let rows = page.split("\nEnvironment:\n").nth(1).unwrap_or_default();
        let rows = rows.lines().take_while(|line| !line.contains("Variables of the agents"));
        let path = crate::source::workspace().join("docs/CONFIGURATION.md");
        let document = std::fs::read_to_string(path).expect("read");
        let mut found = 0;
        for row in rows {
            let names = row.trim_start().split("  ").next().unwrap_or_default();
            for name in names.split(", ") {
                assert!(document.contains(&format!("`{name}`")), "docs: {name}");
                found += 1;
            }
        }
        assert!(found > 15, "only {found} variables were found");
    });
}

/// Returns the names of the environment variables that the sources read: the texts behind `var(` and `var_os(`.
fn variables() -> Vec<String> {
    let own = ["AGENTCTL_CONFIG", "AGENTCTL_NO_DAEMON"].map(str::to_owned);
    let mut names = own.to_vec();
    for folder in ["crates/agentctl/src", "crates/agentctl-core/src"] {
        for (file, tokens) in production(folder) {
            for three in tokens.windows(3) {
                let reads = matches!(three[0].word(), Some("var" | "var_os" | "set"));
                if let (true, true, Kind::Text(name)) = (reads, three[1].is('('), &three[2].kind)
                    && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                    && !file.starts_with("adapters/")
                    // systemd sets it for the daemon.
                    && name != "NOTIFY_SOCKET"
                {
                    names.push(name.clone());
                }
            }
        }
    }
    assert!(names.len() > 8, "{names:?}");
    names
}

#[test]
fn the_version_is_printed_by_a_command_too() {
    sandboxed(|| {
        let home = home();
        let version = home.run(&["version"]);
        assert_eq!((version.code, version.stderr.as_str()), (Some(0), ""));
        assert_eq!(version.stdout, home.run(&["--version"]).stdout);
        assert_eq!(version.stdout, home.run(&["-V"]).stdout);
    });
}

#[test]
fn an_unknown_command_is_answered_with_what_to_use() {
    sandboxed(|| {
        let home = home();
        for (args, message, hint) in [
            (&["tui"][..], "there is no command `tui`", "`agentctl top` "),
            (&["ui"], "there is no command `ui`", "`agentctl top` "),
            (&["cost"], "`cost` does not exist yet", "`agentctl status ID` "),
            (&["search", "x"], "`search` does not exist yet", "`agentctl logs ID -n all | grep"),
            (&["grep", "x"], "`grep` does not exist yet", "`agentctl logs ID -n all | grep"),
            (&["start"], "there is no command `start`", "`agentctl daemon start` "),
            (&["lsit"], "there is no command `lsit`", "did you mean `agentctl list`?"),
            (&["daemon", "strat"], "no command `strat`", "did you mean `agentctl daemon start`?"),
            (&["frobnicate"], "no command `frobnicate`", "`agentctl --help` lists the commands"),
            (&["fuse", "top"], "no command `top`", "`agentctl fuse --help` lists the commands"),
        ] {
            let output = home.run(args);
            assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{args:?}");
            let lines: Vec<&str> = output.stderr.lines().collect();
            assert_eq!(lines.len(), 2, "{args:?}: {}", output.stderr);
            assert!(lines[0].starts_with("error: ") && lines[0].contains(message), "{lines:?}");
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{lines:?}");
            let json = home.run(&[args, &["--json"]].concat());
            assert_eq!(json.code, Some(2));
            let error = &json.json()["error"];
            assert_eq!(error["code"], "usage");
            assert_eq!(format!("error: {}", error["message"].as_str().expect("text")), lines[0]);
            assert_eq!(format!("hint: {}", error["hint"].as_str().expect("text")), lines[1]);
        }
    });
}

#[test]
fn an_unknown_option_is_answered_with_a_near_one_or_with_the_help_page() {
    sandboxed(|| {
        let home = home();
        for (args, message, hint) in [
            (
                &["logs", "--sincee", "1h"][..],
                "unknown option `--sincee`",
                "did you mean `--since`?",
            ),
            (&["logs", "--tial", "2"], "unknown option `--tial`", "did you mean `--tail`?"),
            (&["status", "--watch"], "unknown option `--watch`", "`agentctl status --help` lists"),
            (&["fuse", "set", "--zzz"], "unknown option `--zzz`", "`agentctl fuse set --help` "),
            (&["list", "--tail", "2"], "unknown option `--tail`", "`agentctl list --help` lists"),
            (&["list", "-z"], "unknown option `-z`", "`agentctl list --help` lists"),
            (&["doctor", "now"], "unexpected argument `now`", "`agentctl doctor --help` shows"),
            (&["launch", "demo", "fix", "it"], "unexpected argument `it`", "in quotes"),
        ] {
            let output = home.run(args);
            assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{args:?}");
            let lines: Vec<&str> = output.stderr.lines().collect();
            assert_eq!(lines.len(), 2, "{args:?}: {}", output.stderr);
            assert!(lines[0].contains(message), "{args:?}: {lines:?}");
            assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{lines:?}");
            assert!(!output.stderr.contains("-- --"), "{}", output.stderr);
        }
        // A missing value names the page of the command that misses it.
        let json = home.run(&["stop", "--json", "--group"]).json();
        assert_eq!(json["error"]["hint"], "see `agentctl stop --help`");
    });
}
