//! One message per line (stdio, and every reliable byte stream: transports §stdio).

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// Finds lines in a growing buffer. Remembers how far it looked, so that a line that arrives in a
/// thousand pieces is looked at once.
#[derive(Debug)]
pub struct Lines {
    searched: usize,
    discarding: bool,
    max: usize,
}

impl Lines {
    /// A decoder that accepts lines of at most `max` bytes, without their newline.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { searched: 0, discarding: false, max }
    }

    /// Takes the next complete line out of `buffer`, without its newline (or CR LF). Blank lines
    /// are skipped. `None` means that more bytes are needed. The line shares the buffer's memory.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let found = memchr::memchr(b'\n', buffer.get(self.searched..).unwrap_or_default());
            let Some(end) = found.map(|at| self.searched + at) else {
                self.searched = buffer.len();
                // One byte of grace for the CR of a CR LF that is still coming.
                if self.searched > self.max + 1 || self.discarding {
                    let first = !std::mem::replace(&mut self.discarding, true);
                    let len = std::mem::take(&mut self.searched);
                    buffer.clear();
                    if first {
                        return Some(Err(LineTooLong { len, max: self.max }));
                    }
                }
                return None;
            };
            self.searched = 0;
            let mut line = buffer.split_to(end);
            buffer.advance(1);
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if line.len() > self.max {
                return Some(Err(LineTooLong { len: line.len(), max: self.max }));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Ok(line.freeze()));
            }
        }
    }

    /// Gives up the line that begins in `buffer`: it is dropped up to its newline.
    pub fn give_up(&mut self, buffer: &mut BytesMut) {
        self.searched = 0;
        self.discarding = true;
        buffer.clear();
    }

    /// Takes what is left when the stream has ended: a last line without a newline.
    pub fn finish(&mut self, buffer: &mut BytesMut) -> Option<Bytes> {
        self.searched = 0;
        let rest = buffer.split();
        let blank = rest.iter().all(u8::is_ascii_whitespace);
        (!blank && !std::mem::take(&mut self.discarding)).then(|| rest.freeze())
    }
}

/// A line longer than the bound. It is dropped up to its newline; the stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a line of {len} bytes or more; at most {max} are accepted")]
#[non_exhaustive]
pub struct LineTooLong {
    /// How many bytes had come when it was given up.
    pub len: usize,
    /// The bound in bytes.
    pub max: usize,
}

/// Appends one message as one line. Raw newlines in valid JSON are white space between tokens (in a
/// string they are escaped), so each becomes a space and every other byte stays as it is.
pub fn write(out: &mut Vec<u8>, message: &[u8]) {
    let start = out.len();
    out.extend_from_slice(message);
    end(out, start);
}

/// Ends a line whose message was written into `out` from `start` on.
pub fn end(out: &mut Vec<u8>, start: usize) {
    let written = out.get_mut(start..).unwrap_or_default();
    if memchr::memchr2(b'\n', b'\r', written).is_some() {
        for byte in written.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, buffer: &mut BytesMut) -> Vec<Result<Bytes, LineTooLong>> {
        std::iter::from_fn(|| lines.next(buffer)).collect()
    }

    #[test]
    fn every_split_gives_the_same_lines() {
        let stream = b"one\r\n\n  \ntwo\nthree \n";
        for at in 0..=stream.len() {
            let (mut lines, mut buffer) = (Lines::new(10), BytesMut::new());
            let mut got = Vec::new();
            for piece in [&stream[..at], &stream[at..]] {
                buffer.extend_from_slice(piece);
                got.extend(all(&mut lines, &mut buffer).into_iter().map(Result::unwrap));
            }
            assert_eq!(got, ["one", "two", "three "], "split at {at}");
        }
    }

    #[test]
    fn a_line_too_long_is_reported_once_and_the_next_one_lives() {
        let (mut lines, mut buffer) = (Lines::new(4), BytesMut::new());
        let mut got = Vec::new();
        for piece in ["123", "4567", "89", "\nok\n", "12345\nfine\n"] {
            buffer.extend_from_slice(piece.as_bytes());
            got.extend(all(&mut lines, &mut buffer));
        }
        let text: Vec<_> = got.iter().map(|r| r.as_deref().map_err(|e| e.len)).collect();
        assert_eq!(text, [Err(7), Ok(&b"ok"[..]), Err(5), Ok(&b"fine"[..])]);
    }

    #[test]
    fn the_bound_is_exact() {
        let (mut lines, mut buffer) = (Lines::new(4), BytesMut::from("1234"));
        assert!(lines.next(&mut buffer).is_none());
        buffer.extend_from_slice(b"\r\n");
        assert_eq!(lines.next(&mut buffer), Some(Ok(Bytes::from("1234"))));
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        let (mut lines, mut buffer) = (Lines::new(9), BytesMut::from("a\nb"));
        assert_eq!(all(&mut lines, &mut buffer), [Ok(Bytes::from("a"))]);
        assert_eq!(lines.finish(&mut buffer), Some(Bytes::from("b")));
        assert_eq!(lines.finish(&mut buffer), None);
    }

    #[test]
    fn raw_newlines_become_spaces() {
        let mut out = b"x".to_vec();
        write(&mut out, b"{\n\r\n\"a\":\"\\n\"}");
        assert_eq!(out, b"x{   \"a\":\"\\n\"}\n");
    }
}
