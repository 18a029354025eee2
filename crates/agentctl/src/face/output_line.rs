//! A line that reports the result of an order, with its kind: each interface prints or draws it its own way.

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// The result itself; stdout of the command line.
    Line,
    /// A remark.
    Note,
    /// The result is usable, but something is wrong.
    Warning,
    /// Something failed.
    Error,
}

/// One line about the result of an order. Control characters of foreign text are not neutralised yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// Its kind.
    pub kind: OutputKind,
    /// Its text.
    pub text: String,
}

impl OutputLine {
    /// Creates a line.
    pub fn new(kind: OutputKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}
