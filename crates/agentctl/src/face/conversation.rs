//! Conversations as typed lines: the same words and the same layout for every interface, which paints the spans
//! its own way.
//!
//! [`Conversation`] lays out messages for a width. The lines hold no escape sequences and no control characters;
//! `terminal.rs` is the painter of the command line.

mod diff;
mod inline;
mod layout;
mod markdown;
mod plain;
mod several;
mod table;
mod terminal;
mod tools;
mod wrap;

use agentctl_core::model::Role;
use schemars::JsonSchema;
use serde::ser::{Serialize, SerializeStruct, Serializer};

pub use self::layout::{Conversation, View};
pub use self::several::{SessionLabel, messages_by_time, session_labels};

/// The content of a line of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// The day of the messages that follow.
    Date,
    /// The author of the text that follows, and its time.
    Author,
    /// Text of a message.
    Text,
    /// A thought of the model.
    Thinking,
    /// An image, which is announced and not shown.
    Image,
    /// A tool call.
    ToolCall,
    /// A line of a changed file, or a task of a list of tasks.
    ToolDetail,
    /// Output of a tool.
    ToolOutput,
    /// Output of a tool that failed.
    ToolError,
    /// The number of lines that are left out here.
    Fold,
    /// An empty line between parts.
    Blank,
}

/// How a span is emphasised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStyle {
    /// Not at all.
    Plain,
    /// The name of an author.
    Author(Role),
    /// The mark before a tool call.
    CallMark,
    /// Less important than the text around it.
    Dimmed,
    /// A heading.
    Heading,
    /// Strong emphasis.
    Strong,
    /// Emphasis.
    Emphasis,
    /// Code.
    Code,
    /// An added line, or the number of them.
    Added,
    /// A removed line, or the number of them.
    Removed,
    /// The mark of an error.
    Failed,
}

/// A piece of a line in one style. Its text holds no control characters.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Span {
    /// The style; with `author` the role of the author stands beside it.
    #[schemars(with = "SpanFields", flatten)]
    pub style: SpanStyle,
    /// The text.
    pub text: String,
}

/// One line of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, JsonSchema)]
pub struct Line {
    /// Its content.
    pub kind: LineKind,
    /// Its pieces, from left to right.
    pub spans: Vec<Span>,
}

/// The fields of a span beside its text, as programs read them.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct SpanFields {
    /// The name of the style.
    style: String,
    /// The author, where the style is `author`.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
}

impl SpanStyle {
    /// Returns the name of the style for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Author(_) => "author",
            Self::CallMark => "call_mark",
            Self::Dimmed => "dimmed",
            Self::Heading => "heading",
            Self::Strong => "strong",
            Self::Emphasis => "emphasis",
            Self::Code => "code",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Failed => "failed",
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Span", 3)?;
        fields.serialize_field("style", self.style.word())?;
        if let SpanStyle::Author(role) = self.style {
            fields.serialize_field("role", &role)?;
        }
        fields.serialize_field("text", &self.text)?;
        fields.end()
    }
}

impl Span {
    fn new(style: SpanStyle, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }

    fn plain(text: impl Into<String>) -> Self {
        Self::new(SpanStyle::Plain, text)
    }
}

impl Line {
    fn new(kind: LineKind, spans: Vec<Span>) -> Self {
        Self { kind, spans }
    }

    /// Returns the text without its styles.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}
