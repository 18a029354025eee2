//! The flags of every listing command: forms, templates, order, number, width.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{TestHome, sandboxed};

use crate::cli::planted;
use crate::launched::{folder, launch, until_asked, until_stopped};
use crate::source::workspace;
use crate::terminal::shown;

const LISTS: [&str; 5] = ["list", "runs", "locks", "fuses", "adapters"];

/// Recorded sessions, a live one with a name, an ended one, a lock and two fuses.
fn furnished() -> (TestHome, String) {
    let mut home = planted();
    home.set("AGENTCTL_NO_DAEMON", "1");
    let ended = launch(&home, "ended", "x [[say:y]]", &["--group", "g"]);
    until_stopped(&home, &ended);
    let live = launch(&home, "live", "x [[ask:go?]]", &["--name", "painter"]);
    until_asked(&home, &live);
    let kept = folder(&home, "kept");
    assert_eq!(home.run(&["lock", &kept, "--by", "ada", "--reason", "mine"]).code, Some(0));
    let fuses =
        [vec!["fuse", "set", &kept, "--label", "tidy"], vec!["fuse", "set", "--session", &live]];
    for args in fuses {
        assert_eq!(home.run(&args).code, Some(0));
    }
    (home, live)
}

fn lines(home: &TestHome, args: &[&str]) -> Vec<String> {
    let output = home.run(args);
    assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
    output.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn every_name_that_a_list_prints_is_accepted_by_status() {
    sandboxed(|| {
        let (home, live) = furnished();
        // A process that has no session yet.
        let mut agent = home.agent("codex", "alone", &[]);
        agent.ready();
        let mut names = BTreeSet::new();
        for list in [&["list", "--since", "all"][..], &["runs"], &["locks"], &["fuses"]] {
            let listed = lines(&home, &[list, &["-o", "name"]].concat());
            assert!(!listed.is_empty(), "{list:?}");
            names.extend(listed);
        }
        assert!(names.contains(&format!("demo:{live}")) && names.len() >= 72, "{names:#?}");
        for name in names {
            let status = home.run(&["status", &name, "--json"]);
            assert_eq!(status.code, Some(0), "{name}: {}{}", status.stdout, status.stderr);
        }
        let ids = lines(&home, &["list", "-q"]);
        assert!(ids.contains(&live), "{ids:?}");
        assert!(ids.contains(&agent.pid().to_string()), "the pid where there is no id: {ids:?}");
    });
}

#[test]
fn a_template_prints_the_fields_it_names() {
    sandboxed(|| {
        let (home, live) = furnished();
        let short = &live[..8];
        for (template, expected) in [
            ("{id} {status}", format!("{live} waiting")),
            ("{{{name}}}", "{painter}".to_owned()),
            ("{status:4}|{status:9}|", "wai…|waiting  |".to_owned()),
            (r"a\tb\\{agent}\nc", "a\tb\\demo\nc".to_owned()),
            ("{group}.", ".".to_owned()),
            (
                r"table {short_id}\t{agent} {status}",
                format!("SHORT ID  AGENT STATUS\n{short}  demo waiting"),
            ),
        ] {
            let output = home.run(&["list", "--format", template]);
            assert_eq!((output.code, output.stdout), (Some(0), expected + "\n"), "{template}");
        }
        let bare = lines(&home, &["list", "--format", r"table {agent}\t{status}", "--no-headers"]);
        assert_eq!(bare, ["demo  waiting"]);
        for (template, said) in [
            ("{nonsense}", "there is no field `nonsense`"),
            ("{id} {id", "`{id` is not closed"),
            ("id}", "a `}` without a `{`"),
            ("{id:x}", "`x` is no width"),
        ] {
            let output = home.run(&["list", "--format", template]);
            assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{template}");
            assert!(output.stderr.contains(said), "{template}: {}", output.stderr);
        }
    });
}

/// The fields of a list, as its answer to an unknown one names them.
fn named(home: &TestHome, args: &[&str]) -> Vec<String> {
    let output = home.run(args);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{args:?}");
    let hint = output.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).expect("a hint");
    let (_, names) = hint.split_once(": ").expect("names");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_documented_fields_are_the_fields() {
    sandboxed(|| {
        let (home, _) = furnished();
        let page = std::fs::read_to_string(workspace().join("docs/FORMAT.md")).expect("the page");
        for list in LISTS {
            let heading = format!("## Fields of `{list}`\n");
            let section = page.split(&heading).nth(1).expect("a section").trim_start();
            let paragraph = section.split("\n\n").next().expect("a paragraph");
            let documented: Vec<&str> = paragraph.split('`').skip(1).step_by(2).collect();
            assert_eq!(named(&home, &[list, "--format", "{nonsense}"]), documented, "{list}");
            assert_eq!(named(&home, &[list, "--sort", "nonsense"]), documented, "{list}");
            for field in documented {
                let template = format!("{{{field}}}");
                for args in [[list, "--format", &template], [list, "--sort", field]] {
                    assert_eq!(home.run(&args).code, Some(0), "{args:?}");
                }
            }
        }
    });
}

#[test]
fn every_list_has_the_same_flags() {
    sandboxed(|| {
        let (home, _) = furnished();
        for list in LISTS {
            let all = lines(&home, &[list, "-q"]);
            assert!(!all.is_empty() && all.iter().all(|id| !id.contains("  ")), "{list}: {all:?}");
            assert_eq!(lines(&home, &[list, "-q", "-n", "1"]), all[..1], "{list}");
            let reversed: Vec<String> = all.iter().rev().cloned().collect();
            assert_eq!(lines(&home, &[list, "-q", "--reverse"]), reversed, "{list}");
            let document = home.run(&[list, "--json"]).json();
            let rows = document[if list == "list" { "sessions" } else { list }].as_array().cloned();
            let rows = rows.expect("rows");
            let objects: Vec<Value> = lines(&home, &[list, "-o", "jsonl"])
                .iter()
                .map(|line| serde_json::from_str(line).expect("one object a line"))
                .collect();
            let timeless = |rows: &[Value]| {
                let mut rows = rows.to_vec();
                for row in &mut rows {
                    row["evidence"] = Value::Null;
                }
                rows
            };
            assert_eq!(timeless(&objects), timeless(&rows), "{list}");
            let same = home.run(&[list, "-o", "json", "-n", "1"]).json();
            assert_eq!(same["schema_version"], document["schema_version"], "{list}");
            let wide = &lines(&home, &[list, "-o", "wide"])[0];
            assert!(wide.len() > lines(&home, &[list])[0].len(), "{list}: {wide}");
            assert!(!lines(&home, &[list, "--no-headers"]).contains(&lines(&home, &[list])[0]));
            for two in [&["-q", "-o", "wide"][..], &["--json", "-o", "wide"], &["-q", "--json"]] {
                assert_eq!(home.run(&[&[list], two].concat()).code, Some(2), "{list} {two:?}");
            }
            let failed = home.run(&[list, "-o", "json", "--sort", "nonsense"]);
            assert_eq!(failed.json()["error"]["code"], "usage", "{list}");
        }
        assert_eq!(home.run(&["list", "-w", "-o", "jsonl"]).code, Some(2));
    });
}

#[test]
fn rows_are_sorted_by_a_field_and_an_age_sorts_the_youngest_first() {
    sandboxed(|| {
        let home = planted();
        let sorted = |sort: &str, field: &str| {
            lines(&home, &["list", "--since", "all", "--sort", sort, "--format", field])
        };
        let times = sorted("last_activity_at", "{last_activity_at}");
        assert_eq!(times.len(), 70);
        assert!(times.is_sorted(), "{times:#?}");
        for key in ["name", "-name"] {
            let names = sorted(key, "{name}");
            assert!(!names[0].is_empty() && names[69].is_empty(), "{key}: {names:?}");
        }
        let newest = sorted("active", "{last_activity_at}{started_at}");
        let oldest = sorted("-active", "{last_activity_at}{started_at}");
        assert!(newest[0] > newest[60] && oldest[0] < oldest[60]);
        let ids = sorted("-id", "{id}");
        assert!(ids.iter().rev().is_sorted(), "{ids:#?}");
        let models = sorted("model", "{model}");
        assert!(models.iter().any(|model| !model.is_empty()), "fields beyond the table are read");
    });
}

/// A failure of last week does not come before the end of today.
#[test]
fn ended_sessions_are_listed_by_time_alone() {
    sandboxed(|| {
        let (home, live) = furnished();
        let rows = home.run(&["list", "--since", "all", "--json"]).sessions();
        assert_eq!(rows[0]["id"], Value::String(live), "live ones first");
        let time = |row: &Value| match &row["last_activity_at"] {
            Value::Null => row["started_at"].as_str().unwrap_or_default().to_owned(),
            at => at.as_str().expect("a time").to_owned(),
        };
        let times: Vec<String> = rows[1..].iter().map(time).collect();
        assert!(times.iter().rev().is_sorted(), "{times:#?}");
        let statuses: BTreeSet<&str> = rows.iter().filter_map(|r| r["status"].as_str()).collect();
        assert!(statuses.contains("error") && statuses.contains("stopped"), "{statuses:?}");
    });
}

#[test]
fn every_table_fits_every_width() {
    sandboxed(|| {
        let (mut home, live) = furnished();
        for columns in [40, 60, 80, 120, 200] {
            for args in [
                &["list", "--since", "all"][..],
                &["list", "--since", "all", "-o", "wide"],
                &["list", "--since", "all", "--format", r"table {id}\t{cwd}\t{what}"],
                &["runs"],
                &["runs", "-o", "wide"],
                &["locks"],
                &["locks", "-o", "wide"],
                &["fuses"],
                &["fuses", "-o", "wide"],
                &["adapters"],
                &["adapters", "-o", "wide"],
            ] {
                let text = shown(&mut home, columns, args);
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(columns.into()), "{columns} {args:?}: {widest:?}\n{text}");
            }
            let fuses = shown(&mut home, columns, &["fuses"]);
            assert!(fuses.contains(&format!("demo:{}", &live[..8])), "{columns}: {fuses}");
            let table = shown(&mut home, columns, &["adapters"]);
            insta::assert_snapshot!(format!("adapters-{columns}"), table);
        }
        let whole = shown(&mut home, 40, &["list", "--no-trunc"]);
        assert!(whole.contains(&live), "{whole}");
    });
}

#[test]
fn a_list_of_recorded_sessions_at_five_widths() {
    sandboxed(|| {
        let mut home = planted();
        let template = r"table {status}\t{agent}\t{short_id}\t{directory}\t{what}";
        for columns in [40, 60, 80, 120, 200] {
            let args = ["list", "--since", "all", "-n", "12", "--sort", "id", "--format", template];
            let table = shown(&mut home, columns, &args);
            insta::assert_snapshot!(format!("list-{columns}"), table);
        }
    });
}

#[test]
fn colour_can_be_forced_and_forbidden() {
    sandboxed(|| {
        let (mut home, _) = furnished();
        let is_coloured = |text: &str| text.contains('\u{1b}');
        for list in LISTS {
            // Piped, and NO_COLOR is set.
            let forced = home.run(&[list, "--color", "always"]).stdout;
            assert!(is_coloured(&forced), "{list}");
            assert!(!is_coloured(&home.run(&["--color=auto", list]).stdout), "{list}");
        }
        home.set("NO_COLOR", "");
        assert!(is_coloured(&shown(&mut home, 80, &["list"])));
        assert!(!is_coloured(&shown(&mut home, 80, &["--color", "never", "list"])));
        assert_eq!(home.run(&["list", "--color", "pink"]).code, Some(2));
    });
}
