//! Reads files of lines: the head, the tail newest first, the whole file, and lines appended since an
//! offset.
//!
//! Limits: 8 MiB per line, 1 MiB of tail. A last line without its newline is incomplete and skipped,
//! without an error. A visitor receives the bytes of complete lines.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::{Deserialize, Deserializer};

use crate::kernel::deadline;

/// Longest line that is read; longer ones are skipped.
pub const LINE_BYTES: usize = 8 << 20;
/// Most bytes of a tail that are read.
pub const TAIL_BYTES: u64 = 1 << 20;
/// Most bytes of a head that are read.
pub const HEAD_BYTES: u64 = 1 << 20;

/// Most bytes that are read at once. Larger reads are not faster, and a larger buffer costs more page faults and
/// does not stay in the processor's cache.
const LARGEST_READ_BYTES: usize = 128 << 10;
/// How many bytes of a line are searched for its own keys without parsing it.
const KEY_SEARCH_BYTES: usize = 320;
/// Largest buffer that a thread keeps for its next file.
const REUSED_BUFFER_BYTES: usize = 1 << 20;

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// The visitor stopped it.
    Enough,
    /// The whole file was read.
    Whole,
    /// The limit of bytes was reached first.
    Budget,
}

thread_local! {
    /// Reused between files: thousands of short-lived buffers cost more than the reads.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends this thread's buffer, at least `bytes` long, with undefined content.
fn with_buffer<T>(bytes: usize, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut buffer = BUFFER.take();
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    let result = work(&mut buffer);
    if buffer.len() <= REUSED_BUFFER_BYTES {
        BUFFER.set(buffer);
    }
    result
}

/// Visits complete lines from the start. Reads `chunk` bytes first, and more as long as the visitor
/// continues.
pub fn head(
    file: &File,
    chunk: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ReadEnd> {
    with_buffer(chunk, |buffer| head_in(buffer, file, chunk, visit))
}

fn head_in(
    buffer: &mut Vec<u8>,
    file: &File,
    chunk: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ReadEnd> {
    let (mut filled, mut offset, mut chunk) = (0, 0_u64, chunk);
    loop {
        if buffer.len() < filled + chunk {
            buffer.resize(filled + chunk, 0);
        }
        let read = read_full(file, &mut buffer[filled..filled + chunk], offset)?;
        filled += read;
        offset += read as u64;
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[at..filled]) {
            if visit(&buffer[at..at + end]).is_break() {
                return Ok(ReadEnd::Enough);
            }
            at += end + 1;
        }
        buffer.copy_within(at..filled, 0);
        filled -= at;
        if read < chunk {
            return Ok(ReadEnd::Whole);
        }
        if offset >= HEAD_BYTES {
            return Ok(ReadEnd::Budget);
        }
        chunk = (chunk * 4).min(LARGEST_READ_BYTES);
    }
}

/// Visits complete lines from the end, newest first. Reads `chunk` bytes first, and more as long as the
/// visitor continues.
pub fn tail(
    file: &File,
    size: u64,
    chunk: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ReadEnd> {
    tail_from(file, size, chunk, TAIL_BYTES, &mut |_, line| visit(line))
}

/// As [`tail`], with the byte offset of each line and the caller's own limit of bytes.
pub fn tail_from(
    file: &File,
    size: u64,
    chunk: usize,
    budget: u64,
    visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<ReadEnd> {
    with_buffer(5 * chunk, |buffer| {
        let behind = buffer.len();
        let mut read = Backward { file, buffer, start: size, begin: behind, end: behind };
        tail_in(&mut read, (size, chunk, budget), visit)
    })
}

fn tail_in(
    read: &mut Backward<'_>,
    (size, mut chunk, budget): (u64, usize, u64),
    visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<ReadEnd> {
    let mut oversized = false; // the line being collected is over the budget
    let mut torn = true; // what stands behind the last newline is not a line yet
    loop {
        if read.start == 0 {
            let line = &read.buffer[read.begin..read.end];
            if !torn && !oversized && !line.is_empty() && visit(0, line).is_break() {
                return Ok(ReadEnd::Enough);
            }
            return Ok(ReadEnd::Whole);
        }
        read.more(chunk)?;
        while let Some(newline) = memchr::memrchr(b'\n', &read.buffer[read.begin..read.end]) {
            let line = &read.buffer[read.begin + newline + 1..read.end];
            let whole = !torn && !oversized && !line.is_empty();
            if whole && visit(read.start + newline as u64 + 1, line).is_break() {
                return Ok(ReadEnd::Enough);
            }
            (torn, oversized) = (false, false);
            read.end = read.begin + newline;
        }
        if size - read.start >= budget && read.start > 0 {
            return Ok(ReadEnd::Budget);
        }
        if read.end - read.begin > LINE_BYTES {
            oversized = true;
            read.begin = read.end;
        }
        chunk = (chunk * 4).min(LARGEST_READ_BYTES);
    }
}

/// A part of a file that is extended towards its beginning: `buffer[begin..end]` holds the bytes from
/// offset `start` on.
struct Backward<'a> {
    file: &'a File,
    buffer: &'a mut Vec<u8>,
    start: u64,
    begin: usize,
    end: usize,
}

impl Backward<'_> {
    /// Reads the `chunk` bytes before the ones in the buffer.
    fn more(&mut self, chunk: usize) -> io::Result<()> {
        let step = usize::try_from(self.start).map_or(chunk, |start| start.min(chunk));
        if self.begin < step {
            // Move the bytes to the end of the buffer; enlarge it if needed.
            let kept = self.end - self.begin;
            let longer = self.buffer.len().max(2 * (kept + step));
            self.buffer.resize(longer, 0);
            self.buffer.copy_within(self.begin..self.end, longer - kept);
            (self.begin, self.end) = (longer - kept, longer);
        }
        self.begin -= step;
        self.start -= step as u64;
        let fresh = &mut self.buffer[self.begin..self.begin + step];
        if read_full(self.file, fresh, self.start)? < step {
            // The file was truncated while it was read, so the bytes read so far belong to no version of
            // it.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated"));
        }
        Ok(())
    }
}

/// The result of reading a whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The offset behind the last complete line.
    pub end: u64,
    /// Number of lines that were longer than the limit and skipped.
    pub oversized: u64,
}

/// Visits every complete line from offset `from` on, in order, with bounded memory.
pub fn lines(file: &File, from: u64, visit: &mut dyn FnMut(&[u8])) -> io::Result<Pass> {
    let mut pass = Pass { end: from, oversized: 0 };
    let mut buffer = vec![0_u8; LARGEST_READ_BYTES];
    let (mut filled, mut offset) = (0, from);
    let mut skipping = false;
    loop {
        if filled == buffer.len() {
            if buffer.len() >= LINE_BYTES {
                skipping = true;
                filled = 0;
            } else {
                let longer = (buffer.len() * 2).min(LINE_BYTES);
                buffer.resize(longer, 0);
            }
        }
        if deadline::has_passed() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = read_full(file, &mut buffer[filled..], offset)?;
        if read == 0 {
            return Ok(pass);
        }
        offset += read as u64;
        filled += read;
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[at..filled]) {
            if std::mem::take(&mut skipping) {
                pass.oversized += 1;
            } else if end > 0 {
                visit(&buffer[at..at + end]);
            }
            at += end + 1;
        }
        buffer.copy_within(at..filled, 0);
        filled -= at;
        if at > 0 {
            pass.end = offset - filled as u64;
        }
    }
}

/// Parses a line; `None` if it has another shape.
#[must_use]
pub fn parse<'a, T: serde::Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    // Parsing is faster after one UTF-8 check of the whole line; invalid UTF-8 matters only in fields that
    // are used.
    match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str(text).ok(),
        Err(_) => serde_json::from_slice(line).ok(),
    }
}

/// Reads an optional text without copying it, for `deserialize_with`: a plain `Option<Cow<str>>` is always copied.
pub fn optional_text<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Ok(Option::<Text<'de>>::deserialize(from)?.map(|Text(text)| text))
}

/// Returns the text behind a key of the line's own object, if the key stands near the beginning. A key
/// inside a nested object does not count.
#[must_use]
pub fn behind<'a>(line: &'a [u8], key: &Finder<'_>) -> Option<&'a [u8]> {
    let start = &line[..line.len().min(KEY_SEARCH_BYTES)];
    let at = key.find(start).filter(|at| *at > 0)?;
    memchr::memchr(b'{', &start[1..at]).is_none().then(|| &line[at + key.needle().len()..])
}

/// Returns the `type` of a line, if it stands near its beginning.
#[must_use]
pub fn own_type(line: &[u8]) -> Option<&[u8]> {
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"type\":\""));
    let value = behind(line, &KEY)?;
    Some(&value[..memchr::memchr(b'"', value)?])
}

fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("written");
        file
    }

    fn whole_lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines: Vec<_> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        lines.pop();
        lines.retain(|l| !l.is_empty());
        lines
    }

    proptest! {
        #[test]
        fn head_tail_and_whole_agree_at_any_cut(
            text in proptest::collection::vec("[a-z]{0,40}", 0..60),
            cut in 0usize..3000,
            chunk in 1usize..200,
        ) {
            let mut bytes = text.join("\n").into_bytes();
            bytes.push(b'\n');
            bytes.truncate(cut);
            let file = file_of(&bytes);
            let expected = whole_lines(&bytes);

            let mut forward = Vec::new();
            let pass = lines(&file, 0, &mut |l| forward.push(l.to_vec())).expect("read");
            prop_assert_eq!(&forward, &expected);
            prop_assert_eq!(pass.end, bytes.iter().rposition(|b| *b == b'\n').map_or(0, |p| p as u64 + 1));

            let mut backward = Vec::new();
            tail(&file, bytes.len() as u64, chunk, &mut |l| {
                backward.push(l.to_vec());
                ControlFlow::Continue(())
            }).expect("read");
            backward.reverse();
            prop_assert_eq!(&backward, &expected);

            let mut first = Vec::new();
            head(&file, chunk, &mut |l| {
                if !l.is_empty() { first.push(l.to_vec()); }
                ControlFlow::Continue(())
            }).expect("read");
            prop_assert_eq!(&first, &expected);
        }
    }

    #[test]
    fn an_oversized_line_is_passed_over_from_the_end_too() {
        let mut bytes = b"first\n".to_vec();
        bytes.resize(2 * LINE_BYTES + 100, b'x');
        bytes.extend(b"\nlast\n");
        let mut seen = Vec::new();
        let file = file_of(&bytes);
        let ended = tail_from(&file, bytes.len() as u64, 4096, u64::MAX, &mut |at, line| {
            seen.push((at, line.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!(ended.expect("read"), ReadEnd::Whole);
        let last = bytes.len() as u64 - 5;
        assert_eq!(seen, [(last, b"last".to_vec()), (0, b"first".to_vec())]);
    }

    #[test]
    fn a_text_is_copied_only_if_it_is_escaped() {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow, default, deserialize_with = "optional_text")]
            name: Option<Cow<'a, str>>,
        }
        let name = |line: &'static str| parse::<Named<'_>>(line.as_bytes()).map(|n| n.name);
        let is_borrowed = |line| matches!(name(line), Some(Some(Cow::Borrowed("plain"))));
        assert!(is_borrowed(r#"{"name":"plain"}"#));
        assert_eq!(name(r#"{"name":"a\nb"}"#), Some(Some("a\nb".into())));
        assert_eq!(name(r#"{"name":null}"#), Some(None));
        assert_eq!(name("{}"), Some(None));
        assert_eq!(name(r#"{"name":1}"#), None);
    }

    #[test]
    fn only_a_key_of_the_line_itself_tells_its_type() {
        let own = |line: &str| own_type(line.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(own(r#"{"type":"user","x":{}}"#), Some(b"user".to_vec()));
        assert_eq!(own(r#"{"parent":null,"type":"user","message":{}}"#), Some(b"user".to_vec()));
        assert_eq!(own(r#"{"message":{"type":"message"},"type":"assistant"}"#), None);
        assert_eq!(
            own(r#"{"text":"\"type\":\"user\"","type":"system"}"#),
            Some(b"system".to_vec())
        );
        assert_eq!(own(r#"{"type":"cut"#), None);
        assert_eq!(own(""), None);
    }

    #[test]
    fn an_oversized_line_is_counted_and_passed_over() {
        let mut bytes = b"first\n".to_vec();
        bytes.resize(LINE_BYTES + 100, b'x');
        bytes.extend(b"\nlast\n");
        let mut seen = Vec::new();
        let pass = lines(&file_of(&bytes), 0, &mut |l| seen.push(l.to_vec())).expect("read");
        assert_eq!(seen, [b"first".to_vec(), b"last".to_vec()]);
        assert_eq!(pass, Pass { end: bytes.len() as u64, oversized: 1 });
    }
}
