//! Every name that is shown can be typed: short ids, directories, names, and no id at all.

use std::collections::BTreeSet;

use serde_json::json;

use testkit::{Dice, TestHome, sandboxed};

use crate::launched::{folder, launch, runs, script, status, until_asked, until_stopped};
use crate::{codex, home};

const RECENT: &str = "2026-11-15T10:00:00.000Z";
const OLD: &str = "2025-01-01T10:00:00.000Z";

/// Writes an ended session of Claude Code.
fn claude(home: &TestHome, id: &str, cwd: &str, at: &str) {
    let user = json!({"type": "user", "message": {"role": "user", "content": "x"}, "uuid": "u",
        "timestamp": at, "cwd": cwd, "sessionId": id});
    let slug: String =
        cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    home.write(&format!(".claude/projects/{slug}/{id}.jsonl"), format!("{user}\n"));
}

/// Returns the texts of a column of a table that was piped.
fn column(table: &str, name: &str) -> Vec<String> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let begin = header.find(name).unwrap_or_else(|| panic!("{name} in {table}"));
    let cell = |line: &str| line[begin..].split("  ").next().unwrap_or_default().trim().to_owned();
    lines.map(cell).collect()
}

/// Checks that every id of a table means its own row.
fn each_is_accepted(home: &TestHome, args: &[&str]) {
    let shown = column(&home.run(args).stdout, "ID");
    let rows = home.run(&[args, &["--json"]].concat()).sessions();
    assert_eq!(shown.len(), rows.len());
    for (text, row) in shown.iter().zip(&rows) {
        let text = text.trim_start_matches(['└', ' ']);
        assert!(text.len() >= 8.min(row["id"].as_str().expect("an id").len()), "{text}");
        let found = home.run(&["status", text, "--json"]);
        assert_eq!(found.code, Some(0), "{args:?} shows {text}: {}", found.stderr);
        assert_eq!(found.json()["id"], row["id"], "{args:?} shows {text}");
    }
}

/// Makes an id that has the first characters of another one.
fn like(dice: &mut Dice, other: &str, common: usize) -> String {
    let digits: Vec<char> = "0123456789abcdef".chars().collect();
    let fresh = |c: char, dice: &mut Dice| if c == '-' { c } else { dice.pick(&digits) };
    other.chars().enumerate().map(|(n, c)| if n < common { c } else { fresh(c, dice) }).collect()
}

#[test]
fn every_id_in_a_table_is_accepted_by_every_command() {
    sandboxed(|| {
        let mut dice = Dice::new();
        println!("AGENTCTL_SEED={}", dice.seed);
        for _ in 0..4 {
            let home = home();
            let live = launch(&home, "w", "x [[hang]]", &[]);
            until_asked(&home, &live);
            let mut ids = BTreeSet::from(["01a1de42-1cbc-7bc0-8847-7990a9c220ec".to_owned()]);
            for _ in 0..10 {
                let known: Vec<&str> =
                    ids.iter().map(String::as_str).chain([live.as_str()]).collect();
                let (other, common) = (dice.pick(&known).to_owned(), dice.below(24));
                let common = usize::try_from(common).expect("fits");
                ids.insert(like(&mut dice, &other, common));
            }
            let here = home.path().to_string_lossy().into_owned();
            for id in &ids {
                let at = dice.pick(&[RECENT, OLD]);
                match dice.below(2) {
                    0 => claude(&home, id, &here, at),
                    _ => drop(codex::rollout(&home, id, &[codex::asked("x")])),
                }
            }
            // A name that was given before an id began with it still means the named session.
            claude(&home, "fade1111-1111-4222-8333-123456789abc", "/n", RECENT);
            let named = home.run(&["name", "fade1111", "fade0000"]);
            assert_eq!(named.code, Some(0), "{}", named.stderr);
            claude(&home, "fade0000-1111-4222-8333-123456789abc", "/n", RECENT);
            for args in [
                vec!["list"],
                vec!["list", "--adapter", "demo"],
                vec!["list", "-a", "--since", "all"],
                vec!["list", "-a", "--since", "2026-11-01"],
                vec!["list", "-a", "--since", "all", "--adapter", "codex"],
                vec!["list", "-a", "--since", "all", "--cwd", &here],
                vec!["list", "-a", "--tree", "--since", "2026-11-01"],
            ] {
                each_is_accepted(&home, &args);
            }
            let run = column(&home.run(&["runs"]).stdout, "SESSION");
            assert_eq!(status(&home, &run[0])["id"], live.as_str());
            assert_eq!(home.run(&["stop", &live]).code, Some(0));
        }
    });
}

#[test]
fn every_id_of_the_recorded_homes_is_accepted() {
    sandboxed(|| {
        let home = crate::cli::planted();
        home.plant(&crate::fixtures_dir().join("opencode/1.18.33"), ".");
        each_is_accepted(&home, &["list", "-a", "--since", "all"]);
        each_is_accepted(&home, &["list", "-a", "--since", "all", "--tree"]);
        // Forms that need more fields than the plain table show the same ids.
        let ids = |name: &str, more: &[&str]| {
            column(&home.run(&[&["list", "--since", "all"], more].concat()).stdout, name)
        };
        assert_eq!(ids("ID", &["-o", "wide"]), ids("ID", &[]));
        assert_eq!(ids("SHORT", &["--format", "table {short_id}\\t{model}"]), ids("ID", &[]));
    });
}

#[test]
fn a_prefix_that_fits_one_live_session_means_it() {
    sandboxed(|| {
        let home = home();
        let live = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &live);
        let other: String = format!("{}-1111-4222-8333-123456789abc", &live[..8]);
        claude(&home, &other, "/w", RECENT);
        assert_eq!(column(&home.run(&["list"]).stdout, "ID"), [&live[..8]]);
        assert_eq!(status(&home, &live[..8])["id"], live.as_str());
        let stopped = home.run(&["stop", &live[..8]]);
        assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
        assert!(stopped.stdout.contains(&live), "{}", stopped.stdout);
        assert_eq!(home.run(&["status", &live[..8]]).code, Some(4), "two ended ones");
    });
}

#[test]
fn a_directory_means_its_newest_session_and_a_live_one_first() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        let (older, newer) =
            ("0c2f8f8e-1111-4222-8333-123456789abc", "1c2f8f8e-1111-4222-8333-123456789abc");
        claude(&home, older, &w, OLD);
        assert_eq!(status(&home, "w/.")["id"], older, "older than a week");
        claude(&home, newer, &w, RECENT);
        let at = |args: &[&str]| home.command(args).current_dir(&w).output().expect("runs").stdout;
        let id = |stdout: Vec<u8>| {
            serde_json::from_slice::<serde_json::Value>(&stdout).expect("JSON")["id"].clone()
        };
        assert_eq!(id(at(&["status", ".", "--json"])), newer);
        assert_eq!(status(&home, &w)["id"], newer);
        let live = launch(&home, "w", "x [[hang]]", &[]);
        until_asked(&home, &live);
        assert_eq!(id(at(&["status", ".", "--json"])), live.as_str());
        assert_eq!(home.run(&["stop", &w]).code, Some(0));
        // No session has ever been in the home itself, and the hint does not speak of prefixes.
        let nothing = home.run(&["logs", "."]);
        assert_eq!(nothing.code, Some(4));
        assert!(nothing.stderr.contains("no agent has worked"), "{}", nothing.stderr);
        assert!(!nothing.stderr.contains("characters"), "{}", nothing.stderr);
    });
}

#[test]
fn the_bare_name_of_a_directory_is_answered_with_how_to_write_it() {
    sandboxed(|| {
        let home = home();
        let id = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &id);
        let bare = home.run(&["status", "w"]);
        assert_eq!(bare.code, Some(4));
        assert!(bare.stderr.contains("write `./w` for the directory"), "{}", bare.stderr);
        assert_eq!(home.run(&["status", "./w", "--json"]).json()["id"], id.as_str());
    });
}

#[test]
fn no_id_means_the_only_session_here() {
    sandboxed(|| {
        let home = home();
        let w = folder(&home, "w");
        let commands = ["status", "why", "logs", "wait"];
        let run = |command: &str| {
            let output = home.command(&[command]).current_dir(&w).output().expect("runs");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        for command in commands {
            let (code, stderr) = run(command);
            assert_eq!(code, Some(4), "{command}: {stderr}");
            assert!(stderr.contains("in this directory"), "{stderr}");
        }
        let first = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &first);
        for command in commands {
            assert_eq!(run(command).0, Some(0), "{command}: the only ended one");
        }
        let second = launch(&home, "w", "x [[say:hi]]", &[]);
        until_stopped(&home, &second);
        for command in commands {
            let (code, stderr) = run(command);
            assert_eq!(code, Some(4), "{command}: two ended ones");
            assert!(stderr.contains(&first) && stderr.contains(&second), "{stderr}");
        }
        let live = launch(&home, "w", "x [[ask:Which?]]", &[]);
        assert_eq!(run("status").0, Some(0), "the only live one");
        assert_eq!(run("wait").0, Some(10), "{live} waits");
    });
}

/// Launches an agent that dies at once. Its session id was chosen and never became a session.
fn failed_launch(home: &mut TestHome) -> String {
    home.set("ANTHROPIC_API_KEY", "k");
    script(home, "claude", "echo 'out of memory' >&2; exit 3");
    let failed = home.run(&["launch", "claude-code", "-p", "x", "--cwd", &folder(home, "f")]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let newest = &runs(home)[0];
    assert_eq!(newest["adapter"], "claude-code");
    newest["id"].as_str().expect("an id").to_owned()
}

#[test]
fn last_is_the_newest_launch_that_has_a_session_and_for_runs_the_newest_launch() {
    sandboxed(|| {
        let mut home = home();
        let run = failed_launch(&mut home);
        let none = home.run(&["status", "@last"]);
        assert_eq!(none.code, Some(4));
        assert!(none.stderr.contains("`agentctl runs` lists all launches"), "{}", none.stderr);
        assert_eq!(home.run(&["rm", "@last"]).code, Some(0));
        assert!(runs(&home).is_empty(), "{run} is gone");

        let id = launch(&home, "w", "x [[say:hello]]", &[]);
        until_stopped(&home, &id);
        let run = failed_launch(&mut home);
        assert_eq!(status(&home, "@last")["id"], id.as_str());
        assert_eq!(status(&home, "demo:@last")["id"], id.as_str());
        assert_eq!(home.run(&["logs", "@last"]).code, Some(0));
        assert_eq!(home.run(&["status", "claude-code:@last"]).code, Some(4));
        let shown = home.run(&["runs", "@last", "--json"]).json();
        assert_eq!(shown["runs"][0]["id"], run.as_str(), "{shown}");
        let stderr = home.run(&["runs", "@last", "--stderr"]);
        assert_eq!((stderr.code, stderr.stdout.as_str()), (Some(0), "out of memory\n"));
        let of_demo = home.run(&["runs", "demo:@last", "--json"]).json();
        assert_eq!(of_demo["runs"][0]["session"], id.as_str(), "{of_demo}");
        assert_eq!(home.run(&["rm", "@last"]).code, Some(0));
        assert_eq!(home.run(&["runs", "@last", "-q"]).stdout.trim(), id, "the older one is left");
    });
}

#[test]
fn a_launch_that_failed_shows_no_session_that_cannot_be_typed() {
    sandboxed(|| {
        let mut home = home();
        let id = launch(&home, "w", "x [[say:hello]]", &[]);
        until_stopped(&home, &id);
        let run = failed_launch(&mut home);
        assert_eq!(home.run(&["runs", "-o", "name"]).stdout, format!("demo:{id}\n"));
        assert_eq!(home.run(&["runs", "-q"]).stdout, format!("{run}\n{id}\n"));
        let table = home.run(&["runs"]).stdout;
        assert_eq!(column(&table, "SESSION"), ["-", &id[..8]], "{table}");
        for text in home.run(&["runs", "-q"]).stdout.lines() {
            assert_eq!(home.run(&["runs", text]).code, Some(0), "{text}");
        }
    });
}
