//! The commands by purpose, as the help page of the program shows them.

use std::fmt::Write;

use anstyle::Style;
use clap::Command;

use super::super::demo;

/// The commands by purpose. Every visible command is in exactly one group: a test compares.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Look", &["list", "top", "status", "why", "logs", "changes", "events"]),
    ("Act", &["launch", "resume", "attach", "wait", "stop"]),
    ("Compare", &["diff", "compare", "worktree"]),
    ("Answer", &["asks", "answer", "approve", "deny"]),
    ("Name", &["name", "group"]),
    ("Guard", &["lock", "unlock", "locks", "fuse", "fuses"]),
    ("Keep", &["runs", "prune", "rm"]),
    ("Service", &["daemon", "web", "mcp", "notify"]),
    (
        "Setup",
        &["doctor", "config", "adapters", demo::COMMAND, "completions", "man", "schema", "version"],
    ),
];

/// Returns the other commands of the group of a command.
pub(in crate::cli) fn beside(command: &str) -> impl Iterator<Item = &'static str> {
    let group = GROUPS.iter().find(|(_, names)| names.contains(&command));
    let names = group.map_or(&[][..], |(_, names)| names);
    names.iter().copied().filter(move |name| *name != command)
}

/// Width of the column of command names.
const NAME_WIDTH: usize = 13;

/// Returns the commands by group, each with its description and aliases, as a part of a help template.
pub(super) fn listed(root: &Command, heading: Style, name_style: Style) -> String {
    let mut text = String::new();
    for (group, names) in GROUPS {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{heading}{group}:{heading:#}");
        for name in *names {
            let Some(command) = root.find_subcommand(name) else { continue };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let aliases = match aliases.as_slice() {
                [] => String::new(),
                [one] => format!(" [alias: {one}]"),
                several => format!(" [aliases: {}]", several.join(", ")),
            };
            let _infallible = writeln!(
                text,
                "  {name_style}{name}{name_style:#}{:gap$}{about}{aliases}",
                "",
                gap = NAME_WIDTH.saturating_sub(name.len())
            );
        }
        text.push('\n');
    }
    text
}
