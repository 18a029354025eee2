//! Answers to a command line that cannot be parsed: help pages, and usage errors with a hint that fits.

mod parser_errors;
mod reflexes;

use std::ffi::OsString;
use std::process::ExitCode;

use agentctl_core::adapters::{ALL, adapter_called};
use agentctl_core::text::shell_word;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::help;
use crate::config::Span;
use crate::failure::{Failure, Kind, Outcome};
use crate::text::nearest;
use crate::ui::Ui;

/// Prints the page that was asked for, or returns the usage error. `tree` makes the command tree, which parsing has
/// used up.
pub(super) fn answer(
    ui: &mut Ui,
    tree: &dyn Fn() -> Command,
    args: Vec<OsString>,
    error: clap::Error,
) -> Outcome {
    if is_about_a_word(&error)
        && let Some((option, word)) = value_apart(&tree(), &args)
    {
        return Err(needs_equals(&option, &word));
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let documented = named_as_typed(help::documented(tree()), &args);
            let error = documented.try_get_matches_from(args).err().unwrap_or(error);
            print(ui, &error)
        }
        ErrorKind::InvalidSubcommand => Err(unknown_command(&tree(), &args, &error)),
        ErrorKind::UnknownArgument => Err(unknown_argument(&tree(), &args, &error)),
        ErrorKind::DisplayVersion => print(ui, &error),
        _ => Err(parser_errors::failure(&innermost(&tree(), &args).0, &error)),
    }
}

/// Returns the tree in which a command that was called by an alias has that name, so that its page shows it. The tree
/// cannot be read into arguments any more.
fn named_as_typed(root: Command, args: &[OsString]) -> Command {
    let mut words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    let Some((word, sub)) = words.find_map(|word| Some((word, root.find_subcommand(word)?))) else {
        return root;
    };
    let name = sub.get_name().to_owned();
    if name == word {
        return root;
    }
    // A name of the parser lives as long as the program, which ends with this page.
    let word: &'static str = Box::leak(word.to_owned().into_boxed_str());
    root.mut_subcommand(&name, |sub| sub.name(word).visible_alias(None::<&str>))
}

/// Says whether the parser found a word that has no place on the command line.
fn is_about_a_word(error: &clap::Error) -> bool {
    let is_word = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => !text.starts_with('-'),
        Some(ContextValue::Strings(texts)) => texts.iter().any(|text| !text.starts_with('-')),
        _ => false,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => is_word(ContextKind::InvalidArg),
        ErrorKind::ArgumentConflict => {
            is_word(ContextKind::InvalidArg) || is_word(ContextKind::PriorArg)
        }
        _ => false,
    }
}

/// Finds an option whose value may be left out, followed by a word that was probably meant as its value.
pub(super) fn value_apart(root: &Command, args: &[OsString]) -> Option<(String, String)> {
    let (_, command) = innermost(root, args);
    let words: Vec<&str> = args.iter().map_while(|arg| arg.to_str()).collect();
    let words = words.split(|word| *word == "--").next().unwrap_or_default();
    let is_value = |option: &str, word: &str| match option {
        "worktree" => adapter_called(ALL, word).is_none() && !word.contains(char::is_whitespace),
        _ => Span::positive(word).is_ok(),
    };
    words.windows(2).find_map(|pair| {
        let [option, word] = pair else { return None };
        let name = option.strip_prefix("--")?;
        let is_it = |arg: &Arg| arg.get_long() == Some(name) && arg.is_require_equals_set();
        let is_apart = !word.is_empty() && !word.starts_with('-') && is_value(name, word);
        let found = is_apart && command.get_arguments().any(is_it);
        found.then(|| ((*option).to_owned(), (*word).to_owned()))
    })
}

/// Says that a word is not the value of the option in front of it.
pub(super) fn needs_equals(option: &str, word: &str) -> Failure {
    let message = format!("the value of {option} is written with an equals sign");
    Failure::new(Kind::Usage, message).hint(format!("write {option}={}", shell_word(word)))
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

fn unknown_command(command: &Command, args: &[OsString], error: &clap::Error) -> Failure {
    let word = context(error, ContextKind::InvalidSubcommand);
    let (path, parent) = innermost(command, args);
    if parent.get_name() == command.get_name()
        && let Some(hint) = reflexes::command_that_does_not_exist_yet(&word)
    {
        return Failure::new(Kind::Usage, format!("`{word}` does not exist yet")).hint(hint);
    }
    if let Some(hint) = reflexes::command_of_another_program(parent.get_name(), &word) {
        return Failure::new(Kind::Usage, format!("there is no command `{word}`")).hint(hint);
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
    if let Some(hint) = reflexes::option_of_another_program(inner.get_name(), &word) {
        return Failure::new(Kind::Usage, format!("unknown option `{word}`")).hint(hint);
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
    let mut is_value = false;
    for word in args.iter().skip(1).map_while(|arg| arg.to_str()) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') {
            is_value = takes_value(root, word) || takes_value(command, word);
            continue;
        }
        let Some(sub) = command.find_subcommand(word) else { break };
        path.push(' ');
        path.push_str(word);
        command = sub;
    }
    (path, command)
}

/// Says whether the next word is the value of this option.
fn takes_value(command: &Command, option: &str) -> bool {
    let Some(long) = option.strip_prefix("--") else { return false };
    let is_it = |arg: &&Arg| arg.get_long() == Some(long);
    command.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values())
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Arg, Command};

    use super::{innermost, mistyped};

    #[test]
    fn the_innermost_command_ends_at_the_first_other_word() {
        let tree = Command::new("agentctl")
            .arg(Arg::new("color").long("color"))
            .subcommand(Command::new("demo").visible_alias("show"))
            .subcommand(Command::new("fuse").subcommand(Command::new("set")));
        for (line, path) in [
            ("agentctl lanch demo x", "agentctl"),
            ("agentctl fuse set x", "agentctl fuse set"),
            ("agentctl show x", "agentctl show"),
            ("agentctl --color never fuse set", "agentctl fuse set"),
            ("agentctl fuse --color never sett set", "agentctl fuse"),
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(innermost(&tree, &args).0, path, "{line}");
        }
    }

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
}
