//! The prompt as a script: `[[say:…]] [[tool:CMD]] [[delay:S]] [[error:…]] [[hang]]
//! [[ask:QUESTION]] [[secret:QUESTION]] [[permit:CMD]] [[write:PATH|TEXT]]`.
//!
//! Brackets nest, so an argument may hold a shell test; an unclosed directive is plain text.

use std::time::Duration;

/// One step of the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Answer.
    Say(String),
    /// Run a shell command.
    Tool(String),
    /// Write a file: its path and its text, without the newline at its end.
    Write(String, String),
    /// Wait.
    Delay(Duration),
    /// Fail the turn.
    Error(String),
    /// Never answer.
    Hang,
    /// Ask the user and wait; options follow the question, separated by `|`.
    Ask(String),
    /// A question whose answer is a secret.
    AskSecret(String),
    /// Ask for permission to run a shell command, and run it if that is allowed.
    Permit(String),
}

/// Reads a prompt; without directives, returns a short plausible turn.
pub(super) fn read(prompt: &str) -> Vec<Step> {
    let (mut steps, plain) = directives(prompt);
    let gist: String = plain.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
    if steps.is_empty() {
        return plausible(&gist);
    }
    let ends = matches!(steps.last(), Some(Step::Say(_) | Step::Error(_) | Step::Hang));
    if !ends {
        steps.push(Step::Say(format!("ok: {gist}")));
    }
    steps
}

fn plausible(gist: &str) -> Vec<Step> {
    vec![
        Step::Delay(Duration::from_millis(400)),
        Step::Say(format!("Let me look around before I start on “{gist}”.")),
        Step::Tool("ls -la | head -20".into()),
        Step::Delay(Duration::from_millis(600)),
        Step::Say("Done. Nothing needed changing.".into()),
    ]
}

fn directives(text: &str) -> (Vec<Step>, String) {
    let (mut steps, mut plain) = (Vec::new(), String::new());
    let mut rest = text;
    while let Some(open) = rest.find("[[") {
        plain.push_str(&rest[..open]);
        let inside = &rest[open + 2..];
        match closing(inside).and_then(|end| Some((step(&inside[..end])?, end))) {
            Some((step, end)) => {
                steps.push(step);
                rest = &inside[end + 2..];
            }
            None => {
                plain.push_str("[[");
                rest = inside;
            }
        }
    }
    plain.push_str(rest);
    (steps, plain)
}

fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (1, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"[[" => (depth, at) = (depth + 1, at + 2),
            b"]]" if depth == 1 => return Some(at),
            b"]]" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    None
}

fn step(text: &str) -> Option<Step> {
    let (word, argument) = text.split_once(':').unwrap_or((text, ""));
    Some(match word {
        "say" => Step::Say(argument.to_owned()),
        "tool" => Step::Tool(argument.to_owned()),
        "write" => {
            let (path, text) = argument.split_once('|').unwrap_or((argument, ""));
            Step::Write(path.trim().to_owned(), text.replace("\\n", "\n"))
        }
        "ask" => Step::Ask(argument.to_owned()),
        "secret" => Step::AskSecret(argument.to_owned()),
        "permit" => Step::Permit(argument.to_owned()),
        "error" => Step::Error(argument.to_owned()),
        "hang" => Step::Hang,
        "delay" => Step::Delay(Duration::try_from_secs_f64(argument.parse().ok()?).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_nest_and_rubbish_is_text() {
        let prompt = "fix [[tool:[[ -e x ]] && echo y]] [[delay:0.5]] [[nonsense:1]] [[say:done]] [[say:open";
        let (steps, plain) = directives(prompt);
        let delay = Step::Delay(Duration::from_millis(500));
        assert_eq!(
            steps,
            [Step::Tool("[[ -e x ]] && echo y".into()), delay, Step::Say("done".into())]
        );
        assert_eq!(plain, "fix   [[nonsense:1]]  [[say:open");
    }

    #[test]
    fn every_turn_ends_in_an_answer_an_error_or_never() {
        for prompt in
            ["", "hello", "a [[tool:true]]", "[[ask:Which?]]", "[[error:boom]]", "x [[hang]]"]
        {
            let last = read(prompt).pop();
            assert!(matches!(last, Some(Step::Say(_) | Step::Error(_) | Step::Hang)), "{prompt}");
        }
        assert_eq!(read("[[delay:-1]] [[delay:nan]]"), plausible("[[delay:-1]] [[delay:nan]]"));
    }
}
