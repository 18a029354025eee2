//! Answers to a command line that cannot be parsed: help pages, and usage errors with a hint that fits.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::help;
use crate::failure::{Failure, Kind, Outcome};
use crate::text::nearest;
use crate::ui::Ui;

/// Commands that do not exist yet, each with the command that answers the same question today.
const NOT_YET: &[(&[&str], &str)] = &[
    (
        &["top", "tui", "ui"],
        "`agentctl list --watch` shows live sessions and redraws when something changes",
    ),
    (&["cost", "usage", "stats"], "`agentctl status ID` shows tokens and cost of a session"),
    (&["search", "grep"], "search one conversation: `agentctl logs ID -n all | grep TEXT`"),
    (&["diff", "changes"], "`agentctl logs ID --full` shows the edits of a session as diffs"),
    (&["export"], "`agentctl logs ID -n all --json` prints a whole conversation"),
];

/// Names that other programs use for a command of agentctl.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (
        &["start"],
        "`agentctl launch` starts an agent, `agentctl resume` continues a session, `agentctl daemon start` starts the daemon",
    ),
    (
        &["restart"],
        "stop the session and continue it: `agentctl stop ID`, then `agentctl resume ID MESSAGE`",
    ),
    (&["rename"], "`agentctl name ID NAME` names a session"),
    (&["watch"], "`agentctl list --watch` watches sessions, `agentctl logs -f ID` a conversation"),
    (&["open"], "`agentctl attach ID` opens a session in a terminal"),
    (&["new", "create"], "`agentctl launch ADAPTER \"PROMPT\"` starts an agent"),
    (&["delete", "remove"], "`agentctl rm ID` removes the runs of a session"),
];

/// Prints the page that was asked for, or returns the usage error. `tree` makes the command tree, which parsing has
/// used up.
pub(super) fn answer(
    ui: &mut Ui,
    tree: &dyn Fn() -> Command,
    args: Vec<OsString>,
    error: clap::Error,
) -> Outcome {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let documented = help::documented(tree());
            let error = documented.try_get_matches_from(args).err().unwrap_or(error);
            print(ui, &error)
        }
        ErrorKind::InvalidSubcommand => Err(unknown_command(&tree(), &args, &error)),
        ErrorKind::UnknownArgument => Err(unknown_argument(&tree(), &args, &error)),
        _ if ui.wants_json() => Err(first_paragraph(&tree(), &args, &error)),
        _ => print(ui, &error),
    }
}

/// Prints a page or an error as the parser words it.
fn print(ui: &mut Ui, error: &clap::Error) -> Outcome {
    let is_asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !is_asked && ui.wants_json() {
        return Err(Failure::new(Kind::Usage, "no command is given")
            .hint("`agentctl --help` lists the commands"));
    }
    let text = error.to_string();
    if crate::text::is_unsafe(&text) {
        // An argument may contain a title or a path that an agent chose.
        ui.note(&crate::text::clean(&text));
    } else {
        // Clap knows which stream and whether colour is wanted.
        let _unread = error.print();
    }
    Ok(ExitCode::from(if is_asked { 0 } else { Kind::Usage.exit_code() }))
}

/// Returns an error of the parser for JSON: its first paragraph.
fn first_paragraph(command: &Command, args: &[OsString], error: &clap::Error) -> Failure {
    let text = error.to_string();
    // The names of missing arguments are on lines of their own below the first.
    let first: Vec<&str> = text.lines().map(str::trim).take_while(|l| !l.is_empty()).collect();
    let first = first.join(" ");
    let (path, _) = innermost(command, args);
    Failure::new(Kind::Usage, first.trim_start_matches("error: "))
        .hint(format!("see `{path} --help`"))
}

fn unknown_command(command: &Command, args: &[OsString], error: &clap::Error) -> Failure {
    let word = context(error, ContextKind::InvalidSubcommand);
    let (path, parent) = innermost(command, args);
    if parent.get_name() == command.get_name() {
        let said = |table: &'static [(&[&str], &str)]| {
            table.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, hint)| *hint)
        };
        if let Some(hint) = said(NOT_YET) {
            return Failure::new(Kind::Usage, format!("`{word}` does not exist yet")).hint(hint);
        }
        if let Some(hint) = said(OTHER_WORDS) {
            return Failure::new(Kind::Usage, format!("there is no command `{word}`")).hint(hint);
        }
    }
    let visible = || parent.get_subcommands().filter(|sub| !sub.is_hide_set());
    let names = visible().map(Command::get_name);
    let known = names.chain(visible().flat_map(Command::get_visible_aliases));
    let failure = Failure::new(Kind::Usage, format!("there is no command `{word}`"));
    match mistyped(&word, known) {
        Some(meant) => failure.hint(format!("did you mean `{path} {meant}`?")),
        None => failure.hint(format!("`{path} --help` lists the commands")),
    }
}

fn unknown_argument(command: &Command, args: &[OsString], error: &clap::Error) -> Failure {
    let word = context(error, ContextKind::InvalidArg);
    let (path, inner) = innermost(command, args);
    if !word.starts_with('-') {
        let failure = Failure::new(Kind::Usage, format!("unexpected argument `{word}`"));
        let takes_prompt = inner.get_arguments().any(|arg| arg.get_long() == Some("prompt"));
        return if takes_prompt {
            failure.hint("put a prompt of several words in quotes")
        } else {
            failure.hint(format!("`{path} --help` shows which arguments it takes"))
        };
    }
    let flags = inner.get_arguments().filter(|arg| !arg.is_hide_set());
    let flags = flags.flat_map(|arg| {
        arg.get_long().into_iter().chain(arg.get_visible_aliases().unwrap_or_default())
    });
    let failure = Failure::new(Kind::Usage, format!("unknown option `{word}`"));
    let typed = word.strip_prefix("--").unwrap_or_default();
    match mistyped(typed, flags) {
        Some(meant) => failure.hint(format!("did you mean `--{meant}`?")),
        None => failure.hint(format!("`{path} --help` lists the options")),
    }
}

/// Returns the word that was probably meant: few letters differ, and the first one is right or swapped with the
/// second. Words of fewer than three letters are near to too many others.
fn mistyped<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let begin = |word: &str| (word.chars().next(), word.chars().nth(1));
    let (first, second) = begin(typed);
    let is_near = |word: &&str| {
        let (known_first, known_second) = begin(word);
        known_first == first || (known_first == second && known_second == first)
    };
    let known: Vec<&str> = known.filter(is_near).collect();
    if typed.chars().count() < 3 { None } else { nearest(typed, known) }
}

/// Returns the innermost command that the arguments name, with its path: `agentctl fuse set`.
fn innermost<'a>(root: &'a Command, args: &[OsString]) -> (String, &'a Command) {
    let (mut path, mut command) = (root.get_name().to_owned(), root);
    for word in args.iter().skip(1).map_while(|arg| arg.to_str()).filter(|w| !w.starts_with('-')) {
        if command.get_subcommands().next().is_none() {
            break;
        }
        if let Some(sub) = command.find_subcommand(word) {
            path.push(' ');
            path.push_str(sub.get_name());
            command = sub;
        }
    }
    (path, command)
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{NOT_YET, OTHER_WORDS, mistyped};

    #[test]
    fn a_tip_is_a_word_with_few_other_letters() {
        let known = ["list", "ls", "stop", "status", "tail", "logs", "launch"];
        for (typed, meant) in [
            ("lsit", Some("list")),
            ("ilst", Some("list")),
            ("lst", Some("list")),
            ("statsu", Some("status")),
            ("lauch", Some("launch")),
            ("top", None),
            ("tui", None),
            ("start", None),
            ("x", None),
        ] {
            assert_eq!(mistyped(typed, known.into_iter()), meant, "{typed}");
        }
    }

    #[test]
    fn every_command_that_a_hint_names_exists_and_no_word_is_a_command() {
        let root = crate::cli::Cli::command();
        for (words, hint) in NOT_YET.iter().chain(OTHER_WORDS) {
            for word in *words {
                assert!(root.find_subcommand(word).is_none(), "`{word}` exists now");
            }
            let named: Vec<&str> = hint.split("`agentctl ").skip(1).collect();
            assert!(!named.is_empty(), "{hint}");
            for rest in named {
                let name = rest.split([' ', '`']).next().unwrap_or_default();
                assert!(root.find_subcommand(name).is_some(), "{hint}: {name}");
            }
        }
    }
}
