//! The text of an issue, as `gh` prints it.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{ContextError, IssueReference, MAX_FILE_BYTES};
use crate::host::Host;
use crate::kernel::{Spawn, Stdio};
use crate::marks::{AGENT_ENV, MARKER};

/// Timeout of `gh`.
const GH_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit of the output of `gh` that is read.
const MAX_OUTPUT_BYTES: u64 = 8 << 20;
/// Longest excerpt of the output of a `gh` that failed.
const MAX_REASON_CHARS: usize = 200;
/// The end of an issue that was cut.
const CUT: &str = "\n[the rest of the issue is left out: it is longer than 50 kB]\n";

#[derive(Deserialize)]
struct Issue {
    title: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    comments: Vec<Comment>,
}

#[derive(Deserialize)]
struct Comment {
    author: Option<Author>,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
struct Author {
    login: String,
}

/// Asks `gh` for an issue and returns its title, its body and its comments.
pub(super) fn text(
    host: &Host,
    cwd: &Path,
    issue: &IssueReference,
) -> Result<String, ContextError> {
    let number = issue.number;
    let failed = |why: String| ContextError::Issue { number, why };
    let mut args = vec!["issue".to_owned(), "view".to_owned(), number.to_string()];
    if let Some(repository) = &issue.repository {
        if !is_repository(repository) {
            return Err(ContextError::Repository(repository.clone()));
        }
        args.extend(["--repo".to_owned(), repository.clone()]);
    }
    args.extend(["--json".to_owned(), "title,body,comments".to_owned()]);
    let program = host.which("gh").ok_or(ContextError::NoGh(number))?;
    let quiet = [("GH_PROMPT_DISABLED", "1"), ("GH_NO_UPDATE_NOTIFIER", "1"), ("NO_COLOR", "1")];
    let spawn = Spawn {
        program,
        args: args.into_iter().map(Into::into).collect(),
        set: quiet.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        unset: [MARKER, AGENT_ENV, "GH_FORCE_TTY"].map(str::to_owned).to_vec(),
        cwd: cwd.to_owned(),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        keep: Vec::new(),
    };
    let ended = spawn
        .attended(GH_TIMEOUT, MAX_OUTPUT_BYTES)
        .map_err(|error| failed(format!("`gh` cannot be started: {error}")))?;
    let said = String::from_utf8_lossy(&ended.said);
    match ended.exit {
        None => Err(failed("`gh` did not answer within 20 s".to_owned())),
        Some(exit) if exit.code == Some(0) => {
            issue_in(&said).map(|issue| issue.quoted()).map_err(failed)
        }
        Some(_) => {
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            let why = crate::model::shorten(last.unwrap_or("it said nothing"), MAX_REASON_CHARS);
            Err(failed(format!("`gh` failed: {why}")))
        }
    }
}

/// Says whether a text is `OWNER/REPOSITORY`, with a host in front of it or without.
fn is_repository(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_name = |part: &&str| {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && !part.starts_with('-') && part.chars().all(known)
    };
    matches!(parts.len(), 2 | 3) && parts.iter().all(is_name)
}

/// Returns the issue in the output of `gh`. Notices may stand in front of it and behind it.
fn issue_in(said: &str) -> Result<Issue, String> {
    let start = said.find('{').unwrap_or_default();
    let mut documents = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Issue>();
    match documents.next() {
        Some(Ok(issue)) => Ok(issue),
        Some(Err(error)) => Err(format!("the answer of `gh` is not understood: {error}")),
        None => Err("`gh` answered nothing".to_owned()),
    }
}

impl Issue {
    /// Returns title, body and comments as one text, up to the limit of a file.
    fn quoted(&self) -> String {
        let mut text = format!("Title: {}\n\n{}\n", self.title.trim(), self.body.trim_end());
        for comment in &self.comments {
            let author = comment.author.as_ref().map_or("unknown", |author| &author.login);
            text.push_str(&format!("\nComment by {author}:\n\n{}\n", comment.body.trim_end()));
        }
        let text = text.replace("\r\n", "\n").replace('\0', "");
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        if text.len() <= limit {
            return text;
        }
        let end = text.floor_char_boundary(limit - CUT.len());
        format!("{}{CUT}", &text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_around_the_answer_are_passed_over() {
        let said = "warning: old\n{\"title\":\"T\",\"body\":\"B\",\"comments\":[{\"author\":null,\"body\":\"C\"}]}\nnew gh\n";
        let issue = issue_in(said).expect("an issue");
        assert_eq!(issue.quoted(), "Title: T\n\nB\n\nComment by unknown:\n\nC\n");
        assert!(issue_in("").is_err() && issue_in("{\"x\":1}").is_err());
    }

    #[test]
    fn a_long_issue_is_cut_and_says_so() {
        let issue = Issue { title: "T".into(), body: "ü".repeat(40_000), comments: Vec::new() };
        let quoted = issue.quoted();
        assert!(quoted.len() as u64 <= MAX_FILE_BYTES && quoted.ends_with(CUT), "{}", quoted.len());
    }

    #[test]
    fn a_repository_is_owner_and_name() {
        for text in ["o/r", "rust-lang/rust", "host.example/o/r.x"] {
            assert!(is_repository(text), "{text}");
        }
        for text in ["", "o", "o/", "/r", "-o/r", "o/r/x/y", "o/r;ls", "o/../r x", "https://h/o/r"]
        {
            assert!(!is_repository(text), "{text}");
        }
    }
}
