//! The terminal of `top`: only changed cells are written, and keys are read on a thread of their own.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::app::Message;
use super::input::Input;
use crate::ui::Screen;

/// Writes frames to a screen. It keeps the last one, so that only what differs is written.
pub(crate) struct Painter {
    last: Buffer,
}

impl Painter {
    /// Begins with a screen of unknown content.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { last: Buffer::empty(Rect::ZERO) }
    }

    /// Forgets the last frame: the next one is written whole.
    pub(crate) fn forget(&mut self) {
        self.last = Buffer::empty(Rect::ZERO);
    }

    /// Returns the bytes that turn the last frame into this one, with the cursor at its place; empty if nothing
    /// differs.
    pub(crate) fn paint(&mut self, frame: Buffer, cursor: Option<(u16, u16)>) -> Vec<u8> {
        let mut out = Vec::new();
        if self.last.area != frame.area {
            out.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.last = Buffer::empty(frame.area);
        }
        let mut next = None;
        let mut style = None;
        for (x, y, cell) in self.last.diff(&frame) {
            if next != Some((x, y)) {
                out.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
            }
            let wanted = (cell.fg, cell.modifier);
            if style != Some(wanted) {
                out.extend_from_slice(sgr(cell).as_bytes());
                style = Some(wanted);
            }
            out.extend_from_slice(cell.symbol().as_bytes());
            let wide = crate::text::columns(cell.symbol()).max(1);
            // The cursor behind a wide character is not known on every terminal.
            next = (wide == 1).then_some((x + 1, y));
        }
        if style.is_some() {
            out.extend_from_slice(b"\x1b[0m");
        }
        match cursor {
            Some((x, y)) => {
                out.extend_from_slice(format!("\x1b[{};{}H\x1b[?25h", y + 1, x + 1).as_bytes());
            }
            None if !out.is_empty() => out.extend_from_slice(b"\x1b[?25l"),
            None => {}
        }
        self.last = frame;
        out
    }
}

/// Returns the sequence of a cell's style: the eight colours that every terminal has, and bold, dim, reverse.
fn sgr(cell: &Cell) -> String {
    let mut codes = String::from("0");
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
    ];
    for (modifier, code) in modifiers {
        if cell.modifier.contains(modifier) {
            codes.push(';');
            codes.push_str(code);
        }
    }
    let colour = match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Blue => ";34",
        Color::Magenta => ";35",
        Color::Cyan => ";36",
        _ => "",
    };
    format!("\x1b[{codes}{colour}m")
}

/// Draws a frame.
pub(crate) fn draw(screen: &Screen, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { screen.write_frame(bytes) }
}

/// Reads keys until the terminal is gone or nobody listens.
pub(crate) fn spawn_key_thread(messages: Sender<Message>) {
    std::thread::spawn(move || {
        // The terminal is gone, or its keys cannot be read.
        let _gone = read_keys(&messages);
        let _unheard = messages.send(Message::Leave);
    });
}

/// The terminal is gone.
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);
/// A byte that follows Escape this fast belongs to the same key; on a slow line its bytes may come apart.
const SEQUENCE_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

fn read_keys(messages: &Sender<Message>) -> io::Result<()> {
    let terminal = io::stdin();
    let (mut input, mut bytes) = (Input::default(), [0; 4096]);
    loop {
        let mut fds = [PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN)];
        let read = match poll(&mut fds, input.is_open().then_some(&SEQUENCE_PAUSE)) {
            Ok(0) => input.end().into_iter().collect(),
            Ok(_) if fds[0].revents().intersects(GONE) => return Ok(()),
            Ok(_) => match rustix::io::read(&terminal, &mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => input.take(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for message in read {
            if messages.send(message).is_err() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn only_changed_cells_are_written() {
        let area = Rect::new(0, 0, 10, 2);
        let mut painter = Painter::new();
        let mut frame = Buffer::empty(area);
        frame.set_string(0, 0, "abc", Style::new());
        let first = painter.paint(frame.clone(), None);
        assert!(String::from_utf8_lossy(&first).contains("abc"));
        assert_eq!(painter.paint(frame.clone(), None), b"");
        frame.set_string(1, 0, "x", Style::new().fg(Color::Red));
        let second = String::from_utf8(painter.paint(frame.clone(), None)).expect("UTF-8");
        assert_eq!(second, "\x1b[1;2H\x1b[0;31mx\x1b[0m\x1b[?25l");
        painter.forget();
        assert!(String::from_utf8_lossy(&painter.paint(frame, None)).contains("\x1b[2J"));
    }
}
