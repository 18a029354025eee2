//! The texts that complete a word: those of the command tree, and those of the sessions of this moment.

use agentctl_core::adapters::ALL;
use agentctl_core::ask::{AdapterRow, Fleet};
use agentctl_core::events::EventKind;
use clap::{Arg, Command};

use super::answer::{Answer, Paths};
use super::position::{Position, Wanted};
use crate::cli::{fuses, schema};
use crate::config::Loaded;
use crate::face::{
    AskListRow, CompareListRow, Completion, FuseListRow, LockListRow, RunListRow, SessionScope,
    WorktreeListRow, ask_completions, field_names, fuse_completions, group_completions,
    session_completions, worktree_completions,
};
use crate::session_table::SessionRow;

/// The place at which completions are compared with the typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Here: they begin with it.
    Prefix,
    /// In the shell, which may also ignore case or accept a part.
    Shell,
}

/// The values that an argument has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The words that the argument itself knows.
    Words,
    Sessions(SessionScope),
    /// Asks that can be answered.
    OpenAsks,
    AsksOrSessions,
    Groups,
    /// Worktrees of agentctl in this repository, or directories.
    Worktrees,
    WorktreesOrSessions,
    Adapters,
    Directories,
    FusesOrDirectories,
    Files,
    /// The commands behind the words that are given: `man fuse set`.
    Commands,
    EventTypes,
    SortKeys,
    FuseActions,
    Schemas,
    /// Any text: nothing is offered.
    Text,
}

/// Answers for a word, with the complete words before it.
pub(super) fn answer(words: &[String], current: &str, filter: Filter) -> Answer {
    let mut root = crate::cli::command();
    root.build();
    let position = Position::of(&root, words);
    let mut answer = match position.wanted(current) {
        Wanted::Subcommand(command) => Answer::of(subcommands(command, current)),
        Wanted::Option => Answer::of(options(&position)),
        // Beside a text that only the person knows, options are the help that is left.
        Wanted::Value(argument, _)
            if argument.is_positional()
                && !position.is_escaped
                && kind(&position.path, argument) == Kind::Text =>
        {
            Answer::of(options(&position))
        }
        Wanted::Value(argument, _) if kind(&position.path, argument) == Kind::Commands => {
            Answer::of(commands_below(&root, &position.values, current))
        }
        Wanted::Value(argument, prefix) => value(&position, argument, (&prefix, current)),
    };
    if filter == Filter::Prefix {
        answer.completions.retain(|one| one.text.starts_with(current));
    }
    answer
}

/// Returns the subcommands. Their other names are offered only if one begins with the typed text: they would make
/// the list of all commands twice as long.
fn subcommands(command: &Command, typed: &str) -> Vec<Completion> {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let described = shown.flat_map(|sub| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let fits = |alias: &&str| !typed.is_empty() && alias.starts_with(typed);
        let aliases = sub.get_visible_aliases().filter(fits).map(str::to_owned);
        let names = std::iter::once(sub.get_name().to_owned()).chain(aliases);
        names.map(move |name| Completion::new(name, first_line(&about)))
    });
    described.collect()
}

/// Returns the subcommands of the command that these words name. There are no manual pages of `help`.
fn commands_below(root: &Command, words: &[&str], typed: &str) -> Vec<Completion> {
    let command = words.iter().try_fold(root, |command, word| command.find_subcommand(word));
    let mut below = command.map(|command| subcommands(command, typed)).unwrap_or_default();
    below.retain(|one| one.text != "help");
    below
}

fn options(position: &Position<'_>) -> Vec<Completion> {
    let completion = |arg: &Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Completion::new(format!("--{}", arg.get_long()?), first_line(&help)))
    };
    position.further_options().filter_map(completion).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Answers for the value of an argument. `prefix` is the part of the word before the value.
fn value(position: &Position<'_>, argument: &Arg, (prefix, current): (&str, &str)) -> Answer {
    let typed = current.strip_prefix(prefix).unwrap_or(current);
    let kind = kind(&position.path, argument);
    // Of a list only the last value is completed.
    let listed = argument.get_value_delimiter().and_then(|comma| typed.rsplit_once(comma));
    let (before, typed) = listed.map_or(("", typed), |(_, last)| {
        let length = typed.len() - last.len();
        typed.split_at(length)
    });
    let mut answer = of_kind(position, kind, argument, typed);
    let given =
        |text: &str| before.split(',').any(|one| one == text) || position.values.contains(&text);
    answer.completions.retain(|one| !given(&one.text));
    for one in &mut answer.completions {
        one.text.insert_str(0, &format!("{prefix}{before}"));
    }
    answer
}

fn of_kind(position: &Position<'_>, kind: Kind, argument: &Arg, typed: &str) -> Answer {
    match kind {
        Kind::Words => Answer::of(possible_values(argument)),
        Kind::Sessions(_) if is_path(typed) => Answer::paths(Paths::Directories),
        Kind::Sessions(scope) => with_fleet(|fleet| session_completions(fleet, scope, typed)),
        Kind::OpenAsks => with_fleet(|fleet| ask_completions(fleet, true, typed)),
        Kind::AsksOrSessions => with_fleet(|fleet| {
            let mut all = ask_completions(fleet, false, typed);
            all.extend(session_completions(fleet, SessionScope::Live, typed));
            all
        }),
        Kind::Groups => with_fleet(group_completions),
        Kind::Worktrees | Kind::WorktreesOrSessions if is_path(typed) => {
            Answer::paths(Paths::Directories)
        }
        Kind::Worktrees => with_loaded(worktree_names),
        Kind::WorktreesOrSessions => with_loaded(|loaded| {
            let mut all = worktree_names(loaded);
            let scope = SessionScope::LiveAndEnded;
            all.extend(session_completions(&loaded.fleet(), scope, typed));
            all
        }),
        Kind::Adapters => {
            let names = ALL.iter().map(|adapter| Completion::new(adapter.name(), ""));
            Answer::of(names.collect())
        }
        Kind::Directories => Answer::paths(Paths::Directories),
        Kind::FusesOrDirectories => {
            let fuses = with_fleet(fuse_completions);
            Answer { paths: Paths::Directories, ..fuses }
        }
        Kind::Files => Answer::files(),
        Kind::EventTypes => Answer::of(event_types()),
        Kind::SortKeys => Answer::of(sort_keys(&position.path)),
        Kind::FuseActions => Answer::of(fuse_actions()),
        Kind::Schemas => {
            let names = schema::all();
            Answer::of(names.keys().map(|name| Completion::new(*name, "")).collect())
        }
        Kind::Commands | Kind::Text => Answer::default(),
    }
}

/// Returns the values that an argument has. Arguments of one name mean the same in every command, and so do the
/// names of values in help texts.
fn kind(path: &[&str], argument: &Arg) -> Kind {
    if !possible_values(argument).is_empty() {
        return Kind::Words;
    }
    let scope = match path {
        ["stop" | "wait"] => SessionScope::Live,
        ["rm" | "prune"] => SessionScope::EndedRuns,
        _ => SessionScope::LiveAndEnded,
    };
    match (argument.get_id().as_str(), path) {
        ("id" | "ids" | "session", _) => Kind::Sessions(scope),
        ("adapter" | "adapters", _) => Kind::Adapters,
        ("types", ["events"]) => Kind::EventTypes,
        ("sort", _) => Kind::SortKeys,
        ("on_expire", _) => Kind::FuseActions,
        ("name", ["schema"]) => Kind::Schemas,
        ("command", ["man"]) => Kind::Commands,
        _ => match argument.get_value_names().and_then(|names| names.first()).map_or("", |n| n) {
            "ASK" => Kind::OpenAsks,
            "ASK|ID" => Kind::AsksOrSessions,
            "GROUP" => Kind::Groups,
            "PATH|NAME" => Kind::Worktrees,
            "ID|NAME" => Kind::WorktreesOrSessions,
            "DIR" => Kind::Directories,
            "DIR|ID" => Kind::FusesOrDirectories,
            "FILE" | "COMMAND" => Kind::Files,
            _ => Kind::Text,
        },
    }
}

/// Says whether a text names a directory and not a session.
fn is_path(typed: &str) -> bool {
    typed.starts_with(['/', '~']) || typed.starts_with("./") || typed.starts_with("..")
}

/// Answers from what is on this machine; with nothing if the settings cannot be read.
fn with_fleet(completions: impl Fn(&Fleet) -> Vec<Completion>) -> Answer {
    with_loaded(|loaded| completions(&loaded.fleet()))
}

fn with_loaded(completions: impl Fn(&Loaded) -> Vec<Completion>) -> Answer {
    let loaded = crate::config::load_all();
    Answer::of(loaded.map(|loaded| completions(&loaded)).unwrap_or_default())
}

fn worktree_names(loaded: &Loaded) -> Vec<Completion> {
    worktree_completions(&loaded.host, &loaded.defaults.worktree.prefix)
}

fn possible_values(argument: &Arg) -> Vec<Completion> {
    if !argument.get_action().takes_values() {
        return Vec::new();
    }
    let values = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let completion = |value: clap::builder::PossibleValue| {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        Completion::new(value.get_name(), first_line(&help))
    };
    values.map(completion).collect()
}

fn event_types() -> Vec<Completion> {
    EventKind::ALL.iter().map(|kind| Completion::new(kind.word(), "")).collect()
}

fn sort_keys(path: &[&str]) -> Vec<Completion> {
    let keys = match path {
        ["list"] => field_names::<SessionRow>(),
        ["runs"] => field_names::<RunListRow>(),
        ["locks"] => field_names::<LockListRow>(),
        ["fuses"] => field_names::<FuseListRow>(),
        ["compare"] => field_names::<CompareListRow>(),
        ["worktree", "list"] => field_names::<WorktreeListRow>(),
        ["adapters"] => field_names::<AdapterRow>(),
        ["asks"] => field_names::<AskListRow>(),
        _ => Vec::new(),
    };
    keys.into_iter().map(|key| Completion::new(key, "")).collect()
}

fn fuse_actions() -> Vec<Completion> {
    fuses::ACTIONS.iter().map(|action| Completion::new(action.word, action.what)).collect()
}
