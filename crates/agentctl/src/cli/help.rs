//! Help pages: the command tree with groups, exit codes, variables and examples. It is made only when a page is
//! asked for, so that other commands start without it.

mod examples;
mod fields;
mod groups;
mod reference;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use anstyle::Style;
use clap::Command;

pub(super) use self::examples::{Examples, examples_of};
pub(super) use self::fields::fields_of;
pub(super) use self::groups::beside;
pub(super) use self::reference::{
    COMMON_VARIABLES, CONFIGURATION_FILE, FILES, agent_variables, exit_codes_of, variables,
};
use crate::failure::EXIT_CODES;

/// Width that every line of an example fits into.
const PAGE_WIDTH: usize = 80;

/// Returns the command tree with complete help pages.
pub(super) fn documented(root: Command) -> Command {
    let root = with_sections(root, "");
    let styles = root.get_styles();
    let (heading, literal) = (*styles.get_header(), *styles.get_literal());
    let commands = groups::listed(&root, heading, literal);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    let short = [about_configuration(heading), examples("", heading)].concat();
    let long = [reference(heading), examples("", heading)].concat();
    root.help_template(template).after_help(short).after_long_help(long)
}

/// Adds exit codes and examples to the pages of a command and its subcommands. `path` is the command without the
/// program's name.
fn with_sections(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|sub| {
        let name = sub.get_name();
        let path = if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
        with_sections(sub, &path)
    });
    if path.is_empty() {
        return command;
    }
    let heading = *command.get_styles().get_header();
    let mut text = command.get_after_help().map(|own| format!("{own}\n\n")).unwrap_or_default();
    text.push_str(&exit_status(exit_codes_of(path), heading));
    text.push_str(&examples(path, heading));
    match fields(path, heading) {
        Some(fields) => command.after_long_help(format!("{fields}{text}")).after_help(text),
        None => command.after_help(text),
    }
}

/// Returns the section with the fields of a listing command.
fn fields(path: &str, heading: Style) -> Option<String> {
    let names = fields_of(path)?.join(", ");
    let mut text = format!("{heading}Fields of templates, and sort keys:{heading:#}\n");
    for line in crate::text::wrap(&names, PAGE_WIDTH - 2) {
        let _infallible = writeln!(text, "  {line}");
    }
    text.push('\n');
    Some(text)
}

/// Returns the section with the examples of a command.
fn examples(path: &str, heading: Style) -> String {
    let Some(examples) = examples_of(path) else { return String::new() };
    let lines: Vec<(String, &str)> = examples.lines().collect();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    let mut text = format!("{heading}Examples:{heading:#}");
    for (line, what) in lines {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "\n  {line:<width$}  {what}");
    }
    text
}

fn exit_status(codes: &[(u8, &str)], heading: Style) -> String {
    if codes.is_empty() {
        return String::new();
    }
    let mut text = format!("{heading}Exit status:{heading:#}\n");
    for (code, meaning) in codes {
        let _infallible = writeln!(text, "  {code:<3}  {meaning}");
    }
    text.push('\n');
    text
}

/// Returns the lines of the short page that say where more is told.
fn about_configuration(heading: Style) -> String {
    format!(
        "{heading}Configuration:{heading:#}\n  \
         {CONFIGURATION_FILE} (`agentctl config path`)\n\n\
         `agentctl --help` lists environment variables and exit codes,\n\
         `agentctl COMMAND --help` describes a command.\n\n"
    )
}

/// Returns the sections of the long page: ids, configuration, exit codes and variables.
fn reference(heading: Style) -> String {
    let mut text = String::new();
    let mut rows = |title: &str, rows: &[(&str, &str)]| {
        let _infallible = writeln!(text, "{heading}{title}:{heading:#}");
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, what) in rows {
            let _infallible = writeln!(text, "  {name:<width$}  {what}");
        }
        text.push('\n');
    };
    rows("Session ids", super::ids::FORMS);
    rows("Files", FILES);
    rows("Environment", &variables());
    let agents = agent_variables().join(", ");
    text.truncate(text.trim_end().len());
    text.push_str("\n  Variables of the agents themselves are read too:\n");
    for line in crate::text::wrap(&agents, PAGE_WIDTH - 4) {
        let _infallible = writeln!(text, "    {line}");
    }
    text.push('\n');
    text.push_str(&exit_status(EXIT_CODES, heading));
    text
}
