//! The bytes of the terminal as keys, pasted text and clicks. Sequences without a meaning here are dropped whole, so
//! that no part of them is taken for a key.

use super::app::Message;
use super::keys::Key;

/// The end of pasted text.
const PASTE_END: &[u8] = b"\x1b[201~";
/// Most bytes of a sequence; more are no sequence of a key.
const MAX_SEQUENCE: usize = 256;

/// The bytes that are not a whole key yet.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// The bytes are text that is being pasted; in so many of them its end does not begin.
    paste: Option<usize>,
}

/// The meaning of the first bytes of the input.
enum First {
    /// The bytes go on.
    Incomplete,
    /// Bytes of this number, and their meaning.
    Whole(usize, Option<Message>),
    /// Pasted text begins after bytes of this number.
    Paste(usize),
}

impl Input {
    /// Takes bytes, and returns the messages that are whole.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.bytes.extend_from_slice(bytes);
        let mut messages = Vec::new();
        loop {
            if let Some(from) = self.paste {
                let mut parts = self.bytes[from..].windows(PASTE_END.len());
                let Some(end) = parts.position(|part| part == PASTE_END) else {
                    self.paste = Some((self.bytes.len() + 1).saturating_sub(PASTE_END.len()));
                    return messages;
                };
                let text = String::from_utf8_lossy(&self.bytes[..from + end]).into_owned();
                self.bytes.drain(..from + end + PASTE_END.len());
                self.paste = None;
                messages.push(Message::Paste(text));
            }
            match first(&self.bytes) {
                First::Incomplete => return messages,
                First::Whole(count, message) => {
                    self.bytes.drain(..count);
                    messages.extend(message);
                }
                First::Paste(count) => {
                    self.bytes.drain(..count);
                    self.paste = Some(0);
                }
            }
        }
    }

    /// Says whether the next byte, or that none comes, decides about the bytes before.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        self.paste.is_none() && !self.bytes.is_empty()
    }

    /// Takes note that no byte follows: Escape alone is a key, the beginning of a sequence is dropped.
    pub(crate) fn end(&mut self) -> Option<Message> {
        if self.paste.is_some() {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        (bytes == [b'\x1b']).then_some(Message::Key(Key::Escape))
    }
}

fn first(bytes: &[u8]) -> First {
    let key = |count, key| First::Whole(count, Some(Message::Key(key)));
    match *bytes {
        [] | [b'\x1b'] | [b'\x1b', b'O'] => First::Incomplete,
        [b'\x1b', b'\x1b', ..] => key(1, Key::Escape),
        [b'\x1b', b'[', ..] => control_sequence(bytes),
        [b'\x1b', b'O', last, ..] => First::Whole(3, letter_key(last).map(Message::Key)),
        [b'\x1b', b']' | b'P' | b'X' | b'^' | b'_', ..] => string_sequence(bytes),
        [b'\x1b', ..] => match first(&bytes[1..]) {
            First::Whole(count, Some(Message::Key(key))) => {
                First::Whole(count + 1, Some(Message::AfterEscape(key)))
            }
            First::Whole(count, _) => First::Whole(count + 1, None),
            other => other,
        },
        [b'\r' | b'\n', ..] => key(1, Key::Enter),
        [b'\t', ..] => key(1, Key::Tab),
        [0x7f, ..] => key(1, Key::Backspace),
        [code @ 1..=26, ..] => key(1, Key::Ctrl(char::from(b'a' - 1 + code))),
        [0..=31, ..] => First::Whole(1, None),
        _ => character(bytes),
    }
}

fn character(bytes: &[u8]) -> First {
    let count = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let text = match std::str::from_utf8(&bytes[..count.min(bytes.len())]) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => return First::Incomplete,
        // The next byte may begin a character.
        Err(_) => return First::Whole(1, None),
    };
    First::Whole(text.len(), text.chars().next().map(|c| Message::Key(Key::Char(c))))
}

/// Reads `ESC [`, parameters, and the last byte.
fn control_sequence(bytes: &[u8]) -> First {
    // The function keys of the Linux console.
    if let Some(b'[') = bytes.get(2) {
        return if bytes.len() > 3 { First::Whole(4, None) } else { First::Incomplete };
    }
    let last = bytes.iter().skip(2).position(|byte| !(0x20..=0x3f).contains(byte));
    let Some(at) = last.map(|at| at + 2) else {
        let is_too_long = bytes.len() > MAX_SEQUENCE;
        return if is_too_long { First::Whole(bytes.len(), None) } else { First::Incomplete };
    };
    let parameters = std::str::from_utf8(&bytes[2..at]).unwrap_or_default();
    let message = match (bytes[at], parameters) {
        // A click as terminals without the longer form report it: three bytes follow.
        (b'M', "") => return short_mouse(bytes),
        (b'~', "200") => return First::Paste(at + 1),
        (b'~', _) => numbered_key(parameters).map(Message::Key),
        (b'M', _) if parameters.starts_with('<') => mouse(parameters),
        // A byte that no sequence holds begins something else.
        (..0x20 | 0x7f.., _) => return First::Whole(at, None),
        (letter, _) => letter_key(letter).map(Message::Key),
    };
    First::Whole(at + 1, message)
}

fn letter_key(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        _ => return None,
    })
}

fn numbered_key(parameters: &str) -> Option<Key> {
    Some(match parameters.split(';').next()? {
        "1" | "7" => Key::Home,
        "4" | "8" => Key::End,
        "3" => Key::Delete,
        "5" => Key::PageUp,
        "6" => Key::PageDown,
        _ => return None,
    })
}

/// Reads `<button;column;line`, which count from 1.
fn mouse(parameters: &str) -> Option<Message> {
    let mut numbers = parameters.trim_start_matches('<').split(';');
    let button = numbers.next()?.parse().ok()?;
    let line: u16 = numbers.nth(1)?.parse().ok()?;
    click(button, line.checked_sub(1)?)
}

fn short_mouse(bytes: &[u8]) -> First {
    let Some(&[button, _, line]) = bytes.get(3..6) else { return First::Incomplete };
    let line = line.checked_sub(33).map(u16::from);
    let button = button.checked_sub(32).map(u16::from);
    First::Whole(6, button.zip(line).and_then(|(button, line)| click(button, line)))
}

fn click(button: u16, line: u16) -> Option<Message> {
    /// Shift, Alt and Ctrl.
    const MODIFIERS: u16 = 4 | 8 | 16;
    match button & !MODIFIERS {
        0 => Some(Message::Click(line)),
        64 => Some(Message::Wheel(false, line)),
        65 => Some(Message::Wheel(true, line)),
        _ => None,
    }
}

/// Reads an answer of the terminal: a text up to BEL or `ESC \`.
fn string_sequence(bytes: &[u8]) -> First {
    let ends = |at: &usize| bytes[*at] == 7 || bytes[*at..].starts_with(b"\x1b\\");
    match (2..bytes.len()).find(ends) {
        Some(at) => First::Whole(at + if bytes[at] == 7 { 1 } else { 2 }, None),
        None if bytes.len() > MAX_SEQUENCE => First::Whole(bytes.len(), None),
        None => First::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> String {
        let mut input = Input::default();
        let mut messages = input.take(bytes);
        messages.extend(input.end());
        format!("{messages:?}")
    }

    fn keys(keys: &[Key]) -> String {
        format!("{:?}", keys.iter().map(|key| Message::Key(*key)).collect::<Vec<_>>())
    }

    #[test]
    fn every_key_is_read() {
        for (bytes, wanted) in [
            (&b"aA \xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80"[..], {
                keys(&['a', 'A', ' ', 'é', '日', '😀'].map(Key::Char))
            }),
            (b"\r\n\t\x7f\x08\x0c", {
                keys(&[
                    Key::Enter,
                    Key::Enter,
                    Key::Tab,
                    Key::Backspace,
                    Key::Ctrl('h'),
                    Key::Ctrl('l'),
                ])
            }),
            (b"\x1b[A\x1bOB\x1b[1;5C\x1b[D", keys(&[Key::Up, Key::Down, Key::Right, Key::Left])),
            (b"\x1b[H\x1b[4~\x1b[5~\x1b[6;2~\x1b[3~\x1b[Z", {
                keys(&[Key::Home, Key::End, Key::PageUp, Key::PageDown, Key::Delete, Key::BackTab])
            }),
            (b"\x1b", keys(&[Key::Escape])),
            (b"\x1b\x1b", keys(&[Key::Escape, Key::Escape])),
            (b"\x1b\x1b[A", keys(&[Key::Escape, Key::Up])),
        ] {
            assert_eq!(read(bytes), wanted, "{}", bytes.escape_ascii());
            let mut input = Input::default();
            let mut one_by_one: Vec<Message> =
                bytes.iter().flat_map(|byte| input.take(&[*byte])).collect();
            one_by_one.extend(input.end());
            assert_eq!(format!("{one_by_one:?}"), wanted, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn nothing_of_another_sequence_is_taken_for_a_key() {
        for bytes in [
            &b"\x1b[[A"[..],
            b"\x1b[?1;2c",
            b"\x1b[12;34R",
            b"\x1b[I",
            b"\x1b[15~",
            b"\x1bOP",
            b"\x1b]99;i=a:a=d;a\x1b\\",
            b"\x1b]11;rgb:aa/aa/aa\x07",
            b"\x1bP>|aaa(1)\x1b\\",
            b"\x1b[<0;1;5m",
            b"\x1b[M#aa",
            b"\x1b[1;",
            b"\x1b[",
            b"\xe6\x97",
            b"\xff\x00",
        ] {
            assert_eq!(read(bytes), "[]", "{}", bytes.escape_ascii());
        }
        assert_eq!(read(b"\xc3a"), keys(&[Key::Char('a')]), "a broken character ends itself only");
    }

    #[test]
    fn a_key_right_after_escape_is_not_lost() {
        for (bytes, wanted) in [
            (&b"\x1b/s"[..], "[AfterEscape(Char('/')), Key(Char('s'))]"),
            (b"\x1b\xc3\xa9", "[AfterEscape(Char('é'))]"),
            (b"\x1b\r", "[AfterEscape(Enter)]"),
            (b"\x1b\x1b/", "[Key(Escape), AfterEscape(Char('/'))]"),
        ] {
            assert_eq!(read(bytes), wanted, "{}", bytes.escape_ascii());
            let mut input = Input::default();
            let one_by_one: Vec<Message> =
                bytes.iter().flat_map(|byte| input.take(&[*byte])).collect();
            assert_eq!(format!("{one_by_one:?}"), wanted, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn pasted_text_is_one_message_however_it_comes() {
        let bytes = b"\x1b[200~a\x1b[A\ny\x1b[201~q";
        let wanted = "[Paste(\"a\\u{1b}[A\\ny\"), Key(Char('q'))]";
        assert_eq!(read(bytes), wanted);
        let mut input = Input::default();
        assert!(input.take(&bytes[..8]).is_empty() && !input.is_open());
        assert!(input.end().is_none(), "a pause does not end it");
        assert_eq!(format!("{:?}", input.take(&bytes[8..])), wanted);
    }

    #[test]
    fn the_mouse_is_read_in_both_forms() {
        for bytes in [&b"\x1b[<0;7;5M"[..], b"\x1b[M \x27\x25", b"\x1b[<16;7;5M"] {
            assert_eq!(read(bytes), "[Click(4)]", "{}", bytes.escape_ascii());
        }
        assert_eq!(read(b"\x1b[<65;1;3M\x1b[<64;1;3M"), "[Wheel(true, 2), Wheel(false, 2)]");
    }
}
