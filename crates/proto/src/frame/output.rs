//! Bytes on their way out of a stream, and how many of them have left.

use std::ops::{Deref, DerefMut};

/// An output buffer that drops what was sent while there is still more to send. One that waits until
/// *all* is sent grows for ever under a steady load, where that moment never comes.
///
/// It is written to as the vector it holds. Only append: bytes before its end may be sent already,
/// and its length counts them until they are dropped. [`Output::unsent`] is what is left.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
    is_unflushed: bool,
}

/// Sent bytes are dropped when there are at least so many of them, and no fewer than unsent ones:
/// each byte is then moved once at the most.
const DROPPED_BYTES_MIN: usize = 64 * 1024;

/// A buffer that has grown beyond this is given back when little of it is used, in bytes: room for two
/// messages of a megabyte, which costs as much to get anew as to fill.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

impl Output {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), sent: 0, is_unflushed: false }
    }

    /// What waits to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub const fn backlog(&self) -> usize {
        self.bytes.len().saturating_sub(self.sent)
    }

    /// Whether all was sent, and the stream was flushed since.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        !self.is_unflushed && self.backlog() == 0
    }

    /// The first `len` bytes of [`Output::unsent`] were sent.
    pub fn advance(&mut self, len: usize) {
        self.is_unflushed = true;
        self.sent = self.bytes.len().min(self.sent + len);
        let rest = self.backlog();
        if rest == 0 {
            self.clear();
        } else if self.sent >= DROPPED_BYTES_MIN.max(rest) {
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.trim();
        }
    }

    /// The stream was flushed.
    pub const fn flushed(&mut self) {
        self.is_unflushed = false;
    }

    /// Drops everything, sent or not.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.trim();
    }

    /// Takes what waits to be sent.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Gives memory back that a burst needed.
    fn trim(&mut self) {
        if self.bytes.capacity() / 4 > self.bytes.len() {
            self.bytes.shrink_to(KEPT_BYTES.max(2 * self.bytes.len()));
        }
    }
}

impl Deref for Output {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_dropped_though_more_waits_all_the_time() {
        let mut output = Output::new();
        let (mut sent, mut put) = (0_u64, 0_u64);
        let mut number = 0_u8..=u8::MAX;
        for _ in 0..2_000 {
            while output.backlog() < 512 * 1024 {
                let piece = vec![(put % 251) as u8; 64 * 1024 - 1];
                output.extend_from_slice(&piece);
                put += 1;
            }
            let len = 60_000 + usize::from(number.next().unwrap_or_default());
            let piece = &output.unsent()[..len];
            // Every byte says which piece it was put in with.
            let expected = |at: u64| ((at / (64 * 1024 - 1)) % 251) as u8;
            assert_eq!(
                (piece[0], piece[len - 1]),
                (expected(sent), expected(sent + len as u64 - 1))
            );
            output.advance(len);
            sent += len as u64;
            assert!(output.len() <= 2 * 1024 * 1024, "{} bytes are held", output.len());
            assert!(output.capacity() <= 4 * 1024 * 1024, "room for {}", output.capacity());
        }
    }

    #[test]
    fn it_is_done_when_all_is_sent_and_flushed() {
        let mut output = Output::new();
        assert!(output.is_done());
        output.extend_from_slice(b"one two");
        output.advance(4);
        assert_eq!((output.unsent(), output.backlog()), (&b"two"[..], 3));
        output.advance(99);
        assert!(output.is_empty() && !output.is_done());
        output.flushed();
        assert!(output.is_done());
    }

    #[test]
    fn what_is_taken_was_not_sent() {
        let mut output = Output::new();
        output.extend_from_slice(b"one two");
        output.advance(4);
        assert_eq!(output.take(), b"two");
        assert!(output.is_empty() && output.unsent().is_empty());
    }
}
