//! One manual page in roff.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::super::help::{
    COMMON_VARIABLES, Examples, FILES, agent_variables, beside, examples_of, exit_codes_of,
    fields_of, variables,
};
use super::{page_name, shown};
use crate::failure::{EXIT_CODES, Kind};

/// The definition of the apostrophe that the roff writer puts before every section.
const DEFINITIONS: [&str; 2] = [".ie \\n(.g .ds Aq \\(aq", ".el .ds Aq '"];

/// Returns the page of a command of this tree.
pub(super) fn page(root: &Command, command: &Command) -> io::Result<Vec<u8>> {
    let is_root = page_name(command) == page_name(root);
    let path = path(root, command);
    let version = root.get_version().unwrap_or_default();
    let man = Man::new(command.clone());
    let title = page_name(command).to_uppercase();
    let mut text = Vec::new();
    // The empty field is the date: a page says the version that it describes instead.
    writeln!(text, ".TH {title} 1 \"\" \"{} {version}\" \"agentctl manual\"", root.get_name())?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    description(command).to_writer(&mut text)?;
    man.render_options_section(&mut text)?;
    if shown(command).next().is_some() {
        commands(command).to_writer(&mut text)?;
    }
    if let Some(fields) = fields_of(&path) {
        let mut roff = section("FIELDS");
        roff.text([roman(format!("Of templates, and sort keys: {}.", fields.join(", ")))]);
        roff.to_writer(&mut text)?;
    }
    if let Some(more) = command.get_after_help() {
        notes(&more.to_string()).to_writer(&mut text)?;
    }
    examples(&path).to_writer(&mut text)?;
    exit_status(&path).to_writer(&mut text)?;
    rows("FILES", FILES.iter().copied()).to_writer(&mut text)?;
    environment(is_root).to_writer(&mut text)?;
    see_also(root, command).to_writer(&mut text)?;
    Ok(with_literals(&String::from_utf8_lossy(&text)).into_bytes())
}

/// Returns the words of a command behind the program's name.
fn path(root: &Command, command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.strip_prefix(root.get_name()).unwrap_or(name).trim().to_owned()
}

fn section(title: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    roff
}

fn synopsis(command: &Command) -> Roff {
    let mut roff = section("SYNOPSIS");
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage:").unwrap_or(&usage).trim();
    let rest = usage.strip_prefix(&name).unwrap_or(usage).to_owned();
    roff.text([bold(name), roman(rest)]);
    roff
}

/// Returns the long text of a command. The short one is in the section NAME already.
fn description(command: &Command) -> Roff {
    let mut roff = section("DESCRIPTION");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let long = long.strip_prefix(&about).unwrap_or(&long).trim();
    let text = if long.is_empty() { format!("{about}.") } else { long.to_owned() };
    for paragraph in text.split("\n\n") {
        roff.control("PP", []);
        roff.text([roman(paragraph.replace('\n', " "))]);
    }
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        roff.control("PP", []);
        roff.text([roman(format!("Aliases: {}.", aliases.join(", ")))]);
    }
    roff
}

fn commands(command: &Command) -> Roff {
    let mut roff = section("COMMANDS");
    for sub in shown(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        roff.control("TP", []);
        roff.text([bold(page_name(sub)), roman("(1)")]);
        let aliases: Vec<&str> = sub.get_visible_aliases().collect();
        let aliases = match aliases.as_slice() {
            [] => String::new(),
            several => format!(" (alias: {})", several.join(", ")),
        };
        roff.text([roman(format!("{about}{aliases}"))]);
    }
    roff
}

/// Returns a text whose lines keep their places.
fn notes(text: &str) -> Roff {
    let mut roff = section("NOTES");
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

fn examples(path: &str) -> Roff {
    let mut roff = section("EXAMPLES");
    for (line, what) in examples_of(path).into_iter().flat_map(Examples::lines) {
        roff.control("PP", []);
        roff.text([roman(format!("{what}:"))]);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff
}

fn exit_status(path: &str) -> Roff {
    let own = exit_codes_of(path);
    let mut codes = own.to_vec();
    let is_own = |code: u8| own.iter().any(|(own, _)| *own == code);
    codes.extend(
        EXIT_CODES
            .iter()
            .filter(|(code, _)| !is_own(*code) && (path.is_empty() || !is_code_of_waiting(*code))),
    );
    codes.sort_unstable_by_key(|(code, _)| *code);
    let mut roff = section("EXIT STATUS");
    for (code, meaning) in codes {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(meaning)]);
    }
    roff
}

/// Says whether only commands that wait for a session have this exit code. Other pages leave it out.
fn is_code_of_waiting(code: u8) -> bool {
    [Kind::Blocked, Kind::TimedOut].iter().any(|kind| kind.exit_code() == code)
}

fn rows<'a>(title: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> Roff {
    let mut roff = section(title);
    for (name, what) in rows {
        roff.control("TP", []);
        roff.text([italic(name)]);
        roff.text([roman(what)]);
    }
    roff
}

fn environment(is_root: bool) -> Roff {
    let named = if is_root { variables() } else { COMMON_VARIABLES.to_vec() };
    let mut roff = rows("ENVIRONMENT", named.into_iter());
    roff.control("PP", []);
    roff.text([roman(if is_root {
        format!(
            "Variables of the agents themselves are read too: {}.",
            agent_variables().join(", ")
        )
    } else {
        "The page agentctl(1) names all variables.".to_owned()
    })]);
    roff
}

/// Names the pages of agentctl, of the command above, and of the commands beside and below this one.
fn see_also(root: &Command, command: &Command) -> Roff {
    let path = path(root, command);
    let words: Vec<&str> = path.split_whitespace().collect();
    let mut names: Vec<String> = shown(command).map(page_name).collect();
    if let [first, ..] = words.as_slice() {
        names.push(page_name(root));
        names.extend(beside(first).map(|name| format!("{}-{name}", root.get_name())));
    }
    if let [first, _] = words.as_slice()
        && let Some(parent) = root.find_subcommand(first)
    {
        names.push(page_name(parent));
        names.extend(shown(parent).map(page_name));
    }
    names.sort_unstable();
    names.dedup();
    names.retain(|name| *name != page_name(command));
    let mut roff = section("SEE ALSO");
    let mut line = Vec::new();
    for (at, name) in names.iter().enumerate() {
        line.push(bold(name.as_str()));
        line.push(roman(if at + 1 == names.len() { "(1)" } else { "(1), " }));
    }
    roff.text(line);
    roff
}

/// Prints words in backquotes bold: roff would show a backquote as an opening quotation mark. The definition of the
/// apostrophe, which every section begins with, is kept once. Characters beyond ASCII are written by their number.
fn with_literals(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let is_repeated = |line: &&str| DEFINITIONS.contains(line);
    for line in DEFINITIONS.into_iter().chain(page.lines().filter(|line| !is_repeated(line))) {
        let is_text = !line.starts_with('.') && line.matches('`').count() % 2 == 0;
        for (at, part) in line.split('`').enumerate() {
            text.push_str(match (at, is_text) {
                (0, _) => "",
                (_, false) => "\\(ga",
                (at, true) if at % 2 == 1 => "\\fB",
                (_, true) => "\\fR",
            });
            for c in part.chars() {
                if c.is_ascii() {
                    text.push(c);
                } else {
                    // Writing to a String cannot fail.
                    let _infallible = write!(text, "\\[u{:04X}]", u32::from(c));
                }
            }
        }
        text.push('\n');
    }
    text
}
