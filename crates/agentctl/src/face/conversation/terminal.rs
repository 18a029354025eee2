//! Paints the lines of a conversation for a terminal.

use agentctl_core::model::Role;
use anstyle::{AnsiColor, Style};

use super::{Line, SpanStyle};
use crate::ui::Canvas;

impl SpanStyle {
    /// Returns the style on a terminal.
    #[must_use]
    pub fn terminal(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Author(Role::User) => AnsiColor::Cyan.on_default().bold(),
            Self::Author(Role::Assistant) => AnsiColor::Green.on_default().bold(),
            Self::Author(Role::Tool) | Self::CallMark => AnsiColor::Blue.on_default(),
            Self::Author(Role::System) | Self::Code => AnsiColor::Yellow.on_default(),
            Self::Dimmed => Style::new().dimmed(),
            Self::Heading => AnsiColor::Magenta.on_default().bold(),
            Self::Strong => Style::new().bold(),
            Self::Emphasis => Style::new().italic(),
            Self::Added => AnsiColor::Green.on_default(),
            Self::Removed | Self::Failed => AnsiColor::Red.on_default(),
        }
    }
}

impl Line {
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
