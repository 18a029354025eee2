//! Failures of commands: message, hints and exit code.

use std::io::Write;
use std::process::ExitCode;

use agentctl_core::model::Fault;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ui::Ui;

/// The kind of a failure decides its exit code and its code for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any other failure.
    Failed,
    /// Wrong arguments.
    Usage,
    /// A source did not answer, so the answer is unknown.
    Unanswered,
    /// No session matches.
    NotFound,
    /// Several sessions match.
    Ambiguous,
    /// No open ask has this id.
    NoAsk,
    /// Several asks match.
    AmbiguousAsk,
    /// The action would be unsafe: directory occupied or locked, session live, or no confirmation.
    Refused,
    /// `wait`: the session waits for a human.
    Blocked,
    /// `wait`: timeout.
    TimedOut,
    /// The reader of stdout closed the pipe: success.
    BrokenPipe,
}

impl Kind {
    /// Returns the exit code.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unanswered => 3,
            Self::NotFound | Self::Ambiguous | Self::NoAsk | Self::AmbiguousAsk => 4,
            Self::Refused => 5,
            Self::Blocked => 10,
            Self::TimedOut => 124,
        }
    }

    /// Returns the code for scripts.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Failed | Self::BrokenPipe => "failed",
            Self::Usage => "usage",
            Self::Unanswered => "unknown",
            Self::NotFound => "session_not_found",
            Self::Ambiguous => "session_ambiguous",
            Self::NoAsk => "ask_not_found",
            Self::AmbiguousAsk => "ask_ambiguous",
            Self::Refused => "refused",
            Self::Blocked => "waiting",
            Self::TimedOut => "timed_out",
        }
    }
}

/// The code of a failure after which the order may have been carried out, whatever its kind.
const UNCLEAR: &str = "unclear";

/// The exit codes and their meaning, for help and manual pages.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "done; also if the reader of the output has closed it"),
    (1, "failed"),
    (2, "usage error"),
    (3, "partial answer: a source could not be read (see stderr)"),
    (4, "no such session, ask, group, worktree, lock or fuse, or several match"),
    (5, "refused: occupied, locked, live, or not confirmed"),
    (10, "`wait`, `send`, --wait: a session waits for a human"),
    (124, "`wait`, --wait: timed out"),
];

/// The failure of a command.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    /// Sessions that may have been meant.
    candidates: Vec<String>,
    hints: Vec<String>,
    faults: Vec<Fault>,
    /// The order may have been carried out.
    is_unclear: bool,
}

/// The result of a command.
pub type Outcome = Result<ExitCode, Failure>;

/// The document that `--json` prints instead of an answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorDocument<'a> {
    /// The error.
    error: ErrorBody<'a>,
}

#[derive(Serialize, JsonSchema)]
struct ErrorBody<'a> {
    /// A stable word for scripts. `unclear`: the order may have been carried out; look before giving it again.
    code: &'static str,
    /// One sentence for people.
    message: String,
    /// The next step.
    hint: Option<&'a str>,
    /// Asking again may help.
    retryable: bool,
}

impl<'a> ErrorDocument<'a> {
    /// Returns the document of a refusal that is no failure of a command.
    pub(crate) fn refusal(code: &'static str, message: &str, hint: Option<&'a str>) -> Self {
        Self { error: ErrorBody { code, message: message.to_owned(), hint, retryable: false } }
    }
}

impl Failure {
    /// Creates a failure with a message of one sentence.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (candidates, hints, faults) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, message, candidates, hints, faults, is_unclear: false }
    }

    /// Says that the order may have been carried out: giving it again may do it twice.
    #[must_use]
    pub fn unclear(mut self) -> Self {
        self.is_unclear = true;
        self
    }

    /// Says whether the order may have been carried out.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        self.is_unclear
    }

    /// Says whether a source did not answer.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.kind == Kind::Unanswered
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the first hint.
    #[must_use]
    pub fn first_hint(&self) -> Option<&str> {
        self.hints.first().map(String::as_str)
    }

    /// Says in which part of an order it happened.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        self.message = format!("{part}: {}", self.message);
        self
    }

    /// Makes it a mistake in what was typed or written: exit code 2.
    #[must_use]
    pub fn as_usage(mut self) -> Self {
        self.kind = Kind::Usage;
        self
    }

    /// Says whether no session matches.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Changes the words of the hints; a hint without words is left out.
    #[must_use]
    pub fn map_hints(mut self, words: impl Fn(&str) -> Option<String>) -> Self {
        self.hints = self.hints.iter().filter_map(|hint| words(hint)).collect();
        self
    }

    /// Adds a session that may have been meant.
    #[must_use]
    pub fn candidate(mut self, candidate: String) -> Self {
        self.candidates.push(candidate);
        self
    }

    /// Adds faults, which are reported as warnings.
    #[must_use]
    pub fn beside(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the document that stands for the answer, as with `--json`.
    pub(crate) fn document(&self) -> ErrorDocument<'_> {
        let listed = if self.candidates.is_empty() { "" } else { ": " };
        let error = ErrorBody {
            code: if self.is_unclear { UNCLEAR } else { self.kind.code() },
            message: format!("{}{listed}{}", self.message, self.candidates.join(", ")),
            hint: self.hints.first().map(String::as_str),
            retryable: self.kind == Kind::Unanswered && !self.is_unclear,
        };
        ErrorDocument { error }
    }

    /// Prints the message and the hints on stderr only, because stdout has data already, and returns the exit code.
    pub fn beside_data(self, ui: &mut Ui) -> ExitCode {
        ui.error(&self.message);
        for hint in &self.hints {
            ui.hint(hint);
        }
        ExitCode::from(self.kind.exit_code())
    }

    /// Prints the failure as one of several results and returns the exit code; in JSON it has a line of its own.
    pub fn report_in_line(self, ui: &mut Ui) -> std::io::Result<ExitCode> {
        if !ui.wants_json() {
            return Ok(self.report(ui));
        }
        for fault in &self.faults {
            ui.warn_fault(fault);
        }
        ui.json_line(&self.document())?;
        ui.flush()?;
        Ok(ExitCode::from(self.kind.exit_code()))
    }

    /// Prints the failure and returns the exit code.
    pub fn report(self, ui: &mut Ui) -> ExitCode {
        if self.kind == Kind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        for fault in &self.faults {
            ui.warn_fault(fault);
        }
        let is_printed = ui.wants_json() && ui.json(&self.document()).is_ok();
        if !is_printed {
            ui.error(&self.message);
            for candidate in &self.candidates {
                ui.note(&format!("  {candidate}"));
            }
            for hint in &self.hints {
                ui.hint(hint);
            }
        }
        ExitCode::from(self.kind.exit_code())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::BrokenPipe => Kind::BrokenPipe,
            _ => Kind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

/// Prints a panic of the main thread as one line. Panics in adapters are caught and become faults.
pub fn report_panics_in_one_line() {
    std::panic::set_hook(Box::new(|info| {
        if std::thread::current().name() == Some("main") {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let text = info.payload_as_str().unwrap_or("no reason given").replace('\n', " ");
            // A failure to print it could not be reported.
            let _unread = writeln!(
                std::io::stderr(),
                "bug: agentctl panicked at {place}: {text}; please report this line"
            );
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::{EXIT_CODES, Failure, Kind};

    #[test]
    fn an_unclear_failure_keeps_its_exit_code_and_is_not_given_again_by_itself() {
        let failure = Failure::new(Kind::Unanswered, "the server did not answer").unclear();
        let document = serde_json::to_value(failure.document()).expect("JSON");
        assert_eq!(document["error"]["code"], "unclear");
        assert_eq!(document["error"]["retryable"], false);
        assert_eq!(failure.kind().exit_code(), 3);
    }

    #[test]
    fn the_table_of_exit_codes_has_the_code_of_every_failure() {
        let kinds = [
            Kind::Failed,
            Kind::Usage,
            Kind::Unanswered,
            Kind::NotFound,
            Kind::Ambiguous,
            Kind::Refused,
            Kind::Blocked,
            Kind::TimedOut,
            Kind::BrokenPipe,
        ];
        let mut used: Vec<u8> = kinds.iter().map(|kind| kind.exit_code()).collect();
        used.sort_unstable();
        used.dedup();
        let listed: Vec<u8> = EXIT_CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(listed, used);
    }
}
