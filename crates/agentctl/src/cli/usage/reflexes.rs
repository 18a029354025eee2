//! Commands and options that people know from other programs, each with the command of agentctl that does the same.

/// Commands that do not exist yet, each with the command that answers the same question today.
const NOT_YET: &[(&[&str], &str)] = &[
    (
        &["top", "tui", "ui"],
        "`agentctl list --watch` shows live sessions and redraws when something changes",
    ),
    (&["cost", "usage", "stats"], "`agentctl status ID` shows tokens and cost of a session"),
    (&["search", "grep"], "search one conversation: `agentctl logs ID -n all | grep TEXT`"),
    (&["export"], "`agentctl logs ID -n all --json` prints a whole conversation"),
];

/// Names that other programs use for a command of agentctl.
const OTHER_COMMANDS: &[(&str, &[&str], &str)] = &[
    (
        "agentctl",
        &["start"],
        "`agentctl launch` starts an agent, `agentctl resume` continues a session, `agentctl daemon start` starts the daemon",
    ),
    (
        "agentctl",
        &["restart"],
        "stop the session and continue it: `agentctl stop ID`, then `agentctl resume ID MESSAGE`",
    ),
    ("agentctl", &["rename"], "`agentctl name ID NAME` names a session"),
    (
        "agentctl",
        &["watch"],
        "`agentctl list --watch` watches sessions, `agentctl logs -f ID` a conversation",
    ),
    ("agentctl", &["serve", "dashboard", "gui"], "`agentctl web` serves a page for the browser"),
    ("agentctl", &["open"], "`agentctl attach ID` opens a session in a terminal"),
    ("agentctl", &["new", "create"], "`agentctl launch ADAPTER \"PROMPT\"` starts an agent"),
    ("agentctl", &["delete", "remove"], "`agentctl rm ID` removes the runs of a session"),
    ("agentctl", &["get"], "`agentctl list` lists sessions, `agentctl status ID` shows one"),
    ("agentctl", &["describe"], "`agentctl status ID` shows a session in full"),
    ("fuse", &["ls", "list", "ps"], "`agentctl fuses` lists the fuses"),
    ("fuse", &["rm", "delete", "remove", "unset"], "`agentctl fuse cancel` cancels a fuse"),
    (
        "config",
        &["edit", "set", "get", "unset", "list"],
        "edit the file: $EDITOR \"$(agentctl config path)\"; `agentctl config show` shows the settings in force",
    ),
];

/// Options that other programs have, by the command of agentctl that they are given to.
const OTHER_OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "stop",
        &["-9", "-f", "-s", "-k", "-K", "-S", "--signal", "--kill"],
        "--force kills at once; without it the agent is asked to exit first",
    ),
    ("stop", &["-t", "--time"], "write the time with its unit: --timeout 5s"),
    (
        "launch",
        &["-d", "--detach", "--background"],
        "leave it out: a launched agent always runs in the background; --follow shows its conversation",
    ),
    (
        "launch",
        &["-i", "-t", "--interactive", "--tty"],
        "a launched agent has no terminal: `agentctl attach ID` opens an ended session with its agent's own command",
    ),
];

/// Returns the hint for a command that does not exist yet.
pub(super) fn command_that_does_not_exist_yet(word: &str) -> Option<&'static str> {
    NOT_YET.iter().find(|(words, _)| words.contains(&word)).map(|(_, hint)| *hint)
}

/// Returns the hint for a command that another program has; `parent` is the command above it.
pub(super) fn command_of_another_program(parent: &str, word: &str) -> Option<&'static str> {
    found(OTHER_COMMANDS, parent, word)
}

/// Returns the hint for an option that another program has.
pub(super) fn option_of_another_program(command: &str, option: &str) -> Option<&'static str> {
    found(OTHER_OPTIONS, command, option)
}

fn found(
    table: &'static [(&str, &[&str], &str)],
    command: &str,
    word: &str,
) -> Option<&'static str> {
    let row = table.iter().find(|(of, words, _)| *of == command && words.contains(&word));
    row.map(|(_, _, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::{NOT_YET, OTHER_COMMANDS, OTHER_OPTIONS};

    fn command<'a>(root: &'a Command, name: &str) -> &'a Command {
        if root.get_name() == name { root } else { root.find_subcommand(name).expect("a command") }
    }

    #[test]
    fn every_command_that_a_hint_names_exists_and_no_word_is_a_command() {
        let root = crate::cli::Cli::command();
        let not_yet = NOT_YET.iter().map(|(words, hint)| (&"agentctl", words, hint));
        for (parent, words, hint) in not_yet.chain(OTHER_COMMANDS.iter().map(|(p, w, h)| (p, w, h)))
        {
            for word in *words {
                let known = command(&root, parent).find_subcommand(word);
                assert!(known.is_none(), "`{parent} {word}` exists now");
            }
            let named: Vec<&str> = hint.split("agentctl ").skip(1).collect();
            assert!(!named.is_empty(), "{hint}");
            for rest in named {
                let name = rest.split([' ', '`', ')']).next().unwrap_or_default();
                assert!(root.find_subcommand(name).is_some(), "{hint}: {name}");
            }
        }
    }

    #[test]
    fn no_option_of_another_program_is_an_option_of_the_command() {
        let root = crate::cli::Cli::command();
        for (name, options, _) in OTHER_OPTIONS {
            for option in *options {
                let is_known = command(&root, name).get_arguments().any(|arg| {
                    let long = arg.get_long().map(|long| format!("--{long}"));
                    let short = arg.get_short().map(|short| format!("-{short}"));
                    long.as_deref() == Some(*option) || short.as_deref() == Some(*option)
                });
                assert!(!is_known, "`{name} {option}` exists now");
            }
        }
    }
}
