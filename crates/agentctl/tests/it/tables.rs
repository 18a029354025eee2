//! Every table at five widths, over recorded sessions and demo agents: no line is wrapped, and no id is cut.

use insta::Settings;
use testkit::{TestHome, sandboxed};

use crate::cli::planted;
use crate::launched::{folder, launch, until_asked, until_stopped};
use crate::terminal::shown;

const WIDTHS: [u16; 5] = [40, 60, 80, 120, 200];

/// Ids, ages and pids differ from run to run. A short id is as long as its stand-in, and ages are narrower than the
/// headings of their columns, so the layout is the same.
fn settings(ids: &[&str]) -> Settings {
    let mut settings = Settings::clone_current();
    for (at, id) in ids.iter().enumerate() {
        let digit = char::from(b'1' + u8::try_from(at).expect("few"));
        let stand_in: String = id.chars().map(|c| if c == '-' { c } else { digit }).collect();
        settings.add_filter(id, &stand_in);
        settings.add_filter(&id[..8], &stand_in[..8]);
    }
    settings.add_filter(r"\r\n", "\n");
    settings.add_filter(r"\b\d+s ago *\s+\([^)]*\)", "[AGE]");
    settings.add_filter(r"duration      \d+s", "duration      [SPAN]");
    settings
        .add_filter(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[RUN]");
    settings.add_filter(r"  \d{2}s ", "  0s  ");
    settings.add_filter(r"  \ds ", "  0s ");
    settings.add_filter(r"\(pid \d*\)?.*", "(pid N)");
    settings.add_filter(r"pid           \d+", "pid           N");
    settings.add_filter(r"\d+:\d\d:\d\d", "[TIME]");
    // The size depends on the length of the path of the home.
    settings.add_filter(r"  \d+ K?B +", "  [SIZE]  ");
    settings.add_filter(r"SIZE +", "SIZE  ");
    settings.add_filter(r", \d+ K?B", ", [SIZE]");
    settings
}

fn fits(home: &mut TestHome, width: u16, args: &[&str]) -> String {
    let text = shown(home, width, args);
    for line in text.lines() {
        assert!(line.chars().count() <= width.into(), "{width} {args:?}: {line}\n{text}");
    }
    text
}

#[test]
fn tables_of_demo_agents_at_five_widths() {
    sandboxed(|| {
        let mut home = crate::home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let prompt = "Check the backups [[say:Done.]]";
        let ended = launch(&home, "work/infrastructure", prompt, &["--group", "morning"]);
        until_stopped(&home, &ended);
        let prompt = "Rename the brand [[ask:Everywhere?]]";
        let live = launch(&home, "work/site", prompt, &["--name", "painter"]);
        until_asked(&home, &live);
        let kept = folder(&home, "work/kept");
        for args in [
            &["lock", &kept, "--by", "ada", "--reason", "release"][..],
            &["fuse", "set", &kept, "--label", "tidy", "--ttl", "30d"],
            &["fuse", "set", "--session", &live, "--max-runtime", "2h", "--on-expire", "stop"],
            &["fuse", "set", "--session", &ended, "--idle", "1h"],
        ] {
            assert_eq!(home.run(args).code, Some(0), "{args:?}");
        }
        let fuses = home.run(&["fuses", "-q"]).stdout;
        let fuses: Vec<&str> = fuses.lines().collect();
        let ids = [&[live.as_str(), ended.as_str()], &fuses[..]].concat();
        settings(&ids).bind(|| {
            for width in WIDTHS {
                for (name, args) in [
                    ("list", &["list"][..]),
                    ("list-all", &["list", "-a"]),
                    ("runs", &["runs"]),
                    ("locks", &["locks"]),
                    ("fuses", &["fuses"]),
                    ("status", &["status", "painter"]),
                    ("logs", &["logs", "painter"]),
                ] {
                    let text = fits(&mut home, width, args);
                    insta::assert_snapshot!(format!("demo-{name}-{width}"), text);
                }
                fits(&mut home, width, &["list", "-a", "-o", "wide"]);
            }
        });
    });
}

#[test]
fn a_list_of_recorded_sessions_keeps_to_the_width_in_every_form() {
    sandboxed(|| {
        let mut home = planted();
        for width in WIDTHS {
            for args in [&["list", "--since", "all"][..], &["list", "--since", "all", "--tree"]] {
                let text = fits(&mut home, width, args);
                assert!(text.lines().count() > 70, "{text}");
            }
        }
    });
}

#[test]
fn a_wide_list_marks_and_paints_the_sessions_that_wait() {
    sandboxed(|| {
        let home = crate::home();
        let id = launch(&home, "w", "x [[ask:go?]]", &["--name", "painter"]);
        until_asked(&home, &id);
        let yellow = "\u{1b}[1m\u{1b}[33m";
        for form in [&["list"][..], &["list", "-o", "wide"]] {
            let plain = home.run(form).stdout;
            assert!(plain.contains("painter  ! waiting  demo"), "{plain}");
            let painted = home.run(&[form, &["--color", "always"]].concat()).stdout;
            assert!(painted.contains(&format!("{yellow}! waiting")), "{painted:?}");
            assert!(!painted.contains(&format!("{yellow}painter")), "{painted:?}");
        }
        let named = home.run(&["list", "--format", r"table {name}\t{status}", "--color", "always"]);
        assert!(named.stdout.contains(&format!("{yellow}waiting")), "{:?}", named.stdout);
    });
}

#[test]
fn no_rows_asked_for_is_no_claim_that_there_are_none() {
    sandboxed(|| {
        let mut home = crate::home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        assert_eq!(home.run(&["fuse", "set", "--session", &id, "--ttl", "1h"]).code, Some(0));
        for list in ["list", "runs", "locks", "fuses"] {
            let none = home.run(&[list, "-n", "0"]);
            assert_eq!(none.code, Some(0), "{list}");
            assert!(!none.stdout.contains("demo"), "{list}: {}", none.stdout);
            for denial in ["no live", "nothing is", "no run", "no fuse"] {
                assert!(!none.stderr.contains(denial), "{list}: {}", none.stderr);
            }
        }
    });
}

#[test]
fn a_fuse_on_an_ended_session_says_so() {
    sandboxed(|| {
        let mut home = crate::home();
        home.set("AGENTCTL_NO_DAEMON", "1");
        let id = launch(&home, "w", "x [[ask:go?]]", &[]);
        until_asked(&home, &id);
        assert_eq!(home.run(&["fuse", "set", "--session", &id, "--idle", "1h"]).code, Some(0));
        let state = |home: &TestHome| home.run(&["fuses", "--format", "{session_state}"]).stdout;
        assert_eq!(state(&home), "waiting\n");
        assert_eq!(home.run(&["stop", &id]).code, Some(0));
        assert_eq!(state(&home), "ended\n");
        let table = home.run(&["fuses"]).stdout;
        assert!(table.contains(&format!("demo:{}  ended", &id[..8])), "{table}");
    });
}

#[test]
fn the_runs_of_a_session_and_their_output_can_be_named() {
    sandboxed(|| {
        let home = crate::home();
        let one = launch(&home, "w", "first words [[say:hi]]", &["--name", "painter"]);
        until_stopped(&home, &one);
        assert_eq!(home.run(&["resume", "painter", "second [[say:again]]"]).code, Some(0));
        until_stopped(&home, &one);
        let _other = until_stopped(&home, &launch(&home, "v", "other [[say:x]]", &[]));
        let rows = home.run(&["runs", "--format", "{name}|{prompt}"]).stdout;
        assert_eq!(
            rows,
            "|other [[say:x]]\npainter|second [[say:again]]\npainter|first words [[say:hi]]\n"
        );
        let of_one = home.run(&["runs", "painter", "--json"]).json();
        assert_eq!(of_one["runs"].as_array().map(Vec::len), Some(2));
        assert_eq!(of_one["runs"][1]["prompt"], "first words [[say:hi]]");
        let said = home.run(&["runs", "painter", "--stdout"]);
        assert!(said.stdout.contains("again") && said.code == Some(0), "{}", said.stdout);
        assert_eq!(home.run(&["runs", "painter", "--stderr"]).code, Some(0));
        // A run has the words that its session has now, in every form.
        assert_eq!(home.run(&["name", "painter", "sculptor"]).code, Some(0));
        assert_eq!(home.run(&["group", "sculptor", "night"]).code, Some(0));
        let words = home.run(&["runs", "sculptor", "--format", "{name}|{group}"]).stdout;
        assert_eq!(words, "sculptor|night\n".repeat(2));
        for run in
            home.run(&["runs", "sculptor", "--json"]).json()["runs"].as_array().expect("rows")
        {
            assert_eq!((&run["name"], &run["group"]), (&"sculptor".into(), &"night".into()));
        }
        assert_eq!(home.run(&["group", "sculptor", "--clear"]).code, Some(0));
        assert_eq!(home.run(&["runs", "sculptor", "-n1", "--format", "{group}"]).stdout, "\n");
        assert_eq!(home.run(&["runs", "nosuchsession"]).code, Some(4));
        assert_eq!(home.run(&["runs", "--stdout"]).code, Some(2));
    });
}
