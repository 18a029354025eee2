//! Line files: the head, the tail newest first, the whole, and what was appended since.
//!
//! Budgets: 8 MiB a line, 1 MiB of tail. A last line without its newline is "not yet", never an error
//! and never a fact. Nothing here parses: a visitor gets the bytes of whole lines.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

/// Longest line that is looked at.
pub const LINE_BYTES: usize = 8 << 20;
/// How far back from the end a tail is read.
pub const TAIL_BYTES: u64 = 1 << 20;
/// How far into a file a head is read.
pub const HEAD_BYTES: u64 = 1 << 20;

/// Why a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The visitor had seen enough.
    Enough,
    /// There was nothing more to see.
    Whole,
    /// The budget was used up first.
    Budget,
}

/// Visits whole lines from the start, reading `chunk` bytes first and more only as wanted.
pub fn head(
    file: &File,
    chunk: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<Ended> {
    let mut buffer = Vec::new();
    let mut offset = 0_u64;
    let mut chunk = chunk;
    loop {
        let kept = buffer.len();
        buffer.resize(kept + chunk, 0);
        let read = read_full(file, &mut buffer[kept..], offset)?;
        buffer.truncate(kept + read);
        offset += read as u64;
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &buffer[at..]) {
            if visit(&buffer[at..at + end]).is_break() {
                return Ok(Ended::Enough);
            }
            at += end + 1;
        }
        buffer.drain(..at);
        if read < chunk {
            return Ok(Ended::Whole);
        }
        if offset >= HEAD_BYTES {
            return Ok(Ended::Budget);
        }
        chunk = (chunk * 4).min(256 << 10);
    }
}

/// Visits whole lines from the end, newest first, reading `chunk` bytes first and more only as wanted.
pub fn tail(
    file: &File,
    size: u64,
    chunk: usize,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<Ended> {
    tail_from(file, size, chunk, TAIL_BYTES, &mut |_, line| visit(line))
}

/// As [`tail`], with the byte offset of each line and a budget of the caller's.
pub fn tail_from(
    file: &File,
    size: u64,
    chunk: usize,
    budget: u64,
    visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<Ended> {
    let mut start = size;
    let mut buffer: Vec<u8> = Vec::new();
    let mut chunk = chunk as u64;
    let mut oversized = false; // the line being collected is over the budget
    let mut torn = true; // what stands behind the last newline is not a line yet
    loop {
        if start == 0 {
            if !torn && !oversized && !buffer.is_empty() && visit(0, &buffer).is_break() {
                return Ok(Ended::Enough);
            }
            return Ok(Ended::Whole);
        }
        let step = chunk.min(start);
        let mut grown = vec![0; usize::try_from(step).unwrap_or(0) + buffer.len()];
        let fresh = grown.len() - buffer.len();
        if read_full(file, &mut grown[..fresh], start - step)? < fresh {
            // The file shrank under us: nothing read here can be trusted.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was truncated"));
        }
        grown[fresh..].copy_from_slice(&buffer);
        start -= step;
        buffer = grown;
        while let Some(newline) = memchr::memrchr(b'\n', &buffer) {
            let line = &buffer[newline + 1..];
            let whole = !torn && !oversized && !line.is_empty();
            if whole && visit(start + newline as u64 + 1, line).is_break() {
                return Ok(Ended::Enough);
            }
            (torn, oversized) = (false, false);
            buffer.truncate(newline);
        }
        if size - start >= budget && start > 0 {
            return Ok(Ended::Budget);
        }
        if buffer.len() > LINE_BYTES {
            oversized = true;
            buffer = Vec::new();
        }
        chunk = (chunk * 4).min(1 << 20);
    }
}

/// What a pass over a whole file saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The offset behind the last whole line.
    pub end: u64,
    /// Lines over the budget that were passed over.
    pub oversized: u64,
}

/// Visits every whole line from `from` on, in order, in bounded memory.
pub fn lines(file: &File, from: u64, visit: &mut dyn FnMut(&[u8])) -> io::Result<Pass> {
    let mut pass = Pass { end: from, oversized: 0 };
    let mut buffer = vec![0_u8; 256 << 10];
    let (mut filled, mut offset) = (0, from);
    let mut skipping = false;
    loop {
        if filled == buffer.len() {
            if buffer.len() >= LINE_BYTES {
                skipping = true;
                filled = 0;
            } else {
                let longer = (buffer.len() * 4).min(LINE_BYTES);
                buffer.resize(longer, 0);
            }
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
        assert_eq!(ended.expect("read"), Ended::Whole);
        let last = bytes.len() as u64 - 5;
        assert_eq!(seen, [(last, b"last".to_vec()), (0, b"first".to_vec())]);
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
