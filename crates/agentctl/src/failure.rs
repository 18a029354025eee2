//! What went wrong, in words and as an exit code. Hints are added where the knowledge is.

use std::io::Write;
use std::process::ExitCode;

use agentctl_core::model::Fault;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ui::Ui;

/// The kinds of failure; each has an exit code and a word for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It failed.
    Failed,
    /// It was typed wrong.
    Usage,
    /// Some source did not answer, so the question stays open.
    Unanswered,
    /// No such session.
    NotFound,
    /// Several sessions fit.
    Ambiguous,
    /// It would be unsafe: occupied, locked, already served.
    Refused,
    /// `wait`: a human is needed first.
    Blocked,
    /// `wait`: the time was up.
    TimedOut,
    /// Nobody reads what we print: success.
    BrokenPipe,
}

impl Kind {
    /// Returns the exit code that says so.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unanswered => 3,
            Self::NotFound | Self::Ambiguous => 4,
            Self::Refused => 5,
            Self::Blocked => 10,
            Self::TimedOut => 124,
        }
    }

    /// Returns the word for scripts.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Failed | Self::BrokenPipe => "failed",
            Self::Usage => "usage",
            Self::Unanswered => "unknown",
            Self::NotFound => "session_not_found",
            Self::Ambiguous => "session_ambiguous",
            Self::Refused => "refused",
            Self::Blocked => "waiting",
            Self::TimedOut => "timed_out",
        }
    }
}

/// A command that could not be carried out.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    /// Sessions that were meant, perhaps.
    candidates: Vec<String>,
    hints: Vec<String>,
    faults: Vec<Fault>,
}

/// What commands return.
pub type Outcome = Result<ExitCode, Failure>;

/// What is printed instead of an answer, with `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorDocument<'a> {
    /// What went wrong.
    error: ErrorBody<'a>,
}

#[derive(Serialize, JsonSchema)]
struct ErrorBody<'a> {
    /// A stable word for scripts.
    code: &'static str,
    /// One sentence for people.
    message: String,
    /// What to do next.
    hint: Option<&'a str>,
    /// Asking again may help.
    retryable: bool,
}

impl Failure {
    /// Makes a failure with one sentence.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, candidates: Vec::new(), hints: Vec::new(), faults: Vec::new() }
    }

    /// Says whether some source did not answer.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.kind == Kind::Unanswered
    }

    /// Returns its one sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Says whether it only means that there is no such session.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a session that may have been meant.
    #[must_use]
    pub fn candidate(mut self, candidate: String) -> Self {
        self.candidates.push(candidate);
        self
    }

    /// Adds the sources that failed on the way.
    #[must_use]
    pub fn beside(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// Says it on stderr only, where data stands on stdout already, and returns the exit code.
    pub fn beside_data(self, ui: &mut Ui) -> ExitCode {
        ui.error(&self.message);
        ExitCode::from(self.kind.exit_code())
    }

    /// Says it once and returns the exit code.
    pub fn report(self, ui: &mut Ui) -> ExitCode {
        if self.kind == Kind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        for fault in &self.faults {
            ui.warn_fault(fault);
        }
        if ui.wants_json() {
            let listed = if self.candidates.is_empty() { "" } else { ": " };
            let body = ErrorBody {
                code: self.kind.code(),
                message: format!("{}{listed}{}", self.message, self.candidates.join(", ")),
                hint: self.hints.first().map(String::as_str),
                retryable: self.kind == Kind::Unanswered,
            };
            // When nobody reads the report there is nobody left to tell.
            let _unread = ui.json(&ErrorDocument { error: body });
        } else {
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

/// A panic is a bug: one line says so. Those of adapters are caught and become faults.
pub fn report_panics_in_one_line() {
    std::panic::set_hook(Box::new(|info| {
        if std::thread::current().name() == Some("main") {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let text = info.payload_as_str().unwrap_or("no reason given").replace('\n', " ");
            // When stderr is gone nobody is left to tell.
            let _unread = writeln!(
                std::io::stderr(),
                "bug: agentctl panicked at {place}: {text}; please report this line"
            );
        }
    }));
}
