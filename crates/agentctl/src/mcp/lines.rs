//! Lines of a client, each of a limited length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::limits::MAX_LINE_BYTES;

/// How much of a line that is too long is kept.
const BEGINNING_BYTES: usize = 4 << 10;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The whole line.
    Whole(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
}

/// Reads lines. A read that is cancelled loses nothing.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads the lines of this stream.
    pub(super) fn new(stream: R) -> Self {
        Self { reader: BufReader::new(stream), line: Vec::new(), is_too_long: false }
    }

    /// Returns the next line, also a last one without an end; `None` at the end of the input.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.reader.fill_buf().await?;
            let is_end = available.is_empty();
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                self.is_too_long = true;
                self.line.truncate(BEGINNING_BYTES);
                self.line.shrink_to_fit();
            } else if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let taken = end.map_or(available.len(), |at| at + 1);
            self.reader.consume(taken);
            if end.is_none() && !is_end {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_too_long) {
                return Ok(Some(Line::TooLong(line)));
            }
            return Ok(
                Some(Line::Whole(line)).filter(|line| !is_end || *line != Line::Whole(Vec::new()))
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: Vec<u8>) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut lines = Lines::new(std::io::Cursor::new(input));
        let mut found = Vec::new();
        while let Some(line) = runtime.block_on(lines.next()).expect("read") {
            found.push(line);
        }
        found
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn the_last_line_needs_no_end() {
        assert_eq!(lines(b"a\n\nb\nc".to_vec()), [whole("a"), whole(""), whole("b"), whole("c")]);
        assert_eq!(lines(b"a\n".to_vec()), [whole("a")]);
        assert_eq!(lines(Vec::new()), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_but_for_its_beginning() {
        let mut input = vec![b'x'; MAX_LINE_BYTES + 1];
        input.extend_from_slice(b"\nnext\n");
        let beginning = Line::TooLong(vec![b'x'; BEGINNING_BYTES]);
        assert_eq!(lines(input), [beginning, whole("next")]);
        let longest = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(lines(longest.clone()), [Line::Whole(longest)]);
    }
}
