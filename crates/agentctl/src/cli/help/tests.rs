//! The tables of the help pages fit the command tree.

use clap::{Command, CommandFactory};

use super::PAGE_WIDTH;
use super::examples::{ALL, examples_of};
use super::groups::GROUPS;
use super::reference::EXIT_CODES_OF;
use crate::cli::Cli;

/// Words that help pages do not use, because docker, systemd and git do not.
const ODD_WORDS: [&str; 13] = [
    "awake", "burn", "burns", "burnt", "heed", "nobody", "somebody", "tell", "tells", "told",
    "whoever", "wished", "wishes",
];

/// Returns every visible command by its words behind the program's name; the program itself is empty.
fn visible() -> Vec<(String, Command)> {
    let mut pending = vec![(String::new(), Cli::command())];
    let mut found = Vec::new();
    while let Some((path, command)) = pending.pop() {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            pending.push((format!("{path} {}", sub.get_name()).trim().to_owned(), sub.clone()));
        }
        found.push((path, command));
    }
    found
}

/// Returns the arguments behind `agentctl` in a line for a shell.
fn arguments(line: &str) -> Vec<String> {
    let begin = line.find("agentctl").expect("the program's name");
    let command = line[begin..].split([')', '|', '<', '>']).next().unwrap_or_default();
    shlex::split(command.trim()).expect("words")
}

#[test]
fn every_visible_command_has_examples_and_no_other_has() {
    let visible = visible();
    for (path, _) in &visible {
        let examples = examples_of(path).unwrap_or_else(|| panic!("`{path}` has no examples"));
        let lines: Vec<_> = examples.lines().collect();
        assert!((2..=5).contains(&lines.len()), "{path}: {} examples", lines.len());
        let own = format!("agentctl {path}");
        assert!(path.is_empty() || lines.iter().any(|(line, _)| line.contains(&own)), "{path}");
    }
    for examples in ALL {
        let path = examples.command;
        assert!(visible.iter().any(|(known, _)| known == path), "`{path}` is no visible command");
    }
    for path in ["asks", "answer", "approve", "deny", "diff", "compare", "worktree clean"] {
        assert!(EXIT_CODES_OF.iter().any(|(known, _)| *known == path), "`{path}` has no codes");
    }
    for (path, codes) in EXIT_CODES_OF {
        assert!(codes.iter().all(|(_, text)| text.len() + 7 <= PAGE_WIDTH), "{path}: too wide");
        assert!(visible.iter().any(|(known, _)| known == path), "`{path}` is no visible command");
    }
}

#[test]
fn every_example_can_be_parsed_and_fits_the_page() {
    for examples in ALL {
        let lines: Vec<(String, &str)> = examples.lines().collect();
        let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
        for (line, what) in &lines {
            let args = arguments(line);
            assert!(args.len() > 1, "{line}");
            match Cli::command().try_get_matches_from(&args) {
                Err(error) if error.kind() != clap::error::ErrorKind::DisplayVersion => {
                    panic!("{line}: {error}")
                }
                _ => {}
            }
            assert!(width + 4 + what.len() <= PAGE_WIDTH, "{line}: too wide beside {what}");
        }
    }
}

#[test]
fn every_visible_command_is_in_exactly_one_group() {
    for (path, _) in visible().iter().filter(|(path, _)| !path.is_empty() && !path.contains(' ')) {
        let groups = GROUPS.iter().filter(|(_, names)| names.contains(&path.as_str())).count();
        assert_eq!(groups, 1, "`{path}` is in {groups} groups");
    }
    for name in GROUPS.iter().flat_map(|(_, names)| *names) {
        let known = visible().iter().any(|(path, _)| path == name);
        assert!(known, "`{name}` is in a group and no visible command");
    }
}

#[test]
fn help_texts_use_plain_words_and_fit() {
    for (path, command) in visible() {
        let mut texts: Vec<String> = [command.get_about(), command.get_long_about()]
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let helps = [arg.get_help(), arg.get_long_help()];
            texts.extend(helps.into_iter().flatten().map(ToString::to_string));
            assert!(arg.get_help().is_some(), "{path}: {} has no help", arg.get_id());
        }
        for text in &texts {
            let words = text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
            let odd: Vec<String> = words.filter(|w| ODD_WORDS.contains(&w.as_str())).collect();
            assert!(odd.is_empty(), "{path}: {odd:?} in: {text}");
        }
    }
}

#[test]
fn every_argument_that_names_a_session_lists_the_same_forms() {
    let mut found = 0;
    for (path, command) in visible() {
        for arg in command.get_arguments() {
            let names = arg.get_value_names().unwrap_or_default();
            let is_session = names.iter().any(|name| name.as_str() == "ID")
                && arg.get_long() != Some("callback-session");
            if !is_session {
                continue;
            }
            found += 1;
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            for form in ["prefix", "name", "pid", "director", "(`.`)", "@last", "adapter:id"] {
                assert!(help.contains(form), "{path} {}: no `{form}` in: {help}", arg.get_id());
            }
        }
    }
    assert!(found >= 14, "only {found} arguments were found");
}
