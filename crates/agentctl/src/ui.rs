//! The only room that prints: data on stdout, talk on stderr, colour never the only carrier of meaning.

use std::io::{self, IsTerminal, Write};

use agentctl_core::model::{Fault, Status};
use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};

use crate::text::{SafeJson, clean, safe_json, write_indented};

/// What is drawn on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Canvas {
    /// The columns to fit into; unbounded when piped.
    pub width: Option<usize>,
    /// Colour is wanted.
    pub colour: bool,
}

impl Canvas {
    /// Paints a text behind what is there already.
    pub fn paint_onto(self, out: &mut String, style: Style, text: &str) {
        use std::fmt::Write;
        if self.colour {
            // Writing to a String cannot fail.
            let _infallible = write!(out, "{style}{text}{style:#}");
        } else {
            out.push_str(text);
        }
    }
}

/// The terminal, or what stands in for it.
pub struct Ui {
    json: bool,
    colour: bool,
    terminal: bool,
    width: usize,
    out: io::BufWriter<io::Stdout>,
}

impl Ui {
    /// Looks at the streams and at `NO_COLOR`, `CLICOLOR_FORCE`, `COLUMNS`.
    #[must_use]
    pub fn from_env() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let terminal = io::stdout().is_terminal();
        let colour = !set("NO_COLOR")
            && (std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0" && !v.is_empty())
                || (terminal && std::env::var_os("TERM").is_none_or(|t| t != "dumb")));
        let columns =
            std::env::var_os("COLUMNS").and_then(|c| c.to_str()?.parse().ok()).filter(|c| *c > 0);
        let measured =
            || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|w| usize::from(w.ws_col));
        let width = columns.or_else(measured).filter(|w| *w > 0).unwrap_or(80);
        let out = io::BufWriter::with_capacity(1 << 16, io::stdout());
        Self { json: false, colour, terminal, width, out }
    }

    /// Makes errors come as JSON too.
    pub fn set_json(&mut self, json: bool) {
        self.json = json;
    }

    /// Says whether the user asked for JSON.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        self.json
    }

    /// Says whether a person looks at stdout.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Says whether a person can be asked something.
    #[must_use]
    pub fn converses(&self) -> bool {
        self.terminal && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a yes-or-no question; anything but yes is no.
    pub fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.out.flush()?;
        write!(io::stderr(), "{} [y/N] ", clean(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Returns the width to fit into; unbounded when piped.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        self.terminal.then_some(self.width)
    }

    /// Paints a text, where colour is wanted.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.canvas().paint_onto(&mut out, style, text);
        out
    }

    /// Returns what is drawn on.
    #[must_use]
    pub fn canvas(&self) -> Canvas {
        Canvas { width: self.width(), colour: self.colour }
    }

    /// Returns the style of a status.
    #[must_use]
    pub fn status_style(status: Status) -> Style {
        match status {
            Status::Waiting => AnsiColor::Yellow.on_default().bold(),
            Status::Running => AnsiColor::Green.on_default(),
            Status::Idle => AnsiColor::Cyan.on_default(),
            Status::Unknown => AnsiColor::Magenta.on_default(),
            Status::Error => AnsiColor::Red.on_default(),
            Status::Stopped => Style::new().dimmed(),
        }
    }

    /// Writes one line of data.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Makes sure that what was written is seen.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes one indented JSON document.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let formatter = SafeJson(serde_json::ser::PrettyFormatter::new());
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, formatter))?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Writes a JSON document that was made elsewhere, as [`Ui::json`] would have.
    pub fn json_text(&mut self, line: &str) -> io::Result<()> {
        write_indented(&mut self.out, line)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// Writes a line of JSON that was made elsewhere, as [`Ui::json_line`] would have.
    pub fn json_line_text(&mut self, line: &str) -> io::Result<()> {
        self.line(&safe_json(line))
    }

    /// Writes one JSON object on one line.
    pub fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let formatter = SafeJson(serde_json::ser::CompactFormatter);
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, formatter))?;
        self.out.write_all(b"\n")
    }

    /// Says something beside the data.
    pub fn note(&mut self, text: &str) {
        self.talk(Style::new(), "", text);
    }

    /// Says what to do next.
    pub fn hint(&mut self, text: &str) {
        self.talk(AnsiColor::Cyan.on_default(), "hint: ", text);
    }

    /// Says what went wrong.
    pub fn error(&mut self, text: &str) {
        self.talk(AnsiColor::Red.on_default().bold(), "error: ", text);
    }

    /// Says what went wrong beside what was asked for.
    pub fn warn(&mut self, text: &str) {
        self.talk(AnsiColor::Yellow.on_default().bold(), "warning: ", text);
    }

    /// Says which source failed.
    pub fn warn_fault(&mut self, fault: &Fault) {
        let place = fault.root.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        let text = format!("{}{place}: {}", fault.adapter, fault.message);
        self.warn(&text);
    }

    fn talk(&mut self, style: Style, prefix: &str, text: &str) {
        // What was printed before comes first; and when stderr is gone nobody is left to tell.
        let _unread = self.out.flush();
        let colour = self.colour && io::stderr().is_terminal();
        let prefix = if colour { format!("{style}{prefix}{style:#}") } else { prefix.to_owned() };
        let _unread = writeln!(io::stderr(), "{prefix}{}", clean(text).replace('\n', " "));
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        // The reader may have gone; that is success.
        let _unread = self.out.flush();
    }
}
