//! Errors of the command-line parser in the words of agentctl: one sentence, and a hint.

use std::error::Error;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::mistyped;
use crate::failure::{Failure, Kind};

/// Returns the failure for an error of the parser; `path` is the command that was typed: `agentctl fuse set`.
pub(super) fn failure(path: &str, error: &clap::Error) -> Failure {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    let see = format!("see `{path} --help`");
    let argument = texts(error, ContextKind::InvalidArg);
    let name = argument.first().map(|text| name(text)).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidValue => invalid_value(path, &name, error),
        ErrorKind::ValueValidation => validation(path, &name, error),
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = argument.iter().map(|text| self::name(text)).collect();
            usage(format!("`{path}` needs {}", missing.join(" and ")))
                .hint(format!("`{path} --help` shows its arguments"))
        }
        ErrorKind::ArgumentConflict => {
            let others: Vec<String> =
                texts(error, ContextKind::PriorArg).iter().map(|text| self::name(text)).collect();
            if others.is_empty() || others.contains(&name) {
                return usage(format!("{name} is given more than once")).hint("give it once");
            }
            usage(format!("{name} and {} cannot be used together", others.join(", ")))
                .hint("leave one of them out")
        }
        ErrorKind::TooManyValues => usage(format!("{name} takes no value")).hint(see),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues | ErrorKind::NoEquals => {
            usage(format!("{name} needs a value")).hint(see)
        }
        ErrorKind::InvalidUtf8 => usage("an argument is not valid UTF-8".to_owned()).hint(see),
        ErrorKind::MissingSubcommand => usage("no command is given".to_owned())
            .hint(format!("`{path} --help` lists the commands")),
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            usage(first.trim_start_matches("error: ").to_owned()).hint(see)
        }
    }
}

/// Returns the failure for a value that is missing, or that is none of the possible values.
fn invalid_value(path: &str, name: &str, error: &clap::Error) -> Failure {
    let known = texts(error, ContextKind::ValidValue);
    let value = texts(error, ContextKind::InvalidValue).pop().unwrap_or_default();
    let message = if value.is_empty() {
        format!("{name} needs a value")
    } else {
        format!("`{value}` is not a value of {name}")
    };
    let failure = Failure::new(Kind::Usage, message);
    if known.is_empty() {
        return failure.hint(format!("see `{path} --help`"));
    }
    let values = format!("values: {}", known.join(", "));
    match mistyped(&value, known.iter().map(String::as_str)) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`? {values}")),
        None => failure.hint(values),
    }
}

/// Returns the failure for a value that cannot be read. A reason of ours has its hint after a semicolon.
fn validation(path: &str, name: &str, error: &clap::Error) -> Failure {
    let value = texts(error, ContextKind::InvalidValue).pop().unwrap_or_default();
    let source = error.source();
    let reason = if source.is_some_and(<dyn std::error::Error>::is::<ParseIntError>) {
        format!("`{value}` is not a whole number")
    } else {
        source.map_or_else(|| format!("`{value}` cannot be used"), ToString::to_string)
    };
    let (sentence, hint) = match reason.split_once("; ") {
        Some((sentence, hint)) => (sentence.to_owned(), hint.to_owned()),
        None => (reason, format!("see `{path} --help`")),
    };
    Failure::new(Kind::Usage, format!("{name}: {sentence}")).hint(hint)
}

/// Returns an argument as a person writes it: `--limit` of `--limit <N>`, and `ID` of `<ID>` or `[ID]...`.
fn name(argument: &str) -> String {
    let first = argument.split([' ', '=']).next().unwrap_or_default();
    let first = if first.starts_with('-') { first } else { argument };
    first.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_owned()
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn an_argument_is_named_as_it_is_typed() {
        for (argument, expected) in [
            ("--limit <N>", "--limit"),
            ("--limit=<N>", "--limit"),
            ("--json", "--json"),
            ("<ID>", "ID"),
            ("[ID]...", "ID"),
            ("<ID>...", "ID"),
        ] {
            assert_eq!(name(argument), expected);
        }
    }
}
