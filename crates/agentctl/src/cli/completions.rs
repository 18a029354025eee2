//! `agentctl completions`: prints a script for a shell. The script asks this program for every word that is
//! completed (`agentctl __complete`), so that it offers the sessions, names and groups of that moment.
//!
//! A question about a word never fails and never takes long: it starts nothing, writes nothing, and its exit code
//! is 0 also if there is nothing to offer. It is handled before arguments are parsed, because the arguments are
//! another, unfinished command line.

mod answer;
mod position;
mod values;
mod words;

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_core::ask::{COMPLETION_SHELLS, CompletionShell};
use clap::{Args, ValueEnum};

use self::answer::Answer;
use self::words::LastWord;
use crate::failure::Outcome;
use crate::ui::Ui;

/// The word behind the program's name with which a script asks.
const QUESTION: &str = "__complete";
/// Time limit for an answer. A person waits for it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = installation())]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell whose words are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Returns the lines of the help page that say how the scripts are installed.
fn installation() -> String {
    let mut text = "To install:".to_owned();
    for CompletionShell { name, line, start_up, place, .. } in &COMPLETION_SHELLS {
        let gap = if place.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _infallible = write!(text, "\n  {name:<5}  {line:<37}  in ~/{start_up}{gap}{place}");
    }
    text
}

pub(super) fn cmd_completions(ui: &mut Ui, args: &CompletionsArgs) -> Outcome {
    let script = match args.shell {
        Shell::Bash => include_str!("completions/agentctl.bash"),
        Shell::Zsh => include_str!("completions/agentctl.zsh"),
        Shell::Fish => include_str!("completions/agentctl.fish"),
    };
    ui.raw(script.as_bytes())?;
    ui.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Answers the question of a script, if this command line is one.
pub(super) fn answered(ui: &mut Ui, args: &[OsString]) -> Option<Outcome> {
    let (_, [word, question @ ..]) = args.split_first()? else { return None };
    if word != QUESTION {
        return None;
    }
    let question: Vec<String> =
        question.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (sender, receiver) = channel();
    // The answer is given up with this thread: the process ends.
    std::thread::spawn(move || sender.send(answer(&question)));
    let text = receiver.recv_timeout(ANSWER_LIMIT).ok().flatten().unwrap_or_default();
    // Without a reader there is nothing to report either.
    let _unread = ui.raw(text.as_bytes()).and_then(|()| ui.flush());
    Some(Ok(ExitCode::SUCCESS))
}

/// Returns what is printed for a question: the shell, and the words up to the cursor. Bash sends the width of the
/// terminal, the kind of completion, the part of the word that it replaces, and the line up to the cursor.
fn answer(question: &[String]) -> Option<String> {
    let (shell, rest) = question.split_first()?;
    let shell = Shell::from_str(shell, false).ok()?;
    match (shell, rest) {
        (Shell::Bash, [columns, kind, replaced, line]) => {
            let line = words::split(line);
            let answer = if line.is_redirected {
                Answer::files()
            } else {
                values::answer(line.words.get(1..)?, &line.last.text, values::Filter::Prefix)
            };
            let listing = answer::BashListing { columns: columns.parse().ok()?, kind };
            Some(answer::for_bash(answer, &line.last, replaced, &listing))
        }
        (Shell::Zsh, [words @ .., current]) => {
            Some(answer::for_zsh(&values::answer(words, current, values::Filter::Shell)))
        }
        (Shell::Fish, [words @ .., current]) => {
            // Fish sends the current word as it is typed, with its quotes.
            let LastWord { text, .. } = words::split(current).last;
            Some(answer::for_fish(&values::answer(words, &text, values::Filter::Shell)))
        }
        _ => None,
    }
}
