//! The arguments of `launch` that put text in front of the prompt, and the text of a pipe.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_core::ask::{IssueReference, PromptContext};
use agentctl_core::kernel::{OwnStdin, own_stdin, stdin_is_ready};
use agentctl_core::launch::context::MAX_CONTEXT_BYTES;
use clap::Args;

use crate::failure::{Failure, Kind};
use crate::ui::Ui;

/// How long the first byte of a pipe is awaited. Programs often start others with a pipe that they never write to.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);
/// The name of the standard input in `--file`.
const STDIN: &str = "-";

/// Text in front of the prompt. See docs/MANY.md for its order.
#[derive(Args, Default)]
pub(super) struct ContextFlags {
    /// Put this specification in front of the prompt (at most 50 kB)
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    spec: Option<PathBuf>,
    /// Put this file, or all that match a pattern, in front of the prompt (repeatable; 50 kB each, 500 kB in all);
    /// `-` is stdin
    #[arg(long = "file", value_name = "FILE", help_heading = HEADING)]
    files: Vec<String>,
    /// Quote this issue in front of the prompt (needs `gh`)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = HEADING)]
    issue: Option<u64>,
    /// The repository of --issue [default: that of the directory]
    #[arg(long, value_name = "OWNER/REPO", help_heading = HEADING)]
    repo: Option<String>,
}

const HEADING: &str = "Context";

impl ContextFlags {
    /// Checks the flags beside each other: the parser would only say that --issue is missing.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.repo.is_some() && self.issue.is_none() {
            return Err(Failure::new(Kind::Usage, "--repo needs --issue")
                .hint("add --issue N, or leave --repo out"));
        }
        Ok(())
    }

    /// Returns the context. `stdin_is_prompt` says that the prompt itself is read from the standard input.
    pub(super) fn context(
        self,
        ui: &mut Ui,
        stdin_is_prompt: bool,
    ) -> Result<PromptContext, Failure> {
        let (named, files): (Vec<_>, Vec<_>) = self.files.into_iter().partition(|f| f == STDIN);
        if !named.is_empty() && stdin_is_prompt {
            let message = "stdin cannot be both the prompt and a file";
            return Err(Failure::new(Kind::Usage, message).hint("give the prompt with -p TEXT"));
        }
        let text = match (stdin_is_prompt, named.is_empty()) {
            (true, _) => None,
            (false, false) => read_stdin()?,
            (false, true) => piped_text(ui)?,
        };
        let issue = self.issue.map(|number| IssueReference { number, repository: self.repo });
        Ok(PromptContext { spec: self.spec, files, issue, text })
    }
}

/// Returns the text that was piped to this command, if there is any. Never waits for a pipe that stays silent, and
/// never takes the input of the shell that runs this command.
fn piped_text(ui: &mut Ui) -> Result<Option<String>, Failure> {
    match own_stdin() {
        OwnStdin::File => read_stdin(),
        OwnStdin::Pipe if stdin_is_ready(FIRST_BYTE_TIMEOUT) => read_stdin(),
        OwnStdin::Pipe => {
            ui.warn("stdin is an open pipe, and nothing came from it within 5 s: it is not read");
            ui.hint("`--file -` waits for it; `< /dev/null` says that there is none");
            Ok(None)
        }
        OwnStdin::Shared { by, has_bytes: true } => {
            let by = by.unwrap_or_else(|| "another program".to_owned());
            ui.note(&format!("stdin is also read by {by}: it is not taken as context"));
            ui.hint("`--file -` takes it; `< /dev/null` says that there is none");
            Ok(None)
        }
        OwnStdin::Shared { has_bytes: false, .. } | OwnStdin::Nothing => Ok(None),
    }
}

/// Reads the standard input to its end; `None` if it is empty.
fn read_stdin() -> Result<Option<String>, Failure> {
    let usage = |message: &str, hint: &str| Err(Failure::new(Kind::Usage, message).hint(hint));
    let mut bytes = Vec::new();
    std::io::stdin().take(MAX_CONTEXT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_CONTEXT_BYTES {
        let hint = "write it into a file that the agent can read";
        return usage("the text from stdin is larger than 500 kB", hint);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Some(text).filter(|text| !text.is_empty())),
        _ => {
            usage("stdin is binary, not UTF-8 text", "`< /dev/null` says that there is no context")
        }
    }
}
