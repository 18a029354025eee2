//! `compare` with the flags that all lists have.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

use serde_json::Value;
use testkit::{Output, PseudoTerminal, TestHome, eventually, sandboxed};

use crate::home;
use crate::worktree_clean::shop;
use crate::worktree_faults::in_shop;

fn compared(home: &TestHome, args: &[&str]) -> Output {
    let output = in_shop(home, &[&["compare", "g"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
    output
}

fn lines(home: &TestHome, args: &[&str]) -> Vec<String> {
    compared(home, args).stdout.lines().map(str::to_owned).collect()
}

/// Adds lines to the file of one worktree, so that the three of them differ in files and in lines.
fn furnished() -> TestHome {
    let home = home();
    let shop = shop(&home);
    let tree = shop.at(&home.at("shop.worktrees/g-commit"));
    tree.write("two.txt", "1\n2\n3\n");
    home
}

#[test]
fn forms_of_compare_are_those_of_all_lists() {
    sandboxed(|| {
        let home = furnished();
        let directory = |name: &str| home.at("shop.worktrees").join(name).display().to_string();
        assert_eq!(
            lines(&home, &["-q"]),
            ["g-commit", "g-file", "g-none"].map(directory),
            "whole directories"
        );
        let table = lines(&home, &[]);
        assert!(table[0].starts_with("SLOT") && !table[0].contains("DIRECTORY"), "{table:?}");
        let wide = lines(&home, &["-o", "wide"]);
        assert!(wide[0].contains("DIRECTORY") && wide[1].contains("g-commit"), "{wide:?}");
        // Without headings the columns are narrower.
        let cells = |lines: &[String]| -> Vec<Vec<String>> {
            let words = |line: &String| line.split_whitespace().map(str::to_owned).collect();
            lines.iter().map(words).collect()
        };
        assert_eq!(cells(&lines(&home, &["--no-headers"])), cells(&table[1..]));
        assert_eq!(cells(&lines(&home, &["--no-headers", "-o", "wide"])), cells(&wide[1..]));
        let document = compared(&home, &["-o", "json"]).json();
        assert_eq!(document, compared(&home, &["--json"]).json());
        assert_eq!(document["group"], "g");
        let rows = document["slots"].as_array().expect("rows").clone();
        let json_lines: Vec<Value> = lines(&home, &["-o", "jsonl"])
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(json_lines, rows);
        let names = lines(&home, &["-o", "name"]);
        assert_eq!(names, [""; 0], "no session works in them");
    });
}

#[test]
fn templates_order_and_number_count_for_compare() {
    sandboxed(|| {
        let home = furnished();
        let slots = |args: &[&str]| lines(&home, &[args, &["--format", "{slot}"]].concat());
        assert_eq!(slots(&[]), ["commit", "file", "none"]);
        assert_eq!(slots(&["--reverse"]), ["none", "file", "commit"]);
        assert_eq!(slots(&["--sort", "files"]), ["none", "file", "commit"]);
        assert_eq!(slots(&["--sort=-files"]), ["commit", "file", "none"]);
        assert_eq!(slots(&["--sort=-added", "-n", "1"]), ["commit"]);
        assert_eq!(slots(&["-n", "0"]), [""; 0]);
        let text =
            lines(&home, &["--format", "{slot:8}|{commits}|{files}|{added}|{dirty}|{merges}"]);
        assert_eq!(
            text,
            ["commit  |1|2|4|1|clean", "file    |0|1|1|1|clean", "none    |0|0|0||clean"]
        );
        let table = lines(&home, &["--format", "table {slot}\\t{files}"]);
        assert_eq!(table[0].split_whitespace().collect::<Vec<_>>(), ["SLOT", "FILES"]);
        let bare = lines(&home, &["--format", "table {slot}\\t{files}", "--no-headers"]);
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            bare.iter().map(words).collect::<Vec<_>>(),
            table[1..].iter().map(words).collect::<Vec<_>>()
        );
        // The document has the rows in this order, and no others.
        let document = compared(&home, &["--json", "--sort=-files", "-n", "2"]).json();
        let rows = document["slots"].as_array().expect("rows").iter();
        assert_eq!(rows.map(|row| &row["slot"]).collect::<Vec<_>>(), ["commit", "file"]);
        for (args, said) in [
            (&["--sort", "colour"][..], "--sort: there is no key `colour`"),
            (&["--format", "{colour}"], "--format"),
            (&["-q", "--format", "{slot}"], "cannot be used"),
        ] {
            let refused = in_shop(&home, &[&["compare", "g"], args].concat());
            assert_eq!(
                (refused.code, refused.stdout.as_str()),
                (Some(2), ""),
                "{args:?}: {refused:?}"
            );
            assert!(refused.stderr.contains(said), "{args:?}: {refused:?}");
        }
    });
}

#[test]
fn a_terminal_shows_which_worktree_is_verified() {
    sandboxed(|| {
        let home = furnished();
        let fifo = home.at("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("run").success());
        let verify = format!("sh -c 'read -r line < {}'", fifo.display());
        // Open for both: no reader sees an end, and no line is lost.
        let mut feed = OpenOptions::new().read(true).write(true).open(&fifo).expect("opened");
        let mut command = home.command(&["compare", "g", "--verify", &verify]);
        command.current_dir(home.at("shop"));
        let terminal = PseudoTerminal::start(&mut command, 100, 30);
        let shows = |slot: &str| {
            let words = format!("{slot}: running the verification");
            terminal.output().contains(&words).then_some(())
        };
        let (slots, mut shown) = (["commit", "file", "none"], Vec::new());
        for (at, slot) in slots.iter().enumerate() {
            eventually(&format!("{slot} is verified"), || shows(slot));
            shown.push(slot);
            let later = slots[at + 1..].iter().find(|slot| shows(slot).is_some());
            assert_eq!(later, None, "one after the other: {shown:?}");
            feed.write_all(b"go on\n").expect("written");
        }
        let said = terminal.ended();
        assert!(said.contains("SLOT"), "{said}");
        // Off a terminal there is no progress.
        let quiet = in_shop(&home, &["compare", "g", "--verify", "true"]);
        assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet:?}");
    });
}
