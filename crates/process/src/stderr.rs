//! The bounded ring of what a child wrote to stderr.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of stderr kept by default: hundreds of log lines or a long stack trace.
pub const STDERR_BYTES_DEFAULT: usize = 64 * 1024;

/// Bytes read from the pipe at once.
const READ_BYTES: usize = 4 * 1024;

/// The end of what a child has written to stderr so far. Clones share the ring; it stays readable
/// after the child has ended.
#[derive(Debug, Clone)]
pub struct StderrTail(Arc<Mutex<Ring>>);

#[derive(Debug)]
struct Ring {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    bytes_total: u64,
}

impl StderrTail {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Ring { bytes: VecDeque::new(), bytes_max, bytes_total: 0 })))
    }

    /// The last lines, oldest first, without blank ones, colours and control characters. A line
    /// cut by the bound of the ring is left out, unless it is all there is.
    #[must_use]
    pub fn tail(&self, lines_max: usize) -> Vec<String> {
        let (bytes, cut) = self.with(|ring| (ring.bytes.iter().copied().collect(), ring.is_cut()));
        let bytes: Vec<u8> = bytes;
        let text = String::from_utf8_lossy(&bytes);
        let mut whole: &str = &text;
        if let Some((_, rest)) = text.split_once('\n').filter(|(_, rest)| cut && !rest.is_empty()) {
            whole = rest;
        }
        let lines = whole.rsplit('\n').map(plain).filter(|line| !line.trim().is_empty());
        let mut lines: Vec<String> = lines.take(lines_max).collect();
        lines.reverse();
        lines
    }

    /// Bytes written so far, including those that the ring has dropped.
    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.with(|ring| ring.bytes_total)
    }

    /// Reads until the other side has closed the pipe.
    pub(crate) async fn drain(self, mut pipe: impl AsyncRead + Unpin) {
        let mut chunk = [0; READ_BYTES];
        while let Ok(len @ 1..) = pipe.read(&mut chunk).await {
            self.with(|ring| ring.push(chunk.get(..len).unwrap_or_default()));
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Ring) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ring {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes_total += chunk.len() as u64;
        let chunk = chunk.get(chunk.len().saturating_sub(self.bytes_max)..).unwrap_or_default();
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.bytes_max);
        self.bytes.drain(..excess);
        self.bytes.extend(chunk);
    }

    fn is_cut(&self) -> bool {
        self.bytes_total > self.bytes.len() as u64
    }
}

/// A line fit for a terminal that is not the child's: no escape sequences, no control characters.
fn plain(line: &str) -> String {
    let mut chars = line.chars().peekable();
    let mut out = String::with_capacity(line.len());
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// After ESC: `[` starts a sequence that a letter or `~` ends; anything else is one character.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    if chars.next() == Some('[') {
        while chars.next_if(|c| !c.is_ascii_alphabetic() && *c != '~').is_some() {}
        chars.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes_max: usize, text: &str) -> StderrTail {
        let tail = StderrTail::new(bytes_max);
        text.as_bytes().chunks(7).for_each(|chunk| tail.with(|ring| ring.push(chunk)));
        tail
    }

    #[test]
    fn the_ring_keeps_the_end() {
        let tail = filled(10, "first line\nsecond\nlast\n");
        assert_eq!(tail.tail(5), ["last"]);
        assert_eq!(tail.bytes_total(), 23);
        assert_eq!(filled(4, "one endless line").tail(5), ["line"]);
        assert_eq!(filled(0, "x").tail(5), [""; 0]);
    }

    #[test]
    fn the_last_lines_come_oldest_first() {
        let tail = filled(1024, "a\nb\n\n  \nc\nunfinished");
        assert_eq!(tail.tail(3), ["b", "c", "unfinished"]);
        assert_eq!(tail.tail(0), [""; 0]);
    }

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        let tail = filled(1024, "\u{1b}[1;31mred\u{1b}[0m\tand\u{7} blue\r\n");
        assert_eq!(tail.tail(1), ["red and blue"]);
    }
}
