//! The only room that prints: data on stdout, messages on stderr. Colour is never the only carrier of meaning.

mod hidden;
mod output;
mod pager;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use agentctl_core::model::{Fault, Status};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use self::output::Output;
pub use self::screen::{Screen, ScreenCalls};
use crate::text::{SafeJson, clean, clean_drawn, columns, safe_json, wrap_with_commands};

/// The properties of the output that a table is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct Canvas {
    /// Width in columns; unlimited when piped.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub colour: bool,
}

impl Canvas {
    /// Appends a text in a style.
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

/// When colour is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// stdout and stderr.
pub struct Ui {
    json: bool,
    colour: bool,
    terminal: bool,
    notifies: bool,
    width: usize,
    /// The width comes from `COLUMNS`.
    has_fixed_width: bool,
    out: Output,
}

impl Ui {
    /// Reads the properties of the streams and `NO_COLOR`, `CLICOLOR_FORCE`, `COLUMNS`.
    #[must_use]
    pub fn from_env() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let terminal = io::stdout().is_terminal();
        let colour = !set("NO_COLOR")
            && (std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0" && !v.is_empty())
                || (terminal && std::env::var_os("TERM").is_none_or(|t| t != "dumb")));
        let columns =
            std::env::var_os("COLUMNS").and_then(|c| c.to_str()?.parse().ok()).filter(|c| *c > 0);
        let width = columns.or_else(measured_width).unwrap_or(80);
        Self {
            json: false,
            colour,
            terminal,
            notifies: false,
            width,
            has_fixed_width: columns.is_some(),
            out: Output::default(),
        }
    }

    /// Measures the terminal again: it may have been resized. `COLUMNS` stays in force.
    pub fn measure_again(&mut self) {
        if !self.has_fixed_width {
            self.width = measured_width().unwrap_or(self.width);
        }
    }

    /// Uses colour as the user asked for with `--color`.
    pub fn set_colour(&mut self, choice: ColourChoice) {
        match choice {
            ColourChoice::Auto => {}
            ColourChoice::Always => self.colour = true,
            ColourChoice::Never => self.colour = false,
        }
    }

    /// Prints errors as JSON too.
    pub fn set_json(&mut self, json: bool) {
        self.json = json;
    }

    /// Says that the command gives an order. If stdout cannot be written, its report goes to stderr and the command goes
    /// on to its end, so that the result is reported in any case.
    pub fn report_order(&mut self) {
        self.out.report_order();
    }

    /// Flushes stdout at the end of the command, and returns the exit code: a report that could not be written is a
    /// failure.
    #[must_use]
    pub fn close(&mut self, code: ExitCode) -> ExitCode {
        let was_told = self.out.failure().is_some() && code != ExitCode::SUCCESS;
        let _told_below = self.out.flush();
        let is_report = self.out.is_report();
        let Some(why) = self.out.failure().filter(|_| is_report || !was_told) else { return code };
        let above = if is_report { "; the report is printed above" } else { "" };
        let message = format!("{why}{above}");
        self.error(&message);
        if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
    }

    /// Sets whether the configuration asks for notifications on this terminal.
    pub fn set_notifies(&mut self, notifies: bool) {
        self.notifies = notifies;
    }

    /// Says whether this terminal is notified: stdout is one, and the user or the configuration asked for it.
    #[must_use]
    pub fn is_notified(&self, asked: bool) -> bool {
        self.terminal && (asked || self.notifies)
    }

    /// Says whether the user asked for JSON.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        self.json
    }

    /// Says whether stdout is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Says whether keys can be read: stdin is a terminal.
    #[must_use]
    pub fn reads_keys(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Says whether the locale of the environment has characters beyond ASCII.
    #[must_use]
    pub fn has_unicode(&self) -> bool {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    /// Says whether a question can be asked: stdin, stdout and stderr are terminals.
    #[must_use]
    pub fn converses(&self) -> bool {
        self.terminal && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Says whether a person sees the steps of a long order: on stderr, and on a terminal only.
    #[must_use]
    pub fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Asks a yes-or-no question; any answer but yes is no.
    pub fn confirm(&mut self, question: &str) -> io::Result<bool> {
        self.out.flush()?;
        write!(io::stderr(), "{} [y/N] ", clean(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Prints a line. A terminal shows its text behind and below the place where the first word ends.
    pub fn hanging_line(&mut self, word: &str, text: &str) -> io::Result<()> {
        match self.width() {
            Some(width) => {
                let text = hanging(&clean(text), columns(word), width);
                text.split('\n').enumerate().try_for_each(|(at, line)| {
                    let word = if at == 0 { word } else { "" };
                    self.line(&format!("{word}{line}"))
                })
            }
            None => self.line(&format!("{word}{text}")),
        }
    }

    /// Shows a prompt and reads one line; `None` at the end of the input.
    pub fn prompt(&mut self, prompt: &str) -> io::Result<Option<String>> {
        self.out.flush()?;
        write!(io::stderr(), "{}", clean(prompt))?;
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer)?;
        if read == 0 {
            // The prompt stands on an unfinished line.
            writeln!(io::stderr())?;
        }
        Ok((read > 0).then_some(answer))
    }

    /// Does the same without showing what is typed: for a secret.
    pub fn prompt_hidden(&mut self, prompt: &str) -> io::Result<Option<String>> {
        let _hidden = hidden::HiddenInput::of(io::stdin())?;
        self.prompt(prompt)
    }

    /// Returns how many bytes were typed and not read yet.
    #[must_use]
    pub fn typed_bytes(&self) -> u64 {
        rustix::io::ioctl_fionread(io::stdin()).unwrap_or(0)
    }

    /// Discards the input that was typed and not read yet.
    pub fn discard_typed(&self) {
        // Standard input that is no terminal keeps its input.
        let _kept = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }

    /// Returns the width in columns; unlimited when piped.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        self.terminal.then_some(self.width)
    }

    /// Returns a text in a style, if colour is used.
    #[must_use]
    pub fn paint(&self, style: Style, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.canvas().paint_onto(&mut out, style, text);
        out
    }

    /// Returns the properties of stdout.
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

    /// Writes one line of data. Control characters are neutralised here, except the colours of this program
    /// if colour is enabled.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        let text = if self.colour { clean_drawn(text) } else { clean(text) };
        writeln!(self.out, "{text}")
    }

    /// Writes one line of data, broken between words on a terminal.
    pub fn sentence(&mut self, text: &str) -> io::Result<()> {
        match self.width() {
            Some(width) => self.line(&hanging(&clean(text), 0, width)),
            None => self.line(text),
        }
    }

    /// Writes drawn lines, neutralised as [`Ui::line`] does.
    pub fn drawn(&mut self, text: &str) -> io::Result<()> {
        let text = if self.colour { clean_drawn(text) } else { clean(text) };
        self.out.write_all(text.as_bytes())
    }

    /// Says whether stdout is a terminal that has an alternate screen.
    #[must_use]
    pub fn has_screen(&self) -> bool {
        self.terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Draws lines on a screen, neutralised as [`Ui::line`] does.
    pub fn draw_screen(&mut self, screen: &Screen, lines: &[String]) -> io::Result<()> {
        self.out.flush()?;
        let clean = |line: &String| {
            if self.colour { clean_drawn(line).into_owned() } else { clean(line).into_owned() }
        };
        screen.draw(&lines.iter().map(clean).collect::<Vec<_>>())
    }

    /// Writes bytes unchanged. Only for output of this program itself, and for an agent's own lines that another
    /// program reads: text of other programs must not reach a terminal this way.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Flushes stdout.
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

    /// Writes a serialised JSON object in the format of [`Ui::json_line`].
    pub fn json_line_text(&mut self, line: &str) -> io::Result<()> {
        self.line(&safe_json(line))
    }

    /// Writes one JSON object on one line.
    pub fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let formatter = SafeJson(serde_json::ser::CompactFormatter);
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, formatter))?;
        self.out.write_all(b"\n")
    }

    /// Prints a note on stderr.
    pub fn note(&mut self, text: &str) {
        self.message(Style::new(), "", text);
    }

    /// Prints a hint on stderr.
    pub fn hint(&mut self, text: &str) {
        self.message(AnsiColor::Cyan.on_default(), "hint: ", text);
    }

    /// Prints an error on stderr.
    pub fn error(&mut self, text: &str) {
        self.message(AnsiColor::Red.on_default().bold(), "error: ", text);
    }

    /// Prints a warning on stderr.
    pub fn warn(&mut self, text: &str) {
        self.message(AnsiColor::Yellow.on_default().bold(), "warning: ", text);
    }

    /// Prints a fault as a warning.
    pub fn warn_fault(&mut self, fault: &Fault) {
        let place = fault.root.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        let text = format!("{}{place}: {}", fault.adapter, fault.message);
        self.warn(&text);
    }

    /// Returns the width of the terminal on stderr; `None` if stderr is no terminal.
    fn message_width(&self) -> Option<usize> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let measured = if self.has_fixed_width { None } else { width_of(io::stderr()) };
        Some(measured.unwrap_or(self.width))
    }

    fn message(&mut self, style: Style, prefix: &str, text: &str) {
        // Keep the order of stdout and stderr. Errors are ignored: they could not be reported.
        let _unread = self.out.flush();
        let colour = self.colour && io::stderr().is_terminal();
        let indent = columns(prefix);
        let prefix = if colour { format!("{style}{prefix}{style:#}") } else { prefix.to_owned() };
        // One write for the whole line: stderr has no buffer, and other processes may write to the same terminal.
        let text = clean(text).replace('\n', " ");
        let text = match self.message_width() {
            Some(width) => hanging(&text, indent, width),
            None => text,
        };
        let line = format!("{prefix}{text}\n");
        let _unread = io::stderr().write_all(line.as_bytes());
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        // A closed pipe is success.
        let _unread = self.out.flush();
    }
}

/// Prints an error on stderr from another thread than that of the command, before a signal ends this process.
pub fn last_words(text: &str) {
    let text = clean(text).replace('\n', " ");
    // A failure to print it could not be reported.
    let _unread = io::stderr().write_all(format!("error: {text}\n").as_bytes());
}

/// Breaks a text between words, for a terminal. Its first line stands behind a prefix of `indent` columns, the others
/// below it. Blanks in front of the text stay in front of each line.
fn hanging(text: &str, indent: usize, width: usize) -> String {
    const MIN_ROOM: usize = 10;
    let rest = text.trim_start_matches(' ');
    let blanks = text.len() - rest.len();
    let room = width.saturating_sub(indent + blanks);
    if room < MIN_ROOM || columns(rest) <= room {
        return text.to_owned();
    }
    let gap = format!("\n{}", " ".repeat(indent + blanks));
    format!("{}{}", " ".repeat(blanks), wrap_with_commands(rest, room).join(&gap))
}

/// Returns the width of the terminal on stdout, in columns.
fn measured_width() -> Option<usize> {
    width_of(io::stdout())
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::hanging;

    #[test]
    fn a_message_is_broken_between_words_below_its_prefix() {
        let text = "no session matches `painter` here";
        assert_eq!(hanging(text, 7, 80), text);
        assert_eq!(hanging(text, 7, 30), "no session matches\n       `painter` here");
        assert_eq!(hanging("  demo:5dc4ca2a waiting", 0, 18), "  demo:5dc4ca2a\n  waiting");
        assert_eq!(hanging(text, 7, 12), text, "too narrow");
        let command = "write `agentctl send ID 'say hi to all of them'`, or wait a bit";
        assert_eq!(
            hanging(command, 6, 36),
            "write\n      `agentctl send ID 'say hi to all of them'`,\n      or wait a bit",
            "a command is never broken"
        );
        assert_eq!(hanging("a lone ` is no command", 0, 12), "a lone ` is\nno command");
    }
}
