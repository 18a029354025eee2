//! The README's console blocks, executed after `agentctl demo`, so that the README stays correct.
//!
//! All blocks are one shell session on a terminal of 100 columns. A line `$ command` is followed by its output. A command
//! that fails must be followed by `$ echo $?`, so that the reader sees its exit code. Values that differ from run to run
//! (ids, pids, ages, times, sizes) are replaced on both sides before they are compared; so is the number of spaces
//! between columns, and the order of rows in a table of sessions.
//!
//! `just readme` (the variable `README_UPDATE`) puts changed output into the README; read the difference before you commit it.

use std::process::Command;

use testkit::{PseudoTerminal, TestHome, replace_changing, sandboxed};

use crate::home;
use crate::source::workspace;

/// Ends the output of each command; behind it stands the exit code.
const MARK: char = '\u{1e}';

/// A command of the README.
#[derive(Debug)]
struct Step {
    command: String,
    /// Its output as the README shows it.
    shown: String,
}

/// The output of a command.
#[derive(Debug)]
struct Played {
    output: String,
    code: i32,
}

#[test]
fn every_console_block_of_the_readme_is_true() {
    sandboxed(|| {
        let steps = steps(&readme());
        assert!(steps.len() >= 15, "only {} commands", steps.len());
        let home = home();
        let demo = home.run(&["demo"]);
        assert_eq!(demo.code, Some(0), "{}", demo.stderr);
        let played = play(&home, &steps);
        let _stopped = home.run(&["daemon", "stop"]);
        if std::env::var_os("README_UPDATE").is_some() {
            let text = updated(readme(), &steps, &played);
            std::fs::write(workspace().join("README.md"), text).expect("written");
        }
        let wrong = differences(&steps, &played);
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

fn readme() -> String {
    std::fs::read_to_string(workspace().join("README.md")).expect("the README")
}

fn steps(text: &str) -> Vec<Step> {
    let blocks = text.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks: Vec<String> = blocks.map(|block| format!("\n{block}")).collect();
    let steps = blocks.iter().flat_map(|block| block.split("\n$ ").skip(1));
    let step = |text: &str| {
        let (command, shown) = text.split_once('\n').unwrap_or((text, ""));
        Step { command: command.to_owned(), shown: shown.to_owned() }
    };
    steps.map(step).collect()
}

/// Plays all commands in one shell on a terminal.
fn play(home: &TestHome, steps: &[Step]) -> Vec<Played> {
    let mut script =
        format!("mark() {{ code=$?; printf '{MARK}%d{MARK}' $code; return $code; }}\n");
    for step in steps {
        script.push_str(&format!("{}\nmark\n", step.command));
    }
    let script = home.write("tour.sh", script);
    let program = std::path::PathBuf::from(env!("CARGO_BIN_EXE_agentctl"));
    let folder = program.parent().expect("a directory").to_str().expect("UTF-8").to_owned();
    let mut shell = Command::new("sh");
    shell.arg(script).env_clear().current_dir(home.path()).env("HOME", home.path());
    shell.env("PATH", format!("{folder}:/usr/bin:/bin")).env("TZ", "UTC").env("USER", "ada");
    shell.env("TERM", "xterm").env("NO_COLOR", "1").env("PAGER", "cat");
    let output = PseudoTerminal::start(&mut shell, 100, 60).ended();
    let output = output.replace(&folder, "/home/ada/.cargo/bin");
    let output = output.replace(home.path().to_str().expect("UTF-8"), "/home/ada");
    let parts: Vec<&str> = output.split(MARK).collect();
    let play = |pair: &[&str]| {
        let code = pair[1].parse().expect("an exit code");
        Played { output: pair[0].to_owned(), code }
    };
    parts.chunks_exact(2).map(play).collect()
}

/// Returns what the README says wrongly.
fn differences(steps: &[Step], played: &[Played]) -> Vec<String> {
    let mut wrong = Vec::new();
    if steps.len() != played.len() {
        wrong.push(format!("{} of {} commands ended", played.len(), steps.len()));
    }
    for (at, (step, played)) in steps.iter().zip(played).enumerate() {
        let (shown, output) = (comparable(&step.shown), comparable(&played.output));
        if shown != output {
            wrong.push(format!(
                "`{}` printed\n{}\nbut the README says\n{}\ncompared as\n{}\nwith\n{}",
                step.command,
                played.output,
                step.shown,
                output.join("\n"),
                shown.join("\n")
            ));
        }
        let is_told = steps.get(at + 1).is_some_and(|next| next.command == "echo $?");
        if played.code != 0 && !is_told {
            wrong.push(format!("`{}` exits {}; show `$ echo $?`", step.command, played.code));
        }
    }
    wrong
}

/// Returns the README with the output of every command that printed something else.
fn updated(readme: String, steps: &[Step], played: &[Played]) -> String {
    steps.iter().zip(played).fold(readme, |readme, (step, played)| {
        if comparable(&step.shown) == comparable(&played.output) {
            return readme;
        }
        let (before, after) = (step.shown.trim_end(), played.output.trim_end());
        let lines = |output: &str| {
            let gap = if output.is_empty() { "" } else { "\n" };
            format!("\n$ {}{gap}{output}\n", step.command)
        };
        readme.replacen(&lines(before), &lines(after), 1)
    })
}

/// Returns the lines of an output without the values that differ from run to run.
fn comparable(output: &str) -> Vec<String> {
    let text = replace_changing(output.trim_end(), |kind, _| format!("<{kind:?}>"));
    text.lines().map(|line| one_gap(line.trim_end())).collect()
}

/// Makes every gap between columns two spaces wide. The indentation stays.
fn one_gap(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let columns: Vec<&str> = line[indent..].split("  ").map(str::trim).collect();
    let columns: Vec<&str> = columns.into_iter().filter(|column| !column.is_empty()).collect();
    format!("{}{}", &line[..indent], columns.join("  "))
}

#[test]
fn a_wrong_line_a_missing_column_and_a_hidden_exit_code_are_found() {
    let readme = "```console\n$ agentctl list\nSTATUS   ID        ACTIVE\nidle     9181225b  0s\nrunning  aaaaaaaa  12s\n\
        $ agentctl wait x\nx is waiting\n$ echo $?\n10\n```\n";
    let play = |list: &str, wait: &str, code: i32| {
        let outputs = [(list, 0), (wait, code), (&format!("{code}\n"), 0)];
        outputs.map(|(output, code)| Played { output: output.to_owned(), code })
    };
    let list = "STATUS   ID        ACTIVE\nidle     00112233  10m\nrunning  01234567  3s\n";
    let found = |readme: &str, played: &[Played]| differences(&steps(readme), played).len();
    assert_eq!(found(readme, &play(list, "x is waiting\n", 10)), 0, "other values");
    let turned = "STATUS   ID        ACTIVE\nrunning  01234567  3s\nidle     00112233  10m\n";
    assert_eq!(found(readme, &play(turned, "x is waiting\n", 10)), 1, "another order");
    assert_eq!(found(readme, &play(list, "x waits\n", 10)), 1, "a wrong line");
    assert_eq!(found(readme, &play(&list.replace("  3s", ""), "x is waiting\n", 10)), 1);
    assert_eq!(found(readme, &play(&list.replace("ACTIVE", ""), "x is waiting\n", 10)), 1);
    assert_eq!(found(readme, &play(list, "x is waiting\n", 4)), 1, "another exit code");
    assert_eq!(found(readme, &play(list, "x is waiting\nmore\n", 10)), 1, "a line too many");
    let hidden = readme.replace("$ echo $?\n10\n", "$ true\n");
    let mut played = play(list, "x is waiting\n", 10);
    played[2].output.clear();
    assert_eq!(found(&hidden, &played), 1, "an exit code that is not shown");
    assert_eq!(found(readme, &play(list, "x is waiting\n", 10)[..2]), 1, "the tour ended early");
    let played = play(list, "x waits\n", 4);
    let updated = updated(readme.to_owned(), &steps(readme), &played);
    let expected = readme.replace("x is waiting", "x waits").replace("10\n`", "4\n`");
    assert_eq!(updated, expected, "only wrong lines are replaced");
}
