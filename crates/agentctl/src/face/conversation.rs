//! Messages as typed lines: the same words for every interface, which paints the spans its own way.

use agentctl_core::model::{Message, Role, ToolCall, ToolResult};
use anstyle::{AnsiColor, Style};

use super::local_clock;
use crate::text::{clean, fit, one_line};
use crate::ui::Canvas;

/// Lines of a tool's output that are shown before it is folded.
const FOLD_LINES: usize = 4;
/// The columns of a tool call where the width of the display is not bounded.
const CALL_COLUMNS: usize = 200;

/// The content of a line of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The author of the text that follows, and its time.
    Author,
    /// Text of a message.
    Text,
    /// A tool call.
    ToolCall,
    /// Output of a tool.
    ToolOutput,
    /// Output of a tool that failed.
    ToolError,
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
}

/// A piece of a line in one style. Its text holds no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The style.
    pub style: SpanStyle,
    /// The text.
    pub text: String,
}

/// One line of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its content.
    pub kind: LineKind,
    /// Its pieces, from left to right.
    pub spans: Vec<Span>,
}

impl SpanStyle {
    /// Returns the style on a terminal.
    #[must_use]
    pub fn terminal(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Author(Role::User) => AnsiColor::Cyan.on_default().bold(),
            Self::Author(Role::Assistant) => AnsiColor::Green.on_default().bold(),
            Self::Author(Role::Tool) | Self::CallMark => AnsiColor::Blue.on_default(),
            Self::Author(Role::System) => AnsiColor::Yellow.on_default(),
            Self::Dimmed => Style::new().dimmed(),
        }
    }
}

impl Line {
    fn new<const N: usize>(kind: LineKind, spans: [(SpanStyle, String); N]) -> Self {
        let spans = spans.into_iter().map(|(style, text)| Span { style, text }).collect();
        Self { kind, spans }
    }

    /// Paints the line for a terminal.
    #[must_use]
    pub fn painted(&self, canvas: Canvas) -> String {
        let mut out = String::new();
        for span in &self.spans {
            match span.style {
                SpanStyle::Plain => out.push_str(&span.text),
                style => canvas.paint_onto(&mut out, style.terminal(), &span.text),
            }
        }
        out
    }
}

/// Returns a message as a person reads it: tool calls on one line each, long output folded.
#[must_use]
pub fn conversation_lines(message: &Message, width: Option<usize>) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(text) = message.text.as_deref().filter(|text| !text.trim().is_empty()) {
        let when = message.at.map(|at| format!("  {}", local_clock(at))).unwrap_or_default();
        let author = (SpanStyle::Author(message.role), author(message.role).to_owned());
        lines.push(Line::new(LineKind::Author, [author, (SpanStyle::Plain, when)]));
        let text = clean(text);
        let indented = text.lines().map(|line| (SpanStyle::Plain, format!("  {line}")));
        lines.extend(indented.map(|span| Line::new(LineKind::Text, [span])));
    }
    let columns = width.map_or(CALL_COLUMNS, |width| width.saturating_sub(4));
    lines.extend(message.tool_calls.iter().map(|call| call_line(call, columns)));
    lines.extend(message.tool_results.iter().flat_map(result_lines));
    lines
}

fn author(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

fn call_line(call: &ToolCall, columns: usize) -> Line {
    let text = match call.telling() {
        Some(argument) => format!("{}({})", one_line(&call.name), one_line(&argument)),
        None => one_line(&call.name),
    };
    let spans = [
        (SpanStyle::Plain, "  ".to_owned()),
        (SpanStyle::CallMark, "▸".to_owned()),
        (SpanStyle::Plain, format!(" {}", fit(&text, columns))),
    ];
    Line::new(LineKind::ToolCall, spans)
}

fn result_lines(result: &ToolResult) -> Vec<Line> {
    let (kind, mark) =
        if result.is_error { (LineKind::ToolError, "✗") } else { (LineKind::ToolOutput, "│") };
    let text = clean(&result.text);
    let all: Vec<&str> = text.lines().collect();
    let line = |text: String| Line::new(kind, [(SpanStyle::Dimmed, format!("    {mark} {text}"))]);
    let mut lines: Vec<Line> =
        all.iter().take(FOLD_LINES).map(|text| line((*text).to_owned())).collect();
    if all.len() > FOLD_LINES {
        lines.push(line(format!("… {} more lines", all.len() - FOLD_LINES)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_typed_lines_and_its_paint_holds_the_same_text() {
        let message: Message = serde_json::from_value(serde_json::json!({
            "role": "assistant", "text": "done\u{1b}[2J\nsecond",
            "tool_calls": [{"id": null, "name": "Bash", "input": {"command": "npm test"}}],
            "tool_results": [{"id": null, "text": "1\n2\n3\n4\n5\n6", "is_error": true}],
        }))
        .expect("a message");
        let lines = conversation_lines(&message, Some(80));
        let kinds: Vec<LineKind> = lines.iter().map(|line| line.kind).collect();
        let mut expected =
            vec![LineKind::Author, LineKind::Text, LineKind::Text, LineKind::ToolCall];
        expected.extend([LineKind::ToolError; 5]);
        assert_eq!(kinds, expected);
        let plain = Canvas { width: Some(80), colour: false };
        let text: Vec<String> = lines.iter().map(|line| line.painted(plain)).collect();
        assert_eq!(text[1], "  done\\x1b[2J", "control characters are shown, not sent");
        assert_eq!(text[3], "  ▸ Bash(npm test)");
        assert_eq!(text[8], "    ✗ … 2 more lines");
        let colour = Canvas { width: Some(80), colour: true };
        assert_eq!(lines[0].painted(colour), "\u{1b}[1m\u{1b}[32massistant\u{1b}[0m");
        assert_eq!(lines[1].painted(colour), text[1], "text has no colour");
    }
}
