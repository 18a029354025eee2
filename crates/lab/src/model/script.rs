//! The prompt is the script: directives in double square brackets say what the model does.
//!
//! | directive | what the model does |
//! |---|---|
//! | `[[say:TEXT]]` | answers TEXT; without it, `ok: ` and the first words of the prompt |
//! | `[[tool:CMD]]` | asks for CMD in the agent's shell; several are asked in order, one per request |
//! | `[[call:NAME JSON]]` | asks for any tool; `NAMESPACE/NAME` where the API has namespaces |
//! | `[[delay:S]]` | waits S seconds before the first byte of each response |
//! | `[[drip:S]]` | spreads the final answer over S seconds |
//! | `[[pace:S]]` | waits S seconds behind each block of a streamed answer: a client that writes blocks down as they end does so before the final usage |
//! | `[[think:TEXT]]` | thinks first |
//! | `[[error:CODE]]` | answers with this HTTP status, once the tools before it are done |
//! | `[[error:CODE*N]]` | the same for the first N requests with this prompt, then carries on |
//! | `[[hang]]` | takes the request and never answers |
//! | `[[cut]]` | begins the final answer, then drops the connection |
//!
//! Brackets nest, so an argument may hold a subagent's script or a shell's `[[ -f x ]]`. An unclosed
//! directive is plain text. JSON that ends in `]]` needs a space there: `[1, [2] ]`.

use std::time::Duration;

use serde_json::Value;

const KINDS: [&str; 10] =
    ["say", "tool", "call", "delay", "drip", "pace", "think", "error", "hang", "cut"];

/// How many words of the prompt the unscripted answer repeats.
const ECHOED_WORDS: usize = 12;

/// One tool call that the script asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// A command for the agent's shell tool, whichever it has.
    Shell(String),
    /// A tool by its name, with its arguments.
    Call(String, Value),
}

/// An HTTP error to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: u16,
    /// For how many requests; `None` for all of them.
    pub(super) times: Option<u32>,
    /// After how many tools.
    pub(super) after: usize,
}

/// The script of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) answer: String,
    pub(super) delay: Duration,
    pub(super) drip: Duration,
    pub(super) pace: Duration,
    pub(super) think: Option<String>,
    pub(super) failure: Option<Failure>,
    pub(super) hang: bool,
    pub(super) cut: bool,
}

impl Script {
    /// Reads a prompt; the error says which directive makes no sense.
    pub(super) fn of(prompt: &str) -> Result<Self, String> {
        let (found, plain) = directives(prompt);
        let mut script = Self::default();
        let mut say = None;
        for (kind, argument) in found {
            match kind {
                "say" => say = Some(argument.to_owned()),
                "tool" => script.steps.push(Step::Shell(argument.to_owned())),
                "call" => script.steps.push(call(argument)?),
                "delay" => script.delay = seconds(kind, argument)?,
                "drip" => script.drip = seconds(kind, argument)?,
                "pace" => script.pace = seconds(kind, argument)?,
                "think" => script.think = Some(argument.to_owned()),
                "error" => script.failure = Some(failure(argument, script.steps.len())?),
                "hang" => script.hang = true,
                _ => script.cut = true,
            }
        }
        script.answer = say.unwrap_or_else(|| {
            let words: Vec<&str> = plain.split_whitespace().take(ECHOED_WORDS).collect();
            format!("ok: {}", words.join(" "))
        });
        Ok(script)
    }
}

fn call(argument: &str) -> Result<Step, String> {
    let (name, json) = argument.trim().split_once(' ').unwrap_or((argument.trim(), "{}"));
    let arguments =
        serde_json::from_str(json).map_err(|e| format!("the arguments of `{name}`: {e}"))?;
    Ok(Step::Call(name.to_owned(), arguments))
}

fn seconds(kind: &str, argument: &str) -> Result<Duration, String> {
    let number = argument.trim().parse::<f64>().ok();
    number
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| format!("`{kind}` wants seconds, not `{argument}`"))
}

fn failure(argument: &str, after: usize) -> Result<Failure, String> {
    let (status, times) = match argument.split_once('*') {
        Some((status, times)) => (status, times.trim().parse().map(Some)),
        None => (argument, Ok(None)),
    };
    match (status.trim().parse(), times) {
        (Ok(status @ 400..=599), Ok(times)) => Ok(Failure { status, times, after }),
        _ => Err(format!("`error` wants 400 to 599, or that and `*N`, not `{argument}`")),
    }
}

/// Returns the directives of a text, in order, and the text around them.
fn directives(text: &str) -> (Vec<(&'static str, &str)>, String) {
    let (mut found, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find("[[") {
        let inside = &rest[at + 2..];
        let Some((kind, argument, after)) = directive(inside) else {
            // One bracket only: in `[[[say:x]]` the directive begins at the second.
            plain.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        };
        plain.push_str(&rest[..at]);
        found.push((kind, argument));
        rest = after;
    }
    plain.push_str(rest);
    (found, plain)
}

/// Reads one directive behind its opening brackets: its kind, its argument, and the rest.
fn directive(inside: &str) -> Option<(&'static str, &str, &str)> {
    let kind = KINDS.into_iter().find(|kind| {
        inside
            .strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with(':') || rest.starts_with("]]"))
    })?;
    let body = &inside[kind.len()..];
    let (mut depth, mut at) = (1_usize, 0);
    while depth > 0 {
        at += body[at..].find(['[', ']'])?;
        match &body.as_bytes()[at..] {
            [b'[', b'[', ..] => (depth, at) = (depth + 1, at + 2),
            [b']', b']', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    let argument = &body[..at - 2];
    Some((kind, argument.strip_prefix(':').unwrap_or(argument), &body[at..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_without_directives_is_echoed() {
        let script = Script::of("one two  three 4 5 6 7 8 9 10 11 12 13").unwrap();
        assert_eq!(script.answer, "ok: one two three 4 5 6 7 8 9 10 11 12");
        assert_eq!(script.steps, []);
    }

    #[test]
    fn every_directive_is_read() {
        let script = Script::of(
            "go [[tool:ls -l]] [[call:mcp/Read {\"path\": \"x\"}]] [[call:Bare]] [[delay:0.5]] \
             [[drip:2]] [[pace:1]] [[think:hm]] [[error:429*2]] [[hang]] [[cut]] [[say:done]]",
        )
        .unwrap();
        let steps = vec![
            Step::Shell("ls -l".into()),
            Step::Call("mcp/Read".into(), json!({"path": "x"})),
            Step::Call("Bare".into(), json!({})),
        ];
        let expected = Script {
            steps,
            answer: "done".into(),
            delay: Duration::from_millis(500),
            drip: Duration::from_secs(2),
            pace: Duration::from_secs(1),
            think: Some("hm".into()),
            failure: Some(Failure { status: 429, times: Some(2), after: 3 }),
            hang: true,
            cut: true,
        };
        assert_eq!(script, expected);
        let failure = Script::of("[[error:500]]").unwrap().failure;
        assert_eq!(failure, Some(Failure { status: 500, times: None, after: 0 }));
    }

    #[test]
    fn brackets_nest() {
        let script =
            Script::of(r#"[[call:Task {"prompt": "x [[tool:[[ -f y ]] && ls]] [[say:z]]"}]]"#);
        let inner = json!({"prompt": "x [[tool:[[ -f y ]] && ls]] [[say:z]]"});
        assert_eq!(script.unwrap().steps, [Step::Call("Task".into(), inner)]);
        let script = Script::of("[[tool:[[ -d é ]] || true]] rest").unwrap();
        assert_eq!(script.steps, [Step::Shell("[[ -d é ]] || true".into())]);
        assert_eq!(script.answer, "ok: rest");
    }

    #[test]
    fn an_unclosed_directive_is_plain_text() {
        for text in ["[[say:never closed", "[[sayings:x]]", "[[", "[[ say:x]]", "[[hang on]]"] {
            let script = Script::of(text).unwrap();
            assert_eq!(script, Script { answer: format!("ok: {text}"), ..Script::default() });
        }
        assert_eq!(Script::of("[[say:[[say:inner]]").unwrap().answer, "inner");
        assert_eq!(Script::of("[[[say:x]]").unwrap().answer, "x");
    }

    #[test]
    fn a_directive_that_makes_no_sense_is_an_error() {
        for text in [
            "[[delay:soon]]",
            "[[delay:-1]]",
            "[[drip:inf]]",
            "[[drip]]",
            "[[pace:x]]",
            "[[error:99]]",
            "[[error:429*x]]",
            "[[error]]",
            "[[call:Read {]]",
        ] {
            assert!(Script::of(text).is_err(), "{text}");
        }
    }
}
